//! Arithmetic on lists of amounts, resource by resource.
//!
//! What a list does not name is no amount at all, not zero: a quota that does not limit a
//! resource has no say in it. Source: `k8s.io/apiserver/pkg/quota/v1/resources.go`,
//! Kubernetes 1.36.

use outrank_api::quantity::{Format, Quantity};
use outrank_api::types::ResourceList;

/// The amounts of both lists together.
pub(super) fn sum(left: &ResourceList, right: &ResourceList) -> ResourceList {
    let mut sum = left.clone();
    for (name, amount) in right {
        match sum.get_mut(name) {
            Some(total) => *total += amount,
            None => {
                sum.insert(name.clone(), amount.clone());
            }
        }
    }
    sum
}

/// What `after` has more than `before`; zero where it has less.
pub(super) fn increase(after: &ResourceList, before: &ResourceList) -> ResourceList {
    let grown = after.iter().map(|(name, amount)| {
        let mut grown = amount.clone();
        if let Some(old) = before.get(name) {
            grown -= old;
        }
        let grown = if grown.sign() > 0 { grown } else { count(0) };
        (name.clone(), grown)
    });
    grown.collect()
}

/// The amounts of those resources that `names` has, too.
pub(super) fn of_names_in(amounts: &ResourceList, names: &ResourceList) -> ResourceList {
    let mut kept = amounts.clone();
    kept.retain(|name, _| names.contains_key(name));
    kept
}

/// The amounts that are not zero.
pub(super) fn without_zeros(amounts: &ResourceList) -> ResourceList {
    let mut kept = amounts.clone();
    kept.retain(|_, amount| !amount.is_zero());
    kept
}

/// A number of objects.
pub(super) fn count(number: i64) -> Quantity {
    Quantity::from_value(number, Format::DecimalSi)
}

/// Amounts for people: `cpu=1,pods=2`, in the order of names.
pub(super) fn shown(amounts: &ResourceList) -> String {
    let shown = amounts
        .iter()
        .map(|(name, amount)| format!("{name}={amount}"));
    shown.collect::<Vec<_>>().join(",")
}

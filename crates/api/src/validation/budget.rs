//! PodDisruptionBudgets.
//!
//! Source: `pkg/apis/policy/validation/validation.go`, Kubernetes 1.36.

use serde_json::Value;

use super::errors::{Errors, at_most_all, count_or_percent};
use super::selector::label_selector;
use super::workload::go_struct;
use crate::diagnostic::Here;
use crate::field_error::{BadValue, go_json};
use crate::fields_of::FieldsOf;

/// Checks the spec of a budget.
pub(super) fn budget(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let counts = ["minAvailable", "maxUnavailable"];
    if counts.iter().all(|field| spec.part(field).is_some()) {
        let fields = [
            "minAvailable",
            "selector",
            "maxUnavailable",
            "unhealthyPodEvictionPolicy",
        ];
        let shown = go_struct(spec, &fields, |_, value| go_json(value));
        let rule = "minAvailable and maxUnavailable cannot be both set";
        errors.invalid(here, BadValue::json(shown), rule);
    }
    for field in counts {
        if let Some(count) = spec.part(field) {
            count_or_percent(count, &here.field(field), errors);
            at_most_all(count, &here.field(field), errors);
        }
    }
    label_selector(spec, "selector", here, errors);
    if let Some(policy) = spec.some_text("unhealthyPodEvictionPolicy") {
        let here = here.field("unhealthyPodEvictionPolicy");
        errors.word(policy, &["AlwaysAllow", "IfHealthyBudget"], &here);
    }
}

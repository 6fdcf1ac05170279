//! Groups and versions in the order in which discovery tells of them.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use outrank_api::resource_type::ResourceType;

/// The types of a group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: String,
    /// The preferred version first.
    pub(super) versions: Vec<GroupVersion>,
}

/// The types of a version of a group.
#[derive(Clone, Debug)]
pub(super) struct GroupVersion {
    pub(super) name: String,
    pub(super) types: Vec<Arc<ResourceType>>,
}

/// Groups of types: those of Kubernetes as they come, then all others by name. The versions of a
/// group stand from the most stable and newest to the least.
///
/// Upstream has a number for each group and version; the order is the same
/// (`kube-aggregator/pkg/apis/apiregistration/v1/helper/helpers.go`, Kubernetes 1.36).
pub(super) fn groups(types: &[Arc<ResourceType>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for it in types {
        let group = find_or_add(
            &mut groups,
            |group| group.name == it.group,
            || Group {
                name: it.group.clone(),
                versions: Vec::new(),
            },
        );
        let version = find_or_add(
            &mut group.versions,
            |own| own.name == it.version,
            || GroupVersion {
                name: it.version.clone(),
                types: Vec::new(),
            },
        );
        version.types.push(Arc::clone(it));
    }
    for group in &mut groups {
        group
            .versions
            .sort_by(|left, right| compare_versions(&left.name, &right.name));
    }
    groups.sort_by(by_rank);
    groups
}

/// Groups of Kubernetes keep their order and are first; all others are sorted by name.
fn by_rank(left: &Group, right: &Group) -> Ordering {
    match (is_of_kubernetes(&left.name), is_of_kubernetes(&right.name)) {
        (true, true) => Ordering::Equal,
        (false, false) => left.name.cmp(&right.name),
        (left, right) => right.cmp(&left),
    }
}

fn is_of_kubernetes(group: &str) -> bool {
    static GROUPS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
        let types = ResourceType::built_in().iter();
        types.map(|it| it.group.as_str()).collect()
    });
    GROUPS.contains(group)
}

fn find_or_add<T>(
    list: &mut Vec<T>,
    is_it: impl Fn(&T) -> bool,
    make: impl FnOnce() -> T,
) -> &mut T {
    let place = list.iter().position(is_it).unwrap_or_else(|| {
        list.push(make());
        list.len() - 1
    });
    &mut list[place]
}

/// Which version is named first: `v2`, `v1`, `v2beta1`, `v1beta2`, `v1alpha1`, and then, by
/// name, those that are none of these forms (`apimachinery/pkg/version/helpers.go`).
pub(super) fn compare_versions(left: &str, right: &str) -> Ordering {
    match (parse_version(left), parse_version(right)) {
        (Some(own), Some(other)) => other.cmp(&own),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

/// Stability (stable 2, beta 1, alpha 0), major and minor number.
fn parse_version(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest
        .find(|it: char| !it.is_ascii_digit())
        .unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let major = major.parse().ok()?;
    let number = |text: &str| {
        text.bytes()
            .all(|it| it.is_ascii_digit())
            .then(|| text.parse().ok())?
    };
    if rest.is_empty() {
        Some((2, major, 0))
    } else if let Some(minor) = rest.strip_prefix("beta") {
        Some((1, major, number(minor)?))
    } else {
        Some((0, major, number(rest.strip_prefix("alpha")?)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_before_newer_ones_that_are_not() {
        let sorted = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v",
            "v1beta",
            "v1x",
        ];
        let mut versions = sorted;
        versions.reverse();
        versions.sort_by(|left, right| compare_versions(left, right));
        assert_eq!(versions, sorted);
    }
}

//! What a claim to devices uses of a quota: itself, and devices by class
//! (`gpu.deviceclass.resource.k8s.io/devices`).
//!
//! Devices of a class can also be requested by pods as an extended resource, under a name made
//! of the class or one that the class gives. So that neither way leads around a quota on the
//! other, they count under these names, too. Source:
//! `pkg/quota/v1/evaluator/core/resource_claims.go`, Kubernetes 1.36.
//!
//! Left out: claims that a scheduler makes itself for extended resources of a pod, which
//! upstream counts only as far as the pod is not charged already. Nobody makes such claims here.

use std::collections::BTreeMap;

use outrank_api::types::{ExactDeviceRequest, ResourceClaim, ResourceList};

use super::amounts::count;
use super::pods::{DEVICE_CLASS, is_extended_request, request_name};

const COUNT_NAME: &str = "count/resourceclaims.resource.k8s.io";
const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// Upstream's `AllocationResultsMaxSize`: no claim is given more devices.
const DEVICES_MAX: i64 = 32;

/// A claim to devices, with what must be known beside it.
#[derive(Clone, Copy, Debug)]
pub struct DevicesClaimed<'o> {
    /// The claim.
    pub claim: &'o ResourceClaim,
    /// Names of extended resources (`spec.extendedResourceName`) by DeviceClass.
    pub extended_resources: &'o BTreeMap<String, String>,
}

impl DevicesClaimed<'_> {
    /// Whether the name is one of something that this claim could use: of extended resources, only
    /// those that stand for devices.
    pub(super) fn is_limited_by(&self, name: &str) -> bool {
        let stands_for_devices = |name: &str| {
            let resource = name.strip_prefix("requests.").unwrap_or(name);
            resource.starts_with(DEVICE_CLASS)
                || self.extended_resources.values().any(|it| it == resource)
        };
        is_limited_by(name) && (!is_extended_request(name) || stands_for_devices(name))
    }
}

/// Whether the name is one of something that claims use.
pub(super) fn is_limited_by(name: &str) -> bool {
    name == COUNT_NAME || name.ends_with(OF_CLASS) || is_extended_request(name)
}

/// What the claim uses.
pub(super) fn usage(claimed: &DevicesClaimed<'_>) -> ResourceList {
    let mut usage = BTreeMap::from([(COUNT_NAME.to_owned(), 1)]);
    for request in &claimed.claim.spec.devices.requests {
        let ways = match request.first_available.as_slice() {
            [] => request.exactly.as_slice(),
            ways => ways,
        };
        for (class, devices) in most_by_class(ways) {
            let mut add = |name: String| {
                let total: &mut i64 = usage.entry(name).or_default();
                *total = total.saturating_add(devices);
            };
            add(format!("{class}{OF_CLASS}"));
            add(request_name(&format!("{DEVICE_CLASS}{class}")));
            if let Some(resource) = claimed.extended_resources.get(class) {
                add(request_name(resource));
            }
        }
    }
    let usage = usage.into_iter();
    usage.map(|(name, number)| (name, count(number))).collect()
}

/// The most devices of each class that any of the ways takes.
fn most_by_class(ways: &[ExactDeviceRequest]) -> BTreeMap<&str, i64> {
    let mut most: BTreeMap<&str, i64> = BTreeMap::new();
    for way in ways {
        let devices = match way.allocation_mode.as_str() {
            "" | "ExactCount" => way.count.unwrap_or(1),
            "All" => DEVICES_MAX,
            // Of a later release: nobody can say how many.
            _ => 0,
        };
        let so_far = most.entry(&way.device_class_name).or_default();
        *so_far = devices.max(*so_far);
    }
    most
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn used(requests: Value) -> BTreeMap<String, String> {
        let claim = json!({"spec": {"devices": {"requests": requests}}});
        let claim = serde_json::from_value(claim).unwrap();
        let names = ("gpu".to_owned(), "example.com/gpu".to_owned());
        let usage = usage(&DevicesClaimed {
            claim: &claim,
            extended_resources: &BTreeMap::from([names]),
        });
        let usage = usage.into_iter();
        usage
            .map(|(name, amount)| (name, amount.to_string()))
            .collect()
    }

    #[test]
    fn devices_count_under_all_their_names() {
        let used = used(json!([
            {"name": "a", "exactly": {"deviceClassName": "gpu", "count": 2}},
            {"name": "b", "exactly": {"deviceClassName": "nic", "allocationMode": "All"}},
        ]));
        let expected = [
            ("count/resourceclaims.resource.k8s.io", "1"),
            ("gpu.deviceclass.resource.k8s.io/devices", "2"),
            ("nic.deviceclass.resource.k8s.io/devices", "32"),
            ("requests.deviceclass.resource.kubernetes.io/gpu", "2"),
            ("requests.deviceclass.resource.kubernetes.io/nic", "32"),
            ("requests.example.com/gpu", "2"),
        ];
        let expected = expected.map(|(name, number)| (name.to_owned(), number.to_owned()));
        assert_eq!(used, BTreeMap::from(expected));
        assert!(used.keys().all(|name| is_limited_by(name)));
    }

    #[test]
    fn a_limit_on_an_extended_resource_is_one_on_devices_if_a_class_says_so() {
        let claim = ResourceClaim::default();
        let names = ("gpu".to_owned(), "example.com/gpu".to_owned());
        let claimed = DevicesClaimed {
            claim: &claim,
            extended_resources: &BTreeMap::from([names]),
        };
        let is_limited = |name: &str| claimed.is_limited_by(name);
        assert!(is_limited("requests.example.com/gpu"));
        assert!(is_limited(
            "requests.deviceclass.resource.kubernetes.io/nic"
        ));
        assert!(!is_limited("requests.example.com/fpga"));
        assert!(!is_limited("requests.cpu"));
    }

    #[test]
    fn of_several_ways_the_worst_counts() {
        let used = used(json!([{"name": "a", "firstAvailable": [
            {"name": "x", "deviceClassName": "gpu", "count": 2},
            {"name": "y", "deviceClassName": "gpu"},
            {"name": "z", "deviceClassName": "nic", "allocationMode": "Later"},
        ]}]));
        assert_eq!(used["gpu.deviceclass.resource.k8s.io/devices"], "2");
        assert_eq!(used["nic.deviceclass.resource.k8s.io/devices"], "0");
    }
}

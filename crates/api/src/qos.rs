//! The quality-of-service class of a pod: who is evicted first when a node runs short.
//!
//! Only cpu and memory count. Source: `pkg/apis/core/v1/helper/qos`, Kubernetes 1.36
//! with its default gates (PodLevelResources on).

use std::fmt;

use crate::types::{Pod, ResourceList, ResourceRequirements};

/// The class of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QosClass {
    /// Requests or limits nothing.
    BestEffort,
    /// Everything in between.
    Burstable,
    /// Limits cpu and memory everywhere and requests just as much.
    Guaranteed,
}

impl QosClass {
    /// The API's name of the class.
    pub fn name(self) -> &'static str {
        match self {
            QosClass::BestEffort => "BestEffort",
            QosClass::Burstable => "Burstable",
            QosClass::Guaranteed => "Guaranteed",
        }
    }
}

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The class of a pod: as its status says, or else computed from its spec.
pub fn qos_class(pod: &Pod) -> QosClass {
    match pod.status.qos_class.as_str() {
        "BestEffort" => QosClass::BestEffort,
        "Burstable" => QosClass::Burstable,
        "Guaranteed" => QosClass::Guaranteed,
        _ => computed_qos_class(pod),
    }
}

/// The class of a pod computed from its spec: from the resources of the pod as a whole
/// if it has any, or else from its containers and init containers.
pub fn computed_qos_class(pod: &Pod) -> QosClass {
    let mut totals = Totals::default();
    match &pod.spec.resources {
        Some(resources) => {
            totals.add(resources);
            // Without pod-level limits nothing is found missing here, but the requests,
            // if any, are then found to be without limits.
            totals.some_limit_missing &= !resources.limits.is_empty();
        }
        None => {
            for container in pod.spec.containers.iter().chain(&pod.spec.init_containers) {
                totals.add(&container.resources);
            }
        }
    }
    if totals.requests.is_empty() && totals.limits.is_empty() {
        QosClass::BestEffort
    } else if !totals.some_limit_missing && totals.requests == totals.limits {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

/// Sums of the positive amounts of cpu and memory.
#[derive(Default)]
struct Totals {
    requests: ResourceList,
    limits: ResourceList,
    some_limit_missing: bool,
}

impl Totals {
    fn add(&mut self, resources: &ResourceRequirements) {
        add_positive(&mut self.requests, &resources.requests);
        let limited = add_positive(&mut self.limits, &resources.limits);
        self.some_limit_missing |= limited < QOS_RESOURCES.len();
    }
}

const QOS_RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Adds the positive amounts that count, and says how many there were.
fn add_positive(totals: &mut ResourceList, amounts: &ResourceList) -> usize {
    let mut count = 0;
    for name in QOS_RESOURCES {
        if let Some(amount) = amounts.get(name).filter(|amount| amount.sign() > 0) {
            *totals.entry(name.to_owned()).or_default() += amount;
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn class(spec: Value) -> QosClass {
        let pod = serde_json::from_value(serde_json::json!({ "spec": spec })).unwrap();
        qos_class(&pod)
    }

    #[test]
    fn classes() {
        let both = serde_json::json!({ "cpu": "1", "memory": "1Gi" });
        fn resources(requests: &Value, limits: &Value) -> Value {
            serde_json::json!({ "requests": requests, "limits": limits })
        }
        let none = serde_json::json!({});
        let zero = serde_json::json!({ "cpu": "0" });
        for (resources, expected) in [
            (resources(&none, &none), QosClass::BestEffort),
            (resources(&zero, &none), QosClass::BestEffort),
            (resources(&both, &none), QosClass::Burstable),
            (resources(&none, &both), QosClass::Burstable),
            (resources(&both, &both), QosClass::Guaranteed),
        ] {
            let containers = serde_json::json!({ "containers": [{ "resources": resources }] });
            assert_eq!(class(containers), expected, "{resources}");
            let pod_level = serde_json::json!({
                "containers": [{ "resources": { "requests": { "cpu": "1" } } }],
                "resources": resources,
            });
            assert_eq!(class(pod_level), expected, "pod-level {resources}");
        }
    }

    #[test]
    fn the_status_wins() {
        let pod = serde_json::json!({ "status": { "qosClass": "Guaranteed" } });
        assert_eq!(
            qos_class(&serde_json::from_value(pod).unwrap()),
            QosClass::Guaranteed
        );
    }
}

//! What a pod asks for, and what it holds once it is placed.
//!
//! The formula of KEP-753 (sidecar containers), for each resource by itself:
//!
//! * while the pod runs: the sum over containers and sidecars;
//! * while init container `i` runs: its own amount and the sum over the sidecars before it;
//! * the pod needs the largest of these. An amount for the pod as a whole, if there is
//!   one, replaces it. The overhead is added.
//!
//! A pod that is placed may be resized in place: what is in force and what the node has
//! granted are then held too (`k8s.io/component-helpers/resource`, Kubernetes 1.36).

use std::collections::{BTreeMap, BTreeSet};

use outrank_api::quantity::Quantity;
use outrank_api::types::{Container, Pod, ResourceList};

/// Amounts by resource, in the units in which the scheduler counts: [`units`].
pub(crate) type Units = BTreeMap<String, i128>;

/// What a pod asks for by its spec.
pub(crate) fn asked(pod: &Pod) -> Units {
    total(pod, false)
}

/// What a pod holds where it is placed.
pub(crate) fn held(pod: &Pod) -> Units {
    total(pod, true)
}

/// An amount in thousandths of cpu, else in whole units, rounded up. `None` for resources
/// that nodes are not asked for.
pub(crate) fn units(resource: &str, amount: &Quantity) -> Option<i128> {
    let counted = matches!(resource, "memory" | "ephemeral-storage" | "pods")
        || resource.starts_with("hugepages-")
        || resource.starts_with("attachable-volumes-")
        || (resource.contains('/') && !resource.starts_with("requests."));
    match resource {
        "cpu" => Some(i128::from(amount.milli_value())),
        _ => counted.then(|| i128::from(amount.value())),
    }
}

fn total(pod: &Pod, placed: bool) -> Units {
    resource_names(pod)
        .into_iter()
        .filter_map(|resource| {
            Some((
                resource.to_owned(),
                units(resource, &amount(pod, resource, placed))?,
            ))
        })
        .collect()
}

/// Every resource that any part of the pod names.
fn resource_names(pod: &Pod) -> BTreeSet<&str> {
    let spec = &pod.spec;
    let containers = spec.init_containers.iter().chain(&spec.containers);
    let mut lists: Vec<&ResourceList> = containers
        .map(|container| &container.resources.requests)
        .collect();
    let statuses = pod
        .status
        .init_container_statuses
        .iter()
        .chain(&pod.status.container_statuses);
    for status in statuses {
        lists.push(&status.allocated_resources);
        lists.extend(
            status
                .resources
                .as_ref()
                .map(|resources| &resources.requests),
        );
    }
    lists.extend(spec.resources.as_ref().map(|resources| &resources.requests));
    lists.push(&spec.overhead);
    lists
        .into_iter()
        .flat_map(|list| list.keys().map(String::as_str))
        .collect()
}

/// The amount of one resource that the pod needs.
fn amount(pod: &Pod, resource: &str, placed: bool) -> Quantity {
    let spec = &pod.spec;
    let of_container = |container: &Container| {
        let requests = &container.resources.requests;
        if placed {
            resized_container(pod, container, requests.get(resource), resource)
        } else {
            of(requests.get(resource))
        }
    };
    let mut sidecars = Quantity::default();
    let mut largest_stage = Quantity::default();
    for container in &spec.init_containers {
        if container.is_sidecar() {
            sidecars += of_container(container);
        } else {
            // It does not run any more when the pod is resized.
            let mut stage = of(container.resources.requests.get(resource));
            stage += &sidecars;
            largest_stage = largest_stage.max(stage);
        }
    }
    let mut running = sidecars;
    for container in &spec.containers {
        running += of_container(container);
    }
    let mut needed = running.max(largest_stage);
    if let Some(whole) = of_whole_pod(pod, resource, placed) {
        needed = whole;
    }
    needed += of(spec.overhead.get(resource));
    needed
}

/// What is asked for the pod as a whole: cpu, memory and huge pages only.
fn of_whole_pod(pod: &Pod, resource: &str, placed: bool) -> Option<Quantity> {
    let possible = matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-");
    let whole = pod
        .spec
        .resources
        .as_ref()?
        .requests
        .get(resource)
        .filter(|_| possible)?;
    match &pod.status.resources {
        Some(in_force) if placed => {
            let granted = pod.status.allocated_resources.get(resource);
            Some(resized(
                pod,
                Some(whole),
                in_force.requests.get(resource),
                granted,
            ))
        }
        _ => Some(whole.clone()),
    }
}

fn resized_container(
    pod: &Pod,
    container: &Container,
    asked: Option<&Quantity>,
    resource: &str,
) -> Quantity {
    let statuses = pod
        .status
        .init_container_statuses
        .iter()
        .chain(&pod.status.container_statuses);
    let status = statuses
        .into_iter()
        .find(|status| status.name == container.name);
    match status.and_then(|status| Some((status, status.resources.as_ref()?))) {
        Some((status, in_force)) => {
            let granted = status.allocated_resources.get(resource);
            resized(pod, asked, in_force.requests.get(resource), granted)
        }
        None => of(asked),
    }
}

/// The largest of what is asked for, in force and granted; what is asked for does not
/// count when the node has said that it can never grant it.
fn resized(
    pod: &Pod,
    asked: Option<&Quantity>,
    in_force: Option<&Quantity>,
    granted: Option<&Quantity>,
) -> Quantity {
    let pending = pod
        .status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "PodResizePending");
    let infeasible = pending.is_some_and(|condition| condition.reason == "Infeasible");
    let held = of(in_force).max(of(granted));
    if infeasible {
        held
    } else {
        held.max(of(asked))
    }
}

fn of(amount: Option<&Quantity>) -> Quantity {
    amount.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(spec: Value, status: Value) -> Pod {
        serde_json::from_value(json!({ "spec": spec, "status": status })).unwrap()
    }

    fn container(name: &str, cpu: &str) -> Value {
        json!({ "name": name, "resources": { "requests": { "cpu": cpu } } })
    }

    fn sidecar(name: &str, cpu: &str) -> Value {
        let mut sidecar = container(name, cpu);
        sidecar["restartPolicy"] = json!("Always");
        sidecar
    }

    fn cpu(spec: Value) -> i128 {
        asked(&pod(spec, json!({})))["cpu"]
    }

    #[test]
    fn containers_add_up() {
        assert_eq!(
            cpu(json!({ "containers": [container("a", "1"), container("b", "250m")] })),
            1250
        );
    }

    #[test]
    fn the_largest_stage_counts() {
        let spec = json!({
            "initContainers": [container("i", "3"), sidecar("s", "1"), container("j", "2500m")],
            "containers": [container("c", "2")],
        });
        // Stages: 3; 1 + 2.5 beside the sidecar; 1 + 2 while it runs.
        assert_eq!(cpu(spec), 3500);
    }

    #[test]
    fn a_later_sidecar_does_not_run_beside_an_init_container() {
        let spec = json!({
            "initContainers": [container("i", "3"), sidecar("s", "1")],
            "containers": [container("c", "500m")],
        });
        assert_eq!(cpu(spec), 3000);
    }

    #[test]
    fn pod_level_replaces_and_overhead_adds() {
        let spec = json!({
            "containers": [container("c", "2")],
            "resources": { "requests": { "cpu": "3", "nvidia.com/gpu": "7" } },
            "overhead": { "cpu": "250m", "memory": "64Mi" },
        });
        let asked = asked(&pod(spec, json!({})));
        assert_eq!(asked["cpu"], 3250);
        assert_eq!(asked["memory"], 64 << 20);
        assert_eq!(
            asked["nvidia.com/gpu"], 0,
            "devices are asked for by containers"
        );
    }

    #[test]
    fn a_resize_holds_the_largest_amount() {
        let spec = json!({ "containers": [container("c", "1")] });
        let status = json!({ "containerStatuses": [{
            "name": "c",
            "resources": { "requests": { "cpu": "2" } },
            "allocatedResources": { "cpu": "1500m" },
        }]});
        assert_eq!(held(&pod(spec.clone(), status.clone()))["cpu"], 2000);
        assert_eq!(asked(&pod(spec, status))["cpu"], 1000);
    }

    #[test]
    fn an_infeasible_resize_is_not_held() {
        let spec = json!({ "containers": [container("c", "9")] });
        let status = json!({
            "conditions": [{ "type": "PodResizePending", "reason": "Infeasible" }],
            "containerStatuses": [{
                "name": "c",
                "resources": { "requests": { "cpu": "2" } },
                "allocatedResources": { "cpu": "2" },
            }],
        });
        assert_eq!(held(&pod(spec, status))["cpu"], 2000);
    }

    #[test]
    fn amounts_round_up_once() {
        let requests = json!({ "memory": "100m", "foo": "1", "example.com/x": "1500m" });
        let container = json!({ "name": "c", "resources": { "requests": requests } });
        let asked = asked(&pod(
            json!({ "containers": [container, container] }),
            json!({}),
        ));
        assert_eq!(asked["memory"], 1);
        assert_eq!(asked["example.com/x"], 3);
        assert!(!asked.contains_key("foo"));
    }
}

//! What a kubelet admits, and whom it evicts for a critical pod.

use std::cell::Cell;

use outrank_api::qos::qos_class;
use outrank_api::types::{Node, Pod};
use outrank_node::admit::{Failure, Verdict, admit};
use outrank_node::criticality::is_critical_pod;
use outrank_node::preemption::{Recovery, freed, mark_preempted, recover};
use outrank_node::{ActivePods, PodNumber};
use serde_json::{Value, json};

use super::field;

/// Our answer to an operation; `None` if the topic is not one of these.
pub(super) fn answer(topic: &str, op: &str, input: &Value) -> Option<Result<Value, String>> {
    Some(match (topic, op) {
        ("kubelet-admit", "Admit") => admission(input),
        ("kubelet-preemption", "HandleAdmissionFailure") => preemption(input),
        _ => return None,
    })
}

fn admission(input: &Value) -> Result<Value, String> {
    let (pod, node): (Pod, Node) = (field(input, "pod")?, field(input, "node")?);
    let fresh: Option<Node> = field(input, "freshNode")?;
    let others: Option<Vec<Pod>> = field(input, "otherPods")?;
    let others = others.unwrap_or_default();
    // What serves both is one object, in which the kubelet corrects the system label.
    let mut corrected = node.clone();
    let labels = &mut corrected.metadata.labels;
    if !labels.is_empty() {
        labels.insert("kubernetes.io/os".to_owned(), "linux".to_owned());
    }
    let fresh = fresh.unwrap_or(corrected);
    let reads = Cell::new(0);
    let active_pods: ActivePods = others.iter().cloned().collect();
    let verdict = admit(&pod, &node, &active_pods, || {
        reads.set(reads.get() + 1);
        Some(&fresh)
    });
    let mut answer = json!({
        "critical": is_critical_pod(&pod),
        "uncachedNodeReads": reads.get(),
    });
    match verdict {
        Verdict::Admitted { victims } => {
            let name = |number: &PodNumber| others[*number as usize].key();
            answer["admit"] = json!(true);
            answer["victims"] = victims.iter().map(name).collect();
        }
        Verdict::Refused(refusal) => {
            answer["admit"] = json!(false);
            answer["reason"] = json!(refusal.reason);
            answer["message"] = json!(refusal.message);
        }
    }
    Ok(answer)
}

fn preemption(input: &Value) -> Result<Value, String> {
    let pod: Pod = field(input, "admitPod")?;
    let active: Option<Vec<Pod>> = field(input, "activePods")?;
    let active = active.unwrap_or_default();
    let failures: Vec<Value> = field(input, "failures")?;
    let failures = failures
        .iter()
        .map(failure)
        .collect::<Result<Vec<_>, _>>()?;
    let resources: Vec<String> = failures
        .iter()
        .filter_map(|failure| match failure {
            Failure::InsufficientResource { resource, .. } => Some(resource.clone()),
            Failure::Predicate { .. } => None,
        })
        .collect();
    let mut answer = json!({ "critical": is_critical_pod(&pod) });
    let pods: Vec<&Pod> = active.iter().collect();
    match recover(&pod, &pods, failures) {
        Ok(Recovery::Evict(places)) => {
            let victims = places
                .iter()
                .map(|place| victim(&active[*place], &resources));
            answer["victims"] = victims.collect();
        }
        Ok(Recovery::Reject(failures)) => {
            answer["remainingReasons"] = failures.iter().map(failure_json).collect();
        }
        Err(error) => answer["error"] = json!(error),
    }
    Ok(answer)
}

fn failure(recorded: &Value) -> Result<Failure, String> {
    let Some(lack) = recorded.get("insufficientResource") else {
        return Ok(Failure::Predicate {
            name: field::<String>(recorded, "predicateName")?.into(),
            description: field::<String>(recorded, "predicateDesc")?.into(),
        });
    };
    let amount = |name| field::<Option<i64>>(lack, name).map(Option::unwrap_or_default);
    Ok(Failure::InsufficientResource {
        resource: field(lack, "resource")?,
        requested: amount("requested")?,
        used: amount("used")?,
        capacity: amount("capacity")?,
    })
}

fn failure_json(failure: &Failure) -> Value {
    match failure {
        Failure::InsufficientResource {
            resource,
            requested,
            used,
            capacity,
        } => json!({ "insufficientResource": {
            "resource": resource, "requested": requested, "used": used, "capacity": capacity,
        }}),
        Failure::Predicate { name, description } => {
            json!({ "predicateName": name, "predicateDesc": description })
        }
    }
}

fn victim(pod: &Pod, resources: &[String]) -> Value {
    let mut status = pod.status.clone();
    mark_preempted(&mut status, None);
    let requests: serde_json::Map<String, Value> = resources
        .iter()
        .map(|name| (name.clone(), json!(freed(pod, name))))
        .collect();
    json!({
        "pod": pod.key(),
        "phase": status.phase,
        "reason": status.reason,
        "message": status.message,
        "condition": status.conditions.last(),
        "qosClass": qos_class(pod).name(),
        "requests": requests,
    })
}

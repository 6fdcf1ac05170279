//! What a simulation says: plain data, stable as JSON.

use std::collections::BTreeMap;

use outrank_api::types::Pod;
use outrank_engine::PodState;
use serde::Serialize;

use super::{Entry, Simulation};
use crate::scenario::owner_of;

/// What has happened by a time, and how things are then. Fields are only ever added.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulationReport {
    /// How long it was, in seconds.
    pub seconds: f64,
    /// Pods by phase at the end; those that are being deleted count as `Terminating`.
    pub pods: BTreeMap<String, usize>,
    /// Pods that run, by node, at the end.
    pub running: BTreeMap<String, usize>,
    /// Pods that have no node at the end, by namespace and name.
    pub waiting: Vec<WaitingPod>,
    /// All that happened, in its order.
    pub timeline: Vec<Entry>,
}

/// A pod that has no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingPod {
    /// `namespace/name`.
    pub pod: String,
    /// `Kind/name` of its controller.
    pub owner: Option<String>,
    /// Its priority.
    pub priority: i32,
    /// kube-scheduler's message.
    pub message: String,
}

impl Simulation {
    /// What has happened so far, and how things are.
    pub fn report(&self) -> SimulationReport {
        let mut report = SimulationReport {
            seconds: self.timeline.seconds_at(self.cluster.now()),
            timeline: self.timeline.entries().to_vec(),
            ..SimulationReport::default()
        };
        for pod in self.cluster.all::<Pod>() {
            let phase = match pod.metadata.deletion_timestamp {
                Some(_) => "Terminating",
                None => pod.status.phase.as_str(),
            };
            *report.pods.entry(phase.to_owned()).or_default() += 1;
            let node = &pod.spec.node_name;
            if phase == "Running" {
                *report.running.entry(node.clone()).or_default() += 1;
            }
            if node.is_empty() && !pod.is_finished() && phase != "Terminating" {
                report.waiting.push(self.waiting(pod));
            }
        }
        report
    }

    fn waiting(&self, pod: &Pod) -> WaitingPod {
        let engine = self.scheduler.engine();
        let id = engine.pod(&pod.metadata.namespace, &pod.metadata.name);
        let message = match id.and_then(|id| engine.pod_state(id)) {
            Some(PodState::Unschedulable(diagnosis)) => diagnosis.message(engine.cluster()),
            Some(PodState::Error(error)) => error.to_string(),
            Some(PodState::Gated(refusal)) => {
                let reasons = refusal.reasons.iter();
                let texts = reasons.map(|reason| reason.text(engine.cluster()));
                texts.collect::<Vec<_>>().join(", ")
            }
            Some(PodState::Ignored) => {
                format!("is left to the scheduler {}", pod.spec.scheduler_name)
            }
            Some(PodState::Placed(_) | PodState::OnUnknownNode(_)) => {
                "waits for its volumes".to_owned()
            }
            Some(PodState::Queued) | None => "was not tried".to_owned(),
        };
        WaitingPod {
            pod: pod.key(),
            owner: owner_of(pod),
            priority: pod.spec.priority.unwrap_or(0),
            message,
        }
    }
}

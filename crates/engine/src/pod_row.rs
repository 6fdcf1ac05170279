//! What the engine keeps of each pod.

use outrank_api::time::unix_nanos;
use outrank_api::types::Pod;

use crate::cluster::{OwnerKey, PodUsage};
use crate::engine::PodState;
use crate::ids::{ClassId, Interner, PodId, Symbol};
use crate::queue::QueueState;

/// One pod.
pub(crate) struct PodRow {
    pub(crate) namespace: Symbol,
    pub(crate) name: Symbol,
    pub(crate) class: ClassId,
    pub(crate) usage: u32,
    pub(crate) standing: Standing,
    /// Place in the list of pods of the node.
    pub(crate) position: u32,
    pub(crate) state: PodState,
    pub(crate) queue: QueueState,
    pub(crate) nominated_node: Option<Symbol>,
    /// Whether the pod's status says that it is nominated.
    pub(crate) is_nomination_told: bool,
    pub(crate) owner: Option<OwnerKey>,
}

/// What preemption reads of a pod, as preemptor and as victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) priority: i32,
    /// When the kubelet took the pod, in nanoseconds since 1970. Pods that it has not taken
    /// yet come after all others, as upstream's "now" does.
    pub(crate) started_nanos: i64,
    /// Whether the pod may preempt others (`preemptionPolicy` is not `Never`).
    pub(crate) preempts: bool,
    /// Whether it is being deleted because it was preempted.
    pub(crate) is_preempted: bool,
}

impl Standing {
    pub(crate) fn of(pod: &Pod) -> Self {
        let started = pod.status.start_time.as_deref();
        let mut conditions = pod.status.conditions.iter();
        let disrupted = conditions.find(|condition| condition.type_ == "DisruptionTarget");
        let by_scheduler =
            disrupted.is_some_and(|it| it.status == "True" && it.reason == "PreemptionByScheduler");
        Self {
            priority: priority(pod),
            started_nanos: started.and_then(unix_nanos).unwrap_or(i64::MAX),
            preempts: pod.spec.preemption_policy.as_deref() != Some("Never"),
            is_preempted: by_scheduler && pod.metadata.deletion_timestamp.is_some(),
        }
    }
}

/// The priority of a pod; 0 if nobody gave it one.
pub(crate) fn priority(pod: &Pod) -> i32 {
    pod.spec.priority.unwrap_or(0)
}

/// All pods, to look at.
#[derive(Clone, Copy)]
pub(crate) struct PodTable<'e> {
    pub(crate) rows: &'e [Option<PodRow>],
    pub(crate) usages: &'e Interner<PodUsage>,
}

impl<'e> PodTable<'e> {
    pub(crate) fn row(self, pod: PodId) -> Option<&'e PodRow> {
        self.rows.get(pod.index())?.as_ref()
    }

    /// What a pod takes of a node; `None` if there is no such pod.
    pub(crate) fn usage(self, pod: PodId) -> Option<&'e PodUsage> {
        let row = self.row(pod)?;
        Some(&self.usages[row.usage as usize])
    }

    /// Those of the pods nominated to a node that count when `pod` is filtered: others of the
    /// same or higher priority.
    pub(crate) fn counting(self, pod: PodId, nominated: &[PodId]) -> Vec<(PodId, &'e PodUsage)> {
        let priority = self.row(pod).map_or(0, |row| row.standing.priority);
        let others = nominated.iter().copied().filter(|other| *other != pod);
        let counting = others.filter_map(|other| {
            let row = self.row(other)?;
            let usage = &self.usages[row.usage as usize];
            (row.standing.priority >= priority).then_some((other, usage))
        });
        counting.collect()
    }
}

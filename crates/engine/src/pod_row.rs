//! What the engine keeps of each pod.

use outrank_api::pod_resources::gpus;
use outrank_api::time::unix_nanos;
use outrank_api::types::Pod;

use crate::cluster::{Cluster, OwnerKey, PodUsage};
use crate::engine::PodState;
use crate::ids::{ClassId, Interner, NodeId, PodId, Symbol, Symbols};
use crate::preemption::safety::{LAST_CHECKPOINT, NON_PREEMPTIBLE};
use crate::queue::{QueueState, TimeNanos};

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
    /// When no node took it for the first time.
    pub(crate) waits_since: Option<TimeNanos>,
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
    /// Whether it is being deleted at all.
    pub(crate) is_terminating: bool,
    /// Whether its `preemptionPolicy` is `NonPreemptible`.
    pub(crate) is_non_preemptible: bool,
    /// Its PriorityClass.
    pub(crate) class: Option<Symbol>,
    /// When it got its node, in nanoseconds since 1970; `None` if it does not say.
    pub(crate) scheduled_nanos: Option<u64>,
    /// When it last saved its work; `None` if it does not say.
    pub(crate) checkpoint_nanos: Option<u64>,
    /// GPUs that it holds.
    pub(crate) gpus: u64,
}

impl Standing {
    /// `reads_gpus` says whether somebody wants to know of GPUs, which takes time to count.
    pub(crate) fn of(pod: &Pod, reads_gpus: bool, symbols: &mut Symbols) -> Self {
        let started = pod.status.start_time.as_deref();
        let condition = |name: &str| {
            let mut conditions = pod.status.conditions.iter();
            conditions.find(|condition| condition.type_ == name)
        };
        let disrupted = condition("DisruptionTarget");
        let scheduled = condition("PodScheduled").filter(|it| it.status == "True");
        let scheduled = scheduled.and_then(|it| it.last_transition_time.as_deref());
        let checkpoint = pod.metadata.annotations.get(LAST_CHECKPOINT);
        let nanos = |text: &str| unix_nanos(text).and_then(|nanos| u64::try_from(nanos).ok());
        let policy = pod.spec.preemption_policy.as_deref();
        let class = pod.spec.priority_class_name.as_str();
        let by_scheduler =
            disrupted.is_some_and(|it| it.status == "True" && it.reason == "PreemptionByScheduler");
        Self {
            priority: priority(pod),
            started_nanos: started.and_then(unix_nanos).unwrap_or(i64::MAX),
            preempts: policy != Some("Never"),
            is_preempted: by_scheduler && pod.metadata.deletion_timestamp.is_some(),
            is_terminating: pod.metadata.deletion_timestamp.is_some(),
            is_non_preemptible: policy == Some(NON_PREEMPTIBLE),
            class: (!class.is_empty()).then(|| symbols.intern(class)),
            scheduled_nanos: scheduled.and_then(nanos),
            checkpoint_nanos: checkpoint.and_then(|text| nanos(text)),
            gpus: match reads_gpus {
                true => u64::try_from(gpus(pod)).unwrap_or(0),
                false => 0,
            },
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
    pub(crate) fn new(rows: &'e [Option<PodRow>], usages: &'e Interner<PodUsage>) -> Self {
        Self { rows, usages }
    }

    pub(crate) fn row(self, pod: PodId) -> Option<&'e PodRow> {
        self.rows.get(pod.index())?.as_ref()
    }

    /// What a pod takes of a node; `None` if there is no such pod.
    pub(crate) fn usage(self, pod: PodId) -> Option<&'e PodUsage> {
        let row = self.row(pod)?;
        Some(&self.usages[row.usage as usize])
    }

    /// The pods of a node below a priority, and what they take of it.
    pub(crate) fn below(
        self,
        priority: i32,
        cluster: &Cluster,
        node: NodeId,
    ) -> Vec<(PodId, &'e PodUsage)> {
        let pods = cluster.pods(node).iter();
        let lower = pods.filter_map(|pod| {
            let row = self.row(*pod)?;
            let usage = &self.usages[row.usage as usize];
            (row.standing.priority < priority).then_some((*pod, usage))
        });
        lower.collect()
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

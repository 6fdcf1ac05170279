//! From workloads to pods.
//!
//! [`reconcile`] looks at all workloads and pods of a cluster and says which pods their
//! controllers would create and which they would delete until every workload has what it
//! asks for. It answers what is there in the end and leaves out the way: rollouts count
//! as complete, pods that have to be ready before the next one is made count as ready,
//! back-off has passed, and a CronJob's next run is due.
//!
//! What each kind does:
//!
//! * **ReplicaSet**, **ReplicationController**: as many active pods as `replicas`; too
//!   many are deleted in the controllers' order of preference.
//! * **Deployment**: through a ReplicaSet, whose name ends with a hash of the template.
//!   If the input has that ReplicaSet (a dump has), it carries the replicas, and those of
//!   earlier templates go down to none. A ReplicaSet that belongs to a Deployment of the
//!   input makes no pods by itself.
//! * **StatefulSet**: pods with ordinals; each has claims of its own.
//! * **DaemonSet**: one pod for each node that the template fits, bound to it by node
//!   affinity.
//! * **Job**: `parallelism` pods at once, but no more than are left to complete.
//! * **CronJob**: the pods of its next job; jobs of earlier runs are Jobs of their own.
//!
//! A pod belongs to a workload if its controller reference says so, or if it has no
//! controller and matches the selector: then it is adopted.
//!
//! Limits of the answer: existing pods of StatefulSets and DaemonSets are kept even if
//! the template has changed since, because only the cluster's own revision history tells
//! old from new; templates are compared and hashed by the fields that
//! [`outrank_api::types`] holds.
//!
//! Sources, Kubernetes 1.36: `pkg/controller/{deployment,replicaset,statefulset,daemon,
//! job,cronjob}`, `pkg/controller/controller_utils.go`.

mod daemon_set;
mod deletion_order;
mod deployment;
mod existing;
mod job;
mod pods;
mod replacement;
mod replica_set;
mod stateful_set;

use std::fmt;

use outrank_api::decode::Object;
use outrank_api::types::{
    CronJob, DaemonSet, Deployment, Job, Node, ObjectMeta, Pod, ReplicaSet, ReplicationController,
    StatefulSet,
};

use self::existing::ExistingPods;
use self::pods::PodMaker;

pub(crate) use self::daemon_set::{Verdict, bound_to, daemon_tolerations, target_node, verdict};
pub(crate) use self::deletion_order::{daemon_pod_order, first_of_replica_set, sort_for_job};
pub(crate) use self::deployment::is_same;
pub(crate) use self::job::prefix_with_index;
pub use self::replacement::replacement;
pub(crate) use self::stateful_set::{is_member_of, ordinal_in, ordinals};

/// Pods that one call of [`reconcile`] creates at most.
///
/// A few bytes of input (`replicas: 2000000000`) must not be able to fill the memory.
pub const PODS_MAX: usize = 2_000_000;

/// An object from which a controller makes pods.
#[derive(Clone, Copy, Debug)]
pub enum Workload<'a> {
    /// `apps/v1` Deployment.
    Deployment(&'a Deployment),
    /// `apps/v1` ReplicaSet.
    ReplicaSet(&'a ReplicaSet),
    /// `v1` ReplicationController.
    ReplicationController(&'a ReplicationController),
    /// `apps/v1` StatefulSet.
    StatefulSet(&'a StatefulSet),
    /// `apps/v1` DaemonSet.
    DaemonSet(&'a DaemonSet),
    /// `batch/v1` Job.
    Job(&'a Job),
    /// `batch/v1` CronJob.
    CronJob(&'a CronJob),
}

impl<'a> Workload<'a> {
    /// The object as a workload, if it is one.
    pub fn of(object: &'a Object) -> Option<Self> {
        match object {
            Object::Deployment(it) => Some(Self::Deployment(it)),
            Object::ReplicaSet(it) => Some(Self::ReplicaSet(it)),
            Object::ReplicationController(it) => Some(Self::ReplicationController(it)),
            Object::StatefulSet(it) => Some(Self::StatefulSet(it)),
            Object::DaemonSet(it) => Some(Self::DaemonSet(it)),
            Object::Job(it) => Some(Self::Job(it)),
            Object::CronJob(it) => Some(Self::CronJob(it)),
            Object::Pod(_)
            | Object::Node(_)
            | Object::Namespace(_)
            | Object::PriorityClass(_)
            | Object::Service(_)
            | Object::PersistentVolume(_)
            | Object::PersistentVolumeClaim(_)
            | Object::StorageClass(_)
            | Object::CSINode(_)
            | Object::CSIDriver(_)
            | Object::CSIStorageCapacity(_)
            | Object::VolumeAttachment(_)
            | Object::PodDisruptionBudget(_)
            | Object::ResourceQuota(_)
            | Object::ControllerRevision(_)
            | Object::LimitRange(_)
            | Object::RuntimeClass(_) => None,
        }
    }

    /// The kind, as manifests write it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Deployment(_) => "Deployment",
            Self::ReplicaSet(_) => "ReplicaSet",
            Self::ReplicationController(_) => "ReplicationController",
            Self::StatefulSet(_) => "StatefulSet",
            Self::DaemonSet(_) => "DaemonSet",
            Self::Job(_) => "Job",
            Self::CronJob(_) => "CronJob",
        }
    }

    /// The group and version that owner references give for the kind.
    pub fn api_version(&self) -> &'static str {
        match self {
            Self::Deployment(_)
            | Self::ReplicaSet(_)
            | Self::StatefulSet(_)
            | Self::DaemonSet(_) => "apps/v1",
            Self::ReplicationController(_) => "v1",
            Self::Job(_) | Self::CronJob(_) => "batch/v1",
        }
    }

    /// The metadata.
    pub fn metadata(&self) -> &'a ObjectMeta {
        match self {
            Self::Deployment(it) => &it.metadata,
            Self::ReplicaSet(it) => &it.metadata,
            Self::ReplicationController(it) => &it.metadata,
            Self::StatefulSet(it) => &it.metadata,
            Self::DaemonSet(it) => &it.metadata,
            Self::Job(it) => &it.metadata,
            Self::CronJob(it) => &it.metadata,
        }
    }
}

/// What the controllers would do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reconciled {
    /// Pods to create, workload by workload in the order given. They are pending, have
    /// no creation time, and are as their controllers write them: not defaulted, not
    /// admitted. Pods of one template share one spec.
    pub create: Vec<Pod>,
    /// ReplicaSets that Deployments create, which own pods of `create`.
    pub replica_sets: Vec<ReplicaSet>,
    /// Pods to delete, as `namespace/name`; per workload, the first is the first to go.
    pub delete: Vec<String>,
}

/// What the controllers of `workloads` would create and delete, given the `pods` and
/// `nodes` that exist.
///
/// A pod may be deleted and created under the same name (one of a StatefulSet that has
/// ended): delete first.
///
/// # Errors
///
/// If more than [`PODS_MAX`] pods would have to be created.
pub fn reconcile(
    workloads: &[Workload<'_>],
    pods: &[Pod],
    nodes: &[Node],
) -> Result<Reconciled, TooManyPods> {
    let mut existing = ExistingPods::new(pods);
    let mut replica_sets = deployment::ReplicaSets::new(workloads);
    let mut maker = PodMaker::new(pods);
    for workload in workloads {
        maker.begin(workload);
        match workload {
            Workload::Deployment(it) => {
                deployment::reconcile(it, &mut replica_sets, &mut existing, &mut maker)?;
            }
            // Deployments that come later may adopt; so these wait.
            Workload::ReplicaSet(_) => {}
            Workload::ReplicationController(it) => {
                replica_set::reconcile_controller(it, &mut existing, &mut maker)?;
            }
            Workload::StatefulSet(it) => {
                stateful_set::reconcile(it, &mut existing, &mut maker)?;
            }
            Workload::DaemonSet(it) => {
                daemon_set::reconcile(it, nodes, &mut existing, &mut maker)?;
            }
            Workload::Job(it) => job::reconcile(it, &existing, &mut maker)?,
            Workload::CronJob(it) => job::reconcile_next_run(it, &existing, &mut maker)?,
        }
    }
    for replica_set in replica_sets.without_deployment() {
        maker.begin(&Workload::ReplicaSet(replica_set));
        replica_set::reconcile(replica_set, &mut existing, &mut maker)?;
    }
    Ok(maker.into_reconciled())
}

/// The pods of one workload in an empty cluster of these nodes.
///
/// # Errors
///
/// As [`reconcile`].
pub fn expand(workload: Workload<'_>, nodes: &[Node]) -> Result<Vec<Pod>, TooManyPods> {
    reconcile(&[workload], &[], nodes).map(|reconciled| reconciled.create)
}

/// The workloads ask for more than [`PODS_MAX`] pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooManyPods {
    /// Kind of the workload that went past the limit.
    pub kind: &'static str,
    /// Its `namespace/name`.
    pub workload: String,
    /// How many pods it wants created.
    pub wanted: u64,
}

impl fmt::Display for TooManyPods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            workload,
            wanted,
        } = self;
        write!(
            f,
            "{kind} {workload} wants {wanted} more pods; all workloads together can have at \
             most {PODS_MAX} new ones: ask for fewer replicas"
        )
    }
}

impl std::error::Error for TooManyPods {}

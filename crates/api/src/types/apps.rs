//! Workloads: objects from which controllers make pods (`k8s.io/api/apps/v1`, `batch/v1`, `core/v1`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::core::{PodSpec, is_zero};
use super::meta::{LabelSelector, ObjectMeta, StringMap, is_zero as is_zero_i64, null_default};
use super::storage::PersistentVolumeClaimSpec;

/// From what a controller makes pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodTemplateSpec {
    /// Labels and annotations of the pods.
    pub metadata: ObjectMeta,
    /// Their spec.
    pub spec: Arc<PodSpec>,
    /// Stands for the fields that are not typed here (`args`, `env`, probes, ...): equal, in
    /// one process, where these are. For controllers, which roll out such changes, too.
    #[serde(skip)]
    pub unread: u64,
}

/// A Deployment (also of the old groups `extensions/v1beta1`, `apps/v1beta1`, `apps/v1beta2`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Deployment {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: DeploymentSpec,
}

/// `spec` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeploymentSpec {
    /// How many pods; 1 if absent.
    pub replicas: Option<i32>,
    /// Which pods belong to it.
    pub selector: Option<LabelSelector>,
    /// The pods.
    pub template: PodTemplateSpec,
    /// Whether a rollout is held.
    pub paused: bool,
}

/// A ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicaSet {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: ReplicaSetSpec,
    /// What there is.
    pub status: ReplicaSetStatus,
}

/// `spec` of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetSpec {
    /// How many pods; 1 if absent.
    pub replicas: Option<i32>,
    /// How long a pod must be ready to count as available, in seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub min_ready_seconds: i32,
    /// Which pods belong to it.
    pub selector: Option<LabelSelector>,
    /// The pods.
    pub template: PodTemplateSpec,
}

/// `status` of a ReplicaSet or a ReplicationController.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    /// Pods that there are, without those that have ended or are being deleted.
    pub replicas: i32,
    /// Those that have all the labels of the template.
    #[serde(skip_serializing_if = "is_zero")]
    pub fully_labeled_replicas: i32,
    /// Those that are ready.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Those that have been ready for `minReadySeconds`.
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    /// Pods that are being deleted and have not ended; only ReplicaSets count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The generation that this is about.
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    /// Conditions; there is only `ReplicaFailure`.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub conditions: Vec<WorkloadCondition>,
}

/// One of the `status.conditions` of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadCondition {
    /// Type, such as `Available` or `Complete`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When it was last looked at, RFC 3339; Jobs only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<String>,
    /// When it was last written, RFC 3339; Deployments only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
    /// When the status last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Reason, one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The same for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A ReplicationController.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicationController {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: ReplicationControllerSpec,
    /// What there is.
    pub status: ReplicaSetStatus,
}

/// `spec` of a ReplicationController.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicationControllerSpec {
    /// How many pods; 1 if absent.
    pub replicas: Option<i32>,
    /// How long a pod must be ready to count as available, in seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub min_ready_seconds: i32,
    /// Which pods belong to it; the template's labels if absent.
    #[serde(deserialize_with = "null_default")]
    pub selector: StringMap,
    /// The pods.
    pub template: PodTemplateSpec,
}

/// A StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatefulSet {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: StatefulSetSpec,
}

/// `spec` of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetSpec {
    /// How many pods; 1 if absent.
    pub replicas: Option<i32>,
    /// Which pods belong to it.
    pub selector: Option<LabelSelector>,
    /// The pods.
    pub template: PodTemplateSpec,
    /// From where the pods are numbered.
    pub ordinals: Option<StatefulSetOrdinals>,
    /// `OrderedReady` or `Parallel`.
    pub pod_management_policy: String,
    /// Templates of claims, one set per pod.
    #[serde(deserialize_with = "null_default")]
    pub volume_claim_templates: Vec<VolumeClaimTemplate>,
}

/// A claim as controllers make it: one of a StatefulSet's `volumeClaimTemplates`, or that of
/// an ephemeral volume of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeClaimTemplate {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: PersistentVolumeClaimSpec,
}

/// `ordinals` of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatefulSetOrdinals {
    /// Number of the first pod.
    pub start: i32,
}

/// A DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonSet {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: DaemonSetSpec,
}

/// `spec` of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonSetSpec {
    /// Which pods belong to it.
    pub selector: Option<LabelSelector>,
    /// The pods.
    pub template: PodTemplateSpec,
}

/// A Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: JobSpec,
    /// Status.
    pub status: JobStatus,
}

/// `spec` of a Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    /// How many pods run at once; 1 if absent.
    pub parallelism: Option<i32>,
    /// How many must succeed; absent means one success ends the job (or 1, if `parallelism` is absent too).
    pub completions: Option<i32>,
    /// `NonIndexed` or `Indexed`.
    pub completion_mode: Option<String>,
    /// Whether the job is held; it then has no pods.
    pub suspend: Option<bool>,
    /// The pods.
    pub template: PodTemplateSpec,
}

/// `status` of a Job: how far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// Pods that succeeded.
    pub succeeded: i32,
    /// Numbers of the pods of an indexed job that succeeded, such as `0,2-4`.
    pub completed_indexes: String,
    /// When the job ended well, RFC 3339.
    pub completion_time: Option<String>,
    /// How it ended, if it did.
    #[serde(deserialize_with = "null_default")]
    pub conditions: Vec<WorkloadCondition>,
}

/// A CronJob.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CronJob {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: CronJobSpec,
}

/// `spec` of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobSpec {
    /// When it runs, in cron's notation.
    pub schedule: String,
    /// Whether it is held.
    pub suspend: Option<bool>,
    /// The job it makes each time.
    pub job_template: JobTemplateSpec,
}

/// `jobTemplate` of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobTemplateSpec {
    /// Labels and annotations of the jobs.
    pub metadata: ObjectMeta,
    /// Their spec.
    pub spec: JobSpec,
}

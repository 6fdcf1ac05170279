//! Workloads: objects from which controllers make pods (`k8s.io/api/apps/v1`, `batch/v1`, `core/v1`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::core::{PodSpec, is_zero};
use super::meta::{LabelSelector, ObjectMeta, StringMap, is_zero as is_zero_i64, null_default};
use super::policy::IntOrString;
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
    /// What there is.
    pub status: DeploymentStatus,
}

/// `spec` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentSpec {
    /// How many pods; 1 if absent.
    pub replicas: Option<i32>,
    /// Which pods belong to it.
    pub selector: Option<LabelSelector>,
    /// The pods.
    pub template: PodTemplateSpec,
    /// Whether a rollout is held.
    pub paused: bool,
    /// How pods are replaced.
    pub strategy: RolloutStrategy,
    /// How long a pod must be ready to count as available, in seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub min_ready_seconds: i32,
    /// How many old revisions are kept; 10 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// How long a rollout may do nothing until it counts as failed, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
}

/// How pods are replaced when the template changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStrategy {
    /// `RollingUpdate`; `Recreate` of Deployments, `OnDelete` of DaemonSets and StatefulSets.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[serde(rename = "type")]
    pub type_: String,
    /// Settings of `RollingUpdate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

/// Settings of a rolling update: each kind has some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// How many pods, or which share of them, may be missing meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// How many pods there may be too many meanwhile; not of StatefulSets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
    /// Pods with a lower ordinal are not updated; only of StatefulSets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
}

/// `status` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// The generation that this is about.
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    /// Pods of all its ReplicaSets, without those that have ended or are being deleted.
    #[serde(skip_serializing_if = "is_zero")]
    pub replicas: i32,
    /// Those of the current template.
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    /// Those that are ready.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Those that have been ready for `minReadySeconds`.
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    /// How many lack to be available.
    #[serde(skip_serializing_if = "is_zero")]
    pub unavailable_replicas: i32,
    /// Pods that are being deleted and have not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// How often the name of a revision was taken already; goes into the next name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Conditions: `Available`, `Progressing`, `ReplicaFailure`.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub conditions: Vec<WorkloadCondition>,
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
    /// What there is.
    pub status: StatefulSetStatus,
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
    /// Name of the Service that names its pods.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_name: String,
    /// How pods are replaced.
    pub update_strategy: RolloutStrategy,
    /// How long a pod must be ready to count as available, in seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub min_ready_seconds: i32,
    /// How many old revisions are kept; 10 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// What becomes of the pods' claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_retention_policy: Option<ClaimRetentionPolicy>,
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

/// `persistentVolumeClaimRetentionPolicy` of a StatefulSet: `Retain` or `Delete`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimRetentionPolicy {
    /// When the set is deleted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub when_deleted: String,
    /// When the set has fewer replicas.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub when_scaled: String,
}

/// `status` of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetStatus {
    /// The generation that this is about.
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    /// Pods that there are.
    pub replicas: i32,
    /// Those that are ready.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Those of the revision before.
    #[serde(skip_serializing_if = "is_zero")]
    pub current_replicas: i32,
    /// Those of the newest revision.
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    /// Those that have been ready for `minReadySeconds`.
    pub available_replicas: i32,
    /// The revision before.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_revision: String,
    /// The newest revision.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub update_revision: String,
    /// How often the name of a revision was taken already; goes into the next name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Conditions.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub conditions: Vec<WorkloadCondition>,
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
    /// What there is.
    pub status: DaemonSetStatus,
}

/// `spec` of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    /// Which pods belong to it.
    pub selector: Option<LabelSelector>,
    /// The pods.
    pub template: PodTemplateSpec,
    /// How pods are replaced.
    pub update_strategy: RolloutStrategy,
    /// How long a pod must be ready to count as available, in seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub min_ready_seconds: i32,
    /// How many old revisions are kept; 10 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
}

/// `status` of a DaemonSet. Numbers of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    /// Those that have a pod and should.
    pub current_number_scheduled: i32,
    /// Those that have a pod and should not.
    pub number_misscheduled: i32,
    /// Those that should have one.
    pub desired_number_scheduled: i32,
    /// Those whose pod is ready.
    pub number_ready: i32,
    /// The generation that this is about.
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    /// Those whose pod is of the newest revision.
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_number_scheduled: i32,
    /// Those whose pod is available.
    #[serde(skip_serializing_if = "is_zero")]
    pub number_available: i32,
    /// Those that lack an available pod.
    #[serde(skip_serializing_if = "is_zero")]
    pub number_unavailable: i32,
    /// How often the name of a revision was taken already; goes into the next name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Conditions.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub conditions: Vec<WorkloadCondition>,
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
    /// How long the job may be active, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// How many failures end the job; 6 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// How many failures end one index of an indexed job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit_per_index: Option<i32>,
    /// How many failed indexes end the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failed_indexes: Option<i32>,
    /// What failures of pods mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_failure_policy: Option<PodFailurePolicy>,
    /// Which indexes are enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_policy: Option<SuccessPolicy>,
    /// Which pods belong to it; the API server makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Whether `selector` was given by a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual_selector: Option<bool>,
    /// How long the job stays when it has ended, in seconds; absent is for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// `TerminatingOrFailed` or `Failed`: from when on a pod is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_replacement_policy: Option<String>,
    /// Who runs the job, if not the job controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
}

/// `podFailurePolicy` of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodFailurePolicy {
    /// The first rule that a failed pod matches says what is done.
    #[serde(deserialize_with = "null_default")]
    pub rules: Vec<PodFailurePolicyRule>,
}

/// One of the rules of a [`PodFailurePolicy`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodFailurePolicyRule {
    /// `FailJob`, `FailIndex`, `Ignore` or `Count`.
    pub action: String,
    /// Exit codes of containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exit_codes: Option<PodFailurePolicyOnExitCodes>,
    /// Conditions of the pod; one must match.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub on_pod_conditions: Vec<PodFailurePolicyOnPodCondition>,
}

/// `onExitCodes` of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodFailurePolicyOnExitCodes {
    /// The container; absent is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
    /// `In` or `NotIn`.
    pub operator: String,
    /// The codes.
    #[serde(deserialize_with = "null_default")]
    pub values: Vec<i32>,
}

/// One of `onPodConditions` of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodFailurePolicyOnPodCondition {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Status; `True` if empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
}

/// `successPolicy` of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessPolicy {
    /// The job has succeeded as soon as one of these holds.
    #[serde(deserialize_with = "null_default")]
    pub rules: Vec<SuccessPolicyRule>,
}

/// One of the rules of a [`SuccessPolicy`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessPolicyRule {
    /// The indexes that count, such as `0,2-4`; absent is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded_indexes: Option<String>,
    /// How many of them must have succeeded; absent is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded_count: Option<i32>,
}

/// `status` of a Job: how far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// How it ended, if it did, and whether it is held.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub conditions: Vec<WorkloadCondition>,
    /// When the controller first worked on it, or it was last resumed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// When the job ended well, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<String>,
    /// Pods that are pending or running and not being deleted.
    #[serde(skip_serializing_if = "is_zero")]
    pub active: i32,
    /// Pods that succeeded.
    #[serde(skip_serializing_if = "is_zero")]
    pub succeeded: i32,
    /// Pods that failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: i32,
    /// Pods that are being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<i32>,
    /// Numbers of the pods of an indexed job that succeeded, such as `0,2-4`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub completed_indexes: String,
    /// Numbers that have failed for good, if there is a limit per index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_indexes: Option<String>,
    /// Pods that have ended and are not in the sums yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted_terminated_pods: Option<UncountedTerminatedPods>,
    /// Active pods that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i32>,
}

/// Uids of pods that have ended, before they are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UncountedTerminatedPods {
    /// Those that succeeded.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub succeeded: Vec<String>,
    /// Those that failed.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub failed: Vec<String>,
}

/// A CronJob.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CronJob {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: CronJobSpec,
    /// What there is.
    pub status: CronJobStatus,
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
    /// The time zone of `schedule`; the controller's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// How late a run may begin, in seconds; absent is without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starting_deadline_seconds: Option<i64>,
    /// `Allow`, `Forbid` or `Replace`: what if the last run has not ended.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub concurrency_policy: String,
    /// How many runs that ended well are kept; 3 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successful_jobs_history_limit: Option<i32>,
    /// How many failed runs are kept; 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_jobs_history_limit: Option<i32>,
}

/// `status` of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatus {
    /// The runs that have not ended.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub active: Vec<ObjectReference>,
    /// When the last run was due, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<String>,
    /// When the last run ended well, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<String>,
}

/// A reference to an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// API version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
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

/// A ControllerRevision: a template that a StatefulSet or DaemonSet has or had.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllerRevision {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is kept of the owner: its template.
    pub data: serde_json::Value,
    /// Grows from revision to revision.
    pub revision: i64,
}

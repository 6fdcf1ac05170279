//! Pods, nodes and namespaces (`k8s.io/api/core/v1`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::apps::VolumeClaimTemplate;
use super::meta::{LabelSelector, ObjectMeta, StringMap, null_default};
use crate::quantity::Quantity;

/// Amounts by resource name (`cpu`, `memory`, `nvidia.com/gpu`, ...).
pub type ResourceList = BTreeMap<String, Quantity>;

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What was asked for. Shared: pods made from one template point to one spec.
    pub spec: Arc<PodSpec>,
    /// What is known of it.
    pub status: PodStatus,
}

impl Pod {
    /// `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }

    /// Whether the pod has ended (phase Succeeded or Failed) and uses nothing any more.
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// `spec` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Containers that run side by side.
    #[serde(deserialize_with = "null_default")]
    pub containers: Vec<Container>,
    /// Containers that run before, one after the other; with `restartPolicy: Always` a sidecar.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub init_containers: Vec<Container>,
    /// Volumes.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub volumes: Vec<Volume>,
    /// The node the pod is bound to; empty while pending.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// Labels that the node must have.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub node_selector: StringMap,
    /// Affinity to nodes and to other pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Taints that the pod tolerates.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub tolerations: Vec<Toleration>,
    /// How the pod's peers are spread over topology domains.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Which scheduler places the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    /// Gates that hold the pod out of the queue until they are removed.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub scheduling_gates: Vec<PodSchedulingGate>,
    /// Name of the PriorityClass.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
    /// Priority, resolved from the class by admission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// `PreemptLowerPriority` or `Never`, resolved from the class by admission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<String>,
    /// What the pod costs beyond its containers (set by its RuntimeClass).
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub overhead: ResourceList,
    /// Resources of the pod as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Whether the pod uses the node's network; its ports are then host ports.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub host_network: bool,
    /// Whether the pod uses the node's users; if not it has a user namespace of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_users: Option<bool>,
    /// `Always`, `OnFailure` or `Never`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub restart_policy: String,
    /// Time from the polite to the hard kill, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// How long the pod may run before it is ended, in seconds from its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// Name of the RuntimeClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    /// Operating system the pod needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<PodOs>,
    /// Claims to devices (dynamic resource allocation).
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub resource_claims: Vec<PodResourceClaim>,
}

/// `spec.os`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodOs {
    /// `linux` or `windows`.
    pub name: String,
}

/// One of `spec.schedulingGates`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodSchedulingGate {
    /// Name of the gate.
    pub name: String,
}

/// One of `spec.resourceClaims`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaim {
    /// Name by which containers refer to the claim.
    pub name: String,
    /// Name of a ResourceClaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_claim_name: Option<String>,
    /// Name of a ResourceClaimTemplate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_claim_template_name: Option<String>,
}

/// A container or init container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Name, unique in the pod.
    pub name: String,
    /// Image reference.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Resources.
    pub resources: ResourceRequirements,
    /// Ports.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub ports: Vec<ContainerPort>,
    /// Where volumes of the pod are mounted.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub volume_mounts: Vec<VolumeMount>,
    /// `Always` on an init container makes it a sidecar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// What happens when the container exits, by exit code.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub restart_policy_rules: Vec<ContainerRestartRule>,
}

/// One of a container's `volumeMounts`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeMount {
    /// Name of the volume.
    pub name: String,
    /// Where it is in the container.
    pub mount_path: String,
}

/// One of a container's `restartPolicyRules`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerRestartRule {
    /// `Restart` or `RestartAllContainers`.
    pub action: String,
}

impl Container {
    /// Whether this init container keeps running beside the containers.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// Requests and limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceRequirements {
    /// What is reserved on the node.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub requests: ResourceList,
    /// What may be used at most.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub limits: ResourceList,
}

/// One of a container's `ports`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Port in the pod, 1 to 65535.
    pub container_port: i32,
    /// Port on the node, 0 for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub host_port: i32,
    /// Address on the node; empty is all.
    #[serde(rename = "hostIP", skip_serializing_if = "String::is_empty")]
    pub host_ip: String,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
}

pub(super) fn is_zero(value: &i32) -> bool {
    *value == 0
}

/// A volume: the sources that scheduling looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Name, unique in the pod.
    pub name: String,
    /// An OCI image mounted as a volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageVolumeSource>,
    /// A claim to a persistent volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<PersistentVolumeClaimVolumeSource>,
    /// A claim that is made for the pod and goes with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<EphemeralVolumeSource>,
    /// An EBS disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_elastic_block_store: Option<AwsElasticBlockStoreVolumeSource>,
    /// An Azure disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure_disk: Option<AzureDiskVolumeSource>,
    /// An OpenStack disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cinder: Option<CinderVolumeSource>,
    /// A GCE disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gce_persistent_disk: Option<GcePersistentDiskVolumeSource>,
    /// An iSCSI disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iscsi: Option<IscsiVolumeSource>,
    /// A Portworx volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub portworx_volume: Option<PortworxVolumeSource>,
    /// A Ceph block device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rbd: Option<RbdVolumeSource>,
}

/// `ephemeral` of a volume. The claim is called after the pod and the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EphemeralVolumeSource {
    /// The claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim_template: Option<Box<VolumeClaimTemplate>>,
}

/// `awsElasticBlockStore` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct AwsElasticBlockStoreVolumeSource {
    /// Identifier: `vol-...`, or `aws://ZONE/vol-...`.
    #[serde(rename = "volumeID")]
    pub volume_id: String,
}

/// `azureDisk` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct AzureDiskVolumeSource {
    /// Its name.
    #[serde(rename = "diskName")]
    pub disk_name: String,
    /// Where the disk is.
    #[serde(rename = "diskURI")]
    pub disk_uri: String,
    /// `Shared`, `Dedicated` or `Managed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// `cinder` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct CinderVolumeSource {
    /// Identifier.
    #[serde(rename = "volumeID")]
    pub volume_id: String,
}

/// `gcePersistentDisk` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GcePersistentDiskVolumeSource {
    /// Name of the disk.
    pub pd_name: String,
    /// Whether it is mounted read-only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// `iscsi` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IscsiVolumeSource {
    /// Qualified name of the target.
    pub iqn: String,
    /// Whether it is mounted read-only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// `portworxVolume` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PortworxVolumeSource {
    /// Identifier.
    #[serde(rename = "volumeID")]
    pub volume_id: String,
}

/// `rbd` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RbdVolumeSource {
    /// Addresses of the Ceph monitors.
    #[serde(deserialize_with = "null_default")]
    pub monitors: Vec<String>,
    /// Pool; empty is `rbd`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// Name of the image.
    pub image: String,
    /// Whether it is mounted read-only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// `image` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageVolumeSource {
    /// Image reference.
    pub reference: String,
}

/// `persistentVolumeClaim` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimVolumeSource {
    /// Name of the claim, in the pod's namespace.
    pub claim_name: String,
    /// Whether the volume is mounted read-only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// `spec.affinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// Affinity to nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,
    /// Affinity to other pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_affinity: Option<PodAffinity>,
    /// Aversion to other pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// `spec.affinity.nodeAffinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAffinity {
    /// What a node must match.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<NodeSelector>,
    /// What is preferred, with weights.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub preferred: Vec<PreferredSchedulingTerm>,
}

/// Terms of which one must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// The terms; without any, no node matches.
    #[serde(deserialize_with = "null_default")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// Requirements that must all hold; without any, no node matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// Requirements on the node's labels.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// Requirements on the node's fields (`metadata.name`).
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// One requirement of a [`NodeSelectorTerm`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorRequirement {
    /// Label key or field name.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: String,
    /// Values of the operator.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub values: Vec<String>,
}

/// A preference of nodes with its weight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreferredSchedulingTerm {
    /// Weight, 1 to 100.
    pub weight: i32,
    /// What the node should match.
    pub preference: NodeSelectorTerm,
}

/// `podAffinity` or `podAntiAffinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinity {
    /// Terms that must all hold.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub required: Vec<PodAffinityTerm>,
    /// Terms that are preferred, with weights.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub preferred: Vec<WeightedPodAffinityTerm>,
}

/// Which pods are meant, and how near is near.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinityTerm {
    /// The pods, by labels; absent matches none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Namespaces of the pods; without them and the selector, the pod's own.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub namespaces: Vec<String>,
    /// Namespaces of the pods, by labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Node label whose equal values mean "same place".
    pub topology_key: String,
    /// Label keys whose values are taken from the incoming pod and must be equal.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub match_label_keys: Vec<String>,
    /// Label keys whose values are taken from the incoming pod and must differ.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub mismatch_label_keys: Vec<String>,
}

/// A preferred [`PodAffinityTerm`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightedPodAffinityTerm {
    /// Weight, 1 to 100.
    pub weight: i32,
    /// The term.
    pub pod_affinity_term: PodAffinityTerm,
}

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value, may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// When a NoExecute taint was added, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

/// A toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Key; empty with operator Exists tolerates every key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `Equal` (also when empty), `Exists`, or `Gt`/`Lt` behind a feature gate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator: String,
    /// Value to compare.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Effect; empty tolerates every effect.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub effect: String,
    /// How long a NoExecute taint is tolerated, in seconds; absent is for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// One of `spec.topologySpreadConstraints`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySpreadConstraint {
    /// How uneven the spread may be, at least 1.
    pub max_skew: i32,
    /// Node label whose values are the domains.
    pub topology_key: String,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: String,
    /// The pods that are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// How many domains there must be at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_domains: Option<i32>,
    /// `Honor` or `Ignore`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity_policy: Option<String>,
    /// `Honor` or `Ignore`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_taints_policy: Option<String>,
    /// Label keys whose values are taken from the incoming pod.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub match_label_keys: Vec<String>,
}

/// `status` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Why it is in that phase, one word, such as `Evicted`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The same for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Conditions.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub conditions: Vec<PodCondition>,
    /// When the kubelet took the pod, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// The node where preemption made room for the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nominated_node_name: String,
    /// QoS class as recorded.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub qos_class: String,
    /// What the kubelet reports of each container.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub container_statuses: Vec<ContainerStatus>,
    /// What the kubelet reports of each init container.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// Pod-level resources as they are in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Pod-level resources as the node has granted them.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub allocated_resources: ResourceList,
}

/// One of `status.conditions` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Type, such as `PodScheduled`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The generation of the pod that the condition is about; 0 if nobody said.
    #[serde(skip_serializing_if = "super::meta::is_zero")]
    pub observed_generation: i64,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason, one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Message for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the status last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
}

/// One of `status.containerStatuses`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Name of the container.
    pub name: String,
    /// Resources as they are in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Requests as the node has granted them.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub allocated_resources: ResourceList,
    /// How often it was started again.
    #[serde(skip_serializing_if = "is_zero")]
    pub restart_count: i32,
    /// What it does now.
    #[serde(skip_serializing_if = "ContainerState::is_unknown")]
    pub state: ContainerState,
}

/// What a container does: of the states, the one that decisions read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerState {
    /// It has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<ContainerStateTerminated>,
}

impl ContainerState {
    fn is_unknown(&self) -> bool {
        self.terminated.is_none()
    }
}

/// How a container has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStateTerminated {
    /// Its exit code.
    pub exit_code: i32,
    /// When it ended, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What was asked for.
    pub spec: NodeSpec,
    /// What the kubelet reports.
    pub status: NodeStatus,
}

/// `spec` of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Whether the node is cordoned.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unschedulable: bool,
    /// Taints.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub taints: Vec<Taint>,
}

/// `status` of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// What the machine has.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub capacity: ResourceList,
    /// What pods may use.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub allocatable: ResourceList,
    /// Images on the node.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub images: Vec<ContainerImage>,
    /// Conditions.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub conditions: Vec<NodeCondition>,
    /// Features that the kubelet declares.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub declared_features: Vec<String>,
}

/// One of `status.conditions` of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCondition {
    /// Type, such as `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the kubelet last said so, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<String>,
    /// When the status last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Reason, one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Message for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// One of `status.images`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerImage {
    /// Names by which the image is known.
    #[serde(deserialize_with = "null_default")]
    pub names: Vec<String>,
    /// Size in bytes.
    pub size_bytes: i64,
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Who has to have a say before it goes.
    pub spec: NamespaceSpec,
    /// What is known of it.
    pub status: NamespaceStatus,
}

/// `spec` of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamespaceSpec {
    /// What has to be done before a namespace that is being deleted goes; `kubernetes` stands
    /// for emptying it.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub finalizers: Vec<String>,
}

/// `status` of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamespaceStatus {
    /// `Active` or `Terminating`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// What keeps a namespace that is being deleted.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub conditions: Vec<NamespaceCondition>,
}

/// One of `status.conditions` of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceCondition {
    /// Type, such as `NamespaceContentRemaining`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True` or `False`.
    pub status: String,
    /// When the status last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Reason, one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Message for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

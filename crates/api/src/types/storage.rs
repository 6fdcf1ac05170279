//! Persistent volumes and claims (`k8s.io/api/core/v1`), storage classes and what CSI drivers
//! tell (`k8s.io/api/storage/v1`): what scheduling reads of them.

use serde::{Deserialize, Serialize};

use super::core::{
    AwsElasticBlockStoreVolumeSource, AzureDiskVolumeSource, CinderVolumeSource,
    GcePersistentDiskVolumeSource, NodeSelector, PortworxVolumeSource, ResourceList,
    ResourceRequirements,
};
use super::meta::{LabelSelector, ObjectMeta, null_default};
use crate::quantity::Quantity;

/// Where the class of claims and volumes stood before it had a field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
/// The annotation of claims whose binding is complete.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of claims by which the scheduler says for which node a volume is to be made.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A piece of storage in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What it is.
    pub spec: PersistentVolumeSpec,
    /// What is known of it.
    pub status: PersistentVolumeStatus,
}

/// `spec` of a PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeSpec {
    /// `storage` is its size.
    #[serde(deserialize_with = "null_default")]
    pub capacity: ResourceList,
    /// `ReadWriteOnce`, `ReadOnlyMany`, `ReadWriteMany` or `ReadWriteOncePod`.
    #[serde(deserialize_with = "null_default")]
    pub access_modes: Vec<String>,
    /// The claim that it is bound to, or kept for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<ClaimReference>,
    /// Name of its StorageClass; empty is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub storage_class_name: String,
    /// Name of its VolumeAttributesClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_attributes_class_name: Option<String>,
    /// `Filesystem` (also if absent) or `Block`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<String>,
    /// The nodes that can reach it; absent is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<VolumeNodeAffinity>,
    /// A volume of a CSI driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi: Option<CsiPersistentVolumeSource>,
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
    /// A Portworx volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub portworx_volume: Option<PortworxVolumeSource>,
}

/// `spec.claimRef`: a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimReference {
    /// Namespace of the claim.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the claim.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// UID of the claim; empty if any claim of that name will do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// `spec.nodeAffinity` of a PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeNodeAffinity {
    /// What a node must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<NodeSelector>,
}

/// `spec.csi` of a PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiPersistentVolumeSource {
    /// Name of the driver.
    pub driver: String,
    /// The driver's name of the volume.
    pub volume_handle: String,
}

/// `status` of a PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeStatus {
    /// `Pending`, `Available`, `Bound`, `Released` or `Failed`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

impl PersistentVolume {
    /// The name of its StorageClass; empty is none.
    pub fn class_name(&self) -> &str {
        let annotation = self.metadata.annotations.get(CLASS_ANNOTATION);
        annotation.unwrap_or(&self.spec.storage_class_name)
    }
}

/// A wish for storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wished for.
    pub spec: PersistentVolumeClaimSpec,
    /// What is known of it.
    pub status: PersistentVolumeClaimStatus,
}

impl PersistentVolumeClaim {
    /// The name of its StorageClass; empty is none, absent the default one.
    pub fn class_name(&self) -> Option<&str> {
        let annotation = self.metadata.annotations.get(CLASS_ANNOTATION);
        let class = annotation.or(self.spec.storage_class_name.as_ref());
        class.map(String::as_str)
    }
}

/// `spec` of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimSpec {
    /// `ReadWriteOnce`, `ReadOnlyMany`, `ReadWriteMany` or `ReadWriteOncePod`.
    #[serde(deserialize_with = "null_default")]
    pub access_modes: Vec<String>,
    /// Request `storage` is the size.
    pub resources: ResourceRequirements,
    /// Volumes that will do, by labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Name of the StorageClass; empty is none, absent the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Name of the VolumeAttributesClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_attributes_class_name: Option<String>,
    /// `Filesystem` (also if absent) or `Block`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<String>,
    /// Name of the PersistentVolume that it is bound to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_name: String,
}

/// `status` of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimStatus {
    /// `Pending`, `Bound` or `Lost`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// While the volume grows: `storage` is the size that was set aside for it.
    #[serde(
        skip_serializing_if = "ResourceList::is_empty",
        deserialize_with = "null_default"
    )]
    pub allocated_resources: ResourceList,
    /// Name of the VolumeAttributesClass that the volume has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_volume_attributes_class_name: Option<String>,
    /// A change of the VolumeAttributesClass under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modify_volume_status: Option<ModifyVolumeStatus>,
}

/// `status.modifyVolumeStatus` of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModifyVolumeStatus {
    /// Name of the VolumeAttributesClass that the volume is to get.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub target_volume_attributes_class_name: String,
    /// `Pending`, `InProgress` or `Infeasible`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
}

/// How volumes of one kind are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Who makes them: name of a CSI driver, or `kubernetes.io/no-provisioner`.
    pub provisioner: String,
    /// `Immediate` (also if absent) or `WaitForFirstConsumer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_binding_mode: Option<String>,
    /// Where they can be made, one term of several; empty is everywhere.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

impl StorageClass {
    /// Whether anybody makes volumes of the class.
    pub fn makes_volumes(&self) -> bool {
        !matches!(
            self.provisioner.as_str(),
            "" | "kubernetes.io/no-provisioner"
        )
    }
}

/// One of `allowedTopologies`: requirements that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySelectorTerm {
    /// Requirements on the node's labels.
    #[serde(deserialize_with = "null_default")]
    pub match_label_expressions: Vec<TopologySelectorLabelRequirement>,
}

/// One requirement of a [`TopologySelectorTerm`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct TopologySelectorLabelRequirement {
    /// Label key.
    pub key: String,
    /// Values of which the label must have one.
    #[serde(deserialize_with = "null_default")]
    pub values: Vec<String>,
}

/// The CSI drivers of one node, which has the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CSINode {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The drivers.
    pub spec: CsiNodeSpec,
}

/// `spec` of a CSINode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiNodeSpec {
    /// The drivers.
    #[serde(deserialize_with = "null_default")]
    pub drivers: Vec<CsiNodeDriver>,
}

/// A CSI driver on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiNodeDriver {
    /// Name of the driver.
    pub name: String,
    /// How many volumes it can attach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<VolumeNodeResources>,
    /// Labels of nodes by which the driver tells places apart.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub topology_keys: Vec<String>,
}

/// `allocatable` of a driver on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeNodeResources {
    /// Number of volumes; absent is without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
}

/// A CSI driver in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CSIDriver {
    /// Metadata; the name is that of the driver.
    pub metadata: ObjectMeta,
    /// What it can do.
    pub spec: CsiDriverSpec,
}

/// `spec` of a CSIDriver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiDriverSpec {
    /// Whether the driver tells how much room there is (CSIStorageCapacity).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_capacity: Option<bool>,
}

/// How much room there is for volumes of a StorageClass in some part of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CSIStorageCapacity {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The nodes of that part, by labels; absent is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_topology: Option<LabelSelector>,
    /// Name of the StorageClass.
    pub storage_class_name: String,
    /// Room in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Quantity>,
    /// Size of the largest volume, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum_volume_size: Option<Quantity>,
}

/// A volume attached to a node, or to be attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeAttachment {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is attached where.
    pub spec: VolumeAttachmentSpec,
}

/// `spec` of a VolumeAttachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentSpec {
    /// Name of the CSI driver.
    pub attacher: String,
    /// The volume.
    pub source: VolumeAttachmentSource,
    /// Name of the node.
    pub node_name: String,
}

/// `spec.source` of a VolumeAttachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentSource {
    /// Name of the PersistentVolume; absent for volumes of pods themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_name: Option<String>,
}

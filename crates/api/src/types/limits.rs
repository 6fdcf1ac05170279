//! Limits of the size of objects in a namespace, and runtime classes
//! (`k8s.io/api/core/v1`, `k8s.io/api/node/v1`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::core::{ResourceList, Toleration};
use super::meta::{ObjectMeta, StringMap, null_default};

/// A LimitRange: how large pods, containers and claims of a namespace may be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitRange {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The limits.
    pub spec: LimitRangeSpec,
}

/// `spec` of a LimitRange.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitRangeSpec {
    /// The limits, one for each type.
    #[serde(deserialize_with = "null_default")]
    pub limits: Vec<LimitRangeItem>,
}

/// One of `spec.limits` of a LimitRange.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitRangeItem {
    /// What it is about: `Container`, `Pod` or `PersistentVolumeClaim`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The most that may be asked for.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub max: ResourceList,
    /// The least.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub min: ResourceList,
    /// The limits of containers that have none.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub default: ResourceList,
    /// The requests of containers that have none.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub default_request: ResourceList,
    /// How many times its request a limit may be.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub max_limit_request_ratio: ResourceList,
}

/// A RuntimeClass: how the containers of a pod are run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuntimeClass {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Name of the way, known to the node.
    pub handler: String,
    /// What a pod costs beyond its containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Overhead>,
    /// Which nodes can run such pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
}

/// `overhead` of a RuntimeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Overhead {
    /// The same for each pod.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub pod_fixed: ResourceList,
}

/// `scheduling` of a RuntimeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Scheduling {
    /// Labels of the nodes.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub node_selector: StringMap,
    /// Taints that the pods tolerate.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub tolerations: Vec<Toleration>,
}

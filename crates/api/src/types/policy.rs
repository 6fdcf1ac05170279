//! Disruption budgets (`k8s.io/api/policy/v1`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::meta::{Condition, LabelSelector, ObjectMeta, is_zero, null_default};

/// A PodDisruptionBudget: how many of some pods may be away at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: PodDisruptionBudgetSpec,
    /// What there is.
    pub status: PodDisruptionBudgetStatus,
}

/// `spec` of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetSpec {
    /// How many of the pods must stay; not together with `max_unavailable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrString>,
    /// How many of the pods may be away; not together with `min_available`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// The pods; absent selects none, empty all of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// `IfHealthyBudget` (also if absent) or `AlwaysAllow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_pod_eviction_policy: Option<String>,
}

/// `status` of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    /// The generation that this is about; 0 if nobody has looked at the budget yet.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Pods that are being evicted, by name, and since when (RFC 3339).
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub disrupted_pods: BTreeMap<String, Option<String>>,
    /// How many more pods may go now.
    pub disruptions_allowed: i32,
    /// How many of the pods are healthy.
    pub current_healthy: i32,
    /// How many must be healthy.
    pub desired_healthy: i32,
    /// How many pods there should be.
    pub expected_pods: i32,
    /// Conditions: `DisruptionAllowed`.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub conditions: Vec<Condition>,
}

/// A number, or a share of some number in percent such as `50%`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// Text, usually a share.
    String(String),
}

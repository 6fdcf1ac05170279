//! Priority classes (`k8s.io/api/scheduling/v1`).

use serde::{Deserialize, Serialize};

use super::meta::ObjectMeta;

/// A PriorityClass: a name for a priority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClass {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The priority; at most 1,000,000,000 for classes that are not built in.
    pub value: i32,
    /// Whether pods without a class get this one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub global_default: bool,
    /// `PreemptLowerPriority` (also if absent) or `Never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<String>,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

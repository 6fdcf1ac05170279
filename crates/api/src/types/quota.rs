//! Quotas (`k8s.io/api/core/v1`): how much the objects of a namespace may use together.

use serde::{Deserialize, Serialize};

use super::core::ResourceList;
use super::meta::{ObjectMeta, null_default};

/// A ResourceQuota: limits on what the objects of its namespace use together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceQuota {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ResourceQuotaSpec,
    /// What is enforced, and what is used.
    pub status: ResourceQuotaStatus,
}

/// `spec` of a ResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceQuotaSpec {
    /// Limits by resource, such as `pods`, `requests.cpu` or `count/deployments.apps`.
    #[serde(
        skip_serializing_if = "ResourceList::is_empty",
        deserialize_with = "null_default"
    )]
    pub hard: ResourceList,
    /// Scopes that an object must all be in to count, such as `BestEffort`.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub scopes: Vec<String>,
    /// Further conditions on scopes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope_selector: Option<ScopeSelector>,
}

/// `spec.scopeSelector` of a ResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeSelector {
    /// Conditions that must all hold.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub match_expressions: Vec<ScopedResourceSelectorRequirement>,
}

/// A condition on what an object has in one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopedResourceSelectorRequirement {
    /// The scope, such as `PriorityClass`.
    pub scope_name: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values of `In` and `NotIn`.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub values: Vec<String>,
}

/// `status` of a ResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceQuotaStatus {
    /// The limits that admission enforces: those of the spec when it was last looked at.
    #[serde(
        skip_serializing_if = "ResourceList::is_empty",
        deserialize_with = "null_default"
    )]
    pub hard: ResourceList,
    /// What is used, of each resource that is limited.
    #[serde(
        skip_serializing_if = "ResourceList::is_empty",
        deserialize_with = "null_default"
    )]
    pub used: ResourceList,
}

//! Files that configure the admission of an API server (`k8s.io/apiserver/pkg/apis/apiserver/v1`
//! and, for quotas, `k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/v1`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::meta::null_default;
use super::quota::ScopedResourceSelectorRequirement;

/// An AdmissionConfiguration: the file that `--admission-control-config-file` names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdmissionConfiguration {
    /// Configurations of plugins. That a plugin is here does not switch it on.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub plugins: Vec<AdmissionPluginConfiguration>,
}

/// One of `plugins` of an AdmissionConfiguration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdmissionPluginConfiguration {
    /// Name of the plugin, such as `ResourceQuota`.
    pub name: String,
    /// A file that holds the configuration; relative to the folder of this one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The configuration itself; counts more than `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Value>,
}

/// The configuration of the ResourceQuota plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceQuotaConfiguration {
    /// What nobody may use where no quota covers it.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub limited_resources: Vec<LimitedResource>,
}

/// One of `limitedResources`: what of one kind of objects nobody may use where no quota covers
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitedResource {
    /// API group of the objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// Plural name of the objects, such as `pods`.
    pub resource: String,
    /// Parts of names of what objects use: a quota that counts the object must limit all that
    /// match.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub match_contains: Vec<String>,
    /// Conditions on scopes: where an object fulfils one, it must fulfil one of a quota on the
    /// same scope, too.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub match_scopes: Vec<ScopedResourceSelectorRequirement>,
}

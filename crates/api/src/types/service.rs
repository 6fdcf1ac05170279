//! Services (`k8s.io/api/core/v1`): what topology spreading reads of them.

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, StringMap};

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: ServiceSpec,
}

/// `spec` of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceSpec {
    /// Labels of the pods behind it; absent selects none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<StringMap>,
}

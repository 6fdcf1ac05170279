//! Services (`k8s.io/api/core/v1`): what topology spreading and quotas read of them.

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, StringMap, null_default};

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
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// Labels of the pods behind it; absent selects none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<StringMap>,
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub service_type: String,
    /// Ports.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub ports: Vec<ServicePort>,
    /// Whether ports of a `LoadBalancer` get node ports; absent is so, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocate_load_balancer_node_ports: Option<bool>,
}

/// One of `spec.ports` of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Name; empty if there is but one port.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Port of the service.
    pub port: i32,
    /// Port on each node; 0 is none, or one that is still to be chosen.
    #[serde(skip_serializing_if = "is_unset")]
    pub node_port: i32,
}

fn is_unset(port: &i32) -> bool {
    *port == 0
}

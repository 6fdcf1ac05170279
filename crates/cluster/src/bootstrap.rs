//! What is there from the start: namespaces, the built-in priority classes, the service of the API
//! server.
//!
//! Sources, Kubernetes 1.36: `pkg/controlplane/controller/{systemnamespaces,kubernetesservice}`,
//! `pkg/registry/scheduling/rest/storage_scheduling.go`.

use outrank_admission::priority_class::system_classes;
use outrank_api::decode::Object;
use outrank_api::status::Status;
use outrank_apiserver::authorization;
use outrank_apiserver::server::ApiServer;
use serde_json::{Value, json};

use crate::client::Client;
use crate::events::{Recorder, Style};

/// Namespaces that always exist.
pub const NAMESPACES: [&str; 4] = ["kube-system", "default", "kube-public", "kube-node-lease"];

/// Makes what is not there yet. `certificate_authority` is the certificate by which clients know
/// the server, PEM.
///
/// # Errors
///
/// The server's answer, if it refuses something.
pub fn make(server: &ApiServer, certificate_authority: &str) -> Result<(), Status> {
    let recorder = Recorder::new(Style::Counted, "");
    let client = Client::new(server.clone(), "kube-apiserver", recorder);
    for object in objects(certificate_authority) {
        client.make(object)?;
    }
    Ok(())
}

fn objects(certificate_authority: &str) -> Vec<Value> {
    let namespaces = NAMESPACES
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    let classes = system_classes().map(|it| Object::PriorityClass(Box::new(it)).to_value());
    let authentication = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {"client-ca-file": certificate_authority}});
    let addresses = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/12"]}});
    let mut all: Vec<Value> = namespaces.into_iter().chain(classes).collect();
    all.extend([authentication, service(), addresses]);
    all.extend(authorization::bootstrap::objects());
    all
}

/// The service of the API server.
pub(crate) fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": "10.96.0.1", "type": "ClusterIP",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]}})
}

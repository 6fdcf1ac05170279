//! The ServiceAccount admission plugin: as whom the containers of a pod speak to the API server.
//!
//! A pod that names no account has `default`. Its containers get the account's token, the
//! certificate of the server and the name of their namespace as files, in a volume of their own,
//! unless the pod or else the account says that it does not want that. Secrets for pulling
//! images come from the account if the pod has none.
//!
//! Source: `plugin/pkg/admission/serviceaccount/admission.go`, Kubernetes 1.36.

use outrank_api::decode::ObjectKind;
use outrank_api::status::Status;
use serde_json::{Map, Value, json};

use crate::chain::{AdmissionPlugin, Attributes, Cluster, Operation};

/// The account of pods that name none.
pub const DEFAULT_ACCOUNT: &str = "default";

/// Where containers find the files.
pub const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What the volume is called, before some random characters.
pub const VOLUME_PREFIX: &str = "kube-api-access-";

/// How long a token is good, in seconds: an hour, and a few seconds by which these are known.
const TOKEN_SECONDS: i64 = 3607;

/// What an account wants for its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountSettings {
    /// Whether they get a token; `None` is yes.
    pub automount_token: Option<bool>,
    /// Names of the secrets for pulling images.
    pub image_pull_secrets: Vec<String>,
}

/// The plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceAccount;

impl AdmissionPlugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn admit_fields(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
        cluster: &dyn Cluster,
    ) -> Result<(), Status> {
        let is_pod = attributes.kind() == Some(ObjectKind::Pod);
        let is_new = attributes.operation == Operation::Create && attributes.is_about_whole();
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
            return Ok(());
        };
        if !is_pod || !is_new {
            return Ok(());
        }
        let account = spec
            .entry("serviceAccountName")
            .or_insert_with(|| DEFAULT_ACCOUNT.into());
        let account = account.as_str().unwrap_or_default().to_owned();
        spec.insert("serviceAccount".to_owned(), account.as_str().into());
        let namespace = attributes.namespace;
        let Some(settings) = cluster.service_account(namespace, &account) else {
            return Err(attributes.forbidden(
                None,
                format!(
                    "error looking up service account {namespace}/{account}: serviceaccount \
                     \"{account}\" not found"
                ),
            ));
        };
        let wish = spec.get("automountServiceAccountToken");
        let wish = wish.and_then(Value::as_bool).or(settings.automount_token);
        if wish.unwrap_or(true) {
            mount_token(spec, attributes.suffix);
        }
        if !settings.image_pull_secrets.is_empty() {
            let secrets = settings.image_pull_secrets.iter();
            let secrets: Vec<Value> = secrets.map(|name| json!({ "name": name })).collect();
            spec.entry("imagePullSecrets")
                .or_insert_with(|| secrets.into());
        }
        Ok(())
    }
}

/// Gives the files to all containers that have nothing in their place.
fn mount_token(spec: &mut Map<String, Value>, suffix: &str) {
    let name = format!("{VOLUME_PREFIX}{suffix}");
    let mut is_needed = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let Value::Object(container) = container else {
                continue;
            };
            let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
            if let Value::Array(mounts) = mounts
                && !mounts.iter().any(|mount| mount["mountPath"] == MOUNT_PATH)
            {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
                is_needed = true;
            }
        }
    }
    if is_needed && let Value::Array(volumes) = spec.entry("volumes").or_insert_with(|| json!([])) {
        volumes.push(token_volume(&name));
    }
}

fn token_volume(name: &str) -> Value {
    let token = json!({"expirationSeconds": TOKEN_SECONDS, "path": "token"});
    let certificate = json!({"key": "ca.crt", "path": "ca.crt"});
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    let namespace = json!({"path": "namespace", "fieldRef": namespace});
    let sources = json!([
        {"serviceAccountToken": token},
        {"configMap": {"name": "kube-root-ca.crt", "items": [certificate]}},
        {"downwardAPI": {"items": [namespace]}},
    ]);
    json!({"name": name, "projected": {"sources": sources, "defaultMode": 420}})
}

//! The ServiceAccount admission plugin: as whom the containers of a pod speak to the API server.
//!
//! A pod that names no account has `default`. Its containers get the account's token, the
//! certificate of the server and the name of their namespace as files, in a volume of their own,
//! unless the pod or else the account says that it does not want that. Secrets for pulling
//! images come from the account if the pod has none.
//!
//! An account may enforce that its pods use no secrets but those that it lists, by an annotation
//! ([`ENFORCE_MOUNTABLE_SECRETS`]). Pods that only mirror what a kubelet has from a file
//! have no account, and no secrets.
//!
//! Source: `plugin/pkg/admission/serviceaccount/admission.go`, Kubernetes 1.36.

use outrank_api::decode::ObjectKind;
use outrank_api::names::quoted;
use outrank_api::status::Status;
use outrank_api::types::ObjectMeta;
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

/// The annotation of accounts whose pods may use listed secrets only.
pub const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// The annotation of pods that mirror one that a kubelet has from elsewhere.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What an account wants for its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountSettings {
    /// Whether they get a token; `None` is yes.
    pub automount_token: Option<bool>,
    /// Names of the secrets for pulling images.
    pub image_pull_secrets: Vec<String>,
    /// Names of the secrets that they may use; `None` for any.
    pub mountable_secrets: Option<Vec<String>>,
}

/// Whether the value of an annotation means yes, as Go reads it.
pub fn is_true(value: &str) -> bool {
    matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True")
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
        if attributes.kind() != Some(ObjectKind::Pod) {
            return Ok(());
        }
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let names = ObjectMeta {
            name: text("name"),
            generate_name: text("generateName"),
            ..ObjectMeta::default()
        };
        let is_mirror = metadata["annotations"].get(MIRROR).is_some();
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
            return Ok(());
        };
        let looked_at = match (attributes.operation, attributes.subresource) {
            (Operation::Create, "") if is_mirror => check_mirror(spec),
            (Operation::Create, "") => give_account(spec, attributes, cluster),
            (Operation::Update, "ephemeralcontainers") => {
                check_ephemeral_containers(spec, attributes, cluster)
            }
            _ => Ok(()),
        };
        looked_at.map_err(|why| attributes.forbidden(Some(&names), why))
    }
}

/// Gives a pod its account, and what that gives.
fn give_account(
    spec: &mut Spec,
    attributes: &Attributes<'_>,
    cluster: &dyn Cluster,
) -> Result<(), String> {
    let named = spec.get("serviceAccountName").and_then(Value::as_str);
    let named = named.filter(|name| !name.is_empty());
    let account = named.unwrap_or(DEFAULT_ACCOUNT).to_owned();
    for field in ["serviceAccountName", "serviceAccount"] {
        spec.insert(field.to_owned(), account.as_str().into());
    }
    let settings = look_up(&account, attributes, cluster)?;
    let wish = spec.get("automountServiceAccountToken");
    let wish = wish.and_then(Value::as_bool).or(settings.automount_token);
    if wish.unwrap_or(true) {
        mount_token(spec, attributes.suffix);
    }
    if list(spec, PULL_SECRETS).is_empty() && !settings.image_pull_secrets.is_empty() {
        let secrets = settings.image_pull_secrets.iter();
        let secrets: Vec<Value> = secrets.map(|name| json!({ "name": name })).collect();
        spec.insert(PULL_SECRETS.to_owned(), secrets.into());
    }
    check_secrets(spec, &account, &settings)
}

fn look_up(
    account: &str,
    attributes: &Attributes<'_>,
    cluster: &dyn Cluster,
) -> Result<AccountSettings, String> {
    let namespace = attributes.namespace;
    let settings = cluster.service_account(namespace, account);
    settings.ok_or_else(|| {
        format!(
            "error looking up service account {namespace}/{account}: serviceaccount {} not found",
            quoted(account)
        )
    })
}

type Spec = Map<String, Value>;

const PULL_SECRETS: &str = "imagePullSecrets";

fn list<'s>(spec: &'s Spec, field: &str) -> &'s [Value] {
    let list = spec.get(field).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// Whether a pod uses only secrets that its account lists, if that is enforced.
fn check_secrets(spec: &Spec, account: &str, settings: &AccountSettings) -> Result<(), String> {
    let Some(mountable) = &settings.mountable_secrets else {
        return Ok(());
    };
    let is_listed = |name: &str| mountable.iter().any(|it| it == name);
    for volume in list(spec, "volumes") {
        let Some(secret) = volume.get("secret") else {
            continue;
        };
        let name = secret["secretName"].as_str().unwrap_or_default();
        if !is_listed(name) {
            return Err(not_listed("volume with", name, account));
        }
    }
    for (what, field) in [
        ("init container", "initContainers"),
        ("container", "containers"),
    ] {
        check_containers(what, list(spec, field), account, &is_listed)?;
    }
    for (index, secret) in list(spec, PULL_SECRETS).iter().enumerate() {
        let name = secret["name"].as_str().unwrap_or_default();
        if !settings.image_pull_secrets.iter().any(|it| it == name) {
            return Err(format!(
                "imagePullSecrets[{index}].name=\"{name}\" is not allowed because service account \
                 {account} does not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

fn check_ephemeral_containers(
    spec: &Spec,
    attributes: &Attributes<'_>,
    cluster: &dyn Cluster,
) -> Result<(), String> {
    let account = spec.get("serviceAccountName").and_then(Value::as_str);
    let Some(account) = account.filter(|name| !name.is_empty()) else {
        let (namespace, name) = (attributes.namespace, attributes.name);
        return Err(format!(
            "no service account specified for pod {namespace}/{name}"
        ));
    };
    let settings = look_up(account, attributes, cluster)?;
    let Some(mountable) = &settings.mountable_secrets else {
        return Ok(());
    };
    let is_listed = |name: &str| mountable.iter().any(|it| it == name);
    let containers = list(spec, "ephemeralContainers");
    check_containers("ephemeral container", containers, account, &is_listed)
}

/// Whether the environments of containers are made of listed secrets only.
fn check_containers(
    what: &str,
    containers: &[Value],
    account: &str,
    is_listed: &dyn Fn(&str) -> bool,
) -> Result<(), String> {
    for container in containers {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let container_name = text(&container["name"]);
        for variable in container["env"].as_array().into_iter().flatten() {
            let secret = &variable["valueFrom"]["secretKeyRef"];
            let name = text(&secret["name"]);
            if secret.is_object() && !is_listed(&name) {
                let variable = text(&variable["name"]);
                let user = format!("{what} {container_name} with envVar {variable} referencing");
                return Err(not_listed(&user, &name, account));
            }
        }
        for source in container["envFrom"].as_array().into_iter().flatten() {
            let secret = &source["secretRef"];
            let name = text(&secret["name"]);
            if secret.is_object() && !is_listed(&name) {
                let user = format!("{what} {container_name} with envFrom referencing");
                return Err(not_listed(&user, &name, account));
            }
        }
    }
    Ok(())
}

fn not_listed(user: &str, secret: &str, account: &str) -> String {
    format!(
        "{user} secret.secretName=\"{secret}\" is not allowed because service account {account} \
         does not reference that secret"
    )
}

/// Whether a pod that only mirrors one of a kubelet is without an account and secrets.
fn check_mirror(spec: &Spec) -> Result<(), String> {
    const TOKEN: &str = "serviceAccountToken";
    let account = spec.get("serviceAccountName").and_then(Value::as_str);
    if account.is_some_and(|name| !name.is_empty()) {
        return Err("a mirror pod may not reference service accounts".to_owned());
    }
    let containers = ["initContainers", "containers", "ephemeralContainers"];
    let parts = containers.iter().flat_map(|field| list(spec, field));
    let mut parts = parts.chain(list(spec, "volumes"));
    if !list(spec, PULL_SECRETS).is_empty() || parts.any(names_secret) {
        return Err("a mirror pod may not reference secrets".to_owned());
    }
    let volumes = list(spec, "volumes").iter();
    let sources = volumes.filter_map(|volume| volume["projected"]["sources"].as_array());
    let mut sources = sources.flatten();
    if sources.any(|source| source.get(TOKEN).is_some()) {
        let why = "a mirror pod may not use ServiceAccountToken volume projections";
        return Err(why.to_owned());
    }
    Ok(())
}

/// Whether a container or volume, or something in it, refers to a secret.
fn names_secret(part: &Value) -> bool {
    const REFERENCES: [&str; 5] = [
        "azureFile",
        "nodePublishSecretRef",
        "secret",
        "secretKeyRef",
        "secretRef",
    ];
    match part {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            value.is_object() && REFERENCES.contains(&name.as_str()) || names_secret(value)
        }),
        Value::Array(elements) => elements.iter().any(names_secret),
        _ => false,
    }
}

/// Gives the files to all containers that have nothing in their place. A volume that is called
/// as ours would be is taken for it.
fn mount_token(spec: &mut Spec, suffix: &str) {
    let names = list(spec, "volumes").iter();
    let mut names = names.filter_map(|volume| volume["name"].as_str());
    let given = names.find(|name| name.starts_with(VOLUME_PREFIX));
    let given = given.map(str::to_owned);
    let is_given = given.is_some();
    let name = given.unwrap_or_else(|| format!("{VOLUME_PREFIX}{suffix}"));
    let mut is_needed = false;
    for field in ["initContainers", "containers"] {
        let containers = spec.get_mut(field).and_then(Value::as_array_mut);
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
    if is_needed
        && !is_given
        && let Value::Array(volumes) = spec.entry("volumes").or_insert_with(|| json!([]))
    {
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

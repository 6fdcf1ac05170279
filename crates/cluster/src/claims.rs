//! What is written of claims and volumes beside who is bound to whom, which
//! [`outrank_controllers::volumes`] decides.
//!
//! Sources, Kubernetes 1.36: `pkg/controller/volume/persistentvolume/pv_controller.go`,
//! `pkg/volume/util/storageclass.go`; external-provisioner 5 for what a volume says that was made.

use outrank_controllers::Stored;
use outrank_controllers::volumes::Unbound;
use outrank_controllers::write::Event;
use serde_json::Value;

const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Says the class of old claims.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Completes a volume that was made for a claim, by what its class says.
pub(crate) fn complete_made(volume: &mut Value, class: Option<&Value>) {
    let field = |name: &str| class.map(|it| it[name].clone()).unwrap_or_default();
    let policy = match field("reclaimPolicy") {
        Value::String(policy) => policy,
        _ => "Delete".to_owned(),
    };
    volume["spec"]["persistentVolumeReclaimPolicy"] = policy.into();
    if let Value::Array(options) = field("mountOptions") {
        volume["spec"]["mountOptions"] = options.into();
    }
    volume["metadata"]["annotations"][PROVISIONED_BY] = field("provisioner");
}

/// Completes a volume that is bound: of what kind it is that it is bound to.
pub(crate) fn complete_volume(volume: &mut Value) {
    if let Value::Object(reference) = &mut volume["spec"]["claimRef"] {
        reference.insert("apiVersion".to_owned(), "v1".into());
        reference.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        volume["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
    }
}

/// Completes a claim that is bound to a volume of this spec: what it has got.
pub(crate) fn complete_claim(claim: &mut Value, volume_spec: Option<&Value>) {
    let Some(spec) = volume_spec else { return };
    claim["status"]["capacity"] = spec["capacity"].clone();
    claim["status"]["accessModes"] = spec["accessModes"].clone();
    claim["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
}

/// The class of claims that name none: of those that say they are, the newest, then the first by
/// name.
pub(crate) fn default_class(classes: &[Value]) -> Option<&str> {
    let is_default = |it: &&Value| it["metadata"]["annotations"][IS_DEFAULT] == "true";
    let text = |it: &Value, field: &str| {
        it["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let defaults = classes.iter().filter(is_default);
    let newest = defaults.max_by(|a, b| {
        let by_time = text(a, "creationTimestamp").cmp(&text(b, "creationTimestamp"));
        by_time.then_with(|| text(b, "name").cmp(&text(a, "name")))
    });
    newest?["metadata"]["name"].as_str()
}

/// Whether a claim names no class, and could still be given one.
pub(crate) fn wants_default_class(claim: &Value) -> bool {
    let (metadata, spec) = (&claim["metadata"], &claim["spec"]);
    let is_bound = spec["volumeName"].as_str().is_some_and(|it| !it.is_empty());
    spec["storageClassName"].is_null()
        && metadata["annotations"][CLASS_ANNOTATION].is_null()
        && metadata["deletionTimestamp"].is_null()
        && !is_bound
}

/// What is told of a claim that is not bound.
pub(crate) fn event_of(claim: &Stored, why: Unbound) -> Option<Event> {
    let class = claim.raw().map(|it| it["spec"]["storageClassName"].clone());
    let class = class.unwrap_or_default();
    let class = class.as_str().unwrap_or_default();
    let normal = |reason, text: &str| Some(Event::normal(claim, reason, text.to_owned()));
    match why {
        Unbound::WaitsForPod => normal(
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding",
        ),
        Unbound::NoClass => normal(
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        ),
        Unbound::VolumeUnfit => {
            let text = "Volume's size is smaller than requested or volume's class does not match \
                        with claim";
            Some(Event::warning(claim, "VolumeMismatch", text.to_owned()))
        }
        Unbound::ClassMissing => {
            let text = format!("storageclass.storage.k8s.io \"{class}\" not found");
            Some(Event::warning(claim, "ProvisioningFailed", text))
        }
        Unbound::Selects => {
            let text = "claim Selector is not supported".to_owned();
            Some(Event::warning(claim, "ProvisioningFailed", text))
        }
        // Of these upstream tells nothing: a volume may still come.
        Unbound::VolumeMissing | Unbound::NoProvisioner => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_default_class_is_that_of_claims() {
        let class = |name: &str, created: &str, is_default: &str| {
            json!({"metadata": {"name": name, "creationTimestamp": created,
                "annotations": {IS_DEFAULT: is_default}}})
        };
        let classes = [
            class("a", "2026-01-01T00:00:00Z", "true"),
            class("c", "2026-01-02T00:00:00Z", "true"),
            class("b", "2026-01-02T00:00:00Z", "true"),
            class("d", "2026-01-03T00:00:00Z", "false"),
        ];
        assert_eq!(default_class(&classes), Some("b"));
        assert_eq!(default_class(&classes[3..]), None);
        assert!(wants_default_class(&json!({"spec": {}})));
        assert!(!wants_default_class(
            &json!({"spec": {"storageClassName": ""}})
        ));
        assert!(!wants_default_class(&json!({"spec": {"volumeName": "v"}})));
    }
}

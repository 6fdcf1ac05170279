//! What is written of claims and volumes beside who is bound to whom, which
//! [`outrank_controllers::volumes`] decides.
//!
//! Sources, Kubernetes 1.36: `pkg/controller/volume/persistentvolume/pv_controller.go`,
//! `pkg/volume/util/storageclass.go`; external-provisioner 5 for what a volume says that was made.

use outrank_api::types::PersistentVolumeClaim;
use outrank_controllers::Stored;
use outrank_controllers::volumes::Unbound;
use outrank_controllers::write::Event;
use serde_json::Value;

const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

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

/// Whether a claim names no class, and could still be given one.
pub(crate) fn wants_default_class(claim: &PersistentVolumeClaim) -> bool {
    claim.class_name().is_none()
        && claim.metadata.deletion_timestamp.is_none()
        && claim.spec.volume_name.is_empty()
}

/// What is told of a claim that is not bound.
pub(crate) fn event_of(claim: &Stored, why: Unbound) -> Option<Event> {
    let class = claim.get::<PersistentVolumeClaim>()?.class_name();
    let class = class.unwrap_or_default();
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
    fn a_claim_without_a_class_wants_the_default_one() {
        let wants = |claim: Value| {
            let claim = serde_json::from_value(claim).expect("a claim");
            wants_default_class(&claim)
        };
        assert!(wants(json!({"spec": {}})));
        assert!(!wants(json!({"spec": {"storageClassName": ""}})));
        assert!(!wants(json!({"spec": {"volumeName": "v"}})));
    }
}

//! What controllers change of a template to make one pod of it.
//!
//! Each change is stated once and done twice: to the typed spec, which decisions read, and to
//! the JSON of the template, which has all the fields that are not typed, too.

use outrank_api::types::{PersistentVolumeClaimVolumeSource, PodSpec, Toleration, Volume};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::workloads::bound_to;

/// One change of a pod's spec.
#[derive(Clone, Debug, PartialEq)]
pub enum PodEdit {
    /// The pod may only run on this node: its required node affinity is replaced.
    Node(String),
    /// The pod tolerates this in addition; one alike is replaced.
    Toleration(Toleration),
    /// These volumes are claims, by name of the volume; they come first and take the place of
    /// volumes of the same name.
    Claims(Vec<(String, String)>),
    /// The host name.
    Hostname(String),
    /// The subdomain of the host name.
    Subdomain(String),
    /// Every container is told the value of a label by an environment variable, unless it has one
    /// of that name.
    EnvOfLabel {
        /// Name of the variable.
        name: &'static str,
        /// The label.
        label: &'static str,
    },
}

impl PodEdit {
    /// Whether the typed spec has the fields that are changed.
    pub fn is_typed(&self) -> bool {
        match self {
            Self::Node(_) | Self::Toleration(_) | Self::Claims(_) => true,
            Self::Hostname(_) | Self::Subdomain(_) | Self::EnvOfLabel { .. } => false,
        }
    }

    /// Changes the typed spec.
    pub fn edit(&self, spec: &mut PodSpec) {
        match self {
            Self::Node(node) => spec.affinity = Some(bound_to(spec.affinity.take(), node)),
            Self::Toleration(toleration) => {
                let alike = spec
                    .tolerations
                    .iter_mut()
                    .find(|it| is_alike(it, toleration));
                match alike {
                    Some(alike) => *alike = toleration.clone(),
                    None => spec.tolerations.push(toleration.clone()),
                }
            }
            Self::Claims(claims) => {
                let is_claim = |volume: &Volume| claims.iter().any(|it| it.0 == volume.name);
                spec.volumes.retain(|volume| !is_claim(volume));
                let volumes = claims.iter().map(|(name, claim)| Volume {
                    name: name.clone(),
                    persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                        claim_name: claim.clone(),
                        read_only: false,
                    }),
                    ..Default::default()
                });
                spec.volumes.splice(0..0, volumes);
            }
            // Not typed.
            Self::Hostname(_) | Self::Subdomain(_) | Self::EnvOfLabel { .. } => {}
        }
    }

    /// Changes the spec as JSON.
    pub fn edit_value(&self, spec: &mut Map<String, Value>) {
        match self {
            Self::Node(node) => {
                let requirement =
                    json!({"key": "metadata.name", "operator": "In", "values": [node]});
                let terms = json!({"nodeSelectorTerms": [{"matchFields": [requirement]}]});
                let affinity = fields(spec, "affinity");
                let node_affinity = fields(affinity, "nodeAffinity");
                let required = "requiredDuringSchedulingIgnoredDuringExecution";
                node_affinity.insert(required.to_owned(), terms);
            }
            Self::Toleration(toleration) => {
                let tolerations = elements(spec, "tolerations");
                let same = |it: &&mut Value| {
                    let typed = Toleration::deserialize(&**it);
                    typed.is_ok_and(|it| is_alike(&it, toleration))
                };
                let new = serde_json::to_value(toleration).unwrap_or_default();
                match tolerations.iter_mut().find(same) {
                    Some(alike) => *alike = new,
                    None => tolerations.push(new),
                }
            }
            Self::Claims(claims) => {
                let volumes = elements(spec, "volumes");
                volumes.retain(|volume| !claims.iter().any(|it| volume["name"] == it.0.as_str()));
                let claims = claims.iter().map(
                    |(name, claim)| json!({"name": name, "persistentVolumeClaim": {"claimName": claim}}),
                );
                volumes.splice(0..0, claims);
            }
            Self::Hostname(name) => {
                spec.insert("hostname".to_owned(), name.as_str().into());
            }
            Self::Subdomain(name) => {
                spec.insert("subdomain".to_owned(), name.as_str().into());
            }
            Self::EnvOfLabel { name, label } => {
                let path = format!("metadata.labels['{label}']");
                let new = json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
                for list in ["initContainers", "containers"] {
                    let containers = spec.get_mut(list).and_then(Value::as_array_mut);
                    let containers = containers.into_iter().flatten();
                    for container in containers.filter_map(Value::as_object_mut) {
                        let env = elements(container, "env");
                        if !env.iter().any(|it| it["name"] == *name) {
                            env.push(new.clone());
                        }
                    }
                }
            }
        }
    }
}

/// Whether a toleration says the same but for how long.
fn is_alike(a: &Toleration, b: &Toleration) -> bool {
    (&a.key, &a.operator, &a.effect, &a.value) == (&b.key, &b.operator, &b.effect, &b.value)
}

/// The fields of the object of this name; what is none becomes one.
fn fields<'m>(map: &'m mut Map<String, Value>, name: &str) -> &'m mut Map<String, Value> {
    let value = map.entry(name).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("it was made one"),
    }
}

/// The elements of the list of this name; what is none becomes one.
fn elements<'m>(map: &'m mut Map<String, Value>, name: &str) -> &'m mut Vec<Value> {
    let value = map.entry(name).or_insert(Value::Null);
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(elements) => elements,
        _ => unreachable!("it was made one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_edited_alike() {
        let lasting = json!({"key": "k", "operator": "Exists", "effect": "NoExecute"});
        let written = json!({
            "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "b"}]}],
            "affinity": {"nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution":
                    [{"weight": 1, "preference": {"matchExpressions": []}}],
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 5}],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
        });
        let edits = [
            PodEdit::Node("n1".into()),
            PodEdit::Toleration(serde_json::from_value(lasting).expect("a toleration")),
            PodEdit::Claims(vec![("data".into(), "data-db-0".into())]),
            PodEdit::Hostname("db-0".into()),
            PodEdit::Subdomain("db".into()),
            PodEdit::EnvOfLabel {
                name: "I",
                label: "a/b",
            },
        ];
        let mut typed: PodSpec = serde_json::from_value(written.clone()).expect("a spec");
        let mut value = written;
        for edit in &edits {
            edit.edit(&mut typed);
            edit.edit_value(value.as_object_mut().expect("an object"));
        }
        assert_eq!(
            serde_json::from_value::<PodSpec>(value.clone()).expect("a spec"),
            typed
        );
        assert_eq!(value["hostname"], "db-0");
        assert_eq!(value["containers"][0]["env"][1]["name"], "I");
        assert_eq!(
            value["volumes"][0]["persistentVolumeClaim"]["claimName"],
            "data-db-0"
        );
        assert_eq!(value["volumes"][1], json!({"name": "tmp", "emptyDir": {}}));
    }
}

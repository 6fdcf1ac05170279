//! The annotation by which a node says whose pods had better go elsewhere.
//!
//! It is alpha, and gone since Kubernetes 1.24. Sources: `k8s.io/component-helpers/
//! scheduling/corev1` GetAvoidPodsFromNodeAnnotations and `core/v1` AvoidPods,
//! Kubernetes 1.20.

use serde_json::{Map, Value};

/// The annotation.
pub const PREFER_AVOID_PODS: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

/// A controller whose pods had better go elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AvoidedController {
    /// Its kind, such as `ReplicaSet`.
    pub kind: String,
    /// Its UID.
    pub uid: String,
}

/// The controllers that the annotation names; none if it cannot be read, as upstream has
/// it.
pub fn avoided_controllers(annotation: &str) -> Vec<AvoidedController> {
    let Ok(Value::Object(annotation)) = serde_json::from_str(annotation) else {
        return Vec::new();
    };
    let entries = match field(&annotation, "preferAvoidPods") {
        Some(Value::Array(entries)) => entries.as_slice(),
        _ => return Vec::new(),
    };
    let controllers: Option<Vec<AvoidedController>> = entries.iter().map(controller).collect();
    controllers.unwrap_or_default()
}

/// `None` if something is not of the type that it should be.
fn controller(entry: &Value) -> Option<AvoidedController> {
    let object = |value: Option<&Value>| match value {
        None | Some(Value::Null) => Some(Map::new()),
        Some(Value::Object(object)) => Some(object.clone()),
        Some(_) => None,
    };
    let signature = object(field(&object(Some(entry))?, "podSignature"))?;
    let controller = object(field(&signature, "podController"))?;
    let text = |name| match field(&controller, name) {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => None,
    };
    Some(AvoidedController {
        kind: text("kind")?,
        uid: text("uid")?,
    })
}

/// A field, whatever the case of its letters, as Go reads JSON.
fn field<'v>(object: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    object.get(name).or_else(|| {
        let mut fields = object.iter();
        let found = fields.find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_names_controllers_or_nobody() {
        let of = |uid: &str| AvoidedController {
            kind: "ReplicaSet".into(),
            uid: uid.into(),
        };
        let entry = |uid: &str| {
            format!(r#"{{"podSignature":{{"podController":{{"kind":"ReplicaSet","uid":{uid}}}}}}}"#)
        };
        let all = |entries: &[String]| {
            avoided_controllers(&format!(r#"{{"preferAvoidPods":[{}]}}"#, entries.join(",")))
        };
        let two = [entry(r#""a""#), entry(r#""b""#)];
        assert_eq!(all(&two), [of("a"), of("b")]);
        assert_eq!(all(&[entry(r#""a""#), entry("7")]), []);
        assert_eq!(all(&["{}".into()]), [AvoidedController::default()]);
        assert_eq!(avoided_controllers("{"), []);
    }
}

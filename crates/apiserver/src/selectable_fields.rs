//! Fields by which objects can be selected (`--field-selector`).
//!
//! Every object can be selected by `metadata.name`, and by `metadata.namespace` if it has one.
//! Some kinds have a few more. Sources, Kubernetes 1.36: `pkg/apis/*/v1/conversion.go`
//! (`AddFieldLabelConversionsFor...`) and the `ToSelectableFields` of `pkg/registry`.

use std::borrow::Cow;

use outrank_store::Key;
use serde_json::Value;

/// The fields of a resource beside name and namespace: what selectors call them, and where they
/// are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectableFields(&'static [(&'static str, &'static str)]);

const PODS: &[(&str, &str)] = &[
    ("spec.nodeName", "/spec/nodeName"),
    ("spec.restartPolicy", "/spec/restartPolicy"),
    ("spec.schedulerName", "/spec/schedulerName"),
    ("spec.serviceAccountName", "/spec/serviceAccountName"),
    ("spec.hostNetwork", "/spec/hostNetwork"),
    ("status.phase", "/status/phase"),
    ("status.podIP", "/status/podIP"),
    ("status.podIPs", "/status/podIP"),
    ("status.nominatedNodeName", "/status/nominatedNodeName"),
];

const EVENTS: &[(&str, &str)] = &[
    ("involvedObject.kind", "/involvedObject/kind"),
    ("involvedObject.namespace", "/involvedObject/namespace"),
    ("involvedObject.name", "/involvedObject/name"),
    ("involvedObject.uid", "/involvedObject/uid"),
    ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
    (
        "involvedObject.resourceVersion",
        "/involvedObject/resourceVersion",
    ),
    ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
    ("reason", "/reason"),
    ("reportingComponent", "/reportingComponent"),
    ("source", "/source/component"),
    ("type", "/type"),
];

/// Fields that hold a truth value, which is `false` where nothing is written.
const BOOLEANS: [&str; 2] = ["spec.unschedulable", "spec.hostNetwork"];

/// Fields that hold a number, which is 0 where nothing is written.
const NUMBERS: [&str; 2] = ["status.replicas", "status.successful"];

impl SelectableFields {
    /// Those of a resource, as the store calls it.
    pub fn of(resource: &str) -> Self {
        Self(match resource {
            "pods" => PODS,
            "events" => EVENTS,
            "nodes" => &[("spec.unschedulable", "/spec/unschedulable")],
            "namespaces" => &[("status.phase", "/status/phase")],
            "secrets" => &[("type", "/type")],
            "services" => &[
                ("spec.clusterIP", "/spec/clusterIP"),
                ("spec.type", "/spec/type"),
            ],
            "replicationcontrollers" | "replicasets.apps" => {
                &[("status.replicas", "/status/replicas")]
            }
            "jobs.batch" => &[("status.successful", "/status/succeeded")],
            "certificatesigningrequests.certificates.k8s.io" => {
                &[("spec.signerName", "/spec/signerName")]
            }
            "resourceslices.resource.k8s.io" => &[
                ("spec.nodeName", "/spec/nodeName"),
                ("spec.driver", "/spec/driver"),
            ],
            _ => &[],
        })
    }

    /// What the store calls the field that a selector names; `None` if there is no such field.
    /// Events have other names in `events.k8s.io`.
    pub fn stored_name<'f>(self, api_group: &str, field: &'f str) -> Option<Cow<'f, str>> {
        let renamed = match (api_group, field.split_once('.')) {
            ("events.k8s.io", Some(("regarding", rest))) => {
                Cow::Owned(format!("involvedObject.{rest}"))
            }
            ("events.k8s.io", None) if field == "reportingController" => {
                Cow::Borrowed("reportingComponent")
            }
            ("events.k8s.io", Some(("involvedObject", _))) => return None,
            _ => Cow::Borrowed(field),
        };
        let is_known = ["metadata.name", "metadata.namespace"].contains(&&*renamed)
            || self.0.iter().any(|(known, _)| *known == renamed);
        is_known.then_some(renamed)
    }

    /// The value of a field; empty if there is none.
    pub(crate) fn value<'v>(self, key: &'v Key, values: &'v [Box<str>], field: &str) -> &'v str {
        match field {
            "metadata.name" => &key.name,
            "metadata.namespace" => &key.namespace,
            field => {
                let at = self.0.iter().position(|(known, _)| *known == field);
                at.and_then(|at| values.get(at)).map_or("", |it| it)
            }
        }
    }
}

/// The values of the selectable fields of an object, in their order.
pub(crate) fn values_of(resource: &str, object: &Value) -> Box<[Box<str>]> {
    let fields = SelectableFields::of(resource).0.iter();
    let values = fields.map(|(field, pointer)| {
        let text = match object.pointer(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(it)) => it.to_string(),
            Some(Value::Number(it)) => it.to_string(),
            _ if BOOLEANS.contains(field) => "false".to_owned(),
            _ if NUMBERS.contains(field) => "0".to_owned(),
            _ => String::new(),
        };
        text.into_boxed_str()
    });
    values.collect()
}

//! Requests that make objects, good and bad, and the answers of an API server.

use outrank_admission::service_account::{MOUNT_PATH, VOLUME_PREFIX};
use outrank_admission::write::{Stamp, Written};
use outrank_admission::{
    AdmissionChain, Attributes, ClassRules, Cluster, Operation, PluginFlags, PriorityResolver,
    Writes,
};
use outrank_api::request_body::{self, Body, FieldValidation};
use outrank_api::resource_type::ResourceType;
use outrank_api::status::{Status, warning_header};
use outrank_api::types::Node;
use serde_json::{Value, json};

use super::field;

/// Our answer to an operation; `None` if the topic is not this one.
pub(super) fn answer(topic: &str, op: &str, input: &Value) -> Option<Result<Value, String>> {
    ((topic, op) == ("validation-api", "create")).then(|| create(input))
}

const STAMP: Stamp<'static> = Stamp {
    now: "2026-01-01T00:00:00Z",
    uid: "6e8bc430-9c3a-11d9-9669-0800200c9a66",
    suffix: "x",
    manager: "",
};

/// The cluster that was there: no priority classes and three nodes in one zone.
struct Recorded {
    classes: PriorityResolver,
    nodes: Vec<Node>,
}

impl Recorded {
    fn new() -> Self {
        let nodes = (1..=3).map(|number| {
            let mut node = Node::default();
            node.metadata.name = format!("node-{number}");
            let zone = ("topology.kubernetes.io/zone".to_owned(), "z1".to_owned());
            node.metadata.labels.extend([zone]);
            node
        });
        Self {
            classes: PriorityResolver::new([]),
            nodes: nodes.collect(),
        }
    }
}

impl Cluster for Recorded {
    fn priority_classes(&self) -> &PriorityResolver {
        &self.classes
    }

    fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.metadata.name == name)
    }
}

fn create(input: &Value) -> Result<Value, String> {
    let path: String = field(input, "path")?;
    let body: Value = field(input, "body")?;
    let (resource, namespace) = resource_of(&path).ok_or_else(|| format!("path {path}"))?;
    let chain = AdmissionChain::default_plugins(&PluginFlags::default());
    let chain = chain.map_err(|errors| errors.join("; "))?;
    let cluster = Recorded::new();
    let writes = Writes {
        chain: &chain,
        classes: ClassRules::default(),
        cluster: &cluster,
    };
    let made = serve(&writes, resource, namespace, &body.to_string());
    let (code, body, warnings) = match made {
        Ok(Written { value, warnings }) => (201, recorded_form(value), warnings),
        Err(status) => (status.code, json!(status), Vec::new()),
    };
    let warnings: Vec<String> = warnings.iter().map(|it| warning_header(it)).collect();
    let mut answer = json!({ "code": code, "body": body });
    if !warnings.is_empty() {
        answer["warnings"] = json!(warnings);
    }
    Ok(answer)
}

fn serve(
    writes: &Writes<'_>,
    resource: &ResourceType,
    namespace: &str,
    text: &str,
) -> Result<Written, Status> {
    let Body { value, warnings } = request_body::read(resource, text, FieldValidation::Warn)?;
    let attributes = Attributes {
        namespace,
        dry_run: true,
        ..Attributes::of(Operation::Create, resource)
    };
    let mut written = writes.create(&attributes, value, STAMP)?;
    written.warnings.splice(..0, warnings);
    Ok(written)
}

/// The type and the namespace that a path is about.
fn resource_of(path: &str) -> Option<(&'static ResourceType, &str)> {
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    let steps: Vec<&str> = path.split('/').filter(|step| !step.is_empty()).collect();
    let (version, rest) = match steps.as_slice() {
        ["api", version, rest @ ..] => ((*version).to_owned(), rest),
        ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
        _ => return None,
    };
    let (namespace, plural) = match rest {
        ["namespaces", namespace, plural] => (*namespace, *plural),
        [plural] => ("", *plural),
        _ => return None,
    };
    let mut types = ResourceType::built_in().iter();
    let found = types.find(|it| it.plural == plural && it.api_version() == version)?;
    Some((found, namespace))
}

/// The object without what was left out of the recorded ones.
fn recorded_form(mut object: Value) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        for name in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            metadata.remove(name);
        }
    }
    if object["kind"] == "Pod"
        && let Some(Value::Object(spec)) = object.get_mut("spec")
    {
        let is_token = |volume: &Value| {
            let name = volume["name"].as_str().unwrap_or_default();
            name.starts_with(VOLUME_PREFIX)
        };
        remove_from_list(spec, "volumes", is_token);
        let containers = spec.get_mut("containers").and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Value::Object(container) = container {
                let is_token = |mount: &Value| mount["mountPath"] == MOUNT_PATH;
                remove_from_list(container, "volumeMounts", is_token);
            }
        }
    }
    object
}

/// Removes elements of a list, and the list if none are left.
fn remove_from_list(
    fields: &mut serde_json::Map<String, Value>,
    name: &str,
    is_removed: impl Fn(&Value) -> bool,
) {
    if let Some(Value::Array(elements)) = fields.get_mut(name) {
        elements.retain(|element| !is_removed(element));
        if elements.is_empty() {
            fields.remove(name);
        }
    }
}

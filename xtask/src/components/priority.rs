//! Requests for priority classes and pods, and the answers of an API server.
//!
//! Here are a store and the way from a request to the functions that decide; what is answered
//! is theirs. The recorded answers have `UID`, `RV` and `TIME` where there was what no other
//! server would say, too.

use std::collections::BTreeMap;

use outrank_admission::priority_class::system_classes;
use outrank_admission::write::Stamp;
use outrank_admission::{
    AdmissionChain, Attributes, ClassRules, Cluster, Operation, PluginFlags, PriorityResolver,
    Writes,
};
use outrank_api::decode::ObjectKind;
use outrank_api::metadata;
use outrank_api::patch::{self, PatchType};
use outrank_api::request_body::{self, Body, FieldValidation};
use outrank_api::status::{Status, warning_header};
use outrank_api::types::PriorityClass;
use serde_json::{Value, json};

use super::field;

/// Our answer to an operation; `None` if the topic is not this one.
pub(super) fn answer(topic: &str, op: &str, input: &Value) -> Option<Result<Value, String>> {
    ((topic, op) == ("priority-api", "requests")).then(|| requests(input))
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    path: String,
    #[serde(default)]
    content_type: String,
    #[serde(default)]
    body: Value,
}

const NOW: &str = "2026-01-01T00:00:00Z";
const UID: &str = "6e8bc430-9c3a-11d9-9669-0800200c9a66";
const RESOURCE_VERSION: &str = "4711081547110815";

const STAMP: Stamp<'static> = Stamp {
    now: NOW,
    uid: UID,
    suffix: "x",
    manager: "",
};

fn requests(input: &Value) -> Result<Value, String> {
    let requests: Vec<Request> = field(input, "requests")?;
    let mut store = Store::new()?;
    let answers: Result<Vec<Value>, String> = requests
        .iter()
        .map(|request| store.serve(request))
        .collect();
    Ok(json!({ "responses": answers? }))
}

/// Priority classes by name.
struct Store {
    classes: BTreeMap<String, Value>,
    chain: AdmissionChain,
}

/// An answer: the code of a success, and what is in it.
type Answer = Result<(u16, Value), Status>;

struct Classes(PriorityResolver);

impl Cluster for Classes {
    fn priority_classes(&self) -> &PriorityResolver {
        &self.0
    }
}

impl Store {
    fn new() -> Result<Self, String> {
        let chain = AdmissionChain::default_plugins(&PluginFlags::default());
        let mut store = Self {
            classes: BTreeMap::new(),
            chain: chain.map_err(|errors| errors.join("; "))?,
        };
        for class in system_classes() {
            let mut body = serde_json::to_value(class).map_err(|error| error.to_string())?;
            body["apiVersion"] = json!(ObjectKind::PriorityClass.api_version());
            body["kind"] = json!(ObjectKind::PriorityClass.name());
            let made = store.create_class(body);
            made.map_err(|status| status.message)?;
        }
        Ok(store)
    }

    fn serve(&mut self, request: &Request) -> Result<Value, String> {
        let (path, _) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let mut warnings = Vec::new();
        let answer = match path.strip_prefix("/apis/scheduling.k8s.io/v1/priorityclasses") {
            Some(name) => self.serve_class(request, name.trim_start_matches('/'), &mut warnings),
            None => {
                let namespace = path.strip_prefix("/api/v1/namespaces/");
                let namespace = namespace.and_then(|rest| rest.strip_suffix("/pods"));
                let namespace = namespace.ok_or_else(|| format!("unknown path {path}"))?;
                self.create_pod(request, namespace, &mut warnings)
            }
        };
        let (code, body) = match answer {
            Ok(answer) => answer,
            Err(status) => (status.code, json!(status)),
        };
        let warnings: Vec<String> = warnings.iter().map(|it| warning_header(it)).collect();
        let mut answer = json!({ "code": code, "body": recorded_form(body) });
        if !warnings.is_empty() {
            answer["warnings"] = json!(warnings);
        }
        Ok(answer)
    }

    fn serve_class(&mut self, request: &Request, name: &str, warnings: &mut Vec<String>) -> Answer {
        let kind = ObjectKind::PriorityClass;
        let text = request.body.to_string();
        match request.method.as_str() {
            "POST" => {
                let body = read(kind, &text, warnings)?;
                Ok((201, self.create_class(body)?))
            }
            "PUT" => {
                let body = read(kind, &text, warnings)?;
                check_name(&body, name)?;
                let live = self.get(name)?.clone();
                Ok((200, self.update_class(name, &live, body)?))
            }
            "PATCH" => {
                let live = self.get(name)?.clone();
                let form = PatchType::of_content_type(&request.content_type)
                    .ok_or_else(|| Status::unsupported_media_type(&[]))?;
                let patched = patch::apply(kind.into(), &live, form, &text, FieldValidation::Warn)?;
                warnings.extend(patched.warnings);
                check_name(&patched.value, name)?;
                Ok((200, self.update_class(name, &live, patched.value)?))
            }
            "DELETE" => {
                let cluster = self.cluster();
                let attributes = Attributes {
                    name,
                    ..Attributes::of(Operation::Delete, kind)
                };
                self.writes(&cluster).delete(&attributes)?;
                self.get(name)?;
                self.classes.remove(name);
                Ok((200, json!(Status::deleted(kind.resource(), name, UID))))
            }
            "GET" => Ok((200, self.get(name)?.clone())),
            method => Err(Status::method_not_allowed(kind.resource(), method)),
        }
    }

    fn create_class(&mut self, body: Value) -> Result<Value, Status> {
        let kind = ObjectKind::PriorityClass;
        let name = body.pointer("/metadata/name").and_then(Value::as_str);
        let name = name.unwrap_or_default().to_owned();
        let attributes = Attributes {
            name: &name,
            ..Attributes::of(Operation::Create, kind)
        };
        let cluster = self.cluster();
        let made = self.writes(&cluster).create(&attributes, body, STAMP)?;
        let mut made = made.value;
        let name = made["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if self.classes.contains_key(&name) {
            return Err(Status::already_exists(kind.resource(), &name));
        }
        made["metadata"]["resourceVersion"] = json!(RESOURCE_VERSION);
        self.classes.insert(name, made.clone());
        Ok(made)
    }

    fn update_class(&mut self, name: &str, live: &Value, new: Value) -> Result<Value, Status> {
        let attributes = Attributes {
            name,
            ..Attributes::of(Operation::Update, ObjectKind::PriorityClass)
        };
        let cluster = self.cluster();
        let updated = self
            .writes(&cluster)
            .update(&attributes, live, new, STAMP)?
            .value;
        self.classes.insert(name.to_owned(), updated.clone());
        Ok(updated)
    }

    fn create_pod(&self, request: &Request, namespace: &str, warnings: &mut Vec<String>) -> Answer {
        let body = read(ObjectKind::Pod, &request.body.to_string(), warnings)?;
        let name = body.pointer("/metadata/name").and_then(Value::as_str);
        let name = name.unwrap_or_default().to_owned();
        let attributes = Attributes {
            name: &name,
            namespace,
            dry_run: true,
            ..Attributes::of(Operation::Create, ObjectKind::Pod)
        };
        let cluster = self.cluster();
        let pod = self.writes(&cluster).create(&attributes, body, STAMP)?;
        warnings.extend(pod.warnings);
        Ok((201, pod.value))
    }

    fn get(&self, name: &str) -> Result<&Value, Status> {
        let resource = ObjectKind::PriorityClass.resource();
        let class = self.classes.get(name);
        class.ok_or_else(|| Status::not_found(resource, name))
    }

    fn cluster(&self) -> Classes {
        let classes = self.classes.values();
        let classes = classes.filter_map(|class| serde_json::from_value(class.clone()).ok());
        let classes: Vec<PriorityClass> = classes.collect();
        Classes(PriorityResolver::new(&classes))
    }

    fn writes<'s>(&'s self, cluster: &'s Classes) -> Writes<'s> {
        Writes {
            chain: &self.chain,
            classes: ClassRules::default(),
            cluster,
        }
    }
}

fn read(kind: ObjectKind, text: &str, warnings: &mut Vec<String>) -> Result<Value, Status> {
    let Body {
        value,
        warnings: found,
    } = request_body::read(kind.into(), text, FieldValidation::Warn)?;
    warnings.extend(found);
    Ok(value)
}

fn check_name(object: &Value, name: &str) -> Result<(), Status> {
    let metadata = serde_json::from_value(object["metadata"].clone()).unwrap_or_default();
    metadata::check_name(&metadata, name)
}

/// The answer without what was left out of the recorded ones.
fn recorded_form(mut body: Value) -> Value {
    if body["kind"] == "Pod" {
        let spec = body["spec"].as_object().cloned().unwrap_or_default();
        let kept = spec.into_iter().filter(|(name, _)| {
            ["priority", "priorityClassName", "preemptionPolicy"].contains(&name.as_str())
        });
        return json!({ "kind": "Pod", "spec": kept.collect::<serde_json::Map<_, _>>() });
    }
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        for name in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            metadata.remove(name);
        }
    }
    if let Some(Value::Object(details)) = body.get_mut("details") {
        details.remove("uid");
    }
    let text = body.to_string();
    let text = text
        .replace(UID, "UID")
        .replace(RESOURCE_VERSION, "RV")
        .replace(NOW, "TIME");
    serde_json::from_str(&text).unwrap_or(body)
}

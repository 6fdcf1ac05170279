//! Objects sent to the API server of Kubernetes 1.36.2, and its answers: what it refused
//! must be an error here, what it took must not, with the same defaults.

use std::io::Read;

use outrank_api::decode::{self, Object, ObjectKind};
use outrank_api::resource_type::ResourceType;
use outrank_api::{defaults, validation, written_form};
use serde_json::Value;

const RECORDS: &[u8] = include_bytes!("recorded/validation-api.jsonl.gz");

fn records() -> Vec<Value> {
    let mut text = String::new();
    let mut records = flate2::read::GzDecoder::new(RECORDS);
    records.read_to_string(&mut text).expect("gzipped text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a record a line"))
        .collect()
}

#[test]
fn what_the_api_server_refuses_is_an_error() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for record in records() {
        let body = &record["input"]["body"];
        let kind = body["kind"].as_str().unwrap_or_default();
        let api_version = body["apiVersion"].as_str().unwrap_or_default();
        let code = record["expected"]["code"].as_i64().unwrap_or_default();
        let is_read = ObjectKind::find(api_version, kind).is_some();
        // 403 is admission: it depends on what else is in the cluster.
        if !is_read || code == 403 {
            continue;
        }
        let bytes = serde_json::to_vec(body).expect("JSON");
        let loaded = decode::load([("record", bytes.as_slice())]);
        checked += 1;
        if (code == 201) != loaded.errors.is_empty() {
            let errors: Vec<String> = loaded.errors.iter().map(ToString::to_string).collect();
            wrong.push(format!(
                "{}: {code}, {errors:?}\n  {}",
                record["id"], record["expected"]
            ));
        }
    }
    assert!(checked > 350, "{checked} records");
    assert!(
        wrong.is_empty(),
        "{} of {checked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn defaults_are_those_of_the_api_server() {
    let mut checked = 0;
    for record in records() {
        let answer = &record["expected"]["body"];
        let is_pod = answer["kind"] == "Pod" || answer["kind"] == "Deployment";
        if !is_pod || record["expected"]["code"] != 201 {
            continue;
        }
        let mut ours = decode::decode_value(&record["input"]["body"]).expect("valid");
        defaults::default_object(&mut ours);
        if let Object::Pod(pod) = &mut ours {
            defaults::add_default_tolerations(pod);
        }
        let mut theirs = decode::decode_value(answer).expect("valid");
        if let (Object::Pod(ours), Object::Pod(theirs)) = (&mut ours, &mut theirs) {
            // Resolved by admission from the priority class.
            let spec = std::sync::Arc::make_mut(&mut ours.spec);
            spec.priority = theirs.spec.priority;
            spec.priority_class_name = theirs.spec.priority_class_name.clone();
            spec.preemption_policy = theirs.spec.preemption_policy.clone();
            ours.status.qos_class = theirs.status.qos_class.clone();
        }
        if let (Object::Deployment(ours), Object::Deployment(theirs)) = (&mut ours, &mut theirs) {
            let (ours, theirs) = (&mut ours.spec.template, &mut theirs.spec.template);
            assert_eq!(ours.spec, theirs.spec, "{}", record["id"]);
        }
        checked += 1;
        // Admission copies these from the node that a pod names.
        theirs
            .metadata_mut()
            .labels
            .retain(|key, _| !key.starts_with("topology.kubernetes.io/"));
        assert_eq!(
            ours.metadata().labels,
            theirs.metadata().labels,
            "{}",
            record["id"]
        );
        if let (Object::Pod(ours), Object::Pod(theirs)) = (&ours, &theirs) {
            assert_eq!(ours.spec, theirs.spec, "{}", record["id"]);
            assert_eq!(ours.status, theirs.status, "{}", record["id"]);
        }
    }
    assert!(checked > 80, "{checked} records");
}

/// The object of a record as it is validated: of the namespace of the request, tidy, defaulted.
fn defaulted(body: &Value) -> (&'static ResourceType, Value) {
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    let resource = ResourceType::of_kind(text("apiVersion"), text("kind")).expect("a kind");
    let mut object = body.clone();
    if resource.is_namespaced {
        object["metadata"]["namespace"] = "default".into();
    }
    written_form::tidy(resource, &mut object);
    defaults::fill_in(resource, &mut object);
    (resource, object)
}

#[test]
fn messages_and_their_order_are_those_of_the_api_server() {
    let mut checked = 0;
    for record in records() {
        let (body, answer) = (&record["input"]["body"], &record["expected"]["body"]);
        if record["expected"]["code"] != 422 {
            continue;
        }
        let causes = answer.pointer("/details/causes").and_then(Value::as_array);
        let said = |cause: &Value| {
            let text = |name: &str| cause[name].as_str().unwrap_or_default().to_owned();
            format!("{}: {}", text("field"), text("message"))
        };
        let theirs: Vec<String> = causes.into_iter().flatten().map(said).collect();
        let (resource, object) = defaulted(body);
        let ours = validation::errors(resource, &object);
        let ours: Vec<String> = ours.iter().map(ToString::to_string).collect();
        assert_eq!(ours, theirs, "{}", record["id"]);
        checked += 1;
    }
    assert!(checked > 400, "{checked} records");
}

/// Typed objects and JSON have defaults of their own; they must not tell different stories.
#[test]
fn typed_defaults_are_those_of_the_whole_object() {
    let mut checked = 0;
    for record in records() {
        let body = &record["input"]["body"];
        if record["expected"]["code"] == 400 {
            continue;
        }
        let (_, whole) = defaulted(body);
        let whole = decode::decode_value(&whole).expect("valid");
        let mut typed = decode::decode_value(body).expect("valid");
        defaults::default_object(&mut typed);
        let (mut whole, mut typed) = (whole.to_value(), typed.to_value());
        for object in [&mut whole, &mut typed] {
            let resource = ResourceType::of_kind(
                object["apiVersion"].as_str().unwrap_or_default(),
                object["kind"].as_str().unwrap_or_default(),
            );
            written_form::tidy(resource.expect("a kind"), object);
            // The status of a new object is what the server says, not a default.
            if let Some(fields) = object.as_object_mut() {
                fields.remove("status");
            }
        }
        assert_eq!(typed, whole, "{}", record["id"]);
        checked += 1;
    }
    assert!(checked > 550, "{checked} records");
}

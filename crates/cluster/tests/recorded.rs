//! Requests that were sent to Kubernetes 1.36.2, sent to a cluster of ours, over HTTP and TLS:
//! the answers must be the recorded ones.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};

use outrank_admission::PluginFlags;
use outrank_apiserver::http::Limits;
use outrank_cluster::{Cluster, ClusterConfig, Part, nodes};
use outrank_engine::EngineConfig;
use serde_json::{Map, Value, json};
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider};

const PRIORITY: &[u8] = include_bytes!("../../../tests/golden/components/priority-api.jsonl.gz");
const VALIDATION: &[u8] =
    include_bytes!("../../../tests/golden/components/validation-api.jsonl.gz");

const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

/// A cluster in which nobody does anything, and a client with all rights.
struct Server {
    runtime: tokio::runtime::Runtime,
    cluster: Option<Cluster>,
    agent: Agent,
    root: String,
}

impl Server {
    fn start(objects: Vec<Value>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let config = ClusterConfig {
            data: None,
            address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0),
            objects: objects.into_iter().map(Into::into).collect(),
            without: BTreeSet::from(Part::ALL),
            admission: PluginFlags::default(),
            limited_resources: Vec::new(),
            scheduler: EngineConfig::default(),
            extensions: Default::default(),
            limits: Limits::default(),
            names: Vec::new(),
        };
        let cluster = runtime.block_on(Cluster::start(config)).expect("it starts");
        let front = cluster.front();
        let identity = front
            .client_certificate("admin", &["system:masters".to_owned()])
            .expect("a certificate");
        let parse = |pem: &str| Certificate::from_pem(pem.as_bytes()).expect("a certificate");
        let key = PrivateKey::from_pem(identity.key_pem.reveal().as_bytes()).expect("a key");
        let own = ClientCert::new_with_certs(&[parse(&identity.certificate_pem)], key);
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::new_with_certs(&[parse(
                front.certificate_authority(),
            )]))
            .client_cert(Some(own))
            .build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .build()
            .new_agent();
        let root = format!("https://127.0.0.1:{}", cluster.address().port());
        Self {
            runtime,
            cluster: Some(cluster),
            agent,
            root,
        }
    }

    /// The answer to a recorded request: its code, its body and its warnings.
    fn ask(&self, request: &Value) -> Value {
        let text = |field: &str| request[field].as_str().unwrap_or_default();
        let body = match &request["body"] {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let request = http::Request::builder()
            .method(text("method"))
            .uri(format!("{}{}", self.root, text("path")))
            .header("content-type", text("contentType"))
            // Clients that do not say who they are own fields as `unknown`.
            .header("user-agent", "")
            .body(body)
            .expect("a request");
        let mut answer = self.agent.run(request).expect("an answer");
        let warnings = answer.headers().get_all("warning").iter();
        let warnings: Vec<String> = warnings
            .filter_map(|it| it.to_str().ok().map(str::to_owned))
            .collect();
        let code = answer.status().as_u16();
        let text = answer.body_mut().read_to_string().expect("text");
        let body: Value = serde_json::from_str(&text).expect("JSON");
        let mut answer = json!({"code": code, "body": body});
        if !warnings.is_empty() {
            answer["warnings"] = json!(warnings);
        }
        answer
    }
}

impl Server {
    fn classes(&self) -> Vec<Value> {
        let list = self.ask(&json!({"method": "GET", "path": CLASSES}));
        let items = list["body"]["items"].as_array().cloned();
        items.unwrap_or_default()
    }

    /// Each record begins with the built-in classes as they are at first, and no others.
    fn reset_classes(&self, built_in: &[Value]) {
        for class in self.classes() {
            let name = class["metadata"]["name"].as_str().unwrap_or_default();
            if !name.starts_with("system-") {
                self.ask(&json!({"method": "DELETE", "path": format!("{CLASSES}/{name}")}));
            }
        }
        let cluster = self.cluster.as_ref().expect("it runs");
        for class in built_in {
            let mut class = class.clone();
            class["apiVersion"] = json!("scheduling.k8s.io/v1");
            class["kind"] = json!("PriorityClass");
            cluster.server().load(class).expect("it was there before");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(cluster) = self.cluster.take() {
            self.runtime.block_on(cluster.stop());
        }
    }
}

fn records(bytes: &[u8]) -> Vec<Value> {
    let mut text = String::new();
    let mut decoder = flate2::read::GzDecoder::new(bytes);
    decoder.read_to_string(&mut text).expect("gzip");
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect()
}

/// What no two servers say alike.
fn without_identity(object: &mut Value) {
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
    if let Some(Value::Object(details)) = object.get_mut("details") {
        details.remove("uid");
    }
}

/// `null`, nothing, and what has nothing in it are the same.
fn tidy(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| (name.clone(), tidy(value)));
            let present = fields.filter(|(_, value)| !value.is_null());
            let present: Map<String, Value> = present.collect();
            match present.is_empty() {
                true => Value::Null,
                false => Value::Object(present),
            }
        }
        Value::Array(elements) if elements.is_empty() => Value::Null,
        Value::Array(elements) => elements.iter().map(tidy).collect(),
        other => other.clone(),
    }
}

fn compare(id: &Value, expected: &Value, answer: &Value, wrong: &mut Vec<String>) {
    if tidy(expected) != tidy(answer) {
        wrong.push(format!("{id}\n  expected {expected}\n  answered {answer}"));
    }
}

fn report(wrong: &[String], count: usize) {
    assert!(
        wrong.is_empty(),
        "{} of {count} answers differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("\n")
    );
}

/// Priority classes, and what pods become by them.
#[test]
fn classes_of_priority_are_answered_as_recorded() {
    let server = Server::start(Vec::new());
    let built_in = server.classes();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for record in records(PRIORITY) {
        let requests = record["input"]["requests"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let expected = record["expected"]["responses"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        for (request, expected) in requests.iter().zip(&expected) {
            let mut answer = server.ask(request);
            let body = &mut answer["body"];
            without_identity(body);
            if body["kind"] == "Pod" {
                let spec = body["spec"].as_object().cloned().unwrap_or_default();
                let kept = ["priority", "priorityClassName", "preemptionPolicy"];
                let kept = spec
                    .into_iter()
                    .filter(|(name, _)| kept.contains(&name.as_str()));
                *body = json!({"kind": "Pod", "spec": kept.collect::<Map<_, _>>()});
            }
            count += 1;
            let (expected, answer) = (without_words(expected), without_words(&answer));
            compare(&record["id"], &expected, &answer, &mut wrong);
        }
        server.reset_classes(&built_in);
    }
    assert!(count > 1_000, "{count} requests");
    report(&wrong, count);
}

/// An answer without what no two servers say alike where an error shows an object.
fn without_words(answer: &Value) -> Value {
    match answer {
        Value::String(text) => without_identity_in(text).into(),
        Value::Array(elements) => elements.iter().map(without_words).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), without_words(value)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

fn without_identity_in(text: &str) -> String {
    const NAMES: [&str; 4] = ["uid", "resourceVersion", "creationTimestamp", "time"];
    let marks = NAMES.map(|name| format!(r#"\"{name}\":\""#));
    let (mut out, mut rest) = (String::new(), text);
    loop {
        let ends = marks
            .iter()
            .filter_map(|mark| Some(rest.find(mark.as_str())? + mark.len()));
        let Some(at) = ends.min() else {
            return out + rest;
        };
        out.push_str(&rest[..at]);
        out.push('X');
        rest = &rest[at..];
        rest = &rest[rest.find(r#"\""#).unwrap_or(rest.len())..];
    }
}

/// Objects of several kinds, valid and not.
#[test]
fn objects_are_validated_and_defaulted_as_recorded() {
    let zone = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "z1"}}});
    let objects = nodes::names(3).map(|name| nodes::node(&name, Some(&zone)));
    let server = Server::start(objects.collect());
    let (mut wrong, mut count) = (Vec::new(), 0);
    for record in records(VALIDATION) {
        let mut answer = server.ask(&record["input"]);
        without_identity(&mut answer["body"]);
        if answer["body"]["kind"] == "Pod" {
            without_token(&mut answer["body"]["spec"]);
        }
        count += 1;
        compare(&record["id"], &record["expected"], &answer, &mut wrong);
    }
    assert!(count > 600, "{count} requests");
    report(&wrong, count);
}

/// A pod without the volume in which it finds its token.
fn without_token(spec: &mut Value) {
    let is_token = |name: &Value| {
        name.as_str()
            .is_some_and(|it| it.starts_with("kube-api-access-"))
    };
    if let Some(Value::Array(volumes)) = spec.get_mut("volumes") {
        volumes.retain(|volume| !is_token(&volume["name"]));
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(Value::Array(mounts)) = container.get_mut("volumeMounts") {
                mounts.retain(|mount| !is_token(&mount["name"]));
            }
        }
    }
}

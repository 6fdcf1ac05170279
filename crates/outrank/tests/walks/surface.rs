//! Every request that kubectl 1.32 and 1.36, kube-scheduler 1.36 and kube-controller-manager 1.36
//! sent while walks were recorded, sent again: each must be answered as it was, and in a form that
//! its client takes.
//!
//! `records/requests.txt` has a line for each method and path, with the clients, the forms of
//! answers they ask for, those of bodies they send, parameters and the codes that were seen.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::json;

use crate::api::{Answered, Api};
use crate::samples;
use crate::walk::Cluster;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A line of the list.
#[derive(Debug)]
struct Line {
    verb: String,
    path: String,
    /// Forms of answers, by the names of [`accept`].
    forms: Vec<String>,
    /// Media types of bodies, without `application/`.
    bodies: Vec<String>,
    parameters: Vec<String>,
    codes: Vec<u16>,
}

#[test]
fn every_request_of_the_records_is_answered() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let without = ["--without".to_owned(), "scheduler,controllers".to_owned()];
    let _cluster = Cluster::start(folder.path(), &without);
    let api = Api::new(&folder.path().join("kubeconfig"));
    samples::make_surroundings(&api);
    let mut lines = lines();
    assert_eq!(lines.len(), 225);
    // What deletes comes last.
    lines.sort_by_key(|line| (line.verb == "DELETE", !line.path.ends_with("{name}")));
    let mut problems = Vec::new();
    let mut count = 0;
    for line in &lines {
        for request in line.requests(&api) {
            count += 1;
            if let Err(problem) = request.check(&api, line) {
                problems.push(format!("{} {}: {problem}", line.verb, request.path));
            }
        }
    }
    eprintln!("{count} requests of {} lines are answered", lines.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn lines() -> Vec<Line> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/walks/records");
    let file = std::fs::File::open(folder.join("requests.txt.gz")).expect("the list");
    let mut text = String::new();
    let read = GzDecoder::new(file).read_to_string(&mut text);
    read.expect("gzipped text");
    text.lines().map(Line::read).collect()
}

/// A request of a line.
struct Request {
    path: String,
    form: String,
    /// The media type of the body, without `application/`; none if there is no body.
    body: Option<String>,
}

impl Line {
    fn read(line: &str) -> Self {
        let cells: Vec<&str> = line.split(' ').collect();
        let [verb, path, _, forms, bodies, parameters, codes] = cells[..] else {
            panic!("a line has seven cells: {line}");
        };
        let list = |cell: &str, separator| -> Vec<String> {
            let parts = cell.split(separator).filter(|it| *it != "-");
            parts.map(str::to_owned).collect()
        };
        Self {
            verb: verb.to_owned(),
            path: path.replace("{group-path}", "apis/apps/v1"),
            forms: list(forms, ','),
            bodies: list(bodies, ','),
            parameters: list(parameters, ';'),
            codes: list(codes, ',')
                .iter()
                .filter_map(|it| it.parse().ok())
                .collect(),
        }
    }

    /// One request for each form, body and field selector.
    fn requests(&self, api: &Api) -> Vec<Request> {
        let mut requests = Vec::new();
        let bodies: Vec<Option<&String>> = match self.bodies.is_empty() {
            true => vec![None],
            false => self.bodies.iter().map(Some).collect(),
        };
        for form in &self.forms {
            for body in &bodies {
                for query in self.queries(api, body.map_or("", |it| it.as_str())) {
                    let path = self.path.replace("{ns}", samples::NAMESPACE);
                    let path = path.replace("{name}", samples::NAME);
                    requests.push(Request {
                        path: format!("{path}{query}"),
                        form: form.clone(),
                        body: body.cloned(),
                    });
                }
            }
        }
        requests
    }

    fn queries(&self, api: &Api, body: &str) -> Vec<String> {
        let mut selectors = vec![String::new()];
        let mut parameters = Vec::new();
        if self.verb == "WATCH" {
            parameters.push("watch=true".to_owned());
        }
        for parameter in &self.parameters {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let first = value.split('|').next().unwrap_or_default();
            match name {
                "fieldSelector" => selectors.extend(value.split('|').map(|selector| {
                    let selector = selector.replace("status.phase=…", "status.phase=x");
                    let selector = selector.replace("spec.priority=…", "spec.priority=0");
                    let selector = selector.replace('…', samples::NAME);
                    format!(
                        "fieldSelector={}",
                        selector.replace('=', "%3D").replace('!', "%21")
                    )
                })),
                "continue" | "hash" => {}
                "timeout" => parameters.push("timeout=32s".to_owned()),
                "timeoutSeconds" => parameters.push("timeoutSeconds=300".to_owned()),
                "labelSelector" => parameters.push("labelSelector=app%3Dit".to_owned()),
                "resourceVersion" if first == "N" => {
                    let list = api.get("/api/v1/namespaces?limit=1");
                    let version = list["metadata"]["resourceVersion"].as_str();
                    parameters.push(format!("resourceVersion={}", version.unwrap_or_default()));
                }
                "force" if body != "apply-patch+yaml" => {}
                "dryRun" => {}
                _ if first.is_empty() => parameters.push(name.to_owned()),
                _ => parameters.push(format!("{name}={first}")),
            }
        }
        let queries = selectors.into_iter().map(|selector| {
            let all = parameters
                .iter()
                .chain((!selector.is_empty()).then_some(&selector));
            all.cloned().collect::<Vec<_>>().join("&")
        });
        queries
            .map(|query| match query.is_empty() {
                true => query,
                false => format!("?{query}"),
            })
            .collect()
    }
}

impl Request {
    /// Sends the request. What is wrong with the answer, if anything is.
    fn check(&self, api: &Api, line: &Line) -> Result<(), String> {
        let accept = accept(&self.form);
        if line.verb == "WATCH" {
            return self.check_watch(api, &accept);
        }
        let method = match &*line.verb {
            "LIST" => "GET",
            verb => verb,
        };
        let prepared = self.prepare(api, line)?;
        let mut headers = vec![("accept", &*accept)];
        let content_type;
        if let Some(kind) = &self.body {
            content_type = match &**kind {
                "protobuf" => PROTOBUF.to_owned(),
                kind => format!("application/{kind}"),
            };
            headers.push(("content-type", content_type.as_str()));
        }
        let answer = api.send(method, &self.path, &headers, prepared)?;
        let has_success = line.codes.iter().any(|code| *code < 300);
        let is_refusal_of_selector = self.path.contains("fieldSelector") && answer.status == 400;
        let is_as_seen = match answer.status {
            200..300 => true,
            code if has_success && !is_refusal_of_selector => code == 304,
            code => line.codes.contains(&code),
        };
        if !is_as_seen {
            let text = String::from_utf8_lossy(&answer.body);
            return Err(format!("{} for {}: {text}", answer.status, self.form));
        }
        match answer.status {
            200..300 => self.check_kind(line, &answer),
            _ => Ok(()),
        }
    }

    /// Makes what the request needs to be there, and its body.
    fn prepare(&self, api: &Api, line: &Line) -> Result<Vec<u8>, String> {
        let Some(kind) = &self.body else {
            samples::ensure(api, &line.path)?;
            return Ok(Vec::new());
        };
        let object = match &*line.verb {
            "POST" => samples::to_post(api, &line.path)?,
            "PUT" => {
                samples::ensure(api, &line.path)?;
                // What is finalized cannot be read there.
                api.get(self.path.trim_end_matches("/finalize"))
            }
            "PATCH" => {
                samples::ensure(api, &line.path)?;
                samples::patch(&line.path, kind)
            }
            _ => {
                samples::ensure(api, &line.path)?;
                json!({"apiVersion": "v1", "kind": "DeleteOptions"})
            }
        };
        match &**kind {
            "protobuf" => {
                outrank_protobuf::encode(&object).map_err(|error| format!("{error}: {object}"))
            }
            _ => Ok(object.to_string().into_bytes()),
        }
    }

    /// Whether the body is of the kind that was asked for.
    fn check_kind(&self, line: &Line, answer: &Answered) -> Result<(), String> {
        let told = format!("{} of {}", self.form, answer.content_type);
        if answer.content_type.starts_with("text/plain") {
            let is_text = line.path.starts_with("/openapi") || line.path.contains('z');
            let is_log = line.path.ends_with("/log");
            return match is_text && !answer.body.is_empty() || is_log {
                true => Ok(()),
                false => Err(format!("text instead of {told}")),
            };
        }
        if self.form == "openapi-v2" {
            return match answer.content_type.contains("openapi.spec.v2") {
                true => Ok(()),
                false => Err(told),
            };
        }
        let value = match answer.content_type.starts_with(PROTOBUF) {
            true => {
                let decoded = outrank_protobuf::decode(&answer.body);
                decoded.map_err(|error| error.to_string())?.object
            }
            false => answer.json(),
        };
        let is_document = line.path == "/" || line.path.starts_with("/openapi");
        if is_document || line.path == "/version" {
            return match value.is_object() {
                true => Ok(()),
                false => Err(format!("no JSON: {told}")),
            };
        }
        let kind = value["kind"].as_str().unwrap_or_default();
        let is_it = match &*self.form {
            "table" => kind == "Table",
            "metadata-list" => kind == "PartialObjectMetadataList",
            "metadata" => kind == "PartialObjectMetadata",
            "discovery" => kind == "APIGroupDiscoveryList",
            _ if line.verb == "LIST" => kind.ends_with("List") && value["items"].is_array(),
            _ => !kind.is_empty(),
        };
        match is_it {
            true => Ok(()),
            false => Err(format!("kind {kind:?} for {told}")),
        }
    }

    /// A list as a watch: what there is, then the mark of its end.
    fn check_watch(&self, api: &Api, accept: &str) -> Result<(), String> {
        let wanted = match &*self.form {
            "table" => Some("Table"),
            "metadata" => Some("PartialObjectMetadata"),
            _ => None,
        };
        let is_list = self.path.contains("sendInitialEvents=true");
        let mut count = 0;
        let mut problem = Ok(());
        let mut has_ended = false;
        api.watch(&self.path, accept, |event| {
            let object = &event["object"];
            let kind = object["kind"].as_str().unwrap_or_default();
            if wanted.is_some_and(|wanted| wanted != kind) || kind.is_empty() {
                problem = Err(format!("an event of kind {kind:?}: {event}"));
                return false;
            }
            let annotations = &object["metadata"]["annotations"];
            // In a table, the object with the annotation is that of its only row.
            let of_row = &object["rows"][0]["object"]["metadata"]["annotations"];
            let mark = "k8s.io/initial-events-end";
            match event["type"].as_str() {
                Some("ADDED") => count += 1,
                Some("BOOKMARK") => {
                    has_ended = annotations[mark] == "true" || of_row[mark] == "true";
                }
                _ => problem = Err(format!("not an event of a list: {event}")),
            }
            problem.is_ok() && !has_ended
        })?;
        problem?;
        match has_ended || !is_list {
            true => Ok(()),
            false => Err(format!("no bookmark closes the list after {count} objects")),
        }
    }
}

/// The header `Accept` that has this name in the list.
fn accept(form: &str) -> String {
    let of_meta = |encoding: &str, kind: &str, version: &str| {
        format!("{encoding};as={kind};g=meta.k8s.io;v={version}")
    };
    let json = "application/json";
    match form {
        "json" => json.to_owned(),
        "json-any" => format!("{json}, */*"),
        "protobuf-any" => format!("{PROTOBUF}, */*"),
        "protobuf-json" => format!("{PROTOBUF},{json}"),
        "table" => format!(
            "{json};as=Table;v=v1;g=meta.k8s.io,{json};as=Table;v=v1beta1;g=meta.k8s.io,{json}"
        ),
        "metadata" | "metadata-list" => {
            let kind = match form {
                "metadata" => "PartialObjectMetadata",
                _ => "PartialObjectMetadataList",
            };
            let (first, second) = (of_meta(PROTOBUF, kind, "v1"), of_meta(json, kind, "v1"));
            format!("{first},{second},{json}")
        }
        "discovery" => format!(
            "{json};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
             {json};g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,{json}"
        ),
        "openapi-v2" => "application/com.github.proto-openapi.spec.v2@v1.0+protobuf".to_owned(),
        other => panic!("a form without a name: {other}"),
    }
}

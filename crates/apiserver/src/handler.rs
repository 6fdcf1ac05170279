//! From a request to its answer.
//!
//! Here is decided what a request means: who asks, what for, in which form the answer is wanted.
//! What is done then is in [`crate::server`]; how an answer is written is in [`crate::answer`].

use bytes::Bytes;
use outrank_api::patch::PatchType;
use outrank_api::request_body::{self, FieldValidation};
use outrank_api::resource_type::{self, ResourceType};
use outrank_api::status::{Reason, Status};
use outrank_store::Entry;
use serde_json::Value;

use crate::answer::{self, Answer};
use crate::authentication::User;
use crate::front::Front;
use crate::media_type::{Accepted, Sent, Shape};
use crate::request::{Query, RequestInfo, ResourcePath};
use crate::request_options::{self, Writing};
use crate::server::delete::{DeleteOptions, Deleted};
use crate::server::read::{ListOptions, Listed};
use crate::server::watch::WatchOptions;
use crate::server::{Target, WriteOptions, Written};
use crate::stored_object::StoredObject;
use crate::table::IncludeObject;

/// A request, whoever has read it.
#[derive(Clone, Debug)]
pub struct Request<'r> {
    /// The method.
    pub method: &'r str,
    /// The path, encoded.
    pub path: &'r str,
    /// What follows the `?`.
    pub query: &'r str,
    /// Header `Accept`.
    pub accept: &'r str,
    /// Header `Content-Type`.
    pub content_type: &'r str,
    /// Header `User-Agent`.
    pub user_agent: &'r str,
    /// Header `If-None-Match`.
    pub if_none_match: &'r str,
    /// Who asks.
    pub user: &'r User,
    /// The body.
    pub body: Bytes,
}

/// Content types of patches, as they are told.
const APPLY: &str = "application/apply-patch+yaml";

/// Resources that clients are told not to use any more.
const DEPRECATED: [(&str, &str); 2] = [
    (
        "endpoints",
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    (
        "componentstatuses",
        "v1 ComponentStatus is deprecated in v1.19+",
    ),
];

/// Answers a request.
pub fn handle(front: &Front, request: &Request<'_>) -> Answer {
    let info = RequestInfo::parse(request.method, request.path, request.query);
    let query = Query::parse(request.query);
    if let Err(status) = front.authorize(request.user, &info) {
        return Answer::status(&status);
    }
    let Some(path) = &info.resource else {
        return front.about_itself(request, &info.path);
    };
    match of_resource(front, request, &info, path, &query) {
        Ok(answer) => answer.pretty(is_pretty(request, &query)),
        Err(status) => Answer::status(&status),
    }
}

/// People who look with a browser or curl get line breaks.
fn is_pretty(request: &Request<'_>, query: &Query<'_>) -> bool {
    match query.get("pretty") {
        "" => ["curl", "Wget", "Mozilla"]
            .iter()
            .any(|agent| request.user_agent.starts_with(agent)),
        _ => query.is_true("pretty"),
    }
}

/// There is nothing under this path.
pub(crate) fn no_such_resource() -> Status {
    Status {
        code: 404,
        reason: Some(Reason::NotFound),
        message: "the server could not find the requested resource".to_owned(),
        details: Some(Box::default()),
        ..Status::bad_request("")
    }
}

fn of_resource(
    front: &Front,
    request: &Request<'_>,
    info: &RequestInfo,
    path: &ResourcePath,
    query: &Query<'_>,
) -> Result<Answer, Status> {
    let types = front.server.types();
    let served = types.find(&path.group, &path.version, &path.plural);
    let served = served.ok_or_else(no_such_resource)?.clone();
    let is_known =
        path.subresource.is_empty() || served.resource.has_subresource(&path.subresource);
    let is_namespace = path.plural == "namespaces";
    let is_placed = served.resource.is_namespaced || path.namespace.is_empty() || is_namespace;
    if !is_known || !is_placed || path.plural.is_empty() {
        return Err(no_such_resource());
    }
    let target = Target {
        namespace: match served.resource.is_namespaced {
            true => path.namespace.clone(),
            false => String::new(),
        },
        name: path.name.clone(),
        subresource: path.subresource.clone(),
        served,
    };
    let accepted = Accepted::of(request.accept).ok_or_else(not_acceptable)?;
    let call = Call {
        front,
        request,
        query,
        target,
        include_object: match accepted.shape {
            Shape::Table(_) => IncludeObject::parse(query.get("includeObject"))?,
            _ => IncludeObject::default(),
        },
        accepted,
    };
    let mut answer = match path.subresource.as_str() {
        "" => call.of_objects(&info.verb)?,
        _ => call.of_subresource(&info.verb, path)?,
    };
    let deprecated = DEPRECATED.iter().find(|(plural, _)| *plural == path.plural);
    if let Some((_, why)) = deprecated.filter(|_| path.group.is_empty()) {
        answer.warnings.push((*why).to_owned());
    }
    Ok(answer)
}

fn not_acceptable() -> Status {
    Status {
        code: 406,
        reason: Some(Reason::NotAcceptable),
        message: "406: Not Acceptable\n\nAvailable representations: application/json, \
                  application/yaml, application/vnd.kubernetes.protobuf, \
                  application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
            .to_owned(),
        details: Some(Box::default()),
        ..Status::bad_request("")
    }
}

/// A request for a resource that is served.
pub(crate) struct Call<'c> {
    front: &'c Front,
    request: &'c Request<'c>,
    query: &'c Query<'c>,
    target: Target,
    accepted: Accepted,
    include_object: IncludeObject,
}

impl Call<'_> {
    fn of_objects(&self, verb: &str) -> Result<Answer, Status> {
        let resource = &self.target.served.resource;
        // What is in a namespace can be listed in all of them, and not otherwise be touched.
        let is_of_all = resource.is_namespaced && self.target.namespace.is_empty();
        // Objects are changed one by one, and made among the others.
        let is_misplaced = match verb {
            "update" | "patch" => self.target.name.is_empty(),
            "create" => !self.target.name.is_empty(),
            _ => false,
        };
        let is_of_others = is_of_all && !matches!(verb, "list" | "watch");
        if !resource.has_verb(verb) || is_of_others || is_misplaced {
            return Err(self.not_allowed());
        }
        if !self.target.served.is_stored() {
            return self.front.answer_review(self);
        }
        let server = &self.front.server;
        match verb {
            "get" => {
                let entry = server.get(&self.target)?;
                Ok(self.object(200, &entry.value, Vec::new()))
            }
            "list" => {
                let options = ListOptions::read(self.query, &self.target)?;
                let listed = server.list(&self.target, &options)?;
                Ok(answer::list(&self.target.served, &listed, self.form()))
            }
            "watch" => {
                let options = WatchOptions::read(self.query, &self.target)?;
                let watching = server.watch(&self.target, &options);
                Ok(answer::watch(
                    &self.target.served,
                    watching,
                    &options,
                    self.form(),
                ))
            }
            "create" => self.create(),
            "update" => self.update(),
            "patch" => self.patch(),
            "delete" => self.delete(),
            _ => self.delete_collection(),
        }
    }

    fn create(&self) -> Result<Answer, Status> {
        let read = self.read_body()?;
        self.front
            .check_rights(self.request.user, &self.target, &read.value, None)?;
        let options = self.write_options()?;
        let written = self.front.server.create(&self.target, read.value, &options);
        Ok(self.outcome(written, read.warnings))
    }

    fn update(&self) -> Result<Answer, Status> {
        let read = self.read_body()?;
        let server = &self.front.server;
        let live = server.get(&self.target).ok();
        let live = live.map(|it| it.value.to_value(&self.target.served.stored));
        let user = self.request.user;
        self.front
            .check_rights(user, &self.target, &read.value, live.as_ref())?;
        let written = server.update(&self.target, read.value, &self.write_options()?);
        Ok(self.outcome(written, read.warnings))
    }

    fn patch(&self) -> Result<Answer, Status> {
        let server = &self.front.server;
        let (user, front) = (self.request.user, self.front);
        let check = |new: &Value, live: &Value| {
            let live = Some(live).filter(|it| !it.is_null());
            front.check_rights(user, &self.target, new, live)
        };
        if self.patch_content_type() == APPLY {
            let (options, text) = (self.write_options()?, self.text()?);
            let written = server.apply(&self.target, &text, &options, &check)?;
            return Ok(self.written(written, Vec::new()));
        }
        let patch_type = PatchType::of_content_type(self.request.content_type);
        let patch_type = patch_type.ok_or_else(unsupported_patch)?;
        let (options, text) = (self.write_options()?, self.text()?);
        let written = server.patch(&self.target, patch_type, &text, &options, &check)?;
        Ok(self.written(written, Vec::new()))
    }

    fn delete(&self) -> Result<Answer, Status> {
        let options = self.delete_options()?;
        let deleted = self.front.server.delete(&self.target, &options)?;
        let resource = &self.target.served.resource;
        match &deleted {
            Deleted::Gone(entry) if !answers_with_object(&self.target) => {
                let value = entry.value.to_value(resource);
                let uid = value["metadata"]["uid"].as_str().unwrap_or_default();
                let status = Status::deleted(resource.resource(), &self.target.name, uid);
                Ok(Answer::value(
                    200,
                    &serde_json::to_value(&status).unwrap_or_default(),
                ))
            }
            Deleted::Gone(entry) | Deleted::Going(entry) => {
                Ok(self.object(200, &entry.value, Vec::new()))
            }
        }
    }

    fn delete_collection(&self) -> Result<Answer, Status> {
        let selected = ListOptions::read(self.query, &self.target)?;
        let options = self.delete_options()?;
        let entries = self
            .front
            .server
            .delete_collection(&self.target, &selected, &options)?;
        let listed = Listed {
            entries,
            version: self.front.server.store().version(),
            token: String::new(),
            remaining_count: None,
        };
        Ok(answer::list(&self.target.served, &listed, self.form()))
    }

    fn of_subresource(&self, verb: &str, path: &ResourcePath) -> Result<Answer, Status> {
        let server = &self.front.server;
        let (target, user) = (&self.target, self.request.user);
        match (path.subresource.as_str(), verb) {
            ("status" | "resize" | "ephemeralcontainers" | "approval", "get") => {
                let entry = server.get(target)?;
                Ok(self.object(200, &entry.value, Vec::new()))
            }
            ("status" | "resize" | "ephemeralcontainers" | "approval", "update") => self.update(),
            ("status" | "resize" | "ephemeralcontainers" | "approval", "patch") => self.patch(),
            ("finalize", "update") => {
                let read = self.read_body()?;
                let written = server.finalize(target, &read.value, &self.write_options()?)?;
                Ok(self.written(written, read.warnings))
            }
            ("binding", "create") => {
                let read = self.read_as(resource_type::binding())?;
                server.bind(target, &read.value, &self.write_options()?)?;
                Ok(Answer::success(201).warned(read.warnings))
            }
            ("eviction", "create") => {
                let read = self.read_as(self.eviction_type()?)?;
                let dry_run = self.write_options()?.dry_run;
                server.evict(target, &read.value, dry_run)?;
                Ok(Answer::success(201).warned(read.warnings))
            }
            ("scale", "get") => Ok(Answer::value(200, &server.scale(target)?)),
            ("scale", "update" | "patch") => self.set_scale(verb),
            ("token", "create") => {
                let read = self.read_as(resource_type::token_request())?;
                let token = self.front.request_token(target, &read.value)?;
                Ok(Answer::value(201, &token).warned(read.warnings))
            }
            ("log", "get") => self.log(),
            ("exec" | "attach" | "portforward" | "proxy", _) => {
                server.get(target)?;
                let _ = user;
                Err(Status {
                    code: 501,
                    reason: None,
                    message: format!(
                        "{} is not possible: nothing really runs on the simulated nodes of this \
                         cluster",
                        path.subresource
                    ),
                    ..Status::bad_request("")
                })
            }
            _ => Err(self.not_allowed()),
        }
    }

    /// Clients of old ask for evictions in another version, which has the same fields.
    fn eviction_type(&self) -> Result<&'static ResourceType, Status> {
        let body: Value = serde_json::from_str(&self.body_text()?).unwrap_or_default();
        Ok(match body["apiVersion"].as_str() {
            Some("policy/v1beta1") => resource_type::eviction_of_old(),
            _ => resource_type::eviction(),
        })
    }

    fn set_scale(&self, verb: &str) -> Result<Answer, Status> {
        let server = &self.front.server;
        let scale_type = resource_type::scale();
        let mut warnings = Vec::new();
        let scale = match verb {
            "update" => {
                let read = self.read_as(scale_type)?;
                warnings = read.warnings;
                let options = self.write_options()?;
                server.set_scale(&self.target, &options, &|_| Ok(read.value.clone()))?
            }
            _ if self.patch_content_type() == APPLY => {
                let (options, text) = (self.write_options()?, self.text()?);
                let (scale, told) = server.apply_scale(&self.target, &text, &options)?;
                warnings = told;
                scale
            }
            _ => {
                let patch_type = PatchType::of_content_type(self.request.content_type);
                let patch_type = patch_type.ok_or_else(unsupported_patch)?;
                let (options, text) = (self.write_options()?, self.text()?);
                let validation = options.field_validation;
                server.set_scale(&self.target, &options, &|old| {
                    outrank_api::patch::apply(scale_type, old, patch_type, &text, validation)
                        .map(|body| body.value)
                })?
            }
        };
        Ok(Answer::value(200, &scale).warned(warnings))
    }

    /// Nothing really runs, so nothing is logged; who asks for a container that is not there is
    /// told so.
    fn log(&self) -> Result<Answer, Status> {
        let entry = self.front.server.get(&self.target)?;
        let pod = entry.value.to_value(&self.target.served.stored);
        let names = |field: &str| {
            let containers = pod["spec"][field].as_array().into_iter().flatten();
            containers
                .filter_map(|it| it["name"].as_str())
                .collect::<Vec<_>>()
        };
        let (containers, asked) = (names("containers"), self.query.get("container"));
        let is_there = names("initContainers").contains(&asked) || containers.contains(&asked);
        if !asked.is_empty() && !is_there {
            return Err(Status::bad_request(format!(
                "container {asked} is not valid for pod {}",
                self.target.name
            )));
        }
        if asked.is_empty() && containers.len() > 1 {
            return Err(Status::bad_request(format!(
                "a container name must be specified for pod {}, choose one of: [{}]",
                self.target.name,
                containers.join(" ")
            )));
        }
        Ok(Answer::text(200, ""))
    }

    fn form(&self) -> answer::Form {
        answer::Form {
            accepted: self.accepted,
            include_object: self.include_object,
            now: self.front.server.clock().now(),
        }
    }

    pub(crate) fn object(&self, code: u16, object: &StoredObject, warnings: Vec<String>) -> Answer {
        answer::object(code, &self.target.served, object, self.form(), warnings)
    }

    /// What came of a write. Who is refused is warned, too.
    fn outcome(&self, written: Result<Written, Status>, warnings: Vec<String>) -> Answer {
        match written {
            Ok(written) => self.written(written, warnings),
            Err(status) => Answer {
                warnings,
                ..Answer::status(&status)
            },
        }
    }

    fn written(&self, written: Written, mut warnings: Vec<String>) -> Answer {
        let code = if written.is_new { 201 } else { 200 };
        warnings.extend(written.warnings);
        self.object(code, &written.object, warnings)
    }

    fn write_options(&self) -> Result<WriteOptions, Status> {
        let writing = match self.request.method {
            "PUT" => Writing::Update,
            "PATCH" if self.patch_content_type() == APPLY => Writing::Apply,
            "PATCH" => Writing::Patch,
            _ => Writing::Create,
        };
        request_options::write_options(self.query, self.request.user_agent, writing)
    }

    fn delete_options(&self) -> Result<DeleteOptions, Status> {
        let body = match self.request.body.is_empty() {
            true => None,
            false => {
                let text = self.body_text()?;
                Some(request_body::read_options("DeleteOptions", &text)?)
            }
        };
        request_options::delete_options(body, self.query)
    }

    fn patch_content_type(&self) -> &str {
        let content_type = self.request.content_type.split(';').next();
        content_type.unwrap_or_default().trim()
    }

    /// The body as an object of the type that is served.
    fn read_body(&self) -> Result<request_body::Body, Status> {
        self.read_as(&self.target.served.resource)
    }

    /// The body as an object of a type.
    pub(crate) fn read_as(&self, resource: &ResourceType) -> Result<request_body::Body, Status> {
        let validation = self.write_options()?.field_validation;
        let text = self.body_text()?;
        let validation = match Sent::of(self.request.content_type) {
            Some(Sent::Protobuf) => FieldValidation::Ignore,
            _ => validation,
        };
        request_body::read(resource, &text, validation)
    }

    /// The body as JSON text, whatever form it was sent in.
    fn body_text(&self) -> Result<String, Status> {
        match Sent::of(self.request.content_type) {
            Some(Sent::Protobuf) => Ok(self.read_protobuf()?.to_string()),
            Some(_) => self.text(),
            None => Err(unsupported_body()),
        }
    }

    fn read_protobuf(&self) -> Result<Value, Status> {
        let decoded = outrank_protobuf::decode(&self.request.body);
        let decoded = decoded.map_err(|error| Status::bad_request(error.to_string()))?;
        Ok(decoded.object)
    }

    /// The body as JSON text.
    fn text(&self) -> Result<String, Status> {
        if Sent::of(self.request.content_type) == Some(Sent::Yaml) {
            return yaml_as_json(&self.request.body);
        }
        let text = std::str::from_utf8(&self.request.body);
        let text = text.map_err(|_| Status::bad_request("the body is not valid UTF-8"))?;
        Ok(without_half_pairs(text))
    }

    fn not_allowed(&self) -> Status {
        Status {
            code: 405,
            reason: Some(Reason::MethodNotAllowed),
            message: "the server does not allow this method on the requested resource".to_owned(),
            details: Some(Box::default()),
            ..Status::bad_request("")
        }
    }

    /// Binds the pod that a binding names.
    pub(crate) fn bind_named_in(&self, binding: &Value) -> Result<Answer, Status> {
        let types = self.front.server.types();
        let pods = types.find("", "v1", "pods").ok_or_else(no_such_resource)?;
        let target = Target {
            served: pods.clone(),
            namespace: self.target.namespace.clone(),
            name: binding["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            subresource: "binding".to_owned(),
        };
        self.front
            .server
            .bind(&target, binding, &self.write_options()?)?;
        Ok(Answer::success(201))
    }

    /// Answers with objects that are stored nowhere.
    pub(crate) fn computed(&self, entries: Vec<Entry<StoredObject>>) -> Result<Answer, Status> {
        if self.target.name.is_empty() {
            let listed = Listed {
                entries,
                version: self.front.server.store().version(),
                token: String::new(),
                remaining_count: None,
            };
            return Ok(answer::list(&self.target.served, &listed, self.form()));
        }
        let resource = self.target.served.resource.resource();
        let mut named = entries
            .iter()
            .filter(|it| *it.key.name == *self.target.name);
        let found = named.next();
        let found = found.ok_or_else(|| Status::not_found(resource, &self.target.name))?;
        Ok(self.object(200, &found.value, Vec::new()))
    }

    pub(crate) fn user(&self) -> &User {
        self.request.user
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
}

/// JSON text without halves of surrogate pairs (`\\ud800`), which stand for no character. Go reads
/// each as U+FFFD. No byte changes its place.
fn without_half_pairs(text: &str) -> String {
    let mut whole = text.to_owned();
    if !text.contains("\\u") {
        return whole;
    }
    let unit_at = |at: usize| {
        let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut at = 0;
    while let Some(escape) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += escape;
        at += match unit_at(at) {
            // The other character of an escape is none that begins one.
            None => 2,
            Some(0xd800..=0xdbff) if matches!(unit_at(at + 6), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                whole.replace_range(at..at + 6, "\\ufffd");
                6
            }
            Some(_) => 6,
        };
    }
    whole
}

impl Answer {
    /// The same with what the client is warned of.
    pub(crate) fn warned(mut self, warnings: Vec<String>) -> Self {
        self.warnings.extend(warnings);
        self
    }
}

/// YAML as JSON text; JSON is YAML, too.
fn yaml_as_json(body: &[u8]) -> Result<String, Status> {
    // Files may be compressed, bodies may not: what they hold then has no limit.
    let text = std::str::from_utf8(body);
    let text = text.map_err(|_| Status::bad_request("the body is not valid UTF-8"))?;
    let values = outrank_api::document::values(text.as_bytes());
    let values = values
        .map_err(|error| Status::bad_request(format!("error converting YAML to JSON: {error}")))?;
    match <[Value; 1]>::try_from(values) {
        Ok([value]) => Ok(value.to_string()),
        Err(_) => Err(Status::bad_request("the body must be one document of YAML")),
    }
}

fn unsupported_body() -> Status {
    Status::unsupported_media_type(&[
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
    ])
}

fn unsupported_patch() -> Status {
    Status {
        code: 415,
        reason: Some(Reason::UnsupportedMediaType),
        message: "415: Unsupported Media Type".to_owned(),
        details: Some(Box::default()),
        ..Status::bad_request("")
    }
}

/// Kinds whose deletion is answered with the object even if it is gone
/// (`ReturnDeletedObject`).
fn answers_with_object(target: &Target) -> bool {
    let stored = &target.served.stored;
    match stored.group.as_str() {
        "" => matches!(
            stored.plural.as_str(),
            "pods"
                | "namespaces"
                | "persistentvolumeclaims"
                | "persistentvolumes"
                | "podtemplates"
                | "resourcequotas"
                | "serviceaccounts"
                | "services"
        ),
        "storage.k8s.io" => !matches!(stored.plural.as_str(), "csistoragecapacities"),
        _ => false,
    }
}

//! Operations: what can be asked of the server under which URL.
//!
//! Each says what it does (`x-kubernetes-action`), to which kind
//! (`x-kubernetes-group-version-kind`), and which parameters it takes. Source: the verbs and
//! options of the API reference of Kubernetes 1.36.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrank_api::resource_type::ResourceType;
use outrank_api::schema;
use serde_json::{Map, Value, json};

use super::schemas::{self, GROUP_VERSION_KIND};
use crate::discovery::Subresource;

/// A parameter in the query: name and type.
type Parameter = (&'static str, &'static str);

const WRITE: &[Parameter] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];

const PATCH: &[Parameter] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
];

const DELETE: &[Parameter] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

const LIST: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];

const DELETE_COLLECTION: &[Parameter] = &[
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
];

/// The operations of a version of a group.
pub(super) struct Paths {
    /// By path, what can be asked there.
    pub(super) items: Map<String, Value>,
    /// The types of the tables that they name.
    pub(super) type_names: BTreeSet<&'static str>,
}

/// The operations on types of one version of a group.
pub(super) fn of(types: &[Arc<ResourceType>]) -> Paths {
    let mut paths = Paths {
        items: Map::new(),
        type_names: schemas::ANSWERS.into_iter().collect(),
    };
    // Custom objects have it, too.
    paths.type_names.insert("ObjectMeta");
    if let Some(it) = types.first() {
        let list = schemas::reference(&schemas::name_of("APIResourceList"));
        let get = json!({ "responses": responses(&["200"], Some(list)) });
        paths
            .items
            .insert(format!("{}/", base(it)), json!({ "get": get }));
    }
    for it in types {
        paths.add_resource(it);
    }
    paths
}

/// The path of a version of a group, such as `/apis/apps/v1`.
fn base(it: &ResourceType) -> String {
    match it.group.as_str() {
        "" => format!("/api/{}", it.version),
        group => format!("/apis/{group}/{}", it.version),
    }
}

impl Paths {
    fn add_resource(&mut self, it: &ResourceType) {
        self.type_names.extend(it.type_name);
        let base = base(it);
        let collection = if it.is_namespaced {
            if it.has_verb("list") {
                let path = format!("{base}/{}", it.plural);
                let list = Operation::list(it).in_all_namespaces();
                self.items.insert(path, item(&[], [list.entry()]));
            }
            format!("{base}/namespaces/{{namespace}}/{}", it.plural)
        } else {
            format!("{base}/{}", it.plural)
        };
        let namespace: &[&str] = if it.is_namespaced {
            &["namespace"]
        } else {
            &[]
        };
        let object: &[&str] = if it.is_namespaced {
            &["name", "namespace"]
        } else {
            &["name"]
        };

        let operations = [
            ("list", Operation::list(it)),
            ("create", Operation::create(it)),
            ("deletecollection", Operation::delete_collection(it)),
        ];
        self.add(collection.clone(), namespace, it, operations);
        let operations = [
            ("get", Operation::get(it)),
            ("update", Operation::replace(it)),
            ("patch", Operation::patch(it)),
            ("delete", Operation::delete(it)),
        ];
        self.add(format!("{collection}/{{name}}"), object, it, operations);
        for subresource in Subresource::all(it) {
            let path = format!("{collection}/{{name}}/{}", subresource.name);
            let operations = Operation::of_subresource(it, &subresource);
            let type_name = operations
                .first()
                .and_then(|operation| operation.kind.type_name);
            self.type_names.extend(type_name);
            self.items
                .insert(path, item(object, operations.iter().map(Operation::entry)));
        }
    }

    /// Adds those operations that the type has the verbs for.
    fn add<const COUNT: usize>(
        &mut self,
        path: String,
        parameters: &[&str],
        it: &ResourceType,
        operations: [(&str, Operation<'_>); COUNT],
    ) {
        let operations = operations.iter().filter(|(verb, _)| it.has_verb(verb));
        let entries: Vec<_> = operations.map(|(_, operation)| operation.entry()).collect();
        if !entries.is_empty() {
            self.items.insert(path, item(parameters, entries));
        }
    }
}

/// What can be asked at a path with these parts, which all operations share.
fn item(parameters: &[&str], operations: impl IntoIterator<Item = (String, Value)>) -> Value {
    let mut item: Map<String, Value> = operations.into_iter().collect();
    let in_path = parameters.iter().map(|name| {
        let schema = json!({ "type": "string", "uniqueItems": true });
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    let mut parameters: Vec<Value> = in_path.collect();
    parameters.push(in_query(&("pretty", "string")));
    item.insert("parameters".into(), parameters.into());
    Value::Object(item)
}

fn in_query((name, value_type): &Parameter) -> Value {
    let schema = json!({ "type": value_type, "uniqueItems": true });
    json!({ "name": name, "in": "query", "schema": schema })
}

/// A kind that is read or written.
#[derive(Clone)]
struct Kind<'r> {
    group: &'r str,
    version: &'r str,
    kind: &'r str,
    /// The type in the tables, if it has one.
    type_name: Option<&'static str>,
    /// The name of its schema; `None` if what is sent is no object.
    schema: Option<String>,
}

impl<'r> Kind<'r> {
    fn own(it: &'r ResourceType) -> Self {
        Kind {
            group: &it.group,
            version: &it.version,
            kind: &it.kind,
            type_name: it.type_name,
            schema: Some(schemas::name_of_kind(it)),
        }
    }

    fn of_subresource(it: &'r ResourceType, subresource: &'r Subresource<'r>) -> Self {
        if *subresource.kind == it.kind {
            return Kind::own(it);
        }
        let own = (it.group.as_str(), it.version.as_str());
        let (group, version) = subresource.group_version.unwrap_or(own);
        let api_version = match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let type_name = schema::type_of(&api_version, &subresource.kind);
        Kind {
            group,
            version,
            kind: &subresource.kind,
            type_name,
            schema: type_name.map(schemas::name_of),
        }
    }

    fn reference(&self) -> Option<Value> {
        self.schema.as_deref().map(schemas::reference)
    }
}

struct Operation<'r> {
    resource: &'r ResourceType,
    kind: Kind<'r>,
    method: &'static str,
    action: &'static str,
    /// The first and the last part of its identifier.
    names: (&'static str, String),
    scope: &'static str,
    query: &'static [Parameter],
    body: Option<Value>,
    codes: &'static [&'static str],
    answer: Option<Value>,
}

impl<'r> Operation<'r> {
    fn new(it: &'r ResourceType, method: &'static str, action: &'static str) -> Self {
        let kind = Kind::own(it);
        Operation {
            resource: it,
            answer: kind.reference(),
            kind,
            method,
            action,
            names: (action, String::new()),
            scope: if it.is_namespaced { "Namespaced" } else { "" },
            query: &[],
            body: None,
            codes: &["200"],
        }
    }

    fn list(it: &'r ResourceType) -> Self {
        let list = format!("{}List", schemas::name_of_kind(it));
        Operation {
            query: LIST,
            answer: Some(schemas::reference(&list)),
            ..Operation::new(it, "get", "list")
        }
    }

    fn in_all_namespaces(self) -> Self {
        Operation {
            scope: "",
            names: (self.action, "ForAllNamespaces".to_owned()),
            ..self
        }
    }

    fn create(it: &'r ResourceType) -> Self {
        Operation::new(it, "post", "post").creating()
    }

    fn get(it: &'r ResourceType) -> Self {
        Operation {
            names: ("read", String::new()),
            ..Operation::new(it, "get", "get")
        }
    }

    fn replace(it: &'r ResourceType) -> Self {
        Operation::new(it, "put", "put").replacing()
    }

    fn patch(it: &'r ResourceType) -> Self {
        Operation::new(it, "patch", "patch").patching()
    }

    fn delete(it: &'r ResourceType) -> Self {
        Operation {
            query: DELETE,
            ..Operation::new(it, "delete", "delete").deleting()
        }
    }

    fn delete_collection(it: &'r ResourceType) -> Self {
        Operation {
            query: DELETE_COLLECTION,
            names: ("deleteCollection", String::new()),
            ..Operation::new(it, "delete", "deletecollection").deleting()
        }
    }

    fn of_subresource(it: &'r ResourceType, subresource: &'r Subresource<'r>) -> Vec<Self> {
        let kind = Kind::of_subresource(it, subresource);
        let operations = subresource.verbs.iter().map(|verb| {
            let (method, action) = match *verb {
                "create" => ("post", "post"),
                "update" => ("put", "put"),
                other => (other, other),
            };
            let action = if subresource.is_connection() {
                "connect"
            } else {
                action
            };
            let last = capitalised(subresource.name);
            let operation = Operation {
                kind: kind.clone(),
                answer: kind.reference(),
                names: (action, last),
                ..Operation::new(it, method, action)
            };
            match (action, subresource.name) {
                ("connect", _) => operation.connecting(),
                ("get", "log") => Operation {
                    answer: None,
                    ..operation
                },
                ("post", _) => operation.creating(),
                ("put", _) => operation.replacing(),
                ("patch", _) => operation.patching(),
                _ => operation,
            }
        });
        operations.collect()
    }

    fn creating(self) -> Self {
        Operation {
            query: WRITE,
            names: ("create", self.names.1),
            body: self
                .kind
                .reference()
                .map(|schema| content(&["*/*"], &schema)),
            codes: &["200", "201", "202"],
            ..self
        }
    }

    fn replacing(self) -> Self {
        Operation {
            query: WRITE,
            names: ("replace", self.names.1),
            body: self
                .kind
                .reference()
                .map(|schema| content(&["*/*"], &schema)),
            codes: &["200", "201"],
            ..self
        }
    }

    fn patching(self) -> Self {
        let mut types = vec![
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        ];
        // What a strategic merge patch means is said by the types of the tables.
        if self.kind.type_name.is_some() {
            types.push("application/strategic-merge-patch+json");
        }
        Operation {
            query: PATCH,
            body: Some(content(&types, &json!({ "type": "object" }))),
            codes: &["200", "201"],
            ..self
        }
    }

    fn deleting(self) -> Self {
        let options = schemas::reference(&schemas::name_of("DeleteOptions"));
        Operation {
            body: Some(content(&["*/*"], &options)),
            answer: Some(schemas::reference(&schemas::name_of("Status"))),
            codes: &["200", "202"],
            ..self
        }
    }

    /// One operation for each method, with the method in its name.
    fn connecting(self) -> Self {
        let last = format!("{}{}", capitalised(self.method), self.names.1);
        Operation {
            names: ("connect", last),
            answer: None,
            ..self
        }
    }

    /// The method, and what is said of the operation.
    fn entry(&self) -> (String, Value) {
        let mut operation = json!({
            "operationId": self.identifier(),
            "responses": responses(self.codes, self.answer.clone()),
            "x-kubernetes-action": self.action,
            GROUP_VERSION_KIND: {
                "group": self.kind.group,
                "kind": self.kind.kind,
                "version": self.kind.version,
            },
        });
        if !self.query.is_empty() {
            operation["parameters"] = self.query.iter().map(in_query).collect();
        }
        if let Some(content) = &self.body {
            operation["requestBody"] = json!({ "content": content });
        }
        (self.method.to_owned(), operation)
    }

    /// A name of its own, such as `listCoreV1NamespacedPod`.
    fn identifier(&self) -> String {
        let it = self.resource;
        let group = match it.group.as_str() {
            "" => "core",
            group => group.strip_suffix(".k8s.io").unwrap_or(group),
        };
        let (first, last) = &self.names;
        let (group, version) = (capitalised(group), capitalised(&it.version));
        format!("{first}{group}{version}{}{}{last}", self.scope, it.kind)
    }
}

/// The parts of a name with dots and dashes, each with a capital letter, without those.
fn capitalised(name: &str) -> String {
    let mut text = String::new();
    for part in name.split(['.', '-']) {
        let mut letters = part.chars();
        text.extend(letters.next().map(|it| it.to_ascii_uppercase()));
        text.push_str(letters.as_str());
    }
    text
}

fn content(media_types: &[&str], schema: &Value) -> Value {
    let entries = media_types.iter();
    entries
        .map(|it| ((*it).to_owned(), json!({ "schema": schema })))
        .collect::<Map<_, _>>()
        .into()
}

/// What is answered with these codes; without a schema it is text.
fn responses(codes: &[&str], schema: Option<Value>) -> Value {
    let content = match schema {
        Some(schema) => content(&["application/json"], &schema),
        None => content(&["*/*"], &json!({ "type": "string" })),
    };
    let mut responses = Map::new();
    for code in codes {
        let description = match *code {
            "201" => "Created",
            "202" => "Accepted",
            _ => "OK",
        };
        let response = json!({ "description": description, "content": content });
        responses.insert((*code).to_owned(), response);
    }
    responses.insert("401".into(), json!({ "description": "Unauthorized" }));
    Value::Object(responses)
}

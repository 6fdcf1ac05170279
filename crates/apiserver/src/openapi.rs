//! OpenAPI v3: which fields objects have, and what can be asked of the server.
//!
//! There is a document for each version of a group, such as `/openapi/v3/apis/apps/v1`, and an
//! index of them at `/openapi/v3` (KEP-2896). Clients read them for three purposes:
//!
//! * `kubectl explain pod.spec` prints fields with their types and descriptions. It finds the
//!   schema by the extension `x-kubernetes-group-version-kind` and follows references;
//! * `kubectl apply` looks whether `PATCH` of a kind has the parameter `fieldValidation`: then
//!   the server checks fields, and kubectl does not;
//! * `kubectl apply` without `--server-side` makes strategic merge patches by the extensions
//!   `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key`.
//!
//! Nothing is taken from upstream's documents. Types and fields come from the tables of
//! [`outrank_api::schema`], descriptions from `openapi/descriptions.txt`, by hand, for what people
//! look at when they schedule. Schemas of custom resources are those of their definitions.
//!
//! ```
//! use outrank_api::resource_type::ResourceType;
//! use outrank_apiserver::openapi::OpenApi;
//!
//! let openapi = OpenApi::new(ResourceType::built_in(), Vec::new());
//! let document = openapi.document("apis/scheduling.k8s.io/v1").unwrap();
//! let document: serde_json::Value = serde_json::from_slice(document.body()).unwrap();
//! let schemas = &document["components"]["schemas"];
//! let class = &schemas["io.k8s.api.scheduling.v1.PriorityClass"];
//! assert_eq!(class["properties"]["value"]["type"], "integer");
//! ```
//!
//! # What a server does with them
//!
//! As upstream does (`kube-openapi/pkg/handler3/handler.go`): the index names a URL with a
//! `hash` for each document. If the hash that a client sends is that of the document
//! ([`Document::hash`]), it may keep the document for ever (`Cache-Control: public, immutable`);
//! if not, the answer is a redirection (301) to the URL of the index. Without a hash, and for the
//! index, there are `ETag` and 304.
//!
//! `/openapi/v2` is one document for everything, in which nothing is defined ([`version_2`]):
//! clients that have version 3 miss nothing, and those that do not let the server check.

mod custom;
mod descriptions;
mod paths;
mod schemas;
mod version_2;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use outrank_api::resource_type::ResourceType;
use serde_json::{Map, Value, json};

pub use custom::CustomSchema;
pub use version_2::version_2;

use crate::discovery::ServerVersion;
use crate::document::Document;

/// The documents of a set of types. Making it is cheap; each document is made when it is first
/// asked for, the index when all hashes are needed, and kept.
#[derive(Debug)]
pub struct OpenApi {
    /// By path below `/openapi/v3/`.
    versions: BTreeMap<String, GroupVersion>,
    index: OnceLock<Document>,
}

/// What is in the document of a version of a group.
#[derive(Debug, Default)]
struct GroupVersion {
    types: Vec<Arc<ResourceType>>,
    custom: Vec<CustomSchema>,
    document: OnceLock<Document>,
}

impl OpenApi {
    /// The documents of types, with the schemas of those that are not built in. A custom type
    /// without a schema may have any fields; a schema without a type is passed over.
    pub fn new(types: &[Arc<ResourceType>], custom: Vec<CustomSchema>) -> Self {
        let mut versions: BTreeMap<String, GroupVersion> = BTreeMap::new();
        for it in types {
            let path = path_of(&it.group, &it.version);
            versions.entry(path).or_default().types.push(Arc::clone(it));
        }
        for schema in custom {
            if let Some(version) = versions.get_mut(&path_of(&schema.group, &schema.version)) {
                version.custom.push(schema);
            }
        }
        OpenApi {
            versions,
            index: OnceLock::new(),
        }
    }

    /// The index, at `/openapi/v3`: all documents with their URLs.
    ///
    /// A URL has the hash of what is behind it, so that all documents are made: some 10 ms.
    pub fn index(&self) -> &Document {
        self.index.get_or_init(|| {
            let entries = self.versions.iter().map(|(path, version)| {
                let url = format!("/openapi/v3/{path}?hash={}", version.document().hash());
                (path.clone(), json!({ "serverRelativeURL": url }))
            });
            let index = json!({ "paths": entries.collect::<Map<String, Value>>() });
            Document::new("text/plain; charset=utf-8", index.to_string())
        })
    }

    /// The document at a path below `/openapi/v3/`, such as `api/v1` or `apis/apps/v1`; `None` if
    /// there is none.
    pub fn document(&self, path: &str) -> Option<&Document> {
        self.versions.get(path).map(GroupVersion::document)
    }
}

fn path_of(group: &str, version: &str) -> String {
    match group {
        "" => format!("api/{version}"),
        group => format!("apis/{group}/{version}"),
    }
}

impl GroupVersion {
    fn document(&self) -> &Document {
        self.document
            .get_or_init(|| Document::new("application/json", self.text()))
    }

    /// The document, put together of texts: schemas of types are the same in each.
    fn text(&self) -> String {
        let paths = paths::of(&self.types);
        let made = self.made_schemas();
        let mut all: BTreeMap<&str, &str> = BTreeMap::new();
        for schema in schemas::reachable(paths.type_names.iter().copied()) {
            all.insert(&schema.name, &schema.json);
        }
        all.extend(
            made.iter()
                .map(|(name, json)| (name.as_str(), json.as_str())),
        );
        let schemas: Vec<String> = all
            .iter()
            .map(|(name, it)| format!("\"{name}\":{it}"))
            .collect();
        let head = json!({ "title": "Kubernetes", "version": ServerVersion::own().git_version });
        format!(
            "{{\"openapi\":\"3.0.0\",\"info\":{head},\"paths\":{},\
             \"components\":{{\"schemas\":{{{}}}}}}}",
            Value::Object(paths.items),
            schemas.join(",")
        )
    }

    /// Schemas that are not those of the tables: of lists and of custom resources.
    fn made_schemas(&self) -> BTreeMap<String, String> {
        let mut made = BTreeMap::new();
        for it in &self.types {
            let name = schemas::name_of_kind(it);
            if it.has_verb("list") {
                made.insert(format!("{name}List"), schemas::list(it).to_string());
            }
            if it.type_name.is_none() {
                let mut schemas = self.custom.iter();
                let own = schemas.find(|schema| schema.kind == it.kind);
                made.insert(
                    name,
                    custom::object(it, own.map(|own| &own.schema)).to_string(),
                );
            }
        }
        made
    }
}

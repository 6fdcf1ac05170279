//! Discovery: which groups, versions and resources a server has.
//!
//! A client that is told `kubectl get deploy` knows neither what `deploy` is short for, nor under
//! which URL it is, nor whether it is in a namespace. It asks. There are two forms:
//!
//! * *plain*: `/api` and `/apis` name versions and groups, `/apis/apps` the versions of one of
//!   them, `/apis/apps/v1` its resources. A client needs dozens of requests;
//! * *aggregated* (KEP-3352): `/api` and `/apis` tell everything at once, if the client asks for
//!   an `APIGroupDiscoveryList` ([`Form::accepted`]). These documents are large and seldom
//!   change, so they carry a tag ([`Document::etag`]), and a client that has them gets a 304.
//!
//! The documents are functions of the [types](ResourceType) that are served, and of nothing else.
//! They equal those of Kubernetes 1.36.2 for the built-in types, up to the address of the server
//! (`tests/discovery.rs`).
//!
//! ```
//! use outrank_api::resource_type::ResourceType;
//! use outrank_apiserver::discovery::{Discovery, Form};
//!
//! let discovery = Discovery::new(ResourceType::built_in(), "127.0.0.1:6443");
//! let document = discovery.document("/apis/scheduling.k8s.io/v1", Form::Plain).unwrap();
//! let text = std::str::from_utf8(document.body()).unwrap();
//! assert!(text.starts_with(r#"{"kind":"APIResourceList","apiVersion":"v1","#));
//! assert!(text.contains(r#""name":"priorityclasses","singularName":"priorityclass""#));
//!
//! assert!(discovery.document("/apis/nosuch", Form::Plain).is_none());
//! ```
//!
//! What a server does with them, as upstream does:
//!
//! * a path that is not here is answered with 404 and the text `404 page not found`;
//! * aggregated documents go with `ETag`, `Vary: Accept` and `Cache-Control: public`;
//! * if no form is acceptable the answer is 406.

mod accept;
mod documents;
mod order;
mod server_version;
mod subresource;

use std::sync::{Arc, OnceLock};

use outrank_api::resource_type::ResourceType;
use serde::Serialize;

pub use accept::{AggregatedVersion, Form};
pub use server_version::ServerVersion;
pub use subresource::Subresource;

use crate::document::Document;
use documents::{
    ApiGroup, ApiGroupDiscoveryList, ApiGroupList, ApiResourceList, ApiVersions, RootPaths,
};
use order::Group;

const JSON: &str = "application/json";

/// What is served beside groups, as far as discovery tells of it.
const SERVER_PATHS: &[&str] = &[
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v3",
    "/openapi/v3/",
    "/readyz",
    "/version",
];

/// Discovery of a set of types. Making one is cheap; documents are made when they are first asked
/// for, and the large ones kept.
#[derive(Debug)]
pub struct Discovery {
    groups: Vec<Group>,
    server_address: String,
    /// By root (`/api`, `/apis`) and version.
    aggregated: [[OnceLock<Arc<Document>>; 2]; 2],
}

impl Discovery {
    /// Discovery of types. Groups of Kubernetes keep their order, others follow by name; resources
    /// of a version keep their order. The address is host and port, as clients reach the server.
    pub fn new(types: &[Arc<ResourceType>], server_address: impl Into<String>) -> Self {
        Discovery {
            groups: order::groups(types),
            server_address: server_address.into(),
            aggregated: Default::default(),
        }
    }

    /// The document at a path: `/`, `/version`, `/api`, `/api/VERSION`, `/apis`, `/apis/GROUP` or
    /// `/apis/GROUP/VERSION`; `None` if there is nothing. Only `/api` and `/apis` have an
    /// aggregated form; elsewhere the plain one is the answer.
    pub fn document(&self, path: &str, form: Form) -> Option<Arc<Document>> {
        if path == "/" {
            return Some(pretty(&RootPaths {
                paths: self.paths(),
            }));
        }
        let path = path.strip_prefix('/')?;
        let path = path.strip_suffix('/').unwrap_or(path);
        let parts: Vec<&str> = path.split('/').collect();
        match (parts.as_slice(), form) {
            (["version"], _) => Some(pretty(&ServerVersion::own())),
            (["api"], Form::Aggregated(version)) => Some(self.aggregated(true, version)),
            (["apis"], Form::Aggregated(version)) => Some(self.aggregated(false, version)),
            (["api"], Form::Plain) => Some(compact(&self.core_versions())),
            (["apis"], Form::Plain) => Some(compact(&self.group_list())),
            (["api", version], _) => self.resources("", version),
            (["apis", name], _) => {
                let group = self.group(name)?;
                Some(compact(&ApiGroup::of(group).with_kind()))
            }
            (["apis", group, version], _) if !group.is_empty() => self.resources(group, version),
            _ => None,
        }
    }

    /// All paths that discovery knows, in alphabetical order, as `/` names them.
    pub fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = SERVER_PATHS.iter().map(|it| (*it).to_owned()).collect();
        paths.push("/apis".to_owned());
        paths.push("/apis/".to_owned());
        for group in &self.groups {
            let base = match group.name.as_str() {
                "" => "/api".to_owned(),
                name => format!("/apis/{name}"),
            };
            paths.extend(
                group
                    .versions
                    .iter()
                    .map(|it| format!("{base}/{}", it.name)),
            );
            paths.push(base);
        }
        paths.sort_unstable();
        paths
    }

    /// A group other than the core group, which has no document of its own.
    fn group(&self, name: &str) -> Option<&Group> {
        let group = self.groups.iter().find(|group| group.name == name);
        group.filter(|group| !group.name.is_empty())
    }

    fn core_versions(&self) -> ApiVersions<'_> {
        let core = self.groups.iter().filter(|group| group.name.is_empty());
        let versions = core.flat_map(|group| &group.versions);
        let versions = versions.map(|version| version.name.as_str()).collect();
        ApiVersions::new(versions, &self.server_address)
    }

    fn group_list(&self) -> ApiGroupList<'_> {
        let groups = self.groups.iter().filter(|group| !group.name.is_empty());
        ApiGroupList::new(groups.map(ApiGroup::of).collect())
    }

    fn resources(&self, group: &str, version: &str) -> Option<Arc<Document>> {
        let group = self.groups.iter().find(|it| it.name == group)?;
        let version = group.versions.iter().find(|it| it.name == version)?;
        Some(compact(&ApiResourceList::of(group, version)))
    }

    fn aggregated(&self, is_core: bool, version: AggregatedVersion) -> Arc<Document> {
        let place = &self.aggregated[usize::from(is_core)][version as usize];
        let document = place.get_or_init(|| {
            let groups = self.groups.iter();
            let groups = groups.filter(|group| group.name.is_empty() == is_core);
            let list = ApiGroupDiscoveryList::new(version.api_version(), groups);
            json(version.content_type(), serde_json::to_string(&list))
        });
        Arc::clone(document)
    }
}

/// On one line that is ended, as Go writes objects.
fn compact(value: &impl Serialize) -> Arc<Document> {
    json(JSON, serde_json::to_string(value).map(|text| text + "\n"))
}

/// Indented by two spaces, as Go writes what is no object.
fn pretty(value: &impl Serialize) -> Arc<Document> {
    json(JSON, serde_json::to_string_pretty(value))
}

fn json(content_type: &'static str, text: serde_json::Result<String>) -> Arc<Document> {
    // Strings, lists and booleans can always be written.
    Arc::new(Document::new(content_type, text.unwrap_or_default()))
}

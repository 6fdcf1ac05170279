//! The forms of discovery documents, with fields in the order in which upstream writes them
//! (`apimachinery/pkg/apis/meta/v1/types.go` and `api/apidiscovery/v2/types.go`, Kubernetes 1.36).

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outrank_api::resource_type::ResourceType;
use ring::digest;
use serde::Serialize;

use super::order::{Group, GroupVersion};
use super::subresource::Subresource;

/// The plain `/api`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiVersions<'d> {
    kind: &'static str,
    versions: Vec<&'d str>,
    #[serde(rename = "serverAddressByClientCIDRs")]
    server_addresses: [ServerAddress<'d>; 1],
}

#[derive(Serialize)]
struct ServerAddress<'d> {
    #[serde(rename = "clientCIDR")]
    client_cidr: &'static str,
    #[serde(rename = "serverAddress")]
    server_address: &'d str,
}

impl<'d> ApiVersions<'d> {
    pub(super) fn new(versions: Vec<&'d str>, server_address: &'d str) -> Self {
        ApiVersions {
            kind: "APIVersions",
            versions,
            server_addresses: [ServerAddress {
                client_cidr: "0.0.0.0/0",
                server_address,
            }],
        }
    }
}

/// The plain `/apis`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroupList<'d> {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<ApiGroup<'d>>,
}

impl<'d> ApiGroupList<'d> {
    pub(super) fn new(groups: Vec<ApiGroup<'d>>) -> Self {
        ApiGroupList {
            kind: "APIGroupList",
            api_version: "v1",
            groups,
        }
    }
}

/// `/apis/GROUP`, and an element of `/apis`, which does not name its kind.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroup<'d> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    name: &'d str,
    versions: Vec<NamedVersion<'d>>,
    preferred_version: Option<NamedVersion<'d>>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct NamedVersion<'d> {
    group_version: String,
    version: &'d str,
}

impl<'d> ApiGroup<'d> {
    pub(super) fn of(group: &'d Group) -> Self {
        let versions = group.versions.iter().map(|version| NamedVersion {
            group_version: format!("{}/{}", group.name, version.name),
            version: &version.name,
        });
        let versions: Vec<NamedVersion<'d>> = versions.collect();
        ApiGroup {
            kind: None,
            api_version: None,
            name: &group.name,
            preferred_version: versions.first().cloned(),
            versions,
        }
    }

    pub(super) fn with_kind(self) -> Self {
        ApiGroup {
            kind: Some("APIGroup"),
            api_version: Some("v1"),
            ..self
        }
    }
}

/// `/api/VERSION` and `/apis/GROUP/VERSION`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResourceList<'d> {
    kind: &'static str,
    /// That of the core group has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<ApiResource<'d>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource<'d> {
    name: String,
    singular_name: &'d str,
    namespaced: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    kind: Cow<'d, str>,
    verbs: Vec<&'d str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    short_names: &'d [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    categories: &'d [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_version_hash: Option<String>,
}

impl<'d> ApiResourceList<'d> {
    pub(super) fn of(group: &'d Group, version: &'d GroupVersion) -> Self {
        let mut resources = Vec::new();
        for it in &version.types {
            resources.push(ApiResource::of(group, it));
            let subresources = Subresource::all(it);
            resources.extend(subresources.map(|subresource| ApiResource::below(it, subresource)));
        }
        let group_version = version.types.first().map(|it| it.api_version());
        ApiResourceList {
            kind: "APIResourceList",
            api_version: (!group.name.is_empty()).then_some("v1"),
            group_version: group_version.unwrap_or_default(),
            resources,
        }
    }
}

impl<'d> ApiResource<'d> {
    fn of(group: &Group, it: &'d ResourceType) -> Self {
        ApiResource {
            name: it.plural.clone(),
            singular_name: &it.singular,
            namespaced: it.is_namespaced,
            group: None,
            version: None,
            kind: it.kind.as_str().into(),
            verbs: it.verbs.iter().map(String::as_str).collect(),
            short_names: &it.short_names,
            categories: &it.categories,
            storage_version_hash: storage_version_hash(group, it),
        }
    }

    fn below(it: &'d ResourceType, subresource: Subresource<'d>) -> Self {
        ApiResource {
            name: format!("{}/{}", it.plural, subresource.name),
            singular_name: "",
            namespaced: it.is_namespaced,
            group: subresource.group_version.map(|(group, _)| group),
            version: subresource.group_version.map(|(_, version)| version),
            kind: subresource.kind,
            verbs: subresource.verbs.to_vec(),
            short_names: &[],
            categories: &[],
            storage_version_hash: None,
        }
    }
}

/// A hash of the group, version and kind by which objects are stored, if they are: the first
/// 8 bytes of SHA-256 of `GROUP/VERSION/KIND`, in base64
/// (`apiserver/pkg/endpoints/discovery/storageversionhash.go`, Kubernetes 1.36).
///
/// Kubernetes stores its own kinds by the preferred version, and events as those of the core
/// group. Of custom resources with several versions the one of the store is not known here, and
/// there is no hash.
fn storage_version_hash(group: &Group, it: &ResourceType) -> Option<String> {
    if !it.has_verb("watch") {
        return None;
    }
    let is_served =
        |version: &&GroupVersion| version.types.iter().any(|own| own.plural == it.plural);
    let mut versions = group.versions.iter().filter(is_served);
    let preferred = &versions.next()?.name;
    if it.type_name.is_none() && versions.next().is_some() {
        return None;
    }
    let (stored_group, stored_version) = match it.group.as_str() {
        "events.k8s.io" => ("", "v1"),
        own => (own, preferred.as_str()),
    };
    let name = format!("{stored_group}/{stored_version}/{}", it.kind);
    let hash = digest::digest(&digest::SHA256, name.as_bytes());
    hash.as_ref().get(..8).map(|bytes| STANDARD.encode(bytes))
}

/// The aggregated `/api` and `/apis`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroupDiscoveryList<'d> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata<'d>,
    items: Vec<ApiGroupDiscovery<'d>>,
}

#[derive(Default, Serialize)]
struct Metadata<'d> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'d str,
}

#[derive(Serialize)]
struct ApiGroupDiscovery<'d> {
    metadata: Metadata<'d>,
    versions: Vec<ApiVersionDiscovery<'d>>,
}

#[derive(Serialize)]
struct ApiVersionDiscovery<'d> {
    version: &'d str,
    resources: Vec<ApiResourceDiscovery<'d>>,
    /// `Current`, as nothing is asked of other servers.
    freshness: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResourceDiscovery<'d> {
    resource: &'d str,
    response_kind: ResponseKind<'d>,
    scope: &'static str,
    singular_resource: &'d str,
    verbs: &'d [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    short_names: &'d [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    categories: &'d [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<ApiSubresourceDiscovery<'d>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiSubresourceDiscovery<'d> {
    subresource: &'d str,
    response_kind: ResponseKind<'d>,
    verbs: &'static [&'static str],
}

/// A kind; group and version are empty where they are those of the resource.
#[derive(Serialize)]
struct ResponseKind<'d> {
    group: &'static str,
    version: &'static str,
    kind: Cow<'d, str>,
}

impl<'d> ApiGroupDiscoveryList<'d> {
    pub(super) fn new(api_version: &'static str, groups: impl Iterator<Item = &'d Group>) -> Self {
        let items = groups.map(|group| ApiGroupDiscovery {
            metadata: Metadata { name: &group.name },
            versions: group.versions.iter().map(ApiVersionDiscovery::of).collect(),
        });
        ApiGroupDiscoveryList {
            kind: "APIGroupDiscoveryList",
            api_version,
            metadata: Metadata::default(),
            items: items.collect(),
        }
    }
}

impl<'d> ApiVersionDiscovery<'d> {
    fn of(version: &'d GroupVersion) -> Self {
        ApiVersionDiscovery {
            version: &version.name,
            resources: version
                .types
                .iter()
                .map(|it| ApiResourceDiscovery::of(it))
                .collect(),
            freshness: "Current",
        }
    }
}

impl<'d> ApiResourceDiscovery<'d> {
    fn of(it: &'d ResourceType) -> Self {
        let subresources = Subresource::all(it).map(|subresource| {
            let (group, version) = subresource.group_version.unwrap_or_default();
            ApiSubresourceDiscovery {
                subresource: subresource.name,
                response_kind: ResponseKind {
                    group,
                    version,
                    kind: subresource.kind,
                },
                verbs: subresource.verbs,
            }
        });
        ApiResourceDiscovery {
            resource: &it.plural,
            response_kind: ResponseKind {
                group: "",
                version: "",
                kind: it.kind.as_str().into(),
            },
            scope: if it.is_namespaced {
                "Namespaced"
            } else {
                "Cluster"
            },
            singular_resource: &it.singular,
            verbs: &it.verbs,
            short_names: &it.short_names,
            categories: &it.categories,
            subresources: subresources.collect(),
        }
    }
}

/// The paths that `/` names.
#[derive(Serialize)]
pub(super) struct RootPaths {
    pub(super) paths: Vec<String>,
}

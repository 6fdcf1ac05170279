//! Types of resources: what an API server serves, and what it is called there.
//!
//! An object has a kind (`Deployment`); what is served under a URL is a resource
//! (`deployments`), of a group and version. Clients learn of both by discovery. The types of
//! Kubernetes 1.36 are in a table, [`ResourceType::built_in`]; others come from
//! CustomResourceDefinitions and are made at run time.
//!
//! ```
//! use outrank_api::resource_type::ResourceType;
//!
//! let deployments = ResourceType::of_kind("apps/v1", "Deployment").unwrap();
//! assert_eq!(deployments.plural, "deployments");
//! assert_eq!(deployments.resource().to_string(), "deployments.apps");
//! assert!(deployments.has_subresource("scale"));
//! ```

use std::sync::{Arc, LazyLock};

use crate::custom_resource::schema::Schema;
use crate::decode::ObjectKind;
use crate::schema;
use crate::status::Qualified;

/// What can be done with most resources, in the order in which discovery tells.
pub const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// A type of resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceType {
    /// The group, such as `apps`; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The kind of its objects, such as `Deployment`.
    pub kind: String,
    /// The name in URLs, such as `deployments`.
    pub plural: String,
    /// The name of one, such as `deployment`.
    pub singular: String,
    /// Names for the command line, such as `deploy`.
    pub short_names: Vec<String>,
    /// Groups for the command line, such as `all`.
    pub categories: Vec<String>,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
    /// What can be done with it, in the order of [`VERBS`].
    pub verbs: Vec<String>,
    /// Subresources, such as `status`.
    pub subresources: Vec<String>,
    /// The type of its objects in the [table](crate::schema); `None` if there is none, so that
    /// an object is `apiVersion`, `kind`, `metadata` and anything else.
    pub type_name: Option<&'static str>,
    /// What the definition of a custom resource says of its objects. `None` in types of the
    /// table, and if anything may stand in an object.
    pub schema: Option<Arc<Schema>>,
}

impl ResourceType {
    /// The types of Kubernetes 1.36. Several versions of a group stand in order of preference.
    pub fn built_in() -> &'static [Arc<ResourceType>] {
        static BUILT_IN: LazyLock<Vec<Arc<ResourceType>>> = LazyLock::new(|| {
            let lines = include_str!("schema/resources.txt").lines();
            let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
            lines.filter_map(parse).map(Arc::new).collect()
        });
        &BUILT_IN
    }

    /// The built-in type of objects of a kind.
    pub fn of_kind(api_version: &str, kind: &str) -> Option<&'static Arc<ResourceType>> {
        let (group, version) = split_api_version(api_version);
        let mut types = Self::built_in().iter();
        types.find(|it| it.kind == kind && it.group == group && it.version == version)
    }

    /// `apps/v1`, or `v1`.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The plural with its group, such as `deployments.apps`.
    pub fn resource(&self) -> Qualified<'_> {
        Qualified {
            group: &self.group,
            name: &self.plural,
        }
    }

    /// The kind with its group, such as `Deployment.apps`.
    pub fn qualified(&self) -> Qualified<'_> {
        Qualified {
            group: &self.group,
            name: &self.kind,
        }
    }

    /// The kind, if it is one that decisions read.
    pub fn object_kind(&self) -> Option<ObjectKind> {
        ObjectKind::find(&self.api_version(), &self.kind)
    }

    /// Whether there is a subresource of the name.
    pub fn has_subresource(&self, name: &str) -> bool {
        self.subresources.iter().any(|it| it == name)
    }

    /// Whether it can be done with it.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|it| it == verb)
    }
}

impl From<ObjectKind> for &'static ResourceType {
    /// The type of a kind that decisions read.
    ///
    /// # Panics
    ///
    /// If a kind is missing from the table, which a test rules out.
    fn from(kind: ObjectKind) -> Self {
        ResourceType::of_kind(kind.api_version(), kind.name())
            .unwrap_or_else(|| panic!("{} is not in resources.txt", kind.name()))
    }
}

/// The type of scales, which are no resource of their own: a part of others.
pub fn scale() -> &'static ResourceType {
    static SCALE: LazyLock<ResourceType> = LazyLock::new(|| part("autoscaling/v1", "Scale"));
    &SCALE
}

/// The type of evictions, which are asked for at a pod.
pub fn eviction() -> &'static ResourceType {
    static EVICTION: LazyLock<ResourceType> = LazyLock::new(|| part("policy/v1", "Eviction"));
    &EVICTION
}

/// The type of evictions as clients asked for them before `policy/v1`.
pub fn eviction_of_old() -> &'static ResourceType {
    static EVICTION: LazyLock<ResourceType> = LazyLock::new(|| ResourceType {
        version: "v1beta1".to_owned(),
        ..eviction().clone()
    });
    &EVICTION
}

/// The type of bindings, which are made at a pod or by themselves.
pub fn binding() -> &'static ResourceType {
    static BINDING: LazyLock<ResourceType> = LazyLock::new(|| part("v1", "Binding"));
    &BINDING
}

/// The type of requests for tokens, which are made at a service account.
pub fn token_request() -> &'static ResourceType {
    static TOKEN_REQUEST: LazyLock<ResourceType> =
        LazyLock::new(|| part("authentication.k8s.io/v1", "TokenRequest"));
    &TOKEN_REQUEST
}

/// A type that is served as a part of others.
fn part(api_version: &str, kind: &str) -> ResourceType {
    let (group, version) = split_api_version(api_version);
    ResourceType {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        is_namespaced: true,
        verbs: Vec::new(),
        subresources: Vec::new(),
        type_name: schema::type_of(api_version, kind),
        schema: None,
    }
}

/// Group and version of `apps/v1` or `v1`.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

fn parse(line: &'static str) -> Option<ResourceType> {
    let mut words = line.split_ascii_whitespace();
    let mut next = || words.next();
    let (api_version, kind, plural, scope, verbs) = (next()?, next()?, next()?, next()?, next()?);
    let list = |names: &str| names.split(',').map(str::to_owned).collect::<Vec<_>>();
    let (group, version) = split_api_version(api_version);
    let mut resource_type = ResourceType {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        is_namespaced: scope == "namespaced",
        verbs: match verbs {
            "all" => VERBS.map(str::to_owned).to_vec(),
            some => list(some),
        },
        subresources: Vec::new(),
        type_name: schema::type_of(api_version, kind),
        schema: None,
    };
    for word in words {
        match word.split_once('=') {
            Some(("short", names)) => resource_type.short_names = list(names),
            Some(("in", names)) => resource_type.categories = list(names),
            Some(("sub", names)) => resource_type.subresources = list(names),
            _ => return None,
        }
    }
    Some(resource_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_type_with_a_schema() {
        let lines = include_str!("schema/resources.txt").lines();
        let count = lines.filter(|it| !it.is_empty() && !it.starts_with('#'));
        assert_eq!(ResourceType::built_in().len(), count.count());
        for resource_type in ResourceType::built_in() {
            assert!(resource_type.type_name.is_some(), "{}", resource_type.kind);
        }
    }

    #[test]
    fn kinds_that_decisions_read_are_served_as_they_say() {
        for kind in ObjectKind::ALL {
            let resource_type: &ResourceType = (*kind).into();
            assert_eq!(resource_type.plural, kind.plural());
            assert_eq!(resource_type.is_namespaced, kind.is_namespaced());
            assert_eq!(resource_type.object_kind(), Some(*kind));
        }
    }
}

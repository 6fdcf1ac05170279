//! Which types of resources are served, and how each is stored.
//!
//! The built-in ones are always there; those of CustomResourceDefinitions come and go. Several
//! versions of a resource are one in the store, in the version that is *stored*; how they differ is
//! in [`crate::versions`].

use std::collections::HashMap;
use std::sync::Arc;

use outrank_api::resource_type::ResourceType;

/// A type that is served.
#[derive(Clone, Debug)]
pub struct ServedType {
    /// The type as clients see it.
    pub resource: Arc<ResourceType>,
    /// The type in which its objects are stored.
    pub stored: Arc<ResourceType>,
    /// What the store calls it, such as `pods` or `deployments.apps`.
    pub store_name: Arc<str>,
    /// The definition, if it is a custom one.
    pub definition: Option<Arc<serde_json::Value>>,
}

/// All types that are served.
#[derive(Clone, Debug, Default)]
pub struct ServedTypes {
    types: Vec<ServedType>,
    resources: Vec<Arc<ResourceType>>,
    by_path: HashMap<(String, String, String), usize>,
}

/// Resources that are stored in another version, or under another group, than some of those in
/// which they are served: served as, stored as.
const STORED_AS: [(Path, (&str, &str)); 2] = [
    (("events.k8s.io", "v1", "events"), ("v1", "Event")),
    (
        ("autoscaling", "v1", "horizontalpodautoscalers"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ),
];

/// Group, version and plural.
type Path = (&'static str, &'static str, &'static str);

impl ServedTypes {
    /// The built-in types, and these custom ones.
    pub fn new(custom: impl IntoIterator<Item = ServedType>) -> Self {
        let built_in = ResourceType::built_in().iter().map(|resource| {
            let path = (
                resource.group.as_str(),
                resource.version.as_str(),
                resource.plural.as_str(),
            );
            let other = STORED_AS.iter().find(|(served, _)| *served == path);
            let stored =
                other.and_then(|(_, (version, kind))| ResourceType::of_kind(version, kind));
            ServedType::of(resource.clone(), stored.unwrap_or(resource).clone())
        });
        let mut all = Self::default();
        for served in built_in.chain(custom) {
            let ResourceType {
                group,
                version,
                plural,
                ..
            } = &*served.resource;
            let path = (group.clone(), version.clone(), plural.clone());
            all.by_path.insert(path, all.types.len());
            all.resources.push(served.resource.clone());
            all.types.push(served);
        }
        all
    }

    /// The type under a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&ServedType> {
        let path = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.by_path
            .get(&path)
            .and_then(|index| self.types.get(*index))
    }

    /// The type of objects of a kind.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&ServedType> {
        let is_it =
            |it: &&ServedType| it.resource.kind == kind && it.resource.api_version() == api_version;
        self.types.iter().find(is_it)
    }

    /// All types, in the order of discovery.
    pub fn iter(&self) -> impl Iterator<Item = &ServedType> {
        self.types.iter()
    }

    /// The same, for documents about them.
    pub fn resources(&self) -> &[Arc<ResourceType>] {
        &self.resources
    }
}

impl ServedType {
    /// A type that is stored as another.
    pub fn of(resource: Arc<ResourceType>, stored: Arc<ResourceType>) -> Self {
        let store_name = stored.resource().to_string().into();
        Self {
            resource,
            stored,
            store_name,
            definition: None,
        }
    }

    /// Whether its objects are kept; others, such as reviews, are answered and forgotten.
    pub fn is_stored(&self) -> bool {
        self.resource.has_verb("list") && self.resource.kind != "ComponentStatus"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_a_resource_are_one_in_the_store() {
        let types = ServedTypes::new([]);
        let name = |group: &str, version: &str, plural: &str| {
            types
                .find(group, version, plural)
                .map(|it| it.store_name.to_string())
        };
        assert_eq!(
            name("events.k8s.io", "v1", "events").as_deref(),
            Some("events")
        );
        assert_eq!(name("", "v1", "events").as_deref(), Some("events"));
        let autoscalers = "horizontalpodautoscalers";
        assert_eq!(
            name("autoscaling", "v1", autoscalers),
            name("autoscaling", "v2", autoscalers)
        );
        assert_eq!(name("apps", "v1", "whales"), None);
    }
}

//! Subresources: what is served below an object, such as `pods/NAME/eviction`.

use std::borrow::Cow;

use outrank_api::resource_type::ResourceType;

const READ_AND_WRITE: &[&str] = &["get", "patch", "update"];
const CREATE: &[&str] = &["create"];
const CONNECT: &[&str] = &["create", "get"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

/// A subresource of a type of resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource<'r> {
    /// The name, such as `status`.
    pub name: &'r str,
    /// The kind of what is read from and written to it.
    pub kind: Cow<'r, str>,
    /// The group and version of the kind, if they are not those of the resource.
    pub group_version: Option<(&'static str, &'static str)>,
    /// What can be done with it.
    pub verbs: &'static [&'static str],
}

impl<'r> Subresource<'r> {
    /// The subresource of the name; `None` if the resource does not have it.
    ///
    /// Names mean the same with all resources. One that is not known is read and written as
    /// `status` is.
    pub fn find(resource: &'r ResourceType, name: &str) -> Option<Self> {
        let name = resource.subresources.iter().find(|it| *it == name)?;
        Some(Self::of(resource, name))
    }

    /// All subresources of a type, in its order.
    pub fn all(resource: &'r ResourceType) -> impl Iterator<Item = Self> {
        let names = resource.subresources.iter();
        names.map(|name| Self::of(resource, name))
    }

    fn of(resource: &'r ResourceType, name: &'r str) -> Self {
        let own = Cow::Borrowed(resource.kind.as_str());
        let options = |what: &str| Cow::Owned(format!("{}{what}Options", resource.kind));
        let (kind, group_version, verbs) = match name {
            "attach" => (options("Attach"), None, CONNECT),
            "binding" => ("Binding".into(), None, CREATE),
            "eviction" => ("Eviction".into(), Some(("policy", "v1")), CREATE),
            "exec" => (options("Exec"), None, CONNECT),
            "finalize" => (own, None, &["update"][..]),
            "log" => (own, None, &["get"][..]),
            "portforward" => (options("PortForward"), None, CONNECT),
            "proxy" => (options("Proxy"), None, PROXY),
            "scale" => ("Scale".into(), Some(("autoscaling", "v1")), READ_AND_WRITE),
            "token" => {
                let group_version = ("authentication.k8s.io", "v1");
                ("TokenRequest".into(), Some(group_version), CREATE)
            }
            _ => (own, None, READ_AND_WRITE),
        };
        Subresource {
            name,
            kind,
            group_version,
            verbs,
        }
    }

    /// Whether it opens a connection, rather than reading or writing an object.
    pub fn is_connection(&self) -> bool {
        matches!(self.name, "attach" | "exec" | "portforward" | "proxy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_other_groups_are_named_with_their_group() {
        let pods = ResourceType::of_kind("v1", "Pod").unwrap();
        let eviction = Subresource::find(pods, "eviction").unwrap();
        assert_eq!(eviction.kind, "Eviction");
        assert_eq!(eviction.group_version, Some(("policy", "v1")));
        assert_eq!(eviction.verbs, ["create"]);
        assert_eq!(Subresource::find(pods, "scale"), None);
        assert_eq!(Subresource::find(pods, ""), None);
    }
}

//! Who may do what: role-based access control (RBAC).
//!
//! A *role* is a list of rules, each of which allows some verbs on some resources or paths. A
//! *binding* gives a role to users, groups or service accounts. `Role` and `RoleBinding` are for
//! one namespace, `ClusterRole` and `ClusterRoleBinding` for all of them and for what is in none;
//! a `RoleBinding` may also give a `ClusterRole`, for its namespace. Rules only allow: what no rule
//! allows is refused, and there is no rule that refuses. The group `system:masters` may do
//! everything, so that nobody can lock himself out.
//!
//! [`Rbac`] knows these objects and [decides](Rbac::decide). [`bootstrap`] has those that a new
//! cluster begins with. [`Rbac::check_write`] sees to it that nobody grants more than he has.
//! [`reviews`] answers those who ask what they or others may do, and [`impersonation`] lets some
//! act as others (`kubectl --as`).
//!
//! Everything here is pure: objects and users in, answers out. Sources: KEP-1541 (RBAC),
//! `plugin/pkg/auth/authorizer/rbac`, `pkg/registry/rbac`, Kubernetes 1.36.
//!
//! ```
//! use outrank_apiserver::authentication::User;
//! use outrank_apiserver::authorization::{Attributes, Decision, Rbac, Target};
//! use serde_json::json;
//!
//! let mut rbac = Rbac::default();
//! rbac.set(&json!({
//!     "kind": "Role", "metadata": {"name": "reader", "namespace": "shop"},
//!     "rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}],
//! }));
//! rbac.set(&json!({
//!     "kind": "RoleBinding", "metadata": {"name": "devs", "namespace": "shop"},
//!     "roleRef": {"kind": "Role", "name": "reader"},
//!     "subjects": [{"kind": "Group", "name": "developers"}],
//! }));
//!
//! let ada = User::new("ada", ["developers"]);
//! let mut attributes = Attributes {
//!     user: &ada,
//!     verb: "list",
//!     target: Target::Resource {
//!         api_group: "", resource: "pods", subresource: "", namespace: "shop", name: "",
//!     },
//! };
//! assert!(rbac.decide(&attributes).is_allowed());
//! attributes.verb = "delete";
//! let Decision::NoOpinion { reason } = rbac.decide(&attributes) else { panic!() };
//! assert_eq!(
//!     attributes.forbidden(&reason).message,
//!     "pods is forbidden: User \"ada\" cannot delete resource \"pods\" in API group \"\" in the \
//!      namespace \"shop\"",
//! );
//! ```

pub mod bootstrap;
mod escalation;
pub mod impersonation;
mod policy_rule;
mod rbac;
pub mod reviews;

use outrank_api::names::quoted;
use outrank_api::status::{Qualified, Status};

use crate::authentication::User;

pub use escalation::{ATOMS_MAX, RoleWrite};
pub use policy_rule::PolicyRule;
pub use rbac::{MissingRole, Rbac};

/// The API group of roles and bindings.
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";

/// What someone wants to do.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'r> {
    /// Who.
    pub user: &'r User,
    /// What: for resources `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection` or a special verb, for paths the HTTP method in lower case.
    pub verb: &'r str,
    /// To what.
    pub target: Target<'r>,
}

/// What is to be read or changed. Texts are empty for what the request does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'r> {
    /// A resource of the API.
    Resource {
        /// API group; empty for the core group.
        api_group: &'r str,
        /// Plural, such as `pods`.
        resource: &'r str,
        /// Subresource, such as `log`.
        subresource: &'r str,
        /// Namespace; empty for requests about all namespaces and for what is in none.
        namespace: &'r str,
        /// Name of the object.
        name: &'r str,
    },
    /// A path that is no resource, such as `/healthz`.
    Path(&'r str),
}

/// What comes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may be done.
    Allow {
        /// Which binding allows it; empty for [`MASTERS`].
        reason: String,
    },
    /// Nothing allows it, so it is refused.
    NoOpinion {
        /// Roles that bindings name and that do not exist; mostly empty.
        reason: String,
    },
}

impl Decision {
    /// Whether it may be done.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow { .. })
    }

    /// Why.
    pub fn reason(&self) -> &str {
        match self {
            Self::Allow { reason } | Self::NoOpinion { reason } => reason,
        }
    }
}

impl Attributes<'_> {
    /// The answer to a request that is refused: 403, in the words of
    /// `apiserver/pkg/endpoints/handlers/responsewriters/errors.go`. `reason` is that of the
    /// decision.
    pub fn forbidden(&self, reason: &str) -> Status {
        let mut why = self.refusal();
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        match self.target {
            Target::Path(_) => Status::forbidden(Qualified::default(), "", why),
            Target::Resource {
                api_group,
                resource,
                name,
                ..
            } => {
                let resource = Qualified {
                    group: api_group,
                    name: resource,
                };
                Status::forbidden(resource, name, why)
            }
        }
    }

    fn refusal(&self) -> String {
        let (user, verb) = (quoted(&self.user.name), self.verb);
        match self.target {
            Target::Path(path) => format!("User {user} cannot {verb} path {}", quoted(path)),
            Target::Resource {
                api_group,
                resource,
                subresource,
                namespace,
                ..
            } => {
                let resource = match subresource {
                    "" => quoted(resource),
                    _ => quoted(&format!("{resource}/{subresource}")),
                };
                let api_group = quoted(api_group);
                let scope = match namespace {
                    "" => "at the cluster scope".to_owned(),
                    _ => format!("in the namespace {}", quoted(namespace)),
                };
                format!(
                    "User {user} cannot {verb} resource {resource} in API group {api_group} {scope}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(target: Target<'_>, verb: &str, reason: &str) -> String {
        let user = User::new("dev", [""; 0]);
        let attributes = Attributes {
            user: &user,
            verb,
            target,
        };
        let status = attributes.forbidden(reason);
        assert_eq!(status.code, 403);
        status.message
    }

    #[test]
    fn refusals_are_in_upstreams_words() {
        let target = |api_group, resource, subresource, namespace, name| Target::Resource {
            api_group,
            resource,
            subresource,
            namespace,
            name,
        };
        for (target, verb, expected) in [
            (
                target("", "pods", "", "default", ""),
                "list",
                r#"pods is forbidden: User "dev" cannot list resource "pods" in API group "" in the namespace "default""#,
            ),
            (
                target("", "nodes", "", "", ""),
                "list",
                r#"nodes is forbidden: User "dev" cannot list resource "nodes" in API group "" at the cluster scope"#,
            ),
            (
                target("", "pods", "eviction", "default", "web-1"),
                "create",
                r#"pods "web-1" is forbidden: User "dev" cannot create resource "pods/eviction" in API group "" in the namespace "default""#,
            ),
            (
                target("apps", "deployments", "", "default", "web"),
                "get",
                r#"deployments.apps "web" is forbidden: User "dev" cannot get resource "deployments" in API group "apps" in the namespace "default""#,
            ),
            (
                Target::Path("/metrics"),
                "get",
                r#"forbidden: User "dev" cannot get path "/metrics""#,
            ),
        ] {
            assert_eq!(message(target, verb, ""), expected);
        }
        let missing = r#"RBAC: role.rbac.authorization.k8s.io "r" not found"#;
        let told = message(target("", "pods", "", "default", ""), "list", missing);
        assert!(told.ends_with(&format!(": {missing}")), "{told}");
    }

    #[test]
    fn a_refused_path_has_empty_details() {
        let user = User::new("dev", [""; 0]);
        let attributes = Attributes {
            user: &user,
            verb: "get",
            target: Target::Path("/"),
        };
        assert_eq!(
            serde_json::to_value(attributes.forbidden("")).unwrap(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "forbidden: User \"dev\" cannot get path \"/\"",
                "reason": "Forbidden", "details": {}, "code": 403,
            })
        );
    }
}

//! Nobody grants more than he has.
//!
//! Who may write roles could otherwise write himself one that allows everything. So the rules of
//! a role must be among those of its writer, unless he has the verb `escalate` on it; and a
//! binding may be written by those who have what its role allows, or the verb `bind` on the role.
//! Sources: `pkg/registry/rbac/escalation_check.go`, the `policybased` storages beside it,
//! `pkg/registry/rbac/validation/rule.go`, Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};

use outrank_api::status::{Qualified, Status};
use serde_json::Value;

use super::policy_rule::go_list;
use super::rbac::MissingRole;
use super::{Attributes, MASTERS, PolicyRule, RBAC_GROUP, Rbac, Target};
use crate::authentication::User;

/// In how many single permissions (a verb on a resource of a group) a role may be taken apart
/// when it is compared with what its writer has. Each list of a rule multiplies them. The largest
/// role of a new cluster has 300.
pub const ATOMS_MAX: usize = 20_000;

/// A role or binding that is about to be stored.
#[derive(Clone, Copy, Debug)]
pub struct RoleWrite<'w> {
    /// Who writes.
    pub user: &'w User,
    /// `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`.
    pub resource: &'w str,
    /// The namespace of the request; empty for what is in none.
    pub namespace: &'w str,
    /// The name in the path of the request; empty for those that create.
    pub requested_name: &'w str,
    /// What will be stored.
    pub new: &'w Value,
    /// What is stored now.
    pub old: Option<&'w Value>,
}

impl Rbac {
    /// Whether someone may store a role or binding that he may write otherwise. Other resources
    /// are none of its business.
    ///
    /// # Errors
    ///
    /// 403 with what the writer would grant and does not have; 404 if a binding names no role.
    pub fn check_write(&self, write: &RoleWrite<'_>) -> Result<(), Status> {
        let is_role = matches!(write.resource, "roles" | "clusterroles");
        let is_binding = matches!(write.resource, "rolebindings" | "clusterrolebindings");
        if !(is_role || is_binding) || write.user.is_in(MASTERS) {
            return Ok(());
        }
        if write
            .old
            .is_some_and(|old| differs_for_collectors_only(write.new, old))
        {
            return Ok(());
        }
        match is_role {
            true => self.check_role(write),
            false => self.check_binding(write),
        }
    }

    fn check_role(&self, write: &RoleWrite<'_>) -> Result<(), Status> {
        if self.allows_special(write, "escalate", write.resource, write.requested_name) {
            return Ok(());
        }
        let rules = PolicyRule::list(&write.new["rules"]);
        self.check_grant(write, &rules)?;
        let gathers = |role: &Value| {
            let selectors = &role["aggregationRule"]["clusterRoleSelectors"];
            selectors.as_array().is_some_and(|it| !it.is_empty())
        };
        let is_gathering = gathers(write.new) || write.old.is_some_and(gathers);
        // What will be gathered is not known now, so that only who has everything may do it.
        if write.resource == "clusterroles" && is_gathering {
            self.check_grant(write, &everything()).map_err(|_| {
                write.forbidden("must have cluster-admin privileges to use the aggregationRule")
            })?;
        }
        Ok(())
    }

    fn check_binding(&self, write: &RoleWrite<'_>) -> Result<(), Status> {
        let text = |field: &str| write.new["roleRef"][field].as_str().unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let resource = match kind {
            "Role" => Some("roles"),
            "ClusterRole" => Some("clusterroles"),
            _ => None,
        };
        if resource.is_some_and(|it| self.allows_special(write, "bind", it, name)) {
            return Ok(());
        }
        let rules = self.rules_of_role(kind, name, write.namespace);
        let rules = rules.map_err(|missing| match resource {
            Some(resource) => Status::not_found(rbac_resource(resource), name),
            None => Status::unknown_error(missing.to_string()),
        })?;
        self.check_grant(write, rules)
    }

    /// Whether the writer has a verb that is only for this.
    fn allows_special(
        &self,
        write: &RoleWrite<'_>,
        verb: &str,
        resource: &str,
        name: &str,
    ) -> bool {
        let target = Target::Resource {
            api_group: RBAC_GROUP,
            resource,
            subresource: "",
            namespace: write.namespace,
            name,
        };
        let user = write.user;
        self.decide(&Attributes { user, verb, target }).is_allowed()
    }

    fn check_grant(&self, write: &RoleWrite<'_>, granted: &[PolicyRule]) -> Result<(), Status> {
        let (owned, missing_roles) = self.rules_for(write.user, write.namespace);
        let atoms = granted.iter().flat_map(PolicyRule::atoms);
        let mut lacking = Vec::new();
        for (count, atom) in atoms.enumerate() {
            if count == ATOMS_MAX {
                return Err(write.forbidden(&format!(
                    "its rules stand for more than {ATOMS_MAX} permissions, too many to compare \
                     with yours; write several roles"
                )));
            }
            if !owned.iter().any(|rule| rule.covers_atom(&atom)) {
                lacking.push(atom);
            }
        }
        match lacking.is_empty() {
            true => Ok(()),
            false => Err(write.forbidden(&escalation(write.user, lacking, &missing_roles))),
        }
    }
}

impl RoleWrite<'_> {
    fn forbidden(&self, why: &str) -> Status {
        let name = self.new["metadata"]["name"].as_str().unwrap_or_default();
        Status::forbidden(rbac_resource(self.resource), name, why)
    }
}

fn rbac_resource(name: &str) -> Qualified<'_> {
    Qualified {
        group: RBAC_GROUP,
        name,
    }
}

fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    let resources = PolicyRule {
        verbs: all(),
        api_groups: all(),
        resources: all(),
        ..PolicyRule::default()
    };
    let paths = PolicyRule {
        verbs: all(),
        non_resource_urls: all(),
        ..PolicyRule::default()
    };
    [resources, paths]
}

/// Whether an update changes only what the garbage collector and namespaces need to let an
/// object go. That must be possible whatever the object grants.
fn differs_for_collectors_only(new: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata {
            for field in ["ownerReferences", "finalizers", "managedFields"] {
                metadata.remove(field);
            }
        }
        object
    };
    rest(new) == rest(old)
}

/// The refusal, with one line for each resource.
fn escalation(user: &User, lacking: Vec<PolicyRule>, missing_roles: &[MissingRole]) -> String {
    let lines: BTreeSet<String> = merged(lacking).iter().map(PolicyRule::to_string).collect();
    let lines: Vec<String> = lines.into_iter().collect();
    let mut text = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        outrank_api::names::quoted(&user.name),
        go_list(&user.groups),
        lines.join("\n"),
    );
    if !missing_roles.is_empty() {
        let errors: Vec<String> = missing_roles.iter().map(resolution_error).collect();
        let errors = outrank_api::names::joined_errors(&errors);
        text = format!("{text}; resolution errors: [{errors}]");
    }
    text
}

/// Here upstream asks the store, which names resources and not kinds.
fn resolution_error(missing: &MissingRole) -> String {
    match missing.kind() {
        "Role" => Status::not_found(rbac_resource("roles"), missing.name()).message,
        "ClusterRole" => Status::not_found(rbac_resource("clusterroles"), missing.name()).message,
        _ => missing.to_string(),
    }
}

/// Permissions with those on the same resource in one.
fn merged(atoms: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut by_resource: BTreeMap<_, PolicyRule> = BTreeMap::new();
    let mut others = Vec::new();
    for atom in atoms {
        if atom.resources.is_empty() || !atom.resource_names.is_empty() {
            others.push(atom);
            continue;
        }
        let key = (atom.api_groups.clone(), atom.resources.clone());
        match by_resource.get_mut(&key) {
            Some(rule) => rule.verbs.extend(atom.verbs),
            None => {
                by_resource.insert(key, atom);
            }
        }
    }
    others.extend(by_resource.into_values());
    others
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Eve may write roles and bindings in `shop`, and get pods there.
    fn rbac() -> Rbac {
        let mut rbac = Rbac::default();
        rbac.set(&json!({
            "kind": "Role", "metadata": {"name": "writer", "namespace": "shop"},
            "rules": [
                {"verbs": ["*"], "apiGroups": [RBAC_GROUP], "resources": ["rolebindings"]},
                {"verbs": ["create", "update"], "apiGroups": [RBAC_GROUP], "resources": ["roles"]},
                {"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "*/scale"]},
            ],
        }));
        rbac.set(&json!({
            "kind": "RoleBinding", "metadata": {"name": "eve", "namespace": "shop"},
            "roleRef": {"kind": "Role", "name": "writer"},
            "subjects": [{"kind": "User", "name": "eve"}],
        }));
        rbac.set(&json!({
            "kind": "ClusterRole", "metadata": {"name": "secrets"},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}],
        }));
        rbac
    }

    fn check(rbac: &Rbac, resource: &str, new: &Value, old: Option<&Value>) -> Result<(), Status> {
        let user = User::new("eve", ["devs", "system:authenticated"]);
        rbac.check_write(&RoleWrite {
            user: &user,
            resource,
            namespace: if resource.starts_with("cluster") {
                ""
            } else {
                "shop"
            },
            requested_name: "",
            new,
            old,
        })
    }

    fn role(rules: Value) -> Value {
        json!({"metadata": {"name": "new"}, "rules": rules})
    }

    fn binding(kind: &str, name: &str) -> Value {
        json!({"metadata": {"name": "new"}, "roleRef": {"kind": kind, "name": name}})
    }

    #[test]
    fn what_one_has_can_be_given() {
        let rules = json!([
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/scale"]},
        ]);
        assert_eq!(check(&rbac(), "roles", &role(rules), None), Ok(()));
        assert_eq!(
            check(&rbac(), "rolebindings", &binding("Role", "writer"), None),
            Ok(())
        );
    }

    #[test]
    fn what_one_lacks_is_listed() {
        let rules = json!([
            {"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods"]},
            {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
        ]);
        let status = check(&rbac(), "roles", &role(rules), None).unwrap_err();
        assert_eq!(status.code, 403);
        assert_eq!(
            status.message,
            "roles.rbac.authorization.k8s.io \"new\" is forbidden: user \"eve\" (groups=[\"devs\" \
             \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}\n\
             {APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}\n\
             {NonResourceURLs:[\"/metrics\"], Verbs:[\"get\"]}"
        );
    }

    #[test]
    fn bindings_need_the_rules_or_the_verb() {
        let mut rbac = rbac();
        let new = binding("ClusterRole", "secrets");
        let status = check(&rbac, "rolebindings", &new, None).unwrap_err();
        assert!(status.message.contains("\"secrets\"]"), "{status}");
        let missing = check(&rbac, "rolebindings", &binding("Role", "none"), None);
        assert_eq!(
            missing.unwrap_err().message,
            "roles.rbac.authorization.k8s.io \"none\" not found"
        );
        rbac.set(&json!({
            "kind": "Role", "metadata": {"name": "writer", "namespace": "shop"},
            "rules": [{
                "verbs": ["bind"], "apiGroups": [RBAC_GROUP], "resources": ["clusterroles"],
                "resourceNames": ["secrets"],
            }],
        }));
        assert_eq!(check(&rbac, "rolebindings", &new, None), Ok(()));
        // The verb is had in a namespace only.
        assert!(check(&rbac, "clusterrolebindings", &new, None).is_err());
    }

    #[test]
    fn whoever_gathers_must_have_everything() {
        let mut new = role(json!([]));
        assert_eq!(check(&rbac(), "clusterroles", &new, None), Ok(()));
        new["aggregationRule"] = json!({"clusterRoleSelectors": [{}]});
        let status = check(&rbac(), "clusterroles", &new, None).unwrap_err();
        assert_eq!(
            status.message,
            "clusterroles.rbac.authorization.k8s.io \"new\" is forbidden: must have cluster-admin \
             privileges to use the aggregationRule"
        );
        let plain = role(json!([]));
        assert!(check(&rbac(), "clusterroles", &plain, Some(&new)).is_err());
    }

    #[test]
    fn objects_can_be_let_go_whatever_they_grant() {
        let old = role(json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]));
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!(["x"]);
        assert_eq!(check(&rbac(), "roles", &new, Some(&old)), Ok(()));
        new["metadata"]["labels"] = json!({"a": "b"});
        assert!(check(&rbac(), "roles", &new, Some(&old)).is_err());
    }

    #[test]
    fn huge_products_end() {
        let many: Vec<String> = (0..5_000).map(|number| number.to_string()).collect();
        let rules = json!([{
            "verbs": many, "apiGroups": many, "resources": many, "resourceNames": many,
        }]);
        let status = check(&rbac(), "roles", &role(rules), None).unwrap_err();
        assert!(
            status.message.contains("too many"),
            "{}",
            status.message.len()
        );
    }
}

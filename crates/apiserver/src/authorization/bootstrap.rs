//! The roles and bindings that a new cluster begins with.
//!
//! `cluster-admin`, `admin`, `edit` and `view` are for people; `system:...` for the programs of a
//! cluster and for what everybody may do. They are in a table, `bootstrap.txt`, which says what
//! its lines mean. Sources: `plugin/pkg/auth/authorizer/rbac/bootstrappolicy`, Kubernetes 1.36,
//! with the features that are on by default.
//!
//! ```
//! use outrank_apiserver::authorization::{Rbac, bootstrap};
//!
//! let mut rbac = Rbac::default();
//! for object in bootstrap::objects() {
//!     rbac.set(&object);
//! }
//! assert!(rbac.gathering_roles().eq(["admin", "edit", "view"]));
//! ```

use serde_json::{Map, Value, json};

use super::{PolicyRule, RBAC_GROUP, Rbac};

const TABLE: &str = include_str!("bootstrap.txt");

/// The objects, as they are to be stored: without UIDs and times, and with the rules that a
/// role gathers already in it. First ClusterRoles, then their bindings, then what is in
/// namespaces (`kube-system` and `kube-public`, which must exist).
pub fn objects() -> Vec<Value> {
    let mut objects = parse(TABLE);
    let mut rbac = Rbac::default();
    objects.iter().for_each(|object| rbac.set(object));
    for object in &mut objects {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(rules) = rbac
            .gathered_rules(name)
            .filter(|_| object["kind"] == "ClusterRole")
        {
            object["rules"] = rules.iter().map(PolicyRule::to_value).collect();
        }
    }
    let order = |kind: &Value| {
        let kinds = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
        kinds.iter().position(|it| kind == it)
    };
    objects.sort_by_key(|object| order(&object["kind"]));
    objects
}

fn parse(table: &str) -> Vec<Value> {
    let mut objects: Vec<Value> = Vec::new();
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    for line in lines.filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if !line.starts_with(' ') {
            objects.extend(head(&words));
            continue;
        }
        // A controller is a role and its binding, so the role is not always the last.
        let mut roles = objects.iter_mut().rev();
        let role = roles.find_map(|object| object["rules"].as_array_mut());
        if let (Some(rules), Some(rule)) = (role, rule(&words)) {
            rules.push(rule.to_value());
        }
    }
    objects
}

/// The objects that a line begins.
fn head(words: &[&str]) -> Vec<Value> {
    match *words {
        ["cluster-role", name, ref options @ ..] => vec![cluster_role(name, options)],
        ["cluster-role-binding", role, ref subjects @ ..] => {
            vec![binding("ClusterRoleBinding", "", role, role, subjects)]
        }
        ["controller", name] => {
            let role = format!("system:controller:{name}");
            let account = format!("account:{name}");
            vec![
                cluster_role(&role, &[]),
                binding("ClusterRoleBinding", "", &role, &role, &[&account]),
            ]
        }
        ["role", namespace, name] => {
            let mut role = object("Role", namespace, name);
            role["rules"] = json!([]);
            vec![role]
        }
        ["role-binding", namespace, name, role, ref subjects @ ..] => {
            vec![binding("RoleBinding", namespace, name, role, subjects)]
        }
        _ => Vec::new(),
    }
}

fn object(kind: &str, namespace: &str, name: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    });
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    json!({"kind": kind, "apiVersion": format!("{RBAC_GROUP}/v1"), "metadata": metadata})
}

fn cluster_role(name: &str, options: &[&str]) -> Value {
    let mut role = object("ClusterRole", "", name);
    role["rules"] = json!([]);
    let label = |word: &str| format!("{RBAC_GROUP}/aggregate-to-{word}");
    for option in options {
        match option.split_once('=') {
            Some(("gathers", word)) => {
                let labels = Map::from_iter([(label(word), "true".into())]);
                role["aggregationRule"] =
                    json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
            }
            Some(("gathered-by", word)) => role["metadata"]["labels"][label(word)] = "true".into(),
            _ => {}
        }
    }
    role
}

fn binding(kind: &str, namespace: &str, name: &str, role: &str, subjects: &[&str]) -> Value {
    let role_kind = kind.strip_suffix("Binding").unwrap_or(kind);
    let subjects: Vec<Value> = subjects.iter().filter_map(|it| subject(it)).collect();
    let mut binding = object(kind, namespace, name);
    binding["roleRef"] = json!({"apiGroup": RBAC_GROUP, "kind": role_kind, "name": role});
    if !subjects.is_empty() {
        binding["subjects"] = subjects.into();
    }
    binding
}

fn subject(word: &str) -> Option<Value> {
    let (kind, name) = word.split_once(':')?;
    Some(match kind {
        "user" => json!({"kind": "User", "apiGroup": RBAC_GROUP, "name": name}),
        "group" => json!({"kind": "Group", "apiGroup": RBAC_GROUP, "name": name}),
        "account" => json!({"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}),
        _ => return None,
    })
}

fn rule(words: &[&str]) -> Option<PolicyRule> {
    let list = |word: &str| word.split(',').map(str::to_owned).collect::<Vec<_>>();
    let groups = |word: &str| {
        let groups = word.split(',');
        let groups = groups.map(|group| if group == "core" { "" } else { group });
        groups.map(str::to_owned).collect::<Vec<_>>()
    };
    Some(match *words {
        ["events"] => rule(&["create,patch,update", "core,events.k8s.io", "events"])?,
        [verbs_word, paths] => PolicyRule {
            verbs: verbs(verbs_word),
            non_resource_urls: list(paths),
            ..PolicyRule::default()
        },
        [verbs_word, groups_word, resources, ref names @ ..] => PolicyRule {
            verbs: verbs(verbs_word),
            api_groups: groups(groups_word),
            resources: list(resources),
            resource_names: names.first().map_or(Vec::new(), |names| list(names)),
            ..PolicyRule::default()
        },
        _ => return None,
    })
}

/// Verbs in alphabetic order, as upstream writes them.
fn verbs(word: &str) -> Vec<String> {
    let words = word.split(',').flat_map(|word| match word {
        "read" => vec!["get", "list", "watch"],
        "write" => vec!["create", "delete", "deletecollection", "patch", "update"],
        other => vec![other],
    });
    let mut verbs: Vec<String> = words.map(str::to_owned).collect();
    verbs.sort();
    verbs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::{AUTHENTICATED, User};
    use crate::authorization::{Attributes, Target};

    fn rbac() -> Rbac {
        let mut rbac = Rbac::default();
        objects().iter().for_each(|object| rbac.set(object));
        rbac
    }

    fn may(rbac: &Rbac, user: &User, verb: &str, resource: &str, namespace: &str) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (resource, api_group) = resource.split_once('.').unwrap_or((resource, ""));
        let target = Target::Resource {
            api_group,
            resource,
            subresource,
            namespace,
            name: "",
        };
        rbac.decide(&Attributes { user, verb, target }).is_allowed()
    }

    #[test]
    fn every_line_of_the_table_is_understood() {
        let lines = TABLE.lines();
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let (rules, heads): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with(' '));
        for line in heads {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let objects = head(&words);
            assert!(!objects.is_empty(), "{line}");
            let options = words.iter().filter(|word| word.contains('='));
            assert!(words[0] == "cluster-role" || options.count() == 0, "{line}");
        }
        let found = parse(TABLE);
        let found = found.iter().filter_map(|it| it["rules"].as_array());
        assert_eq!(found.map(Vec::len).sum::<usize>(), rules.len());
        for object in objects() {
            let name = &object["metadata"]["name"];
            let has_rules = object["rules"]
                .as_array()
                .is_none_or(|rules| !rules.is_empty());
            assert!(has_rules, "{name}");
        }
    }

    #[test]
    fn every_binding_names_a_role() {
        let rbac = rbac();
        for object in objects() {
            let Some(role) = object["roleRef"]["name"].as_str() else {
                continue;
            };
            let kind = object["roleRef"]["kind"].as_str().unwrap_or_default();
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            assert!(rbac.rules_of_role(kind, role, namespace).is_ok(), "{role}");
        }
    }

    #[test]
    fn who_may_do_what_in_a_new_cluster() {
        let mut rbac = rbac();
        for role in ["admin", "edit", "view"] {
            let mut given = binding(
                "RoleBinding",
                "shop",
                role,
                role,
                &[&format!("user:{role}")],
            );
            given["roleRef"]["kind"] = "ClusterRole".into();
            rbac.set(&given);
        }
        let user = |name: &str| User::new(name, [AUTHENTICATED]);
        for (name, verb, resource, expected) in [
            ("view", "list", "pods", true),
            ("view", "get", "secrets", false),
            ("view", "create", "pods", false),
            ("edit", "get", "secrets", true),
            ("edit", "create", "pods", true),
            ("edit", "create", "pods/eviction", true),
            ("edit", "create", "roles.rbac.authorization.k8s.io", false),
            ("edit", "update", "resourcequotas", false),
            ("admin", "create", "roles.rbac.authorization.k8s.io", true),
            ("admin", "list", "pods", true),
            ("admin", "update", "resourcequotas", false),
            ("nobody", "list", "pods", false),
        ] {
            let allowed = may(&rbac, &user(name), verb, resource, "shop");
            assert_eq!(allowed, expected, "{name} {verb} {resource}");
            assert!(!may(&rbac, &user(name), verb, resource, "other"), "{name}");
        }
        let scheduler = user("system:kube-scheduler");
        assert!(may(&rbac, &scheduler, "create", "pods/binding", "shop"));
        assert!(!may(&rbac, &scheduler, "create", "pods", "shop"));
        let questions = "selfsubjectaccessreviews.authorization.k8s.io";
        assert!(may(&rbac, &user("nobody"), "create", questions, ""));
    }

    #[test]
    fn nobody_sees_more_than_health_checks_without_a_name() {
        let mut rbac = rbac();
        rbac.set(&binding(
            "ClusterRoleBinding",
            "",
            "open",
            "cluster-admin",
            &["group:system:unauthenticated"],
        ));
        let nobody = User::anonymous();
        let decide = |user: &User, target| {
            let attributes = Attributes {
                user,
                verb: "get",
                target,
            };
            rbac.decide(&attributes).is_allowed()
        };
        for (path, is_open) in [
            ("/healthz", true),
            ("/livez", true),
            ("/readyz", true),
            ("/version", false),
            ("/api", false),
            ("/metrics", false),
        ] {
            assert_eq!(decide(&nobody, Target::Path(path)), is_open, "{path}");
        }
        assert!(!may(&rbac, &nobody, "list", "pods", "default"));
        assert!(decide(
            &User::new("u", [AUTHENTICATED]),
            Target::Path("/version")
        ));
    }
}

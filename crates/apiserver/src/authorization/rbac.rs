//! What is known of roles and bindings, and what follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

use outrank_api::labels::Selector;
use outrank_api::names::{joined_errors, quoted};
use outrank_api::types::{LabelSelector, StringMap};
use serde_json::Value;

use super::policy_rule::PolicyRule;
use super::{Attributes, Decision, MASTERS, Target};
use crate::authentication::{HEALTH_CHECKS, User, service_account_name};

/// All roles and bindings of a cluster. A cluster without any allows nothing, except to
/// [`MASTERS`].
///
/// A decision looks at the bindings of the user and his groups that are for all namespaces or for
/// that of the request, not at others. A change costs O(log n); one of a ClusterRole that others
/// [gather](Rbac::gathered_rules) also a look at all ClusterRoles for each that gathers.
#[derive(Clone, Debug, Default)]
pub struct Rbac {
    cluster_roles: BTreeMap<String, ClusterRole>,
    /// By namespace and name.
    roles: BTreeMap<Key, Vec<PolicyRule>>,
    /// By namespace, which is empty for a ClusterRoleBinding, and name.
    bindings: BTreeMap<Key, Binding>,
    /// Which bindings name a user or group.
    bindings_of: BTreeMap<Principal, BTreeSet<Key>>,
}

/// Namespace and name.
type Key = (String, String);

#[derive(Clone, Debug, Default)]
struct ClusterRole {
    labels: StringMap,
    /// What it allows: its own rules, or those of the roles that it gathers.
    rules: Vec<PolicyRule>,
    /// Whose rules it gathers, if it has an `aggregationRule`.
    gathers: Option<Vec<Selector>>,
}

#[derive(Clone, Debug)]
struct Binding {
    role: RoleRef,
    subjects: Vec<Subject>,
}

#[derive(Clone, Debug)]
struct RoleRef {
    kind: String,
    name: String,
}

#[derive(Clone, Debug)]
struct Subject {
    principal: Principal,
    /// As reasons name it, such as `Group "system:masters"`.
    described: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Principal {
    User(String),
    Group(String),
}

/// A role that a binding names and that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRole {
    kind: String,
    name: String,
}

impl MissingRole {
    /// The kind of the role: `Role`, `ClusterRole`, or what else a binding names.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The name of the role.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether there are roles of this kind.
    pub fn is_known_kind(&self) -> bool {
        matches!(self.kind.as_str(), "Role" | "ClusterRole")
    }
}

impl fmt::Display for MissingRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind.as_str() {
            "Role" => write!(
                f,
                "role.rbac.authorization.k8s.io {} not found",
                quoted(&self.name)
            ),
            "ClusterRole" => {
                write!(
                    f,
                    "clusterrole.rbac.authorization.k8s.io {} not found",
                    quoted(&self.name)
                )
            }
            other => write!(f, "unsupported role reference kind: {}", quoted(other)),
        }
    }
}

impl Rbac {
    /// Takes note of a role or binding that is new or has changed; objects of other kinds are
    /// passed over. What is malformed in it allows nothing.
    pub fn set(&mut self, object: &Value) {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        match object["kind"].as_str() {
            Some("ClusterRole") => self.set_cluster_role(name, Some(ClusterRole::read(object))),
            Some("Role") => {
                let rules = PolicyRule::list(&object["rules"]);
                self.roles.insert((namespace, name), rules);
            }
            Some("ClusterRoleBinding") => self.set_binding((String::new(), name), object),
            Some("RoleBinding") => self.set_binding((namespace, name), object),
            _ => {}
        }
    }

    /// Forgets a role or binding. `namespace` is empty for those of the whole cluster.
    pub fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        match kind {
            "ClusterRole" => self.set_cluster_role(key.1, None),
            "Role" => {
                self.roles.remove(&key);
            }
            "ClusterRoleBinding" => self.remove_binding(&(String::new(), key.1)),
            "RoleBinding" => self.remove_binding(&key),
            _ => {}
        }
    }

    /// Whether someone may do something.
    ///
    /// [`MASTERS`] may. Those who have not said who they are may look at [`HEALTH_CHECKS`] at
    /// most, whatever bindings give them: that is stricter than upstream, where a binding may open
    /// anything to everybody.
    pub fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let no_opinion = |reason| Decision::NoOpinion { reason };
        let (user, target) = (attributes.user, &attributes.target);
        if user.is_in(MASTERS) {
            return Decision::Allow {
                reason: String::new(),
            };
        }
        if user.is_anonymous() && !is_health_check(attributes.verb, target) {
            return no_opinion(String::new());
        }
        let namespace = match *target {
            Target::Resource { namespace, .. } => namespace,
            Target::Path(_) => "",
        };
        let mut missing = Vec::new();
        for (key, binding) in self.bindings_for(user, namespace) {
            match self.rules_of(&binding.role, &key.0) {
                Err(error) => missing.push(error.to_string()),
                Ok(rules) if rules.iter().any(|it| it.allows(attributes.verb, target)) => {
                    let described = described(key, binding, user);
                    return Decision::Allow {
                        reason: format!("RBAC: allowed by {described}"),
                    };
                }
                Ok(_) => {}
            }
        }
        no_opinion(match missing.is_empty() {
            true => String::new(),
            false => format!("RBAC: {}", joined_errors(&missing)),
        })
    }

    /// All rules that someone has in a namespace (for the whole cluster, if it is empty), and
    /// roles that are missing. [`MASTERS`] have them by a binding only.
    pub fn rules_for(&self, user: &User, namespace: &str) -> (Vec<&PolicyRule>, Vec<MissingRole>) {
        let (mut all, mut missing) = (Vec::new(), Vec::new());
        for (key, binding) in self.bindings_for(user, namespace) {
            match self.rules_of(&binding.role, &key.0) {
                Ok(rules) => all.extend(rules),
                Err(error) => missing.push(error),
            }
        }
        (all, missing)
    }

    /// The rules of a role that a binding in a namespace (none, if it is empty) names.
    ///
    /// # Errors
    ///
    /// There is no such role.
    pub fn rules_of_role(
        &self,
        kind: &str,
        name: &str,
        namespace: &str,
    ) -> Result<&[PolicyRule], MissingRole> {
        let role = RoleRef {
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        self.rules_of(&role, namespace)
    }

    /// The rules that a ClusterRole with an `aggregationRule` gathers, in the order in which
    /// upstream's controller writes them into the role; `None` if it has no such rule.
    ///
    /// They count here whether anybody writes them into the object or not.
    pub fn gathered_rules(&self, cluster_role: &str) -> Option<&[PolicyRule]> {
        let role = self.cluster_roles.get(cluster_role)?;
        role.gathers.as_ref().map(|_| role.rules.as_slice())
    }

    /// The names of ClusterRoles that gather the rules of others.
    pub fn gathering_roles(&self) -> impl Iterator<Item = &str> {
        let roles = self.cluster_roles.iter();
        roles.filter_map(|(name, role)| role.gathers.is_some().then_some(name.as_str()))
    }

    fn rules_of(&self, role: &RoleRef, namespace: &str) -> Result<&[PolicyRule], MissingRole> {
        let found = match role.kind.as_str() {
            "ClusterRole" => self.cluster_roles.get(&role.name).map(|it| &it.rules),
            "Role" => self.roles.get(&(namespace.to_owned(), role.name.clone())),
            _ => None,
        };
        found.map(Vec::as_slice).ok_or_else(|| MissingRole {
            kind: role.kind.clone(),
            name: role.name.clone(),
        })
    }

    /// The bindings that give someone something: those for the cluster, then those of the
    /// namespace, each by name.
    fn bindings_for(&self, user: &User, namespace: &str) -> Vec<(&Key, &Binding)> {
        let groups = user.groups.iter().cloned().map(Principal::Group);
        let principals = std::iter::once(Principal::User(user.name.clone())).chain(groups);
        let mut found = BTreeMap::new();
        for principal in principals {
            let Some(keys) = self.bindings_of.get(&principal) else {
                continue;
            };
            for namespace in BTreeSet::from(["", namespace]) {
                let start = Bound::Included((namespace.to_owned(), String::new()));
                let keys = keys.range((start, Bound::Unbounded));
                let keys = keys.take_while(|key| key.0 == namespace);
                found.extend(keys.filter_map(|key| self.bindings.get_key_value(key)));
            }
        }
        found.into_iter().collect()
    }

    fn set_binding(&mut self, key: Key, object: &Value) {
        self.remove_binding(&key);
        let binding = Binding::read(object, &key.0);
        for subject in &binding.subjects {
            let keys = self.bindings_of.entry(subject.principal.clone());
            keys.or_default().insert(key.clone());
        }
        self.bindings.insert(key, binding);
    }

    fn remove_binding(&mut self, key: &Key) {
        let removed = self.bindings.remove(key);
        for subject in removed.iter().flat_map(|it| &it.subjects) {
            if let Some(keys) = self.bindings_of.get_mut(&subject.principal) {
                keys.remove(key);
                if keys.is_empty() {
                    self.bindings_of.remove(&subject.principal);
                }
            }
        }
    }

    fn set_cluster_role(&mut self, name: String, role: Option<ClusterRole>) {
        let old = match role {
            Some(role) => self.cluster_roles.insert(name.clone(), role),
            None => self.cluster_roles.remove(&name),
        };
        let new = self.cluster_roles.get(&name);
        let versions = || old.iter().chain(new);
        let is_gathered = self.cluster_roles.values().any(|gatherer| {
            let mut selectors = gatherer.gathers.iter().flatten();
            selectors.any(|selector| versions().any(|it| selector.matches(&it.labels)))
        });
        if is_gathered || versions().any(|it| it.gathers.is_some()) {
            self.gather();
        }
    }

    fn gather(&mut self) {
        let names: Vec<String> = self.gathering_roles().map(str::to_owned).collect();
        let gathered: Vec<_> = names.iter().map(|it| self.gathered_by(it)).collect();
        for (name, rules) in names.into_iter().zip(gathered) {
            if let Some(role) = self.cluster_roles.get_mut(&name) {
                role.rules = rules;
            }
        }
    }

    /// What a role gathers, each rule once. Roles that gather may be gathered; one that is met
    /// again adds nothing, so that a circle ends.
    fn gathered_by(&self, name: &str) -> Vec<PolicyRule> {
        let mut rules = Vec::new();
        let (mut known, mut met) = (BTreeSet::new(), BTreeSet::from([name]));
        let mut waiting = vec![name];
        while let Some(name) = waiting.pop() {
            let Some(role) = self.cluster_roles.get(name) else {
                continue;
            };
            let Some(selectors) = &role.gathers else {
                let new = role.rules.iter().filter(|rule| known.insert(*rule));
                rules.extend(new.cloned());
                continue;
            };
            let first_of_these = waiting.len();
            for selector in selectors {
                let matching = self.cluster_roles.iter();
                let matching = matching.filter(|(_, role)| selector.matches(&role.labels));
                waiting.extend(
                    matching
                        .map(|(name, _)| name.as_str())
                        .filter(|it| met.insert(*it)),
                );
            }
            // The last one is taken first.
            waiting
                .get_mut(first_of_these..)
                .unwrap_or_default()
                .reverse();
        }
        rules
    }
}

impl ClusterRole {
    fn read(object: &Value) -> Self {
        let labels = object["metadata"]["labels"]
            .as_object()
            .into_iter()
            .flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.into())));
        let rule = &object["aggregationRule"];
        let selectors = rule["clusterRoleSelectors"]
            .as_array()
            .into_iter()
            .flatten();
        let selectors = selectors.filter_map(|selector| {
            let selector: LabelSelector = serde_json::from_value(selector.clone()).ok()?;
            Selector::from_label_selector(Some(&selector)).ok()
        });
        Self {
            labels: labels.collect(),
            rules: PolicyRule::list(&object["rules"]),
            gathers: rule.is_object().then(|| selectors.collect()),
        }
    }
}

impl Binding {
    fn read(object: &Value, namespace: &str) -> Self {
        let role = &object["roleRef"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let subjects = object["subjects"].as_array().into_iter().flatten();
        Self {
            role: RoleRef {
                kind: text(&role["kind"]),
                name: text(&role["name"]),
            },
            subjects: subjects
                .filter_map(|it| Subject::read(it, namespace))
                .collect(),
        }
    }
}

impl Subject {
    /// A subject of a binding in a namespace; `None` if it names nobody.
    fn read(subject: &Value, namespace: &str) -> Option<Self> {
        let (kind, name) = (subject["kind"].as_str()?, subject["name"].as_str()?);
        let (principal, shown) = match kind {
            "User" => (Principal::User(name.to_owned()), name.to_owned()),
            "Group" => (Principal::Group(name.to_owned()), name.to_owned()),
            "ServiceAccount" => {
                let own = subject["namespace"].as_str().filter(|it| !it.is_empty());
                let namespace = own.unwrap_or(namespace);
                if namespace.is_empty() {
                    return None;
                }
                let user = service_account_name(namespace, name);
                (Principal::User(user), format!("{name}/{namespace}"))
            }
            _ => return None,
        };
        let described = format!("{kind} {}", quoted(&shown));
        Some(Self {
            principal,
            described,
        })
    }

    fn is(&self, user: &User) -> bool {
        match &self.principal {
            Principal::User(name) => *name == user.name,
            Principal::Group(group) => user.is_in(group),
        }
    }
}

fn is_health_check(verb: &str, target: &Target<'_>) -> bool {
    matches!(target, Target::Path(path) if verb == "get" && HEALTH_CHECKS.contains(path))
}

/// `ClusterRoleBinding "b" of ClusterRole "r" to User "u"`.
fn described((namespace, name): &Key, binding: &Binding, user: &User) -> String {
    let (kind, shown) = match namespace.as_str() {
        "" => ("ClusterRoleBinding", name.clone()),
        _ => ("RoleBinding", format!("{name}/{namespace}")),
    };
    let role = &binding.role;
    let subject = binding.subjects.iter().find(|it| it.is(user));
    format!(
        "{kind} {} of {} {} to {}",
        quoted(&shown),
        role.kind,
        quoted(&role.name),
        subject.map_or("", |it| &it.described),
    )
}

//! Decisions of [`Rbac`], which is told changes one by one and looks things up in indexes, against
//! reading all objects anew for each question.

#[path = "../../../tests/random.rs"]
mod random;

use std::collections::BTreeMap;

use outrank_apiserver::authentication::{AUTHENTICATED, User};
use outrank_apiserver::authorization::{Attributes, Decision, Rbac, Target};
use random::Random;
use serde_json::{Value, json};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const NAMESPACES: [&str; 2] = ["shop", "bank"];
const VERBS: [&str; 3] = ["get", "list", "*"];
const GROUPS: [&str; 3] = ["", "apps", "*"];
const RESOURCES: [&str; 6] = ["pods", "pods/log", "*/log", "nodes", "*", "nodes/log"];
const PATHS: [&str; 4] = ["/healthz", "/api", "/api/*", "*"];
const USERS: [&str; 3] = ["ada", "eve", "system:serviceaccount:shop:bot"];
const USER_GROUPS: [&str; 3] = ["devs", "ops", AUTHENTICATED];
const WORDS: [&str; 2] = ["x", "y"];

/// All objects, by kind, namespace and name.
type Objects = BTreeMap<(String, String, String), Value>;

#[test]
fn decisions_equal_those_of_reading_everything() {
    let mut allowed = 0;
    for seed in 0..300 {
        allowed += history(seed);
    }
    // A test in which everything is refused, or allowed, would show nothing.
    assert!((2_000..16_000).contains(&allowed), "{allowed} allowed");
}

fn history(seed: u64) -> usize {
    let mut random = Random(seed);
    let (mut rbac, mut objects) = (Rbac::default(), Objects::new());
    let mut allowed = 0;
    for step in 0..60 {
        change(&mut random, &mut rbac, &mut objects);
        if step < 10 {
            continue;
        }
        let user = user(&mut random);
        let verb = *random.pick(&VERBS[..2]);
        let target = target(&mut random);
        let attributes = Attributes {
            user: &user,
            verb,
            target,
        };
        let decision = rbac.decide(&attributes);
        let expected = naive(&objects, &attributes);
        let told = format!("seed {seed}, step {step}: {attributes:?} {decision:?} {expected:?}");
        match &decision {
            Decision::Allow { reason } => assert!(expected.by.contains(reason), "{told}"),
            Decision::NoOpinion { reason } => {
                assert!(expected.by.is_empty(), "{told}");
                assert_eq!(reason.is_empty(), expected.missing.is_empty(), "{told}");
                let all = expected
                    .missing
                    .iter()
                    .all(|missing| reason.contains(missing));
                assert!(all, "{told}");
            }
        }
        allowed += usize::from(decision.is_allowed());
    }
    allowed
}

fn change(random: &mut Random, rbac: &mut Rbac, objects: &mut Objects) {
    let kind = *random.pick(&["ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"]);
    let namespace = match kind.starts_with("Cluster") {
        true => "",
        false => *random.pick(&NAMESPACES),
    };
    let name = *random.pick(&NAMES);
    let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
    if random.one_in(6) {
        rbac.remove(kind, namespace, name);
        objects.remove(&key);
        return;
    }
    let mut object = match kind.ends_with("Binding") {
        true => binding(random, namespace),
        false => role(random, namespace),
    };
    object["kind"] = kind.into();
    object["metadata"]["name"] = name.into();
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    rbac.set(&object);
    objects.insert(key, object);
}

fn role(random: &mut Random, namespace: &str) -> Value {
    let rules: Vec<Value> = (0..1 + random.below(4)).map(|_| rule(random)).collect();
    let mut role = json!({"metadata": {}, "rules": rules});
    if namespace.is_empty() {
        if random.one_in(2) {
            let key = *random.pick(&WORDS);
            role["metadata"]["labels"] = json!({key: "true"});
        }
        if random.one_in(3) {
            let key = *random.pick(&WORDS);
            role["aggregationRule"] =
                json!({"clusterRoleSelectors": [{"matchLabels": {key: "true"}}]});
        }
    }
    role
}

fn rule(random: &mut Random) -> Value {
    if random.one_in(4) {
        return json!({"verbs": some(random, &VERBS), "nonResourceURLs": some(random, &PATHS)});
    }
    let mut rule = json!({
        "verbs": some(random, &VERBS),
        "apiGroups": some(random, &GROUPS),
        "resources": some(random, &RESOURCES),
    });
    if random.one_in(4) {
        rule["resourceNames"] = some(random, &NAMES).into();
    }
    rule
}

fn binding(random: &mut Random, namespace: &str) -> Value {
    let kinds: &[&str] = match namespace {
        "" => &["ClusterRole"],
        _ => &["ClusterRole", "Role"],
    };
    let subjects: Vec<Value> = (0..1 + random.below(3))
        .map(|_| match random.below(4) {
            0 => json!({"kind": "User", "name": random.pick(&USERS)}),
            1 => json!({"kind": "Group", "name": random.pick(&USER_GROUPS)}),
            2 => json!({"kind": "ServiceAccount", "name": "bot"}),
            _ => json!({
                "kind": "ServiceAccount", "name": "bot", "namespace": random.pick(&NAMESPACES),
            }),
        })
        .collect();
    json!({
        "metadata": {}, "subjects": subjects,
        "roleRef": {"kind": random.pick(kinds), "name": random.pick(&NAMES)},
    })
}

fn some(random: &mut Random, of: &[&str]) -> Vec<String> {
    (0..=random.below(2))
        .map(|_| random.pick(of).to_string())
        .collect()
}

fn user(random: &mut Random) -> User {
    User::new(*random.pick(&USERS), some(random, &USER_GROUPS))
}

fn target(random: &mut Random) -> Target<'static> {
    let mut word = |of: &[&'static str]| of[random.below(of.len())];
    if word(&["path", "resource", "resource", "resource"]) == "path" {
        return Target::Path(word(&["/healthz", "/api", "/api/v1", "/metrics"]));
    }
    Target::Resource {
        api_group: word(&GROUPS[..2]),
        resource: word(&["pods", "nodes"]),
        subresource: word(&["", "", "log"]),
        namespace: word(&["", "shop", "bank"]),
        name: word(&["", "a", "b"]),
    }
}

/// What follows from all objects.
#[derive(Debug, Default)]
struct Expected {
    /// The reasons that may be told: one for each binding that allows it.
    by: Vec<String>,
    /// Roles that are not there.
    missing: Vec<String>,
}

fn naive(objects: &Objects, attributes: &Attributes<'_>) -> Expected {
    let gathered = gathered(objects);
    let mut expected = Expected::default();
    let namespace = match attributes.target {
        Target::Resource { namespace, .. } => namespace,
        Target::Path(_) => "",
    };
    for ((kind, of, name), object) in objects {
        let counts = match kind.as_str() {
            "ClusterRoleBinding" => true,
            "RoleBinding" => of == namespace,
            _ => false,
        };
        let Some(subject) = subject(object, of, attributes.user).filter(|_| counts) else {
            continue;
        };
        let role_kind = object["roleRef"]["kind"].as_str().unwrap();
        let role_name = object["roleRef"]["name"].as_str().unwrap();
        let role_namespace = if role_kind == "Role" { of } else { "" };
        let key = (
            role_kind.to_owned(),
            role_namespace.to_owned(),
            role_name.to_owned(),
        );
        let Some(role) = objects.get(&key) else {
            let kind = role_kind.to_lowercase();
            let missing = format!("{kind}.rbac.authorization.k8s.io \"{role_name}\" not found");
            expected.missing.push(missing);
            continue;
        };
        let rules = match gathered
            .get(role_name)
            .filter(|_| role_kind == "ClusterRole")
        {
            Some(rules) => rules.clone(),
            None => list(&role["rules"]),
        };
        if rules.iter().any(|rule| allows(rule, attributes)) {
            let shown = match of.as_str() {
                "" => name.clone(),
                of => format!("{name}/{of}"),
            };
            expected.by.push(format!(
                "RBAC: allowed by {kind} \"{shown}\" of {role_kind} \"{role_name}\" to {subject}"
            ));
        }
    }
    expected
}

/// The rules of roles that gather: added to each other until nothing is added any more.
fn gathered(objects: &Objects) -> BTreeMap<String, Vec<Value>> {
    let roles = objects.iter().filter(|(key, _)| key.0 == "ClusterRole");
    let roles: Vec<(&String, &Value)> = roles.map(|(key, role)| (&key.2, role)).collect();
    let gathers = |role: &Value| role["aggregationRule"].is_object();
    let mut gathered: BTreeMap<String, Vec<Value>> = roles
        .iter()
        .filter(|(_, role)| gathers(role))
        .map(|(name, _)| ((*name).clone(), Vec::new()))
        .collect();
    loop {
        let before = gathered.clone();
        for (name, role) in roles.iter().filter(|(_, role)| gathers(role)) {
            let selector = &role["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"];
            let key = selector.as_object().unwrap().keys().next().unwrap();
            for (other, of) in &roles {
                if of["metadata"]["labels"][key] != "true" {
                    continue;
                }
                let rules = match before.get(*other) {
                    Some(rules) => rules.clone(),
                    None => list(&of["rules"]),
                };
                let own = gathered.get_mut(*name).unwrap();
                let new: Vec<Value> = rules.into_iter().filter(|it| !own.contains(it)).collect();
                own.extend(new);
            }
        }
        if gathered == before {
            return gathered;
        }
    }
}

fn subject(binding: &Value, namespace: &str, user: &User) -> Option<String> {
    list(&binding["subjects"]).iter().find_map(|subject| {
        let name = subject["name"].as_str().unwrap();
        match subject["kind"].as_str().unwrap() {
            "User" => (user.name == name).then(|| format!("User \"{name}\"")),
            "Group" => {
                let is_in = user.groups.iter().any(|group| group == name);
                is_in.then(|| format!("Group \"{name}\""))
            }
            _ => {
                let namespace = subject["namespace"].as_str().unwrap_or(namespace);
                let is_it = user.name == format!("system:serviceaccount:{namespace}:{name}");
                (is_it && !namespace.is_empty())
                    .then(|| format!("ServiceAccount \"{name}/{namespace}\""))
            }
        }
    })
}

fn allows(rule: &Value, attributes: &Attributes<'_>) -> bool {
    let has = |field: &str, wanted: &str| list(&rule[field]).iter().any(|it| it == wanted);
    let has_or_all = |field: &str, wanted: &str| has(field, wanted) || has(field, "*");
    if !has_or_all("verbs", attributes.verb) {
        return false;
    }
    match attributes.target {
        Target::Path(path) => list(&rule["nonResourceURLs"]).iter().any(|url| {
            let url = url.as_str().unwrap();
            url == path || url.strip_suffix('*').is_some_and(|it| path.starts_with(it))
        }),
        Target::Resource {
            api_group,
            resource,
            subresource,
            name,
            ..
        } => {
            let full = match subresource {
                "" => resource.to_owned(),
                _ => format!("{resource}/{subresource}"),
            };
            let any_of = !subresource.is_empty() && has("resources", &format!("*/{subresource}"));
            has_or_all("apiGroups", api_group)
                && (has_or_all("resources", &full) || any_of)
                && (list(&rule["resourceNames"]).is_empty() || has("resourceNames", name))
        }
    }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

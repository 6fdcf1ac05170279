//! One rule of a role: which verbs it allows on what.
//!
//! A rule is about resources (`apiGroups`, `resources`, maybe `resourceNames`) or about paths
//! (`nonResourceURLs`); `*` stands for all of a kind. Sources: `PolicyRule` in
//! `k8s.io/api/rbac/v1/types.go`, `pkg/apis/rbac/v1/evaluation_helpers.go`, Kubernetes 1.36.

use std::fmt;

use outrank_api::names::quoted;
use serde_json::{Map, Value};

use super::Target;

const ALL: &str = "*";

/// What some verbs may be done to. Rules only allow; nothing takes back what one allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyRule {
    /// Verbs, such as `get`; `*` is all.
    pub verbs: Vec<String>,
    /// API groups, the empty text for the core group; `*` is all.
    pub api_groups: Vec<String>,
    /// Resources, such as `pods`, `pods/log` or `*/scale`; `*` is all with their subresources.
    pub resources: Vec<String>,
    /// Names of objects; none is all.
    pub resource_names: Vec<String>,
    /// Paths outside of the resources, such as `/healthz`; a `*` at the end is all that begin so.
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// The rules of a role, as its `rules` have them. What is not a list of rules allows nothing.
    pub fn list(rules: &Value) -> Vec<Self> {
        let rules = rules.as_array().into_iter().flatten();
        rules.map(Self::read).collect()
    }

    fn read(rule: &Value) -> Self {
        Self {
            verbs: texts(&rule["verbs"]),
            api_groups: texts(&rule["apiGroups"]),
            resources: texts(&rule["resources"]),
            resource_names: texts(&rule["resourceNames"]),
            non_resource_urls: texts(&rule["nonResourceURLs"]),
        }
    }

    /// The rule as an object has it. Empty lists are left out.
    pub fn to_value(&self) -> Value {
        let mut fields = Map::new();
        let mut put = |name: &str, values: &[String]| {
            if !values.is_empty() {
                fields.insert(name.to_owned(), values.into());
            }
        };
        put("apiGroups", &self.api_groups);
        put("nonResourceURLs", &self.non_resource_urls);
        put("resourceNames", &self.resource_names);
        put("resources", &self.resources);
        put("verbs", &self.verbs);
        Value::Object(fields)
    }

    /// Whether it allows to do this. Time grows with the length of the lists.
    pub fn allows(&self, verb: &str, target: &Target<'_>) -> bool {
        if !has_or_all(&self.verbs, verb) {
            return false;
        }
        match *target {
            Target::Path(path) => self.non_resource_urls.iter().any(|url| covers(url, path)),
            Target::Resource {
                api_group,
                resource,
                subresource,
                name,
                ..
            } => {
                has_or_all(&self.api_groups, api_group)
                    && self.allows_resource(resource, subresource)
                    && (self.resource_names.is_empty() || has(&self.resource_names, name))
            }
        }
    }

    fn allows_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|allowed| {
            if allowed == ALL {
                return true;
            }
            if subresource.is_empty() {
                return allowed == resource;
            }
            let of = allowed.strip_suffix(subresource);
            let of = of.and_then(|it| it.strip_suffix('/'));
            of.is_some_and(|it| it == ALL || it == resource)
        })
    }

    /// What the rule allows, in rules that name one of each. How many there may be is for
    /// the caller to limit: they are as many as the product of the lengths of the lists.
    pub(super) fn atoms(&self) -> impl Iterator<Item = Self> {
        let names: Vec<Option<&String>> = match self.resource_names.is_empty() {
            true => vec![None],
            false => self.resource_names.iter().map(Some).collect(),
        };
        let of_resources = self.api_groups.iter().flat_map(move |group| {
            let names = names.clone();
            self.resources.iter().flat_map(move |resource| {
                let names = names.clone();
                self.verbs.iter().flat_map(move |verb| {
                    let names = names.clone().into_iter();
                    names.map(move |name| Self {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        resource_names: name.into_iter().cloned().collect(),
                        non_resource_urls: Vec::new(),
                    })
                })
            })
        });
        let of_paths = self.non_resource_urls.iter().flat_map(move |url| {
            self.verbs.iter().map(move |verb| Self {
                verbs: vec![verb.clone()],
                non_resource_urls: vec![url.clone()],
                ..Self::default()
            })
        });
        of_resources.chain(of_paths)
    }

    /// Whether it allows all that one of [`PolicyRule::atoms`] allows.
    pub(super) fn covers_atom(&self, atom: &Self) -> bool {
        let all = |own: &[String], wanted: &[String]| wanted.iter().all(|it| has_or_all(own, it));
        let names_covered = match atom.resource_names.is_empty() {
            true => self.resource_names.is_empty(),
            false => {
                self.resource_names.is_empty()
                    || atom
                        .resource_names
                        .iter()
                        .all(|it| has(&self.resource_names, it))
            }
        };
        let path_covered = |path: &String| self.non_resource_urls.iter().any(|it| covers(it, path));
        names_covered
            && all(&self.verbs, &atom.verbs)
            && all(&self.api_groups, &atom.api_groups)
            && atom.resources.iter().all(|it| self.covers_resource(it))
            && atom.non_resource_urls.iter().all(path_covered)
    }

    fn covers_resource(&self, resource: &str) -> bool {
        has_or_all(&self.resources, resource)
            || resource
                .split_once('/')
                .is_some_and(|(_, sub)| has(&self.resources, &format!("*/{sub}")))
    }
}

impl fmt::Display for PolicyRule {
    /// As refusals show it: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let lists = lists.iter().filter(|(_, values)| !values.is_empty());
        let lists: Vec<String> = lists
            .map(|(name, values)| format!("{name}:{}", go_list(values)))
            .collect();
        write!(f, "{{{}}}", lists.join(", "))
    }
}

/// A list of texts as Go shows it with `%q`: `["a" "b"]`.
pub(super) fn go_list(values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
    format!("[{}]", values.join(" "))
}

/// The texts of a list; what is none is left out.
pub(super) fn texts(value: &Value) -> Vec<String> {
    let values = value.as_array().into_iter().flatten();
    let texts = values.filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn has(values: &[String], wanted: &str) -> bool {
    values.iter().any(|value| value == wanted)
}

fn has_or_all(values: &[String], wanted: &str) -> bool {
    values.iter().any(|value| value == ALL || value == wanted)
}

/// Whether a path of a rule stands for this path, or for all that this one stands for.
fn covers(url: &str, path: &str) -> bool {
    url == path || (url.ends_with('*') && path.starts_with(url.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(value: Value) -> PolicyRule {
        PolicyRule::read(&value)
    }

    fn pods<'t>(subresource: &'t str, name: &'t str) -> Target<'t> {
        Target::Resource {
            api_group: "",
            resource: "pods",
            subresource,
            namespace: "default",
            name,
        }
    }

    #[test]
    fn resources_subresources_and_names() {
        let get = |resources: Value| {
            rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": resources}))
        };
        for (resources, subresource, is_allowed) in [
            (json!(["pods"]), "", true),
            (json!(["pods"]), "log", false),
            (json!(["pods/log"]), "log", true),
            (json!(["pods/log"]), "", false),
            (json!(["*/log"]), "log", true),
            (json!(["*/log"]), "", false),
            (json!(["*"]), "log", true),
            (json!(["pods/*"]), "log", false),
            (json!(["nodes"]), "", false),
            (json!("pods"), "", false),
            (json!([1, null]), "", false),
        ] {
            let allowed = get(resources.clone()).allows("get", &pods(subresource, "p"));
            assert_eq!(allowed, is_allowed, "{resources} {subresource}");
        }
        let named = rule(json!({
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["pods"], "resourceNames": ["p"],
        }));
        assert!(named.allows("delete", &pods("", "p")));
        assert!(!named.allows("delete", &pods("", "q")));
        assert!(!named.allows("list", &pods("", "")));
        assert!(!named.allows("get", &Target::Path("/healthz")));
    }

    #[test]
    fn paths() {
        let get = |url: &str| rule(json!({"verbs": ["get"], "nonResourceURLs": [url]}));
        for (url, path, is_allowed) in [
            ("*", "/anything", true),
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/etcd", false),
            ("/healthz/*", "/healthz/etcd", true),
            ("/healthz/*", "/healthz", false),
            ("/api**", "/apis", true),
        ] {
            let allowed = get(url).allows("get", &Target::Path(path));
            assert_eq!(allowed, is_allowed, "{url} {path}");
            assert!(!get(url).allows("post", &Target::Path(path)));
        }
    }

    #[test]
    fn shown_as_upstream_shows_it() {
        let shown = rule(json!({
            "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"],
            "resourceNames": ["a\"b"],
        }));
        assert_eq!(
            shown.to_string(),
            r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a\"b"], Verbs:["get" "list"]}"#
        );
        assert_eq!(shown, PolicyRule::read(&shown.to_value()));
    }
}

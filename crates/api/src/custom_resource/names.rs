//! The status of a CustomResourceDefinition: which of its names it has, and whether it is served.
//!
//! A name (plural, singular, short) belongs to one definition of a group, and so does a kind. Who
//! came first keeps them; the other definition is not served until they are free. Sources,
//! Kubernetes 1.36: `k8s.io/apiextensions-apiserver/pkg/controller/status/naming_controller.go`,
//! `pkg/controller/establish`. Unlike there, names of the built-in types of the group count as
//! taken, too, and both controllers' work is done at once.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::definition::Names;
use super::structural::{list, text};
use crate::names::{joined_errors, quoted};
use crate::resource_type::ResourceType;

/// The definition with the status that it should have, or `None` if it has that already.
/// `others` are all definitions; it may be among them.
pub fn with_status<'o>(
    crd: &Value,
    others: impl IntoIterator<Item = &'o Value>,
    now: &str,
) -> Option<Value> {
    let nothing = Value::Null;
    let spec = crd.get("spec").unwrap_or(&nothing);
    let status = crd.get("status").unwrap_or(&nothing);
    let requested = Names::read(spec.get("names").unwrap_or(&nothing));
    let accepted = Names::read(status.get("acceptedNames").unwrap_or(&nothing));
    let is_done =
        requested == accepted && is_true(crd, "NamesAccepted") && is_true(crd, "Established");
    if is_done {
        return None;
    }
    let taken = Taken::by_others(crd, text(spec, "group"), others);
    let (names, conflict) = taken.accept(&requested, &accepted);
    let mut new = crd.clone();
    let conditions = conditions(crd, conflict);
    let status = entry(&mut new, "status")?;
    status.insert("acceptedNames".to_owned(), names.to_value());
    let list = status.entry("conditions").or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    if let Value::Array(list) = list {
        conditions
            .into_iter()
            .for_each(|condition| condition.put(list, now));
    }
    status.entry("storedVersions").or_insert_with(|| json!([]));
    (new != *crd).then_some(new)
}

/// Whether a condition of a definition is true.
pub fn is_true(crd: &Value, condition_type: &str) -> bool {
    find(crd, condition_type).is_some_and(|condition| text(condition, "status") == "True")
}

fn find<'c>(crd: &'c Value, condition_type: &str) -> Option<&'c Value> {
    let mut conditions = list(crd.get("status")?, "conditions").iter();
    conditions.find(|condition| text(condition, "type") == condition_type)
}

fn entry<'v>(object: &'v mut Value, name: &str) -> Option<&'v mut Map<String, Value>> {
    let entry = object.as_object_mut()?.entry(name);
    let value = entry.or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// What is taken in a group.
#[derive(Default)]
struct Taken {
    names: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

/// Why a name was not accepted.
struct Conflict {
    reason: &'static str,
    message: String,
}

impl Taken {
    fn by_others<'o>(
        crd: &Value,
        group: &str,
        others: impl IntoIterator<Item = &'o Value>,
    ) -> Self {
        let nothing = Value::Null;
        let name = crd.pointer("/metadata/name");
        let mut taken = Self::default();
        for other in others {
            let spec = other.get("spec").unwrap_or(&nothing);
            if text(spec, "group") != group || other.pointer("/metadata/name") == name {
                continue;
            }
            let accepted = other.pointer("/status/acceptedNames").unwrap_or(&nothing);
            taken.add(Names::read(accepted));
        }
        let built_in = ResourceType::built_in().iter();
        for resource in built_in.filter(|resource| resource.group == group) {
            taken.add(Names {
                plural: resource.plural.clone(),
                singular: resource.singular.clone(),
                short_names: resource.short_names.clone(),
                kind: resource.kind.clone(),
                list_kind: format!("{}List", resource.kind),
                categories: Vec::new(),
            });
        }
        taken
    }

    fn add(&mut self, names: Names) {
        let resources = [names.plural, names.singular].into_iter();
        self.names.extend(resources.chain(names.short_names));
        self.kinds.extend([names.kind, names.list_kind]);
    }

    /// The names that the definition gets, and the last reason why it does not get all.
    fn accept(&self, requested: &Names, accepted: &Names) -> (Names, Option<Conflict>) {
        let mut names = accepted.clone();
        let mut conflict = None;
        let mut claim = |new: &str, own: &mut String, taken: &BTreeSet<String>, reason| {
            if new != own && taken.contains(new) {
                let message = format!("{} is already in use", quoted(new));
                conflict = Some(Conflict { reason, message });
            } else {
                new.clone_into(own);
            }
        };
        claim(
            &requested.plural,
            &mut names.plural,
            &self.names,
            "PluralConflict",
        );
        claim(
            &requested.singular,
            &mut names.singular,
            &self.names,
            "SingularConflict",
        );
        let own = &accepted.short_names;
        let is_taken = |name: &&String| !own.contains(name) && self.names.contains(*name);
        let taken = requested.short_names.iter().filter(is_taken);
        let taken: Vec<String> = taken
            .map(|name| format!("{} is already in use", quoted(name)))
            .collect();
        let mut of_kinds = None;
        let mut claim_kind = |new: &str, own: &mut String, reason| {
            if new != own && self.kinds.contains(new) {
                let message = format!("{} is already in use", quoted(new));
                of_kinds = Some(Conflict { reason, message });
            } else {
                new.clone_into(own);
            }
        };
        claim_kind(&requested.kind, &mut names.kind, "KindConflict");
        claim_kind(
            &requested.list_kind,
            &mut names.list_kind,
            "ListKindConflict",
        );
        if taken.is_empty() {
            names.short_names.clone_from(&requested.short_names);
        } else {
            conflict = Some(Conflict {
                reason: "ShortNamesConflict",
                message: joined_errors(&taken),
            });
        }
        names.categories.clone_from(&requested.categories);
        (names, of_kinds.or(conflict))
    }
}

struct Condition {
    condition_type: &'static str,
    status: &'static str,
    reason: String,
    message: String,
}

impl Condition {
    /// Puts it into the list; its time is that of the last change of its status.
    fn put(self, list: &mut Vec<Value>, now: &str) {
        let index = list
            .iter()
            .position(|condition| text(condition, "type") == self.condition_type);
        let before = index.and_then(|index| list.get(index));
        let time = before
            .filter(|before| text(before, "status") == self.status)
            .map_or(now, |before| text(before, "lastTransitionTime"));
        let condition = json!({
            "type": self.condition_type, "status": self.status, "reason": self.reason,
            "message": self.message, "lastTransitionTime": time,
        });
        match index.and_then(|index| list.get_mut(index)) {
            Some(before) => *before = condition,
            None => list.push(condition),
        }
    }
}

/// Both conditions. What was established stays so, even if names are changed to taken ones.
fn conditions(crd: &Value, conflict: Option<Conflict>) -> [Condition; 2] {
    let condition = |condition_type, status, reason: &str, message: &str| Condition {
        condition_type,
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let established = || {
        let message = "the initial names have been accepted";
        condition("Established", "True", "InitialNamesAccepted", message)
    };
    match conflict {
        None => [
            condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
            established(),
        ],
        Some(Conflict { reason, message }) => [
            condition("NamesAccepted", "False", reason, &message),
            match is_true(crd, "Established") {
                true => established(),
                false => {
                    let message = "not all names are accepted";
                    condition("Established", "False", "NotAccepted", message)
                }
            },
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn crd(plural: &str, kind: &str, group: &str, short_names: &[&str]) -> Value {
        json!({
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "names": {
                "plural": plural, "singular": kind.to_lowercase(), "kind": kind,
                "listKind": format!("{kind}List"), "shortNames": short_names}},
            "status": {"storedVersions": ["v1"]},
        })
    }

    fn condition<'c>(crd: &'c Value, name: &str) -> (&'c str, &'c str, &'c str) {
        let found = find(crd, name).expect("a condition");
        (
            text(found, "status"),
            text(found, "reason"),
            text(found, "message"),
        )
    }

    #[test]
    fn free_names_are_accepted_at_once() {
        let new = crd("shirts", "Shirt", "example.com", &["sh"]);
        let served = with_status(&new, [], NOW).expect("a change");
        assert_eq!(served["status"]["acceptedNames"], served["spec"]["names"]);
        assert_eq!(
            condition(&served, "NamesAccepted"),
            ("True", "NoConflicts", "no conflicts found")
        );
        assert_eq!(
            condition(&served, "Established"),
            (
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted"
            )
        );
        assert_eq!(served["status"]["storedVersions"], json!(["v1"]));
        assert_eq!(with_status(&served, [&served], "later"), None);
    }

    #[test]
    fn who_came_first_keeps_the_names() {
        let first = crd("shirts", "Shirt", "example.com", &["sh"]);
        let first = with_status(&first, [], NOW).expect("a change");
        let second = crd("blouses", "Shirt", "example.com", &["sh"]);
        let refused = with_status(&second, [&first, &second], NOW).expect("a change");
        assert_eq!(
            condition(&refused, "NamesAccepted"),
            (
                "False",
                "ListKindConflict",
                "\"ShirtList\" is already in use"
            )
        );
        assert_eq!(
            condition(&refused, "Established"),
            ("False", "NotAccepted", "not all names are accepted")
        );
        assert_eq!(refused["status"]["acceptedNames"]["plural"], "blouses");
        // In another group, or after the first has gone, the names are free.
        let elsewhere = crd("shirts", "Shirt", "example.org", &["sh"]);
        let elsewhere = with_status(&elsewhere, [&first], NOW).expect("a change");
        assert!(is_true(&elsewhere, "Established"));
        let later = "2026-01-02T00:00:00Z";
        let freed = with_status(&refused, [&refused], later).expect("a change");
        assert!(is_true(&freed, "Established"));
        let time = &find(&freed, "Established").expect("a condition")["lastTransitionTime"];
        assert_eq!(time, later);
    }

    #[test]
    fn names_of_built_in_types_are_taken() {
        let new = crd("roles", "Part", "rbac.authorization.k8s.io", &[]);
        let refused = with_status(&new, [], NOW).expect("a change");
        assert_eq!(
            condition(&refused, "NamesAccepted"),
            ("False", "PluralConflict", "\"roles\" is already in use")
        );
    }
}

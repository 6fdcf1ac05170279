//! Managed fields: who wrote which field of an object last.
//!
//! The API server keeps, in `metadata.managedFields`, a set of fields for each manager (a client
//! by its name, an operation and an API version). Who changes a field owns it from then on;
//! others lose it. Server-side apply rests on this, and so do people who ask who did that.
//!
//! A set of fields is a tree. Fields are written `f:NAME`, elements of lists that are told apart
//! by keys `k:{...}`, elements of sets `v:...`, and `.` stands for the map or element itself.
//! Sources, Kubernetes 1.36: `k8s.io/apimachinery/pkg/util/managedfields`,
//! `sigs.k8s.io/structured-merge-diff` (`merge/update.go`, `typed/compare.go`). Here are
//! creations, updates and patches; not apply.
//!
//! ```
//! use outrank_api::decode::ObjectKind;
//! use outrank_api::managed_fields::{Write, update};
//! use serde_json::{Value, json};
//!
//! let mut class = json!({"metadata": {"name": "high", "labels": {"a": "b"}}, "value": 7});
//! let write = Write { manager: "kubectl", subresource: "", now: "2026-01-01T00:00:00Z" };
//! update(ObjectKind::PriorityClass.into(), &Value::Null, &mut class, write);
//! assert_eq!(
//!     class["metadata"]["managedFields"][0]["fieldsV1"],
//!     json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:value": {}}),
//! );
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::resource_type::ResourceType;
use crate::schema::{self, FieldType, Grain};

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub struct Write<'w> {
    /// Name of the client; empty is `unknown`.
    pub manager: &'w str,
    /// The subresource that is written to; may be empty.
    pub subresource: &'w str,
    /// The time, RFC 3339.
    pub now: &'w str,
}

/// Writes into a new object who owns its fields, given the object as it was (`null` if there
/// was none). An object that brings no managed fields keeps those that it had.
pub fn update(resource: &ResourceType, live: &Value, new: &mut Value, write: Write<'_>) {
    let type_name = resource.type_name.unwrap_or_default();
    let mut owners = Owners::of(live, new);
    let (mut before, mut after) = (live.clone(), new.clone());
    for object in [&mut before, &mut after] {
        if object.is_null() {
            *object = json!({});
        }
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        fill_in_present(type_name, object);
    }
    let mut comparison = Comparison::default();
    let object_type = FieldType::Object(type_name.to_owned());
    comparison.compare(Some(&before), Some(&after), &object_type, Grain::Parts);
    let Comparison {
        mut changed,
        removed,
        ..
    } = comparison;
    for owner in owners.0.iter_mut() {
        owner.fields.subtract(&changed);
        owner.fields.subtract(&removed);
    }
    for path in NEVER_OWNED {
        changed.remove(path);
    }
    if !changed.is_empty() {
        owners.give(&resource.api_version(), write, changed);
    }
    owners.0.retain(|owner| !owner.fields.is_empty());
    owners.write_to(new);
}

/// What clients do not own, whoever wrote it.
const NEVER_OWNED: [&[&str]; 11] = [
    &["f:apiVersion"],
    &["f:kind"],
    &["f:metadata"],
    &["f:metadata", "f:name"],
    &["f:metadata", "f:namespace"],
    &["f:metadata", "f:creationTimestamp"],
    &["f:metadata", "f:selfLink"],
    &["f:metadata", "f:uid"],
    &["f:metadata", "f:generation"],
    &["f:metadata", "f:managedFields"],
    &["f:metadata", "f:resourceVersion"],
];

/// Adds the fields that are always there, as zeros where nothing was written.
fn fill_in_present(type_name: &str, value: &mut Value) {
    let Value::Object(map) = value else { return };
    for name in schema::present_fields(type_name) {
        let Some(field) = schema::field(type_name, name) else {
            continue;
        };
        map.entry(*name).or_insert_with(|| match field.field_type {
            FieldType::List(_) | FieldType::Map(_) => Value::Null,
            ref other => other.zero(),
        });
    }
    for (name, value) in map {
        let Some(field) = schema::field(type_name, name) else {
            continue;
        };
        match (&field.field_type, value) {
            (FieldType::Object(inner), value) => fill_in_present(inner, value),
            (FieldType::List(element), Value::Array(elements)) => {
                if let FieldType::Object(inner) = element.as_ref() {
                    elements
                        .iter_mut()
                        .for_each(|element| fill_in_present(inner, element));
                }
            }
            _ => {}
        }
    }
}

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FieldSet(BTreeMap<String, Node>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    is_member: bool,
    below: FieldSet,
}

impl FieldSet {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn insert(&mut self, path: &[String]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let node = self.0.entry(first.clone()).or_default();
        match rest {
            [] => node.is_member = true,
            rest => node.below.insert(rest),
        }
    }

    fn remove(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        if let Some(node) = self.0.get_mut(*first) {
            match rest {
                [] => node.is_member = false,
                rest => node.below.remove(rest),
            }
        }
        self.tidy();
    }

    fn subtract(&mut self, other: &FieldSet) {
        for (element, node) in &mut self.0 {
            if let Some(other) = other.0.get(element) {
                node.is_member &= !other.is_member;
                node.below.subtract(&other.below);
            }
        }
        self.tidy();
    }

    fn add(&mut self, other: FieldSet) {
        for (element, other) in other.0 {
            let node = self.0.entry(element).or_default();
            node.is_member |= other.is_member;
            node.below.add(other.below);
        }
    }

    fn tidy(&mut self) {
        self.0
            .retain(|_, node| node.is_member || !node.below.is_empty());
    }

    fn to_value(&self) -> Value {
        let elements = self.0.iter().map(|(element, node)| {
            let mut below = node.below.to_value();
            if let Value::Object(fields) = &mut below
                && node.is_member
                && !fields.is_empty()
            {
                fields.insert(".".to_owned(), json!({}));
            }
            (element.clone(), below)
        });
        Value::Object(elements.collect())
    }

    fn from_value(value: &Value) -> Self {
        let fields = value.as_object().into_iter().flatten();
        let elements = fields
            .filter(|(element, _)| *element != ".")
            .map(|(element, below)| {
                let fields = below.as_object();
                let is_member = fields.is_none_or(|it| it.is_empty() || it.contains_key("."));
                let below = Self::from_value(below);
                (element.clone(), Node { is_member, below })
            });
        Self(elements.collect())
    }
}

/// What is different between two objects.
#[derive(Default)]
struct Comparison {
    path: Vec<String>,
    changed: FieldSet,
    removed: FieldSet,
}

impl Comparison {
    fn compare(
        &mut self,
        live: Option<&Value>,
        new: Option<&Value>,
        field_type: &FieldType,
        grain: Grain,
    ) {
        match (live, new) {
            (None, None) => return,
            (None, Some(_)) => self.changed.insert(&self.path),
            (Some(_), None) => self.removed.insert(&self.path),
            (Some(_), Some(_)) => {}
        }
        let is_nothing = |value: Option<&Value>| match value {
            None | Some(Value::Null) => true,
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(_) => false,
        };
        let has_parts = grain != Grain::Whole && !(is_nothing(live) && is_nothing(new));
        match field_type {
            FieldType::Object(_) | FieldType::Map(_) if has_parts => {
                self.compare_fields(live, new, field_type);
            }
            FieldType::List(element) if has_parts => {
                self.compare_elements(live, new, element, grain);
            }
            _ => {
                if let (Some(live), Some(new)) = (live, new)
                    && live != new
                {
                    self.changed.insert(&self.path);
                }
            }
        }
    }

    fn compare_fields(&mut self, live: Option<&Value>, new: Option<&Value>, object: &FieldType) {
        let empty = Map::new();
        let [live, new] = [live, new].map(|it| it.and_then(Value::as_object).unwrap_or(&empty));
        let names: BTreeSet<&String> = live.keys().chain(new.keys()).collect();
        for name in names {
            let (field_type, grain) = match object {
                FieldType::Object(type_name) => match schema::field(type_name, name) {
                    Some(field) => (&field.field_type, field.grain()),
                    None => (&FieldType::Any, Grain::Whole),
                },
                FieldType::Map(value_type) => (value_type.as_ref(), Grain::Parts),
                _ => (&FieldType::Any, Grain::Whole),
            };
            self.path.push(format!("f:{name}"));
            self.compare(live.get(name), new.get(name), field_type, grain);
            self.path.pop();
        }
    }

    fn compare_elements(
        &mut self,
        live: Option<&Value>,
        new: Option<&Value>,
        element_type: &FieldType,
        grain: Grain,
    ) {
        let by_identity = |list: Option<&Value>| -> BTreeMap<String, Value> {
            let elements = list.and_then(Value::as_array).into_iter().flatten();
            let identified = elements.map(|element| (identity(element, grain), element.clone()));
            identified.collect()
        };
        let (live, new) = (by_identity(live), by_identity(new));
        let elements: BTreeSet<&String> = live.keys().chain(new.keys()).collect();
        for element in elements {
            self.path.push(element.clone());
            let (live, new) = (live.get(element), new.get(element));
            self.compare(live, new, element_type, Grain::Parts);
            self.path.pop();
        }
    }
}

/// What tells an element of a list from others.
fn identity(element: &Value, grain: Grain) -> String {
    match grain {
        Grain::Keys(keys) => {
            let keys = keys
                .iter()
                .filter_map(|key| Some((*key, element.get(*key)?.clone())));
            let keys: BTreeMap<&str, Value> = keys.collect();
            format!("k:{}", json!(keys))
        }
        _ => format!("v:{element}"),
    }
}

/// One entry of `metadata.managedFields`.
struct Owner {
    manager: String,
    operation: String,
    api_version: String,
    time: Option<String>,
    subresource: String,
    fields: FieldSet,
}

struct Owners(Vec<Owner>);

impl Owners {
    /// The owners that an object brings, or else those that it had. An empty list resets them.
    fn of(live: &Value, new: &Value) -> Self {
        let entries = |object: &Value| -> Option<Vec<Value>> {
            object
                .pointer("/metadata/managedFields")?
                .as_array()
                .cloned()
        };
        let reset = |list: &[Value]| list.is_empty() || list == [json!({})];
        match entries(new) {
            Some(list) if reset(&list) => Self(Vec::new()),
            Some(list) => Self(list.iter().map(Owner::from_value).collect()),
            None => {
                let list = entries(live).unwrap_or_default();
                Self(list.iter().map(Owner::from_value).collect())
            }
        }
    }

    fn give(&mut self, api_version: &str, write: Write<'_>, fields: FieldSet) {
        let manager = match write.manager {
            "" => "unknown",
            manager => manager,
        };
        let is_self = |owner: &&mut Owner| {
            owner.manager == manager
                && owner.operation == "Update"
                && owner.api_version == api_version
                && owner.subresource == write.subresource
        };
        match self.0.iter_mut().find(is_self) {
            Some(owner) => {
                owner.fields.add(fields);
                owner.time = Some(write.now.to_owned());
            }
            None => self.0.push(Owner {
                manager: manager.to_owned(),
                operation: "Update".to_owned(),
                api_version: api_version.to_owned(),
                time: Some(write.now.to_owned()),
                subresource: write.subresource.to_owned(),
                fields,
            }),
        }
    }

    fn write_to(mut self, object: &mut Value) {
        self.0.sort_by(|a, b| {
            let key = |it: &Owner| {
                let (operation, time) = (it.operation.clone(), it.time.clone());
                (
                    operation,
                    time,
                    it.manager.clone(),
                    it.api_version.clone(),
                    it.subresource.clone(),
                )
            };
            key(a).cmp(&key(b))
        });
        let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
            return;
        };
        if self.0.is_empty() {
            metadata.remove("managedFields");
        } else {
            let entries = self.0.iter().map(Owner::to_value).collect();
            metadata.insert("managedFields".to_owned(), entries);
        }
    }
}

impl Owner {
    fn from_value(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        Self {
            manager: text("manager"),
            operation: text("operation"),
            api_version: text("apiVersion"),
            time: value["time"].as_str().map(str::to_owned),
            subresource: text("subresource"),
            fields: FieldSet::from_value(&value["fieldsV1"]),
        }
    }

    fn to_value(&self) -> Value {
        let mut value = json!({
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_value(),
        });
        if let Some(time) = &self.time {
            value["time"] = json!(time);
        }
        if !self.subresource.is_empty() {
            value["subresource"] = json!(self.subresource);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::ObjectKind;

    fn write(manager: &str) -> Write<'_> {
        Write {
            manager,
            subresource: "",
            now: "2026-01-01T00:00:00Z",
        }
    }

    fn fields_of<'o>(object: &'o Value, manager: &str) -> Option<&'o Value> {
        let mut entries = object["metadata"]["managedFields"].as_array()?.iter();
        Some(&entries.find(|entry| entry["manager"] == manager)?["fieldsV1"])
    }

    #[test]
    fn who_changes_a_field_owns_it() {
        let kind = ObjectKind::PriorityClass;
        let mut first = json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "1"}},
                               "value": 7, "description": "d"});
        update(kind.into(), &Value::Null, &mut first, write("one"));
        let mut second = first.clone();
        second["metadata"]["labels"] = json!({"x": "2"});
        second["globalDefault"] = json!(true);
        update(kind.into(), &first, &mut second, write("two"));
        assert_eq!(
            fields_of(&second, "one"),
            Some(&json!({"f:description": {}, "f:metadata": {"f:labels": {}}, "f:value": {}}))
        );
        assert_eq!(
            fields_of(&second, "two"),
            Some(&json!({"f:globalDefault": {}, "f:metadata": {"f:labels": {"f:x": {}}}}))
        );
    }

    #[test]
    fn containers_are_told_apart_by_name() {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {}}],
            "nodeSelector": {"a": "b"}, "volumes": [{"name": "v", "emptyDir": {}}],
        }});
        update(ObjectKind::Pod.into(), &Value::Null, &mut pod, write("one"));
        assert_eq!(
            fields_of(&pod, "one"),
            Some(&json!({"f:spec": {
                "f:containers": {"k:{\"name\":\"c\"}": {
                    ".": {}, "f:name": {}, "f:image": {}, "f:resources": {},
                }},
                "f:nodeSelector": {},
                "f:volumes": {".": {}, "k:{\"name\":\"v\"}": {
                    ".": {}, "f:name": {}, "f:emptyDir": {},
                }},
            }}))
        );
    }

    #[test]
    fn nothing_new_leaves_owners_and_times_alone() {
        let kind = ObjectKind::PriorityClass;
        let mut first = json!({"metadata": {"name": "a"}, "value": 7});
        update(kind.into(), &Value::Null, &mut first, write("one"));
        let mut same = json!({"metadata": {"name": "a"}, "value": 7});
        let later = Write {
            now: "2027-01-01T00:00:00Z",
            ..write("two")
        };
        update(kind.into(), &first, &mut same, later);
        assert_eq!(same, first);
    }
}

//! Sets of fields, kept as they are written.
//!
//! A set is a tree in JSON (`FieldsV1`): an object whose keys are path elements. `f:NAME` is a
//! field or a key of a map, `k:{...}` an element of a list that is told apart by keys, `v:...`
//! an element of a set. A node is a member of the set if it is empty or has `.`; all others are
//! only on the way to members. Sets of stored objects are changed in this form, without a form
//! of their own between: most writes change a few fields of large sets.
//!
//! Source: `sigs.k8s.io/structured-merge-diff`, `fieldpath/{set,serialize,serialize-pe}.go`.

use serde_json::{Map, Value};

use super::shape::Shape;
use crate::names::quoted;

/// What says that a node with others below it is a member.
const SELF: &str = ".";

/// A set of fields; see the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldSet(Map<String, Value>);

impl FieldSet {
    /// The set of nodes below the root, as [`node`] makes them.
    pub(crate) fn new(below: Map<String, Value>) -> Self {
        Self(below)
    }

    /// The set as it stands in an entry; `None` if it is not of this form.
    pub(crate) fn read(value: Value) -> Option<Self> {
        match value {
            Value::Null => Some(Self::default()),
            Value::Object(below) if is_well_formed(&below) => Some(Self(below)),
            _ => None,
        }
    }

    pub(crate) fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes out what is in the other set; what is below a member of the other set stays.
    pub(crate) fn subtract(&mut self, other: &FieldSet) {
        subtract_below(&mut self.0, &other.0);
    }

    /// Takes out one path.
    pub(crate) fn remove(&mut self, path: &[&str]) {
        remove_below(&mut self.0, path);
    }

    /// Takes out a path and all that is below it.
    pub(crate) fn remove_all(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        if rest.is_empty() {
            self.0.remove(*first);
        } else if let Some(Value::Object(below)) = self.0.get_mut(*first) {
            let was_member = is_member(below);
            let mut inner = Self(std::mem::take(below));
            inner.remove_all(rest);
            inner.0.remove(SELF);
            match node(was_member, inner.0) {
                Some(left) => *below = left,
                None => {
                    self.0.remove(*first);
                }
            }
        }
    }

    /// Adds what is in the other set.
    pub(crate) fn add(&mut self, other: FieldSet) {
        add_below(&mut self.0, other.0);
    }

    /// What is in both sets.
    pub(crate) fn intersection(&self, other: &FieldSet) -> FieldSet {
        Self(intersection_below(&self.0, &other.0))
    }

    /// What is in this set alone.
    pub(crate) fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut left = self.clone();
        left.subtract(other);
        left
    }

    /// The set, with the named fields on the way to members as members, too. Keys of maps and
    /// elements of lists are not such.
    pub(crate) fn with_named_fields(&self, shape: Shape<'_>) -> FieldSet {
        Self(with_named_fields(&self.0, shape))
    }

    /// The members as paths, each node before what is below it, members before others.
    pub(crate) fn paths(&self) -> Vec<Path<'_>> {
        let (mut paths, mut path) = (Vec::new(), Vec::new());
        collect_paths(&self.0, &mut path, &mut paths);
        paths
    }
}

/// What is below a node.
#[derive(Clone, Copy)]
pub(crate) struct FieldSetView<'f>(&'f Map<String, Value>);

impl<'f> FieldSetView<'f> {
    pub(crate) fn of(set: &'f FieldSet) -> Self {
        Self(&set.0)
    }

    pub(crate) fn at(self, element: &str) -> Option<(bool, FieldSetView<'f>)> {
        match self.0.get(element)? {
            Value::Object(below) => Some((is_member(below), FieldSetView(below))),
            _ => None,
        }
    }
}

/// The path of a member. Displays as upstream writes it: `.spec.ports[port=80,protocol="TCP"]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path<'f>(Vec<&'f str>);

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0
            .iter()
            .try_for_each(|element| f.write_str(&element_text(element)))
    }
}

/// A node: of a member, or on the way to what is below; `None` if it is neither.
pub(crate) fn node(is_member: bool, mut below: Map<String, Value>) -> Option<Map<String, Value>> {
    match (is_member, below.is_empty()) {
        (false, true) => None,
        (true, false) => {
            below.insert(SELF.to_owned(), Value::Object(Map::new()));
            Some(below)
        }
        _ => Some(below),
    }
}

/// A path element as upstream shows it.
pub(crate) fn element_text(element: &str) -> String {
    let scalar = |value: &Value| match value {
        Value::String(text) => quoted(text),
        other => other.to_string(),
    };
    let Some((kind, rest)) = element.split_once(':') else {
        return element.to_owned();
    };
    let parsed: Option<Value> = serde_json::from_str(rest).ok();
    match (kind, parsed) {
        ("f", _) => format!(".{rest}"),
        ("k", Some(Value::Object(keys))) => {
            let keys = keys
                .iter()
                .map(|(key, value)| format!("{key}={}", scalar(value)));
            format!("[{}]", keys.collect::<Vec<_>>().join(","))
        }
        ("v", Some(value)) => format!("[={}]", scalar(&value)),
        _ => format!("[{rest}]"),
    }
}

fn is_member(node: &Map<String, Value>) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

fn is_well_formed(below: &Map<String, Value>) -> bool {
    below.iter().all(|(element, node)| match node {
        Value::Object(node) if element == SELF => node.is_empty(),
        Value::Object(node) => {
            matches!(element.as_bytes(), [b'f' | b'k' | b'v' | b'i', b':', ..])
                && is_well_formed(node)
        }
        _ => false,
    })
}

/// Changes a node in place, and takes it out if neither member nor on the way is left.
fn change_node(
    below: &mut Map<String, Value>,
    element: &str,
    stays_member: impl FnOnce(bool) -> bool,
    change: impl FnOnce(&mut Map<String, Value>),
) {
    let Some(Value::Object(inner)) = below.get_mut(element) else {
        return;
    };
    let stays_member = stays_member(is_member(inner));
    inner.remove(SELF);
    change(inner);
    match node(stays_member, std::mem::take(inner)) {
        Some(left) => *inner = left,
        None => {
            below.remove(element);
        }
    }
}

fn subtract_below(below: &mut Map<String, Value>, other: &Map<String, Value>) {
    for (element, theirs) in other {
        if let Value::Object(theirs) = theirs
            && element != SELF
        {
            let stays = |was: bool| was && !is_member(theirs);
            change_node(below, element, stays, |inner| subtract_below(inner, theirs));
        }
    }
}

fn remove_below(below: &mut Map<String, Value>, path: &[&str]) {
    if let Some((first, rest)) = path.split_first() {
        let stays = |was: bool| was && !rest.is_empty();
        change_node(below, first, stays, |inner| remove_below(inner, rest));
    }
}

fn add_below(below: &mut Map<String, Value>, other: Map<String, Value>) {
    for (element, theirs) in other {
        match (below.get_mut(&element), theirs) {
            (_, _) if element == SELF => {}
            (Some(Value::Object(ours)), Value::Object(theirs)) => {
                let is_either_member = is_member(ours) || is_member(&theirs);
                ours.remove(SELF);
                add_below(ours, theirs);
                // Neither was empty without being a member.
                *ours = node(is_either_member, std::mem::take(ours)).unwrap_or_default();
            }
            (_, theirs) => {
                below.insert(element, theirs);
            }
        }
    }
}

fn intersection_below(a: &Map<String, Value>, b: &Map<String, Value>) -> Map<String, Value> {
    let mut both = Map::new();
    for (element, ours) in a {
        if let (Value::Object(ours), Some(Value::Object(theirs))) = (ours, b.get(element))
            && element != SELF
        {
            let is_in_both = is_member(ours) && is_member(theirs);
            if let Some(node) = node(is_in_both, intersection_below(ours, theirs)) {
                both.insert(element.clone(), Value::Object(node));
            }
        }
    }
    both
}

fn with_named_fields(below: &Map<String, Value>, shape: Shape<'_>) -> Map<String, Value> {
    let elements = below.iter().filter(|(element, _)| *element != SELF);
    let elements = elements.map(|(element, inner)| {
        let empty = Map::new();
        let inner = inner.as_object().unwrap_or(&empty);
        let (is_named, inner_shape) = shape.step(element);
        let below = with_named_fields(inner, inner_shape);
        let node = node(is_member(inner) || is_named, below).unwrap_or_default();
        (element.clone(), Value::Object(node))
    });
    elements.collect()
}

fn collect_paths<'f>(
    below: &'f Map<String, Value>,
    path: &mut Vec<&'f str>,
    paths: &mut Vec<Path<'f>>,
) {
    let mut elements: Vec<(&String, &Map<String, Value>)> = below
        .iter()
        .filter(|(element, _)| *element != SELF)
        .filter_map(|(element, node)| Some((element, node.as_object()?)))
        .collect();
    elements.sort_by_cached_key(|(element, _)| sort_key(element));
    for (element, node) in &elements {
        if is_member(node) {
            path.push(element);
            paths.push(Path(path.clone()));
            path.pop();
        }
    }
    for (element, node) in elements {
        path.push(element);
        collect_paths(node, path, paths);
        path.pop();
    }
}

/// Orders elements: fields by name, then keys by their values, so that 9 comes before 80.
fn sort_key(element: &str) -> (u8, Vec<SortPart>) {
    let (kind, rest) = element.split_once(':').unwrap_or(("", element));
    let part = |value: &Value| match value {
        Value::Number(number) => SortPart::Number(number.as_i64().unwrap_or_default()),
        Value::String(text) => SortPart::Text(text.clone()),
        other => SortPart::Text(other.to_string()),
    };
    match (kind, serde_json::from_str::<Value>(rest)) {
        ("k", Ok(Value::Object(keys))) => {
            let parts = keys
                .iter()
                .flat_map(|(key, value)| [SortPart::Text(key.clone()), part(value)]);
            (1, parts.collect())
        }
        ("v", Ok(value)) => (2, vec![part(&value)]),
        ("i", Ok(value)) => (3, vec![part(&value)]),
        _ => (0, vec![SortPart::Text(rest.to_owned())]),
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum SortPart {
    Number(i64),
    Text(String),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(value: Value) -> FieldSet {
        FieldSet::read(value).expect("a set")
    }

    #[test]
    fn a_parent_and_what_is_below_it_come_and_go_apart() {
        let both = set(json!({"f:a": {".": {}, "f:b": {}}}));
        let (parent, child) = (set(json!({"f:a": {}})), set(json!({"f:a": {"f:b": {}}})));
        assert_eq!(both.difference(&parent), child);
        assert_eq!(both.difference(&child), parent);
        assert_eq!(both.intersection(&parent), parent);
        assert_eq!(child.intersection(&parent), FieldSet::default());
        let mut sum = parent.clone();
        sum.add(child.clone());
        assert_eq!(sum, both);
        sum.remove(&["f:a"]);
        assert_eq!(sum, child);
        sum.remove(&["f:a", "f:b"]);
        assert!(sum.is_empty());
        let mut all = both.clone();
        all.remove_all(&["f:a", "f:b"]);
        assert_eq!(all, parent);
        let texts = |set: &FieldSet| set.paths().iter().map(Path::to_string).collect::<Vec<_>>();
        assert_eq!(texts(&both), [".a", ".a.b"]);
        assert_eq!(texts(&child), [".a.b"]);
    }

    #[test]
    fn paths_are_written_as_upstream_writes_them() {
        let ports = set(json!({"f:spec": {
            "f:x": {"f:y": {}},
            "f:ports": {
                "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}},
                "k:{\"port\":9,\"protocol\":\"TCP\"}": {},
            },
            "f:set": {"v:\"a\"": {}},
        }}));
        let paths: Vec<String> = ports.paths().iter().map(Path::to_string).collect();
        assert_eq!(
            paths,
            [
                ".spec.ports[port=9,protocol=\"TCP\"]",
                ".spec.ports[port=80,protocol=\"TCP\"]",
                ".spec.ports[port=80,protocol=\"TCP\"].name",
                ".spec.set[=\"a\"]",
                ".spec.x.y",
            ]
        );
    }

    #[test]
    fn what_is_no_set_is_told() {
        for wrong in [
            json!([]),
            json!({"a": {}}),
            json!({"f:a": 1}),
            json!({"f:a": {"x": {}}}),
        ] {
            assert_eq!(FieldSet::read(wrong.clone()), None, "{wrong}");
        }
    }
}

//! What is different between two objects, as a set of fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::field_set::{FieldSet, node};
use super::scope::Scope;
use super::shape::{Elements, Form, Shape, unknown};

type Node = Map<String, Value>;

/// What is different.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Comparison {
    /// What is new or has another value.
    pub(crate) changed: FieldSet,
    /// What is gone.
    pub(crate) removed: FieldSet,
}

/// Compares two objects; what the request cannot own is not looked at. A list or map that is
/// not told apart is compared whole. Time and memory are linear in the objects, as long as
/// lists are not nested deeply.
pub(crate) fn compare(scope: Scope<'_>, live: &Value, new: &Value) -> Comparison {
    let empty = Map::new();
    let [live, new] = [live, new].map(|object| object.as_object().unwrap_or(&empty));
    let shape = scope.shape();
    let mut nodes = Nodes::default();
    compare_fields(shape, Some(live), Some(new), &mut nodes, &|name| {
        name == "metadata" || scope.excludes(name)
    });
    if !scope.excludes("metadata") {
        let [live, new] = [live, new].map(|object| metadata_of(object).unwrap_or(&empty));
        let mut below = Nodes::default();
        let shape = Shape::Object("ObjectMeta");
        compare_fields(shape, Some(live), Some(new), &mut below, &|name| {
            scope.excludes_of_metadata(name)
        });
        // The metadata itself has no owner.
        nodes.take("f:metadata", (false, false), below);
    }
    Comparison {
        changed: FieldSet::new(nodes.changed),
        removed: FieldSet::new(nodes.removed),
    }
}

fn metadata_of(object: &Node) -> Option<&Node> {
    object.get("metadata")?.as_object()
}

/// Whether two values are the same; `1` is `1.0`.
pub(crate) fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| is_same(x, y))
        }
        (Value::Object(x), Value::Object(y)) => {
            let is_same_field =
                |(name, x): (&String, &Value)| y.get(name).is_some_and(|y| is_same(x, y));
            x.len() == y.len() && x.iter().all(is_same_field)
        }
        _ => a == b,
    }
}

/// The nodes below a place.
#[derive(Default)]
struct Nodes {
    changed: Node,
    removed: Node,
}

impl Nodes {
    /// Takes over a place below: whether it was changed or removed itself, and what is below.
    fn take(&mut self, element: &str, (changed, removed): (bool, bool), below: Nodes) {
        if let Some(node) = node(changed, below.changed) {
            self.changed.insert(element.to_owned(), node.into());
        }
        if let Some(node) = node(removed, below.removed) {
            self.removed.insert(element.to_owned(), node.into());
        }
    }
}

fn is_nothing(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Array(elements)) => elements.is_empty(),
        Some(_) => false,
    }
}

fn compare_values(
    shape: Shape<'_>,
    live: Option<&Value>,
    new: Option<&Value>,
    element: impl FnOnce() -> String,
    nodes: &mut Nodes,
) {
    let mut below = Nodes::default();
    let mut is_changed = live.is_none() && new.is_some();
    let is_removed = live.is_some() && new.is_none();
    let forms = [live, new].map(|value| {
        let value = value.filter(|value| !value.is_null())?;
        Some(shape.form(value))
    });
    let (form, has_other_form) = match forms {
        [Some(a), Some(b)] => (b, std::mem::discriminant(&a) != std::mem::discriminant(&b)),
        [Some(form), None] | [None, Some(form)] => (form, false),
        [None, None] => (shape.form(&Value::Null), false),
    };
    let is_leaf = match form {
        _ if has_other_form => {
            compare_parts(shape, live, None, &mut below);
            compare_parts(shape, None, new, &mut below);
            true
        }
        Form::Fields(fields) => is_nothing(live) && is_nothing(new) && fields.present().is_empty(),
        Form::Elements(_) => is_nothing(live) && is_nothing(new),
        Form::Scalar(_) | Form::Whole(_) => true,
    };
    if !is_leaf {
        compare_parts(shape, live, new, &mut below);
    } else if let (Some(live), Some(new)) = (live, new) {
        is_changed |= !is_same(live, new);
    }
    if is_changed || is_removed || !below.changed.is_empty() || !below.removed.is_empty() {
        nodes.take(&element(), (is_changed, is_removed), below);
    }
}

/// Compares what is inside of values, at least one of which is there.
fn compare_parts(shape: Shape<'_>, live: Option<&Value>, new: Option<&Value>, below: &mut Nodes) {
    let value = new.or(live).unwrap_or(&Value::Null);
    let value = match value {
        Value::Null => live.unwrap_or(&Value::Null),
        other => other,
    };
    match shape.form(value) {
        Form::Fields(fields) => {
            let [live, new] = [live, new].map(|value| match value? {
                Value::Object(fields) => Some(fields),
                _ => None,
            });
            compare_fields(fields, live, new, below, &|_| false);
        }
        Form::Elements(elements) => {
            let [live, new] = [live, new].map(|value| match value {
                Some(Value::Array(elements)) => elements.as_slice(),
                _ => &[],
            });
            compare_elements(elements, live, new, below);
        }
        Form::Scalar(_) | Form::Whole(_) => {}
    }
}

fn compare_fields(
    shape: Shape<'_>,
    live: Option<&Node>,
    new: Option<&Node>,
    nodes: &mut Nodes,
    is_skipped: &dyn Fn(&str) -> bool,
) {
    let mut compare_field = |name: &str, live: Option<&Value>, new: Option<&Value>| {
        if !is_skipped(name) {
            let field = shape.field(name).unwrap_or_else(unknown);
            compare_values(field, live, new, || format!("f:{name}"), nodes);
        }
    };
    // Both sides of a value that is there have the fields that are never absent.
    let zero = |name: &str, side: Option<&Node>| side.and_then(|_| shape.zero(name));
    for (name, value) in new.into_iter().flatten() {
        let before = live
            .and_then(|live| live.get(name))
            .or_else(|| zero(name, live));
        compare_field(name, before, Some(value));
    }
    for (name, value) in live.into_iter().flatten() {
        if !new.is_some_and(|new| new.contains_key(name)) {
            compare_field(name, Some(value), zero(name, new));
        }
    }
    if live.is_some() == new.is_some() {
        return;
    }
    for name in shape.present() {
        let is_written = |side: Option<&Node>| side.is_some_and(|side| side.contains_key(*name));
        if !is_written(live) && !is_written(new) {
            compare_field(name, zero(name, live), zero(name, new));
        }
    }
}

fn compare_elements(elements: Elements<'_>, live: &[Value], new: &[Value], nodes: &mut Nodes) {
    if live == new {
        return;
    }
    // Elements that stand twice are no error in what is stored.
    let mut sides: BTreeMap<String, [Vec<&Value>; 2]> = BTreeMap::new();
    for (side, list) in [live, new].into_iter().enumerate() {
        for element in list {
            if let Ok(identity) = elements.identity(element) {
                sides.entry(identity).or_default()[side].push(element);
            }
        }
    }
    for (identity, [live, new]) in sides {
        compare_same(elements, identity, &live, &new, nodes);
    }
}

/// Compares the elements of one identity. Those that stand twice are compared whole; if they
/// do so on one side only, what was there once comes or goes in full.
fn compare_same(
    elements: Elements<'_>,
    identity: String,
    live: &[&Value],
    new: &[&Value],
    nodes: &mut Nodes,
) {
    let mut own = Nodes::default();
    let shape = elements.element;
    let compare = |live, new, own: &mut Nodes| {
        compare_values(shape, live, new, || identity.clone(), own);
    };
    let (mut is_changed, mut is_removed) = (false, false);
    match (live, new) {
        ([], [one]) => compare(None, Some(one), &mut own),
        ([one], []) => compare(Some(one), None, &mut own),
        ([a], [b]) => compare(Some(a), Some(b), &mut own),
        ([_, _, ..], [_, _, ..]) => {
            let is_equal =
                live.len() == new.len() && live.iter().zip(new).all(|(a, b)| is_same(a, b));
            is_changed = !is_equal;
        }
        ([_, _, ..], _) => {
            compare(None, new.first().copied(), &mut own);
            is_removed = true;
        }
        (_, _) => {
            compare(live.first().copied(), None, &mut own);
            is_changed = true;
        }
    }
    for (target, source, is_member) in [
        (&mut nodes.changed, own.changed, is_changed),
        (&mut nodes.removed, own.removed, is_removed),
    ] {
        let mut set = FieldSet::new(source);
        if is_member {
            set.add(FieldSet::new(Map::from_iter([(
                identity.clone(),
                Value::Object(Map::new()),
            )])));
        }
        if let Value::Object(source) = set.into_value() {
            target.extend(source);
        }
    }
}

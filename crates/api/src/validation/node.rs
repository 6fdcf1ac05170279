//! Nodes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::affinity::EFFECTS;
use super::errors::{Errors, cidr};
use super::resources::amount;
use super::workload::go_struct;
use crate::diagnostic::Here;
use crate::field_error::{BadValue, FieldError, go_json};
use crate::fields_of::FieldsOf;
use crate::names::{label_key_errors, label_value_errors};

/// Checks a new node beyond its metadata.
pub(super) fn node(node: &Value, errors: &mut Errors) {
    let spec = node.part("spec").unwrap_or(&Value::Null);
    taints(spec, errors);
    capacity(node, errors);
    let spec_here = Here::OBJECT.field("spec");
    let here = spec_here.field("podCIDRs");
    let ranges: Vec<&str> = spec.texts("podCIDRs").collect();
    for (index, range) in ranges.iter().enumerate() {
        cidr(range, &here.index(index), errors);
    }
    if ranges.len() > 1 {
        let six = ranges.iter().filter(|range| range.contains(':')).count();
        let is_dual = six > 0 && six < ranges.len();
        if !is_dual || ranges.len() > 2 {
            let value = spec.part("podCIDRs").unwrap_or(&Value::Null);
            let rule = "may specify no more than one CIDR for each IP family";
            errors.invalid(&here, value, rule);
        }
        let mut seen = BTreeSet::new();
        for (index, range) in ranges.iter().enumerate() {
            if !seen.insert(range) {
                errors.duplicate(&here.index(index), *range);
            }
        }
    }
}

/// Checks taints, which upstream reports as if they stood in the metadata.
fn taints(spec: &Value, errors: &mut Errors) {
    let metadata = Here::OBJECT.field("metadata");
    let list = metadata.field("taints");
    let mut seen = BTreeSet::new();
    for (index, taint) in spec.list("taints").iter().enumerate() {
        let here = list.index(index);
        let (key, value) = (taint.text("key"), taint.text("value"));
        let effect = taint.text("effect");
        errors.text(label_key_errors, key, &here.field("key"));
        let broken = label_value_errors(value);
        if !broken.is_empty() {
            errors.invalid(&here.field("value"), value, broken.join(";"));
        }
        errors.required_word(effect, &EFFECTS, &here.field("effect"));
        if !seen.insert((key, effect)) {
            let fields = ["key", "value", "effect", "timeAdded"];
            let mut whole = taint.clone();
            if let Value::Object(whole) = &mut whole {
                for field in ["key", "value", "effect"] {
                    whole.entry(field).or_insert_with(|| "".into());
                }
            }
            let shown = go_struct(&whole, &fields, |_, value| go_json(value));
            let duplicate = FieldError::duplicate(&here, BadValue::json(shown));
            let detail = "taints must be unique by key and effect pair";
            errors.0.push(duplicate.because(detail));
        }
    }
}

/// Checks amounts, whose names upstream reports as if they were fields.
fn capacity(node: &Value, errors: &mut Errors) {
    let here = Here::OBJECT.field("status");
    let status = node.part("status").unwrap_or(&Value::Null);
    for field in ["capacity", "allocatable"] {
        let here = here.field(field);
        for (name, value) in status.amounts(field) {
            amount(name, &value, &here.field(name), errors);
        }
    }
}

/// Checks a node that is there already.
pub(super) fn stored_node(node: &Value, errors: &mut Errors) {
    capacity(node, errors);
    let status_here = Here::OBJECT.field("status");
    let addresses_here = status_here.field("addresses");
    let status = node.part("status").unwrap_or(&Value::Null);
    let addresses = status.list("addresses");
    let mut seen = BTreeSet::new();
    for (index, address) in addresses.iter().enumerate() {
        if !seen.insert((address.text("type"), address.text("address"))) {
            let fields = ["type", "address"];
            let shown = go_struct(address, &fields, |_, value| go_json(value));
            errors.duplicate(&addresses_here.index(index), BadValue::json(shown));
        }
    }
    let spec = node.part("spec").unwrap_or(&Value::Null);
    taints(spec, errors);
}

/// Checks what may become of the spec of a node.
pub(super) fn node_changes(new: &Value, old: &Value, errors: &mut Errors) {
    let here = Here::OBJECT.field("spec");
    let (before, after) = (old.list("podCIDRs"), new.list("podCIDRs"));
    if !before.is_empty() {
        let changes = match before.len() == after.len() {
            true => before.iter().zip(after).filter(|(a, b)| a != b).count(),
            false => 1,
        };
        for _ in 0..changes {
            let detail = "node updates may not change podCIDR except from \"\" to valid";
            errors.forbidden(&here.field("podCIDRs"), detail);
        }
    }
    let id = old.text("providerID");
    if !id.is_empty() && id != new.text("providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(&here.field("providerID"), detail);
    }
}

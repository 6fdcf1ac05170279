//! What an applier no longer says, taken out of the object.

use serde_json::Value;

use crate::managed_fields::field_set::{FieldSet, FieldSetView};
use crate::managed_fields::owners::Owners;
use crate::managed_fields::shape::{Form, Shape, unknown};

use super::applied_set::fields_of;

/// Takes out what the applier had and does not have any more, unless somebody has it; `owners`
/// are those after the application. What nobody owns and the applier did not own either stays,
/// and with it what it is in.
pub(super) fn prune(shape: Shape<'_>, merged: &Value, last: &FieldSet, owners: &Owners) -> Value {
    let last = last.with_named_fields(shape);
    let mut pruned = merged.clone();
    remove(shape, &mut pruned, FieldSetView::of(&last));

    // What others own comes back.
    let all = fields_of(shape, merged).with_named_fields(shape);
    let mut kept = fields_of(shape, &pruned);
    for owner in &owners.0 {
        kept.add(owner.fields.clone());
    }
    let kept = kept.with_named_fields(shape);
    let mut pruned = merged.clone();
    remove(shape, &mut pruned, FieldSetView::of(&all.difference(&kept)));

    // And what only went because something above it did.
    let left = fields_of(shape, &pruned).with_named_fields(shape);
    let gone = all.difference(&left).intersection(&last);
    let mut pruned = merged.clone();
    remove(shape, &mut pruned, FieldSetView::of(&gone));
    pruned
}

/// Takes the members of a set out of a value. Whether nothing is left of it.
fn remove(shape: Shape<'_>, value: &mut Value, set: FieldSetView<'_>) -> bool {
    match (shape.form(value), &mut *value) {
        (Form::Fields(fields), Value::Object(map)) if !map.is_empty() => {
            map.retain(|name, value| match set.at(&format!("f:{name}")) {
                None => true,
                Some((true, _)) => false,
                Some((false, below)) => {
                    let inner = fields.field(name).unwrap_or_else(unknown);
                    !remove(inner, value, below)
                }
            });
            map.is_empty()
        }
        (Form::Elements(elements), Value::Array(list)) if !list.is_empty() => {
            list.retain_mut(|element| {
                let Ok(identity) = elements.identity(element) else {
                    return true;
                };
                match set.at(&identity) {
                    None => true,
                    Some((true, _)) => false,
                    Some((false, below)) => !remove(elements.element, element, below),
                }
            });
            list.is_empty()
        }
        _ => false,
    }
}

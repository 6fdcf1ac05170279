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
    let mut owned = FieldSet::default();
    for owner in &owners.0 {
        owned.add(owner.fields.clone());
    }
    let without = |set: &FieldSet| {
        let mut left = merged.clone();
        let owned = Some(FieldSetView::of(&owned));
        remove(shape, &mut left, FieldSetView::of(set), owned);
        left
    };
    // What others own comes back.
    let all = fields_of(shape, merged).with_named_fields(shape);
    let mut kept = fields_of(shape, &without(&last));
    kept.add(owned.clone());
    let pruned = without(&all.difference(&kept.with_named_fields(shape)));
    // And what only went because something above it did.
    let left = fields_of(shape, &pruned).with_named_fields(shape);
    without(&all.difference(&left).intersection(&last))
}

/// Takes the members of a set out of a value. Whether nothing is left of it; what somebody owns
/// as such stays even if it is empty.
fn remove(
    shape: Shape<'_>,
    value: &mut Value,
    set: FieldSetView<'_>,
    owned: Option<FieldSetView<'_>>,
) -> bool {
    let stays = |element: &str, inner: Shape<'_>, value: &mut Value| match set.at(element) {
        None => true,
        Some((true, _)) => false,
        Some((false, below)) => {
            let owned = owned.and_then(|owned| owned.at(element));
            let is_owned = owned.is_some_and(|(is_member, _)| is_member);
            !remove(inner, value, below, owned.map(|(_, below)| below)) || is_owned
        }
    };
    match (shape.form(value), &mut *value) {
        (Form::Fields(fields), Value::Object(map)) if !map.is_empty() => {
            map.retain(|name, value| {
                let inner = fields.field(name).unwrap_or_else(unknown);
                stays(&format!("f:{name}"), inner, value)
            });
            map.is_empty()
        }
        (Form::Elements(elements), Value::Array(list)) if !list.is_empty() => {
            list.retain_mut(|element| match elements.identity(element) {
                Ok(identity) => stays(&identity, elements.element, element),
                Err(_) => true,
            });
            list.is_empty()
        }
        _ => false,
    }
}

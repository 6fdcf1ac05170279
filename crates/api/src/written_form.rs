//! The form in which the API server keeps and answers objects: that in which Go writes them.
//!
//! People write `replicas: 1.0e0`, `cpu: 0.5`, `nodeName: ""` or `labels: {}`. Read into Go's
//! types and written again, amounts have their canonical form, what is nothing is left out, and
//! some fields are there always. Two objects that mean the same are equal in this form. Which
//! fields are which is in `schema/go.txt`.
//!
//! Objects of types that are not known stay as they are.
//!
//! ```
//! use outrank_api::decode::ObjectKind;
//! use outrank_api::written_form::{complete, tidy};
//! use serde_json::json;
//!
//! let mut pod = json!({"spec": {
//!     "nodeName": "",
//!     "tolerations": [{"tolerationSeconds": 0, "value": ""}],
//!     "containers": [{"name": "c", "tty": false, "resources": {"limits": {"cpu": 0.5}}}]}});
//! tidy(ObjectKind::Pod.into(), &mut pod);
//! let container = json!({"name": "c", "resources": {"limits": {"cpu": "500m"}}});
//! assert_eq!(
//!     pod,
//!     json!({"spec": {"tolerations": [{"tolerationSeconds": 0}], "containers": [container]}}),
//! );
//! complete(ObjectKind::Pod.into(), &mut pod);
//! assert_eq!(pod["status"], json!({}));
//! ```

use serde_json::{Map, Value};

use crate::fields_of::quantity_of;
use crate::resource_type::ResourceType;
use crate::schema::{self, Field, FieldType};

/// Leaves out what is nothing, and gives amounts their canonical form. Costs time linear in the
/// size of the object.
pub fn tidy(resource: &ResourceType, object: &mut Value) {
    if let (Some(type_name), Value::Object(fields)) = (resource.type_name, object) {
        tidy_fields(type_name, fields);
    }
}

/// Adds the fields that are always there.
pub fn complete(resource: &ResourceType, object: &mut Value) {
    if let (Some(type_name), Value::Object(fields)) = (resource.type_name, object) {
        complete_fields(type_name, fields);
    }
}

fn tidy_fields(type_name: &str, fields: &mut Map<String, Value>) {
    let present = schema::present_fields(type_name);
    fields.retain(|name, value| {
        let Some(field) = schema::field(type_name, name) else {
            return true;
        };
        tidy_value(&field.field_type, value);
        !is_left_out(field, value, present.contains(&name.as_str()))
    });
}

fn tidy_value(field_type: &FieldType, value: &mut Value) {
    match (field_type, value) {
        (FieldType::Object(type_name), Value::Object(fields)) => tidy_fields(type_name, fields),
        (FieldType::List(element_type), Value::Array(elements)) => {
            let elements = elements.iter_mut();
            elements.for_each(|element| tidy_value(element_type, element));
        }
        (FieldType::Map(value_type), Value::Object(entries)) => {
            let values = entries.values_mut();
            values.for_each(|value| tidy_value(value_type, value));
        }
        (FieldType::Quantity, value) => {
            if let Some(quantity) = quantity_of(value) {
                *value = quantity.to_string().into();
            }
        }
        _ => {}
    }
}

/// Whether a field is not written because of its value.
fn is_left_out(field: &Field, value: &Value, is_always_there: bool) -> bool {
    match (&field.field_type, value) {
        (_, Value::Null) => true,
        (FieldType::List(_), Value::Array(elements)) => elements.is_empty() && !is_always_there,
        (FieldType::Map(_), Value::Object(entries)) => entries.is_empty() && !is_always_there,
        (FieldType::Time, Value::String(text)) => text.is_empty(),
        _ if field.is_pointer => false,
        (FieldType::Bool, Value::Bool(flag)) => !flag,
        (FieldType::String | FieldType::Bytes, Value::String(text)) => text.is_empty(),
        (FieldType::Int32 | FieldType::Int64 | FieldType::Double, Value::Number(number)) => {
            number.as_f64() == Some(0.0)
        }
        _ => false,
    }
}

fn complete_fields(type_name: &str, fields: &mut Map<String, Value>) {
    for name in schema::present_fields(type_name) {
        let Some(field) = schema::field(type_name, name) else {
            continue;
        };
        if !fields.contains_key(*name) {
            let is_null = field.is_pointer
                || matches!(
                    field.field_type,
                    FieldType::List(_) | FieldType::Map(_) | FieldType::Time
                );
            let zero = match is_null {
                true => Value::Null,
                false => field.field_type.zero(),
            };
            fields.insert((*name).to_owned(), zero);
        }
    }
    for (name, value) in fields {
        if let Some(field) = schema::field(type_name, name) {
            complete_value(&field.field_type, value);
        }
    }
}

fn complete_value(field_type: &FieldType, value: &mut Value) {
    match (field_type, value) {
        (FieldType::Object(type_name), Value::Object(fields)) => {
            complete_fields(type_name, fields);
        }
        (FieldType::List(element_type), Value::Array(elements)) => {
            let elements = elements.iter_mut();
            elements.for_each(|element| complete_value(element_type, element));
        }
        (FieldType::Map(value_type), Value::Object(entries)) => {
            let values = entries.values_mut();
            values.for_each(|value| complete_value(value_type, value));
        }
        _ => {}
    }
}

/// Does to `target` what makes `after` of `before`: fields that differ are set, fields that are
/// gone are removed, and all else stays. So what a typed view of an object has learnt gets into
/// the object in full. Lists are taken to differ at their ends, or in their elements.
///
/// ```
/// use outrank_api::written_form::carry;
/// use serde_json::json;
///
/// let (before, after) = (json!({"a": [1], "b": 1}), json!({"a": [1, 2]}));
/// let mut target = json!({"a": [1], "b": 1, "more": true});
/// carry(&before, &after, &mut target);
/// assert_eq!(target, json!({"a": [1, 2], "more": true}));
/// ```
pub fn carry(before: &Value, after: &Value, target: &mut Value) {
    match (before, after, target) {
        (before, after, _) if before == after => {}
        (Value::Object(before), Value::Object(after), Value::Object(target)) => {
            for name in before.keys().filter(|name| !after.contains_key(*name)) {
                target.remove(name);
            }
            for (name, value) in after {
                match (before.get(name), target.get_mut(name)) {
                    (Some(before), Some(target)) => carry(before, value, target),
                    (Some(before), None) if before == value => {}
                    _ => {
                        target.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(before), Value::Array(after), Value::Array(target))
            if before.len() == target.len() =>
        {
            for (index, value) in after.iter().enumerate() {
                match (before.get(index), target.get_mut(index)) {
                    (Some(before), Some(target)) => carry(before, value, target),
                    _ => target.push(value.clone()),
                }
            }
            target.truncate(after.len());
        }
        (_, after, target) => *target = after.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode::ObjectKind;

    #[test]
    fn tidying_twice_changes_nothing_more() {
        let mut node = json!({"metadata": {"name": "n", "labels": {}, "creationTimestamp": null},
            "spec": {"unschedulable": false, "taints": []},
            "status": {"capacity": {"cpu": 4, "memory": "1024Mi"}}});
        tidy(ObjectKind::Node.into(), &mut node);
        let once = node.clone();
        assert_eq!(
            once,
            json!({"metadata": {"name": "n"}, "spec": {},
                   "status": {"capacity": {"cpu": "4", "memory": "1Gi"}}})
        );
        tidy(ObjectKind::Node.into(), &mut node);
        assert_eq!(node, once);
    }

    #[test]
    fn what_is_always_there_is_added_once() {
        let mut deployment = json!({"spec": {"template": {"spec": {"containers": [{}]}}}});
        complete(ObjectKind::Deployment.into(), &mut deployment);
        let once = deployment.clone();
        complete(ObjectKind::Deployment.into(), &mut deployment);
        assert_eq!(deployment, once);
        assert_eq!(once["spec"]["selector"], Value::Null);
        assert_eq!(once["spec"]["strategy"], json!({}));
        assert_eq!(
            once["spec"]["template"]["spec"]["containers"],
            json!([{"name": "", "resources": {}}])
        );
    }

    #[test]
    fn what_is_not_typed_is_not_carried_away() {
        let before = json!({"spec": {"list": [{"a": 1}, {"a": 2}]}});
        let after = json!({"spec": {"list": [{"a": 3}]}, "new": 1});
        let mut target = json!({"spec": {"list": [{"a": 1, "x": 1}, {"a": 2}], "y": 1}});
        carry(&before, &after, &mut target);
        assert_eq!(
            target,
            json!({"spec": {"list": [{"a": 3, "x": 1}], "y": 1}, "new": 1})
        );
    }
}

//! What the server writes into objects before admission looks at them.
//!
//! Sources, Kubernetes 1.36: the `PrepareForCreate` and `PrepareForUpdate` of `pkg/registry`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Target;
use crate::custom_types;

/// A new object begins without a status, whatever the client says; only kubelets know better than
/// anyone how their node is.
pub(super) fn new_object(target: &Target, object: &mut Value) {
    let stored = &target.served.stored;
    if stored.has_subresource("status") && stored.kind != "Node" {
        match &*target.served.store_name {
            "namespaces" => object["status"] = json!({"phase": "Active"}),
            "persistentvolumes" | "persistentvolumeclaims" => {
                object["status"] = json!({"phase": "Pending"});
            }
            "pods" => object["status"] = json!({"phase": "Pending"}),
            _ if stored.type_name.is_some() => object["status"] = json!({}),
            _ => {
                if let Value::Object(fields) = object {
                    fields.remove("status");
                }
            }
        }
    }
    match &*target.served.store_name {
        "namespaces" => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
        }
        "secrets" => with_plain_texts(object),
        _ => {}
    }
    custom_types::complete(&target.served.store_name, stored, object);
}

/// An object that takes the place of another.
pub(super) fn changed_object(target: &Target, object: &mut Value) {
    custom_types::complete(&target.served.store_name, &target.served.stored, object);
    if &*target.served.store_name == "secrets" {
        with_plain_texts(object);
    }
}

/// Secrets may be written as text; they are kept encoded.
fn with_plain_texts(secret: &mut Value) {
    let Value::Object(fields) = secret else {
        return;
    };
    let Some(Value::Object(texts)) = fields.remove("stringData") else {
        return;
    };
    let data = fields.entry("data").or_insert_with(|| json!({}));
    if !data.is_object() {
        *data = json!({});
    }
    for (name, text) in texts {
        let text = text.as_str().unwrap_or_default();
        data[name] = STANDARD.encode(text).into();
    }
}

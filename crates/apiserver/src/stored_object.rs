//! Objects as they are stored: JSON text, and the little that must be known without reading it.
//!
//! Most objects are stored to be handed out again as they are, to many clients. So what is kept is
//! the text, with its resourceVersion in it, and not the value: a list is texts one after another,
//! and an event of a watch is a text with a few words before it. Only what selectors look at is
//! kept beside it.
//!
//! `apiVersion` and `kind` are not in the text. One stored object may be served in several
//! versions, and upstream leaves both out in lists.

use std::borrow::Cow;

use bytes::Bytes;
use outrank_api::fields::FieldRequirement;
use outrank_api::labels::Selector;
use outrank_api::resource_type::ResourceType;
use outrank_api::types::StringMap;
use outrank_store::{Key, Record};
use serde_json::{Map, Value};

use crate::selectable_fields::{SelectableFields, values_of};

/// An object as it is stored.
#[derive(Clone, Debug)]
pub struct StoredObject {
    json: Bytes,
    labels: StringMap,
    /// In the order of [`SelectableFields`].
    fields: Box<[Box<str>]>,
    is_deleting: bool,
}

impl StoredObject {
    /// An object of this resource, as the store calls it.
    pub fn new(resource: &str, mut value: Value) -> Self {
        let labels = labels_of(&value);
        let fields = values_of(resource, &value);
        let is_deleting = value.pointer("/metadata/deletionTimestamp");
        let is_deleting = is_deleting.is_some_and(Value::is_string);
        if let Value::Object(fields) = &mut value {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        // Values with string keys and finite numbers always have a JSON form.
        let json = serde_json::to_vec(&value).unwrap_or_default().into();
        Self {
            json,
            labels,
            fields,
            is_deleting,
        }
    }

    /// The text, without `apiVersion` and `kind`.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// The value, with `apiVersion` and `kind`.
    pub fn to_value(&self, resource: &ResourceType) -> Value {
        let mut fields: Map<String, Value> = serde_json::from_slice(&self.json).unwrap_or_default();
        fields.insert("apiVersion".to_owned(), resource.api_version().into());
        fields.insert("kind".to_owned(), resource.kind.as_str().into());
        Value::Object(fields)
    }

    /// The labels.
    pub fn labels(&self) -> &StringMap {
        &self.labels
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.is_deleting
    }

    /// Whether selectors select it.
    pub fn is_selected(&self, key: &Key, selection: &Selection) -> bool {
        let known = SelectableFields::of(&key.resource);
        let by_field = |requirement: &FieldRequirement| {
            let value = known.value(key, &self.fields, &requirement.key);
            (value == requirement.value) == requirement.equal
        };
        let labels = selection.labels.as_ref();
        labels.is_none_or(|it| it.matches(&self.labels)) && selection.fields.iter().all(by_field)
    }
}

/// Which objects are asked for.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// By labels.
    pub labels: Option<Selector>,
    /// By fields, as the store calls them.
    pub fields: Vec<FieldRequirement>,
}

impl Selection {
    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.labels.is_none() && self.fields.is_empty()
    }
}

impl Record for StoredObject {
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.json)
    }

    fn from_bytes(key: &Key, bytes: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match value {
            Value::Object(_) => Ok(Self::new(&key.resource, value)),
            _ => Err("not a JSON object".to_owned()),
        }
    }
}

fn labels_of(value: &Value) -> StringMap {
    let labels = value.pointer("/metadata/labels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    let texts = labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    texts.collect()
}

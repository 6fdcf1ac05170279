//! Schemas of types, made from the tables of [`outrank_api::schema`].

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use outrank_api::resource_type::{ResourceType, split_api_version};
use outrank_api::schema::{self, Field, FieldType, Grain};
use serde_json::{Map, Value, json};

use super::{custom, descriptions};

/// The extension by which clients find the schema of a kind, and the kind of an operation.
pub(super) const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";

/// Types that are written as one value, and yet have a name.
const SCALARS: [(&str, &str); 3] = [
    (
        "intOrString",
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    ),
    ("quantity", "io.k8s.apimachinery.pkg.api.resource.Quantity"),
    ("time", "io.k8s.apimachinery.pkg.apis.meta.v1.Time"),
];

/// Types of what is sent and answered that is no object.
pub(super) const ANSWERS: [&str; 4] = ["APIResourceList", "DeleteOptions", "ListMeta", "Status"];

/// The schema of a type.
pub(super) struct TypeSchema {
    /// The name in documents, such as `io.k8s.api.core.v1.PodSpec`.
    pub(super) name: String,
    /// The schema as JSON.
    pub(super) json: String,
    /// The types that it refers to.
    refers_to: Vec<String>,
}

/// All schemas of the API, by type.
static SCHEMAS: LazyLock<BTreeMap<String, TypeSchema>> = LazyLock::new(|| {
    let mut kinds: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (api_version, kind, type_name) in schema::kinds() {
        let (group, version) = split_api_version(api_version);
        let entry = json!({ "group": group, "kind": kind, "version": version });
        kinds.entry(type_name).or_default().push(entry);
    }
    let mut schemas = BTreeMap::new();
    let mut open: Vec<String> = kinds.keys().map(|it| (*it).to_owned()).collect();
    open.extend(ANSWERS.map(str::to_owned));
    while let Some(type_name) = open.pop() {
        if let Entry::Vacant(place) = schemas.entry(type_name) {
            let of_kinds = kinds
                .get(place.key().as_str())
                .map_or(&[][..], Vec::as_slice);
            let schema = TypeSchema::of(place.key(), of_kinds);
            open.extend(schema.refers_to.iter().cloned());
            place.insert(schema);
        }
    }
    schemas
});

/// The schemas of these types and of all that they refer to.
pub(super) fn reachable<'t>(
    type_names: impl Iterator<Item = &'t str>,
) -> impl Iterator<Item = &'static TypeSchema> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = type_names.collect();
    while let Some(type_name) = open.pop() {
        if let Some((name, schema)) = SCHEMAS.get_key_value(type_name)
            && found.insert(name)
        {
            open.extend(schema.refers_to.iter().map(String::as_str));
        }
    }
    found
        .into_iter()
        .filter_map(|type_name| SCHEMAS.get(type_name))
}

/// The name of the schema of a type, such as `io.k8s.api.core.v1.PodSpec`.
pub(super) fn name_of(type_name: &str) -> String {
    if let Some((_, name)) = SCALARS.iter().find(|(scalar, _)| *scalar == type_name) {
        return (*name).to_owned();
    }
    let last = type_name.rsplit('.').next().unwrap_or(type_name);
    format!("{}.{last}", schema::package(type_name))
}

/// The name of the schema of the objects of a type of resource.
pub(super) fn name_of_kind(it: &ResourceType) -> String {
    it.type_name.map_or_else(|| custom::name(it), name_of)
}

/// A reference to the schema of a name.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A reference to the schema of a type with a description. Beside `$ref` nothing counts, so that
/// it stands in an `allOf`.
pub(super) fn described_reference(type_name: &str, description: &str) -> Value {
    json!({ "allOf": [reference(&name_of(type_name))], "description": description })
}

/// The value of [`GROUP_VERSION_KIND`] in the schema of a kind; the suffix is that of lists.
pub(super) fn kind_of(it: &ResourceType, suffix: &str) -> Value {
    let kind = format!("{}{suffix}", it.kind);
    json!([{ "group": it.group, "kind": kind, "version": it.version }])
}

/// The schema of lists of objects of a type.
pub(super) fn list(it: &ResourceType) -> Value {
    let text = |name| json!({ "type": "string", "description": descriptions::of_any_object(name) });
    json!({
        "type": "object",
        "description": format!("Objects of the kind {}.", it.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": text("apiVersion"),
            "items": { "type": "array", "items": reference(&name_of_kind(it)) },
            "kind": text("kind"),
            "metadata": reference(&name_of("ListMeta")),
        },
        GROUP_VERSION_KIND: kind_of(it, "List"),
    })
}

impl TypeSchema {
    fn of(type_name: &str, kinds: &[Value]) -> Self {
        let mut refers_to = Vec::new();
        let mut schema = match type_name {
            "intOrString" => json!({
                "format": "int-or-string",
                "oneOf": [{ "type": "integer" }, { "type": "string" }],
            }),
            "quantity" => json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
            "time" => json!({ "format": "date-time", "type": "string" }),
            _ => object(type_name, !kinds.is_empty(), &mut refers_to),
        };
        if let Some(text) = descriptions::of_type(type_name) {
            schema["description"] = text.into();
        }
        if !kinds.is_empty() {
            schema[GROUP_VERSION_KIND] = kinds.into();
        }
        TypeSchema {
            name: name_of(type_name),
            json: schema.to_string(),
            refers_to,
        }
    }
}

/// The schema of a type with fields.
fn object(type_name: &str, is_kind: bool, refers_to: &mut Vec<String>) -> Value {
    let fields = schema::fields(type_name);
    let required = fields.iter().filter(|(_, field)| field.is_required);
    let required: Vec<&str> = required.map(|(name, _)| *name).collect();
    let properties = fields.iter().map(|(name, field)| {
        let text = descriptions::of_field(type_name, name);
        let text = text.or_else(|| is_kind.then(|| descriptions::of_any_object(name)));
        (
            (*name).to_owned(),
            property(field, text.filter(|it| !it.is_empty()), refers_to),
        )
    });
    let mut schema = json!({ "type": "object", "properties": properties.collect::<Map<_, _>>() });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    if schema::is_whole(type_name) {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    schema
}

/// The schema of a field: its type and what is said of the field itself.
fn property(field: &Field, description: Option<&str>, refers_to: &mut Vec<String>) -> Value {
    let mut schema = value(&field.field_type, refers_to);
    let mut said = Map::new();
    if let Some(text) = description {
        said.insert("description".into(), text.into());
    }
    if !field.allowed.is_empty() {
        let allowed = Value::from(field.allowed.clone());
        match &field.field_type {
            FieldType::List(_) => schema["items"]["enum"] = allowed,
            _ => schema["enum"] = allowed,
        }
    }
    said.extend(patch_strategy(field));
    said.extend(ownership(field));
    if said.is_empty() {
        schema
    } else if schema.get("$ref").is_some() {
        said.insert("allOf".into(), json!([schema]));
        Value::Object(said)
    } else if let Value::Object(mut schema) = schema {
        schema.extend(said);
        Value::Object(schema)
    } else {
        schema
    }
}

/// How strategic merge patches merge the values of a field.
fn patch_strategy(field: &Field) -> Vec<(String, Value)> {
    let mut strategies = Vec::new();
    if field.merge_key.is_some() || field.merges_scalars {
        strategies.push("merge");
    }
    if field.retains_keys {
        strategies.push("retainKeys");
    }
    let mut said = Vec::new();
    if !strategies.is_empty() {
        let strategies = strategies.join(",");
        said.push(("x-kubernetes-patch-strategy".to_owned(), strategies.into()));
    }
    if let Some(key) = field.merge_key {
        said.push(("x-kubernetes-patch-merge-key".to_owned(), key.into()));
    }
    said
}

/// How server-side apply merges the values of a field.
fn ownership(field: &Field) -> Vec<(String, Value)> {
    let is_list = matches!(field.field_type, FieldType::List(_));
    let list_type = |it: &str| ("x-kubernetes-list-type".to_owned(), Value::from(it));
    match field.stated_grain() {
        Some(Grain::Keys(keys)) => {
            vec![
                list_type("map"),
                ("x-kubernetes-list-map-keys".to_owned(), keys.into()),
            ]
        }
        Some(Grain::Parts) if is_list => vec![list_type("set")],
        Some(Grain::Whole) if is_list => vec![list_type("atomic")],
        Some(Grain::Whole) => vec![("x-kubernetes-map-type".to_owned(), "atomic".into())],
        Some(Grain::Parts) | None => Vec::new(),
    }
}

/// The schema of values of a type.
fn value(field_type: &FieldType, refers_to: &mut Vec<String>) -> Value {
    let mut named = |type_name: &str| {
        refers_to.push(type_name.to_owned());
        reference(&name_of(type_name))
    };
    match field_type {
        FieldType::Any => json!({ "x-kubernetes-preserve-unknown-fields": true }),
        FieldType::Bool => json!({ "type": "boolean" }),
        FieldType::Bytes => json!({ "type": "string", "format": "byte" }),
        FieldType::Double => json!({ "type": "number", "format": "double" }),
        FieldType::Int32 => json!({ "type": "integer", "format": "int32" }),
        FieldType::Int64 => json!({ "type": "integer", "format": "int64" }),
        FieldType::IntOrString => named("intOrString"),
        FieldType::Quantity => named("quantity"),
        FieldType::String => json!({ "type": "string" }),
        FieldType::Time => named("time"),
        FieldType::Object(type_name) => named(type_name),
        FieldType::List(inner) => json!({ "type": "array", "items": value(inner, refers_to) }),
        FieldType::Map(inner) => {
            json!({ "type": "object", "additionalProperties": value(inner, refers_to) })
        }
    }
}

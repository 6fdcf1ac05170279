//! Whether the table of messages has all that the table of JSON's types has, and no more.

use std::collections::{BTreeMap, BTreeSet};

use crate::table::{Element, Field, Message, MessageId, Presence, Shape, Table};

const TYPES: &str = include_str!("../../api/src/schema/types.txt");
const RULES: &str = include_str!("../../api/src/schema/go.txt");

/// The types that JSON has.
#[derive(Default)]
struct Types {
    /// Types of fields, by type and name.
    fields: BTreeMap<&'static str, BTreeMap<&'static str, &'static str>>,
    /// By type, fields that are written even if they are zero.
    present: BTreeMap<&'static str, Vec<&'static str>>,
    /// API version, name and type of each kind.
    kinds: Vec<[&'static str; 3]>,
}

impl Types {
    fn read() -> Types {
        let mut types = Types::default();
        let mut name = "";
        for line in TYPES.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [field, field_type, ..] if line.starts_with(' ') => {
                    let fields = types.fields.entry(name).or_default();
                    fields.insert(field, field_type);
                }
                ["type", type_name, ..] => {
                    name = type_name;
                    types.fields.entry(name).or_default();
                }
                ["kind", api_version, kind, type_name] => {
                    types.kinds.push([*api_version, *kind, *type_name]);
                }
                _ => {}
            }
        }
        for line in RULES.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["present", type_name, fields @ ..] = words.as_slice() {
                types.present.insert(type_name, fields.to_vec());
            }
        }
        types
    }

    /// Whether values of the type are objects with a kind of their own.
    fn is_kind(&self, type_name: &str) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.any(|[_, _, name]| *name == type_name)
            || Table::get().kinds().any(|(_, kind)| kind == type_name)
    }
}

/// A walk over both tables at once.
struct Walk {
    types: Types,
    visited: BTreeSet<(&'static str, usize)>,
    differences: Vec<String>,
}

impl Walk {
    fn compare(&mut self, type_name: &'static str, id: MessageId) {
        if !self.visited.insert((type_name, id.index())) {
            return;
        }
        let Some(expected) = self.types.fields.get(type_name).cloned() else {
            return self.differ(type_name, "is no type");
        };
        let mut fields = BTreeMap::new();
        collect(Table::get().message(id), &mut fields);
        for name in self.types.present.remove(type_name).into_iter().flatten() {
            let presence = fields.get(name).map(|field| field.presence);
            if !matches!(presence, Some(Presence::Always | Presence::Nullable)) {
                self.differ(type_name, &format!("always has {name}, not {presence:?}"));
            }
        }
        for (name, field_type) in &expected {
            match fields.remove(name) {
                Some(field) => self.compare_field(type_name, field_type, field),
                // What an object is stands in its envelope.
                None if ["apiVersion", "kind"].contains(name) && self.types.is_kind(type_name) => {}
                None => self.differ(type_name, &format!("has {name}, the message has not")),
            }
        }
        for name in fields.keys() {
            self.differ(type_name, &format!("has no {name}, the message has"));
        }
    }

    fn compare_field(&mut self, type_name: &str, expected: &'static str, field: &Field) {
        let inside = |open, close| expected.strip_prefix(open)?.strip_suffix(close);
        let (expected, shape) = match (inside('[', ']'), inside('{', '}')) {
            (Some(element), _) => (element, Shape::List),
            (_, Some(element)) => (element, Shape::Map),
            _ => (expected, Shape::One),
        };
        let agrees = field.shape == shape
            && match (expected, field.element) {
                ("any", Element::Raw)
                | ("bool", Element::Bool)
                | ("bytes", Element::Bytes)
                | ("double", Element::Double)
                | ("int32", Element::Int32)
                | ("int64", Element::Int64)
                | ("intOrString", Element::IntOrString)
                | ("quantity", Element::Quantity)
                | ("string", Element::String)
                | ("time", Element::Time | Element::MicroTime) => true,
                ("any", Element::Message(id)) => {
                    let message = Table::get().message(id);
                    message.is_union || message.fields.is_empty()
                }
                ("[string]", Element::Message(id)) => Table::get().message(id).is_union,
                (other, Element::Message(id)) => {
                    self.compare(other, id);
                    true
                }
                _ => false,
            };
        if !agrees {
            let name = field.name;
            self.differ(type_name, &format!("has {name} {expected}, not {field:?}"));
        }
    }

    fn differ(&mut self, type_name: &str, what: &str) {
        self.differences.push(format!("{type_name} {what}"));
    }
}

/// The fields that JSON shows of a message, those of inline messages included.
fn collect(message: &'static Message, fields: &mut BTreeMap<&'static str, &'static Field>) {
    for field in &message.fields {
        match (field.presence, field.element) {
            (Presence::Inline, Element::Message(id)) => {
                collect(Table::get().message(id), fields);
            }
            _ => {
                let twice = fields.insert(field.name, field);
                assert!(twice.is_none(), "{} stands twice", field.name);
            }
        }
    }
}

#[test]
fn every_kind_has_a_message_with_the_fields_that_json_has() {
    let mut walk = Walk {
        types: Types::read(),
        visited: BTreeSet::new(),
        differences: Vec::new(),
    };
    for [api_version, kind, type_name] in walk.types.kinds.clone() {
        match Table::get().of_kind(api_version, kind) {
            Some(id) => walk.compare(type_name, id),
            None => walk.differ(type_name, "has no message"),
        }
    }
    assert!(walk.differences.is_empty(), "{:#?}", walk.differences);
    assert!(walk.visited.len() > 400, "{} types", walk.visited.len());
}

#[test]
fn every_resource_has_a_message_and_a_list_unless_it_is_only_created() {
    for resource in outrank_api::resource_type::ResourceType::built_in() {
        let (api_version, kind) = (resource.api_version(), &resource.kind);
        assert!(crate::is_known(&api_version, kind), "{api_version} {kind}");
        let is_listed = crate::is_known(&api_version, &format!("{kind}List"));
        assert_eq!(is_listed, resource.has_verb("list"), "{api_version} {kind}");
    }
}

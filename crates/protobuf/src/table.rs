//! The table of messages, `messages.txt`: which fields a message has, under which number, and
//! which of them JSON shows.

use std::collections::HashMap;
use std::sync::LazyLock;

const MESSAGES: &str = include_str!("messages.txt");

/// All messages.
#[derive(Debug, Default)]
pub(crate) struct Table {
    messages: Vec<Message>,
    /// By kind, the API versions that have it.
    kinds: HashMap<String, Vec<(&'static str, MessageId)>>,
}

/// Which message of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageId(usize);

#[cfg(test)]
impl MessageId {
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

/// A message.
#[derive(Debug)]
pub(crate) struct Message {
    /// The fields, by number.
    pub(crate) fields: Vec<Field>,
    /// Whether JSON has the value of one field in its place.
    pub(crate) is_union: bool,
}

/// A field of a message.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    /// The name in JSON.
    pub(crate) name: &'static str,
    /// What the field is, or what its elements are.
    pub(crate) element: Element,
    pub(crate) shape: Shape,
    pub(crate) presence: Presence,
}

/// How many elements a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    List,
    /// By text.
    Map,
}

/// When JSON shows a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// If it is not zero.
    NotZero,
    /// Even if it is zero.
    Always,
    /// If it is on the wire.
    Optional,
    /// If it is on the wire, and `null` otherwise.
    Nullable,
    /// Never; the fields of the message stand there in its place.
    Inline,
}

/// A type of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Bool,
    Bytes,
    Double,
    Int32,
    Int64,
    IntOrString,
    MicroTime,
    Quantity,
    Raw,
    String,
    Time,
    Message(MessageId),
}

impl Table {
    /// The table of Kubernetes 1.36.
    pub(crate) fn get() -> &'static Table {
        static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(MESSAGES));
        &TABLE
    }

    /// The message of the objects of a kind.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<MessageId> {
        let mut versions = self.kinds.get(kind)?.iter();
        let of_version = versions.find(|(version, _)| [api_version, "*"].contains(version));
        of_version.map(|(_, id)| *id)
    }

    /// The message.
    pub(crate) fn message(&self, id: MessageId) -> &Message {
        &self.messages[id.0]
    }

    /// API versions and kinds, in no order.
    #[cfg(test)]
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let kinds = self.kinds.iter();
        kinds.flat_map(|(kind, versions)| versions.iter().map(|(version, _)| (*version, &**kind)))
    }

    fn read(text: &'static str) -> Table {
        let mut table = Table::default();
        let lines: Vec<Line> = text.lines().filter_map(Line::read).collect();
        let ids = message_ids(&lines);
        for line in &lines {
            match line {
                Line::Message { is_union, .. } => table.messages.push(Message {
                    fields: Vec::new(),
                    is_union: *is_union,
                }),
                Line::Field(words) => {
                    let field = Field::read(words, &ids);
                    if let (Some(message), Some(field)) = (table.messages.last_mut(), field) {
                        message.fields.push(field);
                    }
                }
                Line::Kind { .. } => {}
            }
        }
        // Messages of lists come behind those that have numbers already.
        for line in &lines {
            if let Line::Kind {
                api_version,
                kind,
                message,
                is_listed,
            } = line
                && let Some(id) = ids.get(message)
            {
                table.add_kind(api_version, (*kind).to_owned(), *id);
                if *is_listed && let Some(list_id) = table.add_list(*id, &ids) {
                    table.add_kind(api_version, format!("{kind}List"), list_id);
                }
            }
        }
        table
    }

    fn add_kind(&mut self, api_version: &'static str, kind: String, id: MessageId) {
        let versions = self.kinds.entry(kind).or_default();
        versions.push((api_version, id));
    }

    /// Adds the message of lists of a message. All kinds have lists of the same form.
    fn add_list(&mut self, item: MessageId, ids: &Ids) -> Option<MessageId> {
        let field = |number, name, id, shape| Field {
            number,
            name,
            element: Element::Message(id),
            shape,
            presence: Presence::Always,
        };
        let metadata = *ids.get("ListMeta")?;
        self.messages.push(Message {
            fields: vec![
                field(1, "metadata", metadata, Shape::One),
                field(2, "items", item, Shape::List),
            ],
            is_union: false,
        });
        Some(MessageId(self.messages.len() - 1))
    }
}

type Ids = HashMap<&'static str, MessageId>;

/// A line of the table.
enum Line {
    Kind {
        api_version: &'static str,
        kind: &'static str,
        message: &'static str,
        is_listed: bool,
    },
    Message {
        name: &'static str,
        is_union: bool,
    },
    Field(Vec<&'static str>),
}

impl Line {
    /// Reads a line; `None` for comments, empty lines and what is not understood.
    fn read(line: &'static str) -> Option<Line> {
        let words: Vec<&'static str> = line.split_whitespace().collect();
        if line.starts_with(' ') {
            return Some(Line::Field(words));
        }
        Some(match words.as_slice() {
            ["kind", api_version, kind, message, rest @ ..] => Line::Kind {
                api_version,
                kind,
                message,
                is_listed: matches!(rest, ["list"]),
            },
            [word @ ("message" | "union"), name] => Line::Message {
                name,
                is_union: *word == "union",
            },
            _ => return None,
        })
    }
}

fn message_ids(lines: &[Line]) -> Ids {
    let names = lines.iter().filter_map(|line| match line {
        Line::Message { name, .. } => Some(*name),
        _ => None,
    });
    let numbered = names.enumerate();
    numbered.map(|(id, name)| (name, MessageId(id))).collect()
}

impl Field {
    /// Reads `NUMBER NAME TYPE [PRESENCE]`.
    fn read(words: &[&'static str], ids: &Ids) -> Option<Field> {
        let (number, name, field_type, presence) = match words {
            [number, name, field_type] => (number, name, field_type, Presence::NotZero),
            [number, name, field_type, presence] => {
                (number, name, field_type, Presence::read(presence)?)
            }
            _ => return None,
        };
        let inside = |open, close| field_type.strip_prefix(open)?.strip_suffix(close);
        let (element, shape) = match (inside('[', ']'), inside('{', '}')) {
            (Some(element), _) => (element, Shape::List),
            (_, Some(element)) => (element, Shape::Map),
            _ => (*field_type, Shape::One),
        };
        Some(Field {
            number: number.parse().ok()?,
            name,
            element: Element::read(element, ids)?,
            shape,
            presence,
        })
    }
}

impl Presence {
    fn read(word: &str) -> Option<Presence> {
        Some(match word {
            "always" => Presence::Always,
            "optional" => Presence::Optional,
            "nullable" => Presence::Nullable,
            "inline" => Presence::Inline,
            _ => return None,
        })
    }

    /// Whether a value that is not there differs from one that is zero.
    pub(crate) fn may_be_absent(self) -> bool {
        matches!(self, Presence::Optional | Presence::Nullable)
    }
}

impl Element {
    fn read(word: &str, ids: &Ids) -> Option<Element> {
        Some(match word {
            "bool" => Element::Bool,
            "bytes" => Element::Bytes,
            "double" => Element::Double,
            "int32" => Element::Int32,
            "int64" => Element::Int64,
            "intOrString" => Element::IntOrString,
            "microTime" => Element::MicroTime,
            "quantity" => Element::Quantity,
            "raw" => Element::Raw,
            "string" => Element::String,
            "time" => Element::Time,
            message => Element::Message(*ids.get(message)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_understood() {
        let table = Table::get();
        let count = |start: &str| {
            let lines = MESSAGES.lines().filter(|line| line.starts_with(start));
            lines.count()
        };
        let lists = MESSAGES.lines().filter(|line| line.ends_with(" list"));
        let lists = lists.count();
        let kinds: usize = table.kinds.values().map(Vec::len).sum();
        let fields: usize = table.messages.iter().map(|it| it.fields.len()).sum();
        assert_eq!(kinds, count("kind ") + lists);
        let messages = count("message ") + count("union ");
        assert_eq!(table.messages.len(), messages + lists);
        assert_eq!(fields, count("  ") + 2 * lists);
        let lines: Vec<Line> = MESSAGES.lines().filter_map(Line::read).collect();
        assert_eq!(message_ids(&lines).len(), messages, "a name stands twice");
    }

    #[test]
    fn fields_are_in_the_order_of_their_numbers_and_only_messages_are_inline() {
        for message in &Table::get().messages {
            let numbers = message.fields.iter().map(|it| it.number);
            assert!(numbers.is_sorted_by(|a, b| a < b), "{message:?}");
            for field in &message.fields {
                let is_inline = field.presence == Presence::Inline;
                assert_eq!(is_inline, field.name == "-", "{field:?}");
                if is_inline {
                    assert!(matches!(field.element, Element::Message(_)), "{field:?}");
                    assert_eq!(field.shape, Shape::One, "{field:?}");
                }
            }
        }
    }

    #[test]
    fn a_kind_is_found_in_its_api_version_alone() {
        let table = Table::get();
        assert!(table.of_kind("v1", "Pod").is_some());
        assert!(table.of_kind("v1", "PodList").is_some());
        assert!(table.of_kind("apps/v1", "Pod").is_none());
        assert_ne!(
            table.of_kind("autoscaling/v1", "HorizontalPodAutoscaler"),
            table.of_kind("autoscaling/v2", "HorizontalPodAutoscaler")
        );
        // Every group has the options of requests.
        assert!(table.of_kind("apps/v1", "DeleteOptions").is_some());
        assert!(table.of_kind("v1", "EvictionList").is_none());
    }
}

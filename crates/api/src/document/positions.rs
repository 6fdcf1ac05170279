//! Where fields stand in a text. Asked only when there is something to report, so that
//! reading itself need not remember places.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Location, is_json, json, line_at, yaml};
use crate::diagnostic::{FieldPath, Segment};

/// A question: where does this field of this document stand?
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The document, as it was handed on.
    pub location: Location,
    /// The field in it.
    pub path: &'a FieldPath,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The line, from 1: of the field or, if it is absent, of the nearest field around it.
    pub line: usize,
    /// What is written there, if it is a plain scalar.
    pub text: Option<String>,
}

/// Finds the places of fields in one pass over a text that [`super::read`] has read.
pub fn positions(text: &str, requests: &[Request<'_>]) -> Vec<Place> {
    let mut wanted = Wanted::default();
    let leaves: Vec<NodeId> = requests.iter().map(|request| wanted.add(request)).collect();
    if is_json(text) {
        find_in_json(text, &mut wanted);
    } else {
        find_in_yaml(text, &mut wanted);
    }
    let places = requests.iter().zip(leaves);
    places
        .map(|(request, leaf)| wanted.place(leaf, request.location.line))
        .collect()
}

type NodeId = usize;

/// The wanted paths as a tree; the node 0 is above all documents.
#[derive(Default)]
struct Wanted {
    nodes: Vec<Node>,
    children: HashMap<(NodeId, Step), NodeId>,
}

#[derive(Default)]
struct Node {
    parent: NodeId,
    place: Place,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Step {
    Key(String),
    Index(usize),
}

impl Wanted {
    fn add(&mut self, request: &Request<'_>) -> NodeId {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut node = self.child_or_new(0, Step::Index(request.location.document));
        if let Some(item) = request.location.item {
            node = self.child_or_new(node, Step::Key("items".to_owned()));
            node = self.child_or_new(node, Step::Index(item));
        }
        for segment in request.path.segments() {
            let step = match segment {
                Segment::Field(name) | Segment::Key(name) => Step::Key(name.clone()),
                Segment::Index(index) => Step::Index(*index),
            };
            node = self.child_or_new(node, step);
        }
        node
    }

    fn child_or_new(&mut self, parent: NodeId, step: Step) -> NodeId {
        let nodes = &mut self.nodes;
        *self.children.entry((parent, step)).or_insert_with(|| {
            nodes.push(Node {
                parent,
                place: Place::default(),
            });
            nodes.len() - 1
        })
    }

    fn child(&self, parent: Option<NodeId>, step: Step) -> Option<NodeId> {
        self.children.get(&(parent?, step)).copied()
    }

    /// Notes where a node stands; the first answer stays.
    fn found(&mut self, node: Option<NodeId>, line: usize) {
        let node = node.and_then(|node| self.nodes.get_mut(node));
        if let Some(node) = node
            && node.place.line == 0
        {
            node.place.line = line;
        }
    }

    /// Notes what is written at a node.
    fn written(&mut self, node: Option<NodeId>, text: &str) {
        if let Some(node) = node.and_then(|node| self.nodes.get_mut(node)) {
            node.place.text = Some(text.to_owned());
        }
    }

    fn place(&self, leaf: NodeId, default_line: usize) -> Place {
        let mut node = self.nodes.get(leaf);
        let text = node.and_then(|node| node.place.text.clone());
        while let Some(Node { parent, place }) = node {
            if place.line != 0 {
                return Place {
                    line: place.line,
                    text,
                };
            }
            node = (*parent != 0).then(|| self.nodes.get(*parent)).flatten();
        }
        Place {
            line: default_line,
            text: None,
        }
    }
}

fn find_in_yaml(text: &str, wanted: &mut Wanted) {
    let mut walk = Walk {
        wanted,
        document: 0,
        stack: Vec::new(),
    };
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else { return };
        walk.event(event, span);
    }
}

struct Walk<'w> {
    wanted: &'w mut Wanted,
    document: usize,
    stack: Vec<Level>,
}

/// An open list or map, and where its next element stands in the tree of wanted paths.
struct Level {
    node: Option<NodeId>,
    index: Option<usize>,
    at_key: bool,
    key_node: Option<NodeId>,
}

impl Walk<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) {
        let line = span.start.line();
        match event {
            Event::Scalar(text, style, _, tag) => {
                if self.is_at_key() {
                    let key = yaml::scalar_value(text, style, tag.as_deref()).and_then(yaml::key);
                    self.key(key.ok(), line);
                    return;
                }
                let node = self.value(line);
                if style == ScalarStyle::Plain {
                    self.wanted.written(node, &text);
                }
            }
            Event::Alias(_) if self.is_at_key() => self.key(None, line),
            Event::Alias(_) => {
                self.value(line);
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                let is_list = matches!(event, Event::SequenceStart(..));
                let node = if self.is_at_key() {
                    self.key(None, line);
                    None
                } else {
                    self.value(line)
                };
                let index = is_list.then_some(0);
                self.stack.push(Level {
                    node,
                    index,
                    at_key: !is_list,
                    key_node: None,
                });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.stack.pop();
            }
            Event::DocumentEnd => self.document += 1,
            _ => {}
        }
    }

    fn is_at_key(&self) -> bool {
        self.stack.last().is_some_and(|level| level.at_key)
    }

    fn key(&mut self, key: Option<String>, line: usize) {
        let Some(level) = self.stack.last_mut() else {
            return;
        };
        level.at_key = false;
        level.key_node = key.and_then(|key| self.wanted.child(level.node, Step::Key(key)));
        self.wanted.found(level.key_node, line);
    }

    /// The node of the value that begins here.
    fn value(&mut self, line: usize) -> Option<NodeId> {
        let node = match self.stack.last_mut() {
            None => self.wanted.child(Some(0), Step::Index(self.document)),
            Some(Level {
                node,
                index: Some(index),
                ..
            }) => {
                let step = Step::Index(*index);
                *index += 1;
                self.wanted.child(*node, step)
            }
            Some(level) => {
                level.at_key = true;
                level.key_node
            }
        };
        self.wanted.found(node, line);
        node
    }
}

fn find_in_json(text: &str, wanted: &mut Wanted) {
    let mut finder = JsonFinder {
        text,
        wanted,
        offsets: Vec::new(),
    };
    let mut offset = 0;
    let mut document = 0;
    while let Some(start) = json::next_document(text, offset) {
        let rest = text.get(start..).unwrap_or_default();
        let mut reader = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
        let Some(Ok(raw)) = reader.next() else { break };
        offset = start + reader.byte_offset();
        if let Some(node) = finder.wanted.child(Some(0), Step::Index(document)) {
            finder.find(raw.get(), node);
        }
        document += 1;
    }
    let JsonFinder { mut offsets, .. } = finder;
    offsets.sort_unstable();
    let (mut passed, mut line) = (0, 1);
    for (offset, node) in offsets {
        line += line_at(
            text.as_bytes().get(passed..offset).unwrap_or_default(),
            usize::MAX,
        ) - 1;
        passed = offset;
        wanted.found(Some(node), line);
    }
}

/// Descends into wanted values only; everything else is skipped as raw text.
struct JsonFinder<'t, 'w> {
    text: &'t str,
    wanted: &'w mut Wanted,
    offsets: Vec<(usize, NodeId)>,
}

impl JsonFinder<'_, '_> {
    fn find(&mut self, raw: &str, node: NodeId) {
        let offset = (raw.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        self.offsets.push((offset, node));
        if raw.starts_with(['{', '[']) {
            // An error means that the text is not what was read; then the place is unknown.
            let _ = Inside(self, node).deserialize(&mut serde_json::Deserializer::from_str(raw));
        } else if !raw.starts_with('"') {
            self.wanted.written(Some(node), raw);
        }
    }
}

struct Inside<'f, 't, 'w>(&'f mut JsonFinder<'t, 'w>, NodeId);

impl<'de> DeserializeSeed<'de> for Inside<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Inside<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            let value = map.next_value::<&RawValue>()?;
            if let Some(node) = self
                .0
                .wanted
                .child(Some(self.1), Step::Key(key.into_owned()))
            {
                self.0.find(value.get(), node);
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(value) = list.next_element::<&RawValue>()? {
            if let Some(node) = self.0.wanted.child(Some(self.1), Step::Index(index)) {
                self.0.find(value.get(), node);
            }
            index += 1;
        }
        Ok(())
    }
}

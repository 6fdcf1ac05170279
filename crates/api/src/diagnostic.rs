//! What is wrong with an input: where, what, and what would be right.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The input can be used, but maybe not as its author meant it.
    Warning,
    /// The input cannot be used.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// One thing that is wrong, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Name of the file or other input.
    pub file: Arc<str>,
    /// Line from 1; 0 if it is about the file as a whole.
    pub line: usize,
    /// The field in its object, such as `spec.containers[0].image`; may be empty.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What would be right, if that can be said.
    pub suggestion: Option<String>,
    /// In how many further places of the file the same is wrong with the same field.
    pub more: usize,
}

impl fmt::Display for Diagnostic {
    /// One line: `pods.yaml:12: error: spec.nodeName: expected string, found number; ...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        write!(f, " {}: ", self.severity)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", one_line(&self.path))?;
        }
        f.write_str(&one_line(&self.message))?;
        if let Some(suggestion) = &self.suggestion {
            write!(f, "; {}", one_line(suggestion))?;
        }
        match self.more {
            0 => Ok(()),
            1 => f.write_str(" (and in 1 more place)"),
            more => write!(f, " (and in {more} more places)"),
        }
    }
}

/// Text from an input must not break the line or fill the screen.
fn one_line(text: &str) -> Cow<'_, str> {
    const CHARS_MAX: usize = 400;
    if text.len() <= CHARS_MAX && !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut line: String = text
        .chars()
        .take(CHARS_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        line.push('…');
    }
    Cow::Owned(line)
}

/// A step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// A field of an object: `.name`.
    Field(String),
    /// A key of a map: `[key]`.
    Key(String),
    /// An element of a list: `[0]`.
    Index(usize),
}

/// The way from an object to a field in it, written as upstream writes it
/// (`pkg/util/validation/field`, Kubernetes 1.36).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldPath(Vec<Segment>);

impl FieldPath {
    /// A path of these steps, from the object inwards.
    pub(crate) fn of(segments: Vec<Segment>) -> Self {
        Self(segments)
    }

    /// The steps, from the object inwards.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// The path with every index and key left open, the same for the same field of all
    /// objects of a kind.
    pub fn pattern(&self) -> String {
        self.render(|segment| match segment {
            Segment::Field(name) => Cow::Borrowed(name.as_str()),
            Segment::Key(_) | Segment::Index(_) => Cow::Borrowed("*"),
        })
    }

    fn render<'a>(&'a self, text: impl Fn(&'a Segment) -> Cow<'a, str>) -> String {
        let mut path = String::new();
        for segment in &self.0 {
            match segment {
                Segment::Field(_) if path.is_empty() => path += &text(segment),
                Segment::Field(_) => {
                    path.push('.');
                    path += &text(segment);
                }
                Segment::Key(_) | Segment::Index(_) => {
                    path.push('[');
                    path += &text(segment);
                    path.push(']');
                }
            }
        }
        path
    }
}

impl From<&str> for FieldPath {
    /// A path of fields, written with dots: `spec.limits`.
    fn from(fields: &str) -> Self {
        let fields = fields.split('.').filter(|name| !name.is_empty());
        Self(fields.map(|name| Segment::Field(name.to_owned())).collect())
    }
}

impl From<&Here<'_>> for FieldPath {
    fn from(here: &Here<'_>) -> Self {
        here.path()
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(|segment| match segment {
            Segment::Field(text) | Segment::Key(text) => Cow::Borrowed(text.as_str()),
            Segment::Index(index) => Cow::Owned(index.to_string()),
        }))
    }
}

/// A path under construction while a check goes down into an object. It lives on the stack
/// and costs nothing until a finding makes a [`FieldPath`] of it.
#[derive(Clone, Copy)]
pub(crate) struct Here<'a> {
    parent: Option<&'a Here<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Object,
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Here<'a> {
    /// The object itself.
    pub(crate) const OBJECT: Here<'static> = Here {
        parent: None,
        step: Step::Object,
    };

    pub(crate) const fn field(&'a self, name: &'a str) -> Here<'a> {
        Here {
            parent: Some(self),
            step: Step::Field(name),
        }
    }

    pub(crate) fn key(&'a self, key: &'a str) -> Here<'a> {
        Here {
            parent: Some(self),
            step: Step::Key(key),
        }
    }

    pub(crate) fn index(&'a self, index: usize) -> Here<'a> {
        Here {
            parent: Some(self),
            step: Step::Index(index),
        }
    }

    pub(crate) fn path(&self) -> FieldPath {
        let mut segments = Vec::new();
        let mut here = Some(self);
        while let Some(Here { parent, step }) = here {
            match step {
                Step::Object => {}
                Step::Field(name) => segments.push(Segment::Field((*name).to_owned())),
                Step::Key(key) => segments.push(Segment::Key((*key).to_owned())),
                Step::Index(index) => segments.push(Segment::Index(*index)),
            }
            here = *parent;
        }
        segments.reverse();
        FieldPath(segments)
    }
}

/// Something wrong with an object, its line not yet looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The field.
    pub path: FieldPath,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub suggestion: Suggestion,
}

/// What would be right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Suggestion {
    /// Nothing can be said.
    #[default]
    None,
    /// This.
    Text(String),
    /// The same in quotes; holds the value as JSON, in case what was written is not known.
    Quote(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Findings as they come.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    pub(crate) fn error(&mut self, here: &Here<'_>, message: impl Into<String>) {
        self.add(Severity::Error, here, message.into(), Suggestion::None);
    }

    pub(crate) fn warning(&mut self, here: &Here<'_>, message: impl Into<String>) {
        self.add(Severity::Warning, here, message.into(), Suggestion::None);
    }

    pub(crate) fn warning_at(&mut self, path: FieldPath, message: String) {
        self.0.push(Finding {
            severity: Severity::Warning,
            path,
            message,
            suggestion: Suggestion::None,
        });
    }

    pub(crate) fn add(
        &mut self,
        severity: Severity,
        here: &Here<'_>,
        message: String,
        suggestion: Suggestion,
    ) {
        self.0.push(Finding {
            severity,
            path: here.path(),
            message,
            suggestion,
        });
    }
}

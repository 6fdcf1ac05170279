//! Columns, and those that many kinds have.

use std::borrow::Cow;

use serde::Serialize;

/// The definition of a column of a table, as it stands in `columnDefinitions`.
///
/// kubectl prints the name in capitals as the heading, shows columns of priority 0 always and
/// others with `-o wide` only, and finds out what to print first by the format `name`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// The heading, such as `Ready`.
    pub name: Cow<'static, str>,
    /// The type of the cells in the words of OpenAPI: `string`, `integer`, `number`, `boolean`,
    /// or `date`. Upstream does not keep to it in all columns of its own.
    #[serde(rename = "type")]
    pub type_: Cow<'static, str>,
    /// `name` for the column that identifies the object; empty, or a format of OpenAPI,
    /// otherwise.
    pub format: Cow<'static, str>,
    /// What is in the column, in a sentence.
    pub description: Cow<'static, str>,
    /// 0 for columns that are always shown; the greater, the less important.
    pub priority: i32,
}

/// The definition of a column of a built-in type, which needs no memory of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heading {
    pub(super) name: &'static str,
    pub(super) type_: &'static str,
    pub(super) format: &'static str,
    pub(super) description: &'static str,
    pub(super) priority: i32,
}

impl Heading {
    /// The same, shown with `-o wide` only.
    pub(super) const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    /// The same with another format.
    pub(super) const fn formatted(mut self, format: &'static str) -> Self {
        self.format = format;
        self
    }
}

impl From<Heading> for Column {
    fn from(heading: Heading) -> Self {
        Self {
            name: Cow::Borrowed(heading.name),
            type_: Cow::Borrowed(heading.type_),
            format: Cow::Borrowed(heading.format),
            description: Cow::Borrowed(heading.description),
            priority: heading.priority,
        }
    }
}

/// The name of the object.
pub(super) const NAME: Heading = text("Name", "The name of the object.").formatted("name");

/// How long ago the object was created.
pub(super) const AGE: Heading = text("Age", "How long ago the object was created.");

/// The names of the containers of a pod template, shown with `-o wide`.
pub(super) const CONTAINERS: Heading =
    text("Containers", "The names of the containers in the template.").wide();

/// The images of the containers of a pod template, shown with `-o wide`.
pub(super) const IMAGES: Heading =
    text("Images", "The images of the containers in the template.").wide();

/// A label selector, shown with `-o wide`.
pub(super) const SELECTOR: Heading = text(
    "Selector",
    "The labels of the pods that the object is about.",
)
.wide();

/// A column of strings.
pub(super) const fn text(name: &'static str, description: &'static str) -> Heading {
    column(name, "string", description)
}

/// A column of integers.
pub(super) const fn integer(name: &'static str, description: &'static str) -> Heading {
    column(name, "integer", description)
}

/// A column of booleans.
pub(super) const fn boolean(name: &'static str, description: &'static str) -> Heading {
    column(name, "boolean", description)
}

/// A column of points in time.
pub(super) const fn date(name: &'static str, description: &'static str) -> Heading {
    column(name, "date", description)
}

const fn column(name: &'static str, type_: &'static str, description: &'static str) -> Heading {
    Heading {
        name,
        type_,
        format: "",
        description,
        priority: 0,
    }
}

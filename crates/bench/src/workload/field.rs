//! A value in a workload file, which knows its path.

use serde_json::{Map, Value};

/// What is wrong with a field.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) path: String,
    pub(super) message: String,
}

/// A value and the path to it, such as `[0].workloads[2].params`.
pub(super) struct Field<'a> {
    pub(super) path: String,
    pub(super) value: &'a Value,
}

/// An object whose fields are all known.
pub(super) struct Fields<'a> {
    path: String,
    fields: &'a Map<String, Value>,
}

impl<'a> Field<'a> {
    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem {
            path: self.path.clone(),
            message: message.into(),
        }
    }

    fn expected(&self, what: &str) -> Problem {
        let found = match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.problem(format!("expected {what}, found {found}"))
    }

    pub(super) fn text(&self) -> Result<&'a str, Problem> {
        self.value.as_str().ok_or_else(|| self.expected("a text"))
    }

    pub(super) fn boolean(&self) -> Result<bool, Problem> {
        self.value
            .as_bool()
            .ok_or_else(|| self.expected("true or false"))
    }

    /// A number of objects.
    pub(super) fn count(&self, most: usize) -> Result<usize, Problem> {
        let count = self
            .value
            .as_u64()
            .and_then(|count| usize::try_from(count).ok());
        match count {
            Some(count) if count <= most => Ok(count),
            None if !self.value.is_number() => Err(self.expected("a number")),
            _ => Err(self.problem(format!(
                "expected a whole number from 0 to {most}, found {}",
                self.value
            ))),
        }
    }

    pub(super) fn list(&self) -> Result<Vec<Field<'a>>, Problem> {
        let items = self
            .value
            .as_array()
            .ok_or_else(|| self.expected("a list"))?;
        let items = items.iter().enumerate();
        Ok(items
            .map(|(i, value)| Field {
                path: format!("{}[{i}]", self.path),
                value,
            })
            .collect())
    }

    pub(super) fn list_of_at_most(&self, most: usize) -> Result<Vec<Field<'a>>, Problem> {
        let items = self.list()?;
        if items.len() > most {
            let message = format!(
                "there may be at most {most} of these, found {}",
                items.len()
            );
            return Err(self.problem(message));
        }
        Ok(items)
    }

    /// All entries of a map with keys of any kind.
    pub(super) fn entries(&self) -> Result<Vec<(&'a str, Field<'a>)>, Problem> {
        let entries = self
            .value
            .as_object()
            .ok_or_else(|| self.expected("an object"))?;
        let field = |key: &str, value| Field {
            path: format!("{}.{key}", self.path),
            value,
        };
        Ok(entries
            .iter()
            .map(|(key, value)| (key.as_str(), field(key, value)))
            .collect())
    }

    pub(super) fn object(&self, known: &[&str]) -> Result<Fields<'a>, Problem> {
        let fields = self
            .value
            .as_object()
            .ok_or_else(|| self.expected("an object"))?;
        if let Some(unknown) = fields.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(Problem {
                path: format!("{}.{unknown}", self.path),
                message: format!("there is no such field; there are {}", known.join(", ")),
            });
        }
        Ok(Fields {
            path: self.path.clone(),
            fields,
        })
    }
}

impl<'a> Fields<'a> {
    /// A field, unless it is absent or null.
    pub(super) fn get(&self, key: &str) -> Option<Field<'a>> {
        let value = self.fields.get(key).filter(|value| !value.is_null())?;
        Some(Field {
            path: format!("{}.{key}", self.path),
            value,
        })
    }

    pub(super) fn require(&self, key: &str) -> Result<Field<'a>, Problem> {
        self.get(key).ok_or_else(|| Problem {
            path: format!("{}.{key}", self.path),
            message: "is missing".to_owned(),
        })
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, Problem> {
        self.get(key).map(|field| field.text()).transpose()
    }

    /// A boolean that is false if absent.
    pub(super) fn flag(&self, key: &str) -> Result<bool, Problem> {
        self.get(key).map_or(Ok(false), |field| field.boolean())
    }

    /// A list of texts that is empty if absent.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, Problem> {
        let Some(field) = self.get(key) else {
            return Ok(Vec::new());
        };
        field
            .list()?
            .iter()
            .map(|item| Ok(item.text()?.to_owned()))
            .collect()
    }
}

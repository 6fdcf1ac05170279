//! Reading the fields of an object, with errors that name their path.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::ConfigError;

/// What is said of a field that nobody read.
pub(crate) const NO_SUCH_FIELD: &str = "there is no such field";

/// The fields of an object that have not been read yet.
pub(crate) struct Fields<'v> {
    path: String,
    unread: BTreeMap<&'v str, &'v Value>,
}

impl<'v> Fields<'v> {
    /// The fields of `value`, which is at `path`; `null` has none.
    pub(crate) fn of(value: &'v Value, path: &str, errors: &mut Vec<ConfigError>) -> Option<Self> {
        let unread = match value {
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| (key.as_str(), value))
                .collect(),
            Value::Null => BTreeMap::new(),
            _ => {
                let message = format!("expected an object, found {value}");
                errors.push(ConfigError {
                    path: path.to_owned(),
                    message,
                });
                return None;
            }
        };
        Some(Self {
            path: path.to_owned(),
            unread,
        })
    }

    /// The path of a field.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// Reads a field, whatever it holds.
    pub(crate) fn take(&mut self, name: &str) -> Option<(String, &'v Value)> {
        let value = self.unread.remove(name)?;
        Some((self.path(name), value))
    }

    /// Reads a field that holds a string.
    pub(crate) fn text(
        &mut self,
        name: &str,
        errors: &mut Vec<ConfigError>,
    ) -> Option<(String, &'v str)> {
        let (path, value) = self.take(name)?;
        self.typed(path, value, value.as_str(), "a string", errors)
    }

    /// Reads a field that holds an integer.
    pub(crate) fn integer(
        &mut self,
        name: &str,
        errors: &mut Vec<ConfigError>,
    ) -> Option<(String, i64)> {
        let (path, value) = self.take(name)?;
        self.typed(path, value, value.as_i64(), "an integer", errors)
    }

    /// Reads a field that holds `true` or `false`.
    pub(crate) fn boolean(&mut self, name: &str, errors: &mut Vec<ConfigError>) -> Option<bool> {
        let (path, value) = self.take(name)?;
        self.typed(path, value, value.as_bool(), "true or false", errors)
            .map(|(_, value)| value)
    }

    /// Reads a field that holds a number.
    pub(crate) fn number(&mut self, name: &str, errors: &mut Vec<ConfigError>) -> Option<f64> {
        let (path, value) = self.take(name)?;
        self.typed(path, value, value.as_f64(), "a number", errors)
            .map(|(_, value)| value)
    }

    /// Reads a field that holds an object; `null` is none.
    pub(crate) fn object(
        &mut self,
        name: &str,
        errors: &mut Vec<ConfigError>,
    ) -> Option<Fields<'v>> {
        let (path, value) = self.take(name)?;
        if value.is_null() {
            return None;
        }
        Fields::of(value, &path, errors)
    }

    /// Reads a field that holds a list.
    pub(crate) fn list(
        &mut self,
        name: &str,
        errors: &mut Vec<ConfigError>,
    ) -> Option<(String, &'v [Value])> {
        let (path, value) = self.take(name)?;
        self.typed(
            path,
            value,
            value.as_array().map(Vec::as_slice),
            "a list",
            errors,
        )
    }

    /// Reads a field that holds a list of strings.
    pub(crate) fn texts(&mut self, name: &str, errors: &mut Vec<ConfigError>) -> Vec<String> {
        let Some((path, list)) = self.list(name, errors) else {
            return Vec::new();
        };
        let mut texts = Vec::new();
        for (index, value) in list.iter().enumerate() {
            match value.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => errors.push(ConfigError {
                    path: format!("{path}[{index}]"),
                    message: format!("expected a string, found {value}"),
                }),
            }
        }
        texts
    }

    /// Reads a field that must be there with one value.
    pub(crate) fn constant(&mut self, name: &str, expected: &str, errors: &mut Vec<ConfigError>) {
        let found = self.take(name).map(|(_, value)| value);
        if found.and_then(Value::as_str) != Some(expected) {
            let found = found.map_or("nothing".to_owned(), Value::to_string);
            let message = format!("expected {expected:?}, found {found}");
            errors.push(ConfigError {
                path: self.path(name),
                message,
            });
        }
    }

    /// Whether all fields have been read.
    pub(crate) fn is_read(&self) -> bool {
        self.unread.is_empty()
    }

    /// Reports the fields that nobody read.
    pub(crate) fn finish(self, errors: &mut Vec<ConfigError>) {
        for name in self.unread.keys() {
            let message = NO_SUCH_FIELD.to_owned();
            errors.push(ConfigError {
                path: self.path(name),
                message,
            });
        }
    }

    fn typed<T>(
        &self,
        path: String,
        value: &Value,
        typed: Option<T>,
        expected: &str,
        errors: &mut Vec<ConfigError>,
    ) -> Option<(String, T)> {
        match typed {
            Some(typed) => Some((path, typed)),
            None if value.is_null() => None,
            None => {
                let message = format!("expected {expected}, found {value}");
                errors.push(ConfigError { path, message });
                None
            }
        }
    }
}

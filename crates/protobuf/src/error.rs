//! What can be wrong with what is decoded or encoded.

use std::fmt::Display;

/// Why a body could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The body does not begin as it must.
    #[error("the body must begin with \"k8s\\0\", as objects in protocol buffers do")]
    NoMagic,
    /// The envelope has no `apiVersion`.
    #[error("apiVersion: must be set in the envelope")]
    NoApiVersion,
    /// The envelope has no `kind`.
    #[error("kind: must be set in the envelope")]
    NoKind,
    /// There is no such message.
    #[error("there is no message for kind {kind:?} of {api_version:?}")]
    UnknownKind {
        /// The API version in the envelope.
        api_version: String,
        /// The kind in the envelope.
        kind: String,
    },
    /// What is in the envelope is neither a message nor JSON, or is compressed.
    #[error(
        "{field}: {value:?} in the envelope is not understood; \
         contentType must be empty, {PROTOBUF:?} or {JSON:?}, and contentEncoding empty"
    )]
    UnknownContent {
        /// The field of the envelope.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// The object is not what it should be.
    #[error("{path}: {problem}")]
    Malformed {
        /// The field, such as `spec.containers[0].image`.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// Why an object could not be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The object has no such field, or it is no text.
    #[error("{0}: must be a text")]
    NoType(&'static str),
    /// There is no message for such objects, as for those of custom resources.
    #[error("there is no message for kind {kind:?} of {api_version:?}")]
    UnknownKind {
        /// The API version of the object.
        api_version: String,
        /// The kind of the object.
        kind: String,
    },
    /// A value is not what its field demands.
    #[error("{path}: {problem}")]
    Malformed {
        /// The field, such as `spec.containers[0].image`.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
}

pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(crate) const JSON: &str = "application/json";

/// What is wrong with a value, and where; the place is completed on the way out.
#[derive(Debug)]
pub(crate) struct Fault {
    path: String,
    problem: String,
}

impl Fault {
    pub(crate) fn new(problem: impl Display) -> Fault {
        Fault {
            path: String::new(),
            problem: problem.to_string(),
        }
    }

    /// The same, in a field of what it was in.
    pub(crate) fn in_field(mut self, name: &str) -> Fault {
        let separator = match self.path.as_bytes() {
            [] | [b'[', ..] => "",
            _ => ".",
        };
        self.path = format!("{name}{separator}{}", self.path);
        self
    }

    /// The same, in an element of what it was in.
    pub(crate) fn in_element(self, key: impl Display) -> Fault {
        self.in_field(&format!("[{key}]"))
    }

    /// Path and problem, in an object of a kind.
    pub(crate) fn of_object(self, kind: &str) -> (String, String) {
        let path = if self.path.is_empty() {
            kind.to_owned()
        } else {
            self.path
        };
        (path, self.problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_completed_on_the_way_out() {
        let fault = Fault::new("bad").in_field("name").in_element(3);
        let fault = fault.in_field("containers").in_field("spec");
        let expected = ("spec.containers[3].name".to_owned(), "bad".to_owned());
        assert_eq!(fault.of_object("Pod"), expected);
        assert_eq!(Fault::new("bad").of_object("Pod").0, "Pod");
        let fault = Fault::new("bad").in_element("app").in_field("labels");
        assert_eq!(fault.of_object("Pod").0, "labels[app]");
    }
}

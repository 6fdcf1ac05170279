//! `Status`: what the API server answers where it does not answer with an object.
//!
//! Every failure has a code (that of HTTP), a reason (one word for programs), a message (for
//! people) and details. Clients look at all of them: kubectl prints the message, controllers
//! retry on `Conflict`, and humans search for the texts. Sources: `Status` in
//! `k8s.io/apimachinery/pkg/apis/meta/v1/types.go`, the constructors in
//! `k8s.io/apimachinery/pkg/api/errors/errors.go`, Kubernetes 1.36.
//!
//! ```
//! use outrank_api::decode::ObjectKind;
//! use outrank_api::status::Status;
//!
//! let status = Status::not_found(ObjectKind::PriorityClass.resource(), "high");
//! assert_eq!(status.code, 404);
//! assert_eq!(status.message, "priorityclasses.scheduling.k8s.io \"high\" not found");
//! ```

use std::fmt;

use serde::{Serialize, Serializer};

use crate::field_error::FieldError;
use crate::names::{joined_errors, quoted};

/// How much is said of what is wrong with an object, in bytes of fields and messages: as much as
/// the body of a request may have.
pub const INVALID_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The name of a resource or kind with its API group, which is empty for the core group.
/// Displays as `name.group`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Qualified<'n> {
    /// The group, such as `apps`.
    pub group: &'n str,
    /// The name, such as `deployments` or `Deployment`.
    pub name: &'n str,
}

impl fmt::Display for Qualified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            "" => f.write_str(self.name),
            group => write!(f, "{}.{group}", self.name),
        }
    }
}

/// Why a request failed, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Reason {
    /// The request itself is wrong.
    BadRequest,
    /// The client has not said who it is, or wrongly.
    Unauthorized,
    /// What was asked is not allowed.
    Forbidden,
    /// There is no such object.
    NotFound,
    /// There is one already.
    AlreadyExists,
    /// The object is not as the client believes.
    Conflict,
    /// Something is wrong with the object.
    Invalid,
    /// The server cannot do it.
    InternalError,
    /// The resource has no such operation.
    MethodNotAllowed,
    /// The body is of a form that the server does not read.
    UnsupportedMediaType,
    /// The body is larger than the server reads.
    RequestEntityTooLarge,
    /// The version that was asked for is too old.
    Expired,
    /// The client must come back later.
    TooManyRequests,
    /// It took too long, or cannot be waited for.
    Timeout,
    /// The client accepts no form that the server writes.
    NotAcceptable,
}

/// An answer that is not an object. Serializes as `v1` Status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The HTTP code; 0 in a success, whose code the server knows by itself.
    pub code: u16,
    /// One word; absent if the failure has none (an error of a plugin that knows of no HTTP).
    pub reason: Option<Reason>,
    /// For people.
    pub message: String,
    /// What it is about.
    pub details: Option<Box<StatusDetails>>,
    /// A token to go on with a list that was interrupted; mostly empty.
    pub continue_token: String,
}

/// `details` of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusDetails {
    /// Name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind or resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// UID of the object, in answers to deletions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// What exactly is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// When the client may try again, in seconds from now; 0 if that is not said.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One of `causes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusCause {
    /// One word, such as `FieldValueInvalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Path of the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Status {
    /// The object was deleted.
    pub fn deleted(resource: Qualified<'_>, name: &str, uid: &str) -> Self {
        let details = StatusDetails {
            uid: uid.to_owned(),
            ..StatusDetails::of(resource, name)
        };
        Self {
            code: 0,
            reason: None,
            message: String::new(),
            details: Some(Box::new(details)),
            continue_token: String::new(),
        }
    }

    /// There is no object of this name.
    pub fn not_found(resource: Qualified<'_>, name: &str) -> Self {
        let message = format!("{resource} {} not found", quoted(name));
        Self::about(404, Reason::NotFound, resource, name, message)
    }

    /// The name is taken.
    pub fn already_exists(resource: Qualified<'_>, name: &str) -> Self {
        let message = format!("{resource} {} already exists", quoted(name));
        Self::about(409, Reason::AlreadyExists, resource, name, message)
    }

    /// The object is not as the client believes.
    pub fn conflict(resource: Qualified<'_>, name: &str, why: impl fmt::Display) -> Self {
        let name_shown = quoted(name);
        let message = format!("Operation cannot be fulfilled on {resource} {name_shown}: {why}");
        Self::about(409, Reason::Conflict, resource, name, message)
    }

    /// The object has changed since the client read it.
    pub fn modified_since(resource: Qualified<'_>, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(resource, name, why)
    }

    /// The client shows credentials that are wrong.
    pub fn unauthorized() -> Self {
        Self::plain(401, Reason::Unauthorized, "Unauthorized")
    }

    /// It is not allowed. `name` may be empty where no object is meant.
    pub fn forbidden(resource: Qualified<'_>, name: &str, why: impl fmt::Display) -> Self {
        let message = match (resource.name, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{resource} is forbidden: {why}"),
            _ => format!("{resource} {} is forbidden: {why}", quoted(name)),
        };
        Self::about(403, Reason::Forbidden, resource, name, message)
    }

    /// Something is wrong with an object of this kind. A mistake that is found twice is told
    /// once in the message, and counts twice in the causes. If there is more to say than
    /// [`INVALID_BYTES_MAX`] the rest is counted and left out; upstream says it all.
    pub fn invalid(kind: Qualified<'_>, name: &str, errors: &[FieldError]) -> Self {
        let (mut causes, mut texts, mut bytes) = (Vec::new(), Vec::new(), 0);
        for error in errors {
            let (field, message) = (error.path.to_string(), error.body());
            texts.push(format!("{field}: {message}"));
            bytes += field.len() + message.len();
            causes.push(StatusCause {
                reason: error.error_type.name().to_owned(),
                message,
                field,
            });
            if bytes >= INVALID_BYTES_MAX {
                break;
            }
        }
        let left = errors.len().saturating_sub(causes.len());
        texts.extend((left > 0).then(|| format!("and {left} more")));
        let mut message = format!("{kind} {} is invalid", quoted(name));
        if !texts.is_empty() {
            message = format!("{message}: {}", joined_errors(&texts));
        }
        let details = StatusDetails {
            causes,
            ..StatusDetails::of(kind, name)
        };
        Self {
            details: Some(Box::new(details)),
            ..Self::plain(422, Reason::Invalid, message)
        }
    }

    /// The patch cannot be applied to the object.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::plain(422, Reason::Invalid, message)
    }

    /// The request itself is wrong.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(400, Reason::BadRequest, message)
    }

    /// The body has a content type that is not one of `supported`.
    pub fn unsupported_media_type(supported: &[&str]) -> Self {
        let supported = supported.join(", ");
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: \
             {supported}"
        );
        Self::plain(415, Reason::UnsupportedMediaType, message)
    }

    /// The request is larger than what the server takes.
    pub fn too_large(message: impl fmt::Display) -> Self {
        let message = format!("Request entity is too large: {message}");
        Self::plain(413, Reason::RequestEntityTooLarge, message)
    }

    /// The resource has no such operation.
    pub fn method_not_allowed(resource: Qualified<'_>, action: &str) -> Self {
        let name_shown = quoted(&resource.to_string());
        let message = format!("{action} is not supported on resources of kind {name_shown}");
        Self::about(405, Reason::MethodNotAllowed, resource, "", message)
    }

    /// Something failed that is not the client's fault.
    pub fn internal_error(why: impl fmt::Display) -> Self {
        let cause = StatusCause {
            message: why.to_string(),
            ..StatusCause::default()
        };
        let details = StatusDetails {
            causes: vec![cause],
            ..StatusDetails::default()
        };
        Self {
            details: Some(Box::new(details)),
            ..Self::plain(
                500,
                Reason::InternalError,
                format!("Internal error occurred: {why}"),
            )
        }
    }

    /// An error that is not an answer, and of which the server therefore knows no more than
    /// its text: code 500, no reason.
    pub fn unknown_error(message: impl Into<String>) -> Self {
        Self {
            code: 500,
            reason: None,
            message: message.into(),
            details: None,
            continue_token: String::new(),
        }
    }

    /// Whether the request did what was asked.
    pub fn is_success(&self) -> bool {
        self.code == 0
    }

    fn about(
        code: u16,
        reason: Reason,
        subject: Qualified<'_>,
        name: &str,
        message: String,
    ) -> Self {
        Self {
            details: Some(Box::new(StatusDetails::of(subject, name))),
            ..Self::plain(code, reason, message)
        }
    }

    fn plain(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: Some(reason),
            message: message.into(),
            details: None,
            continue_token: String::new(),
        }
    }
}

impl StatusDetails {
    fn of(subject: Qualified<'_>, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            group: subject.group.to_owned(),
            kind: subject.name.to_owned(),
            ..Self::default()
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Metadata<'s> {
            #[serde(rename = "continue", skip_serializing_if = "str::is_empty")]
            continue_token: &'s str,
        }

        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Written<'s> {
            kind: &'static str,
            api_version: &'static str,
            metadata: Metadata<'s>,
            status: &'static str,
            #[serde(skip_serializing_if = "str::is_empty")]
            message: &'s str,
            #[serde(skip_serializing_if = "Option::is_none")]
            reason: Option<Reason>,
            #[serde(skip_serializing_if = "Option::is_none")]
            details: Option<&'s StatusDetails>,
            #[serde(skip_serializing_if = "Option::is_none")]
            code: Option<u16>,
        }

        let is_success = self.is_success();
        let written = Written {
            kind: "Status",
            api_version: "v1",
            metadata: Metadata {
                continue_token: &self.continue_token,
            },
            status: if is_success { "Success" } else { "Failure" },
            message: &self.message,
            reason: self.reason,
            details: self.details.as_deref(),
            code: (!is_success).then_some(self.code),
        };
        written.serialize(serializer)
    }
}

/// The value of a `Warning` header of HTTP (RFC 7234) that says `text`.
///
/// ```
/// let header = outrank_api::status::warning_header("unknown field \"a\"");
/// assert_eq!(header, r#"299 - "unknown field \"a\"""#);
/// ```
pub fn warning_header(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    let one_line: String = escaped.chars().filter(|c| !c.is_control()).collect();
    format!("299 - \"{one_line}\"")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CLASSES: Qualified<'static> = Qualified {
        group: "scheduling.k8s.io",
        name: "priorityclasses",
    };
    const PODS: Qualified<'static> = Qualified {
        group: "",
        name: "pods",
    };

    #[test]
    fn a_status_is_written_as_clients_read_it() {
        let status = Status::forbidden(PODS, "p", "not you");
        assert_eq!(
            serde_json::to_value(&status).expect("JSON"),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "pods \"p\" is forbidden: not you", "reason": "Forbidden",
                "details": {"name": "p", "kind": "pods"}, "code": 403,
            })
        );
        let status = Status::deleted(CLASSES, "high", "");
        assert_eq!(
            serde_json::to_value(&status).expect("JSON"),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {
                    "name": "high", "group": "scheduling.k8s.io", "kind": "priorityclasses",
                },
            })
        );
    }

    #[test]
    fn of_too_much_that_is_wrong_the_rest_is_counted() {
        let kind = Qualified {
            group: "",
            name: "Pod",
        };
        let detail = "x".repeat(1024);
        let errors: Vec<FieldError> = (0..100_000)
            .map(|number| FieldError::invalid("spec.hostname", number, detail.as_str()))
            .collect();
        let status = Status::invalid(kind, "p", &errors);
        let causes = status.details.map_or(0, |it| it.causes.len());
        assert!((2_900..3_000).contains(&causes), "{causes}");
        assert!(status.message.len() < INVALID_BYTES_MAX + 64 * 1024);
        let left = format!(", and {} more]", errors.len() - causes);
        assert!(status.message.ends_with(&left));
    }

    #[test]
    fn mistakes_are_told_once_and_counted_twice() {
        let kind = Qualified {
            group: "scheduling.k8s.io",
            name: "PriorityClass",
        };
        let twice = FieldError::forbidden("value", "no");
        let other = FieldError::required("preemptionPolicy", "");
        let status = Status::invalid(kind, "high", &[twice.clone(), twice.clone()]);
        assert_eq!(
            status.message,
            "PriorityClass.scheduling.k8s.io \"high\" is invalid: value: Forbidden: no"
        );
        assert_eq!(status.details.map(|it| it.causes.len()), Some(2));
        let status = Status::invalid(kind, "high", &[twice, other]);
        assert_eq!(
            status.message,
            "PriorityClass.scheduling.k8s.io \"high\" is invalid: [value: Forbidden: no, \
             preemptionPolicy: Required value]"
        );
    }

    #[test]
    fn each_failure_has_code_and_words() {
        for (status, code, message) in [
            (
                Status::already_exists(CLASSES, "a"),
                409,
                "priorityclasses.scheduling.k8s.io \"a\" already exists",
            ),
            (
                Status::modified_since(PODS, "p"),
                409,
                "Operation cannot be fulfilled on pods \"p\": the object has been modified; \
                 please apply your changes to the latest version and try again",
            ),
            (
                Status::forbidden(PODS, "", "x"),
                403,
                "pods is forbidden: x",
            ),
            (
                Status::method_not_allowed(CLASSES, "update"),
                405,
                "update is not supported on resources of kind \"priorityclasses.scheduling.k8s.io\"",
            ),
            (
                Status::internal_error("x"),
                500,
                "Internal error occurred: x",
            ),
            (Status::unknown_error("x"), 500, "x"),
        ] {
            assert_eq!((status.code, status.message.as_str()), (code, message));
        }
    }
}

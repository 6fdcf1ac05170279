//! From text to the fields of a policy, strictly: every field must exist, be of its type and
//! be there once.

use outrank_api::document::{self, Document, DuplicateKey, Receiver};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::extender;
use super::{PolicyError, Reading, Stage, problem};
use crate::ConfigError;
use crate::ExtenderConfig;
use crate::fields::{Fields, NO_SUCH_FIELD};

/// A policy as it is written. An absent list is not an empty one: it means the defaults.
#[derive(Debug, Default)]
pub(super) struct PolicyFile {
    pub(super) predicates: Option<Vec<Predicate>>,
    pub(super) priorities: Option<Vec<Priority>>,
    pub(super) extenders: Vec<ExtenderConfig>,
    /// 0 is as good as absent.
    pub(super) hard_pod_affinity_symmetric_weight: i32,
    pub(super) always_check_all_predicates: bool,
}

/// An entry of `predicates`.
#[derive(Debug, Default)]
pub(super) struct Predicate {
    pub(super) name: String,
    pub(super) argument: Option<PredicateArgument>,
    pub(super) order: Option<i64>,
}

#[derive(Debug, Default)]
pub(super) struct PredicateArgument {
    /// Labels.
    pub(super) service_affinity: Option<Vec<String>>,
    /// Labels, and whether a node must have them.
    pub(super) labels_presence: Option<(Vec<String>, bool)>,
}

/// An entry of `priorities`.
#[derive(Debug, Default)]
pub(super) struct Priority {
    pub(super) name: String,
    pub(super) weight: i64,
    pub(super) argument: Option<PriorityArgument>,
}

#[derive(Debug, Default)]
pub(super) struct PriorityArgument {
    /// A label.
    pub(super) service_anti_affinity: Option<String>,
    /// A label, and whether a node had better have it.
    pub(super) label_preference: Option<(String, bool)>,
    pub(super) requested_to_capacity_ratio: Option<RatioArgument>,
}

#[derive(Debug, Default)]
pub(super) struct RatioArgument {
    /// Utilization and score.
    pub(super) shape: Vec<(i32, i32)>,
    /// Name and weight.
    pub(super) resources: Vec<(String, i64)>,
}

/// Decodes a policy. An empty text is an empty policy.
pub(super) fn decode(text: &str, reading: Reading) -> Result<PolicyFile, PolicyError> {
    let document = document(text, reading)?;
    if document.is_null() {
        return Ok(PolicyFile::default());
    }
    let mut errors = Vec::new();
    let Some(mut fields) = Fields::of(&document, "", &mut errors) else {
        return Err(refuse(errors));
    };
    let api_version = fields.text("apiVersion", &mut errors);
    let kind = fields.text("kind", &mut errors);
    let api_version = api_version.map_or("", |(_, text)| text);
    check_kind(api_version, kind.map_or("", |(_, text)| text), &mut errors);
    if !errors.is_empty() {
        return Err(refuse(errors));
    }
    let mut file = PolicyFile::default();
    if !matches!(api_version, "" | "__internal") {
        file = policy(&mut fields, reading, &mut errors);
    } else if reading == Reading::Lenient && !fields.is_read() {
        let message = "must be v1: without it no field counts";
        return Err(refuse(vec![problem("apiVersion", message.into())]));
    }
    // Without a version there are no fields, only empty policies.
    fields.finish(&mut errors);
    if errors.is_empty() {
        Ok(file)
    } else {
        Err(refuse(errors))
    }
}

/// The document in a text.
fn document(text: &str, reading: Reading) -> Result<Value, PolicyError> {
    #[derive(Default)]
    struct Documents(Vec<Value>, Vec<DuplicateKey>);
    impl Receiver for Documents {
        fn document(&mut self, document: Document) {
            self.0.push(document.value);
        }
        fn duplicate_key(&mut self, duplicate: DuplicateKey) {
            self.1.push(duplicate);
        }
    }
    let refuse = |path: &str, message: String| Err(refuse(vec![problem(path, message)]));
    // What begins as JSON must be JSON to the end for 1.20.
    let is_json = text.trim_start().starts_with('{');
    if is_json
        && reading == Reading::V1_20
        && let Err(error) = serde_json::from_str::<IgnoredAny>(text)
    {
        return refuse(
            "",
            format!("couldn't get version/kind; json parse error: {error}"),
        );
    }
    let mut documents = Documents::default();
    if let Err(error) = document::read(text, &mut documents) {
        return refuse("", error.to_string());
    }
    if let Some(duplicate) = documents.1.first() {
        return refuse("", format!("line {}: {duplicate}", duplicate.line));
    }
    let Documents(mut documents, _) = documents;
    // Of several YAML documents 1.20 reads the first.
    if documents.len() > 1 && (is_json || reading == Reading::Lenient) {
        let found = documents.len();
        return refuse("", format!("expected one document, found {found}"));
    }
    Ok(match documents.is_empty() {
        true => Value::Null,
        false => documents.swap_remove(0),
    })
}

fn check_kind(api_version: &str, kind: &str, errors: &mut Vec<ConfigError>) {
    let is_versioned = matches!(api_version, "v1" | "kubescheduler.config.k8s.io/v1");
    let is_internal = matches!(api_version, "" | "__internal");
    if matches!(kind, "" | "Policy") && (is_versioned || is_internal) {
        return;
    }
    let message = format!(
        "no kind {kind:?} is registered for version {api_version:?}: it must be Policy of v1"
    );
    errors.push(problem("kind", message));
}

/// The refusal of a text; 1.20 tells the first thing that is wrong: types before fields
/// that do not exist.
fn refuse(mut errors: Vec<ConfigError>) -> PolicyError {
    errors.sort_by_cached_key(|error| place(&error.path));
    let is_unknown = |error: &&ConfigError| error.message == NO_SUCH_FIELD;
    let of_type = errors.iter().find(|error| !is_unknown(error));
    let first = of_type.or(errors.first());
    let text = first.map_or_else(String::new, |error| match error.path.rsplit_once('.') {
        Some((object, name)) if is_unknown(&error) => {
            format!("{object}: found unknown field: {name}")
        }
        None if is_unknown(&error) => format!("found unknown field: {}", error.path),
        _ => error.to_string(),
    });
    PolicyError {
        stage: Stage::Decode,
        problems: errors,
        text_of_1_20: format!("invalid policy: {text}"),
    }
}

/// A part of a path, so that paths sort as upstream goes through a document: by key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Index(usize),
    Name(String),
}

fn place(path: &str) -> Vec<Part> {
    let parts = path.split(['.', '[']);
    let part = |part: &str| match part.strip_suffix(']').map(str::parse) {
        Some(Ok(index)) => Part::Index(index),
        _ => Part::Name(part.to_owned()),
    };
    parts.map(part).collect()
}

fn policy(fields: &mut Fields<'_>, reading: Reading, errors: &mut Vec<ConfigError>) -> PolicyFile {
    let predicates = fields.list("predicates", errors);
    let priorities = fields.list("priorities", errors);
    let extenders = fields.list("extenders", errors);
    let weight = int32(fields, "hardPodAffinitySymmetricWeight", errors);
    PolicyFile {
        predicates: predicates.map(|list| {
            each(list, errors, |fields, errors| {
                predicate(fields, reading, errors)
            })
        }),
        priorities: priorities.map(|list| each(list, errors, priority)),
        extenders: extenders.map_or_else(Vec::new, |(path, list)| {
            extender::decode(list, &path, errors)
        }),
        hard_pod_affinity_symmetric_weight: weight,
        always_check_all_predicates: fields
            .boolean("alwaysCheckAllPredicates", errors)
            .unwrap_or(false),
    }
}

/// Decodes the objects of a list that is at a path.
fn each<T>(
    (path, list): (String, &[Value]),
    errors: &mut Vec<ConfigError>,
    mut decode: impl FnMut(&mut Fields<'_>, &mut Vec<ConfigError>) -> T,
) -> Vec<T> {
    let mut decoded = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let path = format!("{path}[{index}]");
        decoded.extend(object(value, &path, errors, &mut decode));
    }
    decoded
}

fn object<T>(
    value: &Value,
    path: &str,
    errors: &mut Vec<ConfigError>,
    decode: impl FnOnce(&mut Fields<'_>, &mut Vec<ConfigError>) -> T,
) -> Option<T> {
    let mut fields = Fields::of(value, path, errors)?;
    let decoded = decode(&mut fields, errors);
    fields.finish(errors);
    Some(decoded)
}

/// Decodes a field that holds an object; `null` is as good as absent.
fn field<T>(
    fields: &mut Fields<'_>,
    name: &str,
    errors: &mut Vec<ConfigError>,
    decode: impl FnOnce(&mut Fields<'_>, &mut Vec<ConfigError>) -> T,
) -> Option<T> {
    let (path, value) = fields.take(name)?;
    match value {
        Value::Null => None,
        value => object(value, &path, errors, decode),
    }
}

fn text(fields: &mut Fields<'_>, name: &str, errors: &mut Vec<ConfigError>) -> String {
    let text = fields.text(name, errors);
    text.map_or_else(String::new, |(_, text)| text.to_owned())
}

fn int64(fields: &mut Fields<'_>, name: &str, errors: &mut Vec<ConfigError>) -> i64 {
    fields.integer(name, errors).map_or(0, |(_, value)| value)
}

fn int32(fields: &mut Fields<'_>, name: &str, errors: &mut Vec<ConfigError>) -> i32 {
    let Some((path, value)) = fields.integer(name, errors) else {
        return 0;
    };
    i32::try_from(value).unwrap_or_else(|_| {
        let message = format!("{value} is out of range, from {} to {}", i32::MIN, i32::MAX);
        errors.push(ConfigError { path, message });
        0
    })
}

/// Labels; `null` is an empty one, as Go reads it.
fn labels(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> Vec<String> {
    let Some((path, list)) = fields.list("labels", errors) else {
        return Vec::new();
    };
    let mut labels = Vec::new();
    for (index, value) in list.iter().enumerate() {
        match value {
            Value::String(label) => labels.push(label.clone()),
            Value::Null => labels.push(String::new()),
            _ => {
                let message = format!("expected a string, found {value}");
                errors.push(problem(&format!("{path}[{index}]"), message));
            }
        }
    }
    labels
}

fn presence(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> bool {
    fields.boolean("presence", errors).unwrap_or(false)
}

fn predicate(
    fields: &mut Fields<'_>,
    reading: Reading,
    errors: &mut Vec<ConfigError>,
) -> Predicate {
    Predicate {
        name: text(fields, "name", errors),
        argument: field(fields, "argument", errors, predicate_argument),
        order: match reading {
            Reading::Lenient => fields.integer("order", errors).map(|(_, order)| order),
            Reading::V1_20 => None,
        },
    }
}

fn predicate_argument(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> PredicateArgument {
    PredicateArgument {
        service_affinity: field(fields, "serviceAffinity", errors, |fields, errors| {
            labels(fields, errors)
        }),
        labels_presence: field(fields, "labelsPresence", errors, |fields, errors| {
            (labels(fields, errors), presence(fields, errors))
        }),
    }
}

fn priority(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> Priority {
    Priority {
        name: text(fields, "name", errors),
        weight: int64(fields, "weight", errors),
        argument: field(fields, "argument", errors, priority_argument),
    }
}

fn priority_argument(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> PriorityArgument {
    PriorityArgument {
        service_anti_affinity: field(fields, "serviceAntiAffinity", errors, |fields, errors| {
            text(fields, "label", errors)
        }),
        label_preference: field(fields, "labelPreference", errors, |fields, errors| {
            (text(fields, "label", errors), presence(fields, errors))
        }),
        requested_to_capacity_ratio: field(
            fields,
            "requestedToCapacityRatioArguments",
            errors,
            ratio_argument,
        ),
    }
}

fn ratio_argument(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> RatioArgument {
    let shape = fields.list("shape", errors);
    let resources = fields.list("resources", errors);
    RatioArgument {
        shape: shape.map_or_else(Vec::new, |list| {
            each(list, errors, |fields, errors| {
                let utilization = int32(fields, "utilization", errors);
                (utilization, int32(fields, "score", errors))
            })
        }),
        resources: resources.map_or_else(Vec::new, |list| {
            each(list, errors, |fields, errors| {
                let name = text(fields, "name", errors);
                (name, int64(fields, "weight", errors))
            })
        }),
    }
}

//! Options of requests that write: what a query or a body says of how something is to be done.
//!
//! Options are objects, too, each kind of request has its own (`CreateOptions`, `UpdateOptions`,
//! `PatchOptions`, `DeleteOptions`), and what is wrong in them is told as of any object. All but
//! `DeleteOptions` are read from the query alone; these are read from the body, and from the query
//! only if there is no body.
//!
//! Sources, Kubernetes 1.36: `k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go`,
//! `k8s.io/apimachinery/pkg/apis/meta/v1/zz_generated.conversion.go`,
//! `k8s.io/apiserver/pkg/endpoints/handlers/{create,update,patch,delete}.go`.

use outrank_api::field_error::FieldError;
use outrank_api::names::is_printable;
use outrank_api::request_body::FieldValidation;
use outrank_api::status::{Qualified, Status};
use serde_json::{Value, json};

use crate::request::Query;
use crate::server::WriteOptions;
use crate::server::delete::DeleteOptions;

/// Longest name of a client, in bytes.
const MANAGER_BYTES_MAX: usize = 128;

/// What kind of request the options are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// `CreateOptions`.
    Create,
    /// `UpdateOptions`.
    Update,
    /// `PatchOptions` of a patch.
    Patch,
    /// `PatchOptions` of server-side apply.
    Apply,
}

impl Writing {
    fn options_kind(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// The options of a write.
///
/// # Errors
///
/// 422 with all that is wrong in them.
pub(crate) fn write_options(
    query: &Query<'_>,
    user_agent: &str,
    writing: Writing,
) -> Result<WriteOptions, Status> {
    let (named, force) = (query.get("fieldManager"), query.flag("force"));
    let validation = query.get("fieldValidation");
    let field_validation = FieldValidation::parse(validation);
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    let mut errors = Vec::new();
    if writing == Writing::Apply && named.is_empty() {
        let why = "is required for apply patch";
        errors.push(FieldError::required("fieldManager", why));
    }
    if writing == Writing::Patch && force.is_some() {
        let why = "may not be specified for non-apply patch";
        errors.push(FieldError::forbidden("force", why));
    }
    errors.extend(manager_errors(named));
    errors.extend(dry_run_error(&json!(dry_run)));
    if field_validation.is_none() {
        let supported = ["", "Ignore", "Strict", "Warn"];
        errors.push(FieldError::not_supported(
            "fieldValidation",
            validation,
            &supported,
        ));
    }
    refuse(writing.options_kind(), &errors)?;
    Ok(WriteOptions {
        manager: match named {
            "" => manager_of_agent(user_agent),
            named => named.to_owned(),
        },
        dry_run: !dry_run.is_empty(),
        field_validation: field_validation.unwrap_or_default(),
        force: force.unwrap_or(false),
        is_applied: false,
    })
}

/// The options of a deletion: of its body, whose fields have their types, or of the query if there
/// is none.
///
/// # Errors
///
/// 400 if the query has no numbers where they belong, 422 with all that is wrong otherwise.
pub(crate) fn delete_options(
    body: Option<Value>,
    query: &Query<'_>,
) -> Result<DeleteOptions, Status> {
    let options = match body {
        Some(body) => body,
        None => delete_options_of_query(query)?,
    };
    let mut errors = Vec::new();
    if let Some(policy) = options["propagationPolicy"].as_str() {
        const FIELD: &str = "propagationPolicy";
        if options["orphanDependents"].is_boolean() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(FIELD, policy, why));
        }
        if !["Foreground", "Background", "Orphan"].contains(&policy) {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported(FIELD, policy, &supported));
        }
    }
    errors.extend(dry_run_error(&options["dryRun"]));
    refuse("DeleteOptions", &errors)?;
    Ok(DeleteOptions::read(&options))
}

fn delete_options_of_query(query: &Query<'_>) -> Result<Value, Status> {
    let first = |name: &str| query.all(name).next();
    let filled = |name: &str| first(name).filter(|it| !it.is_empty());
    Ok(json!({
        "gracePeriodSeconds": query.number("gracePeriodSeconds")?,
        "orphanDependents": query.flag("orphanDependents"),
        "propagationPolicy": first("propagationPolicy"),
        "dryRun": query.all("dryRun").collect::<Vec<_>>(),
        "preconditions": {"uid": filled("uid"), "resourceVersion": filled("resourceVersion")},
    }))
}

fn dry_run_error(dry_run: &Value) -> Option<FieldError> {
    let mut values = dry_run.as_array().into_iter().flatten();
    let is_wrong = values.any(|it| *it != json!("All"));
    is_wrong.then(|| FieldError::not_supported("dryRun", dry_run, &["All"]))
}

fn manager_errors(name: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if name.len() > MANAGER_BYTES_MAX {
        errors.push(FieldError::too_long("fieldManager", MANAGER_BYTES_MAX));
    }
    for (at, c) in name.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let why = format!(
            "invalid character U+{:04X} (at position {at})",
            u32::from(c)
        );
        errors.push(FieldError::invalid("fieldManager", name, why));
    }
    errors
}

/// The name of a client that does not say one: the first word of its user agent.
///
/// Source: `prefixFromUserAgent`, `k8s.io/apiserver/pkg/endpoints/handlers/create.go`.
fn manager_of_agent(user_agent: &str) -> String {
    let mut name = String::new();
    let word = user_agent.split('/').next().unwrap_or_default();
    for c in word.chars().filter(|c| is_printable(*c)) {
        if name.len() + c.len_utf8() > MANAGER_BYTES_MAX {
            break;
        }
        name.push(c);
    }
    name
}

fn refuse(kind: &str, errors: &[FieldError]) -> Result<(), Status> {
    let options = Qualified {
        group: "meta.k8s.io",
        name: kind,
    };
    match errors {
        [] => Ok(()),
        errors => Err(Status::invalid(options, "", errors)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused_write(query: &str, writing: Writing) -> String {
        let refused = write_options(&Query::parse(query), "kubectl/v1.36", writing);
        let refused = refused.expect_err("refused");
        assert_eq!(refused.code, 422);
        refused.message
    }

    #[test]
    fn options_are_named_after_what_is_done() {
        for (query, writing, message) in [
            (
                "dryRun=Some",
                Writing::Create,
                "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: \
                 [\"Some\"]: supported values: \"All\"",
            ),
            (
                "dryRun=",
                Writing::Update,
                "UpdateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"\"]: \
                 supported values: \"All\"",
            ),
            (
                "fieldValidation=Lax",
                Writing::Patch,
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \
                 \"Lax\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
            ),
            (
                "force=true",
                Writing::Patch,
                "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified \
                 for non-apply patch",
            ),
            (
                "",
                Writing::Apply,
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is \
                 required for apply patch",
            ),
            (
                "fieldManager=a%07",
                Writing::Create,
                "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \
                 \"a\\a\": invalid character U+0007 (at position 1)",
            ),
        ] {
            assert_eq!(refused_write(query, writing), message);
        }
        let long = format!("fieldManager={}", "é".repeat(65));
        assert_eq!(
            refused_write(&long, Writing::Apply),
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more \
             than 128 bytes"
        );
    }

    #[test]
    fn a_client_is_called_as_it_calls_itself() {
        let manager = |query: &str| {
            let options = write_options(&Query::parse(query), "kubectl/v1.36", Writing::Create);
            options.expect("options").manager
        };
        assert_eq!(manager(""), "kubectl");
        assert_eq!(manager("fieldManager=me"), "me");
    }

    #[test]
    fn options_of_deletions_are_checked_wherever_they_stand() {
        let of_query = |query: &str| delete_options(None, &Query::parse(query));
        let of_body = |body: Value| delete_options(Some(body), &Query::default());
        let is_invalid = "DeleteOptions.meta.k8s.io \"\" is invalid: ";
        let unsupported = |values: &str| {
            format!("{is_invalid}dryRun: Unsupported value: {values}: supported values: \"All\"")
        };
        for (outcome, code, message) in [
            (of_query("dryRun=foo"), 422, unsupported("[\"foo\"]")),
            (
                of_body(json!({"dryRun": ["All", "all"]})),
                422,
                unsupported("[\"All\",\"all\"]"),
            ),
            (
                of_query("gracePeriodSeconds=abc"),
                400,
                "strconv.ParseInt: parsing \"abc\": invalid syntax".to_owned(),
            ),
            (
                of_body(json!({"propagationPolicy": "Perhaps"})),
                422,
                format!(
                    "{is_invalid}propagationPolicy: Unsupported value: \"Perhaps\": supported \
                     values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                ),
            ),
            (
                of_query("propagationPolicy=Orphan&orphanDependents=true"),
                422,
                format!(
                    "{is_invalid}propagationPolicy: Invalid value: \"Orphan\": orphanDependents \
                     and deletionPropagation cannot be both set"
                ),
            ),
        ] {
            let refused = outcome.expect_err("refused");
            assert_eq!((refused.code, refused.message), (code, message));
        }
        let options = of_query("dryRun=All&orphanDependents=true&gracePeriodSeconds=3&uid=u");
        assert_eq!(
            options,
            Ok(DeleteOptions {
                grace_seconds: Some(3),
                propagation: Some("Orphan".to_owned()),
                uid: Some("u".to_owned()),
                resource_version: None,
                dry_run: true,
            })
        );
        assert_eq!(of_body(Value::Null), Ok(DeleteOptions::default()));
    }
}

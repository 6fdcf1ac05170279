//! Questions about rights, asked as objects of `authorization.k8s.io/v1`.
//!
//! They are created and answered at once, and never stored: `kubectl auth can-i create pods` sends
//! a `SelfSubjectAccessReview`, `kubectl auth can-i --list` a `SelfSubjectRulesReview`. Those who
//! may create a `SubjectAccessReview` ask for others. Each function takes the object as it was
//! sent and gives it back with its `status`. Sources: `pkg/registry/authorization`,
//! `pkg/apis/authorization/validation`, Kubernetes 1.36.
//!
//! Label and field selectors of a question do not matter, since RBAC looks at neither.

use std::collections::BTreeMap;

use outrank_api::field_error::FieldError;
use outrank_api::names::joined_errors;
use outrank_api::status::{Qualified, Status};
use serde_json::{Value, json};

use super::policy_rule::texts;
use super::{Attributes, Rbac, Target};
use crate::authentication::User;

/// May I? Answers a `SelfSubjectAccessReview`.
///
/// # Errors
///
/// 422 if the question is malformed.
pub fn self_subject_access_review(
    review: Value,
    user: &User,
    rbac: &Rbac,
) -> Result<Value, Status> {
    let mut errors = question_errors(&review);
    errors.extend(metadata_errors(&review, false));
    refuse_invalid(&errors)?;
    Ok(answered(review, user, rbac))
}

/// May he? Answers a `SubjectAccessReview`.
///
/// # Errors
///
/// 422 if the question is malformed.
pub fn subject_access_review(review: Value, rbac: &Rbac) -> Result<Value, Status> {
    let mut errors = subject_errors(&review);
    errors.extend(metadata_errors(&review, false));
    refuse_invalid(&errors)?;
    let user = subject(&review);
    Ok(answered(review, &user, rbac))
}

/// May he, in the namespace of the request? Answers a `LocalSubjectAccessReview`.
///
/// # Errors
///
/// 422 if the question is malformed or about another namespace than its own, 400 if that is not
/// the one of the request.
pub fn local_subject_access_review(
    review: Value,
    namespace: &str,
    rbac: &Rbac,
) -> Result<Value, Status> {
    let own = text(&review["metadata"]["namespace"]).to_owned();
    let mut errors = subject_errors(&review);
    errors.extend(metadata_errors(&review, true));
    let spec = &review["spec"];
    let asked = text(&spec["resourceAttributes"]["namespace"]);
    if is_given(&spec["resourceAttributes"]) && asked != own {
        let path = "spec.resourceAttributes.namespace";
        errors.push(FieldError::invalid(
            path,
            asked,
            "must match metadata.namespace",
        ));
    }
    let paths = &spec["nonResourceAttributes"];
    if is_given(paths) {
        let path = "spec.nonResourceAttributes";
        errors.push(FieldError::invalid(
            path,
            paths,
            "disallowed on this kind of request",
        ));
    }
    refuse_invalid(&errors)?;
    if own != namespace {
        return Err(Status::bad_request(format!(
            "spec.resourceAttributes.namespace must match namespace: {namespace}"
        )));
    }
    let user = subject(&review);
    Ok(answered(review, &user, rbac))
}

/// What may I? Answers a `SelfSubjectRulesReview`.
///
/// # Errors
///
/// 400 if it names no namespace.
pub fn self_subject_rules_review(
    review: &Value,
    user: &User,
    rbac: &Rbac,
) -> Result<Value, Status> {
    let namespace = text(&review["spec"]["namespace"]);
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let (rules, missing) = rbac.rules_for(user, namespace);
    let rules: Vec<Value> = rules.iter().map(|rule| rule.to_value()).collect();
    let with = |field: &str| -> Vec<&Value> {
        rules.iter().filter(|rule| is_given(&rule[field])).collect()
    };
    let without = |rules: Vec<&Value>, fields: &[&str]| -> Vec<Value> {
        let mut rules: Vec<Value> = rules.into_iter().cloned().collect();
        for rule in rules.iter_mut().filter_map(Value::as_object_mut) {
            fields.iter().for_each(|field| drop(rule.remove(*field)));
        }
        rules
    };
    let about_paths = ["apiGroups", "resources", "resourceNames"];
    let mut status = json!({
        "resourceRules": without(with("resources"), &["nonResourceURLs"]),
        "nonResourceRules": without(with("nonResourceURLs"), &about_paths),
        "incomplete": false,
    });
    if !missing.is_empty() {
        let errors: Vec<String> = missing.iter().map(ToString::to_string).collect();
        status["evaluationError"] = joined_errors(&errors).into();
    }
    Ok(json!({
        "kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1",
        "metadata": {}, "spec": {}, "status": status,
    }))
}

fn answered(mut review: Value, user: &User, rbac: &Rbac) -> Value {
    let spec = &review["spec"];
    let resource = &spec["resourceAttributes"];
    let path = &spec["nonResourceAttributes"];
    let (asked, target) = match is_given(resource) {
        false => (path, Target::Path(text(&path["path"]))),
        true => {
            let target = Target::Resource {
                api_group: text(&resource["group"]),
                resource: text(&resource["resource"]),
                subresource: text(&resource["subresource"]),
                namespace: text(&resource["namespace"]),
                name: text(&resource["name"]),
            };
            (resource, target)
        }
    };
    let decision = rbac.decide(&Attributes {
        user,
        verb: text(&asked["verb"]),
        target,
    });
    let mut status = json!({"allowed": decision.is_allowed()});
    if !decision.reason().is_empty() {
        status["reason"] = decision.reason().into();
    }
    if let Some(fields) = review.as_object_mut() {
        fields.insert("status".to_owned(), status);
    }
    review
}

/// Whom a question is about.
fn subject(review: &Value) -> User {
    let spec = &review["spec"];
    let extra = spec["extra"].as_object().into_iter().flatten();
    let extra: BTreeMap<_, _> = extra
        .map(|(key, values)| (key.clone(), texts(values)))
        .collect();
    User {
        name: text(&spec["user"]).to_owned(),
        uid: text(&spec["uid"]).to_owned(),
        groups: texts(&spec["groups"]),
        extra,
    }
}

fn question_errors(review: &Value) -> Vec<FieldError> {
    let resource = &review["spec"]["resourceAttributes"];
    let path = &review["spec"]["nonResourceAttributes"];
    match (is_given(resource), is_given(path)) {
        (true, true) => vec![FieldError::invalid(
            "spec.nonResourceAttributes",
            path,
            "cannot be specified in combination with resourceAttributes",
        )],
        (false, false) => vec![FieldError::invalid(
            "spec.resourceAttributes",
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )],
        _ => Vec::new(),
    }
}

fn subject_errors(review: &Value) -> Vec<FieldError> {
    let mut errors = question_errors(review);
    let spec = &review["spec"];
    if text(&spec["user"]).is_empty() && texts(&spec["groups"]).is_empty() {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", "", detail));
    }
    errors
}

/// What is never stored has no metadata, except for the namespace of a local review.
fn metadata_errors(review: &Value, is_local: bool) -> Option<FieldError> {
    let metadata = &review["metadata"];
    let fields = metadata.as_object().into_iter().flatten();
    let mut others = fields.filter(|(field, value)| {
        let is_expected = *field == "managedFields" || (is_local && *field == "namespace");
        !is_expected && is_given(value) && **value != json!("")
    });
    let detail = match is_local {
        true => "must be empty except for namespace",
        false => "must be empty",
    };
    others
        .next()
        .map(|_| FieldError::invalid("metadata", metadata, detail))
}

/// Upstream does not name the kind here.
fn refuse_invalid(errors: &[FieldError]) -> Result<(), Status> {
    let kind = Qualified {
        group: "authorization.k8s.io",
        name: "",
    };
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid(kind, "", errors)),
    }
}

fn is_given(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(values) => !values.is_empty(),
        _ => true,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::AUTHENTICATED;
    use crate::authorization::bootstrap;

    fn rbac() -> Rbac {
        let mut rbac = Rbac::default();
        bootstrap::objects()
            .iter()
            .for_each(|object| rbac.set(object));
        rbac.set(&json!({
            "kind": "RoleBinding", "metadata": {"name": "devs", "namespace": "shop"},
            "roleRef": {"kind": "Role", "name": "dev"},
            "subjects": [{"kind": "User", "name": "dev"}],
        }));
        rbac
    }

    fn dev() -> User {
        User::new("dev", [AUTHENTICATED])
    }

    fn pods(namespace: &str) -> Value {
        json!({"verb": "create", "resource": "pods", "namespace": namespace})
    }

    #[test]
    fn may_i() {
        let review = json!({
            "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
            "spec": {"resourceAttributes": pods("default")},
        });
        let answer = |user: &User, rbac: &Rbac| {
            let answer = self_subject_access_review(review.clone(), user, rbac).unwrap();
            assert_eq!(answer["spec"], review["spec"]);
            answer["status"].clone()
        };
        let admin = User::new("admin", ["system:masters", AUTHENTICATED]);
        assert_eq!(answer(&admin, &rbac()), json!({"allowed": true}));
        assert_eq!(answer(&dev(), &rbac()), json!({"allowed": false}));
        let mut more = rbac();
        more.set(&json!({
            "kind": "ClusterRoleBinding", "metadata": {"name": "editors"},
            "roleRef": {"kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "User", "name": "dev"}],
        }));
        let reason = "RBAC: allowed by ClusterRoleBinding \"editors\" of ClusterRole \"edit\" to \
                      User \"dev\"";
        assert_eq!(
            answer(&dev(), &more),
            json!({"allowed": true, "reason": reason})
        );
    }

    #[test]
    fn a_missing_role_is_told() {
        let review = json!({"spec": {"user": "dev", "resourceAttributes": pods("shop")}});
        let answer = subject_access_review(review, &rbac()).unwrap();
        let reason = "RBAC: role.rbac.authorization.k8s.io \"dev\" not found";
        assert_eq!(
            answer["status"],
            json!({"allowed": false, "reason": reason})
        );
        let review = json!({"spec": {"namespace": "shop"}});
        let answer = self_subject_rules_review(&review, &dev(), &rbac()).unwrap();
        let error = "role.rbac.authorization.k8s.io \"dev\" not found";
        assert_eq!(answer["status"]["evaluationError"], error);
    }

    #[test]
    fn what_may_i() {
        let review = json!({"spec": {"namespace": "default"}});
        let answer = self_subject_rules_review(&review, &dev(), &rbac()).unwrap();
        let status = &answer["status"];
        assert_eq!(
            status["resourceRules"],
            json!([
                {
                    "verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
                    "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                },
                {
                    "verbs": ["create"], "apiGroups": ["authentication.k8s.io"],
                    "resources": ["selfsubjectreviews"],
                },
            ])
        );
        assert_eq!(status["nonResourceRules"].as_array().map(Vec::len), Some(2));
        assert_eq!(status["incomplete"], false);
        let nowhere = self_subject_rules_review(&json!({}), &dev(), &rbac()).unwrap_err();
        assert_eq!(
            (nowhere.code, nowhere.message.as_str()),
            (400, "no namespace on request")
        );
    }

    #[test]
    fn malformed_questions_are_refused() {
        let refused = |result: Result<Value, Status>| {
            let status = result.unwrap_err();
            (status.code, status.message)
        };
        let rbac = rbac();
        let (code, message) = refused(self_subject_access_review(
            json!({"spec": {}}),
            &dev(),
            &rbac,
        ));
        assert_eq!(code, 422);
        assert_eq!(
            message,
            ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: \
             exactly one of nonResourceAttributes or resourceAttributes must be specified"
        );
        let path = json!({"path": "/", "verb": "get"});
        let both = json!({"spec": {
            "resourceAttributes": pods(""), "nonResourceAttributes": path,
        }});
        let (_, message) = refused(subject_access_review(both, &rbac));
        assert!(message.contains("in combination with"), "{message}");
        assert!(
            message.contains("at least one of user or group"),
            "{message}"
        );
        let named = json!({
            "metadata": {"name": "x", "managedFields": []},
            "spec": {"resourceAttributes": pods("")},
        });
        let (_, message) = refused(self_subject_access_review(named, &dev(), &rbac));
        assert!(message.contains("must be empty"), "{message}");
        for odd in [
            json!(null),
            json!("text"),
            json!([1]),
            json!({"spec": [], "metadata": 1}),
        ] {
            refused(subject_access_review(odd.clone(), &rbac));
            refused(self_subject_rules_review(&odd, &dev(), &rbac));
        }
    }

    #[test]
    fn local_questions_are_about_their_namespace() {
        let ask = |own: &str, asked: &str| {
            let review = json!({
                "metadata": {"namespace": own},
                "spec": {"user": "dev", "resourceAttributes": pods(asked)},
            });
            local_subject_access_review(review, "shop", &rbac()).map_err(|status| status.code)
        };
        assert!(ask("shop", "shop").is_ok());
        assert_eq!(ask("shop", "bank"), Err(422));
        assert_eq!(ask("bank", "bank"), Err(400));
        let path = json!({
            "metadata": {"namespace": "shop"},
            "spec": {"user": "dev", "nonResourceAttributes": {"path": "/", "verb": "get"}},
        });
        let refused = local_subject_access_review(path, "shop", &rbac()).unwrap_err();
        assert!(
            refused
                .message
                .contains("disallowed on this kind of request"),
            "{refused}"
        );
    }
}

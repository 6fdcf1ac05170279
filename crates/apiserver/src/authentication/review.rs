//! Questions about who someone is, asked as objects of `authentication.k8s.io/v1`.
//!
//! `kubectl auth whoami` creates a `SelfSubjectReview`; a server that is shown a token asks whose it
//! is with a `TokenReview`. They are answered at once and never stored. Sources:
//! `pkg/registry/authentication`, Kubernetes 1.36.

use outrank_api::status::Status;
use outrank_api::time::rfc3339;
use serde_json::{Value, json};

use super::{Authenticator, ISSUER, UidLookup, User};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Who am I? The answer to a `SelfSubjectReview` at a time (seconds since 1970).
pub fn self_subject_review(user: &User, now_seconds: i64) -> Value {
    json!({
        "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "creationTimestamp": rfc3339(now_seconds.saturating_mul(NANOS_PER_SECOND)),
        },
        "status": {"userInfo": user.to_value()},
    })
}

/// Whose is this token? The answer to a `TokenReview` at a time (seconds since 1970). That a
/// token is nobody's is an answer, too.
///
/// # Errors
///
/// 400 if there is no token in the question.
pub fn token_review(
    mut review: Value,
    authenticator: &Authenticator,
    now_seconds: i64,
    uids: &UidLookup<'_>,
) -> Result<Value, Status> {
    let spec = &review["spec"];
    let token = spec["token"].as_str().filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| {
        Status::bad_request("token is required for TokenReview in authentication")
    })?;
    let audiences = spec["audiences"].as_array().into_iter().flatten();
    let mut audiences: Vec<String> = audiences
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    let status = match authenticator.token_user(token, &audiences, now_seconds, uids) {
        Ok((user, audiences)) => {
            json!({"authenticated": true, "user": user.to_value(), "audiences": audiences})
        }
        Err(error) => json!({"user": {}, "error": error.to_string()}),
    };
    if let Some(fields) = review.as_object_mut() {
        fields.insert("status".to_owned(), status);
    }
    Ok(review)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::{ServiceAccountTokens, StaticTokens};

    #[test]
    fn who_am_i() {
        let user = User {
            uid: "1".to_owned(),
            ..User::new("admin", ["system:masters", "system:authenticated"])
        };
        assert_eq!(
            self_subject_review(&user, 1),
            json!({
                "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
                "metadata": {"creationTimestamp": "1970-01-01T00:00:01Z"},
                "status": {"userInfo": {
                    "username": "admin", "uid": "1",
                    "groups": ["system:masters", "system:authenticated"],
                }},
            })
        );
    }

    #[test]
    fn whose_is_a_token() {
        let users = StaticTokens::in_memory();
        let token = users.add("ada", &[]).unwrap();
        let accounts = ServiceAccountTokens::in_memory().unwrap();
        let authenticator = Authenticator::new(users, accounts);
        let review =
            |spec: Value| token_review(json!({"spec": spec}), &authenticator, 0, &|_, _, _| None);
        let answered = review(json!({"token": token.reveal()})).unwrap();
        assert_eq!(answered["status"]["user"]["username"], "ada");
        assert_eq!(answered["status"]["authenticated"], true);
        assert_eq!(answered["status"]["audiences"], json!([ISSUER]));
        let elsewhere = review(json!({"token": token.reveal(), "audiences": ["vault"]})).unwrap();
        let nobody = json!({"user": {}, "error": "invalid bearer token"});
        assert_eq!(elsewhere["status"], nobody);
        assert_eq!(review(json!({"token": "x"})).unwrap()["status"], nobody);
        assert_eq!(review(json!({})).unwrap_err().code, 400);
    }
}

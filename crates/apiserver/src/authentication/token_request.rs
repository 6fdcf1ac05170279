//! Requests for tokens of service accounts (`kubectl create token`).
//!
//! A `TokenRequest` of `authentication.k8s.io/v1` is created at the subresource `token` of an
//! account and comes back with the token in its status. Sources:
//! `pkg/registry/core/serviceaccount/storage/token.go`, `pkg/apis/authentication/validation`,
//! Kubernetes 1.36.

use outrank_api::field_error::FieldError;
use outrank_api::names::quoted;
use outrank_api::status::{Qualified, Status};
use outrank_api::time::rfc3339;
use serde_json::{Value, json};

use super::{BoundObject, Claims, ISSUER, ServiceAccountTokens};

/// How long a token holds unless the request says so: an hour.
pub const EXPIRATION_SECONDS_DEFAULT: i64 = 3600;

const EXPIRATION_SECONDS_MIN: i64 = 600;
const EXPIRATION_SECONDS_MAX: i64 = 1 << 32;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Answers a request for a token of `account`, a ServiceAccount as it is stored, at a time
/// (seconds since 1970). `stored` looks up an object of a kind (`Pod` or `Secret`) in the
/// account's namespace, by its name.
///
/// # Errors
///
/// 422 if the request is malformed; 400, 404 or 409 if the token cannot be bound to what the
/// request names.
pub fn token_request(
    request: Value,
    account: &Value,
    tokens: &ServiceAccountTokens,
    now_seconds: i64,
    stored: &dyn Fn(&str, &str) -> Option<Value>,
) -> Result<Value, Status> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &account["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    for (field, expected) in [("name", &name), ("namespace", &namespace)] {
        let named = text(&request["metadata"][field]);
        if !named.is_empty() && named != *expected {
            return Err(Status::bad_request(format!(
                "metadata.{field} of the request is {}, but it is sent to the service account {}",
                quoted(&named),
                quoted(expected),
            )));
        }
    }
    let spec = &request["spec"];
    let seconds = spec["expirationSeconds"]
        .as_i64()
        .unwrap_or(EXPIRATION_SECONDS_DEFAULT);
    check_expiration(seconds)?;
    let bound = bound_object(&spec["boundObjectRef"], &name, stored)?;
    let mut claims = Claims {
        account: BoundObject {
            name: name.clone(),
            uid: text(&metadata["uid"]),
        },
        namespace: namespace.clone(),
        pod: None,
        secret: None,
        audiences: audiences(spec),
        id: uuid::Uuid::new_v4().to_string(),
        issued_at_seconds: now_seconds,
        expires_at_seconds: now_seconds.saturating_add(seconds),
    };
    match bound {
        Some(("Pod", pod)) => claims.pod = Some(pod),
        Some((_, secret)) => claims.secret = Some(secret),
        None => {}
    }
    let time = |seconds: i64| rfc3339(seconds.saturating_mul(NANOS_PER_SECOND));
    let mut answer = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": name, "namespace": namespace, "creationTimestamp": time(now_seconds),
        },
        "spec": {
            "audiences": claims.audiences,
            "expirationSeconds": seconds,
        },
        "status": {
            "token": tokens.issue(&claims).reveal(),
            "expirationTimestamp": time(claims.expires_at_seconds),
        },
    });
    if !spec["boundObjectRef"].is_null() {
        answer["spec"]["boundObjectRef"] = spec["boundObjectRef"].clone();
    }
    Ok(answer)
}

fn audiences(spec: &Value) -> Vec<String> {
    let named = spec["audiences"].as_array().into_iter().flatten();
    let named: Vec<String> = named.filter_map(Value::as_str).map(str::to_owned).collect();
    match named.is_empty() {
        true => vec![ISSUER.to_owned()],
        false => named,
    }
}

fn check_expiration(seconds: i64) -> Result<(), Status> {
    let detail = if seconds < EXPIRATION_SECONDS_MIN {
        "may not specify a duration less than 10 minutes"
    } else if seconds > EXPIRATION_SECONDS_MAX {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(());
    };
    let error = FieldError::invalid("spec.expirationSeconds", seconds, detail);
    let kind = Qualified {
        group: "authentication.k8s.io",
        name: "TokenRequest",
    };
    Err(Status::invalid(kind, "", &[error]))
}

/// Kind, name and UID of what the token is to end with.
fn bound_object(
    reference: &Value,
    account: &str,
    stored: &dyn Fn(&str, &str) -> Option<Value>,
) -> Result<Option<(&'static str, BoundObject)>, Status> {
    if reference.is_null() {
        return Ok(None);
    }
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let (kind, resource) = match (text("apiVersion"), text("kind")) {
        ("v1", "Pod") => ("Pod", "pods"),
        ("v1", "Secret") => ("Secret", "secrets"),
        (api_version, kind) => {
            let message = format!("cannot bind token to object of type {api_version}, Kind={kind}");
            return Err(Status::bad_request(message));
        }
    };
    let name = text("name");
    let resource = Qualified {
        group: "",
        name: resource,
    };
    let object = stored(kind, name).ok_or_else(|| Status::not_found(resource, name))?;
    let runs_as = object["spec"]["serviceAccountName"]
        .as_str()
        .unwrap_or_default();
    if kind == "Pod" && runs_as != account {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {} to pod running with different serviceaccount \
             name.",
            quoted(account),
        )));
    }
    let uid = object["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let expected = text("uid");
    if !expected.is_empty() && expected != uid {
        let resource = Qualified {
            group: "",
            name: kind,
        };
        let why = format!(
            "the UID in the bound object reference ({expected}) does not match the UID in record. \
             The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(resource, name, why));
    }
    let name = name.to_owned();
    Ok(Some((kind, BoundObject { name, uid })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(spec: Value) -> Result<Value, Status> {
        let account = json!({"metadata": {"name": "bot", "namespace": "shop", "uid": "1"}});
        let stored = |kind: &str, name: &str| match (kind, name) {
            ("Pod", "p") => Some(json!({
                "metadata": {"uid": "2"}, "spec": {"serviceAccountName": "bot"},
            })),
            ("Pod", "other") => Some(json!({"spec": {"serviceAccountName": "default"}})),
            ("Secret", "s") => Some(json!({"metadata": {"uid": "3"}})),
            _ => None,
        };
        let tokens = ServiceAccountTokens::in_memory().unwrap();
        let answer = token_request(json!({"spec": spec}), &account, &tokens, 1_000, &stored)?;
        let token = answer["status"]["token"].as_str().unwrap();
        let claims = tokens.verify(token, 1_000).unwrap();
        assert_eq!(claims.user().name, "system:serviceaccount:shop:bot");
        assert_eq!(claims.user().uid, "1");
        Ok(answer)
    }

    #[test]
    fn a_token_for_an_hour_unless_said_otherwise() {
        let answer = request(json!({})).unwrap();
        assert_eq!(answer["metadata"]["name"], "bot");
        assert_eq!(
            answer["spec"],
            json!({"audiences": [ISSUER], "expirationSeconds": 3600})
        );
        assert_eq!(
            answer["status"]["expirationTimestamp"],
            "1970-01-01T01:16:40Z"
        );
        let answer = request(json!({"expirationSeconds": 600, "audiences": ["vault"]})).unwrap();
        assert_eq!(
            answer["status"]["expirationTimestamp"],
            "1970-01-01T00:26:40Z"
        );
        assert_eq!(answer["spec"]["audiences"], json!(["vault"]));
    }

    #[test]
    fn what_cannot_be_is_refused_in_upstreams_words() {
        let pod = |name: &str, uid: &str| {
            let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
            json!({"boundObjectRef": reference})
        };
        let node = json!({"apiVersion": "v1", "kind": "Node", "name": "n"});
        assert!(request(pod("p", "2")).is_ok());
        assert!(request(pod("p", "")).is_ok());
        for (spec, code, expected) in [
            (
                json!({"expirationSeconds": 599}),
                422,
                "less than 10 minutes",
            ),
            (
                json!({"expirationSeconds": -1}),
                422,
                "less than 10 minutes",
            ),
            (
                json!({"expirationSeconds": i64::MAX}),
                422,
                "larger than 2^32 seconds",
            ),
            (pod("none", ""), 404, "pods \"none\" not found"),
            (pod("p", "9"), 409, "(9) does not match the UID in record"),
            (pod("other", ""), 400, "different serviceaccount name"),
            (json!({"boundObjectRef": node}), 400, "object of type"),
        ] {
            let status = request(spec).unwrap_err();
            assert_eq!(status.code, code, "{status}");
            assert!(status.message.contains(expected), "{status}");
        }
    }
}

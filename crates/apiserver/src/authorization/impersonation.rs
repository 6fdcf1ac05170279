//! Acting as somebody else: `kubectl --as dev --as-group team`.
//!
//! A request may name whom it is for, in headers. Who sends it needs the verb `impersonate` on
//! every name, group, UID and extra value that it claims. Then it is handled as if that user had
//! sent it. Source: `apiserver/pkg/endpoints/filters/impersonation`, Kubernetes 1.36.

use hyper::header::{HeaderMap, HeaderName};
use outrank_api::status::Status;

use super::{Attributes, Rbac, Target};
use crate::authentication::{
    ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, service_account_groups, split_service_account,
};

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const EXTRA_PREFIX: &str = "impersonate-extra-";

const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// How many groups and extra values may be claimed at once.
const CLAIMS_MAX: usize = 256;

/// For whom a request is handled: whom its headers name, or else who sent it.
///
/// # Errors
///
/// 403 if the sender may not act as that user; 400 if headers cannot be read or name groups
/// without a user.
pub fn acting_user(headers: &HeaderMap, sender: User, rbac: &Rbac) -> Result<User, Status> {
    let Some(mut claimed) = claimed(headers)? else {
        return Ok(sender);
    };
    let may = |target| {
        let attributes = Attributes {
            user: &sender,
            verb: "impersonate",
            target,
        };
        let decision = rbac.decide(&attributes);
        match decision.is_allowed() {
            true => Ok(()),
            false => Err(attributes.forbidden(decision.reason())),
        }
    };
    let core = |resource, namespace, name| Target::Resource {
        api_group: "",
        resource,
        subresource: "",
        namespace,
        name,
    };
    let special = |resource, subresource, name| Target::Resource {
        api_group: AUTHENTICATION_GROUP,
        resource,
        subresource,
        namespace: "",
        name,
    };
    match split_service_account(&claimed.name) {
        Some((namespace, name)) => may(core("serviceaccounts", namespace, name))?,
        None => may(core("users", "", &claimed.name))?,
    }
    for group in &claimed.groups {
        may(core("groups", "", group))?;
    }
    for (key, values) in &claimed.extra {
        for value in values {
            may(special("userextras", key, value))?;
        }
    }
    if !claimed.uid.is_empty() {
        may(special("uids", "", &claimed.uid))?;
    }
    add_groups(&mut claimed);
    Ok(claimed)
}

/// Whom the headers name, with no groups but those that they name.
fn claimed(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let text = |name: &HeaderName| {
        let values = headers.get_all(name).into_iter();
        let values = values.map(|value| value.to_str().map(str::to_owned));
        let values: Result<Vec<String>, _> = values.collect();
        values.map_err(|_| Status::bad_request(format!("header {name} is not plain text")))
    };
    let mut user = User {
        name: text(&USER)?.into_iter().next().unwrap_or_default(),
        groups: text(&GROUP)?,
        uid: text(&UID)?.into_iter().next().unwrap_or_default(),
        ..User::default()
    };
    for header in headers.keys() {
        if let Some(key) = header.as_str().strip_prefix(EXTRA_PREFIX) {
            user.extra.insert(unescaped(key), text(header)?);
        }
    }
    let claims = user.groups.len() + user.extra.values().map(Vec::len).sum::<usize>();
    if claims > CLAIMS_MAX {
        let message = format!("a request may claim {CLAIMS_MAX} groups and extra values, not more");
        return Err(Status::bad_request(message));
    }
    match (user.name.is_empty(), claims > 0 || !user.uid.is_empty()) {
        (false, _) => Ok(Some(user)),
        (true, false) => Ok(None),
        (true, true) => {
            let message = "groups, a UID or extra values are claimed without a user: say whom the \
                           request is for in the header Impersonate-User";
            Err(Status::bad_request(message))
        }
    }
}

/// The groups that someone has without saying so.
fn add_groups(user: &mut User) {
    if let (Some((namespace, _)), true) =
        (split_service_account(&user.name), user.groups.is_empty())
    {
        user.groups.extend(service_account_groups(namespace));
    }
    let says = |group: &str| user.groups.iter().any(|it| it == group);
    if user.name == ANONYMOUS {
        if !says(UNAUTHENTICATED) {
            user.groups.push(UNAUTHENTICATED.to_owned());
        }
    } else if !says(AUTHENTICATED) && !says(UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
}

/// A key whose special bytes are written as `%2f`; one that is malformed stays as it is.
fn unescaped(key: &str) -> String {
    decoded(key).unwrap_or_else(|| key.to_owned())
}

fn decoded(key: &str) -> Option<String> {
    let mut parts = key.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let digits: Option<Vec<u32>> = digits.chars().map(|digit| digit.to_digit(16)).collect();
        let byte = digits?.into_iter().fold(0, |sum, digit| sum << 4 | digit);
        bytes.push(u8::try_from(byte).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn admin() -> User {
        User::new("admin", ["system:masters", AUTHENTICATED])
    }

    #[test]
    fn whoever_may_acts_as_others() {
        let rbac = Rbac::default();
        let act = |pairs: &[(&'static str, &'static str)]| {
            acting_user(&headers(pairs), admin(), &rbac).expect("allowed")
        };
        assert_eq!(act(&[]), admin());
        assert_eq!(act(&[("impersonate-user", "dev")]).groups, [AUTHENTICATED]);
        let account = act(&[("impersonate-user", "system:serviceaccount:shop:bot")]);
        assert_eq!(
            account.groups,
            [
                "system:serviceaccounts",
                "system:serviceaccounts:shop",
                AUTHENTICATED
            ]
        );
        let nobody = act(&[("impersonate-user", ANONYMOUS)]);
        assert!(nobody.is_anonymous() && !nobody.is_in(AUTHENTICATED));
        let full = act(&[
            ("impersonate-user", "dev"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-example.com%2fteam", "x"),
        ]);
        assert_eq!(full.groups, ["a", "b", AUTHENTICATED]);
        assert_eq!(full.uid, "7");
        assert_eq!(full.extra["example.com/team"], ["x"]);
    }

    #[test]
    fn keys_of_extra_values() {
        for (key, expected) in [
            ("team", "team"),
            ("a%2fb%C3%A9", "a/bé"),
            ("a%2", "a%2"),
            ("a%2f%+f", "a%2f%+f"),
            ("%ff", "%ff"),
            ("%é", "%é"),
        ] {
            assert_eq!(unescaped(key), expected);
        }
    }

    #[test]
    fn others_are_refused_each_claim() {
        let mut rbac = Rbac::default();
        let eve = || User::new("eve", [AUTHENTICATED]);
        let act = |rbac: &Rbac, pairs: &[(&'static str, &'static str)]| {
            acting_user(&headers(pairs), eve(), rbac)
        };
        let as_dev = [("impersonate-user", "dev")];
        assert_eq!(
            act(&rbac, &as_dev).unwrap_err().message,
            "users \"dev\" is forbidden: User \"eve\" cannot impersonate resource \"users\" in API \
             group \"\" at the cluster scope"
        );
        rbac.set(&json!({
            "kind": "ClusterRole", "metadata": {"name": "devs"}, "rules": [{
                "verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"],
                "resourceNames": ["dev"],
            }],
        }));
        rbac.set(&json!({
            "kind": "ClusterRoleBinding", "metadata": {"name": "devs"},
            "roleRef": {"kind": "ClusterRole", "name": "devs"},
            "subjects": [{"kind": "User", "name": "eve"}],
        }));
        assert!(act(&rbac, &as_dev).is_ok());
        for claim in [
            ("impersonate-group", "system:masters"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-team", "x"),
        ] {
            let status = act(&rbac, &[as_dev[0], claim]).unwrap_err();
            assert_eq!(status.code, 403, "{claim:?}");
        }
        assert!(act(&rbac, &[("impersonate-user", "root")]).is_err());
        assert_eq!(
            act(&rbac, &[("impersonate-group", "a")]).unwrap_err().code,
            400
        );
    }
}

//! Who sends a request.
//!
//! A client says who it is with a certificate that the [authority](crate::certificates) of the
//! cluster has signed, or with a token in the header `Authorization: Bearer ...`. Tokens are of two
//! kinds: those of [users](StaticTokens), which the server has a list of, and those of
//! [service accounts](ServiceAccountTokens), which say themselves whose they are and are signed. A
//! token that is wrong is refused; a request without any is from `system:anonymous`, who may look
//! at [`HEALTH_CHECKS`] and nothing else.
//!
//! ```
//! use outrank_apiserver::authentication::{
//!     Authenticator, Presented, ServiceAccountTokens, StaticTokens,
//! };
//!
//! let users = StaticTokens::in_memory();
//! let token = users.add("ada", &["developers".to_owned()]).unwrap();
//! let authenticator = Authenticator::new(users, ServiceAccountTokens::in_memory().unwrap());
//!
//! let header = format!("Bearer {}", token.reveal());
//! let with = |header| Presented { authorization: header, certificate: None };
//! let nothing_is_stored = |_: &str, _: &str, _: &str| None;
//! let user = authenticator.authenticate(&with(Some(&header)), 0, &nothing_is_stored).unwrap();
//! assert_eq!(user.name, "ada");
//! assert_eq!(user.groups, ["developers", "system:authenticated"]);
//!
//! let refused = authenticator.authenticate(&with(Some("Bearer x")), 0, &nothing_is_stored);
//! assert_eq!(refused.unwrap_err().code, 401);
//! ```
//!
//! Sources: `apiserver/pkg/authentication`, `pkg/serviceaccount`, Kubernetes 1.36.

mod client_certificate;
mod review;
mod secret;
mod service_account_tokens;
mod static_tokens;
mod token_request;

use std::collections::BTreeMap;

use outrank_api::names::{dns1123_label_errors, dns1123_subdomain_errors};
use outrank_api::status::Status;
use serde_json::{Value, json};

pub use client_certificate::certificate_user;
pub use review::{self_subject_review, token_review};
pub use secret::Secret;
pub use service_account_tokens::{
    BoundObject, Claims, ISSUER, KeyError, ServiceAccountTokens, TOKEN_BYTES_MAX, TokenError,
};
pub use static_tokens::{StaticTokens, StaticTokensError};
pub use token_request::{EXPIRATION_SECONDS_DEFAULT, token_request};

/// Who has not said who he is.
pub const ANONYMOUS: &str = "system:anonymous";

/// The group of all who have said who they are.
pub const AUTHENTICATED: &str = "system:authenticated";

/// The group of [`ANONYMOUS`].
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

/// What those may look at who have not said who they are.
pub const HEALTH_CHECKS: [&str; 3] = ["/healthz", "/livez", "/readyz"];

const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// Someone who sends requests. Users are not stored anywhere: what is known of them is what their
/// credentials say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, by which bindings name users.
    pub name: String,
    /// What distinguishes users of the same name over time; may be empty.
    pub uid: String,
    /// The groups that he is in.
    pub groups: Vec<String>,
    /// What else the credentials say.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user of a name in some groups.
    pub fn new<G: Into<String>>(
        name: impl Into<String>,
        groups: impl IntoIterator<Item = G>,
    ) -> Self {
        Self {
            name: name.into(),
            groups: groups.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Who sends requests without credentials.
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, [UNAUTHENTICATED])
    }

    /// Whether he is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|it| it == group)
    }

    /// Whether he has not said who he is.
    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS || self.is_in(UNAUTHENTICATED)
    }

    /// The user as objects show him (`UserInfo`).
    pub fn to_value(&self) -> Value {
        let mut info = json!({"username": self.name});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.groups.is_empty() {
            info["groups"] = self.groups.clone().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }

    fn authenticated(mut self) -> Self {
        if !self.is_in(AUTHENTICATED) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

/// The user name of a service account.
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// The groups of the service accounts of a namespace.
pub fn service_account_groups(namespace: &str) -> [String; 2] {
    [
        SERVICE_ACCOUNTS.to_owned(),
        format!("{SERVICE_ACCOUNTS}:{namespace}"),
    ]
}

/// Namespace and name of the service account that a user name stands for.
pub fn split_service_account(user_name: &str) -> Option<(&str, &str)> {
    let account = user_name.strip_prefix(SERVICE_ACCOUNT_PREFIX)?;
    let (namespace, name) = account.split_once(':')?;
    let is_valid =
        dns1123_label_errors(namespace).is_empty() && dns1123_subdomain_errors(name).is_empty();
    is_valid.then_some((namespace, name))
}

/// What a client shows of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Presented<'r> {
    /// The header `Authorization`.
    pub authorization: Option<&'r str>,
    /// Whom the certificate of the connection [names](certificate_user).
    pub certificate: Option<&'r User>,
}

/// Looks up what tokens are bound to: the UID of the object of a resource (`serviceaccounts`,
/// `pods`, `secrets`, or `nodes` without namespace), namespace and name, if there is one.
pub type UidLookup<'l> = dyn Fn(&str, &str, &str) -> Option<String> + 'l;

/// Says who sends a request.
#[derive(Debug)]
pub struct Authenticator {
    users: StaticTokens,
    accounts: ServiceAccountTokens,
}

impl Authenticator {
    /// Knows the tokens of these users, and those of service accounts that are signed so.
    pub fn new(users: StaticTokens, accounts: ServiceAccountTokens) -> Self {
        Self { users, accounts }
    }

    /// The tokens of users.
    pub fn users(&self) -> &StaticTokens {
        &self.users
    }

    /// The tokens of service accounts.
    pub fn accounts(&self) -> &ServiceAccountTokens {
        &self.accounts
    }

    /// Who sends a request at a time (seconds since 1970). A certificate counts before a token.
    ///
    /// # Errors
    ///
    /// 401 if there is a token and it is wrong.
    pub fn authenticate(
        &self,
        presented: &Presented<'_>,
        now_seconds: i64,
        uids: &UidLookup<'_>,
    ) -> Result<User, Status> {
        if let Some(user) = presented.certificate {
            return Ok(user.clone().authenticated());
        }
        let Some(token) = presented.authorization.and_then(bearer_token) else {
            return Ok(User::anonymous());
        };
        let audiences = [ISSUER.to_owned()];
        match self.token_user(token, &audiences, now_seconds, uids) {
            Ok((user, _)) => Ok(user),
            Err(TokenError) => Err(Status::unauthorized()),
        }
    }

    /// Whose a token is that is shown to one of these audiences, and to which of them it may be
    /// shown. Tokens of users are for the API server only.
    ///
    /// # Errors
    ///
    /// It is nobody's. Why is not said, since only an attacker would learn from it.
    pub fn token_user(
        &self,
        token: &str,
        audiences: &[String],
        now_seconds: i64,
        uids: &UidLookup<'_>,
    ) -> Result<(User, Vec<String>), TokenError> {
        let for_any_of = |own: &[String]| -> Vec<String> {
            let shared = audiences.iter().filter(|it| own.contains(it));
            shared.cloned().collect()
        };
        let (user, audiences) = match self.users.user(token) {
            Some(user) => (user, for_any_of(&[ISSUER.to_owned()])),
            None => {
                let claims = self.accounts.verify(token, now_seconds)?;
                if !claims.are_bound(uids) {
                    return Err(TokenError);
                }
                (claims.user(), for_any_of(&claims.audiences))
            }
        };
        match audiences.is_empty() {
            true => Err(TokenError),
            false => Ok((user.authenticated(), audiences)),
        }
    }
}

/// The token in a header, if it has one. Other schemes are passed over, as upstream does.
fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, rest) = header.trim().split_once(' ')?;
    let token = rest.split(' ').next().filter(|token| !token.is_empty())?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_in_headers() {
        for (header, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            (" BEARER abc def ", Some("abc")),
            ("Bearer", None),
            ("Bearer ", None),
            ("Bearer  abc", None),
            ("Basic abc", None),
            ("", None),
        ] {
            assert_eq!(bearer_token(header), token, "{header:?}");
        }
    }

    #[test]
    fn names_of_service_accounts() {
        assert_eq!(
            split_service_account(&service_account_name("shop", "bot")),
            Some(("shop", "bot"))
        );
        for name in [
            "bot",
            "system:serviceaccount:shop",
            "system:serviceaccount::bot",
            "system:serviceaccount:shop:",
            "system:serviceaccount:shop:a:b",
        ] {
            assert_eq!(split_service_account(name), None, "{name}");
        }
    }

    #[test]
    fn wrong_tokens_are_401_and_none_is_anonymous() {
        let accounts = ServiceAccountTokens::in_memory().expect("random numbers");
        let authenticator = Authenticator::new(StaticTokens::in_memory(), accounts);
        let authenticate = |authorization, certificate| {
            let presented = Presented {
                authorization,
                certificate,
            };
            authenticator.authenticate(&presented, 0, &|_, _, _| None)
        };
        assert_eq!(authenticate(None, None), Ok(User::anonymous()));
        assert_eq!(
            authenticate(Some("Basic YTpi"), None),
            Ok(User::anonymous())
        );
        let refused = authenticate(Some("Bearer YTpi"), None).unwrap_err();
        assert_eq!(
            serde_json::to_value(refused).unwrap(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
            })
        );
        let ada = User::new("ada", ["devs"]);
        let known = authenticate(Some("Bearer YTpi"), Some(&ada)).unwrap();
        assert_eq!(known.groups, ["devs", AUTHENTICATED]);
    }
}

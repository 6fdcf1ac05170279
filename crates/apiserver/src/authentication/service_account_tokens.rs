//! Tokens of service accounts, which say themselves whose they are.
//!
//! A service account is an object that programs act as; whoever needs a token for one requests it
//! ([`token_request`](super::token_request)). The token is a JSON Web Token (RFC 7519) with the
//! claims that upstream writes: account, UID, audience and times. The server keeps no list of them.
//! It signs each with a key that only it knows (HMAC with SHA-256, algorithm `HS256`) and checks
//! the signature, so that they hold after a restart with the same key, whatever their number.
//! Upstream signs with a key pair, so that others can check tokens, too; here they ask the server
//! (`TokenReview`). A token ends at its time, and with the account or pod that it is bound to.
//!
//! Sources: `pkg/serviceaccount/claims.go` and `jwt.go`, Kubernetes 1.36.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Map, Value, json};

use super::static_tokens::{hex, unhex};
use super::{Secret, UidLookup, User, service_account_groups, service_account_name};
use crate::private_file;

/// Who issues the tokens, and for whom they are unless others are named.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// How long a token may be, in bytes.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

/// Extra keys of users that tokens name.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// Signs tokens of service accounts, and checks them.
pub struct ServiceAccountTokens {
    key: hmac::Key,
}

/// A token is nobody's, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid bearer token")]
pub struct TokenError;

/// Why there is no key to sign with.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("cannot {what} the key for tokens in {}: {error}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        error: io::Error,
    },
    /// The file does not have a key.
    #[error(
        "{} does not have a key for tokens (64 hexadecimal digits); restore it from a backup, or \
         move it away to have a new one made, which makes all tokens of service accounts worthless",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The machine has no random numbers.
    #[error("the system gives no random numbers")]
    NoRandomNumbers,
}

/// An object that a token ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundObject {
    /// Its name, in the namespace of the account.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Namespace of the account.
    pub namespace: String,
    /// The account.
    pub account: BoundObject,
    /// The pod that uses the token.
    pub pod: Option<BoundObject>,
    /// The secret that the token ends with.
    pub secret: Option<BoundObject>,
    /// To whom the token may be shown.
    pub audiences: Vec<String>,
    /// What distinguishes it from others.
    pub id: String,
    /// Since when it holds, in seconds since 1970.
    pub issued_at_seconds: i64,
    /// When it ends, in seconds since 1970.
    pub expires_at_seconds: i64,
}

impl ServiceAccountTokens {
    /// Signs with a new key that is kept nowhere.
    ///
    /// # Errors
    ///
    /// The machine has no random numbers.
    pub fn in_memory() -> Result<Self, KeyError> {
        Ok(Self::signed_with(&new_key()?))
    }

    /// Signs with the key in a file, which is made if there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written, or has no key in it. It is left as it is.
    pub fn open(path: &Path) -> Result<Self, KeyError> {
        let io_error = |what, error| KeyError::Io {
            what,
            path: path.to_owned(),
            error,
        };
        if let Some(bytes) = private_file::read(path).map_err(|error| io_error("read", error))? {
            let text = std::str::from_utf8(&bytes).unwrap_or_default();
            let key = unhex(text.trim_end()).ok_or_else(|| KeyError::Damaged {
                path: path.to_owned(),
            })?;
            return Ok(Self::signed_with(&key));
        }
        let key = new_key()?;
        let text = format!("{}\n", hex(&key));
        private_file::create(path, text.as_bytes()).map_err(|error| io_error("write", error))?;
        Ok(Self::signed_with(&key))
    }

    fn signed_with(key: &[u8; 32]) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
        }
    }

    /// A token with these claims.
    pub fn issue(&self, claims: &Claims) -> Secret {
        let header = BASE64_URL_SAFE_NO_PAD.encode(HEADER);
        let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_value().to_string());
        let signed = format!("{header}.{claims}");
        let signature = hmac::sign(&self.key, signed.as_bytes());
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
        Secret::new(format!("{signed}.{signature}"))
    }

    /// What a token says, if it was signed here and holds at a time (seconds since 1970). The
    /// time this takes does not depend on how much of a signature is right.
    ///
    /// # Errors
    ///
    /// It was not, or does not.
    pub fn verify(&self, token: &str, now_seconds: i64) -> Result<Claims, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError)?;
        let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError);
        hmac::verify(&self.key, signed.as_bytes(), &decode(signature)?).map_err(|_| TokenError)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError)?;
        if decode(header)? != HEADER.as_bytes() {
            return Err(TokenError);
        }
        let claims = serde_json::from_slice(&decode(claims)?).map_err(|_| TokenError)?;
        let claims = Claims::read(&claims).ok_or(TokenError)?;
        let holds = (claims.issued_at_seconds..claims.expires_at_seconds).contains(&now_seconds);
        holds.then_some(claims).ok_or(TokenError)
    }
}

impl fmt::Debug for ServiceAccountTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceAccountTokens(..)")
    }
}

impl Claims {
    /// Who the bearer is.
    pub fn user(&self) -> User {
        let mut extra = BTreeMap::new();
        let mut put = |key: &str, value: String| extra.insert(key.to_owned(), vec![value]);
        put(CREDENTIAL, format!("JTI={}", self.id));
        if let Some(pod) = &self.pod {
            put(POD_NAME, pod.name.clone());
            put(POD_UID, pod.uid.clone());
        }
        User {
            name: service_account_name(&self.namespace, &self.account.name),
            uid: self.account.uid.clone(),
            groups: service_account_groups(&self.namespace).to_vec(),
            extra,
        }
    }

    /// Whether all that the token is bound to is still there, and still the same.
    pub fn are_bound(&self, uids: &UidLookup<'_>) -> bool {
        let is_there = |resource: &str, object: &BoundObject| {
            let uid = uids(resource, &self.namespace, &object.name);
            uid.is_some_and(|uid| uid == object.uid)
        };
        is_there("serviceaccounts", &self.account)
            && self.pod.as_ref().is_none_or(|pod| is_there("pods", pod))
            && self
                .secret
                .as_ref()
                .is_none_or(|it| is_there("secrets", it))
    }

    fn to_value(&self) -> Value {
        let reference = |object: &BoundObject| json!({"name": object.name, "uid": object.uid});
        let mut own = Map::new();
        own.insert("namespace".to_owned(), self.namespace.as_str().into());
        own.insert("serviceaccount".to_owned(), reference(&self.account));
        own.extend(
            self.pod
                .as_ref()
                .map(|it| ("pod".to_owned(), reference(it))),
        );
        own.extend(
            self.secret
                .as_ref()
                .map(|it| ("secret".to_owned(), reference(it))),
        );
        json!({
            "aud": self.audiences,
            "exp": self.expires_at_seconds,
            "iat": self.issued_at_seconds,
            "iss": ISSUER,
            "jti": self.id,
            "kubernetes.io": own,
            "nbf": self.issued_at_seconds,
            "sub": service_account_name(&self.namespace, &self.account.name),
        })
    }

    fn read(claims: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let reference = |object: &Value| -> Option<BoundObject> {
            Some(BoundObject {
                name: text(&object["name"])?,
                uid: text(&object["uid"])?,
            })
        };
        let optional = |object: &Value| match object {
            Value::Null => Some(None),
            object => reference(object).map(Some),
        };
        let own = &claims["kubernetes.io"];
        let audiences = claims["aud"].as_array()?.iter().map(text);
        Some(Self {
            namespace: text(&own["namespace"])?,
            account: reference(&own["serviceaccount"])?,
            pod: optional(&own["pod"])?,
            secret: optional(&own["secret"])?,
            audiences: audiences.collect::<Option<_>>()?,
            id: text(&claims["jti"])?,
            issued_at_seconds: claims["iat"].as_i64()?,
            expires_at_seconds: claims["exp"].as_i64()?,
        })
    }
}

fn new_key() -> Result<[u8; 32], KeyError> {
    let mut key = [0; 32];
    let filled = SystemRandom::new().fill(&mut key);
    filled.map_err(|_| KeyError::NoRandomNumbers)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            namespace: "shop".to_owned(),
            account: BoundObject {
                name: "bot".to_owned(),
                uid: "1".to_owned(),
            },
            pod: None,
            secret: None,
            audiences: vec![ISSUER.to_owned()],
            id: "j".to_owned(),
            issued_at_seconds: 100,
            expires_at_seconds: 200,
        }
    }

    #[test]
    fn what_is_issued_is_understood_in_its_time() {
        let tokens = ServiceAccountTokens::in_memory().unwrap();
        let mut with_pod = claims();
        with_pod.pod = Some(BoundObject {
            name: "p".to_owned(),
            uid: "2".to_owned(),
        });
        for claims in [claims(), with_pod] {
            let token = tokens.issue(&claims);
            for (now, holds) in [(99, false), (100, true), (199, true), (200, false)] {
                let expected = if holds {
                    Ok(claims.clone())
                } else {
                    Err(TokenError)
                };
                assert_eq!(tokens.verify(token.reveal(), now), expected, "{now}");
            }
        }
    }

    #[test]
    fn what_is_changed_or_signed_elsewhere_is_refused() {
        let tokens = ServiceAccountTokens::in_memory().unwrap();
        let token = tokens.issue(&claims());
        let token = token.reveal();
        for at in 0..token.len() {
            let mut bytes = token.as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            let verified = tokens.verify(&changed, 150);
            assert_eq!(verified, Err(TokenError), "byte {at} of {token}");
        }
        let unsigned = format!(
            "{}.{}.",
            BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#),
            BASE64_URL_SAFE_NO_PAD.encode(claims().to_value().to_string()),
        );
        for wrong in [
            "",
            ".",
            "..",
            "a.b.c",
            &unsigned,
            &"a".repeat(TOKEN_BYTES_MAX + 1),
        ] {
            assert_eq!(tokens.verify(wrong, 150), Err(TokenError));
        }
        let others = ServiceAccountTokens::in_memory().unwrap();
        assert_eq!(others.verify(token, 150), Err(TokenError));
    }

    #[test]
    fn a_token_ends_with_what_it_is_bound_to() {
        let stored = |resource: &str, namespace: &str, name: &str| {
            let key = (resource, namespace, name);
            (key == ("serviceaccounts", "shop", "bot")).then(|| "1".to_owned())
        };
        assert!(claims().are_bound(&stored));
        let mut anew = claims();
        anew.account.uid = "2".to_owned();
        assert!(!anew.are_bound(&stored));
        let mut with_pod = claims();
        with_pod.pod = Some(anew.account);
        assert!(!with_pod.are_bound(&stored));
    }

    #[test]
    fn the_key_outlives_the_process_and_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("service-accounts.key");
        let token = ServiceAccountTokens::open(&path).unwrap().issue(&claims());
        let reopened = ServiceAccountTokens::open(&path).unwrap();
        assert_eq!(reopened.verify(token.reveal(), 150), Ok(claims()));
        for damaged in ["", "abc", &"x".repeat(64)] {
            std::fs::write(&path, damaged).unwrap();
            let error = ServiceAccountTokens::open(&path).unwrap_err().to_string();
            assert!(error.contains("does not have a key"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        }
    }
}

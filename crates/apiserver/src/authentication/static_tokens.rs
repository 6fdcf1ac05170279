//! Tokens of users, which the server has a list of.
//!
//! A token is 256 random bits. The server keeps its SHA-256 only, in memory and on disk: who reads
//! the list can use none of them. Tokens are found by that digest, so that the time a search takes
//! says nothing about the tokens. A user has one token; a new one replaces it, and one that is
//! taken away is worth nothing from then on (which a certificate cannot be before it expires).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::{fmt, io};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use super::{ANONYMOUS, Secret, User, split_service_account};
use crate::private_file;

/// The file's format; another one is refused.
const FORMAT: u32 = 1;

/// How many users may have tokens.
const USERS_MAX: usize = 10_000;

/// Users with their tokens.
pub struct StaticTokens {
    by_digest: RwLock<BTreeMap<Digest, User>>,
    /// Where they are kept, unless in memory only.
    path: Option<PathBuf>,
}

type Digest = [u8; 32];

/// Why the list of users cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StaticTokensError {
    /// The file cannot be read or written.
    #[error("cannot {what} the list of users in {}: {error}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        error: io::Error,
    },
    /// The file is not as it was written.
    #[error(
        "{} is not a list of users as this program writes it ({what}); restore it from a backup, \
         or move it away to begin without users",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// No user can be called so.
    #[error("no user can be called {name:?}: {what}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// There are too many users.
    #[error("there are {USERS_MAX} users already, and there may be no more")]
    Full,
    /// The machine has no random numbers.
    #[error("the system gives no random numbers")]
    NoRandomNumbers,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u32,
    users: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Entry {
    name: String,
    uid: String,
    groups: Vec<String>,
    token_sha256: String,
}

impl StaticTokens {
    /// No users, and none are kept.
    pub fn in_memory() -> Self {
        Self {
            by_digest: RwLock::default(),
            path: None,
        }
    }

    /// The users in a file; none, if there is no file yet. Only one process may have it open.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is damaged. It is left as it is.
    pub fn open(path: &Path) -> Result<Self, StaticTokensError> {
        let bytes = private_file::read(path).map_err(|error| io_error("read", path, error))?;
        let by_digest = match bytes {
            None => BTreeMap::new(),
            Some(bytes) => read(&bytes).map_err(|what| StaticTokensError::Damaged {
                path: path.to_owned(),
                what,
            })?,
        };
        Ok(Self {
            by_digest: RwLock::new(by_digest),
            path: Some(path.to_owned()),
        })
    }

    /// Gives a user a token, in place of one that he may have. He can do nothing until bindings
    /// name him or his groups.
    ///
    /// # Errors
    ///
    /// The name is not one for users, there are too many, or the list cannot be written. Then
    /// nothing has changed.
    pub fn add(&self, name: &str, groups: &[String]) -> Result<Secret, StaticTokensError> {
        if let Some(what) = name_error(name) {
            let name = name.to_owned();
            return Err(StaticTokensError::Name { name, what });
        }
        let mut random = [0; 32];
        let filled = SystemRandom::new().fill(&mut random);
        filled.map_err(|_| StaticTokensError::NoRandomNumbers)?;
        let token = BASE64_URL_SAFE_NO_PAD.encode(random);
        let user = User {
            uid: uuid::Uuid::new_v4().to_string(),
            ..User::new(name, groups.iter().cloned())
        };
        self.change(|users| {
            users.retain(|_, user| user.name != name);
            users.insert(digest_of(&token), user);
            match users.len() <= USERS_MAX {
                true => Ok(()),
                false => Err(StaticTokensError::Full),
            }
        })?;
        Ok(Secret::new(token))
    }

    /// Takes the token of a user away; `false` if he has none.
    ///
    /// # Errors
    ///
    /// The list cannot be written. Then nothing has changed.
    pub fn remove(&self, name: &str) -> Result<bool, StaticTokensError> {
        self.change(|users| {
            let before = users.len();
            users.retain(|_, user| user.name != name);
            Ok(users.len() < before)
        })
    }

    /// Whose a token is.
    pub fn user(&self, token: &str) -> Option<User> {
        let users = self
            .by_digest
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        users.get(&digest_of(token)).cloned()
    }

    /// The users that have tokens, by name.
    pub fn users(&self) -> Vec<User> {
        let users = self
            .by_digest
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut users: Vec<User> = users.values().cloned().collect();
        users.sort_by(|one, other| one.name.cmp(&other.name));
        users
    }

    /// Changes the list: first on disk, then in memory.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<Digest, User>) -> Result<T, StaticTokensError>,
    ) -> Result<T, StaticTokensError> {
        let mut users = self
            .by_digest
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut changed = users.clone();
        let result = change(&mut changed)?;
        if let Some(path) = &self.path {
            let text = written(&changed);
            private_file::write(path, text.as_bytes())
                .map_err(|error| io_error("write", path, error))?;
        }
        *users = changed;
        Ok(result)
    }
}

impl fmt::Debug for StaticTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.users().into_iter().map(|user| user.name).collect();
        f.debug_tuple("StaticTokens").field(&names).finish()
    }
}

fn io_error(what: &'static str, path: &Path, error: io::Error) -> StaticTokensError {
    StaticTokensError::Io {
        what,
        path: path.to_owned(),
        error,
    }
}

fn name_error(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it is empty");
    }
    if name.len() > 253 {
        return Some("it has more than 253 bytes");
    }
    if name.contains(char::is_control) {
        return Some("it has control characters");
    }
    if name == ANONYMOUS {
        return Some("that is who has no token");
    }
    split_service_account(name).map(|_| "that is a service account; request a token for it")
}

fn digest_of(token: &str) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

fn written(users: &BTreeMap<Digest, User>) -> String {
    let users = users.iter().map(|(digest, user)| Entry {
        name: user.name.clone(),
        uid: user.uid.clone(),
        groups: user.groups.clone(),
        token_sha256: hex(digest),
    });
    let file = File {
        format: FORMAT,
        users: users.collect(),
    };
    // Structs of texts cannot fail to be JSON.
    let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
    text.push('\n');
    text
}

fn read(bytes: &[u8]) -> Result<BTreeMap<Digest, User>, String> {
    // The place is told, the text is not: somebody may have put a token there.
    let file: File = serde_json::from_slice(bytes)
        .map_err(|error| format!("line {}, column {}", error.line(), error.column()))?;
    if file.format != FORMAT {
        return Err(format!("format {} instead of {FORMAT}", file.format));
    }
    let users = file.users.into_iter().map(|entry| {
        let digest = unhex(&entry.token_sha256);
        let digest = digest.ok_or_else(|| format!("the digest of {:?} is none", entry.name))?;
        let user = User {
            name: entry.name,
            uid: entry.uid,
            groups: entry.groups,
            ..User::default()
        };
        Ok((digest, user))
    });
    users.collect()
}

/// Bytes as hexadecimal digits in lower case.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 32 bytes of hexadecimal digits.
pub(super) fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|it| u8::try_from(it).ok()))
        .collect();
    let digits: [u8; 64] = digits?.try_into().ok()?;
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair.iter().fold(0, |sum, digit| sum << 4 | digit);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_worth_something_until_it_is_replaced_or_taken_away() {
        let tokens = StaticTokens::in_memory();
        let first = tokens.add("ada", &["devs".to_owned()]).unwrap();
        assert_eq!(first.reveal().len(), 43);
        let second = tokens.add("ada", &[]).unwrap();
        assert_eq!(tokens.user(first.reveal()), None);
        let ada = tokens.user(second.reveal()).unwrap();
        assert_eq!((ada.name.as_str(), ada.groups.len()), ("ada", 0));
        assert!(tokens.remove("ada").unwrap());
        assert!(!tokens.remove("ada").unwrap());
        assert_eq!(tokens.user(second.reveal()), None);
        for name in ["", "a\nb", ANONYMOUS, "system:serviceaccount:a:b"] {
            assert!(tokens.add(name, &[]).is_err(), "{name:?}");
        }
    }

    #[test]
    fn users_survive_a_restart_and_their_tokens_are_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users.json");
        let token = StaticTokens::open(&path)
            .unwrap()
            .add("ada", &["devs".to_owned()])
            .unwrap();
        let reopened = StaticTokens::open(&path).unwrap();
        assert_eq!(reopened.user(token.reveal()).unwrap().groups, ["devs"]);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(token.reveal()), "{text}");
        assert!(!format!("{reopened:?}").contains(token.reveal()));
    }

    #[test]
    fn a_damaged_list_is_told_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users.json");
        let digest = "0".repeat(64);
        for damaged in [
            String::new(),
            "{".to_owned(),
            r#"{"format": 2, "users": []}"#.to_owned(),
            r#"{"format": 1, "users": [], "more": 1}"#.to_owned(),
            r#"{"format":1,"users":[{"name":"a","uid":"","groups":[],"tokenSha256":"0g"}]}"#
                .to_owned(),
            format!(r#"{{"format":1,"users":[{{"name":"a","tokenSha256":"{digest}"}}]}}"#),
        ] {
            std::fs::write(&path, &damaged).unwrap();
            let error = StaticTokens::open(&path).unwrap_err().to_string();
            assert!(
                error.contains("users.json is not a list of users"),
                "{error}"
            );
            assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        }
    }

    #[test]
    fn digits_and_back() {
        let bytes: [u8; 32] = std::array::from_fn(|at| (at * 8 + 7) as u8);
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        assert_eq!(unhex(&"g".repeat(64)), None);
        assert_eq!(unhex("00"), None);
    }
}

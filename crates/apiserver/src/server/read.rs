//! Reading objects: one, or a list.
//!
//! A list is one moment of the cluster. A long one can be taken in pieces (`limit`): each piece but
//! the last comes with a token (`continue`) that has the version of that moment, and from which the
//! next piece goes on. If the version is forgotten meanwhile, the answer is 410, with a token that
//! goes on with what is there now.
//!
//! Sources, Kubernetes 1.36: `k8s.io/apiserver/pkg/storage/etcd3/store.go`,
//! `storage/continue.go`, `apis/meta/internalversion/validation/validation.go`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use outrank_api::field_error::FieldError;
use outrank_api::fields::{FieldRequirement, FieldSelector};
use outrank_api::labels::Selector;
use outrank_api::status::{Qualified, Reason, Status, StatusCause, StatusDetails};
use outrank_store::{Entry, Key, ListError, ListQuery, Range};
use serde_json::{Value, json};

use super::{ApiServer, Target};
use crate::request::Query;
use crate::selectable_fields::SelectableFields;
use crate::stored_object::{Selection, StoredObject};

/// How many objects are looked at in one go at least, if a list with a limit selects some.
const LOOKED_AT: usize = 1_000;

/// What is asked of a list or a watch.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Which objects.
    pub selection: Selection,
    /// How many at most; 0 is all.
    pub limit: usize,
    /// The token of the piece before.
    pub token: String,
    /// The version that is asked for; empty is the newest.
    pub resource_version: String,
    /// What `resource_version` means.
    pub version_match: String,
}

/// A list, or a piece of it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The objects.
    pub entries: Vec<Entry<StoredObject>>,
    /// The version of the list.
    pub version: u64,
    /// The token for the next piece; empty if this is the last.
    pub token: String,
    /// How many more there are, where that is known.
    pub remaining_count: Option<usize>,
}

impl ApiServer {
    /// The object of this name.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn get(&self, target: &Target) -> Result<Entry<StoredObject>, Status> {
        let resource = target.served.resource.resource();
        let found = self.store().get(&target.key());
        found.ok_or_else(|| Status::not_found(resource, &target.name))
    }

    /// The objects of a type, in a namespace or all.
    ///
    /// # Errors
    ///
    /// If the version is forgotten or in the future, or a parameter is wrong.
    pub fn list(&self, target: &Target, options: &ListOptions) -> Result<Listed, Status> {
        let range = range_of(target);
        let (mut after, mut at) = self.start_of(target, options)?;
        let is_everything = options.selection.is_everything();
        let mut found = Vec::new();
        loop {
            let wanted = options.limit.saturating_sub(found.len());
            let query = ListQuery {
                limit: match (options.limit, is_everything) {
                    (0, _) => None,
                    (_, true) => Some(wanted),
                    // Where few are selected many are looked at.
                    (_, false) => Some(wanted.max(LOOKED_AT)),
                },
                after: after.clone(),
                at,
            };
            let list = self.store().list(&range, query);
            let list = list.map_err(|error| not_listed(&error, at, after.as_ref()))?;
            let version = list.version;
            let mut entries = list.entries.into_iter();
            let is_selected = |entry: &Entry<StoredObject>| {
                entry.value.is_selected(&entry.key, &options.selection)
            };
            let is_full = |found: &[_]| options.limit > 0 && found.len() >= options.limit;
            while !is_full(&found)
                && let Some(entry) = entries.next()
            {
                if is_selected(&entry) {
                    found.push(entry);
                }
            }
            if !is_full(&found)
                && let Some(more) = list.more
            {
                // All pieces are of one moment.
                (after, at) = (Some(more.last_key), Some(version));
                continue;
            }
            let is_last = entries.len() == 0 && list.more.is_none();
            let last = found.last().filter(|_| !is_last);
            let token = last.map(|entry| token(version, &entry.key));
            let counted = list.more.filter(|_| is_everything);
            return Ok(Listed {
                entries: found,
                version,
                token: token.unwrap_or_default(),
                remaining_count: counted.map(|it| it.remaining_count),
            });
        }
    }

    /// After which key a list starts, and at which version.
    fn start_of(
        &self,
        target: &Target,
        options: &ListOptions,
    ) -> Result<(Option<Key>, Option<u64>), Status> {
        if !options.token.is_empty() {
            let (version, after) = read_token(&options.token, target)?;
            return Ok((Some(after), version));
        }
        let Some(version) = version_of(&options.resource_version)? else {
            return Ok((None, None));
        };
        let newest = self.store().version();
        if version > newest {
            return Err(too_large_version(version, newest));
        }
        let is_exact = match options.version_match.as_str() {
            "Exact" => true,
            // The version of a list in pieces is the one that was asked for.
            "" => options.limit > 0 && version > 0,
            _ => false,
        };
        Ok((None, is_exact.then_some(version)))
    }
}

impl ListOptions {
    /// Reads the parameters of a request for a list or a watch.
    ///
    /// # Errors
    ///
    /// The answer, if one of them is wrong.
    pub fn read(query: &Query<'_>, target: &Target) -> Result<Self, Status> {
        query.number("timeoutSeconds")?;
        let limit = query.number("limit")?.unwrap_or(0);
        let options = Self {
            selection: selection(query, target)?,
            limit: usize::try_from(limit).unwrap_or(0),
            token: query.get("continue").to_owned(),
            resource_version: query.get("resourceVersion").to_owned(),
            version_match: query.get("resourceVersionMatch").to_owned(),
        };
        options.check(query)?;
        Ok(options)
    }

    fn check(&self, query: &Query<'_>) -> Result<(), Status> {
        let (version, version_match) = (self.resource_version.as_str(), &*self.version_match);
        let mut errors = Vec::new();
        let mut forbid = |field: &'static str, why: &str| {
            errors.push(FieldError::forbidden(field, why));
        };
        const MATCH: &str = "resourceVersionMatch";
        if query.is_true("watch") {
            let wants_initial_events = query.flag("sendInitialEvents").is_some();
            match version_match {
                "NotOlderThan" if wants_initial_events => {}
                _ if wants_initial_events => forbid(
                    MATCH,
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ),
                "" => {}
                _ => forbid(
                    MATCH,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is \
                     provided",
                ),
            }
        } else {
            if query.flag("sendInitialEvents").is_some() {
                forbid(
                    "sendInitialEvents",
                    "sendInitialEvents is forbidden for list",
                );
            }
            match version_match {
                "" => {}
                _ if !self.token.is_empty() => forbid(
                    MATCH,
                    "resourceVersionMatch is forbidden when continue is provided",
                ),
                _ if version.is_empty() => forbid(
                    MATCH,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ),
                "Exact" if version == "0" => forbid(
                    MATCH,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ),
                "Exact" | "NotOlderThan" => {}
                other => {
                    let supported = ["Exact", "NotOlderThan", ""];
                    errors.push(FieldError::not_supported(MATCH, other, &supported));
                }
            }
        }
        match errors.as_slice() {
            [] => Ok(()),
            errors => {
                let kind = Qualified {
                    group: "meta.k8s.io",
                    name: "ListOptions",
                };
                Err(Status::invalid(kind, "", errors))
            }
        }
    }
}

fn selection(query: &Query<'_>, target: &Target) -> Result<Selection, Status> {
    let labels = match query.get("labelSelector") {
        "" => None,
        text => Some(Selector::parse(text).map_err(Status::bad_request)?),
    };
    let mut fields = Vec::new();
    let selector = FieldSelector::parse(query.get("fieldSelector")).map_err(Status::bad_request)?;
    let known = SelectableFields::of(&target.served.store_name);
    for requirement in selector.requirements() {
        let name = known.stored_name(&target.served.resource.group, &requirement.key);
        let Some(name) = name else {
            let why = format!("field label not supported: {}", requirement.key);
            return Err(Status::bad_request(why));
        };
        fields.push(FieldRequirement {
            key: name.into_owned(),
            ..requirement.clone()
        });
    }
    if !target.name.is_empty() {
        fields.push(FieldRequirement {
            key: "metadata.name".to_owned(),
            equal: true,
            value: target.name.clone(),
        });
    }
    Ok(Selection { labels, fields })
}

/// The part of the store that a target is in.
pub(super) fn range_of(target: &Target) -> Range {
    match target.namespace.as_str() {
        "" => Range::Resource(target.served.store_name.clone()),
        namespace => Range::Namespace(target.served.store_name.clone(), namespace.into()),
    }
}

/// The number of a version; `None` if the text is empty.
pub(super) fn version_of(text: &str) -> Result<Option<u64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse::<u64>();
    let number = number.map_err(|_| {
        Status::unknown_error(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: \
             invalid syntax"
        ))
    })?;
    Ok(Some(number))
}

/// What was asked for is forgotten.
pub(super) fn expired(message: &str) -> Status {
    Status {
        code: 410,
        reason: Some(Reason::Expired),
        message: message.to_owned(),
        ..Status::bad_request("")
    }
}

fn too_large_version(asked: u64, newest: u64) -> Status {
    let cause = StatusCause {
        reason: "ResourceVersionTooLarge".to_owned(),
        message: "Too large resource version".to_owned(),
        ..StatusCause::default()
    };
    Status {
        code: 504,
        reason: Some(Reason::Timeout),
        message: format!("Timeout: Too large resource version: {asked}, current: {newest}"),
        details: Some(Box::new(StatusDetails {
            causes: vec![cause],
            retry_after_seconds: 1,
            ..StatusDetails::default()
        })),
        ..Status::bad_request("")
    }
}

fn not_listed(error: &ListError, at: Option<u64>, after: Option<&Key>) -> Status {
    match error {
        ListError::Future { newest } => too_large_version(at.unwrap_or(0), *newest),
        ListError::Gone { .. } => {
            let mut status = expired(match after {
                Some(_) => {
                    "The provided continue parameter is too old to display a consistent list \
                     result. You can start a new list without the continue parameter, or use \
                     the continue token in this response to retrieve the remainder of the \
                     results. Continuing with the provided token results in an inconsistent \
                     list - objects that were created, modified, or deleted between the time \
                     the first chunk was returned and now may show up in the list."
                }
                None => "The resourceVersion for the provided list is too old.",
            });
            if let Some(after) = after {
                status.continue_token = token_of_now(after);
            }
            status
        }
    }
}

/// A token that goes on after a key, at a version; upstream's form.
fn token(version: u64, after: &Key) -> String {
    encoded(&json!({"v": "meta.k8s.io/v1", "rv": version, "start": start_of_key(after)}))
}

/// A token that goes on after a key with what is there then.
fn token_of_now(after: &Key) -> String {
    encoded(&json!({"v": "meta.k8s.io/v1", "rv": -1, "start": start_of_key(after)}))
}

fn encoded(token: &Value) -> String {
    URL_SAFE_NO_PAD.encode(token.to_string())
}

fn start_of_key(key: &Key) -> String {
    match &*key.namespace {
        "" => format!("/{}\u{0}", key.name),
        namespace => format!("/{namespace}/{}\u{0}", key.name),
    }
}

/// Version and key of a token; no version is what is there now.
fn read_token(text: &str, target: &Target) -> Result<(Option<u64>, Key), Status> {
    let invalid = |why: String| {
        Status::bad_request(format!(
            "invalid continue token: continue key is not valid: {why}"
        ))
    };
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| {
        let at = match error {
            base64::DecodeError::InvalidByte(at, _)
            | base64::DecodeError::InvalidLastSymbol(at, _) => at,
            _ => text.len() / 4 * 4,
        };
        invalid(format!("illegal base64 data at input byte {at}"))
    })?;
    let token: Value =
        serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
    let version = token.get("rv").and_then(Value::as_i64).unwrap_or_default();
    let start = token
        .get("start")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let is_ours = token.get("v").and_then(Value::as_str) == Some("meta.k8s.io/v1");
    let path = start
        .strip_prefix('/')
        .and_then(|it| it.strip_suffix('\u{0}'));
    let Some(path) = path.filter(|it| is_ours && version != 0 && !it.is_empty()) else {
        return Err(invalid(
            "incorrect encoded start resourceVersion".to_owned(),
        ));
    };
    let (namespace, name) = match target.served.resource.is_namespaced {
        true => path.split_once('/').unwrap_or((&target.namespace, path)),
        false => ("", path),
    };
    let key = Key::new(target.served.store_name.clone(), namespace, name);
    Ok((u64::try_from(version).ok(), key))
}

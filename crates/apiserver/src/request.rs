//! What a request asks, from its method, path and query.
//!
//! Paths of resources have a fixed form:
//!
//! ```text
//! /api/v1/nodes/NAME                                        the core group
//! /apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE
//! ```
//!
//! From these and the method comes a *verb*, one word such as `list` or `deletecollection`, by
//! which authorization decides. Source: `k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`,
//! Kubernetes 1.36.
//!
//! ```
//! use outrank_apiserver::request::RequestInfo;
//!
//! let info = RequestInfo::parse("GET", "/apis/apps/v1/namespaces/shop/deployments", "watch=1");
//! let of = info.resource.unwrap();
//! assert_eq!((&*info.verb, &*of.plural, &*of.namespace), ("watch", "deployments", "shop"));
//! ```

use std::borrow::Cow;
use std::num::{IntErrorKind, ParseIntError};

use outrank_api::names::quoted;
use outrank_api::status::Status;

/// The longest path that is read, in bytes.
pub const PATH_BYTES_MAX: usize = 8 * 1024;

/// What a request asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// What is to be done: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or
    /// `deletecollection`; for what is no resource the method in lower case.
    pub verb: String,
    /// The path, decoded.
    pub path: String,
    /// Of which resource; `None` if the path is none of a resource.
    pub resource: Option<ResourcePath>,
}

/// The path of a resource in its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The namespace; empty if the path names none.
    pub namespace: String,
    /// The resource, such as `pods`.
    pub plural: String,
    /// The object; empty if the path is of all of them.
    pub name: String,
    /// The subresource; may be empty.
    pub subresource: String,
    /// What follows, as for proxies.
    pub rest: Vec<String>,
}

impl RequestInfo {
    /// Reads method, path (still encoded) and query.
    pub fn parse(method: &str, path: &str, query: &str) -> Self {
        let path = decoded(path, false);
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let watched = without_watch(&parts);
        let resource = resource_path(watched.as_deref().unwrap_or(&parts));
        let verb = match &resource {
            Some(_) if watched.is_some() && method == "GET" => "watch".to_owned(),
            // Nothing else can be done at such a path.
            Some(_) if watched.is_some() => String::new(),
            Some(resource) => verb_of(method, resource, &Query::parse(query)),
            None => method.to_ascii_lowercase(),
        };
        Self {
            verb,
            resource,
            path: path.into_owned(),
        }
    }
}

/// The path of what is watched by a path of its own (`/api/v1/watch/pods`), as clients of old do.
fn without_watch<'p>(parts: &[&'p str]) -> Option<Vec<&'p str>> {
    let of_group = match parts {
        ["api", _, "watch", _, ..] => 2,
        ["apis", _, _, "watch", _, ..] => 3,
        _ => return None,
    };
    let (group, rest) = parts.split_at_checked(of_group)?;
    Some([group, rest.get(1..)?].concat())
}

fn resource_path(parts: &[&str]) -> Option<ResourcePath> {
    let (group, version, rest) = match parts {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        [] => return None,
        // A namespace is itself an object, with these subresources.
        ["namespaces", name, of_namespace @ ..]
            if !matches!(of_namespace, [] | ["status" | "finalize"]) =>
        {
            (*name, of_namespace)
        }
        ["namespaces", ..] => (rest.get(1).copied().unwrap_or_default(), rest),
        rest => ("", rest),
    };
    let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
    Some(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        plural: part(0),
        name: part(1),
        subresource: part(2),
        rest: rest.iter().skip(3).map(|it| (*it).to_owned()).collect(),
    })
}

fn verb_of(method: &str, resource: &ResourcePath, query: &Query<'_>) -> String {
    let is_of_one = !resource.name.is_empty();
    let verb = match method {
        "POST" => "create",
        "GET" | "HEAD" if is_of_one => "get",
        "GET" | "HEAD" if query.is_true("watch") => "watch",
        "GET" | "HEAD" => "list",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if is_of_one => "delete",
        "DELETE" => "deletecollection",
        _ => "",
    };
    verb.to_owned()
}

/// The parameters of a query.
#[derive(Clone, Debug, Default)]
pub struct Query<'q>(Vec<(Cow<'q, str>, Cow<'q, str>)>);

impl<'q> Query<'q> {
    /// Reads what follows the `?`.
    pub fn parse(query: &'q str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name, true), decoded(value, true))
        });
        Self(pairs.collect())
    }

    /// The first value of a parameter; empty if there is none.
    pub fn get(&self, name: &str) -> &str {
        let mut named = self.0.iter().filter(|(known, _)| known == name);
        named.next().map_or("", |(_, value)| value)
    }

    /// All values of a parameter.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| &**value)
    }

    /// Whether a parameter is there and not `false` or `0`.
    pub fn is_true(&self, name: &str) -> bool {
        self.flag(name).unwrap_or(false)
    }

    /// A parameter that is true or false; `None` if it is not there. All is true that is neither
    /// `false` nor `0`.
    ///
    /// Source: `Convert_Slice_string_To_bool`, `k8s.io/apimachinery/pkg/runtime/conversion.go`.
    pub fn flag(&self, name: &str) -> Option<bool> {
        let value = self.all(name).next()?;
        Some(!value.eq_ignore_ascii_case("false") && value != "0")
    }

    /// A parameter that is a whole number; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// 400 if it is none, in the words of Go.
    pub fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(value) = self.all(name).next() else {
            return Ok(None);
        };
        value.parse().map(Some).map_err(|error: ParseIntError| {
            let why = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            let value = quoted(value);
            Status::bad_request(format!("strconv.ParseInt: parsing {value}: {why}"))
        })
    }
}

/// Text with `%xx` decoded; what is no UTF-8 then is replaced.
fn decoded(text: &str, plus_is_space: bool) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let hex = |byte: u8| (byte as char).to_digit(16);
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes.get(at + 1).copied().zip(bytes.get(at + 2).copied());
        let value = digits.and_then(|(high, low)| Some(hex(high)? * 16 + hex(low)?));
        match (byte, value.and_then(|it| u8::try_from(it).ok())) {
            (b'%', Some(value)) => {
                out.push(value);
                at += 2;
            }
            (b'+', _) if plus_is_space => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: &str, path: &str) -> [String; 6] {
        let info = RequestInfo::parse(method, path, "");
        let resource = info.resource.unwrap_or_default();
        let ResourcePath {
            group,
            namespace,
            plural,
            name,
            subresource,
            ..
        } = resource;
        [info.verb, group, namespace, plural, name, subresource]
    }

    #[test]
    fn paths_have_their_parts() {
        let cases = [
            ("GET", "/api/v1/nodes", ["list", "", "", "nodes", "", ""]),
            (
                "GET",
                "/api/v1/namespaces/a",
                ["get", "", "a", "namespaces", "a", ""],
            ),
            (
                "PUT",
                "/api/v1/namespaces/a/finalize",
                ["update", "", "a", "namespaces", "a", "finalize"],
            ),
            (
                "DELETE",
                "/api/v1/namespaces/a/pods",
                ["deletecollection", "", "a", "pods", "", ""],
            ),
            (
                "POST",
                "/api/v1/namespaces/a/pods/p/eviction",
                ["create", "", "a", "pods", "p", "eviction"],
            ),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/d/scale",
                ["patch", "apps", "a", "deployments", "d", "scale"],
            ),
            ("GET", "/healthz", ["get", "", "", "", "", ""]),
            ("GET", "/api/v1", ["get", "", "", "", "", ""]),
            (
                "GET",
                "//api//v1/nodes/%2e%2e/",
                ["get", "", "", "nodes", "..", ""],
            ),
        ];
        for (method, path, expected) in cases {
            assert_eq!(parts(method, path), expected.map(str::to_owned), "{path}");
        }
    }

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db+c&watch&dryRun=All&limit=&dryRun=x&bad=%zz%");
        assert_eq!(query.get("labelSelector"), "a=b c");
        assert!(query.is_true("watch"));
        assert!(!query.is_true("none"));
        assert_eq!(query.all("dryRun").collect::<Vec<_>>(), ["All", "x"]);
        assert_eq!(query.get("bad"), "%zz%");
    }

    #[test]
    fn parameters_are_read_as_go_reads_them() {
        let query = Query::parse("a=FALSE&b=&c=maybe&d=0&x=abc&y=&z=9223372036854775808");
        assert_eq!(
            ["a", "b", "c", "d", "e"].map(|it| query.flag(it)),
            [Some(false), Some(true), Some(true), Some(false), None]
        );
        assert_eq!(query.number("absent"), Ok(None));
        assert_eq!(Query::parse("n=-7").number("n"), Ok(Some(-7)));
        for (name, message) in [
            ("x", "strconv.ParseInt: parsing \"abc\": invalid syntax"),
            ("y", "strconv.ParseInt: parsing \"\": invalid syntax"),
            (
                "z",
                "strconv.ParseInt: parsing \"9223372036854775808\": value out of range",
            ),
        ] {
            assert_eq!(query.number(name), Err(Status::bad_request(message)));
        }
    }

    #[test]
    fn watches_have_paths_of_their_own() {
        for (method, path, expected) in [
            (
                "GET",
                "/api/v1/watch/namespaces/a/pods/p",
                ["watch", "", "a", "pods", "p", ""],
            ),
            (
                "GET",
                "/apis/apps/v1/watch/deployments",
                ["watch", "apps", "", "deployments", "", ""],
            ),
            ("PUT", "/api/v1/watch/nodes", ["", "", "", "nodes", "", ""]),
            // A resource that is called so is none of these.
            (
                "GET",
                "/apis/a.b/v1/watch",
                ["list", "a.b", "", "watch", "", ""],
            ),
        ] {
            assert_eq!(parts(method, path), expected, "{path}");
        }
    }
}

//! Reading what is needed to talk to a cluster.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::edit::{current_context, io_error, read};
use super::{Credentials, KubeconfigError};
use crate::authentication::Secret;
use crate::certificates::Identity;

/// How to talk to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The context that says so.
    pub context: String,
    /// The address, such as `https://127.0.0.1:6443`.
    pub server: String,
    /// The name in the server's certificate, if it is not that of the address.
    pub server_name: Option<String>,
    /// Whom to trust, as PEM; those whom the system trusts, if there is none.
    pub ca_pem: Option<String>,
    /// Whether any certificate will do.
    pub is_insecure: bool,
    /// Who talks; `None` if nobody in particular.
    pub credentials: Option<Credentials>,
    /// The namespace of commands that name none.
    pub namespace: String,
}

/// What the context of a name says, or else the current one. Of several files that have an entry
/// of the same name, the first counts; files that are not there count as empty.
///
/// # Errors
///
/// A file cannot be read or is malformed, something is missing, or the credentials are of a kind
/// that this program does not do.
pub fn connection(paths: &[PathBuf], context: Option<&str>) -> Result<Connection, KubeconfigError> {
    let files = Files::read(paths)?;
    let name = match context {
        Some(name) => name,
        None => files
            .current_context()
            .ok_or_else(|| files.missing("there is no current context".to_owned()))?,
    };
    let context = files.entry("contexts", "context", name)?;
    let cluster = files.entry(
        "clusters",
        "cluster",
        &context.text("cluster").unwrap_or_default(),
    )?;
    let credentials = match context.text("user") {
        None => None,
        Some(user) => files.entry("users", "user", &user)?.credentials()?,
    };
    let server = cluster.text("server");
    let no_server = || files.missing(format!("cluster {:?} has no server", cluster.name));
    Ok(Connection {
        context: name.to_owned(),
        server: server.ok_or_else(no_server)?,
        server_name: cluster.text("tls-server-name"),
        ca_pem: cluster.pem("certificate-authority")?,
        is_insecure: cluster.field("insecure-skip-tls-verify") == Some(&Value::Bool(true)),
        credentials,
        namespace: context
            .text("namespace")
            .unwrap_or_else(|| "default".to_owned()),
    })
}

/// Files with what is in them.
struct Files<'p> {
    paths: &'p [PathBuf],
    configs: Vec<(&'p Path, Map<String, Value>)>,
}

/// What stands under a name in one of the lists.
struct Entry<'f> {
    path: &'f Path,
    name: String,
    fields: Option<&'f Map<String, Value>>,
}

impl<'p> Files<'p> {
    fn read(paths: &'p [PathBuf]) -> Result<Self, KubeconfigError> {
        let mut configs = Vec::new();
        for path in paths {
            configs.extend(read(path)?.map(|config| (path.as_path(), config)));
        }
        Ok(Self { paths, configs })
    }

    fn current_context(&self) -> Option<&str> {
        self.configs
            .iter()
            .find_map(|(_, config)| current_context(config))
    }

    fn entry(&self, list: &str, field: &str, name: &str) -> Result<Entry<'_>, KubeconfigError> {
        for (path, config) in &self.configs {
            let elements = config.get(list).and_then(Value::as_array);
            let mut elements = elements.into_iter().flatten();
            if let Some(element) = elements.find(|it| it["name"] == *name) {
                return Ok(Entry {
                    path,
                    name: name.to_owned(),
                    fields: element[field].as_object(),
                });
            }
        }
        Err(self.missing(format!("there is no {field} {name:?}")))
    }

    fn missing(&self, what: String) -> KubeconfigError {
        KubeconfigError::Missing {
            what,
            paths: self.paths.to_vec(),
        }
    }
}

impl Entry<'_> {
    fn field(&self, field: &str) -> Option<&Value> {
        self.fields?.get(field)
    }

    /// A text that is not empty.
    fn text(&self, field: &str) -> Option<String> {
        let text = self.field(field)?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// What `FIELD-data` holds, or else what is in the file that `FIELD` names.
    fn pem(&self, field: &str) -> Result<Option<String>, KubeconfigError> {
        let data_field = format!("{field}-data");
        if let Some(data) = self.text(&data_field) {
            let bytes = BASE64_STANDARD.decode(data).ok();
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            return match text {
                Some(text) => Ok(Some(text)),
                None => Err(KubeconfigError::Malformed {
                    path: self.path.to_owned(),
                    what: format!("{data_field} of {:?} is not base64 of PEM", self.name),
                }),
            };
        }
        self.text(field).map(|path| self.file(&path)).transpose()
    }

    /// What is in a file, whose path may be relative to that of the kubeconfig.
    fn file(&self, path: &str) -> Result<String, KubeconfigError> {
        let path = self.path.parent().unwrap_or(Path::new("")).join(path);
        fs::read_to_string(&path).map_err(|error| io_error("read", &path, error))
    }

    fn credentials(&self) -> Result<Option<Credentials>, KubeconfigError> {
        let certificate_pem = self.pem("client-certificate")?;
        let key_pem = self.pem("client-key")?;
        match (certificate_pem, key_pem) {
            (Some(certificate_pem), Some(key)) => {
                let key_pem = Secret::new(key);
                return Ok(Some(Credentials::Certificate(Identity {
                    certificate_pem,
                    key_pem,
                })));
            }
            (Some(_), None) => return Err(self.malformed("a client certificate without its key")),
            (None, Some(_)) => return Err(self.malformed("a client key without its certificate")),
            (None, None) => {}
        }
        // A file counts before a token, since whoever renews tokens writes files.
        let token = match self.text("tokenFile") {
            Some(path) => Some(self.file(&path)?.trim().to_owned()),
            None => self.text("token"),
        };
        if let Some(token) = token {
            return Ok(Some(Credentials::Token(Secret::new(token))));
        }
        for (field, what) in [
            (
                "exec",
                "gets its credentials from a program, which is not done here; put a token in",
            ),
            (
                "auth-provider",
                "has an auth-provider, which no client does any more",
            ),
            (
                "username",
                "has a password, which no API server takes any more; put a token in",
            ),
        ] {
            if self.field(field).is_some_and(|value| !value.is_null()) {
                return Err(KubeconfigError::Unsupported {
                    user: self.name.clone(),
                    path: self.path.to_owned(),
                    what,
                });
            }
        }
        Ok(None)
    }

    fn malformed(&self, what: &str) -> KubeconfigError {
        KubeconfigError::Malformed {
            path: self.path.to_owned(),
            what: format!("user {:?} has {what}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "
current-context: one
clusters:
- {name: a, cluster: {server: 'https://a', certificate-authority: sub/ca.crt}}
- {name: b, cluster: {server: 'https://b', certificate-authority-data: UEVN, tls-server-name: example.com}}
- {name: none, cluster: {}}
contexts:
- {name: one, context: {cluster: a, user: file}}
- {name: two, context: {cluster: b, user: certificate, namespace: shop}}
- {name: anonymous, context: {cluster: b}}
- {name: exec, context: {cluster: b, user: exec}}
- {name: half, context: {cluster: b, user: half}}
- {name: bad, context: {cluster: b, user: bad}}
- {name: nowhere, context: {cluster: none}}
- {name: lost, context: {cluster: gone}}
users:
- {name: file, user: {tokenFile: token, token: other}}
- {name: certificate, user: {client-certificate-data: Qw==, client-key-data: Sw==}}
- {name: exec, user: {exec: {command: s3cret}}}
- {name: half, user: {client-key-data: czNjcmV0}}
- {name: bad, user: {client-key-data: 's3cret!'}}
";

    fn directory() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        fs::write(&path, CONFIG).unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        fs::write(directory.path().join("sub/ca.crt"), "AUTHORITY").unwrap();
        fs::write(directory.path().join("token"), "t0ken\n").unwrap();
        (directory, path)
    }

    #[test]
    fn what_contexts_say() {
        let (_directory, path) = directory();
        let connect = |context| connection(std::slice::from_ref(&path), context).unwrap();
        let one = connect(None);
        assert_eq!(
            (one.server.as_str(), one.namespace.as_str()),
            ("https://a", "default")
        );
        assert_eq!(one.ca_pem.as_deref(), Some("AUTHORITY"));
        assert_eq!(
            one.credentials,
            Some(Credentials::Token(Secret::new("t0ken")))
        );
        let two = connect(Some("two"));
        assert_eq!(
            (two.server.as_str(), two.namespace.as_str()),
            ("https://b", "shop")
        );
        assert_eq!(two.ca_pem.as_deref(), Some("PEM"));
        assert_eq!(two.server_name.as_deref(), Some("example.com"));
        let identity = Identity {
            certificate_pem: "C".to_owned(),
            key_pem: Secret::new("K"),
        };
        assert_eq!(two.credentials, Some(Credentials::Certificate(identity)));
        assert_eq!(connect(Some("anonymous")).credentials, None);
    }

    #[test]
    fn what_is_wrong_is_told_without_secrets() {
        let (_directory, path) = directory();
        for (context, expected) in [
            ("exec", "user \"exec\""),
            ("half", "a client key without its certificate"),
            ("bad", "client-key-data of \"bad\" is not base64"),
            ("nowhere", "cluster \"none\" has no server"),
            ("lost", "there is no cluster \"gone\""),
            ("three", "there is no context \"three\""),
        ] {
            let error = connection(std::slice::from_ref(&path), Some(context)).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(expected), "{shown}");
            assert!(
                !shown.contains("s3cret") && !shown.contains("czNjcmV0"),
                "{shown}"
            );
        }
        let error = connection(&[], None).unwrap_err().to_string();
        assert_eq!(error, "there is no current context (looked in no file)");
    }

    #[test]
    fn the_first_of_several_files_counts() {
        let (directory, path) = directory();
        let first = directory.path().join("first");
        fs::write(
            &first,
            "clusters: [{name: b, cluster: {server: 'https://first'}}]",
        )
        .unwrap();
        let paths = [directory.path().join("none"), first, path];
        assert_eq!(connection(&paths, None).unwrap().context, "one");
        assert_eq!(
            connection(&paths, Some("two")).unwrap().server,
            "https://first"
        );
    }
}

//! Kubeconfig files: where clusters are, and how to show who one is.
//!
//! A kubeconfig has lists of *clusters* (address and authority), *users* (credentials) and
//! *contexts*, which put one of each together under a name; `current-context` says which one
//! counts. kubectl reads `~/.kube/config`, or the files that the variable `KUBECONFIG` names.
//!
//! [`write()`] makes a file for one cluster. [`merge`] puts that cluster into a file that has others,
//! and [`remove`] takes it out again; what else is in the file stays, fields that this program does
//! not know included (comments do not: kubectl does not keep them, either). [`connection`] reads
//! what is needed to talk to a cluster. Files are written as their owner's alone (mode 0600), whole
//! or not at all.
//!
//! ```
//! use outrank_apiserver::authentication::Secret;
//! use outrank_apiserver::kubeconfig::{self, Cluster, Credentials};
//!
//! let directory = tempfile::tempdir().unwrap();
//! let path = directory.path().join("config");
//! let cluster = Cluster {
//!     name: "outrank".to_owned(),
//!     server: "https://127.0.0.1:6443".to_owned(),
//!     ca_pem: "-----BEGIN CERTIFICATE-----\n...".to_owned(),
//!     credentials: Credentials::Token(Secret::new("t0ken")),
//!     namespace: None,
//! };
//! kubeconfig::write(&path, &cluster).unwrap();
//!
//! let read = kubeconfig::connection(&[path], None).unwrap();
//! assert_eq!(read.server, "https://127.0.0.1:6443");
//! ```
//!
//! Source: `k8s.io/client-go/tools/clientcmd`, Kubernetes 1.36.

mod connection;
mod edit;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::authentication::Secret;
use crate::certificates::Identity;

pub use connection::{Connection, connection};
pub use edit::{Current, merge, remove, server_of, write};

/// Why a kubeconfig cannot be read or changed. No message shows credentials.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// A file cannot be read or written.
    #[error("cannot {what} {}: {error}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        error: io::Error,
    },
    /// The file is not a kubeconfig.
    #[error("{} is not a kubeconfig: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
    /// The file is there and has other clusters.
    #[error(
        "{} has other clusters; ask for this one to be merged into it, or name another file",
        path.display()
    )]
    HasOthers {
        /// The file.
        path: PathBuf,
    },
    /// Another program is changing the file.
    #[error(
        "another program is changing {}; if there is none, delete {}", path.display(),
        lock.display()
    )]
    Locked {
        /// The file.
        path: PathBuf,
        /// What says so.
        lock: PathBuf,
    },
    /// What is asked for is not in any file.
    #[error("{what} (looked in {})", places(paths))]
    Missing {
        /// What is missing.
        what: String,
        /// The files.
        paths: Vec<PathBuf>,
    },
    /// The file asks for something that this program does not do.
    #[error("user {user:?} in {}: {what}", path.display())]
    Unsupported {
        /// The user.
        user: String,
        /// The file.
        path: PathBuf,
        /// What it is, and what to do instead.
        what: &'static str,
    },
}

fn places(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    match paths.is_empty() {
        true => "no file".to_owned(),
        false => paths.join(", "),
    }
}

/// How a client shows who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// By a token.
    Token(Secret),
    /// By a certificate.
    Certificate(Identity),
}

/// A cluster, a user of it, and the context of both, which are all called the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// What it is called in the file.
    pub name: String,
    /// The address, such as `https://127.0.0.1:6443`.
    pub server: String,
    /// Whom to trust, as PEM.
    pub ca_pem: String,
    /// Who talks to it.
    pub credentials: Credentials,
    /// The namespace of commands that name none; `default`, if there is none.
    pub namespace: Option<String>,
}

impl Cluster {
    /// What stands in the three lists, as fields of their elements.
    fn entries(&self) -> [(&'static str, &'static str, Value); 3] {
        let encoded = |pem: &str| BASE64_STANDARD.encode(pem);
        let cluster = json!({
            "server": self.server,
            "certificate-authority-data": encoded(&self.ca_pem),
        });
        let user = match &self.credentials {
            Credentials::Token(token) => json!({"token": token.reveal()}),
            Credentials::Certificate(identity) => json!({
                "client-certificate-data": encoded(&identity.certificate_pem),
                "client-key-data": encoded(identity.key_pem.reveal()),
            }),
        };
        let mut context = json!({"cluster": self.name, "user": self.name});
        if let Some(namespace) = &self.namespace {
            context["namespace"] = namespace.as_str().into();
        }
        [
            ("clusters", "cluster", cluster),
            ("contexts", "context", context),
            ("users", "user", user),
        ]
    }
}

/// The files that kubectl would read: those that the variable `KUBECONFIG` names, or else
/// `.kube/config` in the home directory.
pub fn default_paths(kubeconfig: Option<&OsStr>, home: Option<&Path>) -> Vec<PathBuf> {
    let named = kubeconfig.into_iter().flat_map(std::env::split_paths);
    let named: Vec<PathBuf> = named.filter(|path| !path.as_os_str().is_empty()).collect();
    match named.is_empty() {
        true => home
            .into_iter()
            .map(|home| home.join(".kube/config"))
            .collect(),
        false => named,
    }
}

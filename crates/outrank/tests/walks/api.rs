//! A client of the API server: requests as they are, for what no kubectl does.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use outrank_apiserver::kubeconfig::{self, Credentials};
use serde_json::Value;
use ureq::Agent;
use ureq::http::Request;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

/// A connection as the user of a kubeconfig. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    agent: Agent,
    server: String,
}

/// An answer of the server.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

impl Answered {
    /// The body as JSON; null if it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl Api {
    pub(crate) fn new(kubeconfig: &Path) -> Self {
        let connection = kubeconfig::connection(&[PathBuf::from(kubeconfig)], None);
        let connection = connection.expect("a kubeconfig of ours");
        let Some(Credentials::Certificate(identity)) = connection.credentials else {
            panic!("{} has no certificate", kubeconfig.display());
        };
        let ca = connection.ca_pem.expect("a certificate authority");
        let ca = Certificate::from_pem(ca.as_bytes()).expect("PEM");
        let client = Certificate::from_pem(identity.certificate_pem.as_bytes()).expect("PEM");
        let key = PrivateKey::from_pem(identity.key_pem.reveal().as_bytes()).expect("PEM");
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&[ca]))
            .client_cert(Some(ClientCert::new_with_certs(&[client], key)))
            .build();
        let config = Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(20)))
            .http_status_as_error(false)
            .proxy(None)
            .tls_config(tls)
            .build();
        Self {
            agent: config.new_agent(),
            server: connection.server,
        }
    }

    /// The address of the server, such as `https://127.0.0.1:6443`.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Sends a request, and hears the answer to its end.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Answered, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).map_err(|error| error.to_string())?;
        let answer = self.agent.run(request);
        let mut answer = answer.map_err(|error| format!("{method} {path}: {error}"))?;
        let content_type = answer.headers().get("content-type");
        let content_type = content_type.and_then(|it| it.to_str().ok());
        Ok(Answered {
            status: answer.status().as_u16(),
            content_type: content_type.unwrap_or_default().to_owned(),
            body: answer
                .body_mut()
                .with_config()
                .limit(64 << 20)
                .read_to_vec()
                .map_err(|error| format!("{method} {path}: {error}"))?,
        })
    }

    /// Hears the events of a watch, until `hear` has heard enough or the watch ends.
    pub(crate) fn watch(
        &self,
        path: &str,
        accept: &str,
        mut hear: impl FnMut(Value) -> bool,
    ) -> Result<(), String> {
        let url = format!("{}{path}", self.server);
        let answer = self.agent.get(url).header("accept", accept).call();
        let mut answer = answer.map_err(|error| error.to_string())?;
        if answer.status() != 200 {
            let text = answer.body_mut().read_to_string().unwrap_or_default();
            return Err(format!("{}: {text}", answer.status()));
        }
        for line in BufReader::new(answer.body_mut().as_reader()).lines() {
            let line = line.map_err(|error| error.to_string())?;
            let event = serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))?;
            if !hear(event) {
                break;
            }
        }
        Ok(())
    }

    /// What is at a path; null if nothing is.
    pub(crate) fn get(&self, path: &str) -> Value {
        let headers = [("accept", "application/json")];
        let answer = self.send("GET", path, &headers, Vec::new());
        answer.map_or(Value::Null, |answer| match answer.status {
            200 => answer.json(),
            _ => Value::Null,
        })
    }

    /// Sends an object; the status of the answer, and what it says.
    pub(crate) fn write(&self, method: &str, path: &str, object: &Value) -> (u16, Value) {
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let headers = [("content-type", kind), ("accept", "application/json")];
        let answer = self.send(method, path, &headers, object.to_string().into_bytes());
        answer.map_or((0, Value::Null), |it| (it.status, it.json()))
    }
}

//! The connection to an extender: timeouts, certificates and names.
//!
//! Source: `extender.go` makeTransport, Kubernetes 1.36.

use std::fs;

use outrank_config::ExtenderConfig;
use outrank_config::extender::ExtenderTlsConfig;
use ureq::Agent;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

/// What requests are made with.
pub(crate) struct Connection {
    pub(crate) agent: Agent,
    /// Where requests go, without a slash at the end.
    pub(crate) base_url: String,
    /// The value of the Host header, if it is not that of the URL.
    pub(crate) host: Option<String>,
}

/// Prepares a connection; nothing is sent.
///
/// # Errors
/// What is wrong with a file.
pub(crate) fn connection(config: &ExtenderConfig) -> Result<Connection, String> {
    let told = |error: String| format!("extender {:?}: {error}", config.url_prefix);
    let tls = match &config.tls {
        None => TlsConfig::builder().build(),
        Some(tls) => tls_config(tls).map_err(told)?,
    };
    let agent_config = Agent::config_builder()
        .timeout_global(Some(config.http_timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .tls_config(tls)
        .build();
    let base_url = config.url_prefix.trim_end_matches('/').to_owned();
    let server_name = config.tls.as_ref().map_or("", |tls| &*tls.server_name);
    if server_name.is_empty() {
        return Ok(Connection {
            agent: agent_config.new_agent(),
            base_url,
            host: None,
        });
    }
    let renamed = renamed(&agent_config, &base_url, server_name);
    // Without a host no call gets as far as to ask for a certificate.
    Ok(renamed.unwrap_or_else(|| Connection {
        agent: agent_config.new_agent(),
        base_url,
        host: None,
    }))
}

/// A connection to the host of a URL, whose certificate must be for another name: the URL is
/// given that name, and the name the address of the host.
fn renamed(config: &Config, base_url: &str, server_name: &str) -> Option<Connection> {
    let url: Uri = base_url.parse().ok()?;
    let authority = url.authority()?;
    let port = authority.port().map(|port| format!(":{port}"));
    let scheme = url.scheme_str().unwrap_or("https");
    let path = url.path().trim_end_matches('/');
    let base_url = format!("{scheme}://{server_name}{}{path}", port.unwrap_or_default());
    let host = authority.to_string();
    let resolver = HostResolver(url);
    Some(Connection {
        agent: Agent::with_parts(config.clone(), DefaultConnector::default(), resolver),
        base_url,
        host: Some(host),
    })
}

/// Knows one host, whatever is asked for.
#[derive(Debug)]
struct HostResolver(Uri);

impl Resolver for HostResolver {
    fn resolve(
        &self,
        _: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        DefaultResolver::default().resolve(&self.0, config, timeout)
    }
}

fn tls_config(tls: &ExtenderTlsConfig) -> Result<TlsConfig, String> {
    let mut builder = TlsConfig::builder().disable_verification(tls.insecure);
    let roots = bytes("caFile", &tls.ca_file, &tls.ca_data)?;
    if !roots.is_empty() {
        let roots = certificates("the roots (caFile, caData)", &roots)?;
        builder = builder.root_certs(RootCerts::new_with_certs(&roots));
    }
    let chain = bytes("certFile", &tls.cert_file, &tls.cert_data)?;
    let key = bytes("keyFile", &tls.key_file, &tls.key_data)?;
    // One without the other is not used, as upstream does it.
    if tls.has_certificate() && tls.has_key() {
        let chain = certificates("the certificate (certFile, certData)", &chain)?;
        let key = PrivateKey::from_pem(&key)
            .map_err(|error| format!("the key (keyFile, keyData) is not PEM: {error}"))?;
        builder = builder.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
    }
    Ok(builder.build())
}

/// What was given, or else is in the file.
fn bytes(field: &str, path: &str, data: &[u8]) -> Result<Vec<u8>, String> {
    if !data.is_empty() || path.is_empty() {
        return Ok(data.to_vec());
    }
    fs::read(path).map_err(|error| format!("{field}: cannot read {path}: {error}"))
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let mut certificates = Vec::new();
    for item in parse_pem(pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(format!("{what} are not PEM: {error}")),
        }
    }
    if certificates.is_empty() {
        return Err(format!("there is no certificate in {what}"));
    }
    Ok(certificates)
}

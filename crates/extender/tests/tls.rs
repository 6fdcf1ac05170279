//! Extenders that speak TLS: whom they trust and who trusts them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outrank_api::types::{Node, Pod};
use outrank_engine::extender::Extender;
use outrank_extender::HttpExtender;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// Somebody who signs certificates.
struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self {
            certificate: params.self_signed(&key).expect("a certificate"),
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate for a name, with its key.
    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate, key)
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).expect("a root");
        Arc::new(roots)
    }
}

fn base64(pem: String) -> Value {
    STANDARD.encode(pem).into()
}

/// A server with a certificate for `name`. If `clients` is given, it wants one of theirs.
/// Returns its port; the server ends with the process.
fn serve(authority: &Authority, name: &str, clients: Option<&Authority>) -> u16 {
    let (certificate, key) = authority.sign(name);
    let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(clients.roots(), provider).build();
            builder.with_client_cert_verifier(verifier.expect("a verifier"))
        }
    };
    let config = Arc::new(
        builder
            .with_single_cert(chain, key)
            .expect("a configuration"),
    );
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            let mut stream = BufReader::new(StreamOwned::new(connection, stream));
            // Clients that do not trust the server, or are not trusted, go away.
            let _ = answer(&mut stream);
        }
    });
    port
}

/// Reads a request and answers that node `a` may take the pod.
fn answer<S: Read + Write>(stream: &mut BufReader<S>) -> std::io::Result<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    stream.read_exact(&mut vec![0; length])?;
    let body = r#"{"NodeNames": ["a"]}"#;
    let head = format!("HTTP/1.1 200 .\r\nContent-Length: {}\r\n\r\n", body.len());
    stream
        .get_mut()
        .write_all(format!("{head}{body}").as_bytes())?;
    stream.get_mut().flush()
}

/// What a call of the server comes to.
fn call(port: u16, fields: Value) -> Result<Vec<String>, String> {
    let mut extender = json!({
        "urlPrefix": format!("https://127.0.0.1:{port}"),
        "filterVerb": "filter",
        "nodeCacheCapable": true,
    });
    for (name, value) in fields.as_object().expect("an object") {
        extender[name] = value.clone();
    }
    let document = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [extender],
    });
    let config = outrank_config::read(&document).expect("a configuration");
    let extender = HttpExtender::new(&config.extenders[0])?;
    let mut node = Node::default();
    node.metadata.name = "a".into();
    let result = extender.filter(&Pod::default(), &[&node])?;
    Ok(result.nodes)
}

fn is_refused(result: Result<Vec<String>, String>) -> bool {
    result.is_err_and(|error| error.starts_with("Post \"https://127.0.0.1:"))
}

#[test]
fn a_server_is_trusted_by_its_roots() {
    let (authority, other) = (Authority::new(), Authority::new());
    let port = serve(&authority, "127.0.0.1", None);
    let with_roots = |authority: &Authority| {
        let roots = base64(authority.certificate.pem());
        call(port, json!({"tlsConfig": {"caData": roots}}))
    };
    assert_eq!(with_roots(&authority), Ok(vec!["a".to_owned()]));
    assert!(is_refused(with_roots(&other)));
    // Nobody known has signed its certificate, unless that does not matter.
    assert!(is_refused(call(port, json!({}))));
    assert!(call(port, json!({"enableHTTPS": true})).is_ok());
    assert!(call(port, json!({"tlsConfig": {"insecure": true}})).is_ok());
}

#[test]
fn a_certificate_can_be_for_another_name() {
    let authority = Authority::new();
    let port = serve(&authority, "scheduler.example", None);
    let named = |name: &str| {
        let roots = base64(authority.certificate.pem());
        call(
            port,
            json!({"tlsConfig": {"caData": roots, "serverName": name}}),
        )
    };
    assert!(named("scheduler.example").is_ok());
    assert!(is_refused(named("other.example")));
    assert!(is_refused(named("")));
}

#[test]
fn a_client_shows_its_certificate() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let port = serve(&authority, "127.0.0.1", Some(&clients));
    let roots = base64(authority.certificate.pem());
    let shows = |signer: &Authority| {
        let (certificate, key) = signer.sign("outrank");
        let (certificate, key) = (base64(certificate.pem()), base64(key.serialize_pem()));
        let tls = json!({"caData": roots, "certData": certificate, "keyData": key});
        call(port, json!({"tlsConfig": tls}))
    };
    assert!(shows(&clients).is_ok());
    assert!(is_refused(shows(&authority)));
    assert!(is_refused(call(
        port,
        json!({"tlsConfig": {"caData": roots}})
    )));
}

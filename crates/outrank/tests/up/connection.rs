//! Connections of which every byte is in the hands of the test.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use outrank_apiserver::kubeconfig::{self, Credentials};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::cluster::Running;

/// How to reach a cluster, and as whom.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) address: SocketAddr,
    pub(crate) ca_pem: String,
    /// Certificate and key, PEM.
    pub(crate) identity: Option<(String, String)>,
}

pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// An answer, as far as it was heard.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) status: u16,
    /// For the messages of tests that fail.
    #[allow(dead_code)]
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Access {
    /// The access of who may do everything.
    pub(crate) fn of(cluster: &Running) -> Self {
        Self::of_file(&cluster.kubeconfig())
    }

    pub(crate) fn of_file(kubeconfig: &Path) -> Self {
        let connection = kubeconfig::connection(&[kubeconfig.to_owned()], None);
        let connection = connection.expect("a kubeconfig of ours");
        let address = connection.server.strip_prefix("https://").expect("TLS");
        let Some(Credentials::Certificate(identity)) = connection.credentials else {
            panic!("the kubeconfig has no certificate");
        };
        Self {
            address: address.parse().expect("an address"),
            ca_pem: connection.ca_pem.expect("a certificate authority"),
            identity: Some((
                identity.certificate_pem,
                identity.key_pem.reveal().to_owned(),
            )),
        }
    }

    /// The same without saying who.
    pub(crate) fn anonymous(&self) -> Self {
        Self {
            identity: None,
            ..self.clone()
        }
    }

    pub(crate) fn config(&self, protocol: &str) -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.ca_pem.as_bytes()).expect("PEM");
        roots.add(ca).expect("a certificate");
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS")
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
                let certificates = vec![certificate.expect("PEM")];
                let config = config.with_client_auth_cert(certificates, key);
                config.expect("a key that fits")
            }
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Arc::new(config)
    }

    pub(crate) fn server_name(&self) -> ServerName<'static> {
        self.address.ip().into()
    }

    /// A connection without TLS.
    pub(crate) fn tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        let patience = Some(Duration::from_secs(100));
        stream.set_read_timeout(patience).expect("a time");
        stream.set_write_timeout(patience).expect("a time");
        stream
    }

    /// A connection with HTTP/1.1 over TLS, on which nothing was said.
    pub(crate) fn tls(&self) -> io::Result<Tls> {
        let connection = ClientConnection::new(self.config("http/1.1"), self.server_name());
        let mut stream = StreamOwned::new(connection.expect("a configuration"), self.tcp());
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }

    /// Says something, and hears the answer. Who does not listen to the end may answer, too.
    pub(crate) fn exchange(&self, said: &[u8]) -> io::Result<Heard> {
        let mut stream = self.tls()?;
        for piece in said.chunks(16 * 1024) {
            if stream.write_all(piece).is_err() {
                break;
            }
        }
        let _ = stream.flush();
        hear(&mut stream)
    }
}

/// A request without a body, but for what is added.
pub(crate) fn request(method: &str, path: &str, headers: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n").into_bytes()
}

/// Hears an answer to its end.
pub(crate) fn hear(stream: &mut impl Read) -> io::Result<Heard> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            break end + 4;
        }
        let mut more = [0; 4096];
        match stream.read(&mut more) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes.extend_from_slice(&more[..count]),
            Err(error) => return Err(error),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_lowercase();
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    let length = head
        .lines()
        .find_map(|it| it.strip_prefix("content-length: "))
        .and_then(|it| it.trim().parse().ok());
    let length: usize = length.unwrap_or(0);
    let mut body = bytes.split_off(head_end);
    while body.len() < length {
        let mut more = [0; 16 * 1024];
        match stream.read(&mut more) {
            Ok(0) | Err(_) => break,
            Ok(count) => body.extend_from_slice(&more[..count]),
        }
    }
    Ok(Heard {
        status: status.unwrap_or(0),
        head,
        body,
    })
}

//! How the server speaks TLS.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

use super::{CertificateError, Certificates};

/// What is spoken inside, the best first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

impl Certificates {
    /// How a server that shows this certificate speaks TLS (1.2 and 1.3). A client may show a
    /// certificate of this authority; one of another ends the connection.
    ///
    /// # Errors
    ///
    /// The certificate cannot be used, which happens only if it was not made here.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let unusable = |error: &dyn std::fmt::Display| CertificateError::Unmade(error.to_string());
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        let added = roots.add(self.authority.certificate().clone());
        added.map_err(|error| unusable(&error))?;
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .map_err(|error| unusable(&error))?;
        let certificate = CertificateDer::from_pem_slice(self.server.certificate_pem.as_bytes())
            .map_err(|error| unusable(&error))?;
        // What is wrong with a key is not shown.
        let key = PrivateKeyDer::from_pem_slice(self.server.key_pem.reveal().as_bytes())
            .map_err(|_| unusable(&"the server's key cannot be read"))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| unusable(&error))?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![certificate], key)
            .map_err(|error| unusable(&error))?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Arc::new(config))
    }
}

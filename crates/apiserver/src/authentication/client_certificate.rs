//! Whom a client certificate names.

use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use x509_parser::oid_registry::asn1_rs::oid;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::User;
use super::static_tokens::hex;

/// Where the fingerprint of the certificate is told.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// The user of a certificate: its common name, in the groups that are its organizations. Whether
/// it is to be trusted must be known already (TLS has checked it). Source:
/// `apiserver/pkg/authentication/request/x509/x509.go` CommonNameUserConversion, Kubernetes 1.36.
///
/// # Errors
///
/// It is not a certificate, or names nobody.
pub fn certificate_user(certificate: &CertificateDer<'_>) -> Result<User, String> {
    let (_, parsed) = X509Certificate::from_der(certificate)
        .map_err(|error| format!("the client certificate cannot be read: {error}"))?;
    let subject = parsed.subject();
    let texts = |values: Vec<&x509_parser::x509::AttributeTypeAndValue<'_>>| -> Vec<String> {
        let texts = values.into_iter().filter_map(|value| value.as_str().ok());
        texts.map(str::to_owned).collect()
    };
    // Upstream takes the last one, too.
    let names = texts(subject.iter_common_name().collect());
    let name = names
        .into_iter()
        .next_back()
        .filter(|name| !name.is_empty());
    let name = name.ok_or("the client certificate has no common name (CN), which is the user")?;
    // Upstream's own attribute for a UID (KEP-5187).
    let uid = oid!(1.3.6.1.4.1.57683.2);
    let uids = texts(subject.iter_by_oid(&uid).collect());
    let fingerprint = hex(digest(&SHA256, certificate).as_ref());
    let mut user = User::new(name, texts(subject.iter_organization().collect()));
    user.uid = uids.into_iter().next_back().unwrap_or_default();
    let credential = vec![format!("X509SHA256={fingerprint}")];
    user.extra.insert(CREDENTIAL.to_owned(), credential);
    Ok(user)
}

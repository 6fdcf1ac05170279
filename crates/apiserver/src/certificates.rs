//! The certificates of a cluster: how clients know the server, and the server its clients.
//!
//! A cluster has an authority of its own, made at its first start. It signs the certificate that
//! the server shows, and those by which users show who they are; both sides trust the authority
//! and nothing else. In a directory it is kept as
//!
//! | file | holds |
//! | --- | --- |
//! | `ca.pem` | certificate and key of the authority; who reads it can be anybody in the cluster |
//! | `ca.crt` | its certificate alone, for `curl --cacert` |
//! | `server.pem` | certificate and key of the server |
//!
//! Only their owner may read them. A certificate and its key are one file, so that a crash cannot
//! part them. The server's is made anew when it is about to expire, or when the server is to be
//! known by a further name. A file that cannot be read is told and left alone: a new authority
//! would lock everybody out.
//!
//! Keys are on the curve P-256. The authority is valid for 10 years, other certificates for one.
//!
//! ```
//! use outrank_apiserver::certificates::{Certificates, ServerNames};
//!
//! # let now_seconds = 1_700_000_000;
//! let certificates = Certificates::in_memory(&ServerNames::default(), now_seconds).unwrap();
//! let groups = ["system:masters".to_owned()];
//! let admin = certificates.authority.client("admin", &groups, now_seconds).unwrap();
//! assert!(admin.certificate_pem.starts_with("-----BEGIN CERTIFICATE-----"));
//! let tls = certificates.server_config().unwrap();
//! assert_eq!(tls.alpn_protocols[0], b"h2");
//! ```

mod files;
mod server_names;
mod subject;
mod tls;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::authentication::Secret;

pub use server_names::{ServerNames, ServerNamesError};

/// How long an authority is valid, in seconds.
pub const AUTHORITY_VALID_SECONDS: i64 = 10 * YEAR_SECONDS;

/// How long other certificates are valid, in seconds.
pub const VALID_SECONDS: i64 = YEAR_SECONDS;

/// How long before its end the server's certificate is replaced, in seconds.
pub const RENEWED_BEFORE_SECONDS: i64 = 30 * DAY_SECONDS;

const DAY_SECONDS: i64 = 86_400;
const YEAR_SECONDS: i64 = 365 * DAY_SECONDS;

/// Clocks may differ by so much.
const SKEW_SECONDS: i64 = 300;

/// The end of the year 9000: what is later cannot be written.
const SECONDS_MAX: i64 = 221_845_392_000;

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
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
    /// A file is not as it was written.
    #[error(
        "{} does not hold a certificate and its key ({what}); restore it from a backup, or move it \
         away to have a new one made{}", path.display(), consequence(path)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The authority has expired, and with it all that it has signed.
    #[error(
        "the certificate authority in {} has expired; move the file away to have a new one made, \
         and give all clients new credentials", path.display()
    )]
    Expired {
        /// The file.
        path: PathBuf,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Unmade(String),
}

fn consequence(path: &Path) -> &'static str {
    match path
        .file_name()
        .is_some_and(|name| name == files::AUTHORITY)
    {
        true => "; then all clients need new credentials",
        false => "",
    }
}

impl From<rcgen::Error> for CertificateError {
    /// None of these errors shows a key.
    fn from(error: rcgen::Error) -> Self {
        Self::Unmade(error.to_string())
    }
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, as PEM.
    pub certificate_pem: String,
    /// The key, as PEM (PKCS #8).
    pub key_pem: Secret,
}

/// What a server needs: an authority and a certificate of its own.
#[derive(Debug)]
pub struct Certificates {
    /// Who signs.
    pub authority: CertificateAuthority,
    /// What the server shows.
    pub server: Identity,
}

impl Certificates {
    /// New ones, which are kept nowhere. Times are in seconds since 1970.
    ///
    /// # Errors
    ///
    /// The machine has no random numbers, or a name cannot be in a certificate.
    pub fn in_memory(names: &ServerNames, now_seconds: i64) -> Result<Self, CertificateError> {
        let authority = CertificateAuthority::generate(now_seconds)?;
        let server = authority.server(names, now_seconds)?;
        Ok(Self { authority, server })
    }

    /// Those in a directory; what is not there is made. Only one process may use the directory
    /// at a time. `now_seconds` is in seconds since 1970.
    ///
    /// # Errors
    ///
    /// A file cannot be read or written, is damaged, or the authority has expired.
    pub fn open(
        directory: &Path,
        names: &ServerNames,
        now_seconds: i64,
    ) -> Result<Self, CertificateError> {
        files::open(directory, names, now_seconds)
    }
}

/// Signs certificates.
#[derive(Debug)]
pub struct CertificateAuthority {
    certificate_pem: String,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl CertificateAuthority {
    /// A new authority.
    fn generate(now_seconds: i64) -> Result<Self, CertificateError> {
        let mut params = valid(now_seconds, AUTHORITY_VALID_SECONDS);
        params
            .distinguished_name
            .push(DnType::CommonName, "outrank-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            certificate_pem: certificate.pem(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        })
    }

    /// An authority that was made before.
    fn of(identity: &Identity) -> Result<Self, String> {
        let certificate = CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes())
            .map_err(|_| "the certificate cannot be read")?;
        let key =
            KeyPair::from_pem(identity.key_pem.reveal()).map_err(|_| "the key cannot be read")?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key)
            .map_err(|_| "the certificate cannot be read")?;
        Ok(Self {
            certificate_pem: identity.certificate_pem.clone(),
            certificate,
            issuer,
        })
    }

    /// Its certificate, as PEM: whom clients must trust.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Its certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// A certificate for a server of these names, from a time (seconds since 1970) on.
    ///
    /// # Errors
    ///
    /// The machine has no random numbers.
    pub fn server(
        &self,
        names: &ServerNames,
        now_seconds: i64,
    ) -> Result<Identity, CertificateError> {
        let mut params = valid(now_seconds, VALID_SECONDS);
        params
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        params.subject_alt_names = names.subject_alternatives()?;
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate by which a user shows who he is and in which groups, from a time (seconds
    /// since 1970) on. It cannot be taken back before it expires.
    ///
    /// # Errors
    ///
    /// The name is empty, or the machine has no random numbers.
    pub fn client(
        &self,
        name: &str,
        groups: &[String],
        now_seconds: i64,
    ) -> Result<Identity, CertificateError> {
        if name.is_empty() {
            return Err(CertificateError::Unmade("a user needs a name".to_owned()));
        }
        let params = valid(now_seconds, VALID_SECONDS);
        let unnamed = self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)?;
        let subject = subject::of_user(name, groups)?;
        let certificate_pem =
            subject::with_subject(&unnamed.certificate_pem, &subject, self.issuer.key())?;
        Ok(Identity {
            certificate_pem,
            ..unnamed
        })
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity, CertificateError> {
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity {
            certificate_pem: certificate.pem(),
            key_pem: Secret::new(key.serialize_pem()),
        })
    }
}

/// A certificate for nothing yet, valid for a time.
fn valid(now_seconds: i64, seconds: i64) -> CertificateParams {
    let time = |seconds: i64| {
        let since_1970 = u64::try_from(seconds.min(SECONDS_MAX)).unwrap_or_default();
        date_time_ymd(1970, 1, 1) + Duration::from_secs(since_1970)
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.not_before = time(now_seconds.saturating_sub(SKEW_SECONDS));
    params.not_after = time(now_seconds.saturating_add(seconds));
    params
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::certificate_user;

    #[test]
    fn whom_a_client_certificate_names() {
        let certificates = Certificates::in_memory(&ServerNames::default(), 1_800_000_000).unwrap();
        let authority = &certificates.authority;
        for groups in [vec![], vec!["a"], vec!["b", "a", "system:masters", "é"]] {
            let groups: Vec<String> = groups.into_iter().map(str::to_owned).collect();
            let identity = authority.client("ada", &groups, 1_800_000_000).unwrap();
            let pem = identity.certificate_pem.as_bytes();
            let certificate = CertificateDer::from_pem_slice(pem).unwrap();
            let user = certificate_user(&certificate).unwrap();
            assert_eq!((user.name.as_str(), user.groups), ("ada", groups));
            let credential = &user.extra["authentication.kubernetes.io/credential-id"][0];
            assert_eq!(credential.len(), "X509SHA256=".len() + 64);
        }
        assert!(authority.client("", &[], 1_800_000_000).is_err());
        let nobody = CertificateDer::from(vec![0x30, 0x80]);
        assert!(certificate_user(&nobody).is_err());
        let server = CertificateDer::from_pem_slice(certificates.server.certificate_pem.as_bytes());
        assert_eq!(
            certificate_user(&server.unwrap()).unwrap().name,
            "kube-apiserver"
        );
    }

    #[test]
    fn keys_are_not_shown() {
        let certificates = Certificates::in_memory(&ServerNames::default(), 1_800_000_000).unwrap();
        let shown = format!("{certificates:?}");
        let server_key = certificates.server.key_pem.reveal();
        let authority_key = certificates.authority.issuer.key().serialize_pem();
        for key in [server_key, &authority_key] {
            for line in key.lines().filter(|line| !line.starts_with('-')) {
                assert!(!shown.contains(line), "{shown}");
            }
        }
        assert!(shown.contains("Secret(..)"), "{shown}");
    }

    #[test]
    fn any_time_can_be_given() {
        for now in [i64::MIN, -1, 0, SECONDS_MAX, i64::MAX] {
            assert!(
                Certificates::in_memory(&ServerNames::default(), now).is_ok(),
                "{now}"
            );
        }
    }
}

//! Certificates in a directory.

use std::path::Path;

use rcgen::{KeyPair, PublicKeyData};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{
    CertificateAuthority, CertificateError, Certificates, Identity, RENEWED_BEFORE_SECONDS,
    ServerNames,
};
use crate::authentication::Secret;
use crate::private_file;

/// Certificate and key of the authority.
pub(super) const AUTHORITY: &str = "ca.pem";

/// The certificate of the authority alone.
const AUTHORITY_CERTIFICATE: &str = "ca.crt";

/// Certificate and key of the server.
const SERVER: &str = "server.pem";

pub(super) fn open(
    directory: &Path,
    names: &ServerNames,
    now_seconds: i64,
) -> Result<Certificates, CertificateError> {
    private_file::create_directory(directory).map_err(io_error("make the directory", directory))?;
    let authority = authority(&directory.join(AUTHORITY), now_seconds)?;
    let copy = directory.join(AUTHORITY_CERTIFICATE);
    let copied = private_file::read(&copy).map_err(io_error("read", &copy))?;
    let certificate = authority.certificate_pem().as_bytes();
    if copied.as_deref() != Some(certificate) {
        private_file::write(&copy, certificate).map_err(io_error("write", &copy))?;
    }
    let path = directory.join(SERVER);
    let server = match read(&path)? {
        Some(server) if is_good(&server, &authority, names, now_seconds) => server,
        _ => {
            let server = authority.server(names, now_seconds)?;
            private_file::write(&path, to_text(&server).as_bytes())
                .map_err(io_error("write", &path))?;
            server
        }
    };
    Ok(Certificates { authority, server })
}

fn authority(path: &Path, now_seconds: i64) -> Result<CertificateAuthority, CertificateError> {
    if let Some(identity) = read(path)? {
        let authority = CertificateAuthority::of(&identity);
        let authority = authority.map_err(|what| damaged(path, &what))?;
        let (_, certificate) = X509Certificate::from_der(authority.certificate())
            .map_err(|_| damaged(path, "the certificate cannot be read"))?;
        if !certificate.is_ca() {
            return Err(damaged(path, "the certificate is not that of an authority"));
        }
        if certificate.validity().not_after.timestamp() <= now_seconds {
            return Err(CertificateError::Expired {
                path: path.to_owned(),
            });
        }
        return Ok(authority);
    }
    let authority = CertificateAuthority::generate(now_seconds)?;
    let identity = Identity {
        certificate_pem: authority.certificate_pem().to_owned(),
        key_pem: Secret::new(authority.issuer.key().serialize_pem()),
    };
    private_file::create(path, to_text(&identity).as_bytes()).map_err(io_error("write", path))?;
    Ok(authority)
}

/// The certificate and key in a file, which belong together; `None` if there is no file.
fn read(path: &Path) -> Result<Option<Identity>, CertificateError> {
    let Some(bytes) = private_file::read(path).map_err(io_error("read", path))? else {
        return Ok(None);
    };
    let told = |what| damaged(path, what);
    let text = String::from_utf8(bytes).map_err(|_| told("it is not text"))?;
    // The key comes last, so that there is nothing behind it that would be lost.
    let start = text.find("-----BEGIN PRIVATE KEY-----");
    let (certificate_pem, key_pem) =
        text.split_at(start.ok_or_else(|| told("there is no private key"))?);
    let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
        .map_err(|_| told("there is no certificate"))?;
    let (_, parsed) = X509Certificate::from_der(&certificate)
        .map_err(|_| told("the certificate cannot be read"))?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes())
        .map_err(|_| told("the key cannot be read"))?;
    let key = KeyPair::try_from(key.secret_der()).map_err(|_| told("the key cannot be read"))?;
    if key.der_bytes() != &*parsed.public_key().subject_public_key.data {
        return Err(told("the key is not that of the certificate"));
    }
    Ok(Some(Identity {
        certificate_pem: certificate_pem.to_owned(),
        key_pem: Secret::new(key_pem),
    }))
}

/// Whether a server's certificate need not be replaced.
fn is_good(
    server: &Identity,
    authority: &CertificateAuthority,
    names: &ServerNames,
    now_seconds: i64,
) -> bool {
    let Ok(certificate) = CertificateDer::from_pem_slice(server.certificate_pem.as_bytes()) else {
        return false;
    };
    let parsed = X509Certificate::from_der(&certificate);
    let signer = X509Certificate::from_der(authority.certificate());
    let (Ok((_, parsed)), Ok((_, signer))) = (parsed, signer) else {
        return false;
    };
    let validity = parsed.validity();
    let renewed_at = validity
        .not_after
        .timestamp()
        .saturating_sub(RENEWED_BEFORE_SECONDS);
    validity.not_before.timestamp() <= now_seconds
        && now_seconds < renewed_at
        && parsed.verify_signature(Some(signer.public_key())).is_ok()
        && has_names(&parsed, names)
}

fn has_names(certificate: &X509Certificate<'_>, names: &ServerNames) -> bool {
    let Ok(Some(alternatives)) = certificate.subject_alternative_name() else {
        return false;
    };
    let alternatives = &alternatives.value.general_names;
    let has = |wanted: GeneralName<'_>| alternatives.contains(&wanted);
    let has_address = |address: &std::net::IpAddr| match address {
        std::net::IpAddr::V4(address) => has(GeneralName::IPAddress(&address.octets())),
        std::net::IpAddr::V6(address) => has(GeneralName::IPAddress(&address.octets())),
    };
    names
        .domains
        .iter()
        .all(|name| has(GeneralName::DNSName(name)))
        && names.addresses.iter().all(has_address)
}

fn to_text(identity: &Identity) -> String {
    format!("{}{}", identity.certificate_pem, identity.key_pem.reveal())
}

fn damaged(path: &Path, what: &str) -> CertificateError {
    CertificateError::Damaged {
        path: path.to_owned(),
        what: what.to_owned(),
    }
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> CertificateError {
    let path = path.to_owned();
    move |error| CertificateError::Io { what, path, error }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    #[test]
    fn what_was_made_is_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/certificates");
        let names = ServerNames::default();
        let first = Certificates::open(&path, &names, NOW).unwrap();
        let second = Certificates::open(&path, &names, NOW + 1_000).unwrap();
        assert_eq!(
            first.authority.certificate_pem(),
            second.authority.certificate_pem()
        );
        assert_eq!(first.server, second.server);
        let copy = fs::read_to_string(path.join(AUTHORITY_CERTIFICATE)).unwrap();
        assert_eq!(copy, first.authority.certificate_pem());
    }

    #[test]
    fn the_server_gets_a_new_certificate_when_it_needs_one() {
        let directory = tempfile::tempdir().unwrap();
        let open = |names: &ServerNames, now| Certificates::open(directory.path(), names, now);
        let names = ServerNames::default();
        let first = open(&names, NOW).unwrap();
        let renewed_at = NOW + super::super::VALID_SECONDS - RENEWED_BEFORE_SECONDS;
        assert_eq!(open(&names, renewed_at - 1).unwrap().server, first.server);
        let second = open(&names, renewed_at).unwrap();
        assert_ne!(second.server, first.server);
        let mut more = names.clone();
        more.add("example.com").unwrap();
        more.add("192.0.2.7").unwrap();
        let third = open(&more, renewed_at).unwrap();
        assert_ne!(third.server, second.server);
        // Fewer names are no reason.
        assert_eq!(open(&names, renewed_at).unwrap().server, third.server);
        // The one of another authority is worth nothing.
        fs::remove_file(directory.path().join(AUTHORITY)).unwrap();
        assert_ne!(open(&names, renewed_at).unwrap().server, third.server);
        // The clock is behind.
        let early = open(&names, NOW - 100_000).unwrap();
        assert!(is_good(
            &early.server,
            &early.authority,
            &names,
            NOW - 100_000
        ));
    }

    #[test]
    fn an_authority_that_has_expired_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let names = ServerNames::default();
        Certificates::open(directory.path(), &names, NOW).unwrap();
        let late = NOW + super::super::AUTHORITY_VALID_SECONDS;
        let error = Certificates::open(directory.path(), &names, late).unwrap_err();
        assert!(matches!(error, CertificateError::Expired { .. }), "{error}");
    }

    #[test]
    fn damaged_files_are_told_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let names = ServerNames::default();
        let good = Certificates::open(directory.path(), &names, NOW).unwrap();
        let other = Certificates::in_memory(&names, NOW).unwrap();
        let server_key = good.server.key_pem.reveal().to_owned();
        for name in [AUTHORITY, SERVER] {
            let path = directory.path().join(name);
            let whole = fs::read(&path).unwrap();
            let text = String::from_utf8(whole.clone()).unwrap();
            let key_at = text.find("-----BEGIN PRIVATE").unwrap();
            let with_key = |key: &str| format!("{}{key}", &text[..key_at]).into_bytes();
            for damaged in [
                Vec::new(),
                vec![0xff; 100],
                whole[..key_at].to_vec(),
                whole[..whole.len() - 40].to_vec(),
                whole[key_at..].to_vec(),
                with_key(other.server.key_pem.reveal()),
            ] {
                fs::write(&path, &damaged).unwrap();
                let error = Certificates::open(directory.path(), &names, NOW).unwrap_err();
                let text = format!("{error} {error:?}");
                assert!(matches!(error, CertificateError::Damaged { .. }), "{text}");
                assert!(text.contains(name), "{text}");
                assert!(!text.contains(&server_key[30..60]), "{text}");
                assert_eq!(fs::read(&path).unwrap(), damaged);
            }
            fs::write(&path, whole).unwrap();
        }
        // A certificate that is none of an authority must not be one.
        fs::copy(
            directory.path().join(SERVER),
            directory.path().join(AUTHORITY),
        )
        .unwrap();
        assert!(Certificates::open(directory.path(), &names, NOW).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_them() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("certificates");
        Certificates::open(&path, &ServerNames::default(), NOW).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        let files: Vec<_> = fs::read_dir(&path).unwrap().map(Result::unwrap).collect();
        assert_eq!(files.len(), 3);
        for file in files {
            assert_eq!(mode(&file.path()), 0o600, "{file:?}");
        }
    }
}

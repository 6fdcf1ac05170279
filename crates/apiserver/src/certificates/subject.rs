//! The subject of a client certificate: a name and any number of groups.
//!
//! In a certificate a group is an organization, of which there may be many. The library that makes
//! the certificates writes each kind of attribute once at most, so the subject is put in here and
//! the certificate signed anew.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{KeyPair, SigningKey};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::asn1_rs::{Any, BitString, FromDer, Oid, Sequence, Set, ToDer, Utf8String, oid};

use super::CertificateError;

/// Where the subject stands in what is signed: after version, serial number, algorithm, issuer
/// and validity (RFC 5280, section 4.1).
const SUBJECT_AT: usize = 5;

/// A subject (DER) with a user as its common name and his groups as its organizations.
pub(super) fn of_user(name: &str, groups: &[String]) -> Result<Vec<u8>, CertificateError> {
    let organization = oid!(2.5.4.10);
    let common_name = oid!(2.5.4.3);
    let mut attributes = Vec::new();
    for group in groups {
        attributes.extend(attribute(&organization, group)?);
    }
    attributes.extend(attribute(&common_name, name)?);
    sequence(attributes)
}

/// A certificate (PEM) with another subject (DER), signed with this key.
pub(super) fn with_subject(
    certificate_pem: &str,
    subject: &[u8],
    key: &KeyPair,
) -> Result<String, CertificateError> {
    let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes());
    let certificate = certificate.map_err(unmade)?;
    let parts = elements(&certificate)?;
    let [to_be_signed, algorithm, _signature] = *parts else {
        return Err(unmade("it has not three parts"));
    };
    let mut fields = elements(to_be_signed)?;
    *fields
        .get_mut(SUBJECT_AT)
        .ok_or_else(|| unmade("it has no subject"))? = subject;
    let to_be_signed = sequence(fields.concat())?;
    let signature = key.sign(&to_be_signed)?;
    let signature = BitString::new(0, &signature).to_der_vec().map_err(unmade)?;
    let signed = sequence([to_be_signed, algorithm.to_vec(), signature].concat())?;
    Ok(pem(&signed))
}

fn attribute(kind: &Oid<'_>, value: &str) -> Result<Vec<u8>, CertificateError> {
    let kind = kind.to_der_vec().map_err(unmade)?;
    let value = Utf8String::new(value).to_der_vec().map_err(unmade)?;
    let pair = sequence([kind, value].concat())?;
    Set::new(pair.into()).to_der_vec().map_err(unmade)
}

fn sequence(content: Vec<u8>) -> Result<Vec<u8>, CertificateError> {
    Sequence::new(content.into()).to_der_vec().map_err(unmade)
}

/// The elements of a sequence, each with its head.
fn elements(sequence: &[u8]) -> Result<Vec<&[u8]>, CertificateError> {
    let (_, outer) = Any::from_der(sequence).map_err(unmade)?;
    let mut rest = outer.data;
    let mut elements = Vec::new();
    while !rest.is_empty() {
        let (after, _) = Any::from_der(rest).map_err(unmade)?;
        let (element, _) = rest.split_at(rest.len() - after.len());
        elements.push(element);
        rest = after;
    }
    Ok(elements)
}

fn unmade(error: impl std::fmt::Display) -> CertificateError {
    CertificateError::Unmade(error.to_string())
}

fn pem(certificate: &[u8]) -> String {
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let text = BASE64_STANDARD.encode(certificate);
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

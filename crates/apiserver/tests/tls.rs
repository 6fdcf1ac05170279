//! Who gets a connection, and as whom: rustls on both sides, without a network.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use outrank_apiserver::authentication::{
    Authenticator, Presented, ServiceAccountTokens, StaticTokens, User, certificate_user,
};
use outrank_apiserver::certificates::{Certificates, Identity, ServerNames, VALID_SECONDS};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};

fn now_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs().try_into().unwrap()
}

fn certificates(now_seconds: i64) -> Certificates {
    Certificates::in_memory(&ServerNames::default(), now_seconds).unwrap()
}

/// A client that trusts an authority and maybe shows a certificate.
fn client(trusted: &Certificates, shown: Option<&Identity>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.authority.certificate().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shown {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let pem = identity.certificate_pem.as_bytes();
            let certificate = CertificateDer::from_pem_slice(pem).unwrap();
            let key = PrivateKeyDer::from_pem_slice(identity.key_pem.reveal().as_bytes()).unwrap();
            builder
                .with_client_auth_cert(vec![certificate], key)
                .unwrap()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    config
}

/// Connects, and sends `ping` when the client may. Gives what the server knows of the client,
/// or what ended the connection.
fn connect(
    server: &Certificates,
    client: ClientConfig,
    name: &str,
) -> Result<Option<User>, rustls::Error> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = ServerConnection::new(server.server_config().unwrap()).unwrap();
    let mut received = Vec::new();
    client.writer().write_all(b"ping").unwrap();
    // A handshake takes a few turns; what is not done then is never done.
    for _ in 0..10 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut bytes = bytes.as_slice();
        while !bytes.is_empty() {
            server.read_tls(&mut bytes).unwrap();
            server.process_new_packets()?;
        }
        let _ = server.reader().read_to_end(&mut received);
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut bytes = bytes.as_slice();
        while !bytes.is_empty() {
            client.read_tls(&mut bytes).unwrap();
            client.process_new_packets()?;
        }
    }
    assert_eq!(received, b"ping");
    assert_eq!(server.alpn_protocol(), Some(b"h2".as_slice()));
    let shown = server.peer_certificates().and_then(<[_]>::first);
    Ok(shown.map(|certificate| certificate_user(certificate).unwrap()))
}

#[test]
fn clients_with_and_without_certificates_get_a_connection() {
    let now = now_seconds();
    let cluster = certificates(now);
    assert_eq!(
        connect(&cluster, client(&cluster, None), "localhost"),
        Ok(None)
    );
    let groups = ["devs".to_owned(), "ops".to_owned()];
    let ada = cluster.authority.client("ada", &groups, now).unwrap();
    for name in ["127.0.0.1", "::1", "kubernetes.default.svc.cluster.local"] {
        let user = connect(&cluster, client(&cluster, Some(&ada)), name)
            .unwrap()
            .unwrap();
        assert_eq!((user.name.as_str(), user.groups), ("ada", groups.to_vec()));
    }
}

#[test]
fn a_server_of_another_authority_or_name_is_not_believed() {
    let now = now_seconds();
    let (cluster, other) = (certificates(now), certificates(now));
    for (trusted, name) in [(&other, "localhost"), (&cluster, "example.com")] {
        let error = connect(&cluster, client(trusted, None), name).unwrap_err();
        assert!(
            matches!(error, rustls::Error::InvalidCertificate(_)),
            "{error}"
        );
    }
}

#[test]
fn client_certificates_must_be_ours_valid_and_for_clients() {
    let now = now_seconds();
    let (cluster, other) = (certificates(now), certificates(now));
    let authority = &cluster.authority;
    let late = now - VALID_SECONDS - 10;
    let wrong = [
        other.authority.client("ada", &[], now).unwrap(),
        authority.client("ada", &[], late).unwrap(),
        authority.client("ada", &[], now + 1_000_000).unwrap(),
        cluster.server.clone(),
    ];
    for (number, identity) in wrong.iter().enumerate() {
        let result = connect(&cluster, client(&cluster, Some(identity)), "localhost");
        assert!(result.is_err(), "certificate {number}");
    }
}

#[test]
fn a_server_whose_certificate_has_expired_is_not_believed() {
    let now = now_seconds();
    let old = certificates(now - VALID_SECONDS - 10);
    let error = connect(&old, client(&old, None), "localhost").unwrap_err();
    assert!(
        matches!(error, rustls::Error::InvalidCertificate(_)),
        "{error}"
    );
}

#[test]
fn a_wrong_token_does_not_pass_as_anonymous() {
    let now = now_seconds();
    let cluster = certificates(now);
    let user = connect(&cluster, client(&cluster, None), "localhost").unwrap();
    let users = StaticTokens::in_memory();
    let token = users.add("ada", &[]).unwrap();
    let authenticator = Authenticator::new(users, ServiceAccountTokens::in_memory().unwrap());
    let authenticate = |authorization: Option<&str>| {
        let presented = Presented {
            authorization,
            certificate: user.as_ref(),
        };
        authenticator.authenticate(&presented, now, &|_, _, _| None)
    };
    let right = format!("Bearer {}", token.reveal());
    assert_eq!(authenticate(Some(&right)).unwrap().name, "ada");
    let wrong = authenticate(Some(&format!("{right}x"))).unwrap_err();
    assert_eq!((wrong.code, wrong.message.as_str()), (401, "Unauthorized"));
    assert!(authenticate(None).unwrap().is_anonymous());
}

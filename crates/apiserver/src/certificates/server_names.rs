//! The names by which clients may call a server.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use outrank_api::names::dns1123_subdomain_errors;
use rcgen::SanType;

use super::CertificateError;

/// What clients may call the server. By default `localhost` with its addresses, and the names by
/// which programs in a cluster know it (`kubernetes.default.svc` and its like).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNames {
    pub(super) domains: BTreeSet<String>,
    pub(super) addresses: BTreeSet<IpAddr>,
}

/// What cannot be the name of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an IP address nor a DNS name such as example.com or *.example.com")]
pub struct ServerNamesError(String);

impl Default for ServerNames {
    fn default() -> Self {
        let domains = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ];
        Self {
            domains: domains.map(str::to_owned).into(),
            addresses: [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].into(),
        }
    }
}

impl ServerNames {
    /// Adds an address. One that stands for all (`0.0.0.0`) is none that clients call.
    pub fn add_address(&mut self, address: IpAddr) {
        if !address.is_unspecified() {
            self.addresses.insert(address);
        }
    }

    /// Adds an address or DNS name, as people write it.
    ///
    /// # Errors
    ///
    /// It is neither.
    pub fn add(&mut self, name: &str) -> Result<(), ServerNamesError> {
        if let Ok(address) = name.parse() {
            self.add_address(address);
            return Ok(());
        }
        let name = name.to_ascii_lowercase();
        let domain = name.strip_prefix("*.").unwrap_or(&name);
        if !dns1123_subdomain_errors(domain).is_empty() {
            return Err(ServerNamesError(name));
        }
        self.domains.insert(name);
        Ok(())
    }

    pub(super) fn subject_alternatives(&self) -> Result<Vec<SanType>, CertificateError> {
        let domains = self.domains.iter();
        let domains = domains.map(|name| Ok(SanType::DnsName(name.as_str().try_into()?)));
        let addresses = self.addresses.iter().map(|it| Ok(SanType::IpAddress(*it)));
        domains.chain(addresses).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_people_write_them() {
        let mut names = ServerNames::default();
        let default = names.clone();
        for name in [
            "192.0.2.1",
            "fe80::1",
            "example.com",
            "*.example.com",
            "EXAMPLE.com",
        ] {
            names.add(name).expect(name);
        }
        names.add_address(Ipv4Addr::UNSPECIFIED.into());
        assert_eq!(names.addresses.len(), default.addresses.len() + 2);
        assert_eq!(names.domains.len(), default.domains.len() + 2);
        for name in ["", "a b", "*", "a..b", "é", "1.2.3.4:80", &"a".repeat(300)] {
            assert!(names.add(name).is_err(), "{name}");
        }
    }
}

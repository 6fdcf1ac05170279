//! Addresses of pods and of their node, told by names and order alone.
//!
//! Pods get addresses of the node's range (`spec.podCIDR`) one after the other, and again from
//! the start when all were used. A node without a range, or with one that is not IPv4, gets a
//! range of 1,024 addresses in `10.64.0.0/10` by its name; a node without an address one in
//! `10.0.0.0/10`. Two nodes may then share one, which matters to nothing here.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use outrank_api::types::Node;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodAddresses {
    /// First and last address, and the one that was given last.
    range: Option<(u32, u32, u32)>,
    used: BTreeSet<u32>,
}

impl PodAddresses {
    /// An address that no pod uses, if there is one.
    pub(crate) fn take(&mut self, node: &Node) -> Option<Ipv4Addr> {
        let (first, last, before) = *self.range.get_or_insert_with(|| range(node));
        let after = before.saturating_add(1)..=last;
        let mut candidates = after.chain(first..=before.min(last));
        let address = candidates.find(|address| !self.used.contains(address))?;
        self.range = Some((first, last, address));
        self.used.insert(address);
        Some(Ipv4Addr::from(address))
    }

    /// A pod uses this address already.
    pub(crate) fn keep(&mut self, address: &str) {
        self.used.extend(number(address));
    }

    /// A pod uses it no more.
    pub(crate) fn give_back(&mut self, address: &str) {
        if let Some(address) = number(address) {
            self.used.remove(&address);
        }
    }
}

/// The address of a node.
pub(crate) fn host_ip(node: &Node) -> String {
    let mut addresses = node.status.addresses.iter();
    match addresses.find(|it| it.type_ == "InternalIP") {
        Some(internal) => internal.address.clone(),
        None => {
            let host = 1 + hash(&node.metadata.name) % ((1 << 22) - 2);
            Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + host).to_string()
        }
    }
}

fn number(address: &str) -> Option<u32> {
    let address: Ipv4Addr = address.parse().ok()?;
    Some(address.into())
}

/// The range of a node, without the first two addresses (network, gateway) and the last.
fn range(node: &Node) -> (u32, u32, u32) {
    let (base, bits) = parse_cidr(&node.spec.pod_cidr).unwrap_or_else(|| {
        let block = hash(&node.metadata.name) % (1 << 12);
        (u32::from(Ipv4Addr::new(10, 64, 0, 0)) + (block << 10), 10)
    });
    let last = base + ((1 << bits) - 2);
    (base + 2, last, base + 1)
}

/// Base and number of free bits of a range that has room for a pod.
fn parse_cidr(text: &str) -> Option<(u32, u32)> {
    let (base, prefix) = text.split_once('/')?;
    let prefix: u32 = prefix.parse().ok()?;
    let bits = 32u32
        .checked_sub(prefix)
        .filter(|bits| (2..=24).contains(bits))?;
    Some((number(base)? >> bits << bits, bits))
}

/// FNV-1a.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_round_and_none_is_given_twice() {
        let mut node = Node::default();
        node.spec.pod_cidr = "10.1.2.0/29".to_owned();
        let mut addresses = PodAddresses::default();
        addresses.keep("10.1.2.3");
        let mut take = || addresses.take(&node).map(|it| it.to_string());
        let taken = [(); 5].map(|()| take());
        let expected = [
            Some("10.1.2.2"),
            Some("10.1.2.4"),
            Some("10.1.2.5"),
            Some("10.1.2.6"),
            None,
        ];
        assert_eq!(taken.each_ref().map(Option::as_deref), expected);
        addresses.give_back("10.1.2.4");
        assert_eq!(addresses.take(&node), Some(Ipv4Addr::new(10, 1, 2, 4)));
    }

    #[test]
    fn a_node_without_addresses_gets_some() {
        let node = Node::default();
        assert!(host_ip(&node).starts_with("10."));
        assert!(PodAddresses::default().take(&node).is_some());
    }
}

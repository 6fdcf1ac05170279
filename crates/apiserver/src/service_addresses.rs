//! Cluster addresses of services (`spec.clusterIP`).
//!
//! Nothing listens there in a simulated cluster; but clients expect that every service that wants
//! an address has one, and that no two have the same. Source:
//! `pkg/registry/core/service/storage/alloc.go`, `pkg/registry/core/service/ipallocator`,
//! Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use outrank_api::field_error::FieldError;
use outrank_api::status::{Qualified, Status};
use outrank_store::{Entry, Key, Store};
use serde_json::{Value, json};

use crate::lookups::entries_within;
use crate::server::Changed;
use crate::stored_object::StoredObject;

/// The range, 10.96.0.0/12, by its first address and the number of its bits that are fixed.
const RANGE: (u32, u32) = (0x0a60_0000, 12);

/// Addresses at the beginning of the range that are given only to those who ask for them, so that
/// there are some left for these.
const STATIC: u32 = 256;

/// Ports of nodes that services of type NodePort get.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// Which addresses and ports are taken.
#[derive(Debug)]
pub(crate) struct ServiceAddresses(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    addresses: BTreeSet<u32>,
    node_ports: BTreeSet<u16>,
    of: BTreeMap<Key, (Vec<u32>, Vec<u16>)>,
    next: u32,
}

impl ServiceAddresses {
    /// Those of the services in a store.
    pub(crate) fn of(store: &Store<StoredObject>) -> Self {
        let addresses = Self(Mutex::default());
        for entry in entries_within(store, "services", "") {
            addresses.note(&entry, Changed::Set);
        }
        addresses
    }

    /// Notes what a service has, after it was stored.
    pub(crate) fn note(&self, entry: &Entry<StoredObject>, changed: Changed) {
        if &*entry.key.resource != "services" {
            return;
        }
        let mut taken = self.lock();
        if let Some((addresses, ports)) = taken.of.remove(&entry.key) {
            addresses
                .iter()
                .for_each(|it| _ = taken.addresses.remove(it));
            ports.iter().for_each(|it| _ = taken.node_ports.remove(it));
        }
        if changed == Changed::Set {
            let value: Value = serde_json::from_slice(entry.value.json()).unwrap_or_default();
            let has = (addresses_of(&value), node_ports_of(&value));
            taken.addresses.extend(&has.0);
            taken.node_ports.extend(&has.1);
            taken.of.insert(entry.key.clone(), has);
        }
    }

    /// Gives a new service its addresses and ports.
    ///
    /// # Errors
    ///
    /// If it asks for some that are taken or out of range, or all are taken.
    pub(crate) fn allocate(&self, service: &mut Value) -> Result<(), Status> {
        self.complete(service, &[], &[])
    }

    /// Gives a changed service what it has not, and lets it keep what it has.
    ///
    /// # Errors
    ///
    /// As [`Self::allocate`].
    pub(crate) fn keep(&self, service: &mut Value, live: &Value) -> Result<(), Status> {
        let was_outside = live["spec"]["type"] == json!("ExternalName");
        let is_outside = service["spec"]["type"] == json!("ExternalName");
        if is_outside {
            if let Value::Object(spec) = &mut service["spec"]
                && !was_outside
            {
                spec.remove("clusterIP");
                spec.remove("clusterIPs");
            }
        } else if is_absent(&service["spec"]["clusterIP"]) && !is_absent(&live["spec"]["clusterIP"])
        {
            for field in ["clusterIP", "clusterIPs"] {
                service["spec"][field] = live["spec"][field].clone();
            }
        }
        self.complete(service, &addresses_of(live), &node_ports_of(live))
    }

    /// Gives back what a service was given that is not stored after all.
    pub(crate) fn release(&self, service: &Value) {
        let mut taken = self.lock();
        let Taken {
            addresses,
            node_ports,
            of,
            ..
        } = &mut *taken;
        let is_free = |it: &u32| !of.values().any(|(addresses, _)| addresses.contains(it));
        for address in addresses_of(service).iter().filter(|it| is_free(it)) {
            addresses.remove(address);
        }
        let is_free = |it: &u16| !of.values().any(|(_, ports)| ports.contains(it));
        for port in node_ports_of(service).iter().filter(|it| is_free(it)) {
            node_ports.remove(port);
        }
    }

    fn complete(&self, service: &mut Value, own: &[u32], own_ports: &[u16]) -> Result<(), Status> {
        let name = service["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let invalid = |error: FieldError| {
            let kind = Qualified {
                group: "",
                name: "Service",
            };
            Status::invalid(kind, &name, &[error])
        };
        let mut taken = self.lock();
        let spec = &mut service["spec"];
        if spec["type"] == json!("ExternalName") {
            return Ok(());
        }
        let asked = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
        match asked.as_str() {
            "None" => spec["clusterIPs"] = json!(["None"]),
            "" => {
                let address = taken.free_address().ok_or_else(|| {
                    Status::internal_error("failed to allocate a serviceIP: range is full")
                })?;
                let address = Ipv4Addr::from(address).to_string();
                spec["clusterIPs"] = json!([address]);
                spec["clusterIP"] = address.into();
            }
            asked => {
                let address = asked.parse::<Ipv4Addr>().ok().map(u32::from);
                let is_taken = |it: &u32| taken.addresses.contains(it) && !own.contains(it);
                let why = match address {
                    Some(it) if !is_in_range(it) => Some(
                        "failed to allocate IP: provided IP is not in the valid range. The range \
                         of valid IPs is 10.96.0.0/12"
                            .to_owned(),
                    ),
                    Some(it) if is_taken(&it) => {
                        Some("failed to allocate IP: provided IP is already allocated".to_owned())
                    }
                    _ => None,
                };
                if let Some(why) = why {
                    return Err(invalid(FieldError::invalid(
                        "spec.clusterIPs",
                        &json!([asked]),
                        why.replace("allocate IP", &format!("allocate IP {asked}")),
                    )));
                }
                if is_absent(&spec["clusterIPs"]) {
                    spec["clusterIPs"] = json!([asked]);
                }
            }
        }
        if asked != "None" || spec["type"] != json!("ClusterIP") {
            spec["ipFamilies"] = json!(["IPv4"]);
        }
        if is_absent(&spec["ipFamilies"]) {
            spec["ipFamilies"] = json!(["IPv4"]);
        }
        if is_absent(&spec["ipFamilyPolicy"]) {
            spec["ipFamilyPolicy"] = json!("SingleStack");
        }
        let has_node_ports = matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"))
            && spec["allocateLoadBalancerNodePorts"] != json!(false);
        for (index, port) in spec["ports"]
            .as_array_mut()
            .into_iter()
            .flatten()
            .enumerate()
        {
            let asked = port["nodePort"].as_u64().filter(|it| *it != 0);
            match asked.map(|it| u16::try_from(it).unwrap_or(0)) {
                Some(asked) if !has_node_ports => _ = asked,
                Some(asked) if taken.node_ports.contains(&asked) && !own_ports.contains(&asked) => {
                    return Err(invalid(FieldError::invalid(
                        &*format!("spec.ports[{index}].nodePort"),
                        i64::from(asked),
                        "provided port is already allocated",
                    )));
                }
                Some(asked) if !NODE_PORTS.contains(&asked) => {
                    return Err(invalid(FieldError::invalid(
                        &*format!("spec.ports[{index}].nodePort"),
                        i64::from(asked),
                        "provided port is not in the valid range. The range of valid ports is \
                         30000-32767",
                    )));
                }
                None if has_node_ports => {
                    let mut free = NODE_PORTS.filter(|it| !taken.node_ports.contains(it));
                    let free = free.next().ok_or_else(|| {
                        Status::internal_error("failed to allocate a nodePort: range is full")
                    })?;
                    taken.node_ports.insert(free);
                    port["nodePort"] = free.into();
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// An address that nobody has, taken from now on.
    fn free_address(&mut self) -> Option<u32> {
        let (first, fixed) = RANGE;
        let count = (1_u32 << (32 - fixed)) - 1;
        for _ in STATIC..count {
            let offset = STATIC + self.next % (count - STATIC);
            self.next = self.next.wrapping_add(1);
            if self.addresses.insert(first + offset) {
                return Some(first + offset);
            }
        }
        None
    }
}

fn is_in_range(address: u32) -> bool {
    let (first, fixed) = RANGE;
    address >> (32 - fixed) == first >> (32 - fixed)
}

fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    }
}

fn addresses_of(service: &Value) -> Vec<u32> {
    let listed = service["spec"]["clusterIPs"]
        .as_array()
        .into_iter()
        .flatten();
    let all = listed.chain([&service["spec"]["clusterIP"]]);
    let mut addresses: Vec<u32> = all
        .filter_map(Value::as_str)
        .filter_map(|text| text.parse::<Ipv4Addr>().ok())
        .map(u32::from)
        .collect();
    addresses.dedup();
    addresses
}

fn node_ports_of(service: &Value) -> Vec<u16> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let ports = ports.filter_map(|port| port["nodePort"].as_u64());
    ports
        .filter_map(|port| u16::try_from(port).ok())
        .filter(|it| *it != 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Value {
        json!({"metadata": {"name": "s"}, "spec": spec})
    }

    #[test]
    fn each_service_has_an_address_of_its_own() {
        let addresses = ServiceAddresses(Mutex::default());
        let mut seen = BTreeSet::new();
        for _ in 0..50 {
            let mut one = service(json!({"type": "ClusterIP"}));
            addresses.allocate(&mut one).expect("there is room");
            let address = one["spec"]["clusterIP"]
                .as_str()
                .expect("an address")
                .to_owned();
            assert!(seen.insert(address));
        }
        let mut headless = service(json!({"type": "ClusterIP", "clusterIP": "None"}));
        addresses.allocate(&mut headless).expect("none is needed");
        assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
        let mut outside = service(json!({"type": "ClusterIP", "clusterIP": "8.8.8.8"}));
        let refused = addresses.allocate(&mut outside).expect_err("not ours");
        assert!(
            refused.message.contains("not in the valid range"),
            "{}",
            refused.message
        );
    }

    #[test]
    fn ports_of_nodes_are_given_out_once() {
        let addresses = ServiceAddresses(Mutex::default());
        let spec = json!({"type": "NodePort", "ports": [{"port": 80}, {"port": 81}]});
        let mut one = service(spec);
        addresses.allocate(&mut one).expect("there is room");
        assert_eq!(node_ports_of(&one), [30_000, 30_001]);
    }
}

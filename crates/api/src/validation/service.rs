//! Services, and the addresses behind them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::container::PROTOCOLS;
use super::errors::{Errors, cidr, dns_label, dns_subdomain, ip, port_number, port_number_or_name};
use crate::diagnostic::Here;
use crate::field_error::{BadValue, go_json};
use crate::fields_of::FieldsOf;
use crate::names::label_key_errors;

const AFFINITIES: [&str; 2] = ["ClientIP", "None"];
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const POLICIES: [&str; 2] = ["Cluster", "Local"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const FAMILY_POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameNode", "PreferSameZone"];
/// Longest time that a client stays with one pod, in seconds.
const AFFINITY_SECONDS_MAX: i64 = 86_400;

fn is_headless(spec: &Value) -> bool {
    let mut addresses = spec.texts("clusterIPs");
    addresses.next() == Some("None") && addresses.next().is_none()
}

/// Checks the spec of a service.
pub(super) fn service(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let service_type = spec.text("type");
    let has_ports = !spec.list("ports").is_empty();
    if !has_ports && !is_headless(spec) && service_type != "ExternalName" {
        errors.required(&here.field("ports"), "");
    }
    by_type(spec, service_type, here, errors);
    ports(spec, &here.field("ports"), errors);
    errors.labels(spec, "selector", here);
    session_affinity(spec, here, errors);
    if service_type != "ExternalName" {
        cluster_addresses(spec, here, errors);
    }
    let external = here.field("externalIPs");
    for (index, address) in spec.texts("externalIPs").enumerate() {
        address_of_others(address, &external.index(index), errors);
    }
    errors.required_word(service_type, &TYPES, &here.field("type"));
    port_pairs(spec, service_type, &here.field("ports"), errors);
    balancer(spec, service_type, here, errors);
    traffic(spec, service_type, here, errors);
}

fn by_type(spec: &Value, service_type: &str, here: &Here<'_>, errors: &mut Errors) {
    let addresses = here.field("clusterIPs");
    match service_type {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let rule = format!("may not be set to 'None' for {service_type} services");
            errors.invalid(&addresses.index(0), "None", rule);
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if spec.part(field).is_some() {
                    let detail = "may not be set for ExternalName services";
                    errors.forbidden(&here.field(field), detail);
                }
            }
            let name = spec.text("externalName");
            let name = name.strip_suffix('.').unwrap_or(name);
            errors.required_text(dns_subdomain, name, &here.field("externalName"));
        }
        _ => {}
    }
}

fn ports(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let ports = spec.list("ports");
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let here = here.index(index);
        let name = port.text("name");
        if name.is_empty() && ports.len() > 1 {
            errors.required(&here.field("name"), "");
        } else if !name.is_empty() {
            errors.text(dns_label, name, &here.field("name"));
            if !names.insert(name) {
                errors.duplicate(&here.field("name"), name);
            }
        }
        let number = port.number("port").unwrap_or(0);
        port_number(number, &here.field("port"), errors);
        let protocol = port.text("protocol");
        errors.required_word(protocol, &PROTOCOLS, &here.field("protocol"));
        let target = port.part("targetPort");
        port_number_or_name(target, &here.field("targetPort"), errors);
        if let Some(protocol) = port.some_text("appProtocol") {
            errors.text(label_key_errors, protocol, &here.field("appProtocol"));
        }
    }
}

fn session_affinity(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let affinity = spec.text("sessionAffinity");
    errors.required_word(affinity, &AFFINITIES, &here.field("sessionAffinity"));
    let config = spec.part("sessionAffinityConfig");
    let here = here.field("sessionAffinityConfig");
    match (affinity, config) {
        ("ClientIP", None) => {
            errors.required(&here, "when session affinity type is ClientIP");
        }
        ("ClientIP", Some(config)) => {
            let client = config.part("clientIP").unwrap_or(&Value::Null);
            let here = here.field("clientIP");
            let here = here.field("timeoutSeconds");
            match client.number("timeoutSeconds") {
                None => errors.required(&here, "when session affinity type is ClientIP"),
                Some(seconds) if !(1..=AFFINITY_SECONDS_MAX).contains(&seconds) => {
                    let rule =
                        format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
                    errors.invalid(&here, seconds, rule);
                }
                Some(_) => {}
            }
        }
        ("None", Some(_)) => {
            errors.forbidden(&here, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

fn cluster_addresses(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let addresses_here = here.field("clusterIPs");
    let addresses: Vec<&str> = spec.texts("clusterIPs").collect();
    let shown = spec.part("clusterIPs").unwrap_or(&Value::Null);
    match (spec.text("clusterIP"), addresses.first()) {
        ("", Some(_)) => {
            let rule = "must be empty when `clusterIP` is not specified";
            errors.invalid(&addresses_here, shown, rule);
        }
        ("", None) => {}
        (_, None) => errors.required(&addresses_here, ""),
        (one, Some(first)) if one != *first => {
            errors.invalid(&addresses_here, shown, "first value must match `clusterIP`");
        }
        _ => {}
    }
    let families_here = here.field("ipFamilies");
    let mut families = BTreeSet::new();
    for (index, family) in spec.texts("ipFamilies").enumerate() {
        errors.word(family, &FAMILIES, &families_here.index(index));
        if !families.insert(family) {
            errors.duplicate(&families_here.index(index), family);
        }
    }
    if let Some(policy) = spec.some_text("ipFamilyPolicy") {
        errors.word(policy, &FAMILY_POLICIES, &here.field("ipFamilyPolicy"));
    }
    for (index, address) in addresses.iter().enumerate() {
        if index == 0 && *address == "None" {
            if addresses.len() > 1 {
                let rule = "'None' must be the first and only value";
                errors.invalid(&addresses_here, shown, rule);
            }
            continue;
        }
        ip(address, &addresses_here.index(index), errors);
    }
    if addresses.len() > 2 {
        errors.invalid(&addresses_here, shown, "may only hold up to 2 values");
    }
}

/// An address outside of the cluster: no one that means the machine itself, or its link.
fn address_of_others(address: &str, here: &Here<'_>, errors: &mut Errors) {
    let Ok(parsed) = address.parse::<IpAddr>() else {
        ip(address, here, errors);
        return;
    };
    let is_link_local = match parsed {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.segments()[0] & 0xffc0 == 0xfe80,
    };
    if parsed.is_unspecified() {
        errors.invalid(here, address, format!("may not be unspecified ({address})"));
    }
    if parsed.is_loopback() {
        let rule = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        errors.invalid(here, address, rule);
    }
    if is_link_local {
        let rule = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        errors.invalid(here, address, rule);
    }
}

/// Ports may not be taken twice, neither of the service nor of the nodes.
fn port_pairs(spec: &Value, service_type: &str, here: &Here<'_>, errors: &mut Errors) {
    let ports = spec.list("ports");
    let on_node = |port: &Value| port.number("nodePort").unwrap_or(0);
    for (index, port) in ports.iter().enumerate() {
        if service_type == "ClusterIP" && on_node(port) != 0 {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.forbidden(&here.index(index).field("nodePort"), detail);
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let number = on_node(port);
        if number != 0 && !seen.insert((port.text("protocol"), number)) {
            errors.duplicate(&here.index(index).field("nodePort"), number);
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let (protocol, number) = (port.text("protocol"), port.number("port").unwrap_or(0));
        if !seen.insert((protocol, number)) {
            let protocol = go_json(&Value::from(protocol));
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{protocol},\"AppProtocol\":null,\"Port\":{number},\
                 \"TargetPort\":0,\"NodePort\":0}}"
            );
            errors.duplicate(&here.index(index), BadValue::json(shown));
        }
    }
}

fn balancer(spec: &Value, service_type: &str, here: &Here<'_>, errors: &mut Errors) {
    let is_balanced = service_type == "LoadBalancer";
    let detail = "may only be used when `type` is 'LoadBalancer'";
    if !spec.list("loadBalancerSourceRanges").is_empty() {
        let here = here.field("LoadBalancerSourceRanges");
        if !is_balanced {
            errors.forbidden(&here, detail);
        }
        for (index, range) in spec.texts("loadBalancerSourceRanges").enumerate() {
            cidr(range.trim(), &here.index(index), errors);
        }
    }
    let field = "allocateLoadBalancerNodePorts";
    if spec.part(field).is_some() && !is_balanced {
        errors.forbidden(&here.field(field), detail);
    }
    if let Some(class) = spec.some_text("loadBalancerClass") {
        let here = here.field("loadBalancerClass");
        match is_balanced {
            true => errors.text(label_key_errors, class, &here),
            false => errors.forbidden(&here, detail),
        }
    }
}

fn traffic(spec: &Value, service_type: &str, here: &Here<'_>, errors: &mut Errors) {
    let is_outside = matches!(service_type, "LoadBalancer" | "NodePort")
        || service_type == "ClusterIP" && !spec.list("externalIPs").is_empty();
    let external_here = here.field("externalTrafficPolicy");
    let external = spec.text("externalTrafficPolicy");
    if is_outside {
        errors.required_word(external, &POLICIES, &external_here);
    } else if !external.is_empty() {
        let rule = "may only be set for externally-accessible services";
        errors.invalid(&external_here, external, rule);
    }
    let health = spec.number("healthCheckNodePort").unwrap_or(0);
    let health_here = here.field("healthCheckNodePort");
    let is_checked = service_type == "LoadBalancer" && external == "Local";
    if !is_checked && health != 0 {
        let rule = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is \
                    'Local'";
        errors.invalid(&health_here, health, rule);
    }
    let internal_here = here.field("internalTrafficPolicy");
    match spec.some_text("internalTrafficPolicy") {
        None if service_type != "ExternalName" => errors.required(&internal_here, ""),
        None => {}
        Some(policy) => errors.word(policy, &POLICIES, &internal_here),
    }
    if let Some(distribution) = spec.some_text("trafficDistribution") {
        let here = here.field("trafficDistribution");
        errors.word(distribution, &DISTRIBUTIONS, &here);
    }
}

/// Checks what may become of a service: its first address stays, unless its type changes to or
/// from one that has none.
pub(super) fn service_update(new: &Value, old: &Value, here: &Here<'_>, errors: &mut Errors) {
    let is_external = |spec: &Value| spec.text("type") == "ExternalName";
    if is_external(new) || is_external(old) || is_headless(new) && is_headless(old) {
        return;
    }
    let before: Vec<&str> = old.texts("clusterIPs").collect();
    let after: Vec<&str> = new.texts("clusterIPs").collect();
    let here = here.field("clusterIPs");
    let shown = new.part("clusterIPs").unwrap_or(&Value::Null);
    if !before.is_empty() && after.is_empty() {
        let rule = "primary clusterIP can not be unset";
        errors.invalid(&here.index(0), shown, rule);
        return;
    }
    let compared = match before.len() == after.len() {
        true => before.len(),
        false => 1,
    };
    let pairs = before.iter().zip(&after).take(compared).enumerate();
    for (index, _) in pairs.filter(|(_, (before, after))| before != after) {
        errors.invalid(&here.index(index), shown, "may not change once set");
    }
}

/// Checks Endpoints.
pub(super) fn endpoints(endpoints: &Value, errors: &mut Errors) {
    let subsets = Here::OBJECT.field("subsets");
    for (index, subset) in endpoints.list("subsets").iter().enumerate() {
        let here = subsets.index(index);
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|list| subset.list(list).is_empty()) {
            errors.required(&here, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in lists {
            let list_here = here.field(list);
            for (index, address) in subset.list(list).iter().enumerate() {
                let here = list_here.index(index);
                let hostname = address.text("hostname");
                errors.optional_text(dns_label, hostname, &here.field("hostname"));
                if let Some(node) = address.some_text("nodeName") {
                    errors.text(dns_subdomain, node, &here.field("nodeName"));
                }
                address_of_others(address.text("ip"), &here.field("ip"), errors);
            }
        }
        let ports = subset.list("ports");
        let ports_here = here.field("ports");
        for (index, port) in ports.iter().enumerate() {
            let here = ports_here.index(index);
            let name = port.text("name");
            match name {
                "" if ports.len() > 1 => errors.required(&here.field("name"), ""),
                name => errors.optional_text(dns_label, name, &here.field("name")),
            }
            let number = port.number("port").unwrap_or(0);
            port_number(number, &here.field("port"), errors);
            let protocol = port.text("protocol");
            errors.required_word(protocol, &PROTOCOLS, &here.field("protocol"));
        }
    }
}

/// Checks an EndpointSlice.
pub(super) fn endpoint_slice(slice: &Value, errors: &mut Errors) {
    const ENDPOINTS_MAX: usize = 1000;
    let here = Here::OBJECT;
    let kind = slice.text("addressType");
    errors.required_word(kind, &["FQDN", "IPv4", "IPv6"], &here.field("addressType"));
    let endpoints = slice.list("endpoints");
    let endpoints_here = here.field("endpoints");
    if endpoints.len() > ENDPOINTS_MAX {
        let count = i64::try_from(endpoints.len()).unwrap_or(i64::MAX);
        let rule = format!("must have at most {ENDPOINTS_MAX} items");
        errors.invalid(&endpoints_here, count, rule);
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let here = endpoints_here.index(index);
        let addresses_here = here.field("addresses");
        if endpoint.list("addresses").is_empty() {
            errors.required(&addresses_here, "must contain at least 1 address");
        }
        for (index, address) in endpoint.texts("addresses").enumerate() {
            let here = addresses_here.index(index);
            match kind {
                "FQDN" => errors.text(dns_subdomain, address, &here),
                _ => address_of_others(address, &here, errors),
            }
        }
        if let Some(node) = endpoint.some_text("nodeName") {
            errors.text(dns_subdomain, node, &here.field("nodeName"));
        }
    }
    let ports_here = here.field("ports");
    let mut names = BTreeSet::new();
    for (index, port) in slice.list("ports").iter().enumerate() {
        let here = ports_here.index(index);
        let name = port.text("name");
        errors.optional_text(dns_label, name, &here.field("name"));
        if !names.insert(name) {
            errors.duplicate(&here.field("name"), name);
        }
        let protocol = port.text("protocol");
        errors.required_word(protocol, &PROTOCOLS, &here.field("protocol"));
    }
}

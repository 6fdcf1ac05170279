//! Services and what leads to them: endpoints, ingresses, policies and addresses.

use std::collections::BTreeSet;

use serde_json::Value;

use super::BuiltIn;
use super::cell::{self, NONE, UNKNOWN, UNSET, integer, list, text};
use super::column::{AGE, NAME, SELECTOR, text as texts};

/// How many addresses, ports or hosts are shown one by one.
const MAX_SHOWN: usize = 3;

pub(super) static SERVICES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Type", "How the service is made known."),
        texts("Cluster-IP", "The address of the service in the cluster."),
        texts(
            "External-IP",
            "Addresses at which the service is reached from outside.",
        ),
        texts(
            "Port(s)",
            "The ports of the service, with those of nodes, and protocols.",
        ),
        AGE,
        SELECTOR,
    ],
    service_cells,
);

pub(super) static ENDPOINTS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts(
            "Endpoints",
            "Addresses and ports that stand behind the service.",
        ),
        AGE,
    ],
    endpoints_cells,
);

pub(super) static ENDPOINT_SLICES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("AddressType", "Which addresses these are."),
        texts("Ports", "The ports of all endpoints of the slice."),
        texts("Endpoints", "The addresses."),
        AGE,
    ],
    endpoint_slice_cells,
);

pub(super) static INGRESSES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Class", "The class of ingresses that says who serves it."),
        texts("Hosts", "The hosts that rules are about."),
        texts("Address", "The addresses of the load balancer."),
        texts("Ports", "The ports that are open."),
        AGE,
    ],
    ingress_cells,
);

pub(super) static INGRESS_CLASSES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Controller", "Who serves ingresses of the class."),
        texts("Parameters", "An object that says more about how."),
        AGE,
    ],
    ingress_class_cells,
);

pub(super) static NETWORK_POLICIES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts(
            "Pod-Selector",
            "The labels of the pods that the policy is about.",
        ),
        AGE,
    ],
    network_policy_cells,
);

pub(super) static SERVICE_CIDRS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts(
            "CIDRs",
            "The ranges of addresses that services get theirs from.",
        ),
        AGE,
    ],
    service_cidr_cells,
);

/// Upstream has a third cell, the age, but no column for it, so that nobody sees it.
pub(super) static IP_ADDRESSES: BuiltIn = BuiltIn::new(
    &[NAME, texts("ParentRef", "The object that has the address.")],
    ip_address_cells,
);

fn service_cells(service: &Value, now_nanos: i64) -> Vec<Value> {
    let spec = &service["spec"];
    let cluster_ip = match &spec["clusterIPs"][0] {
        Value::Null => cell::text_or(&spec["clusterIP"], NONE),
        first => text(first),
    };
    let ports: Vec<String> = list(&spec["ports"]).iter().map(service_port).collect();
    cells![
        cell::name(service),
        text(&spec["type"]),
        cluster_ip,
        external_ips(service),
        cell::or(&ports.join(","), NONE),
        cell::age(service, now_nanos),
        cell::labels(&spec["selector"]),
    ]
}

/// `80/TCP`, or `80:30080/TCP` if nodes forward a port of theirs.
fn service_port(port: &Value) -> String {
    let (number, protocol) = (integer(&port["port"]), text(&port["protocol"]));
    match integer(&port["nodePort"]) {
        node_port if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn external_ips(service: &Value) -> String {
    let spec = &service["spec"];
    let given = cell::joined(list(&spec["externalIPs"]).iter().map(text));
    match text(&spec["type"]) {
        "ClusterIP" | "NodePort" => cell::or(&given, NONE).to_owned(),
        "LoadBalancer" => {
            let balancer = balancer_addresses(&service["status"]);
            match (balancer.is_empty(), given.is_empty()) {
                (true, true) => "<pending>".to_owned(),
                (false, true) => balancer,
                (true, false) => given,
                (false, false) => format!("{balancer},{given}"),
            }
        }
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        _ => UNKNOWN.to_owned(),
    }
}

/// The addresses of a load balancer, each once and in order; names where there is no number.
fn balancer_addresses(status: &Value) -> String {
    let ingress = list(&status["loadBalancer"]["ingress"]).iter();
    let addresses = ingress.map(|it| cell::text_or(&it["ip"], text(&it["hostname"])));
    let addresses: BTreeSet<&str> = addresses.filter(|it| !it.is_empty()).collect();
    cell::joined(addresses.into_iter())
}

fn endpoints_cells(endpoints: &Value, now_nanos: i64) -> Vec<Value> {
    let shown = match list(&endpoints["subsets"]) {
        [] => NONE.to_owned(),
        subsets => {
            let counts = subsets.iter().map(|subset| {
                let ports = list(&subset["ports"]).len().max(1);
                list(&subset["addresses"]).len().saturating_mul(ports)
            });
            let count = counts.fold(0, usize::saturating_add);
            cell::first_of(MAX_SHOWN, count, subsets.iter().flat_map(subset_addresses))
        }
    };
    cells![
        cell::name(endpoints),
        shown,
        cell::age(endpoints, now_nanos)
    ]
}

/// Every port with every address; addresses alone if there is no port, as in headless services.
fn subset_addresses(subset: &Value) -> impl Iterator<Item = String> {
    let addresses = list(&subset["addresses"]);
    let ports = list(&subset["ports"]);
    let alone = if ports.is_empty() { addresses } else { &[] };
    let alone = alone.iter().map(|it| text(&it["ip"]).to_owned());
    let with_port = ports.iter().flat_map(move |port| {
        let port = integer(&port["port"]);
        addresses
            .iter()
            .map(move |it| host_port(text(&it["ip"]), port))
    });
    alone.chain(with_port)
}

/// Addresses with colons stand in brackets, so that the port is found (Go's `net.JoinHostPort`).
fn host_port(address: &str, port: i64) -> String {
    if address.contains(':') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    }
}

fn endpoint_slice_cells(slice: &Value, now_nanos: i64) -> Vec<Value> {
    let ports = list(&slice["ports"]);
    let shown_ports = cell::first_of(MAX_SHOWN, ports.len(), ports.iter().map(slice_port));
    let addresses = || {
        let endpoints = list(&slice["endpoints"]).iter();
        endpoints.flat_map(|it| list(&it["addresses"]).iter().map(text))
    };
    let shown_addresses = cell::first_of(MAX_SHOWN, addresses().count(), addresses());
    cells![
        cell::name(slice),
        text(&slice["addressType"]),
        cell::or(&shown_ports, UNSET),
        cell::or(&shown_addresses, UNSET),
        cell::age(slice, now_nanos),
    ]
}

/// The number of a port, or its name; `*` if it has neither and stands for all.
fn slice_port(port: &Value) -> String {
    match port["port"].as_i64() {
        Some(number) => number.to_string(),
        None => cell::present_or(&port["name"], "*").to_owned(),
    }
}

fn ingress_cells(ingress: &Value, now_nanos: i64) -> Vec<Value> {
    let spec = &ingress["spec"];
    let ports = match list(&spec["tls"]) {
        [] => "80",
        _ => "80, 443",
    };
    cells![
        cell::name(ingress),
        cell::present_or(&spec["ingressClassName"], NONE),
        hosts(list(&spec["rules"])),
        balancer_addresses(&ingress["status"]),
        ports,
        cell::age(ingress, now_nanos),
    ]
}

/// The hosts of rules. Rules without a host are not shown, yet count among the others once there
/// are more than can be shown, as upstream has it.
fn hosts(rules: &[Value]) -> String {
    let mut shown = Vec::new();
    for rule in rules {
        if shown.len() == MAX_SHOWN {
            let more = rules.len() - MAX_SHOWN;
            return format!("{} + {more} more...", shown.join(","));
        }
        let host = text(&rule["host"]);
        if !host.is_empty() {
            shown.push(host);
        }
    }
    cell::or(&shown.join(","), "*").to_owned()
}

fn ingress_class_cells(class: &Value, now_nanos: i64) -> Vec<Value> {
    const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
    cells![
        default_name(class, cell::has_true_annotation(class, DEFAULT)),
        text(&class["spec"]["controller"]),
        parameters(&class["spec"]["parameters"]),
        cell::age(class, now_nanos),
    ]
}

/// The name of a class, and whether it is the one that is used if none is named.
pub(super) fn default_name(class: &Value, is_default: bool) -> String {
    let suffix = if is_default { " (default)" } else { "" };
    format!("{}{suffix}", cell::name(class))
}

/// `Kind.group/name` of a reference; `<none>` if there is none.
fn parameters(reference: &Value) -> String {
    if reference.is_null() {
        return NONE.to_owned();
    }
    let (kind, name) = (text(&reference["kind"]), text(&reference["name"]));
    match reference["apiGroup"].as_str() {
        Some(group) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn network_policy_cells(policy: &Value, now_nanos: i64) -> Vec<Value> {
    // An absent selector is an empty one here, which selects all pods; both read the same.
    cells![
        cell::name(policy),
        cell::selector(&policy["spec"]["podSelector"]),
        cell::age(policy, now_nanos),
    ]
}

fn service_cidr_cells(cidr: &Value, now_nanos: i64) -> Vec<Value> {
    cells![
        cell::name(cidr),
        cell::joined(list(&cidr["spec"]["cidrs"]).iter().map(text)),
        cell::age(cidr, now_nanos),
    ]
}

fn ip_address_cells(address: &Value, _now_nanos: i64) -> Vec<Value> {
    cells![cell::name(address), parent(&address["spec"]["parentRef"])]
}

/// `resource.group/namespace/name` of a reference, without what is empty; `<none>` if there is
/// none.
fn parent(reference: &Value) -> String {
    if reference.is_null() {
        return NONE.to_owned();
    }
    let mut parent = text(&reference["resource"]).to_lowercase();
    let group = text(&reference["group"]);
    if !group.is_empty() {
        parent = format!("{parent}.{}", group.to_lowercase());
    }
    let namespace = text(&reference["namespace"]);
    if !namespace.is_empty() {
        parent = format!("{parent}/{namespace}");
    }
    format!("{parent}/{}", text(&reference["name"]))
}

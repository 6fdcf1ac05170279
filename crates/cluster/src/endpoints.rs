//! Where services lead: the EndpointSlices and Endpoints of their pods.
//!
//! A service with a selector has slices of at most 100 addresses, which are those of its pods.
//! Sources, Kubernetes 1.36: `pkg/controller/endpointslice`, `staging/src/k8s.io/endpointslice`,
//! `pkg/controller/endpoint`.

use outrank_api::labels::Selector;
use outrank_api::types::{Pod, StringMap};
use outrank_controllers::Stored;
use serde_json::{Map, Value, json};

/// How many addresses a slice has at most.
const ADDRESSES_MAX: usize = 100;

/// How many addresses are told in Endpoints at most.
const ENDPOINTS_MAX: usize = 1_000;

/// Who made a slice.
pub(crate) const MANAGED_BY: &str = "endpointslice-controller.k8s.io";

/// The label by which a slice says whose it is.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// What a service leads to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Endpoints {
    /// The contents of the slices: `addressType`, `endpoints`, `ports`.
    pub(crate) slices: Vec<Value>,
    /// `subsets` of the Endpoints.
    pub(crate) subsets: Value,
}

/// Where a service leads, given all pods of its namespace. `None` if its selector selects nothing,
/// so that somebody else says.
pub(crate) fn of_service(service: &Value, pods: &[&Stored]) -> Option<Endpoints> {
    let selector = service["spec"]["selector"].as_object()?;
    if selector.is_empty() || service["spec"]["type"] == json!("ExternalName") {
        return None;
    }
    let labels: StringMap = selector
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect();
    let selector = Selector::from_set(&labels);
    let is_told_early = service["spec"]["publishNotReadyAddresses"] == json!(true);
    let mut chosen: Vec<&Pod> = pods
        .iter()
        .filter_map(|stored| stored.get::<Pod>())
        .collect();
    chosen.retain(|pod| selector.matches(&pod.metadata.labels) && has_address(pod));
    chosen.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let ports = ports_of(service, chosen.first().copied());
    let endpoints: Vec<Value> = chosen
        .iter()
        .map(|pod| endpoint(pod, is_told_early))
        .collect();
    let slice = |endpoints: &[Value]| json!({"addressType": "IPv4", "endpoints": endpoints, "ports": ports});
    let slices = match endpoints.is_empty() {
        true => vec![json!({"addressType": "IPv4", "endpoints": [], "ports": null})],
        false => endpoints.chunks(ADDRESSES_MAX).map(slice).collect(),
    };
    Some(Endpoints {
        slices,
        subsets: subsets(&chosen, &ports, is_told_early),
    })
}

fn has_address(pod: &Pod) -> bool {
    !pod.status.pod_ip.is_empty() && !pod.is_finished()
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.conditions.iter();
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

fn endpoint(pod: &Pod, is_told_early: bool) -> Value {
    let is_going = pod.metadata.deletion_timestamp.is_some();
    let (serving, ready) = (is_ready(pod), is_ready(pod) && !is_going);
    json!({
        "addresses": [pod.status.pod_ip],
        "conditions": {"ready": ready || is_told_early, "serving": serving,
            "terminating": is_going},
        "nodeName": pod.spec.node_name,
        "targetRef": target(pod),
    })
}

fn target(pod: &Pod) -> Value {
    json!({"kind": "Pod", "name": pod.metadata.name, "namespace": pod.metadata.namespace,
        "uid": pod.metadata.uid})
}

/// The ports of a service at its pods. A port may be named, and then it is that of a container.
fn ports_of(service: &Value, pod: Option<&Pod>) -> Value {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let ports = ports.map(|port| {
        let number = match &port["targetPort"] {
            Value::String(name) => pod
                .and_then(|pod| named_port(pod, name))
                .unwrap_or(json!(0)),
            Value::Number(number) => json!(number),
            _ => port["port"].clone(),
        };
        let mut told = Map::new();
        told.insert(
            "name".to_owned(),
            port["name"].as_str().unwrap_or_default().into(),
        );
        told.insert("port".to_owned(), number);
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        told.insert("protocol".to_owned(), protocol.into());
        if let Some(protocol) = port["appProtocol"].as_str() {
            told.insert("appProtocol".to_owned(), protocol.into());
        }
        Value::Object(told)
    });
    ports.collect()
}

fn named_port(pod: &Pod, name: &str) -> Option<Value> {
    let mut ports = pod.spec.containers.iter().flat_map(|it| &it.ports);
    ports
        .find(|port| port.name == name)
        .map(|port| port.container_port.into())
}

/// The same in the older form.
fn subsets(pods: &[&Pod], ports: &Value, is_told_early: bool) -> Value {
    let address = |pod: &&Pod| json!({"ip": pod.status.pod_ip, "nodeName": pod.spec.node_name, "targetRef": target(pod)});
    let staying = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let staying = staying.take(ENDPOINTS_MAX).copied();
    let (ready, others): (Vec<&Pod>, Vec<&Pod>) =
        staying.partition(|pod| is_told_early || is_ready(pod));
    if ready.is_empty() && others.is_empty() {
        return Value::Null;
    }
    let mut ports = ports.clone();
    for port in ports.as_array_mut().into_iter().flatten() {
        if port["name"] == json!("")
            && let Value::Object(fields) = port
        {
            fields.remove("name");
        }
    }
    let mut subset = json!({ "ports": ports });
    for (field, pods) in [("addresses", ready), ("notReadyAddresses", others)] {
        if !pods.is_empty() {
            subset[field] = pods.iter().map(address).collect();
        }
    }
    json!([subset])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, ip: &str, is_ready: bool) -> Stored {
        let ready = if is_ready { "True" } else { "False" };
        Stored::whole(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i",
                "ports": [{"name": "http", "containerPort": 8080}]}]},
            "status": {"podIP": ip, "phase": "Running",
                "conditions": [{"type": "Ready", "status": ready}]}}))
    }

    #[test]
    fn a_service_leads_to_its_pods() {
        let service = json!({"spec": {"selector": {"app": "web"},
            "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}]}});
        let pods = [
            pod("b", "10.0.0.2", false),
            pod("a", "10.0.0.1", true),
            pod("c", "", true),
        ];
        let pods: Vec<&Stored> = pods.iter().collect();
        let endpoints = of_service(&service, &pods).expect("it selects");
        let slice = &endpoints.slices[0];
        assert_eq!(
            slice["ports"],
            json!([{"name": "", "port": 8080, "protocol": "TCP"}])
        );
        let addresses: Vec<&Value> = slice["endpoints"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| &it["addresses"][0])
            .collect();
        assert_eq!(addresses, ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(slice["endpoints"][1]["conditions"]["ready"], false);
        assert_eq!(endpoints.subsets[0]["addresses"][0]["ip"], "10.0.0.1");
        assert_eq!(
            endpoints.subsets[0]["notReadyAddresses"][0]["ip"],
            "10.0.0.2"
        );
    }

    #[test]
    fn without_a_selector_others_say() {
        assert_eq!(of_service(&json!({"spec": {}}), &[]), None);
        let nobody = of_service(&json!({"spec": {"selector": {"app": "x"}}}), &[]);
        let nobody = nobody.expect("it selects");
        assert_eq!((nobody.slices.len(), nobody.subsets), (1, Value::Null));
    }
}

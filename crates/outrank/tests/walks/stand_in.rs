//! Who stands in for the kubelets, as when the walks were recorded: pods on nodes run as soon as
//! they are told to, pods that are to go are gone, and nothing else is said of them.
//!
//! When that happens is not left to time, or a slow machine would see other walks than a fast one.
//! While the output of a command is compared, the pods do not move; they are moved when it is not
//! what it should be, one kind of step after the other. Only commands that wait for pods have them
//! move by themselves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;

/// The hands that move pods.
pub(crate) struct StandIn {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    api: Api,
    /// Whether pods move by themselves.
    is_free: AtomicBool,
    is_over: AtomicBool,
    addresses: AtomicU32,
}

/// How often pods are looked at while they move by themselves.
const PERIOD: Duration = Duration::from_millis(150);
/// How long pods rest before they move by themselves: who waits for them sees them as they were.
const REST: Duration = Duration::from_millis(600);
/// How long pods end while they move by themselves: longer than a rollout waits for them.
const GRACE: Duration = Duration::from_millis(1500);
/// How many periods there are between two signs of life of the nodes.
const PERIODS_OF_LEASES: u32 = 40;

impl StandIn {
    pub(crate) fn new(api: Api) -> Self {
        let shared = Arc::new(Shared {
            api,
            is_free: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            addresses: AtomicU32::new(2),
        });
        let of_thread = shared.clone();
        let thread = std::thread::spawn(move || of_thread.run());
        Self {
            shared,
            thread: Some(thread),
        }
    }

    /// Has the pods move by themselves while something is done.
    pub(crate) fn free<T>(&self, then: impl FnOnce() -> T) -> T {
        self.shared.is_free.store(true, Ordering::SeqCst);
        let result = then();
        self.shared.is_free.store(false, Ordering::SeqCst);
        result
    }

    /// Has pods that are bound run. Whether any did.
    pub(crate) fn start_pods(&self) -> bool {
        self.shared.start_pods()
    }

    /// Removes pods that are to go. Whether any went.
    pub(crate) fn remove_pods(&self) -> bool {
        self.shared.remove_pods(&mut |_| true)
    }

    /// Has all nodes say that they live.
    pub(crate) fn renew_leases(&self) {
        self.shared.renew_leases();
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut periods = 0_u32;
        let mut seen = BTreeMap::new();
        let mut free_since: Option<Instant> = None;
        while !self.is_over.load(Ordering::SeqCst) {
            if periods.is_multiple_of(PERIODS_OF_LEASES) {
                self.renew_leases();
            }
            let is_free = self.is_free.load(Ordering::SeqCst);
            free_since = is_free.then(|| free_since.unwrap_or_else(Instant::now));
            if free_since.is_some_and(|since| since.elapsed() > REST) {
                self.start_pods();
                self.remove_pods(&mut |uid| {
                    seen.entry(uid.to_owned())
                        .or_insert_with(Instant::now)
                        .elapsed()
                        > GRACE
                });
            }
            std::thread::sleep(PERIOD);
            periods = periods.wrapping_add(1);
        }
    }

    fn renew_leases(&self) {
        const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        let now = std::time::SystemTime::now();
        let seconds = now
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        let now = outrank_api::time::rfc3339(seconds.as_nanos() as i64).replace('Z', ".000000Z");
        for node in items(&self.api.get("/api/v1/nodes")) {
            let name = node["metadata"]["name"].as_str().unwrap_or_default();
            let spec = json!({"holderIdentity": name, "renewTime": now,
                "leaseDurationSeconds": 40});
            let (status, _) =
                self.api
                    .write("PATCH", &format!("{LEASES}/{name}"), &json!({"spec": spec}));
            if status == 404 {
                let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": name}, "spec": spec});
                self.api.write("POST", LEASES, &lease);
            }
        }
    }

    fn start_pods(&self) -> bool {
        let mut has_started = false;
        let nodes = self.api.get("/api/v1/nodes");
        let is_node = |name: &Value| items(&nodes).any(|it| it["metadata"]["name"] == *name);
        for pod in items(&self.api.get("/api/v1/pods")) {
            let is_pending = pod["status"]["phase"] == "Pending";
            let is_to_go = pod["metadata"]["deletionTimestamp"].is_string();
            if is_pending && !is_to_go && is_node(&pod["spec"]["nodeName"]) {
                let status = self.running(pod);
                let path = format!("{}/status", path(pod));
                let (code, _) = self.api.write("PATCH", &path, &json!({"status": status}));
                has_started |= code == 200;
            }
        }
        has_started
    }

    fn remove_pods(&self, is_time: &mut dyn FnMut(&str) -> bool) -> bool {
        let mut has_removed = false;
        for pod in items(&self.api.get("/api/v1/pods")) {
            let is_bound = pod["spec"]["nodeName"].is_string();
            let is_to_go = pod["metadata"]["deletionTimestamp"].is_string();
            let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
            if is_to_go && is_bound && is_time(uid) {
                let options = json!({"apiVersion": "v1", "kind": "DeleteOptions",
                    "gracePeriodSeconds": 0,
                    "preconditions": {"uid": pod["metadata"]["uid"]}});
                let (code, _) = self.api.write("DELETE", &path(pod), &options);
                has_removed |= code == 200;
            }
        }
        has_removed
    }

    /// The status of a pod whose containers all run.
    fn running(&self, pod: &Value) -> Value {
        let now = pod["metadata"]["creationTimestamp"].clone();
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let address = self.addresses.fetch_add(1, Ordering::Relaxed);
        let address = format!("10.244.{}.{}", address / 250, address % 250);
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let containers = containers.map(|container| {
            let name = container["name"].as_str().unwrap_or_default();
            json!({"name": name, "image": container["image"], "imageID": "sha256:0000",
                "containerID": format!("fake://{uid}{name}"), "ready": true, "started": true,
                "restartCount": 0, "lastState": {}, "state": {"running": {"startedAt": now}}})
        });
        let containers: Vec<Value> = containers.collect();
        let conditions = pod["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default();
        for condition in ["Initialized", "Ready", "ContainersReady"] {
            conditions.push(json!({"type": condition, "status": "True",
                "lastProbeTime": null, "lastTransitionTime": now}));
        }
        json!({"phase": "Running", "startTime": now, "conditions": conditions,
            "containerStatuses": containers, "hostIP": "10.0.0.1",
            "hostIPs": [{"ip": "10.0.0.1"}], "podIP": address, "podIPs": [{"ip": address}]})
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn path(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    format!(
        "/api/v1/namespaces/{}/pods/{}",
        text("namespace"),
        text("name")
    )
}

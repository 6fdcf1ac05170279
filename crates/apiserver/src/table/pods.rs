//! Pods, and templates of pods.
//!
//! What `kubectl get pods` calls the status of a pod is not a field of it. It is the most telling
//! of many: the phase, unless there is a reason for it, unless an init container is at work or has
//! failed, unless a container waits or has ended, unless the pod is being deleted. Source:
//! `pkg/printers/internalversion/printers.go` (`printPod`), Kubernetes 1.36.

use serde_json::Value;

use super::BuiltIn;
use super::age::{since_time, time};
use super::cell::{self, NONE, boolean, integer, is_true, list, text};
use super::column::{AGE, NAME, integer as integers, text as texts};

pub(super) static PODS: BuiltIn = BuiltIn {
    conditions: Some(conditions),
    ..BuiltIn::new(
        &[
            NAME,
            texts("Ready", "How many of the containers are ready."),
            texts("Status", "What the pod and its containers are at."),
            integers(
                "Restarts",
                "How often the containers were restarted, and how long ago the last time.",
            ),
            AGE,
            texts("IP", "The address of the pod.").wide(),
            texts("Node", "The node that the pod is on.").wide(),
            texts(
                "Nominated Node",
                "The node that pods are removed from to make room for this one.",
            )
            .wide(),
            texts(
                "Readiness Gates",
                "How many of the further conditions of readiness are true.",
            )
            .wide(),
        ],
        pod_cells,
    )
};

pub(super) static POD_TEMPLATES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Containers", "The names of the containers in the template."),
        texts("Images", "The images of the containers in the template."),
        texts("Pod Labels", "The labels of the pods."),
    ],
    pod_template_cells,
);

/// What a row says about a pod that will not run again, so that clients may show it in grey.
fn conditions(pod: &Value) -> Option<Value> {
    let (phase, message) = match text(&pod["status"]["phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(serde_json::json!([
        {"type": "Completed", "status": "True", "reason": phase, "message": message}
    ]))
}

fn pod_cells(pod: &Value, now_nanos: i64) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let summary = Summary::of(pod);
    let mut restarts = summary.tally.restarts.to_string();
    if summary.tally.restarts != 0 && summary.tally.last_restart.is_some() {
        let ago = since_time(summary.tally.last_restart, now_nanos);
        restarts = format!("{restarts} ({ago} ago)");
    }
    // An API server fills the list of addresses from the first, if that is all there is.
    let address = match text(&status["podIPs"][0]["ip"]) {
        "" => cell::text_or(&status["podIP"], NONE),
        address => address,
    };
    cells![
        cell::name(pod),
        format!("{}/{}", summary.ready, summary.containers),
        summary.status,
        restarts,
        cell::age(pod, now_nanos),
        address,
        cell::text_or(&spec["nodeName"], NONE),
        cell::text_or(&status["nominatedNodeName"], NONE),
        readiness_gates(spec, status),
    ]
}

/// How many readiness gates are open, of how many.
fn readiness_gates(spec: &Value, status: &Value) -> String {
    let gates = list(&spec["readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let is_open = |gate: &&Value| is_true(&status["conditions"], text(&gate["conditionType"]));
    let open = gates.iter().filter(is_open).count();
    format!("{open}/{}", gates.len())
}

/// Restarts of containers.
#[derive(Clone, Copy, Default)]
struct Tally {
    restarts: i64,
    /// When the last run before the present one ended, in nanoseconds since 1970.
    last_restart: Option<i64>,
}

impl Tally {
    fn add(&mut self, container: &Value) {
        let restarts = integer(&container["restartCount"]);
        self.restarts = self.restarts.saturating_add(restarts);
        let ended = time(&container["lastState"]["terminated"]["finishedAt"]);
        self.last_restart = self.last_restart.max(ended);
    }
}

/// What the first columns say of a pod.
struct Summary {
    status: String,
    /// Containers that are ready, and how many there are; init containers that keep running
    /// count, others do not.
    ready: usize,
    containers: usize,
    /// Of the containers that run, or of the init containers while these are at work.
    tally: Tally,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let init_containers = list(&spec["initContainers"]);
        let sidecars = init_containers.iter().filter(|it| is_sidecar(it)).count();
        let mut summary = Summary {
            status: reason_of_phase(status).to_owned(),
            ready: 0,
            containers: list(&spec["containers"]).len() + sidecars,
            tally: Tally::default(),
        };
        let sidecars = summary.init_containers(pod);
        if let Some(sidecars) = sidecars {
            summary.tally = sidecars;
            summary.main_containers(status);
        }
        if cell::is_deleted(pod) {
            summary.deleted(status);
        }
        summary
    }

    /// Takes the init containers into account, up to the first that is neither done nor a sidecar
    /// that has started. Returns the restarts of sidecars unless the others have to wait.
    fn init_containers(&mut self, pod: &Value) -> Option<Tally> {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let init_containers = list(&spec["initContainers"]);
        let mut sidecars = Tally::default();
        for (i, container) in list(&status["initContainerStatuses"]).iter().enumerate() {
            let name = text(&container["name"]);
            // Statuses stand in the order of the containers, nearly always.
            let definition = match init_containers.get(i) {
                Some(it) if text(&it["name"]) == name => Some(it),
                _ => init_containers.iter().find(|it| text(&it["name"]) == name),
            };
            let is_sidecar = definition.is_some_and(is_sidecar);
            self.tally.add(container);
            if is_sidecar {
                sidecars.add(container);
            }
            let terminated = &container["state"]["terminated"];
            if !terminated.is_null() && integer(&terminated["exitCode"]) == 0 {
                continue;
            }
            if is_sidecar && boolean(&container["started"]) {
                self.ready += usize::from(boolean(&container["ready"]));
                continue;
            }
            self.status = init_status(&container["state"], i, init_containers.len());
            return is_true(&status["conditions"], "Initialized").then_some(sidecars);
        }
        Some(sidecars)
    }

    /// Takes the containers proper into account. The first one that waits or has ended gives the
    /// reason, so they are looked at from the last to the first.
    fn main_containers(&mut self, status: &Value) {
        let mut is_running = false;
        let mut error = None;
        for container in list(&status["containerStatuses"]).iter().rev() {
            self.tally.add(container);
            let state = &container["state"];
            let (waiting, terminated) = (&state["waiting"], &state["terminated"]);
            if !text(&waiting["reason"]).is_empty() {
                self.status = text(&waiting["reason"]).to_owned();
            } else if !terminated.is_null() {
                self.status = end(terminated);
                if integer(&terminated["exitCode"]) != 0 {
                    error = Some(self.status.clone());
                }
            } else if boolean(&container["ready"]) && !state["running"].is_null() {
                is_running = true;
                self.ready += 1;
            }
        }
        // One container that has done its work is not the end while others are at theirs.
        if self.status == "Completed" {
            if is_running && is_true(&status["conditions"], "Ready") {
                self.status = "Running".to_owned();
            } else if let Some(error) = error {
                self.status = error;
            } else if is_running {
                self.status = "NotReady".to_owned();
            }
        }
    }

    /// Takes into account that the pod is being deleted.
    fn deleted(&mut self, status: &Value) {
        if text(&status["reason"]) == "NodeLost" {
            self.status = "Unknown".to_owned();
        } else if !matches!(text(&status["phase"]), "Failed" | "Succeeded") {
            self.status = "Terminating".to_owned();
        }
    }
}

/// Whether an init container keeps running beside the containers proper.
fn is_sidecar(init_container: &Value) -> bool {
    text(&init_container["restartPolicy"]) == "Always"
}

/// Why the pod is in its phase, or the phase if it does not say.
fn reason_of_phase(status: &Value) -> &str {
    let mut conditions = list(&status["conditions"]).iter();
    let is_gated = conditions
        .any(|it| text(&it["type"]) == "PodScheduled" && text(&it["reason"]) == "SchedulingGated");
    match text(&status["reason"]) {
        _ if is_gated => "SchedulingGated",
        "" => text(&status["phase"]),
        reason => reason,
    }
}

/// What the init container number `i` of `count` is at, as status of the pod.
fn init_status(state: &Value, i: usize, count: usize) -> String {
    let (waiting, terminated) = (text(&state["waiting"]["reason"]), &state["terminated"]);
    if !terminated.is_null() {
        format!("Init:{}", end(terminated))
    } else if !matches!(waiting, "" | "PodInitializing") {
        format!("Init:{waiting}")
    } else {
        format!("Init:{i}/{count}")
    }
}

/// How a container has ended: its reason, or the signal or exit code if there is none.
fn end(terminated: &Value) -> String {
    let signal = integer(&terminated["signal"]);
    match text(&terminated["reason"]) {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", integer(&terminated["exitCode"])),
        reason => reason.to_owned(),
    }
}

fn pod_template_cells(pod_template: &Value, _now_nanos: i64) -> Vec<Value> {
    let template = &pod_template["template"];
    cells![
        cell::name(pod_template),
        cell::container_names(&template["spec"]),
        cell::container_images(&template["spec"]),
        cell::labels(&template["metadata"]["labels"]),
    ]
}

//! What a kubelet says of a pod: phase, conditions, and the state of each container.
//!
//! The phase is Pending until every container has started once, then Running, also while
//! containers wait for a restart, and Succeeded or Failed when nothing of the pod runs any
//! more. Conditions that the kubelet does not own stay as others set them. The time in a
//! condition is when its status last changed.
//!
//! Sources: `getPhase`, `generateAPIPodStatus` and `convertToAPIContainerStatuses` in
//! `pkg/kubelet/kubelet_pods.go`, `pkg/kubelet/status`; Kubernetes 1.36.

use outrank_api::qos::qos_class;
use outrank_api::time::rfc3339;
use outrank_api::types::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIp, Pod, PodCondition, PodIp, PodStatus,
};

use crate::TimeNanos;
use crate::admit::Refusal;
use crate::container_life::{ContainerLife, Ended, Kind, State};
use crate::pod_life::{PodLife, Stage};
use crate::preemption::mark_preempted;

/// Where a pod can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Address of the node.
    pub host_ip: String,
    /// Address of the pod; empty if there was none left.
    pub pod_ip: String,
}

/// Conditions that the kubelet owns.
const OWN_CONDITIONS: [&str; 5] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
];

/// The status of a pod that was refused.
pub(crate) fn rejected(pod: &Pod, refusal: &Refusal, now: TimeNanos) -> PodStatus {
    PodStatus {
        phase: "Failed".to_owned(),
        reason: refusal.reason.to_string(),
        message: format!("Pod was rejected: {}", refusal.message),
        ..without_containers(pod, now)
    }
}

/// The status of a pod that was deleted before anything of it ran.
pub(crate) fn never_started(pod: &Pod, now: TimeNanos) -> PodStatus {
    let mut status = PodStatus {
        phase: "Failed".to_owned(),
        ..without_containers(pod, now)
    };
    if pod.spec.init_containers.is_empty() {
        let containers = pod.spec.containers.iter();
        status.container_statuses = containers.map(never_located).collect();
    }
    status
}

/// What is said of a pod of which nothing else is known. Its conditions stay, without those
/// that the kubelet owns.
fn without_containers(pod: &Pod, now: TimeNanos) -> PodStatus {
    let start_time = pod.status.start_time.clone();
    PodStatus {
        conditions: foreign_conditions(&pod.status).cloned().collect(),
        start_time: start_time.or_else(|| Some(rfc3339(now))),
        observed_generation: pod.metadata.generation,
        nominated_node_name: pod.status.nominated_node_name.clone(),
        qos_class: qos_class(pod).name().to_owned(),
        ..PodStatus::default()
    }
}

fn foreign_conditions(status: &PodStatus) -> impl Iterator<Item = &PodCondition> {
    let conditions = status.conditions.iter();
    conditions.filter(|it| !OWN_CONDITIONS.contains(&it.type_.as_str()))
}

/// The status of a pod that was admitted. `before` is what was last said of it.
pub(crate) fn status(life: &PodLife, before: &PodStatus, now: TimeNanos) -> PodStatus {
    let pod = &life.pod;
    let spec = &pod.spec;
    let names = life.containers.iter().zip(0..);
    let mut statuses: Vec<ContainerStatus> = names
        .map(|(container, number)| container_status(life, container, number))
        .collect();
    let container_statuses = statuses.split_off(spec.init_containers.len().min(statuses.len()));
    let Addresses { host_ip, pod_ip } = &life.addresses;
    let has_network = !matches!(life.stage, Stage::Creating { .. });
    let pod_ip = match (spec.host_network, has_network) {
        (true, _) => host_ip,
        (false, true) => pod_ip,
        (false, false) => "",
    };
    let mut status = PodStatus {
        phase: phase(life).to_owned(),
        start_time: Some(rfc3339(life.start_time)),
        host_ip: host_ip.clone(),
        host_ips: address(host_ip)
            .map(|ip| HostIp { ip })
            .into_iter()
            .collect(),
        pod_ip: pod_ip.to_owned(),
        pod_ips: address(pod_ip).map(|ip| PodIp { ip }).into_iter().collect(),
        init_container_statuses: statuses,
        container_statuses,
        resources: pod.status.resources.clone(),
        allocated_resources: pod.status.allocated_resources.clone(),
        ..without_containers(pod, now)
    };
    if let Some(verdict) = life.verdict.as_ref().filter(|_| life.is_over()) {
        if verdict.is_preempted {
            mark_preempted(&mut status, Some(rfc3339(now)));
        }
        status.phase.clone_from(&verdict.phase);
        status.reason.clone_from(&verdict.reason);
        status.message.clone_from(&verdict.message);
    }
    let conditions = own_conditions(life, &status);
    status.conditions.extend(conditions);
    for condition in &mut status.conditions {
        stamp(condition, before, pod.metadata.generation, now);
    }
    status
}

fn address(ip: &str) -> Option<String> {
    (!ip.is_empty()).then(|| ip.to_owned())
}

/// Sets the time of a condition of ours, if its status has changed since.
fn stamp(condition: &mut PodCondition, before: &PodStatus, generation: i64, now: TimeNanos) {
    if !OWN_CONDITIONS.contains(&condition.type_.as_str()) {
        return;
    }
    let mut before = before.conditions.iter();
    let before = before.find(|it| it.type_ == condition.type_ && it.status == condition.status);
    let unchanged_since = before.and_then(|it| it.last_transition_time.clone());
    condition.last_transition_time = Some(unchanged_since.unwrap_or_else(|| rfc3339(now)));
    condition.observed_generation = generation;
}

fn phase(life: &PodLife) -> &'static str {
    let is_success = |it: &ContainerLife| it.ended().is_some_and(|it| it.exit_code == 0);
    let is_waiting = |it: &ContainerLife| !it.has_started();
    if life.is_over() {
        let is_success = life.main_containers().all(is_success);
        return if is_success { "Succeeded" } else { "Failed" };
    }
    if life.containers.iter().any(is_waiting) {
        "Pending"
    } else {
        "Running"
    }
}

fn own_conditions(life: &PodLife, status: &PodStatus) -> [PodCondition; 5] {
    let has_sandbox = !life.is_over() && !matches!(life.stage, Stage::Creating { .. });
    let containers_ready = containers_ready(life, status);
    let ready = ready(life, status, &containers_ready);
    [
        condition("PodReadyToStartContainers", has_sandbox, "", String::new()),
        initialized(life, status),
        ready,
        containers_ready,
        condition("PodScheduled", true, "", String::new()),
    ]
}

fn condition(type_: &str, holds: bool, reason: &str, message: String) -> PodCondition {
    PodCondition {
        type_: type_.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message,
        ..PodCondition::default()
    }
}

fn initialized(life: &PodLife, status: &PodStatus) -> PodCondition {
    let type_ = "Initialized";
    if status.phase == "Succeeded" {
        return condition(type_, true, "PodCompleted", String::new());
    }
    let incomplete: Vec<&str> = life
        .containers
        .iter()
        .zip(&status.init_container_statuses)
        .filter(|(container, status)| match container.kind {
            Kind::Sidecar => status.started != Some(true),
            Kind::Init | Kind::Main => !status.ready,
        })
        .map(|(_, status)| status.name.as_str())
        .collect();
    if incomplete.is_empty() || life.main_containers().any(ContainerLife::has_started) {
        return condition(type_, true, "", String::new());
    }
    let incomplete = incomplete.join(" ");
    let message = format!("containers with incomplete status: [{incomplete}]");
    condition(type_, false, "ContainersNotInitialized", message)
}

fn containers_ready(life: &PodLife, status: &PodStatus) -> PodCondition {
    let type_ = "ContainersReady";
    match status.phase.as_str() {
        "Succeeded" => return condition(type_, false, "PodCompleted", String::new()),
        "Failed" => return condition(type_, false, "PodFailed", String::new()),
        _ => {}
    }
    let statuses = status.init_container_statuses.iter();
    let unready: Vec<&str> = life
        .containers
        .iter()
        .zip(statuses.chain(&status.container_statuses))
        .filter(|(container, status)| container.kind != Kind::Init && !status.ready)
        .map(|(_, status)| status.name.as_str())
        .collect();
    if unready.is_empty() {
        return condition(type_, true, "", String::new());
    }
    let message = format!("containers with unready status: [{}]", unready.join(" "));
    condition(type_, false, "ContainersNotReady", message)
}

fn ready(life: &PodLife, status: &PodStatus, containers_ready: &PodCondition) -> PodCondition {
    if containers_ready.status != "True" {
        return PodCondition {
            type_: "Ready".to_owned(),
            ..containers_ready.clone()
        };
    }
    let gates = life.pod.spec.readiness_gates.iter();
    let unmet: Vec<String> = gates
        .filter_map(|gate| {
            let type_ = &gate.condition_type;
            let mut conditions = status.conditions.iter();
            match conditions.find(|it| it.type_ == *type_) {
                None => Some(format!(
                    "corresponding condition of pod readiness gate {type_:?} does not exist."
                )),
                Some(it) if it.status != "True" => Some(format!(
                    "the status of pod readiness gate {type_:?} is not \"True\", but {}",
                    it.status
                )),
                Some(_) => None,
            }
        })
        .collect();
    let reason = if unmet.is_empty() {
        ""
    } else {
        "ReadinessGatesNotReady"
    };
    condition("Ready", unmet.is_empty(), reason, unmet.join(", "))
}

fn container_status(life: &PodLife, container: &ContainerLife, number: usize) -> ContainerStatus {
    let spec = &life.pod.spec;
    let mut specs = spec.init_containers.iter().chain(&spec.containers);
    let Some(spec) = specs.nth(number) else {
        return ContainerStatus::default();
    };
    let has_init_containers = !life.pod.spec.init_containers.is_empty();
    let is_lost_before_start =
        life.is_over() && container.kind == Kind::Main && !has_init_containers;
    if !container.has_started() && is_lost_before_start {
        return never_located(spec);
    }
    let id = |run: usize| container_id(&life.pod, spec, run);
    let last = container
        .last
        .map(|last| terminated(&last, id(container.runs - 1)));
    let mut state = ContainerState::default();
    match &container.state {
        State::Waiting => state.waiting = Some(waiting(has_init_containers)),
        State::BackingOff { delay, .. } => {
            state.waiting = Some(ContainerStateWaiting {
                reason: "CrashLoopBackOff".to_owned(),
                message: format!(
                    "back-off {} restarting failed container={} pod={}",
                    go_duration(*delay),
                    spec.name,
                    life.full_name()
                ),
            });
        }
        State::Running(running) => {
            state.running = Some(ContainerStateRunning {
                started_at: Some(rfc3339(running.since)),
            });
        }
        State::Ended(ended) => state.terminated = Some(terminated(ended, id(container.runs))),
    }
    let running = container.running();
    let is_done = |ended: &Ended| container.kind == Kind::Init && ended.exit_code == 0;
    ContainerStatus {
        name: spec.name.clone(),
        state,
        last_state: ContainerState {
            terminated: last,
            ..ContainerState::default()
        },
        ready: running.is_some_and(|it| it.is_ready) || container.ended().is_some_and(is_done),
        restart_count: container.restarts(),
        image: spec.image.clone(),
        image_id: if container.has_started() {
            spec.image.clone()
        } else {
            String::new()
        },
        container_id: if container.has_started() {
            id(container.runs)
        } else {
            String::new()
        },
        started: Some(running.is_some()),
        ..ContainerStatus::default()
    }
}

fn waiting(has_init_containers: bool) -> ContainerStateWaiting {
    let reason = if has_init_containers {
        "PodInitializing"
    } else {
        "ContainerCreating"
    };
    ContainerStateWaiting {
        reason: reason.to_owned(),
        message: String::new(),
    }
}

fn terminated(ended: &Ended, container_id: String) -> ContainerStateTerminated {
    let reason = match ended {
        Ended { is_lost: true, .. } => "Unknown",
        Ended { exit_code: 0, .. } => "Completed",
        Ended { .. } => "Error",
    };
    ContainerStateTerminated {
        exit_code: ended.exit_code,
        reason: reason.to_owned(),
        message: String::new(),
        started_at: Some(rfc3339(ended.started_at)),
        finished_at: Some(rfc3339(ended.finished_at)),
        container_id,
    }
}

/// A container of an ended pod that was never there.
fn never_located(spec: &Container) -> ContainerStatus {
    let terminated = ContainerStateTerminated {
        exit_code: 137,
        reason: "ContainerStatusUnknown".to_owned(),
        message: "The container could not be located when the pod was terminated".to_owned(),
        ..ContainerStateTerminated::default()
    };
    ContainerStatus {
        name: spec.name.clone(),
        state: ContainerState {
            terminated: Some(terminated),
            ..ContainerState::default()
        },
        image: spec.image.clone(),
        started: Some(false),
        ..ContainerStatus::default()
    }
}

/// The identifier of a run: told by pod, container and run, so that it is the same whenever
/// the same happens.
fn container_id(pod: &Pod, spec: &Container, run: usize) -> String {
    let metadata = &pod.metadata;
    let pod = if metadata.uid.is_empty() {
        pod.key()
    } else {
        metadata.uid.clone()
    };
    format!("simulated://{pod}/{}/{run}", spec.name)
}

/// Whole seconds as Go writes them: `10s`, `1m20s`, `5m0s`.
fn go_duration(nanos: TimeNanos) -> String {
    let seconds = nanos / 1_000_000_000;
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

//! The life of a pod on a node, from its admission to the end of its last container.
//!
//! ```text
//!   Creating ----> Active ----> Stopping ----> Over
//!      |                            ^
//!      +----------------------------+
//! ```
//!
//! *Creating*: volumes and images are fetched; there is no container yet. *Active*: init
//! containers run one after the other, sidecars among them start and stay, then the containers
//! start all at once; those that end are started again as `restartPolicy` says. *Stopping*:
//! the containers are asked to stop and are killed when the grace period is over, sidecars
//! after the others, the last first. A pod comes to that in one of these ways:
//!
//! * its containers have ended for good: what is left are sidecars;
//! * an init container failed and `restartPolicy` is Never;
//! * it was deleted;
//! * it has been there for `activeDeadlineSeconds`;
//! * it is evicted, to make room for a critical pod;
//! * someone else declared it failed or succeeded.
//!
//! *Over*: nothing of it runs, it holds no place. Only now its phase is Succeeded or Failed:
//! a kubelet never says so while a container could still run, whoever waits for its place or
//! its volumes relies on that.
//!
//! Sources: `pkg/kubelet/kuberuntime` (`computePodActions`), `pod_workers.go`,
//! `active_deadline.go`, `container/termination_order.go`; Kubernetes 1.36.

use std::sync::Arc;

use outrank_api::time::unix_nanos;
use outrank_api::types::{ContainerStateTerminated, ContainerStatus, Pod, PodCondition};

use crate::TimeNanos;
use crate::behaviour::PodBehaviour;
use crate::container_life::{ContainerLife, Ended, Kind, Running, Seen, State};
use crate::pod_status::Addresses;
use crate::write::{Event, EventType};

const NANOS_PER_SECOND: i64 = 1_000_000_000;
/// Grace period of pods that have none.
const GRACE_SECONDS_DEFAULT: i64 = 30;
/// However short the grace period, containers have this long to stop.
const GRACE_SECONDS_MIN: i64 = 2;

/// A pod on a node; see the module.
#[derive(Clone, Debug)]
pub struct PodLife {
    pub(crate) pod: Arc<Pod>,
    pub(crate) start_time: TimeNanos,
    /// Init containers and sidecars as listed, then the containers.
    pub(crate) containers: Vec<ContainerLife>,
    pub(crate) stage: Stage,
    /// Whether all init containers have done their work.
    is_initialized: bool,
    pub(crate) verdict: Option<EndVerdict>,
    pub(crate) addresses: Addresses,
}

/// Where in its life a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Creating { until: TimeNanos },
    Active,
    Stopping { deadline: TimeNanos },
    Over,
}

/// How a pod ends, if its containers do not decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndVerdict {
    /// `Failed` or `Succeeded`.
    pub phase: String,
    /// One word, such as `DeadlineExceeded`.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// Whether it is evicted for a critical pod, which a condition says as well.
    pub is_preempted: bool,
}

impl PodLife {
    /// A pod that was just admitted.
    pub fn new(
        pod: Arc<Pod>,
        behaviour: PodBehaviour,
        addresses: Addresses,
        now: TimeNanos,
    ) -> Self {
        let until = now.saturating_add(behaviour.start_after);
        let start_time = pod.status.start_time.as_deref().and_then(unix_nanos);
        let containers = container_lives(&pod, behaviour);
        Self {
            pod,
            start_time: start_time.unwrap_or(now),
            containers,
            stage: Stage::Creating { until },
            is_initialized: false,
            verdict: None,
            addresses,
        }
    }

    /// A pod that its status says runs already: its containers go on from where they are, and are
    /// as ready as they are said to be.
    pub fn adopted(
        pod: Arc<Pod>,
        behaviour: PodBehaviour,
        addresses: Addresses,
        now: TimeNanos,
    ) -> Self {
        let mut life = Self::new(pod, behaviour, addresses, now);
        let pod = life.pod.clone();
        let status = &pod.status;
        let spec = pod.spec.init_containers.iter().chain(&pod.spec.containers);
        let statuses = || {
            status
                .init_container_statuses
                .iter()
                .chain(&status.container_statuses)
        };
        let adoption = Adoption {
            start_time: life.start_time,
            is_pod_ready: readiness(&status.conditions),
            now,
        };
        let containers = std::mem::take(&mut life.containers);
        life.containers = containers
            .into_iter()
            .zip(spec)
            .map(|(container, spec)| {
                let status = statuses().find(|status| status.name == spec.name);
                adoption.of(container, status)
            })
            .collect();
        life.stage = Stage::Active;
        life.is_initialized = true;
        life
    }

    /// Whether nothing of it runs any more.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Whether it is being stopped, or has been.
    pub fn is_stopping(&self) -> bool {
        matches!(self.stage, Stage::Stopping { .. } | Stage::Over)
    }

    /// When something happens to it by itself; `None` if nothing ever does.
    pub fn next_time(&self) -> Option<TimeNanos> {
        let creating = match self.stage {
            Stage::Over => return None,
            Stage::Creating { until } => Some(until),
            Stage::Active | Stage::Stopping { .. } => None,
        };
        let containers = self.containers.iter().filter_map(ContainerLife::next_time);
        let deadline = self.deadline();
        creating.into_iter().chain(containers).chain(deadline).min()
    }

    /// Lets happen what is due up to a time. Every change happens at its own time, however
    /// late this is called.
    pub fn advance(&mut self, now: TimeNanos, events: &mut Vec<Event>) {
        while let Some(time) = self.next_time().filter(|time| *time <= now) {
            self.step(time, events);
        }
    }

    /// Begins to stop it. Asked again, only a shorter grace period counts, and the later
    /// verdict.
    pub fn stop(
        &mut self,
        now: TimeNanos,
        grace_seconds: i64,
        verdict: Option<EndVerdict>,
        events: &mut Vec<Event>,
    ) {
        if self.is_over() {
            return;
        }
        self.verdict = verdict.or(self.verdict.take());
        let grace_seconds = grace_seconds.max(GRACE_SECONDS_MIN);
        let grace = grace_seconds.saturating_mul(NANOS_PER_SECOND);
        let mut deadline = now.saturating_add(grace);
        if let Stage::Stopping { deadline: earlier } = self.stage {
            deadline = deadline.min(earlier);
        } else {
            for (number, container) in self.containers.iter().enumerate() {
                if container.running().is_some() {
                    let name = self.container_name(number);
                    let message = format!("Stopping container {name}");
                    events.push(self.container_event(number, "Killing", message));
                }
            }
        }
        self.stage = Stage::Stopping { deadline };
        for container in &mut self.containers {
            let stops_last = container.kind == Kind::Sidecar
                && container.running().is_some_and(|it| !it.is_stopping);
            if !stops_last {
                container.stop(now, deadline);
            }
        }
        self.step(now, events);
    }

    /// Its grace period in seconds, as it is when nobody asks for another.
    pub fn grace_seconds(&self) -> i64 {
        let grace_seconds = self.pod.spec.termination_grace_period_seconds;
        grace_seconds.unwrap_or(GRACE_SECONDS_DEFAULT)
    }

    /// The machine went down, at that time: nothing of it runs.
    pub fn lose_power(&mut self, at: TimeNanos) {
        for container in &mut self.containers {
            container.lose_power(at);
        }
        if self.restart_policy() != "Never" {
            self.is_initialized = false;
            for container in &mut self.containers {
                if container.kind != Kind::Main {
                    container.begin_anew();
                }
            }
        }
    }

    /// The machine is up again: the pod begins anew, as far as `restartPolicy` lets it.
    pub fn regain_power(&mut self, now: TimeNanos, events: &mut Vec<Event>) {
        self.step(now, events);
    }

    /// Takes over a changed object.
    pub(crate) fn set_pod(&mut self, pod: Arc<Pod>) {
        self.pod = pod;
    }

    pub(crate) fn main_containers(&self) -> impl Iterator<Item = &ContainerLife> {
        self.containers.iter().filter(|it| it.kind == Kind::Main)
    }

    pub(crate) fn container_name(&self, number: usize) -> &str {
        let spec = &self.pod.spec;
        let mut containers = spec.init_containers.iter().chain(&spec.containers);
        containers.nth(number).map_or("", |it| it.name.as_str())
    }

    pub(crate) fn restart_policy(&self) -> &str {
        match self.pod.spec.restart_policy.as_str() {
            "" => "Always",
            policy => policy,
        }
    }

    /// When the pod has been there for too long, unless it goes already.
    fn deadline(&self) -> Option<TimeNanos> {
        let seconds = self.pod.spec.active_deadline_seconds?;
        let nanos = seconds.saturating_mul(NANOS_PER_SECOND);
        (!self.is_stopping()).then(|| self.start_time.saturating_add(nanos))
    }

    /// Does all that is due at a time.
    fn step(&mut self, now: TimeNanos, events: &mut Vec<Event>) {
        loop {
            for container in &mut self.containers {
                container.settle(now);
            }
            if self.deadline().is_some_and(|deadline| deadline <= now) {
                self.exceed_deadline(now, events);
            }
            if matches!(self.stage, Stage::Creating { until } if until <= now) {
                self.stage = Stage::Active;
            }
            if self.stage == Stage::Active {
                self.run_containers(now, events);
            }
            if let Stage::Stopping { deadline } = self.stage {
                self.stop_sidecars(now, deadline);
                if self.containers.iter().all(|it| it.running().is_none()) {
                    self.stage = Stage::Over;
                }
            }
            if self.next_time().is_none_or(|time| time > now) {
                return;
            }
        }
    }

    fn exceed_deadline(&mut self, now: TimeNanos, events: &mut Vec<Event>) {
        let verdict = EndVerdict {
            phase: "Failed".to_owned(),
            reason: "DeadlineExceeded".to_owned(),
            message: "Pod was active on the node longer than the specified deadline".to_owned(),
            is_preempted: false,
        };
        events.push(Event {
            type_: EventType::Normal,
            reason: verdict.reason.clone(),
            message: verdict.message.clone(),
            field_path: String::new(),
        });
        self.stop(now, self.grace_seconds(), Some(verdict), events);
    }

    /// Starts what is to run now, and sees whether the pod has come to its end.
    fn run_containers(&mut self, now: TimeNanos, events: &mut Vec<Event>) {
        if !self.is_initialized && !self.initialize(now, events) {
            return;
        }
        let sidecars = self.pod.spec.init_containers.len();
        for number in sidecars..self.containers.len() {
            self.keep_running(number, now, events);
        }
        if self.main_containers().all(|it| it.ended().is_some()) {
            self.stop(now, self.grace_seconds(), None, events);
            return;
        }
        for number in 0..sidecars {
            self.keep_running(number, now, events);
        }
    }

    /// Starts the next init container, or sidecar, if it is its turn. Returns whether all have
    /// done their work.
    fn initialize(&mut self, now: TimeNanos, events: &mut Vec<Event>) -> bool {
        for number in 0..self.containers.len() {
            let container = &self.containers[number];
            match (container.kind, &container.state) {
                (Kind::Main, _) => break,
                (Kind::Init, State::Ended(ended)) if ended.exit_code == 0 => {}
                (Kind::Init, State::Ended(_)) if self.restart_policy() == "Never" => {
                    self.stop(now, self.grace_seconds(), None, events);
                    return false;
                }
                (Kind::Init, State::Running(_)) => return false,
                (Kind::Init, _) => {
                    self.start_or_restart(number, now, events);
                    return false;
                }
                (Kind::Sidecar, State::Running(_)) => {}
                // One that crashes does not keep the next from starting.
                (Kind::Sidecar, _) => self.start_or_restart(number, now, events),
            }
        }
        self.is_initialized = true;
        true
    }

    /// Starts a container of an initialized pod, if it should run and does not.
    fn keep_running(&mut self, number: usize, now: TimeNanos, events: &mut Vec<Event>) {
        let container = &self.containers[number];
        let starts = match (&container.state, container.kind) {
            (_, Kind::Init) | (State::Running(_), _) => false,
            (State::Waiting | State::BackingOff { .. }, _) | (_, Kind::Sidecar) => true,
            (State::Ended(ended), Kind::Main) => match self.policy_of(number) {
                "Never" => false,
                "OnFailure" => ended.exit_code != 0,
                _ => true,
            },
        };
        if starts {
            self.start_or_restart(number, now, events);
        }
    }

    /// The restart policy of a container: its own, or else the pod's.
    fn policy_of(&self, number: usize) -> &str {
        let spec = &self.pod.spec;
        let own = number.checked_sub(spec.init_containers.len());
        let own = own.and_then(|number| spec.containers.get(number));
        let own = own.and_then(|container| container.restart_policy.as_deref());
        own.unwrap_or(self.restart_policy())
    }

    fn start_or_restart(&mut self, number: usize, now: TimeNanos, events: &mut Vec<Event>) {
        let container = &mut self.containers[number];
        let runs_before = container.runs;
        let backs_off = container.restart(now);
        let has_started = container.runs > runs_before;
        if has_started {
            for (reason, what) in [("Created", "created"), ("Started", "started")] {
                let message = format!("Container {what}");
                events.push(self.container_event(number, reason, message));
            }
        }
        if backs_off {
            let message = format!(
                "Back-off restarting failed container {} in pod {}",
                self.container_name(number),
                self.full_name(),
            );
            let event = self.container_event(number, "BackOff", message);
            events.push(Event {
                type_: EventType::Warning,
                ..event
            });
        }
    }

    /// When nothing else runs any more, asks the last sidecar that runs to stop.
    fn stop_sidecars(&mut self, now: TimeNanos, deadline: TimeNanos) {
        let mut containers = self.containers.iter();
        if containers.any(|it| it.kind != Kind::Sidecar && it.running().is_some()) {
            return;
        }
        let mut running = self.containers.iter_mut().rev();
        if let Some(last) = running.find(|it| it.running().is_some()) {
            if last.running().is_some_and(|it| !it.is_stopping) {
                last.stop(now, deadline);
            }
            last.settle(now);
        }
    }

    /// `name_namespace(uid)`, as the kubelet calls a pod in messages.
    pub(crate) fn full_name(&self) -> String {
        let metadata = &self.pod.metadata;
        format!("{}_{}({})", metadata.name, metadata.namespace, metadata.uid)
    }

    fn container_event(&self, number: usize, reason: &str, message: String) -> Event {
        let is_init = number < self.pod.spec.init_containers.len();
        let list = if is_init {
            "initContainers"
        } else {
            "containers"
        };
        Event {
            type_: EventType::Normal,
            reason: reason.to_owned(),
            message,
            field_path: format!("spec.{list}{{{}}}", self.container_name(number)),
        }
    }
}

fn container_lives(pod: &Pod, behaviour: PodBehaviour) -> Vec<ContainerLife> {
    let init = pod.spec.init_containers.iter().map(|container| {
        if container.is_sidecar() {
            Kind::Sidecar
        } else {
            Kind::Init
        }
    });
    let init = init.zip(behaviour.init_containers);
    let main = behaviour.containers.into_iter().map(|it| (Kind::Main, it));
    init.chain(main)
        .map(|(kind, behaviour)| ContainerLife::new(kind, behaviour))
        .collect()
}

/// What a pod says of being ready.
fn readiness(conditions: &[PodCondition]) -> Option<bool> {
    let ready = conditions.iter().find(|it| it.type_ == "Ready")?;
    Some(ready.status == "True")
}

/// What is known of a pod that runs already, beside its containers.
struct Adoption {
    start_time: TimeNanos,
    is_pod_ready: Option<bool>,
    now: TimeNanos,
}

impl Adoption {
    /// A container of the pod, as its status says, or as most are if it says nothing.
    fn of(&self, container: ContainerLife, status: Option<&ContainerStatus>) -> ContainerLife {
        let Some(status) = status else {
            let state = match container.kind {
                Kind::Init => State::Ended(self.success()),
                _ => State::Running(Running::since(self.start_time)),
            };
            let seen = Seen {
                restarts: 0,
                state,
                last: None,
                is_ready: self.is_pod_ready.filter(|is_ready| *is_ready),
            };
            return container.adopted(seen, self.now);
        };
        let last = status.last_state.terminated.as_ref();
        let last = last.map(|it| self.ended(it));
        let (state, last) = match (&status.state.running, &status.state.terminated) {
            (Some(running), _) => {
                let since = self.time(running.started_at.as_deref());
                (State::Running(Running::since(since)), last)
            }
            (None, Some(terminated)) => (State::Ended(self.ended(terminated)), last),
            (None, None) => match last {
                Some(last) => (State::Ended(last), None),
                None => return container,
            },
        };
        let seen = Seen {
            restarts: usize::try_from(status.restart_count).unwrap_or(0),
            state,
            last,
            is_ready: match self.is_pod_ready {
                // All containers of a pod that is ready are.
                Some(true) => Some(true),
                Some(false) => Some(status.ready),
                // No kubelet was here: what a file does not say is not known.
                None => status.ready.then_some(true),
            },
        };
        container.adopted(seen, self.now)
    }

    fn success(&self) -> Ended {
        Ended {
            started_at: self.start_time,
            finished_at: self.start_time,
            exit_code: 0,
            is_lost: false,
        }
    }

    fn ended(&self, terminated: &ContainerStateTerminated) -> Ended {
        Ended {
            started_at: self.time(terminated.started_at.as_deref()),
            finished_at: self.time(terminated.finished_at.as_deref()),
            exit_code: terminated.exit_code,
            is_lost: false,
        }
    }

    fn time(&self, text: Option<&str>) -> TimeNanos {
        text.and_then(unix_nanos).unwrap_or(self.start_time)
    }
}

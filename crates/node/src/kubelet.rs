//! A kubelet: changes of objects in, writes out, time as an argument.
//!
//! [`Kubelet::handle`] tells it that a pod of its node, or the node, has changed or is gone;
//! [`Kubelet::advance`] lets time pass and returns what it writes; [`Kubelet::next_time`] says
//! when it will want to be called at the latest. Every change happens at its own time and the
//! writes come in the order of these times, however seldom `advance` is called: one call an
//! hour gives the same writes as one a second.
//!
//! Pods are admitted one after the other, as they come. To make room for a critical pod the
//! kubelet kills its victims one at a time, each with its full grace period, and takes no
//! other pod before that is over: upstream waits there, too, so nobody can take the place
//! meanwhile.
//!
//! # When a node is not heard of
//!
//! A node can be *unreachable*: its pods run on, but nothing is reported, and what changes in
//! the API server is not seen. When it is back the kubelet reports how far its pods have come,
//! and does what it has missed. Or it can be *powered off*: its containers are lost, with exit
//! code 255. When it is back, pods are admitted anew in the order of their creation (which may
//! refuse those that do not fit the node any more) and begin anew, unless `restartPolicy` is
//! Never: these have failed. A pod that was deleted meanwhile just goes.
//!
//! # Static pods
//!
//! A pod with the annotation `kubernetes.io/config.source` (other than `api`) is taken to be
//! the mirror of a static pod. Deleting it does not stop the pod: the object goes, and is made
//! again. A static pod ends with its node, or for a critical pod of higher priority.
//!
//! # What is left out
//!
//! Resizing pods in place, probes, volumes and images that fail, pressure of memory or disk,
//! and the other reasons for which a kubelet's device, topology and sysctl checks refuse pods:
//! nothing runs here that would use them.
//!
//! Sources: `pkg/kubelet/kubelet.go` (`HandlePodAdditions`), `pod_workers.go`,
//! `status/status_manager.go`; Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use outrank_api::types::{Node, Pod, PodStatus, ResourceList};

use crate::TimeNanos;
use crate::active_pods::{ActivePods, PodNumber};
use crate::admit::{Refusal, Verdict, admit};
use crate::behaviour::PodBehaviour;
use crate::criticality::is_static_pod;
use crate::node_status::{LEASE_RENEWAL, STATUS_REPORT, allocatable, node_status};
use crate::pod_addresses::{PodAddresses, host_ip};
use crate::pod_life::{EndVerdict, PodLife};
use crate::pod_status::{self, Addresses};
use crate::preemption::{PREEMPTING, PREEMPTING_MESSAGE};
use crate::write::{Event, PodRef, Write};

/// What a kubelet is told when it is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletConfig {
    /// Name of its node.
    pub node_name: String,
    /// What the machine has; if empty, the node's status says it.
    pub capacity: ResourceList,
    /// What of it is kept for the system (kube-reserved, system-reserved and what hard
    /// eviction holds back, together); of no use without `capacity`.
    pub reserved: ResourceList,
    /// Whether lease and status are written from time to time. Without, the status is written
    /// once and when the node is back.
    pub heartbeats: bool,
}

/// Something that a kubelet sees.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A pod is there, or has changed. Pods of other nodes are passed over.
    PodChanged(Arc<Pod>),
    /// A pod's object is gone.
    PodGone(PodRef),
    /// The node is there, or has changed. Until it is there no pod is admitted.
    NodeChanged(Arc<Node>),
}

/// Why a node is not heard of; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Pods run on.
    Unreachable,
    /// Pods are lost.
    PoweredOff,
}

/// A kubelet; see the module.
#[derive(Clone, Debug)]
pub struct Kubelet {
    config: KubeletConfig,
    node: Option<Arc<Node>>,
    pods: BTreeMap<PodNumber, Tracked>,
    numbers: BTreeMap<String, PodNumber>,
    next_number: PodNumber,
    /// Those that hold a place.
    active_pods: ActivePods,
    addresses: PodAddresses,
    /// Pods that wait for admission.
    queue: VecDeque<PodNumber>,
    eviction: Option<Eviction>,
    timers: BTreeSet<(TimeNanos, PodNumber)>,
    /// Pods that changed and have yet to be looked at.
    changed: BTreeSet<PodNumber>,
    lease_due: Option<TimeNanos>,
    status_due: Option<TimeNanos>,
    outage: Option<(Outage, TimeNanos)>,
    /// What happened to objects meanwhile.
    missed: Vec<Input>,
    writes: Vec<Write>,
    /// The latest time that it was told.
    now: TimeNanos,
}

/// A pod that the kubelet knows.
#[derive(Clone, Debug)]
struct Tracked {
    key: String,
    pod: Arc<Pod>,
    /// `None` before it is admitted, and once it is over.
    life: Option<PodLife>,
    stage: Stage,
    /// When it comes up in `timers`.
    timer: Option<TimeNanos>,
    /// What was last said of it.
    status: Option<Box<PodStatus>>,
    /// Whether that could not be written.
    is_unreported: bool,
    /// Whether its object is gone.
    is_orphan: bool,
    /// Whether the deletion was confirmed.
    is_delete_written: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// In the queue, or waiting for its victims to go.
    Waiting,
    Alive,
    /// Ended, refused, or never taken.
    Over,
}

/// Room is made for a critical pod.
#[derive(Clone, Debug)]
struct Eviction {
    pod: PodNumber,
    /// The first is being killed, if `is_killing`.
    victims: VecDeque<PodNumber>,
    is_killing: bool,
}

impl Kubelet {
    /// A kubelet that has seen nothing yet.
    pub fn new(config: KubeletConfig) -> Self {
        Self {
            config,
            node: None,
            pods: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next_number: 0,
            active_pods: ActivePods::default(),
            addresses: PodAddresses::default(),
            queue: VecDeque::new(),
            eviction: None,
            timers: BTreeSet::new(),
            changed: BTreeSet::new(),
            lease_due: None,
            status_due: None,
            outage: None,
            missed: Vec::new(),
            writes: Vec::new(),
            now: TimeNanos::MIN,
        }
    }

    /// Tells what has happened to an object. What comes of it is returned by
    /// [`Kubelet::advance`]. O(log pods), and for an admission what that costs.
    pub fn handle(&mut self, input: Input, now: TimeNanos) {
        if self.outage.is_some() {
            self.missed.push(input);
            return;
        }
        self.run_until(now);
        self.apply(input, now);
        self.settle(now);
    }

    /// When it wants to be called at the latest, which is now if there is something to write;
    /// `None` if nothing will happen by itself.
    pub fn next_time(&self) -> Option<TimeNanos> {
        if self.outage.is_some() {
            return None;
        }
        if !self.writes.is_empty() {
            return Some(self.now);
        }
        let timer = self.timers.first().map(|(time, _)| *time);
        let due = [timer, self.lease_due, self.status_due];
        due.into_iter().flatten().min()
    }

    /// Lets time pass, and returns what is to be written since the last call. O(changes × log
    /// pods).
    pub fn advance(&mut self, now: TimeNanos) -> Vec<Write> {
        if self.outage.is_none() {
            self.run_until(now);
        }
        std::mem::take(&mut self.writes)
    }

    /// Whether the node is not heard of.
    pub fn is_away(&self) -> bool {
        self.outage.is_some()
    }

    /// The node is not heard of from now on; see the module.
    pub fn stop(&mut self, outage: Outage, now: TimeNanos) {
        if self.outage.is_none() {
            self.run_until(now);
            self.outage = Some((outage, now));
        }
    }

    /// The node is back.
    pub fn start(&mut self, now: TimeNanos) {
        let Some((outage, since)) = self.outage else {
            return;
        };
        if outage == Outage::Unreachable {
            self.run_until(now);
        }
        self.outage = None;
        let mut lost = Vec::new();
        if outage == Outage::PoweredOff {
            lost = self.lose_power(since);
        }
        for input in std::mem::take(&mut self.missed) {
            self.apply(input, now);
        }
        self.readmit(lost, now);
        self.report_all(now);
        self.settle(now);
    }

    /// The pods that hold a place on the node: admitted, and not over.
    pub fn active_pods(&self) -> &ActivePods {
        &self.active_pods
    }

    /// What was last said of a pod; `None` if it is not known.
    pub fn pod_status(&self, pod: &PodRef) -> Option<&PodStatus> {
        let number = self.number_of(pod)?;
        self.pods.get(&number)?.status.as_deref()
    }

    /// Lets happen what is due, each thing at its time.
    fn run_until(&mut self, now: TimeNanos) {
        self.now = self.now.max(now);
        loop {
            let timer = self.timers.first().map(|(time, _)| *time);
            let heartbeat = [self.lease_due, self.status_due];
            let heartbeat = heartbeat.into_iter().flatten().min();
            let due = timer.into_iter().chain(heartbeat).min();
            let Some(time) = due.filter(|time| *time <= now) else {
                return;
            };
            while let Some((_, number)) = self.timers.first().filter(|(due, _)| *due <= time) {
                let number = *number;
                self.live(number, |life, events| life.advance(time, events));
            }
            self.settle(time);
        }
    }

    fn apply(&mut self, input: Input, now: TimeNanos) {
        match input {
            Input::NodeChanged(node) => self.node_changed(node, now),
            Input::PodGone(pod) => self.pod_gone(&pod, now),
            Input::PodChanged(pod) if pod.spec.node_name == self.config.node_name => {
                self.pod_changed(pod, now);
            }
            Input::PodChanged(_) => {}
        }
    }

    fn node_changed(&mut self, node: Arc<Node>, now: TimeNanos) {
        let is_first = self.node.is_none();
        let config = &self.config;
        self.node = Some(if config.capacity.is_empty() {
            node
        } else {
            let mut node = Node::clone(&node);
            node.status.allocatable = allocatable(&config.capacity, &config.reserved);
            node.status.capacity.clone_from(&config.capacity);
            Arc::new(node)
        });
        if is_first {
            self.lease_due = config.heartbeats.then_some(now);
        }
        if is_first || !self.is_said_to_be_ready() {
            self.status_due = Some(now);
        }
    }

    /// Whether the node's object says that it is ready; others may have said otherwise.
    fn is_said_to_be_ready(&self) -> bool {
        let mut conditions = self.node.iter().flat_map(|node| &node.status.conditions);
        conditions.any(|it| it.type_ == "Ready" && it.status == "True")
    }

    fn pod_changed(&mut self, pod: Arc<Pod>, now: TimeNanos) {
        let key = key(&pod);
        let Some(&number) = self.numbers.get(&key) else {
            self.pod_appeared(key, pod, now);
            return;
        };
        let Some(tracked) = self.pods.get_mut(&number) else {
            return;
        };
        let before = std::mem::replace(&mut tracked.pod, pod.clone());
        if tracked.is_orphan || before.metadata.uid != pod.metadata.uid {
            // The mirror of a static pod was made again.
            tracked.is_delete_written = false;
            tracked.is_orphan = false;
            tracked.is_unreported = true;
        }
        if let Some(life) = &mut tracked.life {
            life.set_pod(pod.clone());
        }
        match tracked.stage {
            Stage::Waiting => self.waiting_pod_changed(number, now),
            Stage::Alive => self.alive_pod_changed(number, &pod, now),
            Stage::Over => {}
        }
        self.changed.insert(number);
    }

    fn pod_appeared(&mut self, key: String, pod: Arc<Pod>, now: TimeNanos) {
        let number = self.next_number;
        self.next_number += 1;
        self.numbers.insert(key.clone(), number);
        let is_over = pod.is_finished();
        let tracked = Tracked {
            key,
            life: None,
            stage: if is_over { Stage::Over } else { Stage::Waiting },
            timer: None,
            status: is_over.then(|| Box::new(pod.status.clone())),
            pod,
            is_unreported: false,
            is_orphan: false,
            is_delete_written: false,
        };
        self.pods.insert(number, tracked);
        self.changed.insert(number);
        if !is_over {
            self.queue.push_back(number);
            self.waiting_pod_changed(number, now);
        }
    }

    /// A pod that is deleted before it was admitted ends at once, unless it is known to run.
    fn waiting_pod_changed(&mut self, number: PodNumber, now: TimeNanos) {
        let Some(tracked) = self.pods.get_mut(&number) else {
            return;
        };
        let pod = &tracked.pod;
        let is_deleted = pod.metadata.deletion_timestamp.is_some();
        if is_deleted && !is_static_pod(pod) && pod.status.phase != "Running" {
            let status = pod_status::never_started(pod, now);
            self.queue.retain(|waiting| *waiting != number);
            self.end(number, status);
        }
    }

    fn alive_pod_changed(&mut self, number: PodNumber, pod: &Pod, now: TimeNanos) {
        let is_deleted = pod.metadata.deletion_timestamp.is_some() && !is_static_pod(pod);
        let ended_by_others = pod.is_finished().then(|| EndVerdict {
            phase: pod.status.phase.clone(),
            reason: pod.status.reason.clone(),
            message: pod.status.message.clone(),
            is_preempted: false,
        });
        if !is_deleted && ended_by_others.is_none() {
            return;
        }
        let grace_seconds = pod.metadata.deletion_grace_period_seconds;
        self.live(number, |life, events| {
            // A grace period of 0 is no grace period of its own: the pod's own counts.
            let grace_seconds = grace_seconds.filter(|seconds| *seconds > 0);
            let grace_seconds = grace_seconds.unwrap_or(life.grace_seconds());
            life.stop(now, grace_seconds, ended_by_others, events);
        });
    }

    fn pod_gone(&mut self, pod: &PodRef, now: TimeNanos) {
        let Some(number) = self.number_of(pod) else {
            return;
        };
        let Some(tracked) = self.pods.get_mut(&number) else {
            return;
        };
        if tracked.pod.metadata.uid != pod.uid && !pod.uid.is_empty() {
            return;
        }
        tracked.is_orphan = true;
        match tracked.stage {
            Stage::Alive | Stage::Waiting if is_static_pod(&tracked.pod) => {
                self.create_mirror_pod(number);
            }
            Stage::Alive => {
                // Another pod of this name may come before this one has ended.
                self.numbers.remove(&tracked.key);
                let grace_seconds = tracked.pod.metadata.deletion_grace_period_seconds;
                self.live(number, |life, events| {
                    let grace_seconds = grace_seconds.unwrap_or(life.grace_seconds());
                    life.stop(now, grace_seconds, None, events);
                });
            }
            Stage::Waiting | Stage::Over => {
                self.queue.retain(|waiting| *waiting != number);
                self.forget(number);
            }
        }
    }

    fn create_mirror_pod(&mut self, number: PodNumber) {
        let Some(tracked) = self.pods.get(&number) else {
            return;
        };
        let mut pod = Pod::clone(&tracked.pod);
        let metadata = &mut pod.metadata;
        metadata.uid.clear();
        metadata.resource_version.clear();
        metadata.creation_timestamp = None;
        metadata.deletion_timestamp = None;
        metadata.deletion_grace_period_seconds = None;
        pod.status = PodStatus::default();
        let pod = Box::new(pod);
        self.writes.push(Write::CreateMirrorPod { pod });
    }

    /// Looks at what changed and writes what came of it, then admits who waits, until nothing
    /// moves any more. Pods that have ended give up their place before another is considered.
    fn settle(&mut self, now: TimeNanos) {
        self.heartbeat(now);
        loop {
            while let Some(number) = self.changed.pop_first() {
                self.look_at(number, now);
            }
            self.proceed_with_eviction(now);
            if !self.changed.is_empty() {
                continue;
            }
            if self.eviction.is_some() || self.node.is_none() {
                return;
            }
            let Some(number) = self.queue.pop_front() else {
                return;
            };
            self.consider(number, now);
        }
    }

    /// Decides on a pod that waits.
    fn consider(&mut self, number: PodNumber, now: TimeNanos) {
        let (Some(tracked), Some(node)) = (self.pods.get(&number), &self.node) else {
            return;
        };
        if tracked.stage != Stage::Waiting {
            return;
        }
        // What is asked for when the labels do not fit is the node as it is known here.
        match admit(&tracked.pod, node, &self.active_pods, || None) {
            Verdict::Admitted { victims } if victims.is_empty() => self.begin(number, now),
            Verdict::Admitted { victims } => {
                self.eviction = Some(Eviction {
                    pod: number,
                    victims: victims.into(),
                    is_killing: false,
                });
                self.proceed_with_eviction(now);
            }
            Verdict::Refused(refusal) => self.reject(number, &refusal, now),
        }
    }

    fn reject(&mut self, number: PodNumber, refusal: &Refusal, now: TimeNanos) {
        let Some(tracked) = self.pods.get(&number) else {
            return;
        };
        let status = pod_status::rejected(&tracked.pod, refusal, now);
        let event = Event::warning(refusal.reason.clone(), refusal.message.clone());
        self.write_events(number, vec![event]);
        self.end(number, status);
    }

    /// Kills the victims, one after the other, and then takes the pod for which they go.
    fn proceed_with_eviction(&mut self, now: TimeNanos) {
        while let Some(eviction) = &mut self.eviction {
            let Some(&victim) = eviction.victims.front() else {
                let number = eviction.pod;
                self.eviction = None;
                self.begin(number, now);
                return;
            };
            let is_killing = std::mem::replace(&mut eviction.is_killing, true);
            let is_alive = |it: &Tracked| it.life.as_ref().is_some_and(|life| !life.is_over());
            if !self.pods.get(&victim).is_some_and(is_alive) {
                eviction.victims.pop_front();
                eviction.is_killing = false;
            } else if is_killing {
                return;
            } else {
                self.kill(victim, now);
            }
        }
    }

    fn kill(&mut self, victim: PodNumber, now: TimeNanos) {
        let verdict = EndVerdict {
            phase: "Failed".to_owned(),
            reason: PREEMPTING.to_owned(),
            message: PREEMPTING_MESSAGE.to_owned(),
            is_preempted: true,
        };
        self.live(victim, |life, events| {
            events.push(Event::warning(PREEMPTING, PREEMPTING_MESSAGE));
            life.stop(now, life.grace_seconds(), Some(verdict), events);
        });
    }

    /// Begins, or goes on with, the life of a pod that was admitted.
    fn begin(&mut self, number: PodNumber, now: TimeNanos) {
        let (Some(tracked), Some(node)) = (self.pods.get_mut(&number), self.node.clone()) else {
            return;
        };
        if tracked.stage != Stage::Waiting {
            return;
        }
        tracked.stage = Stage::Alive;
        let pod = tracked.pod.clone();
        self.active_pods.insert(number, pod.clone());
        self.changed.insert(number);
        if tracked.life.is_some() {
            self.live(number, |life, events| life.regain_power(now, events));
            return;
        }
        let (behaviour, problems) = PodBehaviour::of(&pod);
        let problems = problems.into_iter();
        let warnings = problems.map(|problem| Event::warning("InvalidAnnotation", problem));
        self.write_events(number, warnings.collect());
        let addresses = self.addresses_of(&pod, &node);
        let begin = if pod.status.phase == "Running" {
            PodLife::adopted
        } else {
            PodLife::new
        };
        let life = begin(pod.clone(), behaviour, addresses, now);
        if let Some(tracked) = self.pods.get_mut(&number) {
            tracked.status = Some(Box::new(pod.status.clone()));
            tracked.life = Some(life);
        }
        self.live(number, |life, events| life.advance(now, events));
        if pod.metadata.deletion_timestamp.is_some() {
            self.alive_pod_changed(number, &pod, now);
        }
    }

    fn addresses_of(&mut self, pod: &Pod, node: &Node) -> Addresses {
        let known = &pod.status.pod_ip;
        let pod_ip = if pod.spec.host_network {
            String::new()
        } else if known.is_empty() {
            let taken = self.addresses.take(node);
            taken.map(|address| address.to_string()).unwrap_or_default()
        } else {
            self.addresses.keep(known);
            known.clone()
        };
        Addresses {
            host_ip: host_ip(node),
            pod_ip,
        }
    }

    /// Does something with the life of a pod, and remembers to look at it.
    fn live(&mut self, number: PodNumber, act: impl FnOnce(&mut PodLife, &mut Vec<Event>)) {
        let Some(tracked) = self.pods.get_mut(&number) else {
            return;
        };
        let Some(life) = &mut tracked.life else {
            return;
        };
        let mut events = Vec::new();
        act(life, &mut events);
        let next = life.next_time();
        let before = std::mem::replace(&mut tracked.timer, next);
        if let Some(time) = before {
            self.timers.remove(&(time, number));
        }
        if let Some(time) = next {
            self.timers.insert((time, number));
        }
        self.changed.insert(number);
        self.write_events(number, events);
    }

    /// Writes what changed of a pod, and lets go of it if it is over.
    fn look_at(&mut self, number: PodNumber, now: TimeNanos) {
        let can_write = self.outage.is_none();
        let Some(tracked) = self.pods.get_mut(&number) else {
            return;
        };
        let ended = match (&tracked.life, tracked.stage) {
            (Some(life), Stage::Alive) => {
                let before = tracked.status.take().unwrap_or_default();
                let status = pod_status::status(life, &before, now);
                tracked.is_unreported |= status != *before;
                tracked.status = Some(Box::new(status));
                life.is_over().then(|| life.addresses.pod_ip.clone())
            }
            _ => None,
        };
        if can_write {
            self.writes.extend(tracked.report());
        }
        let is_static = is_static_pod(&tracked.pod);
        let is_deleted = tracked.pod.metadata.deletion_timestamp.is_some();
        let is_over = tracked.stage == Stage::Over || ended.is_some();
        if is_deleted && (is_over || is_static) && can_write {
            self.writes.extend(tracked.delete());
        }
        if let Some(address) = ended {
            tracked.stage = Stage::Over;
            tracked.life = None;
            let is_orphan = tracked.is_orphan;
            self.active_pods.remove(number);
            self.addresses.give_back(&address);
            if is_orphan {
                self.forget(number);
            }
        }
    }

    /// A pod is over that has no life, or not any more.
    fn end(&mut self, number: PodNumber, status: PodStatus) {
        let Some(tracked) = self.pods.get_mut(&number) else {
            return;
        };
        if let Some(life) = tracked.life.take() {
            self.addresses.give_back(&life.addresses.pod_ip);
        }
        if let Some(time) = tracked.timer.take() {
            self.timers.remove(&(time, number));
        }
        tracked.stage = Stage::Over;
        tracked.status = Some(Box::new(status));
        tracked.is_unreported = true;
        self.changed.insert(number);
    }

    fn forget(&mut self, number: PodNumber) {
        if let Some(tracked) = self.pods.remove(&number)
            && self.numbers.get(&tracked.key) == Some(&number)
        {
            self.numbers.remove(&tracked.key);
        }
    }

    fn write_events(&mut self, number: PodNumber, events: Vec<Event>) {
        if self.outage.is_some() {
            return;
        }
        let Some(tracked) = self.pods.get(&number) else {
            return;
        };
        let pod = PodRef::of(&tracked.pod);
        let events = events.into_iter();
        self.writes.extend(events.map(|event| Write::PodEvent {
            pod: pod.clone(),
            event,
        }));
    }

    /// Renews the lease and writes the node's status, if they are due.
    fn heartbeat(&mut self, now: TimeNanos) {
        let can_write = self.outage.is_none();
        if self.lease_due.is_some_and(|due| due <= now) {
            self.lease_due = Some(now.saturating_add(LEASE_RENEWAL));
            let renew_time = now;
            self.writes
                .extend(can_write.then_some(Write::RenewLease { renew_time }));
        }
        if self.status_due.is_some_and(|due| due <= now) {
            let next = now.saturating_add(STATUS_REPORT);
            self.status_due = self.config.heartbeats.then_some(next);
            if let Some(node) = self.node.as_deref().filter(|_| can_write) {
                let status = Box::new(node_status(node, now));
                self.writes.push(Write::NodeStatus { status });
            }
        }
    }

    /// The machine went down: all that ran is lost. Returns the pods that have to be admitted
    /// anew, by creation.
    fn lose_power(&mut self, at: TimeNanos) -> Vec<PodNumber> {
        let mut lost = Vec::new();
        for (&number, tracked) in &mut self.pods {
            let Some(life) = &mut tracked.life else {
                continue;
            };
            life.lose_power(at);
            self.changed.insert(number);
            if !life.is_stopping() {
                lost.push(number);
            }
        }
        if let Some(eviction) = self.eviction.take() {
            self.queue.push_front(eviction.pod);
        }
        let created = |number: &PodNumber| {
            let tracked = self.pods.get(number);
            let created = tracked.and_then(|it| it.pod.metadata.creation_timestamp.clone());
            (created, *number)
        };
        lost.sort_by_key(created);
        lost
    }

    /// Admits pods anew that lost their containers, before all that wait.
    fn readmit(&mut self, lost: Vec<PodNumber>, now: TimeNanos) {
        let unfinished: Vec<PodNumber> =
            self.active_pods.iter().map(|(number, _)| number).collect();
        for number in lost.into_iter().rev() {
            if let Some(tracked) = self.pods.get_mut(&number)
                && tracked.stage == Stage::Alive
                && tracked
                    .life
                    .as_ref()
                    .is_some_and(|life| !life.is_stopping())
            {
                tracked.stage = Stage::Waiting;
                if let Some(time) = tracked.timer.take() {
                    self.timers.remove(&(time, number));
                }
                self.active_pods.remove(number);
                self.queue.push_front(number);
            }
        }
        for number in unfinished {
            self.live(number, |life, events| {
                if life.is_stopping() {
                    life.regain_power(now, events);
                }
            });
        }
    }

    /// Writes what could not be written while nobody could be reached.
    fn report_all(&mut self, now: TimeNanos) {
        if self.node.is_some() {
            self.lease_due = self.config.heartbeats.then_some(now);
            self.status_due = Some(now);
        }
        let pods = self.pods.iter();
        let unreported = pods.filter(|(_, it)| it.is_unreported || it.stage == Stage::Over);
        self.changed.extend(unreported.map(|(number, _)| *number));
    }

    fn number_of(&self, pod: &PodRef) -> Option<PodNumber> {
        let PodRef {
            namespace,
            name,
            uid,
        } = pod;
        let keys = [
            uid.clone(),
            format!("{namespace}/{name}"),
            static_key(namespace, name),
        ];
        keys.iter().find_map(|key| self.numbers.get(key)).copied()
    }
}

impl Tracked {
    /// The write of its status, if it was not written yet.
    fn report(&mut self) -> Option<Write> {
        if self.is_orphan || !std::mem::take(&mut self.is_unreported) {
            return None;
        }
        Some(Write::PodStatus {
            pod: PodRef::of(&self.pod),
            status: self.status.clone()?,
        })
    }

    /// The write that lets its object go, once.
    fn delete(&mut self) -> Option<Write> {
        let is_written = std::mem::replace(&mut self.is_delete_written, true);
        (!is_written && !self.is_orphan).then(|| Write::DeletePod {
            pod: PodRef::of(&self.pod),
        })
    }
}

/// What a pod is known by: its identifier, or its name if it has none. A static pod stays the
/// same when its mirror is made again.
fn key(pod: &Pod) -> String {
    let metadata = &pod.metadata;
    if is_static_pod(pod) {
        static_key(&metadata.namespace, &metadata.name)
    } else if metadata.uid.is_empty() {
        pod.key()
    } else {
        metadata.uid.clone()
    }
}

fn static_key(namespace: &str, name: &str) -> String {
    format!("static:{namespace}/{name}")
}

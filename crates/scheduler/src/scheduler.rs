//! See the crate.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use outrank_api::decode::ObjectKind;
use outrank_api::types::{PersistentVolumeClaim, Pod};
use outrank_controllers::{Change, Key, Kind, Outcome as Written, Stored, Write};
use outrank_engine::extensions::Extensions;
use outrank_engine::ids::PodId;
use outrank_engine::preemption::Preemption;
use outrank_engine::{Decision, Engine, EngineConfig, Event, Outcome, TimeNanos};

use crate::volumes::{Claims, reserved};
use crate::{changes, writes};

/// The engine, and what it knows of as objects.
pub struct Scheduler {
    engine: Engine,
    /// Pods as they were last told, by the engine's number.
    pods: HashMap<PodId, Arc<Stored>>,
    claims: Claims,
    /// Pods that count as being on their node while nobody else knows: what is told of them
    /// meanwhile is old. By uid.
    assumed: HashMap<String, PodId>,
    /// Pods that wait for their claims to be bound, and for which node.
    before_binding: BTreeMap<PodId, (String, Vec<(String, String)>)>,
    /// Pods whose claims are bound.
    ready: VecDeque<PodId>,
}

/// Writes to carry out in their order, all on behalf of one pod.
#[derive(Debug)]
pub struct Work {
    /// The pod.
    pub pod: Key,
    /// What was decided about it; `None` if that was told before.
    pub decision: Option<Decision>,
    /// The writes. [`Scheduler::done`] wants an outcome for each.
    pub writes: Vec<Write>,
    id: PodId,
    uid: String,
}

impl Scheduler {
    /// A scheduler that knows nothing yet.
    ///
    /// # Errors
    /// What the engine refuses in its configuration.
    pub fn new(config: &EngineConfig, extensions: Extensions) -> Result<Self, String> {
        Ok(Self {
            engine: Engine::with_extensions(config, extensions)?,
            pods: HashMap::new(),
            claims: Claims::default(),
            assumed: HashMap::new(),
            before_binding: BTreeMap::new(),
            ready: VecDeque::new(),
        })
    }

    /// The engine, for whoever wants to know more of its decisions.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The pod that the engine calls so, as it was last told.
    pub fn pod(&self, id: PodId) -> Option<&Arc<Stored>> {
        self.pods.get(&id)
    }

    /// Takes a change of the cluster.
    pub fn handle(&mut self, change: &Change, now: i64) {
        match change {
            Change::Set(stored) if stored.get::<Pod>().is_some() => self.set_pod(stored, now),
            Change::Gone { key, .. } if is_pod(key) => self.pod_gone(key, now),
            Change::Set(stored) => {
                if let Some(claim) = stored.get::<PersistentVolumeClaim>() {
                    self.claims.set(claim);
                }
                self.tell(changes::set(stored), now);
                self.look_at_claims();
            }
            Change::Gone { key, .. } => {
                if key.kind == Kind::Known(ObjectKind::PersistentVolumeClaim) {
                    self.claims.remove(&key.namespace, &key.name);
                }
                self.tell(changes::gone(key), now);
            }
        }
    }

    /// Decides one pod, or goes on with one that was decided; `None` if there is nothing to do.
    pub fn next(&mut self, now: i64) -> Option<Work> {
        while let Some(id) = self.ready.pop_front() {
            let Some((node, _)) = self.before_binding.remove(&id) else {
                continue;
            };
            if let Some(stored) = self.pods.get(&id) {
                let writes = writes::bind(stored, &node).into();
                return Some(self.work(id, None, writes));
            }
        }
        let decision = self.engine.next(time(now))?;
        let writes = self.writes_of(&decision, now);
        Some(self.work(decision.pod, Some(decision), writes))
    }

    /// Takes what came of the writes of `work`, in their order. If a pod could not be bound, it is
    /// tried again.
    pub fn done(&mut self, work: Work, outcomes: Vec<Written>, now: i64) -> Vec<Write> {
        let mut more = Vec::new();
        for (write, outcome) in work.writes.iter().zip(outcomes) {
            match (write, outcome) {
                (Write::Bind(_), Written::Refused(refusal)) => {
                    let message = format!("binding rejected: {}", refusal.message);
                    more.extend(self.not_bound(&work, message, now));
                }
                (Write::Patch(patch), Written::Refused(refusal)) if !is_pod(&patch.key) => {
                    let message = format!(
                        "running PreBind plugin \"VolumeBinding\": {}",
                        refusal.message
                    );
                    more.extend(self.not_bound(&work, message, now));
                }
                (Write::Bind(_) | Write::Patch(_), Written::Stored(stored)) => {
                    self.handle(&Change::Set(stored), now);
                }
                _ => {}
            }
        }
        more
    }

    /// When to ask again if nothing changes; `None` if there is no such time.
    pub fn next_time(&self) -> Option<i64> {
        if !self.ready.is_empty() {
            return Some(i64::MIN);
        }
        let retry = self.engine.next_retry()?;
        Some(i64::try_from(retry).unwrap_or(i64::MAX))
    }

    fn set_pod(&mut self, stored: &Arc<Stored>, now: i64) {
        let Some(pod) = stored.get::<Pod>() else {
            return;
        };
        let is_bound = !pod.spec.node_name.is_empty();
        let metadata = &pod.metadata;
        // Who is being deleted before he has a node gets none.
        if !is_bound && metadata.deletion_timestamp.is_some() {
            return self.pod_gone(&stored.key(), now);
        }
        let known = self.engine.pod(&metadata.namespace, &metadata.name);
        if let Some(known) = known
            && self.assumed.get(&metadata.uid) == Some(&known)
        {
            if !is_bound {
                self.pods.insert(known, stored.clone());
                return;
            }
            self.assumed.remove(&metadata.uid);
            self.before_binding.remove(&known);
        }
        self.tell(Some(Event::PodChanged(pod.clone())), now);
        match self.engine.pod(&metadata.namespace, &metadata.name) {
            Some(id) => _ = self.pods.insert(id, stored.clone()),
            None => self.forget(known, &metadata.uid),
        }
    }

    fn pod_gone(&mut self, key: &Key, now: i64) {
        let id = self.engine.pod(&key.namespace, &key.name);
        let stored = id.and_then(|id| self.pods.get(&id));
        let uid = stored.map(|stored| stored.metadata().uid.clone());
        self.forget(id, &uid.unwrap_or_default());
        let (namespace, name) = (key.namespace.to_string(), key.name.to_string());
        self.tell(Some(Event::PodGone { namespace, name }), now);
    }

    fn forget(&mut self, id: Option<PodId>, uid: &str) {
        self.assumed.remove(uid);
        if let Some(id) = id {
            self.pods.remove(&id);
            self.before_binding.remove(&id);
        }
    }

    fn tell(&mut self, event: Option<Event>, now: i64) {
        if let Some(event) = event {
            self.engine.handle(event, time(now));
        }
    }

    fn work(&self, id: PodId, decision: Option<Decision>, writes: Vec<Write>) -> Work {
        let stored = self.pods.get(&id);
        let uid = stored.map(|stored| stored.metadata().uid.clone());
        let name = self.engine.pod_name(id).unwrap_or_default();
        Work {
            pod: Key::new(ObjectKind::Pod, name.0, name.1),
            decision,
            writes,
            id,
            uid: uid.unwrap_or_default(),
        }
    }

    fn writes_of(&mut self, decision: &Decision, now: i64) -> Vec<Write> {
        let id = decision.pod;
        let Some(stored) = self.pods.get(&id).cloned() else {
            return Vec::new();
        };
        let (reason, message) = match &decision.outcome {
            Outcome::Scheduled { node, .. } => {
                let node = self.engine.cluster().name(*node).to_owned();
                return self.scheduled(id, &stored, node);
            }
            Outcome::Unschedulable(diagnosis) => {
                let message = diagnosis.message(self.engine.cluster());
                ("Unschedulable", message)
            }
            Outcome::Error(error) => ("SchedulerError", error.to_string()),
        };
        let mut writes = Vec::new();
        if let Some(preemption) = &decision.preemption {
            writes.extend(self.preempt(&stored, preemption, now));
        }
        let nominated = self.engine.nominated_node(id).unwrap_or_default();
        writes.extend(writes::not_scheduled(
            &stored, reason, message, nominated, now,
        ));
        writes
    }

    fn scheduled(&mut self, id: PodId, stored: &Stored, node: String) -> Vec<Write> {
        self.assumed.insert(stored.metadata().uid.clone(), id);
        let (volumes, claims) = reserved(&self.engine, &self.claims, id, &node);
        if volumes.is_empty() {
            return writes::bind(stored, &node).into();
        }
        self.before_binding.insert(id, (node, claims));
        volumes
    }

    fn preempt(&self, stored: &Stored, preemption: &Preemption, now: i64) -> Vec<Write> {
        let node = self.engine.cluster().name(preemption.node);
        let cleared = preemption.cleared_nominations.iter();
        let cleared = cleared.filter_map(|pod| self.pods.get(pod));
        let mut writes: Vec<Write> = cleared.filter_map(|it| writes::not_nominated(it)).collect();
        for victim in &preemption.victims.pods {
            if let Some(victim) = self.pods.get(victim) {
                writes.extend(writes::evict(victim, stored, node, now));
            }
        }
        writes
    }

    /// Has pods bound whose claims are.
    fn look_at_claims(&mut self) {
        let waiting = self.before_binding.iter();
        let ready = waiting.filter(|(_, (_, claims))| self.claims.are_bound(claims));
        for (pod, _) in ready {
            if !self.ready.contains(pod) {
                self.ready.push_back(*pod);
            }
        }
    }

    /// A pod that was taken to be on its node is not: it is tried again.
    fn not_bound(&mut self, work: &Work, message: String, now: i64) -> Vec<Write> {
        let is_assumed = self.assumed.get(&work.uid) == Some(&work.id);
        let Some(stored) = self.pods.get(&work.id).filter(|_| is_assumed).cloned() else {
            return Vec::new();
        };
        self.assumed.remove(&work.uid);
        self.before_binding.remove(&work.id);
        let pod = stored.get::<Pod>().cloned().map(Event::PodChanged);
        self.tell(pod, now);
        let nominated = self.engine.nominated_node(work.id).unwrap_or_default();
        writes::not_scheduled(&stored, "SchedulerError", message, nominated, now)
    }
}

fn is_pod(key: &Key) -> bool {
    key.kind == Kind::Known(ObjectKind::Pod)
}

fn time(now: i64) -> TimeNanos {
    TimeNanos::try_from(now).unwrap_or(0)
}

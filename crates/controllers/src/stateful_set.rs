//! StatefulSets: pods with numbers, names and claims that stay theirs.
//!
//! Pods are made in the order of their ordinals, each when the one before is available, and
//! deleted in the opposite order; with `podManagementPolicy: Parallel`, all at once. When the
//! template changes, the pods are replaced from the highest ordinal down to `partition`, each when
//! those above it are available; or, with the strategy `OnDelete`, each when somebody deletes it.
//! Several at a time, as `maxUnavailable` says, are replaced only if that is switched on
//! ([`StatefulSetController::with_max_unavailable`]), as it is off in Kubernetes 1.36. A claim of a
//! pod outlives it, unless the set's retention policy says otherwise.
//!
//! Source: `pkg/controller/statefulset`, Kubernetes 1.36.

mod claims;
mod sums;

use std::ops::Range;
use std::sync::Arc;

use outrank_api::decode::ObjectKind;
use outrank_api::labels::Selector;
use outrank_api::types::{
    ControllerRevision, PersistentVolumeClaim, Pod, RollingUpdate, StatefulSet, StatefulSetStatus,
};
use serde_json::json;

use crate::controller::{Controller, Plan};
use crate::controller_revision::{Revision, Revisions, TEMPLATE_SPEC, Template};
use crate::deployment::scaled;
use crate::new_pod::NewPod;
use crate::pod_edit::PodEdit;
use crate::pod_state::{Availability, is_going};
use crate::replica_set::owners;
use crate::roster::Rosters;
use crate::world::{Key, Kind, Seen, Stored, World};
use crate::write::{Event, Outcome, Refusal, Write};

use self::sums::{Basis, Keeping, SetSums};

const REVISION_LABEL: &str = "controller-revision-hash";
const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// How many pods are made at a time. Upstream makes all that are missing; the next look follows
/// at once.
const BURST: usize = 500;

/// The controller of StatefulSets.
#[derive(Clone, Debug, Default)]
pub struct StatefulSetController {
    rosters: Rosters<SetSums>,
    honours_max_unavailable: bool,
}

impl StatefulSetController {
    /// The same, but for `maxUnavailable`, which it honours: as with the feature gate
    /// `MaxUnavailableStatefulSet`, which is off in Kubernetes 1.36 unless somebody sets it.
    pub fn with_max_unavailable(self) -> Self {
        Self {
            honours_max_unavailable: true,
            ..self
        }
    }
}

impl Controller for StatefulSetController {
    fn name(&self) -> &'static str {
        "statefulset-controller"
    }

    fn concerned(&mut self, seen: &Seen, world: &World, _: i64) -> Vec<Key> {
        match &seen.key.kind {
            Kind::Known(ObjectKind::StatefulSet) => {
                self.rosters.note_owner(seen);
                vec![seen.key.clone()]
            }
            Kind::Known(ObjectKind::Pod) => {
                self.rosters.note(seen);
                owners::<StatefulSet>(seen, world)
            }
            Kind::Known(ObjectKind::ControllerRevision) => owners::<StatefulSet>(seen, world),
            Kind::Known(ObjectKind::PersistentVolumeClaim) => {
                let mut keys = self.note_claim(seen, world);
                // A pod may have waited for an old claim of its name to go.
                keys.retain(|_| seen.new.is_none());
                keys
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&mut self, key: &Key, world: &World, now: i64) -> Plan {
        let mut plan = Plan::nothing();
        if let Some(stored) = world.stored(key)
            && let Some(set) = stored.get::<StatefulSet>()
        {
            self.go_on(stored, set, world, now, &mut plan);
        }
        plan
    }

    fn refused(
        &mut self,
        key: &Key,
        world: &World,
        _: i64,
        refusals: &[(Write, Refusal)],
    ) -> Vec<Write> {
        let Some(stored) = world.stored(key) else {
            return Vec::new();
        };
        let Some(set) = stored.get::<StatefulSet>() else {
            return Vec::new();
        };
        let mut writes = Vec::new();
        for (write, refusal) in refusals {
            let Write::Create(create) = write else {
                continue;
            };
            let name = &create.object.metadata().name;
            if create.object.get::<ControllerRevision>().is_some() && refusal.already_exists() {
                let mut status = set.status.clone();
                let collisions = status.collision_count.get_or_insert(0);
                *collisions = collisions.saturating_add(1);
                writes.extend(Write::status(stored, &set.status, &status));
            }
            if create.object.get::<PersistentVolumeClaim>().is_some()
                && let Some(pod) = claims::pod_of(set, name)
            {
                let error = format!("failed to create PVC {name}: {}", refusal.message);
                let message = not_created(set, pod, &error);
                let event = Event::warning(stored, "FailedCreate", message);
                writes.push(Write::Event(event));
            }
        }
        writes
    }

    fn tell(&self, key: &Key, world: &World, write: &Write, outcome: &Outcome) -> Option<Event> {
        let stored = world.stored(key)?;
        let set = stored.get::<StatefulSet>()?;
        let (verb, kind, name) = subject(write)?;
        let (what, success) = match (verb, kind) {
            (_, ObjectKind::Pod) => (format!("Pod {name}"), "successful"),
            ("Create", ObjectKind::PersistentVolumeClaim) => {
                let pod = claims::pod_of(set, name)?;
                match outcome {
                    Outcome::Refused(_) => (format!("Claim {name} for Pod {pod}"), ""),
                    _ => (format!("Claim {name} Pod {pod}"), "success"),
                }
            }
            _ => return None,
        };
        let of = format!("{verb} {what} in StatefulSet {}", set.metadata.name);
        Some(match outcome {
            Outcome::Refused(refusal) if refusal.already_exists() => return None,
            Outcome::Refused(refusal) if verb != "Delete" || !refusal.is_not_found() => {
                let message = format!("{of} failed error: {}", refusal.message);
                Event::warning(stored, format!("Failed{verb}"), message)
            }
            _ => Event::normal(
                stored,
                format!("Successful{verb}"),
                format!("{of} {success}"),
            ),
        })
    }
}

/// What a write that is told of does, to what kind of object, and its name.
fn subject(write: &Write) -> Option<(&'static str, ObjectKind, &str)> {
    let (verb, key) = match write {
        Write::Create(it) => {
            let object = &it.object;
            return Some(("Create", object.kind(), &object.metadata().name));
        }
        Write::Delete(it) => ("Delete", &it.key),
        // Labels are those of the identity; adoptions are not told of.
        Write::Patch(it) if it.changes.pointer("/metadata/labels").is_some() => ("Update", &it.key),
        Write::Patch(_) | Write::Bind(_) | Write::Event(_) => return None,
    };
    match key.kind {
        Kind::Known(kind) => Some((verb, kind, &key.name)),
        Kind::Other(_) => None,
    }
}

/// The message that a pod cannot be made.
fn not_created(set: &StatefulSet, pod: &str, error: &str) -> String {
    let set = &set.metadata.name;
    format!("Create Pod {pod} in StatefulSet {set} failed error: {error}")
}

impl StatefulSetController {
    /// Takes note of a change of a claim; returns the sets that it may be of.
    fn note_claim(&mut self, seen: &Seen, world: &World) -> Vec<Key> {
        let mut keys = Vec::new();
        for set in world.within::<StatefulSet>(&seen.key.namespace) {
            let Some(pod) = claims::pod_of(set, &seen.key.name) else {
                continue;
            };
            if let Some(sums) = self.rosters.sums_of(&set.metadata.uid) {
                sums.note_claim(pod);
            }
            keys.push(Key::of::<StatefulSet>(&set.metadata));
        }
        keys
    }

    fn go_on(
        &mut self,
        stored: &Stored,
        set: &StatefulSet,
        world: &World,
        now: i64,
        plan: &mut Plan,
    ) {
        let Ok(selector) = Selector::from_label_selector(set.spec.selector.as_ref()) else {
            return;
        };
        let basis = Basis {
            name: set.metadata.name.clone(),
            min_ready_seconds: set.spec.min_ready_seconds,
            has_claims: !set.spec.volume_claim_templates.is_empty(),
        };
        let roster = self.rosters.of(world, stored, &selector, &basis);
        roster.sums.settle(now);
        roster.sums.keep_by(Keeping {
            policy: set.spec.persistent_volume_claim_retention_policy.clone(),
            wanted: crate::workloads::ordinals(set),
        });
        let claims = roster.claims(stored, |_| true);
        let is_waiting = !claims.is_empty();
        plan.step(claims);
        let revisions = Revisions::of(world, stored, &selector, plan);
        let update = match revisions.current(&template_of(stored, set)) {
            Ok(update) => update,
            Err(write) => return plan.step([*write]),
        };
        // What was adopted is known next time.
        if is_waiting {
            return;
        }
        let mut known = revisions.all.iter();
        let current = known.find(|it| it.name() == set.status.current_revision);
        let turn = Turn {
            stored,
            set,
            world,
            now,
            update,
            current: *current.unwrap_or(&update),
            sums: &roster.sums,
            honours_max_unavailable: self.honours_max_unavailable,
        };
        let status = turn.status(plan);
        plan.step(Write::status(stored, &set.status, &status));
        let mut kept = Vec::new();
        if set.metadata.deletion_timestamp.is_none() {
            turn.go_on(plan);
            kept = turn.kept();
        }
        // Those in use do not count.
        let is_idle = |it: &Revision<'_>| !turn.is_live(it);
        let limit = set.spec.revision_history_limit;
        plan.step(revisions.truncate(limit, is_idle, |it| turn.is_live(it)));
        roster.sums.note_kept(&kept);
    }
}

/// The template of a set, of which there is to be a revision.
pub(crate) fn template_of<'w>(stored: &'w Stored, set: &'w StatefulSet) -> Template<'w> {
    Template {
        owner: stored,
        template: &set.spec.template,
        collisions: set.status.collision_count,
        hash_label: "controller.kubernetes.io/hash",
    }
}

/// A pod of the set.
struct Member<'w> {
    stored: &'w Arc<Stored>,
    pod: &'w Pod,
}

impl Member<'_> {
    fn is_going(&self) -> bool {
        is_going(self.pod)
    }
}

/// One look at a set.
struct Turn<'w> {
    stored: &'w Stored,
    set: &'w StatefulSet,
    world: &'w World,
    now: i64,
    /// The revision of the template.
    update: Revision<'w>,
    /// The one before, while pods of it are kept.
    current: Revision<'w>,
    sums: &'w SetSums,
    honours_max_unavailable: bool,
}

impl<'w> Turn<'w> {
    /// Whether a revision is in use.
    fn is_live(&self, revision: &Revision<'_>) -> bool {
        let name = revision.name();
        name == self.update.name() || name == self.current.name() || self.sums.has_revision(name)
    }

    fn wanted(&self) -> Range<i64> {
        crate::workloads::ordinals(self.set)
    }

    fn is_ordered(&self) -> bool {
        self.set.spec.pod_management_policy != "Parallel"
    }

    fn rolling(&self) -> Option<&RollingUpdate> {
        self.set.spec.update_strategy.rolling_update.as_ref()
    }

    fn partition(&self) -> i64 {
        let partition = self.rolling().and_then(|it| it.partition);
        i64::from(partition.unwrap_or(0))
    }

    fn availability(&self, member: &Member<'_>) -> Availability {
        match member.pod.status.phase == "Running" {
            true => Availability::of(member.pod, self.set.spec.min_ready_seconds, self.now),
            false => Availability::NotReady,
        }
    }

    /// Whether a member is available and stays.
    fn is_up(&self, member: &Member<'_>) -> bool {
        self.availability(member) == Availability::Now && !member.is_going()
    }

    fn go_on(&self, plan: &mut Plan) {
        plan.step(self.keep_all_claims());
        let is_settled = match self.is_ordered() {
            true => self.make_in_order(plan),
            false => self.make_at_once(plan),
        };
        if is_settled && self.remove_surplus(plan) {
            plan.step(self.replace_outdated());
        }
    }

    /// Sees to the members in order. False if one has to be waited for.
    fn make_in_order(&self, plan: &mut Plan) -> bool {
        let gap = self.sums.gaps(self.wanted()).next();
        let below_gap = Range {
            end: gap.unwrap_or(self.wanted().end),
            ..self.wanted()
        };
        for (ordinal, member) in self.sums.unsettled(below_gap) {
            let member = &member;
            if let Some(delete) = replace_ended(member) {
                plan.step(delete);
                return false;
            }
            if member.pod.status.phase == "Pending" {
                plan.step(self.missing_claims(ordinal));
            }
            match self.availability(member) {
                _ if member.is_going() => return false,
                Availability::Now => {}
                Availability::At(time) => {
                    plan.look_at(time);
                    return false;
                }
                Availability::NotReady => return false,
            }
            plan.step(put_right(ordinal, member));
        }
        gap.into_iter().for_each(|gap| self.create(&[gap], plan));
        gap.is_none()
    }

    /// Sees to all members, in no order.
    fn make_at_once(&self, plan: &mut Plan) -> bool {
        for (ordinal, member) in self.sums.needy(self.wanted()) {
            let member = &member;
            match replace_ended(member) {
                Some(delete) => plan.step(delete),
                None => plan.step(put_right(ordinal, member)),
            }
        }
        for (ordinal, member) in self.sums.unkept() {
            if self.may_lack_claims(ordinal, &member) {
                plan.step(self.missing_claims(ordinal));
            }
        }
        let missing: Vec<i64> = self.sums.gaps(self.wanted()).take(BURST).collect();
        let mut rest = missing.as_slice();
        let mut size = 1;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(size.min(rest.len()));
            self.create(now, plan);
            rest = later;
            size *= 2;
        }
        true
    }

    /// Deletes members beyond the range, the highest first. False if one has to be waited for.
    fn remove_surplus(&self, plan: &mut Plan) -> bool {
        let first_down = self.first_down();
        for (ordinal, member) in self.surplus().rev() {
            let member = &member;
            if member.is_going() {
                match self.is_ordered() {
                    true => return false,
                    false => continue,
                }
            }
            if !self.is_ordered() {
                plan.step([Write::delete(member.stored)]);
                continue;
            }
            if self.availability(member) != Availability::Now && first_down != Some(ordinal) {
                if let Availability::At(time) = self.availability(member) {
                    plan.look_at(time);
                }
                return false;
            }
            plan.step([Write::delete(member.stored)]);
            return false;
        }
        true
    }

    /// The members beyond the range, by ordinal.
    fn surplus(&self) -> impl DoubleEndedIterator<Item = (i64, Member<'w>)> {
        let wanted = self.wanted();
        let below = self.sums.within(i64::MIN..wanted.start);
        below.chain(self.sums.within(wanted.end..i64::MAX))
    }

    /// The first member that is not up: of those wanted, else of the surplus.
    fn first_down(&self) -> Option<i64> {
        let mut down = self.sums.unsettled(self.wanted());
        let down = down.find(|(_, it)| !self.is_up(it)).map(|it| it.0);
        let gap = self.sums.gaps(self.wanted()).next();
        let first = down.into_iter().chain(gap).min();
        let mut surplus = self.surplus();
        first.or_else(|| surplus.find(|it| !self.is_up(&it.1)).map(|it| it.0))
    }

    /// Deletes members of an old revision, the highest first.
    fn replace_outdated(&self) -> Vec<Write> {
        if self.set.spec.update_strategy.type_ == "OnDelete" {
            return Vec::new();
        }
        let wanted = self.wanted();
        let first = wanted.start.saturating_add(self.partition());
        let outdated = match self.honours_max_unavailable {
            true => self.several_outdated(first..wanted.end),
            false => Vec::from_iter(self.next_outdated(first..wanted.end)),
        };
        let outdated = outdated.into_iter().filter_map(|it| self.sums.member(it));
        outdated.map(|it| Write::delete(it.stored)).collect()
    }

    /// The highest member of an old revision, if all those above it are up. Whether itself is up
    /// does not matter.
    fn next_outdated(&self, range: Range<i64>) -> Option<i64> {
        let update = self.update.name();
        let next = self.sums.outdated(update, range.clone(), 1).pop()?;
        let above = next.saturating_add(1)..range.end;
        let mut down = self.sums.unsettled(above.clone());
        let is_waiting = down.any(|(_, it)| !self.is_up(&it));
        // All are counted only if that matters.
        let is_missing = || self.sums.missing(&self.wanted()) > 0 && self.sums.missing(&above) > 0;
        (!is_waiting && !is_missing()).then_some(next)
    }

    /// The members of an old revision that may go at once: as many as may be unavailable.
    fn several_outdated(&self, range: Range<i64>) -> Vec<i64> {
        let wanted = self.wanted();
        let count = i32::try_from(wanted.end - wanted.start).unwrap_or(i32::MAX);
        let allowed = self.rolling().and_then(|it| it.max_unavailable.as_ref());
        let allowed = allowed
            .map_or(1, |it| scaled(Some(it), count, false))
            .max(1);
        let most = usize::try_from(allowed).unwrap_or(0);
        let mut outdated = self.sums.outdated(self.update.name(), range, most);
        // Who is down is counted only if that matters.
        if outdated.is_empty() {
            return Vec::new();
        }
        let down = self.sums.unsettled(wanted.clone());
        let down = down.filter(|(_, it)| !self.is_up(it)).count();
        let missing = self.sums.missing(&wanted);
        let down = i64::try_from(down)
            .unwrap_or(i64::MAX)
            .saturating_add(missing);
        let down = i32::try_from(down).unwrap_or(i32::MAX);
        let room = usize::try_from(allowed.saturating_sub(down)).unwrap_or(0);
        outdated.truncate(room);
        outdated
    }

    /// Makes pods, first the claims of each.
    fn create(&self, ordinals: &[i64], plan: &mut Plan) {
        let mut fresh: Vec<i64> = Vec::new();
        for ordinal in ordinals.iter().copied() {
            if self.has_stale_claim(ordinal) {
                continue;
            }
            match self.going_claims(ordinal) {
                None => fresh.push(ordinal),
                Some(error) => plan.step([self.not_created(&self.pod_name(ordinal), &error)]),
            }
        }
        plan.step(fresh.iter().flat_map(|it| self.missing_claims(*it)));
        plan.step(fresh.iter().map(|it| self.new_pod(*it)));
    }

    /// Tells that a pod cannot be made.
    fn not_created(&self, pod: &str, error: &str) -> Write {
        let message = not_created(self.set, pod, error);
        Write::Event(Event::warning(self.stored, "FailedCreate", message))
    }

    fn new_pod(&self, ordinal: i64) -> Write {
        let set = self.set;
        let name = self.pod_name(ordinal);
        let is_old = match set.spec.update_strategy.type_.as_str() {
            "OnDelete" => false,
            _ => ordinal < self.wanted().start.saturating_add(self.partition()),
        };
        let old = Some(self.current).filter(|it| is_old && it.name() != self.update.name());
        let old = old.and_then(|it| Some((it, it.template()?)));
        let (revision, mut pod) = match old {
            Some((old, template)) => {
                let source = Some(old.source());
                let pod = NewPod::from_source(self.stored, &template, source, TEMPLATE_SPEC);
                (old.name(), pod)
            }
            None => {
                let template = &set.spec.template;
                let pod = NewPod::of(self.stored, template, "/spec/template/spec");
                (self.update.name(), pod)
            }
        };
        pod.label(NAME_LABEL, name.as_str());
        pod.label(INDEX_LABEL, ordinal.to_string());
        pod.label(REVISION_LABEL, revision);
        let templates = &set.spec.volume_claim_templates;
        if !templates.is_empty() {
            let claims = templates.iter().map(|it| {
                let volume = it.metadata.name.clone();
                (volume.clone(), format!("{volume}-{name}"))
            });
            pod.edits.push(PodEdit::Claims(claims.collect()));
        }
        pod.edits.push(PodEdit::Hostname(name.clone()));
        if !set.spec.service_name.is_empty() {
            pod.edits
                .push(PodEdit::Subdomain(set.spec.service_name.clone()));
        }
        pod.metadata.name = name;
        pod.create()
    }

    fn pod_name(&self, ordinal: i64) -> String {
        format!("{}-{ordinal}", self.set.metadata.name)
    }

    fn status(&self, plan: &mut Plan) -> StatefulSetStatus {
        let old = &self.set.status;
        let mut status = StatefulSetStatus {
            observed_generation: self.set.metadata.generation,
            current_revision: self.current.name().to_owned(),
            update_revision: self.update.name().to_owned(),
            collision_count: Some(old.collision_count.unwrap_or(0)),
            conditions: old.conditions.clone(),
            ..Default::default()
        };
        let count = |pods: usize| i32::try_from(pods).unwrap_or(i32::MAX);
        let [replicas, ready, available] = self.sums.counts();
        status.replicas = count(replicas);
        status.ready_replicas = count(ready);
        status.available_replicas = count(available);
        status.current_replicas = count(self.sums.of_revision(self.current.name()));
        status.updated_replicas = count(self.sums.of_revision(self.update.name()));
        let next = self.sums.next_time();
        next.into_iter().for_each(|time| plan.look_at(time));
        let wanted = self.set.spec.replicas.unwrap_or(1);
        let counts = [
            status.updated_replicas,
            status.ready_replicas,
            status.replicas,
        ];
        let is_rolling = self.set.spec.update_strategy.type_ != "OnDelete";
        if is_rolling && counts.iter().all(|count| *count == wanted) {
            status.current_replicas = status.updated_replicas;
            status.current_revision = status.update_revision.clone();
        }
        status
    }
}

/// Deletes a member that has ended, whatever its exit code: another of its name follows. `None`
/// if it has not; nothing to delete if it is going.
fn replace_ended(member: &Member<'_>) -> Option<Option<Write>> {
    let delete = || (!member.is_going()).then(|| Write::delete(member.stored));
    member.pod.is_finished().then(delete)
}

/// The labels that the name of a member says.
fn identity_labels(ordinal: i64, pod: &Pod) -> [(&'static str, String); 2] {
    [
        (NAME_LABEL, pod.metadata.name.clone()),
        (INDEX_LABEL, ordinal.to_string()),
    ]
}

/// Gives a member the labels that its name says, unless it has that with its name.
fn put_right(ordinal: i64, member: &Member<'_>) -> Option<Write> {
    if has_identity(member.pod) {
        return None;
    }
    let labels: serde_json::Map<String, serde_json::Value> = identity_labels(ordinal, member.pod)
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    Some(Write::patch(
        member.stored,
        json!({"metadata": {"labels": labels}}),
    ))
}

/// Whether a pod has the label that says its name. That with its number is not looked at.
fn has_identity(pod: &Pod) -> bool {
    pod.metadata.labels.get(NAME_LABEL) == Some(&pod.metadata.name)
}

//! Deployments: a ReplicaSet for each template there has been, and the way from one to the next.
//!
//! The ReplicaSet of the current template grows while those of earlier ones shrink, with never
//! more pods than `maxSurge` allows and never fewer available than `maxUnavailable` does; or, with
//! the strategy `Recreate`, all old pods go before the first new one comes. If somebody scales
//! the Deployment on the way, or while it is paused, all its ReplicaSets are scaled in
//! proportion. Old ReplicaSets are kept up to a limit, as rolling back needs their templates.
//!
//! One call makes one move: it is called again when that has been written.
//!
//! * `revision`: the ReplicaSet of the current template, and its number; `rollback`: going back;
//! * `scaling`: who has how many pods;
//! * `status`: counts and conditions.
//!
//! Source: `pkg/controller/deployment`, Kubernetes 1.36.

mod revision;
mod rollback;
mod scaling;
mod status;

use std::sync::Arc;

use outrank_api::decode::ObjectKind;
use outrank_api::labels::Selector;
use outrank_api::types::{Deployment, LabelSelector, Pod, ReplicaSet};
use serde_json::json;

use crate::claim::{claim, owned};
use crate::controller::{Controller, Plan};
use crate::replica_set::owners;
use crate::world::{Key, Kind, Seen, Stored, World};
use crate::write::{Event, Outcome, Refusal, Write};

use self::revision::Revision;

pub(crate) use self::scaling::scaled;

/// The controller of Deployments.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeploymentController;

impl Controller for DeploymentController {
    fn name(&self) -> &'static str {
        "deployment-controller"
    }

    fn concerned(&mut self, seen: &Seen, world: &World, _: i64) -> Vec<Key> {
        match &seen.key.kind {
            Kind::Known(ObjectKind::Deployment) => vec![seen.key.clone()],
            Kind::Known(ObjectKind::ReplicaSet) => owners::<Deployment>(seen, world),
            // The last old pod to go lets the first new one come.
            Kind::Known(ObjectKind::Pod) => {
                let is_over = match seen.both::<Pod>() {
                    [Some(old), Some(new)] => new.is_finished() && !old.is_finished(),
                    [Some(_), None] => true,
                    _ => false,
                };
                match is_over {
                    true => Vec::from_iter(recreated_owner(seen, world)),
                    false => Vec::new(),
                }
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&mut self, key: &Key, world: &World, now: i64) -> Plan {
        let mut plan = Plan::nothing();
        let Some(stored) = world.stored(key) else {
            return plan;
        };
        let Some(deployment) = stored.get::<Deployment>() else {
            return plan;
        };
        if selects_everything(deployment) {
            refuse_to_select_everything(stored, deployment, &mut plan);
            return plan;
        }
        if let Some(rollout) = Rollout::of(stored, deployment, world, now, &mut plan) {
            rollout.go_on(&mut plan);
        }
        plan
    }

    fn refused(
        &mut self,
        key: &Key,
        world: &World,
        now: i64,
        refusals: &[(Write, Refusal)],
    ) -> Vec<Write> {
        let creation = refusals.iter().find_map(|(write, refusal)| match write {
            Write::Create(create) => Some((create, refusal)),
            _ => None,
        });
        let (Some(stored), Some((create, refusal))) = (world.stored(key), creation) else {
            return Vec::new();
        };
        match stored.get::<Deployment>() {
            Some(it) => revision::refused(stored, it, create, refusal, now),
            None => Vec::new(),
        }
    }

    fn tell(&self, key: &Key, world: &World, write: &Write, outcome: &Outcome) -> Option<Event> {
        let about = world.stored(key)?;
        let Outcome::Stored(stored) = outcome else {
            return None;
        };
        let (set, new) = (stored.metadata(), stored.get::<ReplicaSet>()?);
        let new = new.spec.replicas.unwrap_or(1);
        let old = match write {
            Write::Create(_) => 0,
            Write::Patch(patch) => world.get::<ReplicaSet>(&patch.key)?.spec.replicas?,
            _ => return None,
        };
        let direction = if new > old { "up" } else { "down" };
        let name = &set.name;
        let message = format!("Scaled {direction} replica set {name} from {old} to {new}");
        (new != old).then(|| Event::normal(about, "ScalingReplicaSet", message))
    }
}

/// The Deployment of a pod that is over, if it waits for that.
fn recreated_owner(seen: &Seen, world: &World) -> Option<Key> {
    let pod = seen.old.as_ref()?.metadata();
    let set = world.with_uid(&pod.controller()?.uid)?;
    let owner = world.with_uid(&set.metadata().controller()?.uid)?;
    let deployment = owner.get::<Deployment>()?;
    (deployment.spec.strategy.type_ == "Recreate").then(|| owner.key())
}

fn selects_everything(deployment: &Deployment) -> bool {
    deployment.spec.selector == Some(LabelSelector::default())
}

fn refuse_to_select_everything(stored: &Stored, deployment: &Deployment, plan: &mut Plan) {
    let message = "This deployment is selecting all pods. A non-empty selector is required.";
    let mut status = deployment.status.clone();
    status.observed_generation = deployment.metadata.generation;
    if let Some(write) = Write::status(stored, &deployment.status, &status) {
        let event = Event::warning(stored, "SelectingAll", message.to_owned());
        plan.step([Write::Event(event), write]);
    }
}

/// A Deployment with its ReplicaSets.
struct Rollout<'w> {
    stored: &'w Stored,
    deployment: &'w Deployment,
    world: &'w World,
    now: i64,
    /// Counted with room to spare: sums of what people may write fit.
    replicas: i64,
    /// The ReplicaSet of the current template.
    new: Option<Set<'w>>,
    /// Those of others, the oldest first.
    old: Vec<Set<'w>>,
}

/// A ReplicaSet.
#[derive(Clone, Copy)]
struct Set<'w> {
    stored: &'w Arc<Stored>,
    set: &'w ReplicaSet,
}

impl Set<'_> {
    fn replicas(&self) -> i64 {
        self.set.spec.replicas.unwrap_or(1).into()
    }

    /// By creation, then by name.
    fn age(&self) -> (&Option<String>, &str) {
        let metadata = &self.set.metadata;
        (&metadata.creation_timestamp, &metadata.name)
    }
}

impl<'w> Rollout<'w> {
    /// `None` if the selector cannot be read.
    fn of(
        stored: &'w Stored,
        deployment: &'w Deployment,
        world: &'w World,
        now: i64,
        plan: &mut Plan,
    ) -> Option<Self> {
        let selector = Selector::from_label_selector(deployment.spec.selector.as_ref()).ok()?;
        let claimed = claim::<ReplicaSet>(world, stored, &selector, |_| true);
        plan.step(claimed.writes);
        let sets = claimed.own.into_iter();
        let sets = sets.filter_map(|stored| {
            Some(Set {
                stored,
                set: stored.get()?,
            })
        });
        let mut sets: Vec<Set<'w>> = sets.collect();
        sets.sort_by(|a, b| a.age().cmp(&b.age()));
        let template = &deployment.spec.template;
        let is_new = |it: &Set<'_>| crate::workloads::is_same(&it.set.spec.template, template);
        let new = sets.iter().position(is_new).map(|index| sets.remove(index));
        Some(Self {
            stored,
            deployment,
            world,
            now,
            replicas: deployment.spec.replicas.unwrap_or(1).into(),
            new,
            old: sets,
        })
    }

    fn go_on(&self, plan: &mut Plan) {
        if self.deployment.metadata.deletion_timestamp.is_some() {
            return self.write_counts(plan);
        }
        if self.note_pause(plan) {
            return;
        }
        if self.deployment.spec.paused {
            return self.scale(plan);
        }
        if let Some(revision) = self.rollback_to() {
            return self.roll_back(revision, plan);
        }
        if self.is_scaling() {
            return self.scale(plan);
        }
        match self.deployment.spec.strategy.type_.as_str() {
            "Recreate" => self.recreate(plan),
            _ => self.roll(plan),
        }
    }

    /// All ReplicaSets, the old ones first.
    fn all(&self) -> impl Iterator<Item = &Set<'w>> {
        self.old.iter().chain(&self.new)
    }

    /// Scales in proportion, where no rollout goes on.
    fn scale(&self, plan: &mut Plan) {
        if self.revise(false, plan).is_moving() {
            return;
        }
        plan.step(self.scale_in_proportion());
        if self.deployment.spec.paused && self.rollback_to().is_none() {
            self.clean_up(plan);
        }
        self.write_counts(plan);
    }

    /// A rolling update: up as far as there may be more, then down as far as there may be fewer.
    fn roll(&self, plan: &mut Plan) {
        let Revision::Ready(new) = self.revise(true, plan) else {
            return;
        };
        let up = self.new_size(&new);
        if up != new.replicas() {
            plan.step(self.resize(&new, up));
            return self.write_progress(plan);
        }
        let down = self.shrink_old(&new);
        if down.is_empty() && self.was_complete() {
            self.clean_up(plan);
        }
        down.into_iter().for_each(|step| plan.step(step));
        self.write_progress(plan);
    }

    /// All old pods go, then new ones come.
    fn recreate(&self, plan: &mut Plan) {
        if self.revise(false, plan).is_moving() {
            return;
        }
        let active = self.old.iter().filter(|it| it.replicas() > 0);
        let down: Vec<Write> = active.flat_map(|it| self.resize(it, 0)).collect();
        if !down.is_empty() || self.old_pods_run() {
            plan.step(down);
            return self.write_progress(plan);
        }
        let Revision::Ready(new) = self.revise(true, plan) else {
            return;
        };
        if new.replicas() != self.replicas {
            plan.step(self.resize(&new, self.replicas));
        }
        if self.was_complete() {
            self.clean_up(plan);
        }
        self.write_progress(plan);
    }

    /// Whether the rollout was complete when the status was last written.
    fn was_complete(&self) -> bool {
        let Deployment {
            metadata, status, ..
        } = self.deployment;
        self.is_complete(status) && status.observed_generation >= metadata.generation
    }

    fn old_pods_run(&self) -> bool {
        if self.old.iter().any(|it| it.set.status.replicas > 0) {
            return true;
        }
        let mut pods = self
            .old
            .iter()
            .flat_map(|set| owned::<Pod>(self.world, set.stored));
        pods.any(|pod| pod.get::<Pod>().is_some_and(|pod| !pod.is_finished()))
    }

    /// Deletes old ReplicaSets beyond the limit of history, those of the lowest revision first.
    fn clean_up(&self, plan: &mut Plan) {
        let Some(limit) = self.deployment.spec.revision_history_limit else {
            return;
        };
        let alive = self
            .old
            .iter()
            .filter(|it| it.set.metadata.deletion_timestamp.is_none());
        let mut alive: Vec<&Set<'_>> = alive.collect();
        let surplus = alive
            .len()
            .saturating_sub(usize::try_from(limit).unwrap_or(0));
        alive.sort_by_key(|it| revision::number(&it.set.metadata));
        let is_idle = |set: &ReplicaSet| {
            let is_observed = set.metadata.generation <= set.status.observed_generation;
            set.status.replicas == 0 && set.spec.replicas == Some(0) && is_observed
        };
        let idle = alive.iter().take(surplus).filter(|it| is_idle(it.set));
        plan.step(idle.map(|it| Write::delete(it.stored)));
    }

    /// Changes the numbers that a ReplicaSet carries; nothing if they are right.
    fn resize(&self, set: &Set<'_>, replicas: i64) -> Option<Write> {
        let replicas = scaling::within_range(replicas);
        let mut changes = json!({});
        if set.replicas() != i64::from(replicas) {
            changes["spec"]["replicas"] = replicas.into();
        }
        for (name, value) in self.size_annotations() {
            if set.set.metadata.annotations.get(name) != Some(&value) {
                changes["metadata"]["annotations"][name] = value.into();
            }
        }
        let is_nothing = changes.as_object().is_none_or(|it| it.is_empty());
        (!is_nothing).then(|| Write::patch(set.stored, changes))
    }
}

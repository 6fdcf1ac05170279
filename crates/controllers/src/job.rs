//! Jobs: pods that end, until enough have succeeded or too many have failed.
//!
//! A pod counts once, whatever happens to it: it has a finalizer, so it cannot vanish uncounted.
//! When it has ended its uid is written into the job's status, then the finalizer is removed, and
//! then the number in the status grows and the uid goes. A job that is over says so first
//! (`SuccessCriteriaMet`, `FailureTarget`), and finally (`Complete`, `Failed`) when all its pods
//! have ended and are counted.
//!
//! * `progress`: what the pods have come to, and whether the job is over;
//! * `tracking`: counting them;
//! * `pods`: making and deleting them;
//! * `policies`: what failures and successes mean; `indexes`: sets of numbers; `sums`: what is kept
//!   of the pods;
//! * [`ttl`]: jobs that are over go after a time.
//!
//! Source: `pkg/controller/job`, Kubernetes 1.36.

mod indexes;
mod pods;
mod policies;
mod progress;
mod sums;
mod tracking;
pub mod ttl;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use outrank_api::decode::ObjectKind;
use outrank_api::labels::Selector;
use outrank_api::types::{Job, Pod};
use serde_json::json;

use crate::conditions;
use crate::controller::{Controller, Plan};
use crate::roster::{Rosters, uid_of_gone};
use crate::world::{Key, Kind, Seen, Stored, World};
use crate::write::Write;

use self::progress::Progress;
use self::sums::{Basis, JobSums};

/// What keeps a pod until it is counted.
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Annotation and label with the number of a pod of an indexed Job.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How often the index of a pod has failed before, and how often that was ignored.
const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const INDEX_IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

const SECOND: i64 = 1_000_000_000;

/// The controller of Jobs.
#[derive(Clone, Debug, Default)]
pub struct JobController {
    /// By uid of the job.
    failures: HashMap<String, Failures>,
    rosters: Rosters<JobSums>,
}

/// Pods of a job that have failed since one last succeeded.
#[derive(Clone, Debug, Default)]
struct Failures {
    count: i32,
    /// When the last one failed.
    last: Option<i64>,
    /// The uids of those that have ended and are still held: they are known already.
    noted: HashSet<String>,
}

impl Controller for JobController {
    fn name(&self) -> &'static str {
        "job-controller"
    }

    fn concerned(&mut self, seen: &Seen, world: &World, _: i64) -> Vec<Key> {
        match &seen.key.kind {
            Kind::Known(ObjectKind::Job) => {
                let mut keys = vec![seen.key.clone()];
                self.rosters.note_owner(seen);
                let ended = seen.both::<Job>()[1].filter(|job| has_ended(job));
                let ended = ended.map(|job| &job.metadata.uid);
                for uid in uid_of_gone(seen).into_iter().chain(ended) {
                    self.failures.remove(uid);
                    // Nobody counts its pods any more.
                    let pods = world.dependents_of_kind(uid, ObjectKind::Pod);
                    let pods = pods.filter(|it| is_left_over(it, world));
                    keys.extend(pods.map(|it| it.key()));
                }
                keys
            }
            Kind::Known(ObjectKind::Pod) => {
                self.rosters.note(seen);
                let mut keys = jobs_of_pod(seen, world);
                if seen.new.as_ref().is_some_and(|it| is_left_over(it, world)) {
                    keys.push(seen.key.clone());
                }
                keys
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&mut self, key: &Key, world: &World, now: i64) -> Plan {
        let mut plan = Plan::nothing();
        let Some(stored) = world.stored(key) else {
            return plan;
        };
        match stored.get::<Job>() {
            Some(job) => self.go_on(stored, job, world, now, &mut plan),
            None if is_left_over(stored, world) => plan.step([without_finalizer(stored)]),
            None => {}
        }
        plan
    }
}

impl JobController {
    fn go_on(&mut self, stored: &Stored, job: &Job, world: &World, now: i64, plan: &mut Plan) {
        if is_others(job) || has_ended(job) {
            return;
        }
        let Ok(selector) = Selector::from_label_selector(job.spec.selector.as_ref()) else {
            return;
        };
        let roster = self.rosters.of(world, stored, &selector, &Basis::of(job));
        let claims = roster.claims(stored, |_| true).into_iter();
        plan.step(claims.map(|write| with_finalizer(write, world)));
        let sums = &roster.sums;
        let failures = self.failures.entry(job.metadata.uid.clone()).or_default();
        failures.note(job, sums);
        let turn = Turn {
            stored,
            job,
            now,
            sums,
            progress: Progress::of(job, sums, now, plan),
        };
        turn.track(plan);
        let wait = failures.wait_until();
        turn.manage(wait.filter(|time| *time > now), plan);
    }
}

/// A pod of a job.
#[derive(Clone, Copy)]
struct Member<'w> {
    stored: &'w Arc<Stored>,
    pod: &'w Pod,
    /// Its number, in an indexed job.
    index: Option<i32>,
}

impl Member<'_> {
    fn has_finalizer(&self) -> bool {
        has_finalizer(self.stored)
    }
}

/// One look at a job.
struct Turn<'w> {
    stored: &'w Stored,
    job: &'w Job,
    now: i64,
    sums: &'w JobSums,
    progress: Progress<'w>,
}

/// Whether a job is over, for good or ill.
pub(crate) fn has_ended(job: &Job) -> bool {
    let conditions = &job.status.conditions;
    conditions::is_true(conditions, "Complete") || conditions::is_true(conditions, "Failed")
}

/// Whether somebody else works on a job.
fn is_others(job: &Job) -> bool {
    let managed_by = job.spec.managed_by.as_deref();
    managed_by.is_some_and(|it| it != "kubernetes.io/job-controller")
}

fn is_suspended(job: &Job) -> bool {
    job.spec.suspend == Some(true)
}

/// How many pods must succeed, in a job whose pods have numbers.
fn indexed_completions(job: &Job) -> Option<i32> {
    let is_indexed = job.spec.completion_mode.as_deref() == Some("Indexed");
    job.spec.completions.filter(|_| is_indexed)
}

/// Whether a pod is only replaced when it has ended, not when it is going: what its failure means
/// is known only then.
fn replaces_failed_only(job: &Job) -> bool {
    let policy = job.spec.pod_replacement_policy.as_deref();
    policy == Some("Failed") || job.spec.pod_failure_policy.is_some()
}

/// Whether a pod counts as failed. One that is going may never come to say so, and counts at once
/// unless it is to be replaced only when it has failed.
fn has_failed(replaces_failed_only: bool, pod: &Pod) -> bool {
    match pod.status.phase.as_str() {
        "Failed" => true,
        "Succeeded" => false,
        _ => pod.metadata.deletion_timestamp.is_some() && !replaces_failed_only,
    }
}

/// Gives a pod that is adopted the finalizer, too, and takes it from one that is released.
fn with_finalizer(mut write: Write, world: &World) -> Write {
    if let Write::Patch(patch) = &mut write
        && let Some(pod) = world.stored(&patch.key)
    {
        let mut finalizers = pod.metadata().finalizers.clone();
        finalizers.retain(|it| it != FINALIZER);
        if pod.metadata().controller().is_none() {
            finalizers.push(FINALIZER.to_owned());
        }
        patch.changes["metadata"]["finalizers"] = json!(finalizers);
    }
    write
}

fn has_finalizer(stored: &Stored) -> bool {
    stored
        .metadata()
        .finalizers
        .iter()
        .any(|it| it == FINALIZER)
}

/// Whether a pod waits to be counted, and nobody will: its job is over or not there any more, or it
/// has none.
fn is_left_over(stored: &Stored, world: &World) -> bool {
    let is_uncounted = match stored.metadata().controller() {
        None => true,
        Some(owner) if owner.kind == "Job" => {
            let job = world.with_uid(&owner.uid);
            job.is_none_or(|it| {
                it.get::<Job>()
                    .is_some_and(|job| has_ended(job) && !is_others(job))
            })
        }
        Some(_) => false,
    };
    is_uncounted && has_finalizer(stored)
}

fn without_finalizer(stored: &Stored) -> Write {
    let mut finalizers = stored.metadata().finalizers.clone();
    finalizers.retain(|it| it != FINALIZER);
    Write::patch(stored, json!({"metadata": {"finalizers": finalizers}}))
}

/// The jobs that a change of a pod concerns.
fn jobs_of_pod(seen: &Seen, world: &World) -> Vec<Key> {
    crate::replica_set::owners::<Job>(seen, world)
}

//! Jobs that are over go after `ttlSecondsAfterFinished`.
//!
//! Source: `pkg/controller/ttlafterfinished`, Kubernetes 1.36.

use outrank_api::decode::ObjectKind;
use outrank_api::time::unix_nanos;
use outrank_api::types::Job;

use super::{SECOND, has_ended};
use crate::controller::{Controller, Plan};
use crate::world::{Key, Kind, Seen, World};
use crate::write::{Delete, Propagation, Write};

/// Deletes jobs that are over.
#[derive(Clone, Copy, Debug, Default)]
pub struct TtlAfterFinishedController;

impl Controller for TtlAfterFinishedController {
    fn name(&self) -> &'static str {
        "ttl-after-finished-controller"
    }

    fn concerned(&mut self, seen: &Seen, _: &World, _: i64) -> Vec<Key> {
        let is_job = seen.key.kind == Kind::Known(ObjectKind::Job);
        Vec::from_iter(is_job.then(|| seen.key.clone()))
    }

    fn reconcile(&mut self, key: &Key, world: &World, now: i64) -> Plan {
        let mut plan = Plan::nothing();
        let job = world.get::<Job>(key).filter(|job| has_ended(job));
        let Some(job) = job.filter(|job| job.metadata.deletion_timestamp.is_none()) else {
            return plan;
        };
        let (Some(seconds), Some(end)) = (job.spec.ttl_seconds_after_finished, end_of(job)) else {
            return plan;
        };
        let time = end.saturating_add(i64::from(seconds) * SECOND);
        if time > now {
            plan.look_at(time);
            return plan;
        }
        plan.step([Write::Delete(Delete {
            key: key.clone(),
            uid: Some(job.metadata.uid.clone()),
            resource_version: None,
            grace_seconds: None,
            propagation: Some(Propagation::Foreground),
        })]);
        plan
    }
}

/// When a job was over.
fn end_of(job: &Job) -> Option<i64> {
    let conditions = job.status.conditions.iter();
    let mut ends = conditions
        .filter(|it| it.status == "True" && matches!(it.type_.as_str(), "Complete" | "Failed"));
    ends.next()?
        .last_transition_time
        .as_deref()
        .and_then(unix_nanos)
}

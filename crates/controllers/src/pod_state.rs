//! What controllers ask of a pod: does it count, is it ready, for how long.

use outrank_api::time::{rfc3339, unix_nanos};
use outrank_api::types::{ContainerStatus, Pod, PodCondition};

const SECOND: i64 = 1_000_000_000;

/// Whether a pod counts for controllers: it has not ended and is not being deleted.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !pod.is_finished() && pod.metadata.deletion_timestamp.is_none()
}

/// Whether a pod is being deleted.
pub(crate) fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether a pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready(pod).is_some()
}

fn ready(pod: &Pod) -> Option<&PodCondition> {
    let mut conditions = pod.status.conditions.iter();
    conditions.find(|it| it.type_ == "Ready" && it.status == "True")
}

/// The statuses of the sidecars of a pod: init containers that are started again.
pub(crate) fn sidecar_statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let sidecars = pod.spec.init_containers.iter();
    let sidecars = sidecars.filter(|it| it.restart_policy.as_deref() == Some("Always"));
    let statuses = &pod.status.init_container_statuses;
    sidecars.filter_map(|it| statuses.iter().find(|status| status.name == it.name))
}

/// Whether a pod is available, which is when it has been ready for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// It is.
    Now,
    /// It will be at this time, if it stays ready: at the end of time if it does not say since
    /// when it is.
    At(i64),
    /// It is not ready.
    NotReady,
}

impl Availability {
    pub(crate) fn of(pod: &Pod, min_ready_seconds: i32, now: i64) -> Self {
        let Some(ready) = ready(pod) else {
            return Self::NotReady;
        };
        if min_ready_seconds <= 0 {
            return Self::Now;
        }
        let since = ready.last_transition_time.as_deref().and_then(unix_nanos);
        let wait = i64::from(min_ready_seconds) * SECOND;
        match since.map_or(i64::MAX, |since| since.saturating_add(wait)) {
            time if time <= now => Self::Now,
            time => Self::At(time),
        }
    }
}

/// Adds a condition, or puts it in place of the one of its type; the time of its last transition
/// is now, unless its status is as it was. False if nothing changes.
///
/// Source: `UpdatePodCondition` of `pkg/api/v1/pod/util.go`, Kubernetes 1.36.
pub fn set_condition(conditions: &mut Vec<PodCondition>, mut new: PodCondition, now: i64) -> bool {
    new.last_transition_time = Some(rfc3339(now));
    let Some(old) = conditions.iter_mut().find(|it| it.type_ == new.type_) else {
        conditions.push(new);
        return true;
    };
    if old.status == new.status {
        new.last_transition_time = old.last_transition_time.clone();
    }
    let has_changed = *old != new;
    *old = new;
    has_changed
}

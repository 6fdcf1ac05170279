//! What controllers ask of a pod: does it count, is it ready, for how long.

use outrank_api::time::unix_nanos;
use outrank_api::types::Pod;

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
    ready_since(pod).is_some()
}

/// Since when a pod is ready, in nanoseconds since 1970 (0 if it does not say); `None` if it is
/// not.
pub(crate) fn ready_since(pod: &Pod) -> Option<i64> {
    let mut conditions = pod.status.conditions.iter();
    let ready = conditions.find(|it| it.type_ == "Ready" && it.status == "True")?;
    let since = ready.last_transition_time.as_deref().and_then(unix_nanos);
    Some(since.unwrap_or(0))
}

/// Whether a pod is available, which is when it has been ready for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// It is.
    Now,
    /// It will be at this time, if it stays ready.
    At(i64),
    /// It is not ready.
    NotReady,
}

impl Availability {
    pub(crate) fn of(pod: &Pod, min_ready_seconds: i32, now: i64) -> Self {
        let Some(since) = ready_since(pod) else {
            return Self::NotReady;
        };
        let time = since.saturating_add(i64::from(min_ready_seconds).saturating_mul(SECOND));
        match min_ready_seconds <= 0 || time <= now {
            true => Self::Now,
            false => Self::At(time),
        }
    }
}

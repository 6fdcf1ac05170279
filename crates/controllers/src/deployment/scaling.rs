//! How many pods each ReplicaSet of a Deployment has.

use outrank_api::types::{Deployment, IntOrString};

use super::{Rollout, Set};
use crate::share;
use crate::write::Write;

/// How many replicas the Deployment wanted, and how many pods it allowed, when the ReplicaSet was
/// last scaled.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// A number, or a share of the whole; what cannot be read is 0.
pub(crate) fn scaled(number: Option<&IntOrString>, whole: i32, round_up: bool) -> i32 {
    let scaled = number.and_then(|number| share::scaled(number, whole, round_up));
    i32::try_from(scaled.unwrap_or(0)).unwrap_or(i32::MAX)
}

/// A number of pods as objects have it.
pub(super) fn within_range(pods: i64) -> i32 {
    i32::try_from(pods).unwrap_or(if pods < 0 { i32::MIN } else { i32::MAX })
}

/// How many pods there may be too many, and how many may be missing. If neither, one may be
/// missing: else nothing could ever move.
pub(super) fn leeway(deployment: &Deployment) -> (i64, i64) {
    let strategy = &deployment.spec.strategy;
    let replicas = deployment.spec.replicas.unwrap_or(1);
    if strategy.type_ == "Recreate" {
        return (0, 0);
    }
    let rolling = strategy.rolling_update.as_ref();
    let surge = rolling.and_then(|it| it.max_surge.as_ref());
    let surge = scaled(surge, replicas, true);
    let unavailable = rolling.and_then(|it| it.max_unavailable.as_ref());
    let unavailable = scaled(unavailable, replicas, false);
    let (surge, unavailable) = match (surge, unavailable) {
        (0, 0) => (0, 1.min(replicas)),
        (surge, unavailable) => (surge, unavailable.min(replicas)),
    };
    (surge.into(), unavailable.into())
}

impl Rollout<'_> {
    fn max_surge(&self) -> i64 {
        leeway(self.deployment).0
    }

    fn min_available(&self) -> i64 {
        self.replicas - leeway(self.deployment).1
    }

    /// What ReplicaSets are told of the Deployment's size.
    pub(super) fn size_annotations(&self) -> [(&'static str, String); 2] {
        let max = within_range(self.replicas + self.max_surge());
        [(DESIRED, self.replicas.to_string()), (MAX, max.to_string())]
    }

    /// Whether somebody has scaled the Deployment since its ReplicaSets were.
    pub(super) fn is_scaling(&self) -> bool {
        let mut active = self.all().filter(|it| it.replicas() > 0);
        active.any(|it| annotation(it, DESIRED).is_some_and(|it| it != self.replicas))
    }

    /// The size of a ReplicaSet of the current template that is made now.
    pub(super) fn first_size(&self) -> i64 {
        if self.deployment.spec.strategy.type_ == "Recreate" {
            return self.replicas;
        }
        self.grown(0)
    }

    /// The size that the ReplicaSet of the current template may have next.
    pub(super) fn new_size(&self, new: &Set<'_>) -> i64 {
        match new.replicas() {
            size if size >= self.replicas => self.replicas,
            size => self.grown(size),
        }
    }

    fn grown(&self, size: i64) -> i64 {
        let there: i64 = self.all().map(Set::replicas).sum();
        let room = (self.replicas + self.max_surge()) - there;
        size + room.min(self.replicas - size).max(0)
    }

    /// Takes pods from old ReplicaSets, first those that are not available, then as many as are
    /// available beyond need: in steps.
    pub(super) fn shrink_old(&self, new: &Set<'_>) -> Vec<Vec<Write>> {
        let there: i64 = self.all().map(Set::replicas).sum();
        let available = |set: &Set<'_>| i64::from(set.set.status.available_replicas);
        let lacking = new.replicas() - available(new);
        let removable = there - self.min_available() - lacking;
        // What those without pods still say of them does not count.
        let old: Vec<&Set<'_>> = self.old.iter().filter(|it| it.replicas() > 0).collect();
        let mut sizes: Vec<i64> = old.iter().map(|it| it.replicas()).collect();
        if removable <= 0 || old.is_empty() {
            return Vec::new();
        }
        let mut left = removable;
        let mut unhealthy = Vec::new();
        for (set, size) in old.iter().zip(&mut sizes) {
            if left > 0 && *size < available(set) {
                // It has been shrunk, and does not say yet that pods have gone.
                return Vec::from_iter((!unhealthy.is_empty()).then_some(unhealthy));
            }
            let count = (*size - available(set)).clamp(0, left);
            left -= count;
            *size -= count;
            unhealthy.extend((count > 0).then(|| self.resize(set, *size)).flatten());
        }
        let there: i64 = old.iter().map(|it| available(it)).sum::<i64>() + available(new);
        let mut left = there - self.min_available();
        let mut surplus = Vec::new();
        for (set, size) in old.iter().zip(&mut sizes) {
            let count = (*size).min(left).max(0);
            left -= count;
            *size -= count;
            surplus.extend((count > 0).then(|| self.resize(set, *size)).flatten());
        }
        let steps = [unhealthy, surplus].into_iter();
        steps.filter(|step| !step.is_empty()).collect()
    }

    /// Follows the Deployment's size where no rollout goes on, or while it is paused.
    pub(super) fn scale_in_proportion(&self) -> Vec<Write> {
        if let Some(only) = self.active_or_latest() {
            let is_right = only.replicas() == self.replicas;
            return match is_right {
                true => Vec::new(),
                false => Vec::from_iter(self.resize(only, self.replicas)),
            };
        }
        let mut active: Vec<&Set<'_>> = self.all().filter(|it| it.replicas() > 0).collect();
        if self.new.as_ref().is_some_and(|new| self.is_saturated(new)) {
            let old = self.old.iter().filter(|it| it.replicas() > 0);
            return old.flat_map(|it| self.resize(it, 0)).collect();
        }
        if self.deployment.spec.strategy.type_ == "Recreate" {
            return Vec::new();
        }
        let there: i64 = active.iter().map(|it| it.replicas()).sum();
        let allowed = match self.replicas {
            0 => 0,
            replicas => replicas + self.max_surge(),
        };
        let to_add = allowed - there;
        // The largest first; of equal ones the newest grows first and the oldest shrinks first.
        active.sort_by(|a, b| {
            let by_age = match to_add > 0 {
                true => b.age().cmp(&a.age()),
                false => a.age().cmp(&b.age()),
            };
            b.replicas().cmp(&a.replicas()).then(by_age)
        });
        let mut left = to_add;
        let mut sizes: Vec<i64> = Vec::new();
        for set in &active {
            let share = self.share(set, left, to_add);
            left -= share;
            sizes.push(set.replicas() + share);
        }
        if let Some(first) = sizes.first_mut() {
            *first = (*first + left).max(0);
        }
        let sized = active.iter().zip(sizes);
        sized
            .flat_map(|(set, size)| self.resize(set, size))
            .collect()
    }

    /// The only ReplicaSet with pods, or the latest if none has any; `None` if several have.
    fn active_or_latest(&self) -> Option<&Set<'_>> {
        let mut active = self.all().filter(|it| it.replicas() > 0);
        match (active.next(), active.next()) {
            (Some(only), None) => Some(only),
            (None, _) => self.new.as_ref().or(self.old.last()),
            _ => None,
        }
    }

    /// Whether the current template has all the pods that it should have, available.
    fn is_saturated(&self, new: &Set<'_>) -> bool {
        new.replicas() == self.replicas
            && annotation(new, DESIRED) == Some(self.replicas)
            && i64::from(new.set.status.available_replicas) == self.replicas
    }

    /// How many of the pods to add (or to take, if negative) are for a ReplicaSet; `left` are
    /// not given away yet.
    fn share(&self, set: &Set<'_>, left: i64, to_add: i64) -> i64 {
        let size = set.replicas();
        if size == 0 || left == 0 {
            return 0;
        }
        let share = match self.replicas {
            0 => -size,
            replicas => {
                let allowed = (replicas + self.max_surge()) as f64;
                let before = annotation(set, MAX).filter(|it| *it != 0);
                match before.unwrap_or(self.deployment.status.replicas.into()) {
                    0 => 0,
                    before => {
                        let new = (size as f64 * allowed / before as f64).round();
                        // As upstream does, to 32 bits.
                        i64::from(new as i32) - size
                    }
                }
            }
        };
        match to_add > 0 {
            true => share.min(left),
            false => share.max(left),
        }
    }
}

/// A number in an annotation, if it is written in digits alone.
fn annotation(set: &Set<'_>, name: &str) -> Option<i64> {
    let text = set.set.metadata.annotations.get(name)?;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number: i32 = text.parse().ok().filter(|_| is_plain)?;
    Some(number.into())
}

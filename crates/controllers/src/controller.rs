//! What a controller is: a rule that says, of one object, what to write so that the cluster
//! becomes as the object wants it.
//!
//! To write one: say in [`Controller::concerned`] whose business a change is, and in
//! [`Controller::reconcile`] what to do about it. It is called again after each of its writes
//! and whenever something changes, so it says what is next and not all that will be needed.

use outrank_api::decode::ObjectKind;

use crate::world::{Key, Kind, Seen, World};
use crate::write::{Event, Outcome, Refusal, Write};

/// One controller. Time is in nanoseconds since 1970, as in [`outrank_api::time`].
pub trait Controller {
    /// The name, such as `replicaset-controller`, under which events come.
    fn name(&self) -> &'static str;

    /// The objects to look at after a change, which `world` has already taken. Every change comes
    /// here once, in its order, so that a controller can keep sums in step with it: a look at an
    /// object should cost what has changed, not all that there is.
    fn concerned(&mut self, seen: &Seen, world: &World, now: i64) -> Vec<Key>;

    /// What to do about an object, which may have gone.
    fn reconcile(&mut self, key: &Key, world: &World, now: i64) -> Plan;

    /// What to write down about refusals, after which the rest of the plan is left out and the
    /// object looked at again later.
    fn refused(
        &mut self,
        key: &Key,
        world: &World,
        now: i64,
        refusals: &[(Write, Refusal)],
    ) -> Vec<Write> {
        let _ = (key, world, now, refusals);
        Vec::new()
    }

    /// What to tell people about a write. As most controllers, of the pods that they make and
    /// delete.
    fn tell(&self, key: &Key, world: &World, write: &Write, outcome: &Outcome) -> Option<Event> {
        tell_of_pods(key, world, write, outcome)
    }
}

/// What to do about one object.
#[derive(Debug, Default)]
pub struct Plan {
    /// What to write, step by step: if a write of a step is refused, the steps after it are left
    /// out.
    pub steps: Vec<Vec<Write>>,
    /// When to look again even if nothing changes.
    pub look_again: Option<i64>,
}

impl Plan {
    /// Nothing to do.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Adds a step; one without writes is none.
    pub fn step(&mut self, writes: impl IntoIterator<Item = Write>) {
        let writes: Vec<Write> = writes.into_iter().collect();
        if !writes.is_empty() {
            self.steps.push(writes);
        }
    }

    /// Adds steps of 1, 2, 4, ... writes: what is refused once is mostly refused each time, and
    /// so few writes are wasted.
    pub fn slow_start(&mut self, writes: impl IntoIterator<Item = Write>) {
        let mut writes = writes.into_iter();
        let mut size = 1;
        loop {
            let step: Vec<Write> = writes.by_ref().take(size).collect();
            if step.is_empty() {
                return;
            }
            self.steps.push(step);
            size *= 2;
        }
    }

    /// Looks again at a time, or before. The end of time does not come.
    pub fn look_at(&mut self, time: i64) {
        if time == i64::MAX {
            return;
        }
        self.look_again = Some(self.look_again.map_or(time, |known| known.min(time)));
    }
}

/// The events of controllers that make and delete pods.
///
/// Source: `pkg/controller/controller_utils.go`, `RealPodControl`, Kubernetes 1.36.
pub fn tell_of_pods(key: &Key, world: &World, write: &Write, outcome: &Outcome) -> Option<Event> {
    let about = world.stored(key)?;
    let is_pod = |kind: &Kind| *kind == Kind::Known(ObjectKind::Pod);
    match (write, outcome) {
        (Write::Create(create), Outcome::Refused(refusal))
            if create.object.kind() == ObjectKind::Pod =>
        {
            let message = format!("Error creating: {}", refusal.message);
            let is_told = !refusal.namespace_ends();
            is_told.then(|| Event::warning(about, "FailedCreate", message))
        }
        (Write::Create(create), Outcome::Stored(pod))
            if create.object.kind() == ObjectKind::Pod =>
        {
            let message = format!("Created pod: {}", pod.metadata().name);
            Some(Event::normal(about, "SuccessfulCreate", message))
        }
        (Write::Delete(delete), Outcome::Refused(refusal)) if is_pod(&delete.key.kind) => {
            let message = format!("Error deleting: {}", refusal.message);
            let is_told = !refusal.is_not_found();
            is_told.then(|| Event::warning(about, "FailedDelete", message))
        }
        (Write::Delete(delete), _) if is_pod(&delete.key.kind) => {
            let message = format!("Deleted pod: {}", delete.key.name);
            Some(Event::normal(about, "SuccessfulDelete", message))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::Delete;

    #[test]
    fn steps_double() {
        let delete = |n: usize| Delete {
            key: Key::new(ObjectKind::Pod, "n", &n.to_string()),
            uid: None,
            resource_version: None,
            grace_seconds: None,
            propagation: None,
        };
        let mut plan = Plan::nothing();
        plan.slow_start((0..10).map(|n| Write::Delete(delete(n))));
        let sizes: Vec<usize> = plan.steps.iter().map(Vec::len).collect();
        assert_eq!(sizes, [1, 2, 4, 3]);
    }
}

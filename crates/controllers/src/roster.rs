//! Rosters: the pods of each set, and sums over them, kept in step with the world.
//!
//! A controller is called again whenever one of its pods changes. If it then looked at all of
//! them, the cost of a set would grow with the square of its pods. So it keeps a roster instead:
//! [`Rosters::note`] takes each change once, [`Rosters::of`] makes the roster of a set when it is
//! first asked for, and anew when what it depends on has changed. What is summed up is for the
//! controller to say ([`Sums`]).
//!
//! Beside the pods, a roster knows those that a set is to release since its selector does not
//! match them any more, and those that it may adopt: what [`claim`](crate::claim::claim) finds by
//! looking at all of them.

use std::collections::HashMap;
use std::sync::Arc;

use outrank_api::decode::Typed;
use outrank_api::labels::Selector;
use outrank_api::types::Pod;

use crate::claim::{adopt, release};
use crate::world::{Key, Objects, Seen, Stored, World};
use crate::write::Write;

/// Sums over pods. What is added must be what is taken away again: it may depend on nothing but
/// the pod and what the sums were made with.
pub(crate) trait Sums {
    /// What the sums depend on beside the pods.
    type Basis: Clone + PartialEq + std::fmt::Debug;

    /// The sums over no pods.
    fn of(basis: &Self::Basis) -> Self;

    /// Counts a pod.
    fn add(&mut self, key: &Key, stored: &Arc<Stored>, pod: &Pod);

    /// Takes a pod back that was counted as it is.
    fn take(&mut self, key: &Key, stored: &Arc<Stored>, pod: &Pod);

    /// Whether a pod with the right labels may belong to the set.
    fn fits(&self, pod: &Pod) -> bool {
        let _ = pod;
        true
    }
}

/// The rosters of all sets of a controller, by uid.
#[derive(Clone, Debug)]
pub(crate) struct Rosters<S: Sums> {
    by_owner: HashMap<String, Roster<S>>,
}

/// The pods of a set.
#[derive(Clone, Debug)]
pub(crate) struct Roster<S: Sums> {
    namespace: Arc<str>,
    selector: Selector,
    basis: S::Basis,
    /// Owned and matching and fit, by name.
    pods: Objects,
    /// Owned and not so.
    misfits: Objects,
    /// Matching and fit and owned by nobody.
    adoptable: Objects,
    /// Over `pods`.
    pub(crate) sums: S,
}

impl<S: Sums> Default for Rosters<S> {
    fn default() -> Self {
        Self {
            by_owner: HashMap::new(),
        }
    }
}

impl<S: Sums> Rosters<S> {
    /// Takes a change of a pod. To be called once for each, in their order.
    pub(crate) fn note(&mut self, seen: &Seen) {
        let [old, new] = [&seen.old, &seen.new].map(|it| it.as_ref().and_then(owner_uid));
        if let Some(uid) = old
            && let Some(roster) = self.by_owner.get_mut(uid)
        {
            roster.drop_pod(&seen.key);
        }
        if let (Some(uid), Some(stored)) = (new, &seen.new)
            && let Some(roster) = self.by_owner.get_mut(uid)
        {
            roster.take_in(&seen.key, stored);
        }
        let is_free =
            |it: &Option<Arc<Stored>>, owner: Option<&String>| it.is_some() && owner.is_none();
        if is_free(&seen.old, old) || is_free(&seen.new, new) {
            let free = seen.new.as_ref().filter(|_| new.is_none());
            self.note_free(&seen.key, free);
        }
    }

    /// The sums of all rosters, for what they know beside pods.
    pub(crate) fn all_sums(&mut self) -> impl Iterator<Item = &mut S> {
        self.by_owner.values_mut().map(|roster| &mut roster.sums)
    }

    /// The sums of the set with this uid, if it has a roster.
    pub(crate) fn sums_of(&mut self, uid: &str) -> Option<&mut S> {
        self.by_owner.get_mut(uid).map(|roster| &mut roster.sums)
    }

    /// Takes a change of a set: one that is no more has no roster.
    pub(crate) fn note_owner(&mut self, seen: &Seen) {
        if let Some(uid) = uid_of_gone(seen) {
            self.by_owner.remove(uid);
        }
    }

    /// The roster of a set.
    pub(crate) fn of(
        &mut self,
        world: &World,
        owner: &Stored,
        selector: &Selector,
        basis: &S::Basis,
    ) -> &mut Roster<S> {
        let metadata = owner.metadata();
        let is_known = self
            .by_owner
            .get(&metadata.uid)
            .is_some_and(|it| it.selector == *selector && it.basis == *basis);
        if !is_known {
            let roster = Roster::made(world, owner, selector, basis);
            self.by_owner.insert(metadata.uid.clone(), roster);
        }
        self.by_owner
            .entry(metadata.uid.clone())
            .or_insert_with(|| Roster::empty(&metadata.namespace, selector, basis))
    }

    /// A pod without controller has come, has changed or, if there is none now, has gone.
    fn note_free(&mut self, key: &Key, pod: Option<&Arc<Stored>>) {
        let rosters = self.by_owner.values_mut();
        for roster in rosters.filter(|it| it.namespace == key.namespace) {
            roster.adoptable.remove(key);
            if let Some(pod) = pod {
                roster.note_adoptable(key, pod);
            }
        }
    }
}

impl<S: Sums> Roster<S> {
    fn empty(namespace: &str, selector: &Selector, basis: &S::Basis) -> Self {
        Self {
            namespace: namespace.into(),
            selector: selector.clone(),
            basis: basis.clone(),
            pods: Objects::new(),
            misfits: Objects::new(),
            adoptable: Objects::new(),
            sums: S::of(basis),
        }
    }

    fn made(world: &World, owner: &Stored, selector: &Selector, basis: &S::Basis) -> Self {
        let metadata = owner.metadata();
        let mut roster = Self::empty(&metadata.namespace, selector, basis);
        for stored in world.dependents_of_kind(&metadata.uid, Pod::KIND) {
            if owner_uid(stored) == Some(&metadata.uid) {
                roster.take_in(&stored.key(), stored);
            }
        }
        for stored in world.orphans_stored::<Pod>(&metadata.namespace) {
            roster.note_adoptable(&stored.key(), stored);
        }
        roster
    }

    /// Adoptions and releases of the pods that are looked at.
    pub(crate) fn claims(&self, owner: &Stored, is_seen: impl Fn(&Pod) -> bool) -> Vec<Write> {
        let metadata = owner.metadata();
        if metadata.deletion_timestamp.is_some() {
            return Vec::new();
        }
        let is_staying = |it: &&Arc<Stored>| {
            let pod = it.get::<Pod>().filter(|pod| is_seen(pod));
            pod.is_some_and(|it| it.metadata.deletion_timestamp.is_none())
        };
        let released = self.misfits.values().filter(is_staying);
        let released = released.map(|it| release(it, &metadata.uid));
        let adopted = self.adoptable.values().filter(is_staying);
        released.chain(adopted.map(|it| adopt(it, owner))).collect()
    }

    fn take_in(&mut self, key: &Key, stored: &Arc<Stored>) {
        let Some(pod) = stored.get::<Pod>() else {
            return;
        };
        // Without a selector, the reference alone decides.
        let selects_nothing = self.selector.requirements().is_none();
        let is_selected = selects_nothing || self.selector.matches(&pod.metadata.labels);
        if is_selected && self.sums.fits(pod) {
            self.sums.add(key, stored, pod);
            self.pods.insert(key.clone(), stored.clone());
        } else {
            self.misfits.insert(key.clone(), stored.clone());
        }
    }

    fn drop_pod(&mut self, key: &Key) {
        self.misfits.remove(key);
        if let Some(stored) = self.pods.remove(key)
            && let Some(pod) = stored.get::<Pod>()
        {
            self.sums.take(key, &stored, pod);
        }
    }

    fn note_adoptable(&mut self, key: &Key, stored: &Arc<Stored>) {
        let selector = &self.selector;
        let selects_some = selector.requirements().is_some() && !selector.is_empty();
        let is_selected = selects_some && selector.matches(&stored.metadata().labels);
        if is_selected && stored.get::<Pod>().is_some_and(|pod| self.sums.fits(pod)) {
            self.adoptable.insert(key.clone(), stored.clone());
        }
    }
}

/// The uid of an object that is no more; another of its name may have come.
pub(crate) fn uid_of_gone(seen: &Seen) -> Option<&String> {
    let uid = &seen.old.as_ref()?.metadata().uid;
    let new = seen.new.as_ref().map(|it| &it.metadata().uid);
    (new != Some(uid)).then_some(uid)
}

fn owner_uid(stored: &Arc<Stored>) -> Option<&String> {
    stored.metadata().controller().map(|owner| &owner.uid)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::claim::claim;
    use crate::world::Change;

    /// The names of the pods, as often as they were counted.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Names(std::collections::BTreeMap<String, i32>);

    impl Sums for Names {
        type Basis = ();

        fn of(_: &()) -> Self {
            Self::default()
        }

        fn add(&mut self, _: &Key, _: &Arc<Stored>, pod: &Pod) {
            *self.0.entry(pod.metadata.name.clone()).or_default() += 1;
        }

        fn take(&mut self, _: &Key, _: &Arc<Stored>, pod: &Pod) {
            let count = self.0.entry(pod.metadata.name.clone()).or_default();
            *count -= 1;
            if *count == 0 {
                self.0.remove(&pod.metadata.name);
            }
        }
    }

    fn set(uid: &str, label: &str) -> Stored {
        Stored::whole(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": uid, "namespace": "n", "uid": uid},
            "spec": {"selector": {"matchLabels": {"app": label}}},
        }))
    }

    fn pod(name: &str, label: &str, owner: Option<&str>) -> Value {
        let owners: Vec<Value> = owner
            .map(|uid| {
                json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": uid, "uid": uid,
                "controller": true})
            })
            .into_iter()
            .collect();
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n",
            "labels": {"app": label}, "ownerReferences": owners}})
    }

    /// What a roster says is what looking at everything says, whatever has happened.
    #[test]
    fn rosters_are_in_step_with_the_world() {
        let seed = 0x5eed_0001_u64;
        let mut state = seed;
        let mut below = move |end: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % end
        };
        let mut world = World::new();
        let mut rosters = Rosters::<Names>::default();
        let sets = [set("a", "a"), set("b", "b")];
        let owners = [None, Some("a"), Some("b"), Some("c")];
        for step in 0..4_000 {
            let name = format!("p{}", below(12));
            let change = match below(5) {
                0 => Change::Gone {
                    key: Key::new(outrank_api::decode::ObjectKind::Pod, "n", &name),
                    version: 0,
                },
                _ => {
                    let label = ["a", "b", "x"][below(3) as usize];
                    let owner = owners[below(4) as usize];
                    Change::Set(Arc::new(Stored::whole(pod(&name, label, owner))))
                }
            };
            if let Some(seen) = world.apply(change) {
                rosters.note(&seen);
            }
            let set = &sets[below(2) as usize];
            let selector = set.get::<outrank_api::types::ReplicaSet>();
            let selector = selector.and_then(|it| it.spec.selector.as_ref());
            let selector = Selector::from_label_selector(selector).expect("a selector");
            let roster = rosters.of(&world, set, &selector, &());
            let claimed = claim::<Pod>(&world, set, &selector, |_| true);
            let context = format!("step {step} of seed {seed:#x}");
            assert_eq!(roster.claims(set, |_| true), claimed.writes, "{context}");
            let own: Vec<&Arc<Stored>> = roster.pods.values().collect();
            assert_eq!(own, claimed.own, "{context}");
            let fresh = Roster::<Names>::made(&world, set, &selector, &());
            assert_eq!(roster.sums, fresh.sums, "{context}");
        }
    }
}

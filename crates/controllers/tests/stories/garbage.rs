//! What goes when owners go: stories, and random families held against a naive definition.

#[path = "../../../../tests/random.rs"]
mod random;

use std::collections::{BTreeMap, BTreeSet};

use outrank_controllers::garbage_collection::GarbageCollector;
use outrank_controllers::replica_set::ReplicaSetController;
use outrank_controllers::virtual_cluster::VirtualCluster;
use outrank_controllers::write::Propagation;
use outrank_controllers::{Controllers, Key};
use random::Random;
use serde_json::{Value, json};

use crate::story::{START, Story, delete_so, key};

fn story() -> Story {
    Story::of(Controllers::new(vec![
        Box::new(GarbageCollector::new()),
        Box::new(ReplicaSetController::new()),
    ]))
}

const WEB: &str = "
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
";

#[test]
fn in_the_background_pods_go_after_their_set() {
    let mut story = story().pods_take(0, 5);
    story.apply(WEB).wait(1);
    story.happened();
    story.delete_so("ReplicaSet web", Propagation::Background);
    assert!(!story.is_there("ReplicaSet web"));
    assert_eq!(
        story.pods(),
        ["web-* Running ready going", "web-* Running ready going"]
    );
    story.wait(5);
    assert_eq!(story.pods(), [""; 0]);
}

#[test]
fn in_the_foreground_the_set_waits_for_its_pods() {
    let mut story = story().pods_take(0, 5);
    story.apply(WEB).wait(1);
    story.delete_so("ReplicaSet web", Propagation::Foreground);
    let finalizers = &story.value("ReplicaSet web")["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["foregroundDeletion"]));
    story.wait(4);
    assert!(story.is_there("ReplicaSet web"));
    story.wait(1);
    assert!(!story.is_there("ReplicaSet web"));
    assert_eq!(story.pods(), [""; 0]);
}

#[test]
fn orphans_stay_and_know_no_owner_any_more() {
    let mut story = story();
    story.apply(WEB);
    story.delete_so("ReplicaSet web", Propagation::Orphan);
    assert!(!story.is_there("ReplicaSet web"));
    assert_eq!(story.pods(), ["web-* Running ready", "web-* Running ready"]);
    let pod = format!("Pod {}", story.pod_names()[0]);
    assert_eq!(
        story.value(&pod)["metadata"]["ownerReferences"],
        json!(null)
    );
    story.wait(100);
    assert_eq!(story.pods().len(), 2);
}

fn owned(story: &mut Story, name: &str, owners: Value) {
    story.cluster.create(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "ownerReferences": owners},
    }));
    story.cluster.settle();
}

fn reference(story: &Story, name: &str) -> Value {
    let uid = story.value(&format!("Service {name}"))["metadata"]["uid"].clone();
    json!({"apiVersion": "v1", "kind": "Service", "name": name, "uid": uid,
        "blockOwnerDeletion": true})
}

#[test]
fn an_owner_of_the_same_name_and_another_uid_is_none() {
    let mut story = story();
    owned(&mut story, "owner", json!([]));
    let mut other = reference(&story, "owner");
    other["uid"] = "another".into();
    owned(&mut story, "lost", json!([other]));
    assert!(!story.is_there("Service lost"));
    let owners = json!([other, reference(&story, "owner")]);
    owned(&mut story, "kept", owners);
    let left = &story.value("Service kept")["metadata"]["ownerReferences"];
    assert_eq!(*left, json!([reference(&story, "owner")]));
}

#[test]
fn an_owner_in_another_namespace_is_none_and_that_is_told() {
    let mut story = story();
    let elsewhere = story.cluster.create(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "far", "namespace": "other"},
    }));
    let uid = story.cluster.value(&elsewhere)["metadata"]["uid"].clone();
    story.cluster.settle();
    let owner = json!({"apiVersion": "v1", "kind": "Service", "name": "far", "uid": uid});
    owned(&mut story, "lost", json!([owner]));
    assert!(!story.is_there("Service lost"));
    let uid = uid.as_str().expect("a uid");
    let text = format!(
        "OwnerRefInvalidNamespace: ownerRef [v1/Service, namespace: default, name: far, uid: {uid}] \
         does not exist in namespace \"default\""
    );
    let told = story.happened();
    assert!(told.contains(&text), "{told}");
}

#[test]
fn owners_of_kinds_of_which_nothing_is_known_are_there() {
    let collector = GarbageCollector::knowing(|kind| kind.name() != "Rollout");
    let mut story = Story::of(Controllers::new(vec![Box::new(collector)]));
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Rollout", "name": "r", "uid": "u"});
    owned(&mut story, "kept", json!([owner]));
    story.wait(100);
    assert!(story.is_there("Service kept"));
    // Nor does an object lose other owners while it is not known of one whether it is there.
    let gone = json!({"apiVersion": "v1", "kind": "Service", "name": "gone", "uid": "another"});
    owned(&mut story, "both", json!([owner, gone]));
    story.wait(100);
    let left = &story.value("Service both")["metadata"]["ownerReferences"];
    assert_eq!(left.as_array().map(Vec::len), Some(2));
}

#[test]
fn owners_in_a_circle_go_in_the_foreground_too() {
    let mut story = story();
    for name in ["a", "b", "c"] {
        owned(&mut story, name, json!([]));
    }
    for (name, owner) in [("b", "a"), ("c", "b"), ("a", "c")] {
        let owners = json!([reference(&story, owner)]);
        story.change(
            &format!("Service {name}"),
            json!({"metadata": {"ownerReferences": owners}}),
        );
    }
    story.delete_so("Service a", Propagation::Foreground);
    for name in ["a", "b", "c"] {
        assert!(!story.is_there(&format!("Service {name}")), "{name}");
    }
}

#[test]
fn two_of_a_circle_that_are_deleted_in_the_foreground_wait_for_each_other() {
    let mut story = story();
    owned(&mut story, "a", json!([]));
    let owners = json!([reference(&story, "a")]);
    owned(&mut story, "b", owners);
    let owners = json!([reference(&story, "b")]);
    story.change(
        "Service a",
        json!({"metadata": {"ownerReferences": owners}}),
    );
    let services = ["a", "b"].map(|name| key(&format!("Service {name}")));
    for service in &services {
        delete_so(&mut story.cluster, service.clone(), Propagation::Foreground);
    }
    story.wait(1000);
    assert!(story.is_there("Service a") && story.is_there("Service b"));
}

/// Objects by number, each with its owners. An owner that is no object is not there.
struct Family {
    owners: Vec<BTreeSet<usize>>,
}

impl Family {
    fn random(random: &mut Random) -> Self {
        let size = 2 + random.below(9);
        let owners = (0..size).map(|me| {
            let count = random.below(4);
            // Mostly elder ones, sometimes anyone: then there may be circles.
            let mut owner = || match random.below(8) {
                0 => size + random.below(2),
                1 => random.below(size),
                _ => random.below(me.max(1)),
            };
            let owners = (0..count).map(|_| owner());
            owners.filter(|owner| *owner != me).collect()
        });
        let owners = owners.collect();
        Self { owners }
    }

    /// Those that are left if `gone` go and all that has owners goes with the last of them.
    fn left_without(&self, mut gone: BTreeSet<usize>) -> BTreeSet<usize> {
        let all = 0..self.owners.len();
        loop {
            let is_gone = |owner: &usize| gone.contains(owner) || *owner >= self.owners.len();
            let next = all.clone().find(|it| {
                let owners = &self.owners[*it];
                !gone.contains(it) && !owners.is_empty() && owners.iter().all(is_gone)
            });
            match next {
                Some(next) => gone.insert(next),
                None => return all.filter(|it| !gone.contains(it)).collect(),
            };
        }
    }
}

fn create(family: &Family, random: &mut Random) -> (VirtualCluster, Vec<Key>) {
    let controllers = Controllers::new(vec![Box::new(GarbageCollector::new())]);
    let mut cluster = VirtualCluster::new(controllers, START);
    let service =
        |name: String| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}});
    let keys = (0..family.owners.len()).map(|it| cluster.create(service(format!("s{it}"))));
    let keys: Vec<Key> = keys.collect();
    for (me, owners) in family.owners.iter().enumerate() {
        let references = owners.iter().map(|owner| {
            let key = keys.get(*owner);
            let uid = key.map(|key| cluster.value(key)["metadata"]["uid"].clone());
            json!({"apiVersion": "v1", "kind": "Service", "name": format!("s{owner}"),
                "uid": uid.unwrap_or_else(|| format!("u{owner}").into()),
                "blockOwnerDeletion": random.one_in(2)})
        });
        let references: Vec<Value> = references.collect();
        cluster.patch(
            &keys[me],
            json!({"metadata": {"ownerReferences": references}}),
        );
    }
    (cluster, keys)
}

/// The numbers of the objects that are there, each with the owners that it names.
fn there(cluster: &VirtualCluster, keys: &[Key]) -> BTreeMap<usize, BTreeSet<usize>> {
    let there = keys.iter().enumerate().filter_map(|(me, key)| {
        let metadata = cluster.stored(key)?.metadata();
        let names = metadata.owner_references.iter().map(|it| &it.name[1..]);
        Some((
            me,
            names.map(|name| name.parse().expect("a number")).collect(),
        ))
    });
    there.collect()
}

#[test]
fn of_random_families_those_are_left_that_should_be() {
    let mut sizes = BTreeMap::new();
    for seed in 0..3000 {
        let mut random = Random(seed);
        let family = Family::random(&mut random);
        let (mut cluster, keys) = create(&family, &mut random);
        cluster.run_seconds(10);
        let left = family.left_without(BTreeSet::new());
        let mut owners: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for it in &left {
            let own = family.owners[*it].intersection(&left);
            owners.insert(*it, own.copied().collect());
        }
        assert_eq!(there(&cluster, &keys), owners, "seed {seed}, before");

        cluster.lag = *random.pick(&[0, 0, 200_000_000]);
        let doomed: BTreeSet<usize> = left.iter().copied().filter(|_| random.one_in(4)).collect();
        let is_orphaning = random.one_in(3);
        let in_foreground = random.below(doomed.len());
        for (place, it) in doomed.iter().enumerate() {
            let propagation = match is_orphaning {
                true => Propagation::Orphan,
                false if place == in_foreground => Propagation::Foreground,
                false => Propagation::Background,
            };
            delete_so(&mut cluster, keys[*it].clone(), propagation);
        }
        cluster.run_seconds(4000);

        let family = Family {
            owners: (0..keys.len())
                .map(|it| owners.get(&it).cloned().unwrap_or_default())
                .collect(),
        };
        let never_there = (0..keys.len()).filter(|it| !left.contains(it));
        let gone: BTreeSet<usize> = doomed.iter().copied().chain(never_there).collect();
        let still = match is_orphaning {
            true => left.difference(&doomed).copied().collect(),
            false => family.left_without(gone),
        };
        let expected = still.iter().map(|it| {
            let own = family.owners[*it].intersection(&still);
            (*it, own.copied().collect::<BTreeSet<usize>>())
        });
        let expected: BTreeMap<usize, BTreeSet<usize>> = expected.collect();
        assert_eq!(
            there(&cluster, &keys),
            expected,
            "seed {seed}, {doomed:?} deleted"
        );
        *sizes.entry(left.len() - expected.len()).or_insert(0) += 1;
    }
    assert!(sizes.len() > 5, "{sizes:?}");
}

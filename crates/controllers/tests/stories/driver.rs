//! The driver: who gets a turn when, and what is believed.

use std::sync::Arc;

use outrank_api::decode::ObjectKind;
use outrank_controllers::replica_set::ReplicaSetController;
use outrank_controllers::{Change, Controllers, Key, Outcome, Refusal, Stored, Work, Write};
use serde_json::{Value, json};

fn stored(value: Value) -> Arc<Stored> {
    Arc::new(Stored::whole(value))
}

fn replica_set(version: u64, replicas: i32) -> Arc<Stored> {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}});
    let selector = json!({"matchLabels": {"a": "b"}});
    stored(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "n", "uid": "u", "generation": 1,
            "resourceVersion": version.to_string()},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
        "status": {"replicas": 0, "observedGeneration": 1, "terminatingReplicas": 0},
    }))
}

fn pod(name: &str, version: u64) -> Arc<Stored> {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u",
        "controller": true});
    stored(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"a": "b"},
            "resourceVersion": version.to_string(), "ownerReferences": [owner]},
        "spec": {"containers": []},
    }))
}

fn controllers(replicas: i32) -> Controllers {
    let mut controllers = Controllers::new(vec![Box::new(ReplicaSetController::new())]);
    controllers.handle(Change::Set(replica_set(1, replicas)), 0);
    controllers
}

/// The next work that is not only telling.
fn next_writes(controllers: &mut Controllers, now: i64) -> Option<Work> {
    while let Some(work) = controllers.next(now) {
        if !work
            .writes
            .iter()
            .all(|write| matches!(write, Write::Event(_)))
        {
            return Some(work);
        }
        let done = vec![Outcome::Done; work.writes.len()];
        controllers.done(work, done, now);
    }
    None
}

fn pods(controllers: &Controllers) -> usize {
    controllers.world().dependents("u").count()
}

#[test]
fn refusals_are_waited_out_ever_longer() {
    let mut controllers = controllers(1);
    let mut now = 0;
    let mut waits = Vec::new();
    for _ in 0..20 {
        while let Some(work) = next_writes(&mut controllers, now) {
            // The status stays as it was, so that nothing but time brings the next try.
            let refused = |_| {
                Outcome::Refused(Refusal {
                    message: "no".into(),
                    ..Refusal::default()
                })
            };
            let outcomes = work.writes.iter().map(refused).collect();
            controllers.done(work, outcomes, now);
        }
        let next = controllers.next_time().expect("it is tried again");
        waits.push((next - now) / 1_000_000);
        now = next;
    }
    assert_eq!(waits[..5], [5, 10, 20, 40, 80]);
    assert_eq!(waits[18..], [1_000_000, 1_000_000]);
}

#[test]
fn what_was_made_is_known_before_the_feed_tells() {
    let mut controllers = controllers(1);
    let work = next_writes(&mut controllers, 0).expect("a pod is made");
    assert!(matches!(work.writes[0], Write::Create(_)));
    controllers.done(work, vec![Outcome::Stored(pod("p", 2))], 0);
    assert_eq!(pods(&controllers), 1);
    while let Some(work) = next_writes(&mut controllers, 0) {
        assert!(!matches!(work.writes[0], Write::Create(_)), "a second pod");
        let done = vec![Outcome::Stored(replica_set(3, 1)); work.writes.len()];
        controllers.done(work, done, 0);
    }
    // The feed comes round to it: no news.
    controllers.handle(Change::Set(pod("p", 2)), 0);
    assert!(controllers.next(0).is_none());
}

#[test]
fn what_went_while_it_was_made_stays_away() {
    let mut controllers = controllers(1);
    let work = next_writes(&mut controllers, 0).expect("a pod is made");
    // Somebody deletes it, and the feed is faster than the answer.
    controllers.handle(Change::Set(pod("p", 2)), 0);
    let key = Key::new(ObjectKind::Pod, "n", "p");
    controllers.handle(Change::Gone { key, version: 3 }, 0);
    controllers.done(work, vec![Outcome::Stored(pod("p", 2))], 0);
    assert_eq!(pods(&controllers), 0);
    let work = next_writes(&mut controllers, 0).expect("another is made");
    assert!(matches!(work.writes[0], Write::Create(_)));
}

#[test]
fn old_news_changes_nothing() {
    let mut controllers = controllers(0);
    controllers.handle(Change::Set(pod("p", 5)), 0);
    let mut older = Stored::clone(&pod("p", 4));
    older = Stored::whole({
        let mut value = older.to_value();
        value["metadata"]["labels"] = json!({});
        value
    });
    controllers.handle(Change::Set(Arc::new(older)), 0);
    let key = Key::new(ObjectKind::Pod, "n", "p");
    let labels = &controllers
        .world()
        .stored(&key)
        .expect("it is there")
        .metadata()
        .labels;
    assert_eq!(labels["a"], "b");
    // The end of an earlier object of the name.
    controllers.handle(
        Change::Gone {
            key: key.clone(),
            version: 4,
        },
        0,
    );
    assert!(controllers.world().stored(&key).is_some());
    controllers.handle(
        Change::Gone {
            key: key.clone(),
            version: 6,
        },
        0,
    );
    assert!(controllers.world().stored(&key).is_none());
}

#[test]
fn a_refused_step_leaves_out_the_rest() {
    let mut controllers = controllers(7);
    let first = next_writes(&mut controllers, 0).expect("one pod first");
    assert_eq!(first.writes.len(), 1);
    controllers.done(first, vec![Outcome::Stored(pod("p0", 2))], 0);
    let second = next_writes(&mut controllers, 0).expect("then two");
    assert_eq!(second.writes.len(), 2);
    let refusal = Refusal {
        message: "full".into(),
        ..Refusal::default()
    };
    let outcomes = vec![Outcome::Stored(pod("p1", 3)), Outcome::Refused(refusal)];
    controllers.done(second, outcomes, 0);
    let status = next_writes(&mut controllers, 0).expect("what is told of it");
    let Write::Patch(patch) = &status.writes[0] else {
        panic!("{:?}", status.writes)
    };
    let condition = &patch.changes["status"]["conditions"][0];
    assert_eq!(
        (&condition["reason"], &condition["message"]),
        (&json!("FailedCreate"), &json!("full"))
    );
}

//! The threads of those who take part in the cluster: controllers, scheduler, kubelets.
//!
//! Each hears of changes, decides, and writes as any client would; none knows of the others. A
//! thread sleeps until there is news or something is due.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use outrank_api::decode::ObjectKind;
use outrank_apiserver::clock::Clock;
use outrank_controllers::{Change, Controllers, Key, Kind, Stored};
use outrank_node::kubelets::{Kubelets, request_of};
use outrank_node::write::Write as NodeWrite;
use outrank_scheduler::Scheduler;
use serde_json::json;

use crate::client::Client;
use crate::events::micros;

/// How long a thread sleeps at most.
const SLEEP_MAX: Duration = Duration::from_secs(5);

/// How many changes are taken before something is decided.
const CHANGES_MAX: usize = 1_024;

/// Takes news until something is due; false when there will be none any more.
fn listen(
    changes: &Receiver<Change>,
    next_time: Option<i64>,
    clock: &Clock,
    mut handle: impl FnMut(Change, i64),
) -> bool {
    let now = clock.now();
    let nanos = next_time.map(|time| time.saturating_sub(now).max(0));
    let sleep = nanos.map(|it| Duration::from_nanos(u64::try_from(it).unwrap_or(0)));
    match changes.recv_timeout(sleep.unwrap_or(SLEEP_MAX).min(SLEEP_MAX)) {
        Ok(change) => handle(change, clock.now()),
        Err(RecvTimeoutError::Timeout) => return true,
        Err(RecvTimeoutError::Disconnected) => return false,
    }
    for change in changes.try_iter().take(CHANGES_MAX) {
        handle(change, clock.now());
    }
    true
}

/// Runs controllers until there is no more news.
pub(crate) fn run_controllers(
    mut controllers: Controllers,
    mut client: Client,
    changes: Receiver<Change>,
) -> std::io::Result<JoinHandle<()>> {
    spawn("controllers", move || {
        let clock = client.server().clock().clone();
        for change in changes.try_iter() {
            controllers.handle(change, clock.now());
        }
        loop {
            while let Some(work) = controllers.next(clock.now()) {
                let writes = work.writes.clone();
                let outcomes = writes.iter();
                let outcomes = outcomes.map(|write| client.carry_out(work.controller, write));
                let outcomes = outcomes.collect();
                controllers.done(work, outcomes, clock.now());
                for change in changes.try_iter().take(CHANGES_MAX) {
                    controllers.handle(change, clock.now());
                }
            }
            let next_time = controllers.next_time();
            if !listen(&changes, next_time, &clock, |change, now| {
                controllers.handle(change, now);
            }) {
                return;
            }
        }
    })
}

/// Runs a scheduler until there is no more news.
pub(crate) fn run_scheduler(
    mut scheduler: Scheduler,
    name: String,
    mut client: Client,
    changes: Receiver<Change>,
) -> std::io::Result<JoinHandle<()>> {
    spawn("scheduler", move || {
        let clock = client.server().clock().clone();
        for change in changes.try_iter() {
            scheduler.handle(&change, clock.now());
        }
        loop {
            while let Some(work) = scheduler.next(clock.now()) {
                let writes = work.writes.iter();
                let outcomes = writes.map(|write| client.carry_out(&name, write)).collect();
                for write in scheduler.done(work, outcomes, clock.now()) {
                    client.carry_out(&name, &write);
                }
                for change in changes.try_iter().take(CHANGES_MAX) {
                    scheduler.handle(&change, clock.now());
                }
            }
            let next_time = scheduler.next_time();
            if !listen(&changes, next_time, &clock, |change, now| {
                scheduler.handle(&change, now);
            }) {
                return;
            }
        }
    })
}

/// Runs the kubelets of all nodes until there is no more news.
pub(crate) fn run_kubelets(
    mut client: Client,
    changes: Receiver<Change>,
) -> std::io::Result<JoinHandle<()>> {
    spawn("kubelets", move || {
        let clock = client.server().clock().clone();
        let mut kubelets = Kubelets::with_heartbeats();
        let mut known = Known::default();
        loop {
            for (node, write) in kubelets.advance(clock.now()) {
                carry_out(&mut client, &known, &node, write);
            }
            let next_time = kubelets.next_time();
            if !listen(&changes, next_time, &clock, |change, now| {
                known.handle(&change);
                kubelets.handle(&change, now);
            }) {
                return;
            }
        }
    })
}

/// The pods and nodes as kubelets were last told of them.
#[derive(Default)]
struct Known(std::collections::HashMap<Key, Arc<Stored>>);

impl Known {
    fn handle(&mut self, change: &Change) {
        const KINDS: [Kind; 2] = [Kind::Known(ObjectKind::Pod), Kind::Known(ObjectKind::Node)];
        match change {
            Change::Set(stored) if KINDS.contains(&stored.kind()) => {
                self.0.insert(stored.key(), stored.clone());
            }
            Change::Set(_) => {}
            Change::Gone { key, .. } => _ = self.0.remove(key),
        }
    }
}

fn carry_out(client: &mut Client, known: &Known, node: &str, write: NodeWrite) {
    if let NodeWrite::RenewLease { renew_time } = write {
        renew_lease(client, known, node, renew_time);
        return;
    }
    let request = request_of(node, write, |key| known.0.get(key).cloned());
    if let Some(request) = request {
        // The kubelet does not know whether its word was heard, and does not need to: what it
        // says next is said of the object as it is then.
        client.carry_out("kubelet", &request);
    }
}

fn renew_lease(client: &Client, known: &Known, node: &str, renew_time: i64) {
    let owner = known.0.get(&Key::new(ObjectKind::Node, "", node));
    let Some(owner) = owner else { return };
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": node, "namespace": "kube-node-lease",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node,
                "uid": owner.metadata().uid}]},
        "spec": {"holderIdentity": node,
            "leaseDurationSeconds": outrank_node::node_status::LEASE_DURATION_SECONDS,
            "renewTime": micros(renew_time)},
    });
    let _ = client.put(lease);
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(run)
}

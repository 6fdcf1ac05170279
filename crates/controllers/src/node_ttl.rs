//! How long kubelets may go by what they know of Secrets and ConfigMaps, in seconds, as an
//! annotation of nodes: nothing in small clusters, and minutes in large ones, where thousands of
//! kubelets would ask again and again.
//!
//! The classes of sizes overlap, so that a cluster at a border does not change back and forth. A
//! node is told when something else of it changes, which happens often enough.
//!
//! Source: `pkg/controller/ttl/ttl_controller.go`, Kubernetes 1.36.

use outrank_api::decode::ObjectKind;
use outrank_api::types::Node;
use serde_json::json;

use crate::controller::{Controller, Plan};
use crate::world::{Key, Kind, Seen, World};
use crate::write::{Event, Outcome, Write};

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Classes of clusters: down to how many nodes it stays one, from how many on it is of the next, and
/// the seconds.
const CLASSES: [(usize, usize, &str); 5] = [
    (0, 100, "0"),
    (90, 500, "15"),
    (450, 1_000, "30"),
    (900, 2_000, "60"),
    (1_800, usize::MAX, "300"),
];

/// The controller.
#[derive(Clone, Debug, Default)]
pub struct NodeTtlController {
    /// Nodes that there are.
    nodes: usize,
    /// The class of the cluster.
    class: usize,
}

impl NodeTtlController {
    fn count(&mut self, seen: &Seen) {
        match seen.both::<Node>() {
            [None, Some(_)] => self.nodes += 1,
            [Some(_), None] => self.nodes = self.nodes.saturating_sub(1),
            _ => {}
        }
        while self.nodes > CLASSES[self.class].1 && self.class + 1 < CLASSES.len() {
            self.class += 1;
        }
        while self.nodes < CLASSES[self.class].0 && self.class > 0 {
            self.class -= 1;
        }
    }
}

impl Controller for NodeTtlController {
    fn name(&self) -> &'static str {
        "ttl-controller"
    }

    fn concerned(&mut self, seen: &Seen, _: &World, _: i64) -> Vec<Key> {
        if seen.key.kind != Kind::Known(ObjectKind::Node) {
            return Vec::new();
        }
        self.count(seen);
        vec![seen.key.clone()]
    }

    fn reconcile(&mut self, key: &Key, world: &World, _: i64) -> Plan {
        let mut plan = Plan::nothing();
        let seconds = CLASSES[self.class].2;
        if let Some(node) = world.stored(key) {
            let annotations = &node.metadata().annotations;
            if annotations.get(ANNOTATION).map(|it| &**it) != Some(seconds) {
                let changes = json!({"metadata": {"annotations": {ANNOTATION: seconds}}});
                plan.step([Write::patch(node, changes)]);
            }
        }
        plan
    }

    fn tell(&self, _: &Key, _: &World, _: &Write, _: &Outcome) -> Option<Event> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(controller: &mut NodeTtlController, nodes: usize) -> &'static str {
        controller.nodes = nodes;
        let key = Key::new(ObjectKind::Node, "", "n");
        let seen = Seen {
            key,
            old: None,
            new: None,
        };
        controller.count(&seen);
        CLASSES[controller.class].2
    }

    #[test]
    fn classes_overlap() {
        let mut controller = NodeTtlController::default();
        let sizes = [
            (3, "0"),
            (100, "0"),
            (101, "15"),
            (95, "15"),
            (89, "0"),
            (5_000, "300"),
        ];
        for (nodes, seconds) in sizes {
            assert_eq!(class(&mut controller, nodes), seconds, "{nodes} nodes");
        }
        assert_eq!(class(&mut controller, 1_800), "300");
        assert_eq!(class(&mut controller, 1_799), "60");
    }
}

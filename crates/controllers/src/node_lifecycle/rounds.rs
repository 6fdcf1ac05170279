//! The rounds: who is heard of, how zones are, and whose turn it is to lose its pods.

use std::collections::BTreeMap;

use outrank_api::types::{Node, NodeCondition, Taint};

use super::health::{Health, ready, set_unknown};
use super::zones::{Zone, ZoneName, zone_of};
use super::{NOT_READY, NodeLifecycleOptions, UNREACHABLE, ZoneState};
use crate::world::World;

const SECOND: i64 = 1_000_000_000;

/// How often it is looked whether another node may get its taint.
const TAINT_PERIOD: i64 = SECOND / 10;

/// Nodes with this label do not count for the state of their zone.
const EXCLUDE_DISRUPTION: &str = "node.kubernetes.io/exclude-disruption";

/// What a round finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// The node is no longer heard of, and gets these conditions.
    Unknown {
        node: String,
        conditions: Vec<NodeCondition>,
    },
    /// The node was ready and is no longer heard of: its pods are not ready.
    Lost { node: String },
    /// The node is to have this `NoExecute` taint, or none of ours.
    NoExecute {
        node: String,
        key: Option<&'static str>,
    },
    /// People are to know something of the node.
    Event {
        node: String,
        uid: String,
        reason: &'static str,
        message: String,
    },
}

/// What is remembered from round to round.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    options: NodeLifecycleOptions,
    /// The first round; the others are counted from it.
    started_at: Option<i64>,
    last_round: Option<i64>,
    /// When something became new that the last round has not seen.
    changed_at: Option<i64>,
    nodes: BTreeMap<String, KnownNode>,
    zones: BTreeMap<ZoneName, Zone>,
}

#[derive(Clone, Debug)]
struct KnownNode {
    uid: String,
    health: Health,
    /// When it is unknown if nothing is heard of it until then; `None` if it is already, or is
    /// taken at its word.
    lost_at: Option<i64>,
}

/// How many nodes of a zone are ready, and how many not.
type Counts = BTreeMap<ZoneName, (usize, usize)>;

impl Rounds {
    pub(super) fn new(options: NodeLifecycleOptions) -> Self {
        Rounds {
            options,
            started_at: None,
            last_round: None,
            changed_at: Some(i64::MIN),
            nodes: BTreeMap::new(),
            zones: BTreeMap::new(),
        }
    }

    pub(super) fn something_changed(&mut self, now: i64) {
        self.changed_at.get_or_insert(now);
    }

    /// When something may be found if nothing changes before; not later than now if it may be now.
    pub(super) fn next_time(&self) -> Option<i64> {
        let waiting = self.zones.values();
        let turns = waiting.filter_map(|zone| turn_of(self.started_at?, zone));
        self.next_round().into_iter().chain(turns).min()
    }

    /// A round, if it is time for one and something may be found. Whoever has a clock on the wall
    /// comes a little late, and that is no reason to leave it out.
    pub(super) fn round(
        &mut self,
        nodes: &[&Node],
        renewed: &dyn Fn(&str) -> Option<i64>,
        now: i64,
    ) -> Vec<Finding> {
        self.started_at.get_or_insert(now);
        if self.next_round().is_none_or(|time| time > now) {
            return Vec::new();
        }
        self.last_round = Some(now);
        self.changed_at = None;
        let mut findings = self.welcome(nodes);
        let mut counts = Counts::new();
        for node in nodes {
            let status = self.look_at_node(node, renewed(&node.metadata.name), now, &mut findings);
            if !node.metadata.labels.contains_key(EXCLUDE_DISRUPTION) {
                let (ready, not_ready) = counts.entry(zone_of(node)).or_default();
                *(if status.as_deref() == Some("True") {
                    ready
                } else {
                    not_ready
                }) += 1;
            }
        }
        self.judge_zones(&counts, nodes, now, &mut findings);
        findings
    }

    /// Gives the next nodes their taints, as far as the rates of their zones allow.
    pub(super) fn taint_next(&mut self, world: &World, now: i64) -> Vec<Finding> {
        let mut findings = Vec::new();
        let Some(start) = self.started_at else {
            return findings;
        };
        for zone in self.zones.values_mut() {
            while turn_of(start, zone).is_some_and(|turn| turn <= now) && zone.limiter.accept(now) {
                let Some((_, name)) = zone.waiting.pop_first() else {
                    break;
                };
                let key = world
                    .find::<Node>("", &name)
                    .and_then(ready)
                    .and_then(taint_for);
                findings.extend(key.map(|key| Finding::NoExecute {
                    node: name,
                    key: Some(key),
                }));
            }
        }
        findings
    }

    /// The next round in which something may be found.
    fn next_round(&self) -> Option<i64> {
        let start = self.started_at?;
        let period = i64::from(self.options.node_monitor_period_seconds.max(1)) * SECOND;
        let after_last = self.last_round.map_or(start, |last| last.saturating_add(1));
        let lost = self.nodes.values().filter_map(|node| node.lost_at);
        let earliest = lost.chain(self.changed_at).min()?;
        Some(next_multiple(start, earliest.max(after_last), period))
    }

    /// Takes note of nodes that are new or gone.
    fn welcome(&mut self, nodes: &[&Node]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let rate = self.options.node_eviction_rate;
        for node in nodes {
            let zone = self.zones.entry(zone_of(node));
            let zone = zone.or_insert_with(|| Zone::new(rate));
            if zone.state.is_none() {
                *zone = Zone::new(rate);
            }
            let name = &node.metadata.name;
            if !self.nodes.contains_key(name) {
                let what = format!("Registered Node {name} in Controller");
                findings.push(event(name, &node.metadata.uid, "RegisteredNode", what));
            }
        }
        let is_there = |name: &str| {
            let found = nodes.binary_search_by(|node| node.metadata.name.as_str().cmp(name));
            found.is_ok()
        };
        self.nodes.retain(|name, known| {
            let stays = is_there(name);
            if !stays {
                let what = format!("Removing Node {name} from Controller");
                findings.push(event(name, &known.uid, "RemovingNode", what));
                self.zones.values_mut().for_each(|zone| zone.forget(name));
            }
            stays
        });
        findings
    }

    /// Looks at a node. Returns the status of its condition Ready, after that.
    fn look_at_node(
        &mut self,
        node: &Node,
        lease_renewed: Option<i64>,
        now: i64,
        findings: &mut Vec<Finding>,
    ) -> Option<String> {
        let name = &node.metadata.name;
        let before = self.nodes.get(name).map(|known| &known.health);
        let mut health = Health::heard(before, node, lease_renewed, now);
        let was = ready(node).map(|ready| ready.status.clone());
        let mut is = was.clone();
        let mut lost_at = self.lost_at(&health, was.is_some());
        if lost_at.is_some_and(|lost_at| lost_at <= now) {
            lost_at = None;
            let mut unknown = (*node).clone();
            set_unknown(&mut unknown, now);
            is = Some("Unknown".to_owned());
            if was.as_deref() != Some("Unknown") {
                health.wrote(&unknown, lease_renewed);
                let (node, conditions) = (name.clone(), unknown.status.conditions);
                findings.push(Finding::Unknown { node, conditions });
            }
        }
        if was.as_deref() == Some("True") && is.as_deref() != Some("True") {
            findings.extend(lost(name, &node.metadata.uid));
        }
        if let Some(is) = &is {
            self.decide_taint(node, is, now, findings);
        }
        let uid = node.metadata.uid.clone();
        let known = KnownNode {
            uid,
            health,
            lost_at,
        };
        self.nodes.insert(name.clone(), known);
        is
    }

    fn lost_at(&self, health: &Health, has_reported: bool) -> Option<i64> {
        if health.is_silent() && !self.options.silent_nodes_are_lost {
            return None;
        }
        let grace_seconds = match has_reported {
            true => self.options.node_monitor_grace_period_seconds,
            false => self.options.node_startup_grace_period_seconds,
        };
        Some(
            health
                .heard_at
                .saturating_add(i64::from(grace_seconds) * SECOND),
        )
    }

    /// Whether a node should have a `NoExecute` taint. Another one of ours is replaced at once;
    /// a new one has to wait for its turn.
    fn decide_taint(&mut self, node: &Node, is: &str, now: i64, findings: &mut Vec<Finding>) {
        let name = &node.metadata.name;
        let taints = &node.spec.taints;
        let (key, other) = match is {
            "False" => (NOT_READY, UNREACHABLE),
            "Unknown" => (UNREACHABLE, NOT_READY),
            _ => {
                if has(taints, NOT_READY) || has(taints, UNREACHABLE) {
                    let (node, key) = (name.clone(), None);
                    findings.push(Finding::NoExecute { node, key });
                }
                self.zones.values_mut().for_each(|zone| zone.forget(name));
                return;
            }
        };
        if has(taints, other) {
            let (node, key) = (name.clone(), Some(key));
            findings.push(Finding::NoExecute { node, key });
        } else if !has(taints, key)
            && let Some(zone) = self.zones.get_mut(&zone_of(node))
            && !zone.is_waiting(name)
        {
            zone.waiting.insert((now, name.clone()));
        }
    }

    /// Looks how zones are, and sets the rates that are right for them. A zone of which no node
    /// counts has no say in that.
    fn judge_zones(
        &mut self,
        counts: &Counts,
        nodes: &[&Node],
        now: i64,
        findings: &mut Vec<Finding>,
    ) {
        let threshold = self.options.unhealthy_zone_threshold;
        let state =
            |(ready, not_ready): &(usize, usize)| ZoneState::of(*ready, *not_ready, threshold);
        for (name, zone) in &mut self.zones {
            zone.state = zone.state.filter(|_| counts.contains_key(name));
        }
        let mut states = self.zones.values().filter_map(|zone| zone.state);
        let all_were = states.all(|state| state == ZoneState::FullDisruption);
        let all_are = counts
            .values()
            .all(|it| state(it) == ZoneState::FullDisruption);
        if all_are && all_were {
            return;
        }
        if all_are {
            self.stop_evictions(nodes, findings);
            return;
        }
        if all_were {
            for known in self.nodes.values_mut() {
                known.health.heard_at = now;
                self.changed_at = Some(now);
            }
        }
        for (name, zone) in &mut self.zones {
            let Some(count) = counts.get(name) else {
                continue;
            };
            let new = state(count);
            if Some(new) != zone.state || all_were {
                zone.limiter
                    .set_rate(new.rate(count.0 + count.1, &self.options), now);
                zone.state = Some(new);
            }
        }
    }

    /// No node is ready any more: the fault may be on our side. Nobody has to go.
    fn stop_evictions(&mut self, nodes: &[&Node], findings: &mut Vec<Finding>) {
        for node in nodes {
            findings.push(Finding::NoExecute {
                node: node.metadata.name.clone(),
                key: None,
            });
        }
        for zone in self.zones.values_mut() {
            zone.waiting.clear();
            if zone.state.is_some() {
                zone.limiter.stop();
                zone.state = Some(ZoneState::FullDisruption);
            }
        }
    }
}

/// When the next node of a zone gets its taint.
fn turn_of(start: i64, zone: &Zone) -> Option<i64> {
    let (since, _) = zone.waiting.first()?;
    let earliest = zone.limiter.free_at()?.max(*since);
    Some(next_multiple(start, earliest, TAINT_PERIOD))
}

/// The key of the `NoExecute` taint for a condition Ready.
fn taint_for(ready: &NodeCondition) -> Option<&'static str> {
    match ready.status.as_str() {
        "False" => Some(NOT_READY),
        "Unknown" => Some(UNREACHABLE),
        _ => None,
    }
}

fn has(taints: &[Taint], key: &str) -> bool {
    let mut taints = taints.iter();
    taints.any(|taint| taint.key == key && taint.effect == "NoExecute")
}

fn lost(node: &str, uid: &str) -> [Finding; 2] {
    let told = Finding::Event {
        node: node.to_owned(),
        uid: uid.to_owned(),
        reason: "NodeNotReady",
        message: format!("Node {node} status is now: NodeNotReady"),
    };
    let node = node.to_owned();
    [told, Finding::Lost { node }]
}

fn event(node: &str, uid: &str, reason: &'static str, what: String) -> Finding {
    Finding::Event {
        node: node.to_owned(),
        uid: uid.to_owned(),
        reason,
        message: format!("Node {node} event: {what}"),
    }
}

/// The first time from `time` on that is a whole number of periods after `start`.
fn next_multiple(start: i64, time: i64, period: i64) -> i64 {
    let since = time.saturating_sub(start).max(0);
    let rest = since % period;
    let missing = if rest == 0 { 0 } else { period - rest };
    start.saturating_add(since).saturating_add(missing)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::world::{Change, Stored};

    /// On a wall clock nobody comes at the very nanosecond.
    #[test]
    fn who_comes_late_finds_what_there_is() {
        let node = |ready: &str| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u"},
                "status": {"conditions": [{"type": "Ready", "status": ready,
                    "lastHeartbeatTime": "1970-01-01T00:00:00Z",
                    "lastTransitionTime": "1970-01-01T00:00:00Z"}]}})
        };
        let mut world = World::new();
        let set = |world: &mut World, ready: &str| {
            world.apply(Change::Set(std::sync::Arc::new(Stored::whole(node(ready)))));
        };
        set(&mut world, "True");
        let mut rounds = Rounds::new(NodeLifecycleOptions::default());
        let late = 3_000_017;
        let look = |rounds: &mut Rounds, world: &World, now: i64| {
            let nodes: Vec<&Node> = world.all::<Node>().collect();
            let mut found = rounds.round(&nodes, &|_| None, now);
            found.extend(rounds.taint_next(world, now));
            found
        };
        let found = look(&mut rounds, &world, late);
        assert!(matches!(found[..], [Finding::Event { .. }]), "{found:?}");
        let due = rounds.next_time().expect("it is lost one day");
        assert_eq!(due, late + 50 * SECOND);
        assert_eq!(look(&mut rounds, &world, due - 1), []);
        let found = look(&mut rounds, &world, due + late);
        assert!(
            matches!(
                found[..],
                [
                    Finding::Unknown { .. },
                    Finding::Event { .. },
                    Finding::Lost { .. },
                    // It is the only node, so that nobody knows whose fault it is.
                    Finding::NoExecute { key: None, .. }
                ]
            ),
            "{found:?}"
        );
        set(&mut world, "Unknown");
        rounds.something_changed(due + 2 * late);
        let due = rounds.next_time().expect("another round");
        assert_eq!(due, late + 55 * SECOND);
        assert_eq!(look(&mut rounds, &world, due + late), []);
    }
}

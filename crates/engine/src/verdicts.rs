//! What a class of pods is known to get from every node, kept up to date: the fast path.
//!
//! The first pod of a class looks at every node. What it learns is kept here: each node's
//! verdict, and for the feasible ones a score. The next pod of the class looks again only
//! at the nodes that changed, and takes the best node from the top of a heap, so it costs
//! O(changed nodes × log nodes) instead of O(nodes).
//!
//! Normalized scores are the difficulty: they depend on the highest raw score among *all*
//! feasible nodes. But nodes with equal raw scores always get equal normalized ones. So
//! feasible nodes are kept in groups by their raw scores of the normalizing plugins (there
//! are few: how many taints are disliked, which preferences are met), each group a heap
//! by the sum of the other scores. The best node is the best of the groups' tops.
//!
//! What runs on other nodes ([`crate::cross`]) fits in here: it refuses and rates groups of
//! nodes, those with the same domains, not single nodes.
//!
//! Pods with volumes have verdicts by what they demand of storage
//! ([`crate::storage::VolumeDemand`]): whichever of them asks, the answer of a node is the
//! same. A node is looked at again if storage changed around it, and for each pod if a pod
//! there has one of its volumes.
//!
//! The answer is exactly that of [`crate::evaluation`]; property tests hold the two
//! against each other.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cluster::{Change, Cluster};
use crate::cross::{CrossCounts, CrossPlan};
use crate::diagnosis::Diagnosis;
use crate::evaluation::listed_nodes;
use crate::framework::{Code, DependsOn, FilterStage, NodeFilter, Normalize, Refusal, ScorePlugin};
use crate::ids::{Interner, NodeId};
use crate::plugins::node_affinity::NodeAffinity;
use crate::pod_class::PodClass;
use crate::profile::Profile;
use crate::storage::VolumeDemand;
use crate::tie_order::TieOrder;

/// A place that no node has.
const NOWHERE: u32 = u32::MAX;

/// See the module.
pub(crate) struct Verdicts {
    plan: Plan,
    /// Rows by node; a node's slot is its row, or its place in `listed`.
    listed: Option<Vec<NodeId>>,
    slots: Vec<Slot>,
    refusals: Interner<OrderedRefusal>,
    refused_counts: Vec<usize>,
    /// Those of the refusals that are failures of a plugin.
    failures: Vec<u32>,
    groups: Vec<Group>,
    group_index: FxHashMap<Box<[i64]>, u32>,
    read: u64,
    storage_read: u64,
    /// Nodes whose verdict is about the pod that asked last only.
    about_one_pod: Vec<NodeId>,
    epochs: u64,
    tie_epoch: u64,
    cross: Option<CrossCounts>,
    diagnosis: Option<Arc<Diagnosis>>,
}

/// What is known of one node.
#[derive(Clone, Copy)]
struct Slot {
    /// The first static refusal (by plugins that look at the node object only), or NOWHERE.
    static_refusal: u32,
    /// The refusal that counts, or NOWHERE if the node is feasible or not there.
    refusal: u32,
    /// The group of the node's raw scores.
    group: u32,
    /// The place in the group's heap, or NOWHERE if the node is not feasible.
    heap_place: u32,
    /// The weighted sum of static scores that are not normalized.
    static_score: i64,
}

const EMPTY_SLOT: Slot = Slot {
    static_refusal: NOWHERE,
    refusal: NOWHERE,
    group: 0,
    heap_place: NOWHERE,
    static_score: 0,
};

/// A refusal and the position of its plugin among the filters.
#[derive(Clone, PartialEq, Eq, Hash)]
struct OrderedRefusal {
    refusal: Refusal,
    order: usize,
}

/// Feasible nodes with equal raw scores of the normalizing plugins and equal domains.
struct Group {
    /// The raw scores, then what tells the domains ([`CrossCounts::group_key`]).
    key: Box<[i64]>,
    heap: Vec<Entry>,
}

/// A node in a heap.
#[derive(Clone, Copy)]
struct Entry {
    score: i64,
    rank: u32,
    slot: u32,
}

impl Entry {
    fn is_before(&self, other: &Self) -> bool {
        (self.score, std::cmp::Reverse(self.rank)) > (other.score, std::cmp::Reverse(other.rank))
    }
}

/// The best node for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Best {
    pub(crate) node: NodeId,
    pub(crate) total_score: i64,
}

/// The plugins that matter to a class, by what they depend on: positions in the profile.
#[derive(Default)]
struct Plan {
    static_filters: Vec<usize>,
    /// Those that look at volumes among them.
    usage_filters: Vec<usize>,
    /// Not normalized.
    static_scores: Vec<usize>,
    usage_scores: Vec<usize>,
    normalized: Vec<usize>,
    /// Whether raw scores that get normalized change with the use of a node.
    groups_by_usage: bool,
    /// What every node gets if the profile scores nothing.
    base_score: i64,
    /// What PreScore finds wrong with the pods of the class.
    error: Option<String>,
}

impl Plan {
    fn new(context: Context<'_>) -> Self {
        let Context { profile, class, .. } = context;
        let mut plan = Self {
            base_score: match profile.scores() {
                [] => profile.score_without_plugins,
                _ => 0,
            },
            error: profile.pre_score_error(class),
            ..Self::default()
        };
        for (order, filter) in profile.node_filters() {
            match filter.depends_on() {
                _ if !filter.applies(class) => {}
                DependsOn::NodeObject => plan.static_filters.push(order),
                DependsOn::NodeUsage => plan.usage_filters.push(order),
            }
        }
        if !context.demand.is_empty() {
            let volume_filters = profile.volume_filters();
            plan.usage_filters
                .extend(volume_filters.map(|(order, _)| order));
            plan.usage_filters.sort_unstable();
        }
        for (order, score) in profile.node_scores() {
            // An error is that of PreScore as a whole.
            if score.pre_score(class).unwrap_or(false) {
                plan.add_score(order, score);
            }
        }
        plan
    }

    fn add_score(&mut self, order: usize, score: &dyn ScorePlugin) {
        match (score.normalize(), score.depends_on()) {
            (Normalize::None, DependsOn::NodeObject) => self.static_scores.push(order),
            (Normalize::None, DependsOn::NodeUsage) => self.usage_scores.push(order),
            (_, depends_on) => {
                self.normalized.push(order);
                self.groups_by_usage |= depends_on == DependsOn::NodeUsage;
            }
        }
    }
}

/// What the evaluation of a node reads.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c> {
    pub(crate) profile: &'c Profile,
    pub(crate) class: &'c PodClass,
    pub(crate) cluster: &'c Cluster,
    pub(crate) ties: &'c TieOrder,
    /// What is counted of other nodes; empty if they do not matter.
    pub(crate) plan: &'c CrossPlan,
    /// What the pod demands of storage; empty if it has no volumes.
    pub(crate) demand: &'c VolumeDemand,
    /// Nodes with pods that have volumes of this one: what they say is about it only.
    pub(crate) in_place: &'c [NodeId],
    /// The filters that look at volumes, prepared for a pod with that demand, with their
    /// place in the order.
    pub(crate) volume_filters: &'c [(usize, Box<dyn NodeFilter + 'c>)],
}

impl Context<'_> {
    fn refuses(&self, order: usize, node: NodeId) -> Option<OrderedRefusal> {
        let verdict = match &self.profile.filters()[order] {
            FilterStage::Node(filter) => filter.filter_node(self.class, self.cluster, node),
            FilterStage::Cluster(_) => {
                let mut prepared = self.volume_filters.iter();
                let (_, filter) = prepared.find(|(other, _)| *other == order)?;
                filter.filter_node(node)
            }
        };
        let refusal = verdict.err()?;
        Some(OrderedRefusal { refusal, order })
    }

    fn weighted_score(&self, order: usize, node: NodeId) -> i64 {
        let (plugin, weight) = self.profile.node_score_at(order);
        plugin.score_node(self.class, self.cluster, node) * weight
    }

    fn epochs(&self) -> u64 {
        let scores = self.profile.node_scores();
        let of_scores: u64 = scores
            .map(|(_, plugin)| plugin.epoch(self.class, self.cluster))
            .sum();
        of_scores + self.demand.epoch(&self.cluster.storage)
    }

    /// The nodes around which storage changed since; `None` if the log does not reach back
    /// so far.
    fn storage_changes(&self, since: u64) -> Option<Vec<NodeId>> {
        if self.demand.is_empty() {
            return Some(Vec::new());
        }
        let changes = self.cluster.storage_log().since(since)?;
        Some(changes.map(|(node, _)| node).collect())
    }

    /// Up to where the log of storage is read; it does not matter to pods without volumes.
    fn storage_end(&self) -> u64 {
        match self.demand.is_empty() {
            true => 0,
            false => self.cluster.storage_log().end(),
        }
    }
}

impl Verdicts {
    /// Evaluates every node for the class.
    pub(crate) fn new(context: Context<'_>) -> Self {
        let mut verdicts = Self {
            plan: Plan::new(context),
            listed: None,
            slots: Vec::new(),
            refusals: Interner::default(),
            refused_counts: Vec::new(),
            failures: Vec::new(),
            groups: Vec::new(),
            group_index: FxHashMap::default(),
            read: 0,
            storage_read: 0,
            about_one_pod: Vec::new(),
            epochs: 0,
            tie_epoch: 0,
            cross: None,
            diagnosis: None,
        };
        verdicts.rebuild(context);
        verdicts
    }

    /// What PreScore finds wrong with the pods of the class.
    pub(crate) fn error(&self) -> Option<&str> {
        self.plan.error.as_deref()
    }

    /// How many rows are kept; those with counters weigh more.
    pub(crate) fn slot_count(&self) -> usize {
        let counters = self.cross.as_ref().map_or(0, CrossCounts::counter_count);
        self.slots.len() * (1 + counters)
    }

    /// Looks again at what changed since the last call.
    pub(crate) fn refresh(&mut self, context: Context<'_>) {
        let (end, storage_end) = (context.cluster.log().end(), context.storage_end());
        let moved = self.epochs != context.epochs() || self.tie_epoch != context.ties.epoch();
        let is_about_all = self.about_one_pod.is_empty() && context.in_place.is_empty();
        if (self.read, self.storage_read) == (end, storage_end) && !moved && is_about_all {
            return;
        }
        let changes = context.cluster.log().since(self.read);
        let around = context.storage_changes(self.storage_read);
        let (false, Some(changes), Some(around)) = (moved, changes, around) else {
            return self.rebuild(context);
        };
        (self.read, self.storage_read) = (end, storage_end);
        self.diagnosis = None;
        for (node, change) in changes {
            match (change, &self.listed) {
                (Change::Usage, _) => self.look_again_at(context, node),
                (Change::Object, None) => {
                    let rows = context.cluster.row_count();
                    self.slots.resize(rows, EMPTY_SLOT);
                    self.cross.iter_mut().for_each(|cross| cross.resize(rows));
                    self.look_afresh(context, node.0, node);
                }
                (Change::Object, Some(_)) => return self.rebuild(context),
            }
        }
        let about_others = std::mem::replace(&mut self.about_one_pod, context.in_place.to_vec());
        let about_this = context.in_place.iter().copied();
        for node in around.into_iter().chain(about_others).chain(about_this) {
            self.look_again_at(context, node);
        }
    }

    /// Whether the verdicts tell the whole truth; else every node must be evaluated. They do
    /// not if a filter failed: what it says then is about the one pod.
    pub(crate) fn is_usable(&self, plan: &CrossPlan) -> bool {
        let mut failures = self.failures.iter();
        failures.all(|refusal| self.refused_counts[*refusal as usize] == 0)
            && (plan.is_empty() || self.cross.as_ref().is_some_and(CrossCounts::is_usable))
    }

    /// The best node for a pod of the class, and how many nodes may take it. O(groups).
    pub(crate) fn best(&self, context: Context<'_>) -> (Option<Best>, usize) {
        let filled = self.groups.iter().filter(|group| !group.heap.is_empty());
        let groups: Vec<&Group> = filled
            .filter(|group| self.refused_by_others(context, group).is_none())
            .collect();
        let feasible_nodes = groups.iter().map(|group| group.heap.len()).sum();
        let maxima: Vec<i64> = (0..self.plan.normalized.len())
            .map(|column| {
                groups
                    .iter()
                    .map(|group| group.key[column])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let ratings = self.rated_by_others(context, &groups);
        let total = |(index, group): (usize, &&Group)| {
            let mut entry = group.heap[0];
            entry.score += ratings.get(index).copied().unwrap_or(0);
            entry.score += context.plan.constant_score;
            let columns = self.plan.normalized.iter().zip(&group.key).zip(&maxima);
            for ((&order, &raw), &maximum) in columns {
                let (plugin, weight) = context.profile.node_score_at(order);
                entry.score += plugin.normalize().apply(raw, maximum) * weight;
            }
            entry
        };
        let best = groups.iter().enumerate().map(total).reduce(|best, entry| {
            if entry.is_before(&best) { entry } else { best }
        });
        let best = best.map(|best| Best {
            node: self.node(best.slot),
            total_score: best.score,
        });
        (best, feasible_nodes)
    }

    fn refused_by_others(&self, context: Context<'_>, group: &Group) -> Option<Refusal> {
        let key = &group.key[self.plan.normalized.len()..];
        self.cross.as_ref()?.refuse(context.plan, key)
    }

    fn rated_by_others(&self, context: Context<'_>, groups: &[&Group]) -> Vec<i64> {
        let Some(cross) = &self.cross else {
            return Vec::new();
        };
        let start = self.plan.normalized.len();
        let groups: Vec<(&[i64], usize)> = groups
            .iter()
            .map(|group| (&group.key[start..], group.heap.len()))
            .collect();
        cross.rate(context.plan, &groups)
    }

    /// Why no node may take a pod of the class, counted. O(distinct refusals and groups),
    /// kept until something changes.
    pub(crate) fn diagnosis(&mut self, context: Context<'_>) -> Arc<Diagnosis> {
        if let Some(diagnosis) = &self.diagnosis {
            return Arc::clone(diagnosis);
        }
        let node_count = context.cluster.node_count();
        let mut refusals: Vec<(Refusal, usize)> = Vec::new();
        let mut add = |refusal: Refusal, nodes: usize| match refusals
            .iter_mut()
            .find(|(known, _)| *known == refusal)
        {
            Some((_, count)) => *count += nodes,
            None => refusals.push((refusal, nodes)),
        };
        let counted = self.refusals.iter().zip(&self.refused_counts);
        for (known, nodes) in counted.filter(|(_, nodes)| **nodes > 0) {
            add(known.refusal.clone(), *nodes);
        }
        for group in self.groups.iter().filter(|group| !group.heap.is_empty()) {
            if let Some(refusal) = self.refused_by_others(context, group) {
                add(refusal, group.heap.len());
            }
        }
        let looked_at: usize = refusals.iter().map(|(_, nodes)| nodes).sum();
        let unlisted = self.listed.is_some();
        let diagnosis = Arc::new(Diagnosis {
            node_count,
            pre_filter: None,
            refusals,
            unlisted: unlisted.then(|| (node_count - looked_at, vec![NodeAffinity::NAME])),
            post_filter: Vec::new(),
        });
        self.diagnosis = Some(Arc::clone(&diagnosis));
        diagnosis
    }

    /// Lets a node count as refused, for one decision. [`Verdicts::restore`] ends that.
    pub(crate) fn overrule(&mut self, node: NodeId, refusal: Refusal) {
        let Some(slot) = self.slot(node) else { return };
        self.diagnosis = None;
        self.withdraw(slot);
        let number = self.refusal_number(OrderedRefusal { refusal, order: 0 });
        self.slots[slot as usize].refusal = number;
        self.refused_counts[number as usize] += 1;
    }

    /// Looks again at a node that was overruled.
    pub(crate) fn restore(&mut self, context: Context<'_>, node: NodeId) {
        self.diagnosis = None;
        self.look_again_at(context, node);
    }

    /// Whether the node is looked at for the class.
    pub(crate) fn looks_at(&self, node: NodeId) -> bool {
        self.slot(node).is_some()
    }

    /// Why the node itself refuses pods of the class, if it does.
    pub(crate) fn refusal(&self, node: NodeId) -> Option<&Refusal> {
        let known = self.slots.get(self.slot(node)? as usize)?;
        let refusal = self.refusals.get_index(known.refusal as usize)?;
        Some(&refusal.refusal)
    }

    fn slot(&self, node: NodeId) -> Option<u32> {
        match &self.listed {
            None => Some(node.0),
            Some(nodes) => nodes.binary_search(&node).ok().map(|slot| slot as u32),
        }
    }

    fn rebuild(&mut self, context: Context<'_>) {
        let cluster = context.cluster;
        self.listed = listed_nodes(context.profile, context.class).map(|names| {
            let mut nodes: Vec<NodeId> = names
                .iter()
                .filter_map(|name| cluster.node_named(*name))
                .collect();
            nodes.sort_unstable();
            nodes
        });
        let slots = self.listed.as_ref().map_or(cluster.row_count(), Vec::len);
        self.slots.clear();
        self.slots.resize(slots, EMPTY_SLOT);
        self.refusals.clear();
        self.refused_counts.clear();
        self.failures.clear();
        self.groups.clear();
        self.group_index.clear();
        let has_cross = !context.plan.is_empty() && self.listed.is_none();
        self.cross = has_cross.then(|| CrossCounts::new(context.plan, cluster, slots));
        self.read = cluster.log().end();
        self.storage_read = context.storage_end();
        self.about_one_pod = context.in_place.to_vec();
        self.epochs = context.epochs();
        self.tie_epoch = context.ties.epoch();
        self.diagnosis = None;
        for slot in 0..slots as u32 {
            self.look_afresh(context, slot, self.node(slot));
        }
    }

    fn node(&self, slot: u32) -> NodeId {
        self.listed
            .as_ref()
            .map_or(NodeId(slot), |nodes| nodes[slot as usize])
    }

    /// Evaluates all of a node: its object is new, has changed or is gone.
    fn look_afresh(&mut self, context: Context<'_>, slot: u32, node: NodeId) {
        self.withdraw(slot);
        if let Some(cross) = &mut self.cross {
            cross.recount(context.plan, context.class, context.cluster, slot, true);
        }
        if !context.cluster.is_present(node) {
            return;
        }
        let mut filters = self.plan.static_filters.iter();
        let refusal = filters.find_map(|&order| context.refuses(order, node));
        let static_refusal = refusal.map_or(NOWHERE, |refusal| self.refusal_number(refusal));
        self.slots[slot as usize].static_refusal = static_refusal;
        // Scores of refused nodes are never asked for.
        if static_refusal == NOWHERE {
            let scores = self.plan.static_scores.iter();
            let scores = scores.map(|&order| context.weighted_score(order, node));
            self.slots[slot as usize].static_score = self.plan.base_score + scores.sum::<i64>();
            self.slots[slot as usize].group = self.group_of(context, node);
        }
        self.judge(context, slot, node);
    }

    fn look_again_at(&mut self, context: Context<'_>, node: NodeId) {
        if let Some(slot) = self.slot(node) {
            self.look_again(context, slot, node);
        }
    }

    /// Evaluates what depends on the use of a node.
    fn look_again(&mut self, context: Context<'_>, slot: u32, node: NodeId) {
        if self.plan.groups_by_usage {
            return self.look_afresh(context, slot, node);
        }
        if !context.cluster.is_present(node) {
            return;
        }
        let moved = self.cross.as_mut().is_some_and(|cross| {
            cross.recount(context.plan, context.class, context.cluster, slot, false)
        });
        if moved && self.slots[slot as usize].static_refusal == NOWHERE {
            self.withdraw(slot);
            self.slots[slot as usize].group = self.group_of(context, node);
        }
        self.judge(context, slot, node);
    }

    fn judge(&mut self, context: Context<'_>, slot: u32, node: NodeId) {
        match self.first_refusal(context, slot, node) {
            NOWHERE => {
                let scores = self.plan.usage_scores.iter();
                let scores = scores.map(|&order| context.weighted_score(order, node));
                let score = self.slots[slot as usize].static_score + scores.sum::<i64>();
                self.offer(Entry {
                    score,
                    rank: context.ties.rank(node),
                    slot,
                });
            }
            refusal => {
                self.withdraw(slot);
                self.slots[slot as usize].refusal = refusal;
                self.refused_counts[refusal as usize] += 1;
            }
        }
    }

    /// The refusal by the plugin that comes first in the profile, or NOWHERE.
    fn first_refusal(&mut self, context: Context<'_>, slot: u32, node: NodeId) -> u32 {
        let by_object = self.slots[slot as usize].static_refusal;
        let before = match by_object {
            NOWHERE => usize::MAX,
            refusal => self.refusals[refusal as usize].order,
        };
        let mut filters = self
            .plan
            .usage_filters
            .iter()
            .take_while(|order| **order < before);
        match filters.find_map(|&order| context.refuses(order, node)) {
            Some(refusal) => self.refusal_number(refusal),
            None => by_object,
        }
    }

    fn refusal_number(&mut self, refusal: OrderedRefusal) -> u32 {
        let is_failure = refusal.refusal.code == Code::Error;
        let (number, is_new) = self.refusals.insert_full(refusal);
        if is_new {
            self.refused_counts.push(0);
            self.failures.extend(is_failure.then_some(number as u32));
        }
        number as u32
    }

    fn group_of(&mut self, context: Context<'_>, node: NodeId) -> u32 {
        let raw = self.plan.normalized.iter().map(|&order| {
            let (plugin, _) = context.profile.node_score_at(order);
            plugin.score_node(context.class, context.cluster, node)
        });
        let mut key: Vec<i64> = raw.collect();
        if let Some(cross) = &self.cross {
            // Slots are rows: classes with listed nodes have no counts.
            key.extend(cross.group_key(context.cluster, node.0));
        }
        if let Some(&group) = self.group_index.get(key.as_slice()) {
            return group;
        }
        let key: Box<[i64]> = key.into();
        let group = self.groups.len() as u32;
        self.group_index.insert(key.clone(), group);
        self.groups.push(Group {
            key,
            heap: Vec::new(),
        });
        group
    }

    /// Takes back what was known of a node: it counts neither as feasible nor as refused.
    fn withdraw(&mut self, slot: u32) {
        let known = &mut self.slots[slot as usize];
        if known.refusal != NOWHERE {
            self.refused_counts[known.refusal as usize] -= 1;
            known.refusal = NOWHERE;
        }
        if known.heap_place == NOWHERE {
            return;
        }
        let place = std::mem::replace(&mut known.heap_place, NOWHERE) as usize;
        let heap = &mut self.groups[known.group as usize].heap;
        heap.swap_remove(place);
        if let Some(moved) = heap.get(place).copied() {
            settle(heap, &mut self.slots, place, moved);
        }
    }

    /// Puts a feasible node into its group's heap, or moves it there to its new score.
    fn offer(&mut self, entry: Entry) {
        let known = &mut self.slots[entry.slot as usize];
        if known.refusal != NOWHERE {
            self.refused_counts[known.refusal as usize] -= 1;
            known.refusal = NOWHERE;
        }
        let heap = &mut self.groups[known.group as usize].heap;
        let place = match known.heap_place {
            NOWHERE => {
                heap.push(entry);
                heap.len() - 1
            }
            place => place as usize,
        };
        settle(heap, &mut self.slots, place, entry);
    }
}

/// Children of a heap entry. Four of them share a cache line.
const ARITY: usize = 4;

/// Writes an entry at `place` of a heap and moves it up or down to where it belongs.
fn settle(heap: &mut [Entry], slots: &mut [Slot], mut place: usize, entry: Entry) {
    while place > 0 {
        let parent = (place - 1) / ARITY;
        if !entry.is_before(&heap[parent]) {
            break;
        }
        heap[place] = heap[parent];
        slots[heap[place].slot as usize].heap_place = place as u32;
        place = parent;
    }
    loop {
        let children = ARITY * place + 1..heap.len().min(ARITY * place + 1 + ARITY);
        let first = children.reduce(|first, child| {
            if heap[child].is_before(&heap[first]) {
                child
            } else {
                first
            }
        });
        match first {
            Some(child) if heap[child].is_before(&entry) => {
                heap[place] = heap[child];
                slots[heap[place].slot as usize].heap_place = place as u32;
                place = child;
            }
            _ => break,
        }
    }
    heap[place] = entry;
    slots[entry.slot as usize].heap_place = place as u32;
}

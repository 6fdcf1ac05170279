//! The order of nodes with equal scores.
//!
//! kube-scheduler picks among the best nodes at random. Here ties follow a total order,
//! so that the same input gives the same answer: without a seed the node whose name is
//! smallest comes first; with a seed, nodes are shuffled once, by a hash of seed and
//! name, and keep that order.
//!
//! Every node has a rank, spaced so that a node added later fits between its
//! neighbours; only when a gap is used up are all ranks given anew.

use crate::cluster::Cluster;
use crate::ids::{NodeId, Symbol};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct TieOrder {
    seed: Option<u64>,
    order: Vec<NodeId>,
    rank: Vec<Option<u32>>,
    /// Whose rank it is: rows of deleted nodes are used again.
    name: Vec<Option<Symbol>>,
    relabelled: u64,
    read: u64,
}

impl TieOrder {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// The node's rank; the smaller comes first. Call [`TieOrder::refresh`] before.
    pub(crate) fn rank(&self, node: NodeId) -> u32 {
        self.rank[node.index()].unwrap_or(u32::MAX)
    }

    /// Grows whenever ranks of nodes that had one before have changed.
    pub(crate) fn epoch(&self) -> u64 {
        self.relabelled
    }

    /// Whether all ranks are as [`TieOrder::refresh`] would leave them.
    pub(crate) fn is_fresh(&self, cluster: &Cluster) -> bool {
        self.read == cluster.log().end()
    }

    /// Gives ranks to new nodes and forgets deleted ones. A handful of new nodes costs
    /// O(log nodes) comparisons each, many cost one sort.
    pub(crate) fn refresh(&mut self, cluster: &Cluster) {
        let end = cluster.log().end();
        if self.read == end {
            return;
        }
        self.rank.resize(cluster.row_count(), None);
        self.name.resize(cluster.row_count(), None);
        let changed: Option<Vec<NodeId>> = cluster.log().since(self.read).map(|changes| {
            let objects = changes.filter(|(_, change)| *change == crate::cluster::Change::Object);
            let nodes = objects.map(|(node, _)| node);
            nodes
                .filter(|node| !self.is_known(cluster, *node))
                .collect()
        });
        self.read = end;
        match changed {
            Some(changed) if changed.len() <= 16 => {
                self.forget(&changed);
                let present = changed.into_iter().filter(|node| cluster.is_present(*node));
                present.for_each(|node| self.place(cluster, node));
            }
            _ => self.sort(cluster),
        }
    }

    /// Whether the row still holds the node that has this rank.
    fn is_known(&self, cluster: &Cluster, node: NodeId) -> bool {
        cluster.is_present(node) && self.name[node.index()] == Some(cluster.name_symbol(node))
    }

    /// Takes rows out of the order. Rows that hold another node by now would stand in the
    /// wrong place and lead every search astray: all of them go before one is placed.
    fn forget(&mut self, nodes: &[NodeId]) {
        let mut was_ranked = false;
        for node in nodes {
            was_ranked |= self.rank[node.index()].take().is_some();
            self.name[node.index()] = None;
        }
        if was_ranked {
            let rank = &self.rank;
            self.order.retain(|node| rank[node.index()].is_some());
        }
    }

    fn place(&mut self, cluster: &Cluster, node: NodeId) {
        self.name[node.index()] = Some(cluster.name_symbol(node));
        let at = self.find(cluster, node).unwrap_or_else(|at| at);
        let rank_at = |at: usize| self.order.get(at).map(|&node| self.rank(node));
        let below = at.checked_sub(1).and_then(rank_at).unwrap_or(0);
        let above = rank_at(at).unwrap_or(u32::MAX);
        self.order.insert(at, node);
        match above - below {
            0 | 1 => self.relabel(),
            gap => self.rank[node.index()] = Some(below + gap / 2),
        }
    }

    fn find(&self, cluster: &Cluster, node: NodeId) -> Result<usize, usize> {
        let key = self.key(cluster, node);
        self.order
            .binary_search_by(|other| self.key(cluster, *other).cmp(&key))
    }

    fn sort(&mut self, cluster: &Cluster) {
        let mut keyed: Vec<_> = cluster
            .nodes()
            .map(|node| (self.key(cluster, node), node))
            .collect();
        keyed.sort_unstable();
        self.order = keyed.into_iter().map(|(_, node)| node).collect();
        self.rank.fill(None);
        self.name.fill(None);
        for node in &self.order {
            self.name[node.index()] = Some(cluster.name_symbol(*node));
        }
        self.relabel();
    }

    fn relabel(&mut self) {
        let step = u32::MAX / (self.order.len() as u32 + 1);
        for (position, node) in self.order.iter().enumerate() {
            self.rank[node.index()] = Some(step * (position as u32 + 1));
        }
        self.relabelled += 1;
    }

    fn key<'c>(&self, cluster: &'c Cluster, node: NodeId) -> (u64, &'c str) {
        let name = cluster.name(node);
        (self.seed.map_or(0, |seed| hash(seed, name)), name)
    }
}

/// FNV-1a over the name, started and finished with the seed through splitmix64.
fn hash(seed: u64, name: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ splitmix64(seed);
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    splitmix64(name.as_bytes().iter().fold(start, fold))
}

fn splitmix64(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

//! PriorityShare: pods of a priority class, or of a range of priorities, may use at most a
//! share of a resource of the cluster.
//!
//! kube-scheduler has no such plugin; it is off unless a profile enables it. A share names its
//! pods, by priority class or by priorities and perhaps by namespace, a resource, and a limit:
//! so many percent of what all nodes offer together, rounded down, or an amount.
//!
//! * What counts as used is what pods of the share ask for that are on nodes, whoever brought
//!   them there, until they are gone. A pod bound to a node that is not known does not count,
//!   as what that node offers does not either.
//! * What counts as offered is the allocatable of all nodes that are there, cordoned ones and
//!   those that are not ready included: their pods count, too, and nobody's share is to shrink
//!   while a node is drained or restarts.
//! * A pod that is of several shares must fit them all. A pod that asks for nothing of a
//!   resource fits the shares of it, even those that are overdrawn.
//! * Pods that are over the limit already, because it was lowered or nodes are gone, stay.
//! * What pods of the share ask for that are nominated to a node, since preemption makes room
//!   for them, counts against pods of the same and of lower priority, so that several
//!   preemptors do not make more room than they may use. Among nominated pods of the same
//!   priority, who comes first goes first.
//!
//! The refusal is `UnschedulableAndUnresolvable`: a pod over its share never preempts, be it
//! pods of its own share, and waits until its share has room for it.

use std::ops::Bound;

use outrank_api::quantity::{Format, Quantity};

use crate::cluster::{Cluster, PodUsage};
use crate::framework::{
    ClusterEvent, ClusterFilterPlugin, Code, IncomingPod, NodeFilter, Plugin, Reason, Refusal,
};
use crate::ids::ShareId;
use crate::shares::{Share, SharePods};

/// A share and its limit, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitedShare {
    /// Whose pods.
    pub pods: SharePods,
    /// The namespace of the pods; `None` is all.
    pub namespace: Option<String>,
    /// Name of the resource.
    pub resource: String,
    /// What the pods may use.
    pub limit: ShareLimit,
}

impl LimitedShare {
    /// The text, such as `priority class training may use 50% of nvidia.com/gpu`.
    pub fn text(&self) -> String {
        let resource = &self.resource;
        let limit = match self.limit {
            ShareLimit::Percent(percent) => format!("{percent}%"),
            ShareLimit::Amount(amount) => amount_text(resource, amount.into()),
        };
        let whose = whose(&self.pods, self.namespace.as_deref());
        format!("{whose} may use {limit} of {resource}")
    }
}

/// What the pods of a share may use of its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ShareLimit {
    /// So many percent, 0 to 100, of what all nodes offer together, rounded down.
    Percent(u8),
    /// So much, in units of the resource: thousandths of a core for `cpu`, bytes for memory
    /// and storage.
    Amount(i64),
}

impl ShareLimit {
    fn of(self, offered: i128) -> i128 {
        match self {
            Self::Percent(percent) => (offered * i128::from(percent)).div_euclid(100),
            Self::Amount(amount) => amount.into(),
        }
    }
}

/// Why a pod is over a share: the arithmetic, in units of the resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OverShare {
    /// The share.
    pub share: ShareId,
    /// What its pods may use, as configured.
    pub limit: ShareLimit,
    /// What that is at present.
    pub allowed: i128,
    /// What all nodes offer.
    pub offered: i128,
    /// What its pods on nodes use.
    pub held: i128,
    /// What is kept for its nominated pods that come before this one.
    pub nominated: i128,
    /// What the pod asks for.
    pub wanted: i64,
}

impl OverShare {
    /// The text, such as `PriorityShare: priority class training may use 50% of
    /// nvidia.com/gpu: 32 of 64; its pods hold 30 and this one wants 4`.
    pub fn text(&self, cluster: &Cluster) -> String {
        let share = cluster.shares.get(self.share);
        let resource = cluster.resource_name(share.resource);
        let amount = |units: i128| amount_text(resource, units);
        let whose = whose(&share.pods, share.namespace.as_deref());
        let whose_pods = match &share.pods {
            SharePods::PriorityClass(_) => "its",
            SharePods::Priorities { .. } => "their",
        };
        let allowed = amount(self.allowed);
        let may_use = match self.limit {
            ShareLimit::Percent(percent) => {
                let offered = amount(self.offered);
                format!("{percent}% of {resource}: {allowed} of {offered}")
            }
            ShareLimit::Amount(_) => format!("{allowed} of {resource}"),
        };
        let kept = match self.nominated {
            0 => String::new(),
            kept => format!(", {} more are kept for nominated ones,", amount(kept)),
        };
        format!(
            "{}: {whose} may use {may_use}; {whose_pods} pods hold {}{kept} and this one \
             wants {}",
            PriorityShare::NAME,
            amount(self.held),
            amount(self.wanted.into()),
        )
    }
}

fn whose(pods: &SharePods, namespace: Option<&str>) -> String {
    let pods = match pods {
        SharePods::PriorityClass(name) => format!("priority class {name}"),
        SharePods::Priorities { least, most } => priorities(*least, *most),
    };
    match namespace {
        Some(namespace) => format!("{pods} in namespace {namespace}"),
        None => pods,
    }
}

fn priorities(least: i32, most: i32) -> String {
    match (least, most) {
        (i32::MIN, i32::MAX) => "all priorities".into(),
        (i32::MIN, most) => format!("priorities up to {most}"),
        (least, i32::MAX) => format!("priorities from {least}"),
        (least, most) => format!("priorities {least} to {most}"),
    }
}

/// An amount as people write it for the resource. Beyond 64 bits it is the largest there is.
fn amount_text(resource: &str, units: i128) -> String {
    let clamped = units.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let is_bytes = matches!(resource, "memory" | "ephemeral-storage");
    match resource {
        "cpu" => Quantity::from_milli(clamped, Format::DecimalSi).to_string(),
        _ if is_bytes || resource.starts_with("hugepages-") => {
            Quantity::from_value(clamped, Format::BinarySi).to_string()
        }
        // Devices are counted: nobody wants to read 2k of them.
        _ => units.to_string(),
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct PriorityShare {
    limits: Vec<(ShareId, ShareLimit)>,
}

impl PriorityShare {
    /// Name in configurations.
    pub const NAME: &'static str = "PriorityShare";

    /// The plugin with these limits; without any it has nothing to say.
    pub(crate) fn new(limited: &[LimitedShare], cluster: &mut Cluster) -> Self {
        let limits = limited.iter().map(|limited| {
            let share = Share {
                pods: limited.pods.clone(),
                namespace: limited.namespace.clone(),
                resource: cluster.resource(&limited.resource),
            };
            (cluster.shares.name(share), limited.limit)
        });
        Self {
            limits: limits.collect(),
        }
    }

    /// The refusal of a pod that does not fit its shares as things are. O(shares).
    pub(crate) fn refusal(&self, pod: &IncomingPod<'_>, cluster: &Cluster) -> Option<Refusal> {
        let lowest = match pod.is_nominated {
            true => Bound::Excluded(pod.priority),
            false => Bound::Included(pod.priority),
        };
        let nominated = |share| cluster.shares.nominated(share, lowest);
        let over = self.overdrawn(&pod.class.usage, cluster, nominated);
        let reasons: Vec<Reason> = over.map(|it| Reason::OverShare(Box::new(it))).collect();
        (!reasons.is_empty()).then_some(Refusal {
            plugin: Self::NAME,
            code: Code::UnschedulableAndUnresolvable,
            reasons,
        })
    }

    /// Whether pods that take that do not fit their shares even if nominated pods left their
    /// room to them. O(shares).
    pub(crate) fn refuses_all(&self, usage: &PodUsage, cluster: &Cluster) -> bool {
        self.overdrawn(usage, cluster, |_| 0).next().is_some()
    }

    /// The shares that would be overdrawn if a pod came that takes that.
    fn overdrawn(
        &self,
        usage: &PodUsage,
        cluster: &Cluster,
        nominated: impl Fn(ShareId) -> i128,
    ) -> impl Iterator<Item = OverShare> {
        let shares = &cluster.shares;
        let limits = self.limits.iter();
        limits.filter_map(move |(share, limit)| {
            let (_, wanted) = usage.shares.iter().find(|(own, _)| own == share)?;
            let over = OverShare {
                share: *share,
                limit: *limit,
                allowed: limit.of(shares.offered(*share)),
                offered: shares.offered(*share),
                held: shares.held(*share),
                nominated: nominated(*share),
                wanted: *wanted,
            };
            let used = over.held + over.nominated + i128::from(over.wanted);
            (used > over.allowed).then_some(over)
        })
    }
}

impl Plugin for PriorityShare {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

impl ClusterFilterPlugin for PriorityShare {
    fn pre_filter(&self, pod: &IncomingPod<'_>, cluster: &Cluster) -> Result<(), Refusal> {
        self.refusal(pod, cluster).map_or(Ok(()), Err)
    }

    /// No node is better than another: all is said by PreFilter.
    fn prepare_filter<'c>(
        &'c self,
        _: &IncomingPod<'c>,
        _: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        None
    }

    /// Pods over their share may be many, and most events are not about it. They are not
    /// asked one by one: the engine sees itself when a share has more room.
    fn may_help(&self, _: &IncomingPod<'_>, _: &ClusterEvent<'_>, _: &Cluster) -> bool {
        false
    }
}

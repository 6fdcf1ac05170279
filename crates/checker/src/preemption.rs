//! Preemptions: is everybody who is killed rightly killed?
//!
//! A pod that no node takes may have pods of lower priority killed. What is checked is what
//! may be expected of one such decision, from the state before it:
//!
//! 1. The preemptor may preempt, fits nowhere as things are, and does not wait for pods that
//!    were preempted for it before.
//! 2. Each victim is on the node, of lower priority, and protected by no rule.
//! 3. The preemptor fits once the victims are gone, both with and without the pods of at
//!    least its priority that the node is promised to.
//! 4. All victims are needed: none can stay without the preemptor no longer fitting. And they
//!    are those that upstream's order of mercy leaves over: all pods of lower priority are
//!    thought away, then each may stay if the preemptor still fits. Those come first that a
//!    PodDisruptionBudget does not allow to go, then the more important ones: of higher
//!    priority, then started earlier.
//! 5. Which victims go against a PodDisruptionBudget is told rightly.
//! 6. No other node costs less: fewest such victims; then the lowest highest priority; then
//!    the smallest sum of priorities; then the fewest victims; then the latest start of the
//!    first of those with the highest priority. If the search may end early
//!    ([`EnoughCandidates`](crate::EnoughCandidates)), at least so many do not cost less.
//!
//! The answer for another node is found by trying it. Pods that are equally important may be
//! spared in any order, so all orders are tried; a node with too many is not judged.
//!
//! Affinity between pods, topology spread, volumes and claims to devices are not checked. If
//! the preemptor or a pod that is placed has such, points 4 and 6 are not judged, nor whether
//! it fits already. Neither is a node on which several pods have a host port that the preemptor
//! wants: upstream takes it for free when one of them goes.
//!
//! Sources: `framework/preemption/preemption.go`,
//! `plugins/defaultpreemption/default_preemption.go`, Kubernetes 1.36.

use std::collections::BTreeMap;

use outrank_api::labels::Selector;
use outrank_api::types::{Node, Pod, PodDisruptionBudget, PriorityClass};

use crate::fault::{Fault, WrongPreemption};
use crate::outcome::{self, Options, has_unchecked_constraints, repels_others};
use crate::rules::{Site, Subject};
use crate::safety::{
    Kill, PreemptionRules, Protections, faults_of_number, faults_of_victim, lost_work, priority_of,
    started_nanos,
};
use crate::shares::ShareUse;
use crate::violation::Breach;

/// How many orders of equally important pods of a node are tried at most.
const ORDERS_MAX: usize = 720;

/// A cluster before a pod preempts.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    /// All nodes.
    pub nodes: &'a [Node],
    /// All pods: those that are placed with `spec.nodeName`, those that a node is promised to
    /// with `status.nominatedNodeName`.
    pub pods: &'a [Pod],
    /// All PodDisruptionBudgets, with what they allow.
    pub budgets: &'a [PodDisruptionBudget],
    /// All priority classes.
    pub priority_classes: &'a [PriorityClass],
    /// Who was killed before, in order.
    pub kills: &'a [Kill],
    /// By budget, as `namespace/name`, how many of `kills`, from the first, its status counts
    /// already. It counts all if the budget is not in here. Only strict budgets ask.
    pub kills_counted: &'a BTreeMap<String, usize>,
    /// The time, in nanoseconds since 1970.
    pub now_nanos: u64,
}

/// Who is to be killed for whom. Pods are `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preemption {
    /// The pod for which others are killed.
    pub preemptor: String,
    /// The node that they leave.
    pub node: String,
    /// Who is killed.
    pub victims: Vec<String>,
    /// Those of them that a PodDisruptionBudget does not allow to go.
    pub violating: Vec<String>,
}

/// Everything that is wrong with a preemption; nothing if it is as it should be.
///
/// Takes time proportional to nodes times pods of a node to the power of two, and times the
/// orders of equally important pods.
pub fn check_preemption(
    before: &Before<'_>,
    preemption: &Preemption,
    rules: &PreemptionRules,
    options: &Options,
) -> Vec<WrongPreemption> {
    let subjects = outcome::subjects(before.pods);
    let faults = match Judge::of(before, &preemption.preemptor, &subjects, rules, options) {
        None => vec![Fault::UnknownPod {
            pod: preemption.preemptor.clone(),
        }],
        Some(judge) => judge.faults(preemption),
    };
    faults
        .into_iter()
        .map(|fault| WrongPreemption {
            preemptor: preemption.preemptor.clone(),
            node: preemption.node.clone(),
            fault,
        })
        .collect()
}

/// A preemption that would be right for a pod, named `namespace/name`, for which nobody is
/// killed. `None` if there is none, or that is not judged. It need not be the best one.
pub fn missed_preemption(
    before: &Before<'_>,
    preemptor: &str,
    rules: &PreemptionRules,
    options: &Options,
) -> Option<Preemption> {
    let subjects = outcome::subjects(before.pods);
    Judge::of(before, preemptor, &subjects, rules, options)?.missed()
}

/// All that is looked at.
struct Judge<'a> {
    before: &'a Before<'a>,
    rules: &'a PreemptionRules,
    options: &'a Options,
    subjects: &'a [Subject<'a>],
    preemptor: &'a Subject<'a>,
    protections: Protections<'a>,
}

/// A node, who is on it, and who it is promised to before the preemptor.
struct Room<'a> {
    node: &'a Node,
    here: Vec<&'a Subject<'a>>,
    promised: Vec<&'a Subject<'a>>,
}

/// Who would go from a node.
struct Victims<'a> {
    pods: Vec<&'a Pod>,
    /// Those of them that a PodDisruptionBudget does not allow to go.
    violating: Vec<&'a Pod>,
}

impl<'a> Judge<'a> {
    /// `None` if there is no such pod.
    fn of(
        before: &'a Before<'a>,
        preemptor: &str,
        subjects: &'a [Subject<'a>],
        rules: &'a PreemptionRules,
        options: &'a Options,
    ) -> Option<Self> {
        let preemptor = subjects.iter().find(|it| it.pod.key() == preemptor)?;
        Some(Self {
            before,
            rules,
            options,
            subjects,
            preemptor,
            protections: Protections::new(before.priority_classes, rules),
        })
    }

    fn missed(&self) -> Option<Preemption> {
        // A dry run makes no room even with pods that are on their way already.
        let is_off =
            self.rules.kills_nobody && priority_of(self.preemptor.pod) < self.rules.exempt_priority;
        // What filter refuses first, and so whether it waits for them, is not known here.
        let promised = self.preemptor.promised_node();
        let promised = promised.and_then(|node| self.room(node));
        if promised.is_some_and(|room| self.going_from(&room).is_some()) {
            return None;
        }
        if is_off || !self.knows_all_constraints() || !self.faults_of_preemptor().is_empty() {
            return None;
        }
        self.before.nodes.iter().find_map(|node| {
            let possible = self.allowed_victims(node)?;
            let victims = possible.first()?;
            Some(Preemption {
                preemptor: self.preemptor.pod.key(),
                node: node.metadata.name.clone(),
                victims: keys(&victims.pods),
                violating: keys(&victims.violating),
            })
        })
    }

    fn faults(&self, preemption: &Preemption) -> Vec<Fault> {
        let Some(room) = self.room(&preemption.node) else {
            return vec![Fault::UnknownNode];
        };
        let mut faults = self.faults_of_preemptor();
        let victims = self.victims(preemption, &mut faults);
        faults.extend(self.faults_of_victims(&room, &victims));
        if faults.is_empty() {
            faults.extend(self.faults_of_need(&room, &victims));
        }
        if faults.is_empty() {
            faults.extend(self.faults_of_choice(&room, &victims, preemption));
        }
        faults
    }

    /// Whether the preemptor may preempt at all.
    fn faults_of_preemptor(&self) -> Vec<Fault> {
        let pod = self.preemptor.pod;
        let mut faults = Vec::new();
        if !pod.spec.node_name.is_empty() {
            let on = pod.spec.node_name.clone();
            return vec![Fault::PlacedAlready { on }];
        }
        if !self.protections.preempts(pod) {
            faults.push(Fault::NeverPreempts);
        }
        faults.extend(
            self.breach_of_share()
                .map(|breach| Fault::WaitsForOther { breach }),
        );
        faults.extend(self.going().map(|going| Fault::StillMakingRoom { going }));
        if self.knows_all_constraints() {
            let nodes = self.before.nodes.iter();
            let mut rooms = nodes.filter_map(|node| self.room(&node.metadata.name));
            let fitting = rooms.find(|room| self.refusal(room, &[]).is_none());
            faults.extend(fitting.map(|room| Fault::FitsAlready {
                on: room.node.metadata.name.clone(),
            }));
        }
        faults
    }

    /// The first share that the preemptor would overdraw. Nobody is killed for that.
    fn breach_of_share(&self) -> Option<Breach> {
        let sites = outcome::sites(self.before.nodes, self.subjects);
        let shares = ShareUse::of_all(&self.options.shares, &sites, self.subjects);
        shares.iter().find_map(|share| share.breach(self.preemptor))
    }

    /// A pod that was preempted before and is still going from the node that is promised to the
    /// preemptor, if that may take it at all.
    fn going(&self) -> Option<String> {
        let room = self.room(self.preemptor.promised_node()?)?;
        let everybody: Vec<&Pod> = room.here.iter().map(|subject| subject.pod).collect();
        self.refusal_of(&room, &everybody, false)
            .is_none()
            .then_some(())?;
        self.going_from(&room)
    }

    /// A pod of a node that was preempted before and is still going.
    fn going_from(&self, room: &Room<'a>) -> Option<String> {
        let mut going = self.potential_victims(room).into_iter();
        let going = going.find(|subject| is_going_for_another(subject.pod))?;
        Some(going.pod.key())
    }

    /// The victims that are there.
    fn victims(&self, preemption: &Preemption, faults: &mut Vec<Fault>) -> Vec<&'a Pod> {
        let mut victims: Vec<&Pod> = Vec::new();
        if preemption.victims.is_empty() {
            faults.push(Fault::NoVictims);
        }
        for key in &preemption.victims {
            let found = self.subjects.iter().find(|it| it.pod.key() == *key);
            match found {
                None => faults.push(Fault::UnknownPod { pod: key.clone() }),
                Some(it) if victims.iter().any(|other| std::ptr::eq(*other, it.pod)) => {
                    faults.push(Fault::VictimTwice {
                        victim: key.clone(),
                    });
                }
                Some(it) => victims.push(it.pod),
            }
        }
        victims
    }

    /// Whether each victim may be killed for the preemptor, and all of them at once.
    fn faults_of_victims(&self, room: &Room<'_>, victims: &[&Pod]) -> Vec<Fault> {
        let priority = priority_of(self.preemptor.pod);
        let now_nanos = self.before.now_nanos;
        let mut faults = Vec::new();
        for victim in victims {
            if victim.spec.node_name != room.node.metadata.name {
                faults.push(Fault::Elsewhere {
                    victim: victim.key(),
                    on: victim.spec.node_name.clone(),
                });
            }
            faults.extend(faults_of_victim(
                victim,
                priority,
                now_nanos,
                &self.protections,
            ));
        }
        faults.extend(self.faults_of_number(victims));
        faults
    }

    fn faults_of_number(&self, victims: &[&Pod]) -> Vec<Fault> {
        // Those on their way already are not killed again.
        let victims = victims.iter().copied();
        let killed: Vec<&Pod> = victims
            .filter(|victim| victim.metadata.deletion_timestamp.is_none())
            .collect();
        let (now_nanos, kills) = (self.before.now_nanos, self.before.kills);
        let priority = priority_of(self.preemptor.pod);
        faults_of_number(&killed, priority, now_nanos, kills, self.rules)
    }

    /// Whether killing the victims helps, and killing fewer does not.
    fn faults_of_need(&self, room: &Room<'_>, victims: &[&Pod]) -> Vec<Fault> {
        if self.has_port_twice(room) {
            return Vec::new();
        }
        if let Some(breach) = self.refusal(room, victims) {
            return vec![Fault::DoesNotFit { breach }];
        }
        if !self.knows_all_constraints() {
            return Vec::new();
        }
        let could_stay = victims.iter().filter(|victim| {
            let others = victims.iter().filter(|it| !std::ptr::eq(**it, **victim));
            let others: Vec<&Pod> = others.copied().collect();
            self.refusal(room, &others).is_none()
        });
        could_stay
            .map(|victim| Fault::NotNeeded {
                victim: victim.key(),
            })
            .collect()
    }

    /// Whether upstream would choose these victims on the node, and the node.
    fn faults_of_choice(
        &self,
        room: &Room<'a>,
        victims: &[&'a Pod],
        preemption: &Preemption,
    ) -> Vec<Fault> {
        if !self.knows_all_constraints() {
            return Vec::new();
        }
        let Some(possible) = self.possible_victims(room) else {
            return Vec::new();
        };
        let same: Vec<&Victims<'_>> = possible
            .iter()
            .filter(|it| keys(&it.pods) == keys(victims))
            .collect();
        let Some(first) = same.first() else {
            let rather = possible.first().map(|it| keys(&it.pods));
            let rather = rather.unwrap_or_default();
            return vec![Fault::OtherVictims { rather }];
        };
        let mut told = preemption.violating.clone();
        told.sort_unstable();
        let Some(chosen) = same.iter().find(|it| keys(&it.violating) == told) else {
            let rather = keys(&first.violating);
            return vec![Fault::OtherViolations { rather }];
        };
        let mut faults = self.faults_of_strictness(chosen);
        faults.extend(self.cheaper(room, chosen));
        faults
    }

    fn faults_of_strictness(&self, victims: &Victims<'_>) -> Vec<Fault> {
        let violating = victims.violating.iter().filter(|_| self.is_strict());
        violating
            .map(|pod| Fault::AgainstStrictBudget { victim: pod.key() })
            .collect()
    }

    fn is_strict(&self) -> bool {
        self.rules.strict_pdb && priority_of(self.preemptor.pod) < self.rules.exempt_priority
    }

    /// The first other node on which less would be lost, however equals are ordered; `None` if
    /// such nodes are so few that the search may have ended before it came there.
    fn cheaper(&self, room: &Room<'_>, chosen: &Victims<'_>) -> Option<Fault> {
        let nodes = self.before.nodes.iter();
        let others = nodes.filter(|node| node.metadata.name != room.node.metadata.name);
        // The chosen one is a candidate.
        let (mut candidates, mut unsure) = (1, 0);
        let mut cheaper = Vec::new();
        for node in others {
            match self.allowed_victims(node) {
                None => unsure += 1,
                Some(possible) if possible.is_empty() => {}
                Some(possible) => {
                    candidates += 1;
                    cheaper.extend(self.cheaper_there(node, &possible, chosen));
                }
            }
        }
        let may_be_missed = match self.options.enough_candidates {
            // The search does not end before it found one that violates no budget.
            Some(enough) if chosen.violating.is_empty() => {
                // All candidates are tried, and maybe other nodes, of which it is a share.
                let share = candidates * usize::from(enough.percentage) / 100;
                candidates + unsure - share.max(enough.absolute).clamp(1, candidates)
            }
            _ => 0,
        };
        let is_missed = cheaper.len() <= may_be_missed;
        cheaper.into_iter().next().filter(|_| !is_missed)
    }

    /// Who might have to go from a node ([`Self::possible_victims`]), if rules allow it in
    /// whatever order; none if they do not. `None` if that is not judged.
    fn allowed_victims(&self, node: &Node) -> Option<Vec<Victims<'a>>> {
        let mut possible = self.possible_victims(&self.room(&node.metadata.name)?)?;
        let all = possible.len();
        possible.retain(|it| {
            self.faults_of_number(&it.pods).is_empty() && self.faults_of_strictness(it).is_empty()
        });
        (possible.is_empty() || possible.len() == all).then_some(possible)
    }

    /// Whether less is lost on a node, whoever of these would have to go there.
    fn cheaper_there(
        &self,
        node: &Node,
        possible: &[Victims<'_>],
        chosen: &Victims<'_>,
    ) -> Option<Fault> {
        let cost = self.cost(chosen);
        let differences = possible
            .iter()
            .map(|it| first_difference(&self.cost(it), &cost));
        let because = differences.collect::<Option<Vec<String>>>()?;
        Some(Fault::Cheaper {
            node: node.metadata.name.clone(),
            victims: keys(&possible.first()?.pods),
            because: because.into_iter().next()?,
        })
    }

    /// Who might have to go from a node: one answer for each order of equally important pods,
    /// none if that does not help. `None` if that is not judged.
    fn possible_victims(&self, room: &Room<'a>) -> Option<Vec<Victims<'a>>> {
        if self.has_port_twice(room) {
            return None;
        }
        let potential = self.potential_victims(room);
        let all: Vec<&Pod> = potential.iter().map(|subject| subject.pod).collect();
        if potential.is_empty() || self.refusal(room, &all).is_some() {
            return Some(Vec::new());
        }
        let orders = orders_of_importance(&all)?;
        Some(orders.iter().map(|order| self.spare(room, order)).collect())
    }

    /// The pods of a node that the preemptor may have killed.
    fn potential_victims(&self, room: &Room<'a>) -> Vec<&'a Subject<'a>> {
        let priority = priority_of(self.preemptor.pod);
        let now_nanos = self.before.now_nanos;
        let here = room.here.iter().copied();
        here.filter(|subject| {
            faults_of_victim(subject.pod, priority, now_nanos, &self.protections).is_empty()
        })
        .collect()
    }

    /// Thinks all of these away, and lets each stay whose staying does not hurt.
    fn spare(&self, room: &Room<'_>, order: &[&'a Pod]) -> Victims<'a> {
        let violates = self.violations(order);
        let pods = || order.iter().copied().zip(&violates);
        let first = pods().filter(|(_, violates)| **violates);
        let then = pods().filter(|(_, violates)| !**violates);
        let mut victims = Victims {
            pods: order.to_vec(),
            violating: Vec::new(),
        };
        for (pod, violates) in first.chain(then) {
            let away = victims.pods.iter().filter(|it| !std::ptr::eq(**it, pod));
            let away: Vec<&Pod> = away.copied().collect();
            if self.refusal(room, &away).is_none() {
                victims.pods = away;
            } else if *violates {
                victims.violating.push(pod);
            }
        }
        victims
    }

    /// Of pods that would go in this order, whether some budget does not allow it to each
    /// (`filterPodsWithPDBViolation`). Budgets select nobody without labels, and nobody at all
    /// with an empty selector.
    fn violations(&self, order: &[&Pod]) -> Vec<bool> {
        let mut taken: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        let mut violations = Vec::new();
        for pod in order {
            let mut is_violated = false;
            for budget in self
                .before
                .budgets
                .iter()
                .filter(|budget| selects(budget, pod))
            {
                if budget
                    .status
                    .disrupted_pods
                    .contains_key(&pod.metadata.name)
                {
                    continue;
                }
                let metadata = &budget.metadata;
                let taken = taken
                    .entry((metadata.namespace.as_str(), metadata.name.as_str()))
                    .or_default();
                *taken += 1;
                let allowed = i64::from(budget.status.disruptions_allowed);
                is_violated |= *taken > allowed - self.uncounted_kills(budget);
            }
            violations.push(is_violated);
        }
        violations
    }

    /// How many pods of a strict budget were killed since its status was counted.
    fn uncounted_kills(&self, budget: &PodDisruptionBudget) -> i64 {
        if !self.is_strict() {
            return 0;
        }
        let metadata = &budget.metadata;
        let key = format!("{}/{}", metadata.namespace, metadata.name);
        let kills = self.before.kills;
        let counted = self.before.kills_counted.get(&key).copied();
        let uncounted = kills.iter().skip(counted.unwrap_or(kills.len()));
        let uncounted = uncounted.filter(|kill| selects(budget, &kill.victim));
        i64::try_from(uncounted.count()).unwrap_or(i64::MAX)
    }

    /// What is lost, the most important first; less is better in each.
    fn cost(&self, victims: &Victims<'_>) -> [(&'static str, i128); 6] {
        let pods = &victims.pods;
        let priorities = || pods.iter().map(|pod| i128::from(priority_of(pod)));
        let highest = priorities().max().unwrap_or_default();
        let of_highest = pods
            .iter()
            .filter(|pod| i128::from(priority_of(pod)) == highest);
        // Who has not started comes after all others.
        let first_start = of_highest
            .map(|pod| started_nanos(pod).unwrap_or(i128::MAX))
            .min();
        let weighs_work = self.rules.prefers_least_lost_work;
        let weighed = pods.iter().filter(|_| weighs_work);
        let weighed = weighed.map(|pod| lost_work(pod, self.before.now_nanos));
        [
            ("violations of budgets", len(&victims.violating)),
            ("highest priority", highest),
            ("lost work", weighed.sum()),
            // Counted from the lowest priority on, so that every pod adds to it.
            (
                "sum of priorities",
                priorities().map(|it| it - i128::from(i32::MIN)).sum(),
            ),
            ("victims", len(pods)),
            ("started so long ago", -first_start.unwrap_or_default()),
        ]
    }

    /// What the preemptor breaks on a node with these pods gone: with the pods that the node is
    /// promised to, or else without them.
    fn refusal(&self, room: &Room<'_>, away: &[&Pod]) -> Option<Breach> {
        let with = (!room.promised.is_empty()).then(|| self.refusal_of(room, away, true));
        with.flatten()
            .or_else(|| self.refusal_of(room, away, false))
    }

    fn refusal_of(&self, room: &Room<'_>, away: &[&Pod], with_promised: bool) -> Option<Breach> {
        let mut site = Site::of(room.node);
        let here = room.here.iter();
        for subject in here.filter(|it| !away.iter().any(|pod| std::ptr::eq(*pod, it.pod))) {
            site.add(subject);
        }
        for subject in room.promised.iter().filter(|_| with_promised) {
            site.add(subject);
        }
        let mut breaches = outcome::breaches(self.preemptor, &site, &[], self.options);
        breaches.next()
    }

    fn room(&self, node: &str) -> Option<Room<'a>> {
        let mut nodes = self.before.nodes.iter();
        let node = nodes.find(|it| it.metadata.name == node)?;
        let name = node.metadata.name.as_str();
        let subjects = self.subjects.iter();
        let here = subjects.clone().filter(|it| it.pod.spec.node_name == name);
        let priority = priority_of(self.preemptor.pod);
        let promised = subjects.filter(|it| {
            it.promised_node() == Some(name)
                && priority_of(it.pod) >= priority
                && !std::ptr::eq(it.pod, self.preemptor.pod)
        });
        Some(Room {
            node,
            here: here.collect(),
            promised: promised.collect(),
        })
    }

    /// Whether upstream takes a port for free there that is not.
    fn has_port_twice(&self, room: &Room<'_>) -> bool {
        let mut site = Site::of(room.node);
        let all = room.here.iter().chain(&room.promised);
        all.for_each(|subject| site.add(subject));
        site.has_port_twice_that_is_wanted_by(self.preemptor)
    }

    /// Whether nothing that is not checked may keep the preemptor from a node.
    fn knows_all_constraints(&self) -> bool {
        let mut placed = self.subjects.iter().map(|subject| subject.pod);
        !has_unchecked_constraints(self.preemptor.pod)
            && !placed.any(|pod| !pod.spec.node_name.is_empty() && repels_others(pod))
    }
}

/// All orders of pods in which more important ones come first: of higher priority, then started
/// earlier. `None` if there are too many.
fn orders_of_importance<'a>(pods: &[&'a Pod]) -> Option<Vec<Vec<&'a Pod>>> {
    let mut equals: BTreeMap<(i64, i128), Vec<&Pod>> = BTreeMap::new();
    for pod in pods {
        let importance = (
            -i64::from(priority_of(pod)),
            started_nanos(pod).unwrap_or(i128::MAX),
        );
        equals.entry(importance).or_default().push(pod);
    }
    let mut orders: Vec<Vec<&Pod>> = vec![Vec::new()];
    for group in equals.values() {
        for taken in 0..group.len() {
            // Each of those that are left may be next.
            let mut longer = Vec::new();
            for order in &orders {
                let so_far = order.len() - taken;
                let left = group.iter().filter(|pod| {
                    let mut used = order[so_far..].iter();
                    !used.any(|it| std::ptr::eq(*it, **pod))
                });
                longer.extend(left.map(|pod| [order.as_slice(), &[*pod]].concat()));
            }
            if longer.len() > ORDERS_MAX {
                return None;
            }
            orders = longer;
        }
    }
    Some(orders)
}

/// Whether a budget is about a pod.
fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let labels = &pod.metadata.labels;
    let selector = Selector::from_label_selector(budget.spec.selector.as_ref());
    budget.metadata.namespace == pod.metadata.namespace
        && !labels.is_empty()
        && selector.is_ok_and(|selector| !selector.is_empty() && selector.matches(labels))
}

/// Whether a pod is going because it was preempted.
fn is_going_for_another(pod: &Pod) -> bool {
    let mut conditions = pod.status.conditions.iter();
    pod.metadata.deletion_timestamp.is_some()
        && conditions.any(|it| {
            it.type_ == "DisruptionTarget"
                && it.status == "True"
                && it.reason == "PreemptionByScheduler"
        })
}

/// In what the one costs less than the other; `None` if it does not.
fn first_difference(
    one: &[(&'static str, i128); 6],
    other: &[(&'static str, i128); 6],
) -> Option<String> {
    let mut pairs = one.iter().zip(other);
    let ((what, one), (_, other)) = pairs.find(|(one, other)| one.1 != other.1)?;
    (one < other).then(|| format!("{what} {one}, not {other}"))
}

/// Names of pods, sorted.
fn keys(pods: &[&Pod]) -> Vec<String> {
    let mut keys: Vec<String> = pods.iter().map(|pod| pod.key()).collect();
    keys.sort_unstable();
    keys
}

fn len(pods: &[&Pod]) -> i128 {
    i128::try_from(pods.len()).unwrap_or(i128::MAX)
}

//! Preemption as people met it: small scenarios from public bug reports, each with the answer
//! that Kubernetes 1.36 gives.
//!
//! A test reads as the report: nodes, the pods that run there, who arrives when, and the
//! [`World::story`] of what became of it. Sizes are CPUs; there is memory for all. Who is told
//! to stop takes its grace seconds to go.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrank_api::types::{
    Container, LabelSelector, Node, Pod, PodCondition, PodDisruptionBudget, PodSpec,
};
use outrank_engine::ids::PodId;
use outrank_engine::preemption::Preemption;
use outrank_engine::{Decision, Engine, EngineConfig, Event, Outcome};
use serde_json::json;

const SECOND: u64 = 1_000_000_000;

/// A cluster, its clock, and the parts around the scheduler: kubelets that stop pods, and a
/// controller that keeps budgets.
struct World {
    engine: Engine,
    seconds: u64,
    pods: BTreeMap<String, Pod>,
    /// When pods that were told to stop are gone.
    ends: Vec<(u64, String)>,
    budgets: BTreeMap<String, PodDisruptionBudget>,
    /// Whether budgets know at once of pods that stop.
    keeps_budgets_in_step: bool,
    told: Vec<String>,
}

impl World {
    fn new() -> Self {
        Self {
            engine: Engine::new(&EngineConfig::default()).expect("the default profile is valid"),
            seconds: 0,
            pods: BTreeMap::new(),
            ends: Vec::new(),
            budgets: BTreeMap::new(),
            keeps_budgets_in_step: false,
            told: Vec::new(),
        }
    }

    fn node(&mut self, name: &str, cpu: &str) {
        self.node_with(name, cpu, false);
    }

    fn cordon(&mut self, name: &str, cpu: &str) {
        self.node_with(name, cpu, true);
        self.settle();
    }

    fn node_with(&mut self, name: &str, cpu: &str, is_cordoned: bool) {
        let node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"unschedulable": is_cordoned},
            "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}},
        });
        let node: Node = serde_json::from_value(node).expect("a node");
        self.tell(Event::NodeChanged(node));
    }

    fn node_is_gone(&mut self, name: &str) {
        let name = name.to_owned();
        self.tell(Event::NodeGone { name });
        self.settle();
    }

    /// A pod that runs on a node.
    fn runs(&mut self, node: &str, pod: Pod) {
        self.tell_pod(on_node(pod, node));
    }

    /// A pod without a node comes.
    fn arrives(&mut self, pod: Pod) {
        self.all_arrive([pod]);
    }

    /// Pods without a node come, all before the scheduler looks.
    fn all_arrive<const N: usize>(&mut self, pods: [Pod; N]) {
        for pod in pods {
            self.tell_pod(pod);
        }
        self.settle();
    }

    /// A budget over the pods that are [`under`] it.
    fn budget(&mut self, name: &str, disruptions_allowed: i32, disrupted: &[&str]) {
        let disrupted = disrupted.iter().map(|pod| ((*pod).to_owned(), None));
        let mut budget = PodDisruptionBudget::default();
        budget.metadata.namespace = "default".into();
        budget.metadata.name = name.into();
        budget.spec.selector = Some(LabelSelector {
            match_labels: [("budget".to_owned(), name.to_owned())].into(),
            ..LabelSelector::default()
        });
        budget.status.disruptions_allowed = disruptions_allowed;
        budget.status.disrupted_pods = disrupted.collect();
        self.budgets.insert(name.to_owned(), budget.clone());
        self.tell(Event::BudgetChanged(budget));
    }

    /// Lets time pass until that second.
    fn at(&mut self, seconds: u64) {
        while let Some(next) = self.ends.iter().map(|(end, _)| *end).min()
            && next <= seconds
        {
            self.seconds = next;
            let (now, later) = self.ends.drain(..).partition(|(end, _)| *end == next);
            self.ends = later;
            for (_, pod) in now {
                self.is_gone(&pod);
            }
            self.settle();
        }
        self.seconds = seconds;
        self.settle();
    }

    /// A pod ends by itself.
    fn ends(&mut self, pod: &str) {
        self.is_gone(pod);
        self.settle();
    }

    /// A user deletes a pod.
    fn user_deletes(&mut self, pod: &str) {
        self.stop(pod, "deleted by a user");
        self.settle();
    }

    /// What happened since the last time, one line each.
    fn story(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }

    fn nominated_node(&self, pod: &str) -> Option<&str> {
        let pod = self.engine.pod("default", pod)?;
        self.engine.nominated_node(pod)
    }

    fn lives(&self, pod: &str) -> bool {
        let pod = self.pods.get(pod);
        pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none())
    }

    /// Has a pod tried out of its turn, as when it waited too long.
    fn tries(&mut self, pod: &str) {
        let pod = self.engine.pod("default", pod).expect("a known pod");
        let decision = self.engine.decide_pod(pod, self.seconds * SECOND);
        self.carry_out(decision.expect("a pod that wants a place"));
        self.settle();
    }

    fn tell(&mut self, event: Event) {
        self.engine.handle(event, self.seconds * SECOND);
    }

    fn tell_pod(&mut self, pod: Pod) {
        self.pods.insert(pod.metadata.name.clone(), pod.clone());
        self.tell(Event::PodChanged(pod));
    }

    fn is_gone(&mut self, pod: &str) {
        if self.pods.remove(pod).is_some() {
            self.say(format!("{pod} is gone"));
            self.tell(Event::PodGone {
                namespace: "default".into(),
                name: pod.into(),
            });
        }
    }

    /// Decides until nobody can be tried.
    fn settle(&mut self) {
        for _ in 0..100 {
            let Some(decision) = self.engine.next(self.seconds * SECOND) else {
                return;
            };
            self.carry_out(decision);
        }
        panic!("the queue never drains: {:#?}", self.told);
    }

    /// What the API server and kubelets make of a decision.
    fn carry_out(&mut self, decision: Decision) {
        let name = self.name_of(decision.pod);
        match &decision.outcome {
            Outcome::Scheduled { node, .. } => {
                let node = self.engine.cluster().name(*node).to_owned();
                self.say(format!("{name} is bound to {node}"));
                let pod = on_node(self.pods[&name].clone(), &node);
                return self.tell_pod(pod);
            }
            Outcome::Unschedulable(diagnosis) if decision.preemption.is_none() => {
                let message = diagnosis.message(self.engine.cluster());
                self.say(format!("{name} waits: {message}"));
            }
            Outcome::Unschedulable(_) => {}
            Outcome::Error(error) => panic!("{name}: {error}"),
        }
        if let Some(preemption) = &decision.preemption {
            self.preempt(&name, preemption);
        }
        self.store_nominations();
    }

    fn preempt(&mut self, preemptor: &str, preemption: &Preemption) {
        let node = self.engine.cluster().name(preemption.node).to_owned();
        let victims = preemption.victims.pods.iter();
        let victims: Vec<String> = victims.map(|pod| self.name_of(*pod)).collect();
        let against = match preemption.victims.violating.len() {
            0 => String::new(),
            violations => format!(", {violations} against a budget"),
        };
        let who = victims.join(" and ");
        self.say(format!("{preemptor} preempts {who} on {node}{against}"));
        for victim in victims {
            self.stop(&victim, "preempted");
        }
    }

    /// Tells a pod to stop; it is gone after its grace seconds. Who is stopping already is left
    /// alone.
    fn stop(&mut self, name: &str, why: &str) {
        let mut pod = self.pods[name].clone();
        if pod.metadata.deletion_timestamp.is_some() {
            return;
        }
        if why == "preempted" {
            pod.status.conditions.push(PodCondition {
                type_: "DisruptionTarget".into(),
                status: "True".into(),
                reason: "PreemptionByScheduler".into(),
                ..PodCondition::default()
            });
        }
        pod.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
        let grace = pod.spec.termination_grace_period_seconds.unwrap_or(1);
        let grace = u64::try_from(grace).expect("grace is not negative");
        self.ends.push((self.seconds + grace, name.to_owned()));
        self.tell_pod(pod.clone());
        if self.keeps_budgets_in_step
            && let Some(budget) = pod.metadata.labels.get("budget")
        {
            let mut budget = self.budgets[budget].clone();
            budget.status.disruptions_allowed = (budget.status.disruptions_allowed - 1).max(0);
            self.budgets
                .insert(budget.metadata.name.clone(), budget.clone());
            self.tell(Event::BudgetChanged(budget));
        }
    }

    /// Writes nominations down in the pods' status, which comes back as news of the pod.
    fn store_nominations(&mut self) {
        let pods: Vec<Pod> = self.pods.values().cloned().collect();
        for mut pod in pods {
            let node = self.nominated_node(&pod.metadata.name).unwrap_or_default();
            if pod.status.nominated_node_name == node {
                continue;
            }
            let name = &pod.metadata.name;
            let line = match node {
                "" => format!("{name} is no longer nominated"),
                node => format!("{name} is nominated to {node}"),
            };
            pod.status.nominated_node_name = node.to_owned();
            self.say(line);
            self.tell_pod(pod);
        }
    }

    fn name_of(&self, pod: PodId) -> String {
        let (_, name) = self.engine.pod_name(pod).expect("a known pod");
        name.to_owned()
    }

    fn say(&mut self, line: String) {
        self.told.push(format!("{} s: {line}", self.seconds));
    }
}

/// A pod that asks for that much CPU.
fn pod(name: &str, priority: i32, cpu: &str) -> Pod {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let container: Container = serde_json::from_value(container).expect("a container");
    let mut pod = Pod::default();
    pod.metadata.namespace = "default".into();
    pod.metadata.name = name.into();
    pod.spec = Arc::new(PodSpec {
        priority: Some(priority),
        containers: vec![container],
        ..PodSpec::default()
    });
    pod
}

/// A pod that takes that long to stop.
fn with_grace(seconds: i64, mut pod: Pod) -> Pod {
    Arc::make_mut(&mut pod.spec).termination_grace_period_seconds = Some(seconds);
    pod
}

/// A pod that a budget counts.
fn under(budget: &str, mut pod: Pod) -> Pod {
    pod.metadata.labels.insert("budget".into(), budget.into());
    pod
}

/// A pod that may not preempt.
fn never_preempting(mut pod: Pod) -> Pod {
    Arc::make_mut(&mut pod.spec).preemption_policy = Some("Never".into());
    pod
}

fn on_node(mut pod: Pod, node: &str) -> Pod {
    Arc::make_mut(&mut pod.spec).node_name = node.into();
    pod.status.phase = "Running".into();
    pod.status.nominated_node_name.clear();
    pod
}

/// One protected and one unprotected pod on n1, a protected one on n2.
fn two_nodes_with_a_protected_pod_each() -> World {
    let mut world = World::new();
    world.node("n1", "2");
    world.runs("n1", under("pdb-1", pod("p1", 1000, "1")));
    world.runs("n1", under("pdb-2", pod("p2", 10, "1")));
    world.node("n2", "2");
    world.runs("n2", under("pdb-3", pod("p3", 100, "2")));
    world.budget("pdb-1", 1, &[]);
    world.budget("pdb-2", 0, &[]);
    world.budget("pdb-3", 0, &[]);
    world
}

/// Both nodes cost one violation. The most important victim is of priority 1000 on n1 and of
/// 100 on n2, though the first pod in the list of n1 is the protected one of priority 10
/// (kubernetes/kubernetes#128307).
#[test]
fn the_most_important_victim_counts_wherever_it_is_listed() {
    let mut world = two_nodes_with_a_protected_pod_each();
    world.arrives(pod("h", 10_000, "2"));
    world.at(5);
    let story = [
        "0 s: h preempts p3 on n2, 1 against a budget",
        "0 s: h is nominated to n2",
        "1 s: p3 is gone",
        "1 s: h is bound to n2",
    ];
    assert_eq!(world.story(), story);
    assert!(world.lives("p1") && world.lives("p2"));
}

/// The protected pod of n1 can stay if the one of priority 1000 goes: no violation, and that
/// counts before priorities do (kubernetes/kubernetes#129136).
#[test]
fn keeping_a_budget_counts_more_than_the_priority_of_the_victim() {
    let mut world = two_nodes_with_a_protected_pod_each();
    world.arrives(pod("h", 10_000, "1"));
    let story = ["0 s: h preempts p1 on n1", "0 s: h is nominated to n1"];
    assert_eq!(world.story(), story);
    assert!(world.lives("p2") && world.lives("p3"));
}

/// The budget of n1 allows one of its two pods to go, not each of them
/// (kubernetes/kubernetes#82235).
#[test]
fn a_budget_is_used_up_victim_by_victim() {
    let mut world = World::new();
    world.node("n1", "2");
    world.runs("n1", under("pdb-1", pod("a", 10, "1")));
    world.runs("n1", under("pdb-1", pod("b", 10, "1")));
    world.node("n2", "2");
    world.runs("n2", under("pdb-2", pod("c", 10, "1")));
    world.runs("n2", pod("d", 10, "1"));
    world.budget("pdb-1", 1, &[]);
    world.budget("pdb-2", 1, &[]);
    world.arrives(pod("h", 100, "2"));
    let story = ["0 s: h preempts c and d on n2", "0 s: h is nominated to n2"];
    assert_eq!(world.story(), story);
}

/// Neither budget allows anything, but that of `a` says that `a` is counted as away already
/// (kubernetes/kubernetes#91986, #92475).
#[test]
fn a_disruption_that_is_paid_for_is_not_charged_again() {
    let mut world = World::new();
    world.node("n1", "1");
    world.runs("n1", under("pdb-x", pod("a", 10, "1")));
    world.node("n2", "1");
    world.runs("n2", under("pdb-y", pod("b", 10, "1")));
    world.budget("pdb-x", 0, &["a"]);
    world.budget("pdb-y", 0, &[]);
    world.arrives(pod("h", 100, "1"));
    let story = ["0 s: h preempts a on n1", "0 s: h is nominated to n1"];
    assert_eq!(world.story(), story);
}

/// A set of two pods of which one may go, and a pod of more importance without a budget.
fn two_of_a_set_and_a_more_important_pod() -> World {
    let mut world = World::new();
    for (node, victim) in [("n1", "v1"), ("n2", "v2")] {
        world.node(node, "1");
        world.runs(node, under("pdb", pod(victim, 10, "1")));
    }
    world.node("n3", "1");
    world.runs("n3", pod("w", 50, "1"));
    world.budget("pdb", 1, &[]);
    world
}

/// Two preemptors come before the controller has counted the first victim: the budget still
/// says that one may go, and both of the set go. An open report; this is what kube-scheduler
/// does, which reads the budget's status and nothing else (kubernetes/kubernetes#91492).
#[test]
fn a_budget_that_lags_behind_is_believed() {
    let mut world = two_of_a_set_and_a_more_important_pod();
    world.all_arrive([pod("h1", 100, "1"), pod("h2", 100, "1")]);
    let story = [
        "0 s: h1 preempts v1 on n1",
        "0 s: h1 is nominated to n1",
        "0 s: h2 preempts v2 on n2",
        "0 s: h2 is nominated to n2",
    ];
    assert_eq!(world.story(), story);
    assert!(world.lives("w"));
}

/// The same where the budget is told of each victim at once: the second preemptor takes the
/// more important pod, which has no budget.
#[test]
fn a_budget_that_is_kept_in_step_saves_the_second_pod() {
    let mut world = two_of_a_set_and_a_more_important_pod();
    world.keeps_budgets_in_step = true;
    world.all_arrive([pod("h1", 100, "1"), pod("h2", 100, "1")]);
    let story = [
        "0 s: h1 preempts v1 on n1",
        "0 s: h1 is nominated to n1",
        "0 s: h2 preempts w on n3",
        "0 s: h2 is nominated to n3",
    ];
    assert_eq!(world.story(), story);
    assert!(world.lives("v2"));
}

/// `h` waits for `low`, which takes an hour to go.
fn waiting_an_hour_for_a_victim() -> World {
    let mut world = World::new();
    world.node("nA", "1");
    world.runs("nA", with_grace(3600, pod("low", 10, "1")));
    world.node("nB", "1");
    world.runs("nB", pod("mid", 50, "1"));
    world.arrives(pod("h", 100, "1"));
    let story = ["0 s: h preempts low on nA", "0 s: h is nominated to nA"];
    assert_eq!(world.story(), story);
    world
}

/// The node is cordoned while its pod takes its time to go: nothing that goes from there helps
/// any more, so that another pod must (kubernetes/kubernetes#92600, #92604). kube-scheduler
/// finds that out when it next tries the pod, after five minutes at the latest.
#[test]
fn a_nominated_node_that_is_cordoned_is_given_up_for_another() {
    let mut world = waiting_an_hour_for_a_victim();
    world.at(10);
    world.cordon("nA", "1");
    world.at(20);
    let story = [
        "10 s: h preempts mid on nB",
        "10 s: h is nominated to nB",
        "11 s: mid is gone",
        "11 s: h is bound to nB",
    ];
    assert_eq!(world.story(), story);
}

/// The same if the node is gone.
#[test]
fn a_nominated_node_that_is_gone_is_given_up_for_another() {
    let mut world = waiting_an_hour_for_a_victim();
    world.at(10);
    world.node_is_gone("nA");
    world.at(20);
    let story = [
        "10 s: h preempts mid on nB",
        "10 s: h is nominated to nB",
        "11 s: mid is gone",
        "11 s: h is bound to nB",
    ];
    assert_eq!(world.story(), story);
}

/// A victim that takes an hour to go is no reason to kill another pod, however often the pod is
/// tried (kubernetes/kubernetes#95752).
#[test]
fn while_its_victim_goes_a_pod_waits() {
    let mut world = waiting_an_hour_for_a_victim();
    world.at(30);
    world.tries("h");
    let story = [
        "30 s: h waits: 0/2 nodes are available: 2 Insufficient cpu. \
                  no new claims to deallocate, \
                  preemption: not eligible due to a terminating pod on the nominated node.",
    ];
    assert_eq!(world.story(), story);
    assert_eq!(world.nominated_node("h"), Some("nA"));
    world.at(3600);
    let story = ["3600 s: low is gone", "3600 s: h is bound to nA"];
    assert_eq!(world.story(), story);
    assert!(world.lives("mid"));
}

/// Being nominated to a node is a hint: if room is found elsewhere first, that is taken
/// (kubernetes/kubernetes#95752).
#[test]
fn a_nominated_pod_takes_what_is_free_first() {
    let mut world = waiting_an_hour_for_a_victim();
    world.at(60);
    world.ends("mid");
    let story = ["60 s: mid is gone", "60 s: h is bound to nB"];
    assert_eq!(world.story(), story);
}

/// `p` made room for itself on nA, where a user then deletes another pod that takes an hour.
fn waiting_beside_a_pod_that_a_user_deleted() -> World {
    let mut world = World::new();
    world.node("nA", "2");
    world.runs("nA", with_grace(30, pod("v", 1, "1")));
    world.runs("nA", with_grace(3600, pod("w", 60, "1")));
    world.node("nB", "1");
    world.runs("nB", pod("b", 50, "1"));
    world.arrives(pod("p", 100, "1"));
    world.at(5);
    world.user_deletes("w");
    let story = ["0 s: p preempts v on nA", "0 s: p is nominated to nA"];
    assert_eq!(world.story(), story);
    world
}

/// `q` takes the room that `p` made, and `p` makes other room at once. When that is free first,
/// `q` takes it too, as it comes first, and `p` gets its own (kubernetes/kubernetes#104266,
/// #114623).
#[test]
fn a_pod_that_lost_its_nomination_to_another_preempts_elsewhere() {
    let mut world = waiting_beside_a_pod_that_a_user_deleted();
    world.at(10);
    world.arrives(pod("q", 200, "1"));
    // `v` is going already: nobody is told anything for `q`.
    let story = [
        "10 s: q preempts v on nA",
        "10 s: p is no longer nominated",
        "10 s: q is nominated to nA",
        "10 s: p preempts b on nB",
        "10 s: p is nominated to nB",
    ];
    assert_eq!(world.story(), story);
    world.at(40);
    let story = [
        "11 s: b is gone",
        "11 s: q is bound to nB",
        "11 s: p preempts v on nA",
        "11 s: p is nominated to nA",
        "30 s: v is gone",
        "30 s: p is bound to nA",
    ];
    assert_eq!(world.story(), story);
}

/// The same if `q` comes when the room is there, and `p` is still nominated to nA. All that
/// goes from there is a pod that a user deleted: only those are waited for that the scheduler
/// told to stop (kubernetes/kubernetes#104266, #114623).
#[test]
fn a_pod_that_a_user_deleted_is_not_waited_for() {
    let mut world = waiting_beside_a_pod_that_a_user_deleted();
    world.at(29);
    world.is_gone("v");
    world.arrives(pod("q", 200, "1"));
    let story = [
        "29 s: v is gone",
        "29 s: q is bound to nA",
        "29 s: p preempts b on nB",
        "29 s: p is nominated to nB",
    ];
    assert_eq!(world.story(), story);
}

/// `p1` made room for itself, but a pod of higher priority came in between and `p1` fits no
/// longer, whoever goes. The room that was kept for it is free for others
/// (kubernetes/kubernetes#106780, #85677).
#[test]
fn room_that_is_no_longer_enough_is_not_kept() {
    let mut world = World::new();
    world.node("n1", "4");
    world.runs("n1", with_grace(60, pod("p0", 1, "2")));
    world.arrives(pod("p1", 10, "3"));
    world.at(10);
    world.arrives(pod("p2", 100, "1500m"));
    let story = [
        "0 s: p1 preempts p0 on n1",
        "0 s: p1 is nominated to n1",
        "10 s: p2 is bound to n1",
    ];
    assert_eq!(world.story(), story);

    world.at(60);
    let story = [
        "60 s: p0 is gone",
        "60 s: p1 waits: 0/1 nodes are available: 1 Insufficient cpu. \
         no new claims to deallocate, preemption: \
         0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        "60 s: p1 is no longer nominated",
    ];
    assert_eq!(world.story(), story);
    world.at(70);
    world.arrives(pod("s", 1, "2"));
    assert_eq!(world.story(), ["70 s: s is bound to n1"]);
}

/// A pod that may not preempt waits in front of those of lower priority and kills nobody
/// (kubernetes/kubernetes#123882 is about who may decide that).
#[test]
fn a_pod_that_never_preempts_only_queues_in_front() {
    let mut world = World::new();
    world.node("n1", "1");
    world.runs("n1", pod("runs", 1, "1"));
    world.all_arrive([
        pod("low", 0, "1"),
        never_preempting(pod("patient", 100, "1")),
    ]);
    let story = [
        "0 s: patient waits: 0/1 nodes are available: 1 Insufficient cpu. \
         no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.",
        "0 s: low waits: 0/1 nodes are available: 1 Insufficient cpu. \
         no new claims to deallocate, preemption: \
         0/1 nodes are available: 1 No preemption victims found for incoming pod.",
    ];
    assert_eq!(world.story(), story);
    world.at(60);
    world.ends("runs");
    assert_eq!(
        world.story()[..2],
        ["60 s: runs is gone", "60 s: patient is bound to n1"]
    );
    assert!(world.lives("patient"));
}

/// Three small pods make room for one that needs all they have (YUNIKORN-3137).
#[test]
fn several_small_victims_make_room_for_one_pod() {
    let mut world = World::new();
    world.node("n1", "300m");
    for victim in ["a", "b", "c"] {
        world.runs("n1", pod(victim, 1, "100m"));
    }
    world.arrives(pod("h", 10, "300m"));
    world.at(5);
    let story = [
        "0 s: h preempts a and b and c on n1",
        "0 s: h is nominated to n1",
        "1 s: a is gone",
        "1 s: b is gone",
        "1 s: c is gone",
        "1 s: h is bound to n1",
    ];
    assert_eq!(world.story(), story);
}

/// A pod whose limits are its requests (Guaranteed) goes like any other for one whose are not,
/// if its priority is lower. That its status keeps the class is up to who writes it
/// (kubernetes/kubernetes#126644).
#[test]
fn quality_of_service_saves_nobody() {
    let mut guaranteed = pod("guaranteed", 10, "1");
    let resources = json!({"cpu": "1", "memory": "1Gi"});
    let container = json!({"name": "c",
                           "resources": {"requests": resources, "limits": resources}});
    Arc::make_mut(&mut guaranteed.spec).containers =
        vec![serde_json::from_value(container).expect("a container")];
    let mut world = World::new();
    world.node("n1", "1");
    world.runs("n1", guaranteed);
    world.arrives(pod("burstable", 100, "500m"));
    world.at(5);
    let story = [
        "0 s: burstable preempts guaranteed on n1",
        "0 s: burstable is nominated to n1",
        "1 s: guaranteed is gone",
        "1 s: burstable is bound to n1",
    ];
    assert_eq!(world.story(), story);
}

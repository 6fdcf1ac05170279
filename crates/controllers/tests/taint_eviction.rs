//! When NoExecute taints drive pods off their nodes: scenarios to read, and a naive definition
//! that random histories are held against.

#[path = "../../../tests/random.rs"]
mod random;

use outrank_api::decode::ObjectKind;
use outrank_api::types::{Taint, Toleration};
use outrank_controllers::Key;
use outrank_controllers::taint_eviction::{Step, TaintEviction};
use random::Random;

const SECOND: i64 = 1_000_000_000;
const NODE: &str = "node-1";

/// `A`, `A=value`: a NoExecute taint.
fn taint(text: &str) -> Taint {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    Taint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect: "NoExecute".to_owned(),
        time_added: None,
    }
}

/// `A` is tolerated for ever, `A for 300` as long.
fn toleration(text: &str) -> Toleration {
    let (key, seconds) = match text.split_once(" for ") {
        Some((key, seconds)) => (key, Some(seconds.parse().expect("a number of seconds"))),
        None => (text, None),
    };
    Toleration {
        key: key.to_owned(),
        operator: "Exists".to_owned(),
        effect: "NoExecute".to_owned(),
        toleration_seconds: seconds,
        ..Toleration::default()
    }
}

/// A pod and its node, told second by second.
struct Story {
    eviction: TaintEviction,
    pod: Key,
    /// `None` while the pod is not on the node.
    tolerations: Option<Vec<Toleration>>,
    log: Vec<String>,
}

impl Story {
    fn new() -> Self {
        Story {
            eviction: TaintEviction::default(),
            pod: Key::new(ObjectKind::Pod, "default", "web"),
            tolerations: None,
            log: Vec::new(),
        }
    }

    fn until(&mut self, second: i64) {
        while let Some(time) = self.eviction.next_departure()
            && time <= second * SECOND
        {
            let steps = self.eviction.depart(time);
            self.note(time / SECOND, &steps);
        }
    }

    fn node_has(&mut self, second: i64, taints: &[&str]) {
        self.node_has_taints(
            second,
            &taints.iter().map(|text| taint(text)).collect::<Vec<_>>(),
        );
    }

    fn node_has_taints(&mut self, second: i64, taints: &[Taint]) {
        self.until(second);
        let tolerations = self.tolerations.as_deref();
        let pods = tolerations.map(|tolerations| (self.pod.clone(), tolerations));
        let steps = self.eviction.node_seen(NODE, taints, pods, second * SECOND);
        self.note(second, &steps);
    }

    fn pod_tolerates(&mut self, second: i64, tolerations: &[&str]) {
        self.pod_has_tolerations(
            second,
            tolerations.iter().map(|text| toleration(text)).collect(),
        );
    }

    fn pod_has_tolerations(&mut self, second: i64, tolerations: Vec<Toleration>) {
        self.until(second);
        let now = second * SECOND;
        let steps = self.eviction.pod_seen(&self.pod, NODE, &tolerations, now);
        self.tolerations = Some(tolerations);
        self.note(second, &steps);
    }

    fn pod_is_deleted(&mut self, second: i64) {
        self.until(second);
        self.tolerations = None;
        let steps = self.eviction.pod_gone(&self.pod);
        self.note(second, &steps);
    }

    fn node_is_deleted(&mut self, second: i64) {
        self.until(second);
        self.eviction.node_gone(NODE);
    }

    fn note(&mut self, second: i64, steps: &[Step]) {
        self.log.extend(steps.iter().map(|step| match step {
            Step::Schedule { fire_at, .. } => format!("t{second}: to go at t{}", fire_at / SECOND),
            Step::Cancel { .. } => format!("t{second}: may stay"),
            Step::Evict { .. } => format!("t{second}: evicted"),
        }));
    }

    /// What happened up to some second.
    fn told_until(mut self, second: i64) -> Vec<String> {
        self.until(second);
        self.log
    }
}

/// kubernetes/kubernetes#90794: the timer of a taint that was removed went on, since another
/// taint was still there.
#[test]
fn a_taint_that_is_gone_counts_no_more_even_if_others_stay() {
    let mut story = Story::new();
    story.pod_tolerates(0, &["A", "B for 300"]);
    story.node_has(0, &["A"]);
    story.node_has(0, &["A", "B"]);
    story.node_has(100, &["A"]);
    let told = story.told_until(400);
    assert_eq!(told, ["t0: to go at t300", "t100: may stay"]);
}

#[test]
fn a_taint_that_comes_again_starts_afresh() {
    let mut story = Story::new();
    story.pod_tolerates(0, &["A", "B for 300"]);
    story.node_has(0, &["A", "B"]);
    story.node_has(100, &["A"]);
    story.node_has(200, &["A", "B"]);
    assert_eq!(
        story.told_until(1000),
        [
            "t0: to go at t300",
            "t100: may stay",
            "t200: to go at t500",
            "t500: evicted"
        ]
    );
}

/// kubernetes/kubernetes#102993, still so in 1.36.
#[test]
fn other_toleration_seconds_do_not_move_an_eviction_that_is_set() {
    for edited in ["A for 10", "A for 9000", "A for 0"] {
        let mut story = Story::new();
        story.pod_tolerates(0, &["A for 300"]);
        story.node_has(0, &["A"]);
        story.pod_tolerates(50, &[edited]);
        let told = story.told_until(10_000);
        assert_eq!(told, ["t0: to go at t300", "t300: evicted"], "{edited}");
    }
}

#[test]
fn another_taint_of_less_patience_does_not_move_it_either() {
    let mut story = Story::new();
    story.pod_tolerates(0, &["A for 300", "B for 10"]);
    story.node_has(0, &["A"]);
    story.node_has(100, &["A", "B"]);
    let told = story.told_until(1000);
    assert_eq!(told, ["t0: to go at t300", "t300: evicted"]);
}

#[test]
fn a_taint_that_is_not_tolerated_at_all_ends_the_waiting() {
    let mut story = Story::new();
    story.pod_tolerates(0, &["A for 300"]);
    story.node_has(0, &["A"]);
    story.node_has(100, &["A", "B"]);
    let told = story.told_until(1000);
    assert_eq!(
        told,
        ["t0: to go at t300", "t100: may stay", "t100: evicted"]
    );
}

#[test]
fn the_shortest_patience_of_several_taints_decides() {
    let mut story = Story::new();
    story.pod_tolerates(0, &["A for 300", "B for 40", "C"]);
    story.node_has(5, &["A", "B", "C"]);
    let told = story.told_until(1000);
    assert_eq!(told, ["t5: to go at t45", "t45: evicted"]);
}

#[test]
fn of_tolerations_that_match_the_first_counts() {
    for (tolerations, expected) in [
        (["A for 300", "A for 10"], "t0: to go at t300"),
        (["A for 10", "A"], "t0: to go at t10"),
    ] {
        let mut story = Story::new();
        story.pod_tolerates(0, &tolerations);
        story.node_has(0, &["A"]);
        assert_eq!(story.told_until(1), [expected]);
    }
}

#[test]
fn no_patience_at_all_is_none() {
    for patience in ["A for 0", "A for -5"] {
        let mut story = Story::new();
        story.pod_tolerates(0, &[patience]);
        story.node_has(7, &["A"]);
        assert_eq!(story.told_until(1000), ["t7: evicted"]);
    }
}

#[test]
fn when_the_taint_was_added_does_not_matter() {
    let mut story = Story::new();
    story.pod_tolerates(0, &["A for 300"]);
    let long_ago = Taint {
        time_added: Some("2020-01-01T00:00:00Z".to_owned()),
        ..taint("A")
    };
    story.node_has_taints(20, &[long_ago]);
    assert_eq!(story.told_until(100), ["t20: to go at t320"]);
}

#[test]
fn a_pod_that_comes_to_a_tainted_node_has_its_own_time() {
    let mut story = Story::new();
    story.node_has(0, &["A"]);
    story.pod_tolerates(60, &["A for 300"]);
    let told = story.told_until(1000);
    assert_eq!(told, ["t60: to go at t360", "t360: evicted"]);
}

#[test]
fn the_timer_goes_with_the_pod_but_not_with_the_node() {
    let mut story = Story::new();
    story.pod_tolerates(0, &["A for 300"]);
    story.node_has(0, &["A"]);
    story.pod_is_deleted(10);
    let told = story.told_until(1000);
    assert_eq!(told, ["t0: to go at t300", "t10: may stay"]);

    let mut story = Story::new();
    story.pod_tolerates(0, &["A for 300"]);
    story.node_has(0, &["A"]);
    story.node_is_deleted(10);
    let told = story.told_until(1000);
    assert_eq!(told, ["t0: to go at t300", "t300: evicted"]);
}

#[test]
fn a_node_that_is_there_again_without_taints_lets_its_pods_stay() {
    let mut story = Story::new();
    story.pod_tolerates(0, &["A for 100"]);
    story.node_has(10, &["A"]);
    story.node_is_deleted(20);
    story.node_has(30, &[]);
    let told = story.told_until(1000);
    assert_eq!(told, ["t10: to go at t110", "t30: may stay"]);
}

#[test]
fn patience_beyond_all_time_is_for_ever() {
    for seconds in [i64::MAX, i64::MAX / SECOND + 1] {
        let mut story = Story::new();
        story.pod_tolerates(0, &[&format!("A for {seconds}")]);
        story.node_has(0, &["A"]);
        assert!(story.told_until(1_000_000).is_empty());
    }
}

/// The naive definition: the history is laid out second by second, and each second asks what the
/// taints and tolerations of that second mean.
mod naive {
    use super::*;

    #[derive(Clone, Default)]
    pub(crate) struct Second {
        pub(crate) taints: Vec<Taint>,
        /// `None` before the pod is on the node.
        pub(crate) tolerations: Option<Vec<Toleration>>,
    }

    /// How long a pod may stay: `None` for ever.
    fn patience(second: &Second) -> Option<i64> {
        let tolerations = second.tolerations.as_ref()?;
        let driving = second.taints.iter().filter(|t| t.effect == "NoExecute");
        let patience = driving.filter_map(|taint| {
            let first = tolerations.iter().find(|toleration| {
                let key = toleration.key.is_empty() || toleration.key == taint.key;
                let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
                let value = toleration.operator == "Exists" || toleration.value == taint.value;
                key && effect && value
            });
            match first {
                None => Some(-1),
                Some(first) => first.toleration_seconds.map(|seconds| seconds.max(0)),
            }
        });
        patience.min()
    }

    /// The second in which the pod is evicted.
    pub(crate) fn eviction(history: &[Second]) -> Option<i64> {
        let mut goes_at = None;
        for (now, second) in history.iter().enumerate() {
            let now = now as i64;
            if goes_at == Some(now) {
                return Some(now);
            }
            match patience(second) {
                None => goes_at = None,
                Some(-1) => return Some(now),
                Some(seconds) => {
                    let first_told = goes_at.is_none();
                    goes_at = goes_at.or(Some(now + seconds));
                    if first_told && seconds == 0 {
                        return Some(now);
                    }
                }
            }
        }
        None
    }
}

#[test]
fn random_histories_end_as_the_naive_definition_says() {
    let (mut evicted, mut stayed) = (0, 0);
    for seed in 0..4000 {
        let (history, story) = random_history(seed);
        let expected = naive::eviction(&history);
        let told = story.told_until(history.len() as i64 - 1);
        let ends = told.iter().find_map(|line| {
            let second = line.strip_prefix('t')?.strip_suffix(": evicted")?;
            second.parse::<i64>().ok()
        });
        assert_eq!(ends, expected, "seed {seed}: {told:?}");
        match expected {
            Some(_) => evicted += 1,
            None => stayed += 1,
        }
    }
    assert!(evicted > 500 && stayed > 500, "{evicted}, {stayed}");
}

/// Up to eight changes at different seconds, laid out second by second, and told as a story.
fn random_history(seed: u64) -> (Vec<naive::Second>, Story) {
    let mut random = Random(seed);
    let mut story = Story::new();
    let mut current = naive::Second::default();
    let mut history = Vec::new();
    for _ in 0..random.below(8) {
        let second = history.len() + random.below(40);
        history.resize(second, current.clone());
        if random.one_in(2) {
            current.taints = random_taints(&mut random);
            story.node_has_taints(second as i64, &current.taints);
        } else {
            let tolerations = random_tolerations(&mut random);
            current.tolerations = Some(tolerations.clone());
            story.pod_has_tolerations(second as i64, tolerations);
        }
        history.push(current.clone());
    }
    history.resize(history.len() + 150, current);
    (history, story)
}

fn random_taints(random: &mut Random) -> Vec<Taint> {
    let mut taints: Vec<Taint> = Vec::new();
    for _ in 0..random.below(3) {
        let key = *random.pick(&["A", "B", "C"]);
        if taints.iter().any(|taint| taint.key == key) {
            continue;
        }
        taints.push(Taint {
            key: key.to_owned(),
            value: (*random.pick(&["", "1"])).to_owned(),
            effect: (*random.pick(&["NoExecute", "NoExecute", "NoSchedule"])).to_owned(),
            time_added: random.one_in(2).then(|| "2025-12-31T23:00:00Z".to_owned()),
        });
    }
    taints
}

fn random_tolerations(random: &mut Random) -> Vec<Toleration> {
    let count = 2 + random.below(4);
    let mut toleration = || {
        let key = *random.pick(&["", "A", "B", "C"]);
        let exists = key.is_empty() || !random.one_in(4);
        let value = *random.pick(&["", "1"]);
        Toleration {
            key: key.to_owned(),
            operator: if exists { "Exists" } else { "Equal" }.to_owned(),
            value: if exists { "" } else { value }.to_owned(),
            effect: (*random.pick(&["NoExecute", "NoExecute", "", "NoSchedule"])).to_owned(),
            toleration_seconds: match random.below(4) {
                0 => None,
                1 => Some(random.below(4) as i64 - 2),
                _ => Some(random.below(120) as i64),
            },
        }
    };
    (0..count).map(|_| toleration()).collect()
}

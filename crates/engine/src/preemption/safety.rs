//! What makes preemption safe to switch on, and kube-scheduler does not have.
//!
//! * **NonPreemptible** priority classes: their pods queue by priority like any other, and once
//!   they have a place nobody takes it from them. A class says so by
//!   `preemptionPolicy: NonPreemptible` or, where the API server refuses that, by the annotation
//!   [`PREEMPTION_POLICY`]. With the policy its pods preempt nobody, unless the annotation
//!   [`PREEMPTS_LOWER_PRIORITY`] is `true`; with the annotation the policy of the class stands.
//! * **Toleration** of preemption (annotations [`MINIMUM_PREEMPTABLE_PRIORITY`] and
//!   [`TOLERATION_SECONDS`] of a class, as in PreemptionToleration of scheduler-plugins): only
//!   pods of at least that priority preempt pods of the class, for so many seconds after these
//!   got their node; negative is for ever, absent is 0, which is not at all.
//! * [`PreemptionSafetyArgs`]: budgets of victims, a delay, a minimum run time, victims by lost
//!   work, PodDisruptionBudgets that are never violated, and a dry run.
//!
//! Pods of at least [`PreemptionSafetyArgs::exempt_priority`] are held back by none of it, so
//! that what nodes cannot do without always gets in.

use std::collections::{BTreeMap, VecDeque};

use outrank_api::types::PriorityClass;
use rustc_hash::FxHashMap;

use super::Victims;
use crate::framework::{Code, Reason, Refusal};
use crate::ids::{Symbol, Symbols};
use crate::pod_row::{PodRow, PodTable, Standing};
use crate::queue::TimeNanos;

/// Annotation of a PriorityClass: `NonPreemptible` means what that `preemptionPolicy` would.
pub const PREEMPTION_POLICY: &str = "scheduling.outrank.dev/preemption-policy";
/// Annotation of a PriorityClass with `preemptionPolicy: NonPreemptible`: `true` has its pods
/// preempt others.
pub const PREEMPTS_LOWER_PRIORITY: &str = "scheduling.outrank.dev/preempts-lower-priority";
/// Annotation of a PriorityClass: pods below this priority do not preempt its pods.
pub const MINIMUM_PREEMPTABLE_PRIORITY: &str =
    "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority";
/// Annotation of a PriorityClass: for how many seconds that holds.
pub const TOLERATION_SECONDS: &str = "preemption-toleration.scheduling.x-k8s.io/toleration-seconds";
/// Annotation of a pod: when it last saved its work (RFC 3339).
pub const LAST_CHECKPOINT: &str = "scheduling.outrank.dev/last-checkpoint";

/// The name under which rules are told and configured.
pub const PREEMPTION_SAFETY: &str = "PreemptionSafety";

/// The policy of pods that nobody preempts.
pub const NON_PREEMPTIBLE: &str = "NonPreemptible";

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const MINUTE_NANOS: u64 = 60 * NANOS_PER_SECOND;

/// Whether preemptions are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreemptionMode {
    /// Nobody is killed.
    Off,
    /// Nobody is killed, but it is told who would be.
    DryRun,
    /// Victims are killed.
    #[default]
    Enforce,
}

/// How safe preemption is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreemptionSafetyArgs {
    /// Whether preemptions are carried out.
    pub mode: PreemptionMode,
    /// Pods of at least this priority are held back by no rule.
    pub exempt_priority: i32,
    /// How many victims there may be.
    pub budgets: Vec<PreemptionBudget>,
    /// How long a pod waits before others are killed for it, so that an autoscaler may help.
    pub delay_seconds: u64,
    /// How long a pod has run at least before it may be a victim.
    pub minimum_run_seconds: u64,
    /// Whether of victims of the same priority those are preferred that lose the least work:
    /// GPUs (at least 1) times the seconds since they started or saved their work.
    pub prefers_least_lost_work: bool,
    /// Whether a PodDisruptionBudget is never violated, victims that it does not count yet
    /// considered.
    pub strict_pdb: bool,
}

impl Default for PreemptionSafetyArgs {
    fn default() -> Self {
        Self {
            mode: PreemptionMode::default(),
            // That of system-node-critical.
            exempt_priority: 2_000_001_000,
            budgets: Vec::new(),
            delay_seconds: 0,
            minimum_run_seconds: 0,
            prefers_least_lost_work: false,
            strict_pdb: false,
        }
    }
}

/// How many victims there may be: of a priority class, of a namespace, of both, or in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreemptionBudget {
    /// Only victims of this class count.
    pub priority_class_name: Option<String>,
    /// Only victims in this namespace count.
    pub namespace: Option<String>,
    /// So many in any 60 seconds.
    pub victims_per_minute: Option<usize>,
    /// So many at once.
    pub victims_per_decision: Option<usize>,
}

impl PreemptionBudget {
    /// Whose victims it counts, such as `victims of priority class training`.
    pub fn name(&self) -> String {
        let class = self.priority_class_name.as_ref();
        let class = class.map(|class| format!(" of priority class {class}"));
        let namespace = self.namespace.as_ref();
        let namespace = namespace.map(|namespace| format!(" in namespace {namespace}"));
        format!(
            "victims{}{}",
            class.unwrap_or_default(),
            namespace.unwrap_or_default()
        )
    }
}

/// [`PreemptionSafetyArgs`] ready to decide.
#[derive(Clone, Debug)]
pub(crate) struct PreemptionSafety {
    pub(crate) args: PreemptionSafetyArgs,
    /// Class and namespace of each budget; `None` is any.
    scopes: Vec<(Option<Symbol>, Option<Symbol>)>,
}

impl PreemptionSafety {
    pub(crate) fn new(args: &PreemptionSafetyArgs, symbols: &mut Symbols) -> Self {
        let budgets = args.budgets.iter();
        let scopes = budgets.map(|budget| {
            let mut intern = |name: &Option<String>| name.as_ref().map(|name| symbols.intern(name));
            (
                intern(&budget.priority_class_name),
                intern(&budget.namespace),
            )
        });
        Self {
            scopes: scopes.collect(),
            args: args.clone(),
        }
    }

    /// The arguments, unless pods of the priority are held back by no rule.
    fn for_priority(&self, priority: i32) -> Option<&PreemptionSafetyArgs> {
        (priority < self.args.exempt_priority).then_some(&self.args)
    }
}

/// Whether a budget is about victims of a class and namespace.
fn covers(
    scope: (Option<Symbol>, Option<Symbol>),
    class: Option<Symbol>,
    namespace: Symbol,
) -> bool {
    scope.0.is_none_or(|wanted| class == Some(wanted))
        && scope.1.is_none_or(|wanted| namespace == wanted)
}

/// What a PriorityClass says of preemption beside its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassRule {
    is_non_preemptible: bool,
    preempts_lower_priority: bool,
    /// Below this priority nobody preempts, for so many seconds.
    toleration: Option<(i32, i64)>,
}

impl ClassRule {
    /// The rule of a class; `None` if it says nothing special.
    pub(crate) fn of(class: &PriorityClass) -> Option<Self> {
        let annotation = |key: &str| class.metadata.annotations.get(key).map(String::as_str);
        let by_policy = class.preemption_policy.as_deref() == Some(NON_PREEMPTIBLE);
        let by_annotation = annotation(PREEMPTION_POLICY) == Some(NON_PREEMPTIBLE);
        let seconds = annotation(TOLERATION_SECONDS).and_then(|text| text.parse().ok());
        let minimum = annotation(MINIMUM_PREEMPTABLE_PRIORITY).and_then(|text| text.parse().ok());
        // Without a minimum any higher priority preempts.
        let minimum = minimum.unwrap_or(class.value.saturating_add(1));
        let rule = Self {
            is_non_preemptible: by_policy || by_annotation,
            preempts_lower_priority: annotation(PREEMPTS_LOWER_PRIORITY) == Some("true"),
            toleration: seconds.map(|seconds| (minimum, seconds)),
        };
        let is_special = rule.is_non_preemptible || rule.toleration.is_some();
        is_special.then_some(rule)
    }
}

/// What all PriorityClasses say of preemption that is special, by their names.
#[derive(Debug, Default)]
pub(crate) struct ClassRules {
    by_name: FxHashMap<Symbol, ClassRule>,
    epoch: u64,
}

impl ClassRules {
    /// Takes in what a class says; `None` if it says nothing special, or is gone.
    pub(crate) fn set(&mut self, name: Symbol, rule: Option<ClassRule>) {
        let before = match rule {
            Some(rule) => self.by_name.insert(name, rule),
            None => self.by_name.remove(&name),
        };
        self.epoch += u64::from(before != rule);
    }

    /// Grows when some class says something else than before.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// Pods that were killed lately: when, in order, by class and namespace.
#[derive(Debug, Default)]
pub(crate) struct KillLog {
    kills: BTreeMap<(Option<Symbol>, Symbol), VecDeque<TimeNanos>>,
}

impl KillLog {
    /// Notes a pod that is killed.
    pub(crate) fn push(&mut self, now: TimeNanos, victim: &PodRow) {
        let kind = (victim.standing.class, victim.namespace);
        let kills = self.kills.entry(kind).or_default();
        while kills.front().is_some_and(|at| !is_recent(*at, now)) {
            kills.pop_front();
        }
        kills.push_back(now);
    }

    /// When pods of a scope were killed within a minute, by class and namespace.
    fn recent(
        &self,
        scope: (Option<Symbol>, Option<Symbol>),
        now: TimeNanos,
    ) -> impl Iterator<Item = std::collections::vec_deque::Iter<'_, TimeNanos>> {
        let kinds = self.kills.iter();
        let covered =
            kinds.filter(move |((class, namespace), _)| covers(scope, *class, *namespace));
        covered.map(move |(_, kills)| {
            let first = kills.partition_point(|at| !is_recent(*at, now));
            kills.range(first..)
        })
    }
}

/// Whether a kill counts within the minute before now.
fn is_recent(at: TimeNanos, now: TimeNanos) -> bool {
    at.saturating_add(MINUTE_NANOS) > now
}

/// What of victims rules count that limit how many there may be: all that [`Rules::check`] reads,
/// so that the answer is the same for candidates that have it in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Toll {
    /// How many a PodDisruptionBudget does not allow to go.
    violating: usize,
    /// How many count in each of the budgets of victims.
    counts: Box<[usize]>,
}

/// Why a pod may not be a victim, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Protection {
    rule: &'static str,
    /// `None` is for ever.
    until: Option<TimeNanos>,
}

/// Why nobody may be killed now, and from when on that may be otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) reason: String,
    pub(crate) retry_at: Option<TimeNanos>,
}

/// All rules, and what they look at.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'r> {
    pub(crate) safety: Option<&'r PreemptionSafety>,
    pub(crate) classes: &'r ClassRules,
    pub(crate) kills: &'r KillLog,
    pub(crate) now: TimeNanos,
}

impl Rules<'_> {
    /// Whether any rule may have a say. Without one preemption is upstream's.
    pub(crate) fn are_any(&self) -> bool {
        self.safety.is_some() || !self.classes.by_name.is_empty()
    }

    fn exempt_priority(&self) -> i32 {
        let default = PreemptionSafetyArgs::default().exempt_priority;
        self.safety
            .map_or(default, |safety| safety.args.exempt_priority)
    }

    fn class(&self, standing: &Standing) -> Option<&ClassRule> {
        self.classes.by_name.get(&standing.class?)
    }

    /// Whether a pod preempts others, as far as its policy goes.
    pub(crate) fn preempts(&self, pod: &Standing) -> bool {
        match pod.is_non_preemptible {
            true => self
                .class(pod)
                .is_some_and(|class| class.preempts_lower_priority),
            false => pod.preempts,
        }
    }

    /// Why a pod may not be a victim of one of a higher priority.
    pub(crate) fn protection(&self, victim: &Standing, priority: i32) -> Option<Protection> {
        if priority >= self.exempt_priority() {
            return None;
        }
        let class = self.class(victim);
        if victim.is_non_preemptible || class.is_some_and(|class| class.is_non_preemptible) {
            return Some(Protection {
                rule: NON_PREEMPTIBLE,
                until: None,
            });
        }
        let tolerated = class.and_then(|class| self.toleration(class, victim, priority));
        tolerated.or_else(|| self.minimum_run_time(victim))
    }

    fn toleration(
        &self,
        class: &ClassRule,
        victim: &Standing,
        priority: i32,
    ) -> Option<Protection> {
        let (minimum, seconds) = class.toleration?;
        if priority >= minimum {
            return None;
        }
        let rule = "toleration of preemption";
        let until = match u64::try_from(seconds) {
            Err(_) => return Some(Protection { rule, until: None }),
            Ok(seconds) => victim
                .scheduled_nanos
                .map(|at| at.saturating_add(seconds.saturating_mul(NANOS_PER_SECOND))),
        };
        // A pod that does not say when it got its node got it just now.
        let is_over = until.is_some_and(|until| until <= self.now) || seconds == 0;
        (!is_over).then_some(Protection { rule, until })
    }

    fn minimum_run_time(&self, victim: &Standing) -> Option<Protection> {
        let seconds = self.safety?.args.minimum_run_seconds;
        if seconds == 0 {
            return None;
        }
        let rule = "minimum run time";
        let started = u64::try_from(victim.started_nanos).unwrap_or(0);
        let until = started.saturating_add(seconds.saturating_mul(NANOS_PER_SECOND));
        (until > self.now).then_some(Protection {
            rule,
            until: (until < TimeNanos::MAX).then_some(until),
        })
    }

    /// Why nobody is killed for a pod yet, whoever it would be; `waits_since` is when it was
    /// first refused.
    pub(crate) fn hold(&self, priority: i32, waits_since: TimeNanos) -> Option<Hold> {
        let safety = self.safety?.for_priority(priority)?;
        if safety.mode == PreemptionMode::Off {
            let reason = "PreemptionSafety: mode is Off".into();
            let retry_at = None;
            return Some(Hold { reason, retry_at });
        }
        let delay_nanos = safety.delay_seconds.saturating_mul(NANOS_PER_SECOND);
        let until = waits_since.saturating_add(delay_nanos);
        (until > self.now).then(|| Hold {
            reason: format!(
                "PreemptionSafety: delay of {} s before preempting, {} s to go",
                safety.delay_seconds,
                (until - self.now).div_ceil(NANOS_PER_SECOND)
            ),
            retry_at: Some(until),
        })
    }

    /// Whether it is only told who would be killed.
    pub(crate) fn is_dry_run(&self, priority: i32) -> bool {
        let safety = self.safety.and_then(|it| it.for_priority(priority));
        safety.is_some_and(|it| it.mode == PreemptionMode::DryRun)
    }

    /// Whether the work that victims lose is part of their cost, which grows with time.
    pub(crate) fn prefers_least_lost_work(&self) -> bool {
        self.safety
            .is_some_and(|it| it.args.prefers_least_lost_work)
    }

    /// The work that a victim loses, if that counts.
    pub(crate) fn lost_work(&self, standing: &Standing) -> u64 {
        if !self.prefers_least_lost_work() {
            return 0;
        }
        let started = u64::try_from(standing.started_nanos).unwrap_or(0);
        let saved = standing.checkpoint_nanos.unwrap_or(0).max(started);
        let lost_seconds = self.now.saturating_sub(saved) / NANOS_PER_SECOND;
        lost_seconds.saturating_mul(standing.gpus.max(1))
    }

    /// Whether PodDisruptionBudgets are never violated by a pod of the priority.
    pub(crate) fn is_strict(&self, priority: i32) -> bool {
        let safety = self.safety.and_then(|it| it.for_priority(priority));
        safety.is_some_and(|it| it.strict_pdb)
    }

    /// What of the victims of a pod of the priority is limited. Those on their way already do not
    /// count in budgets of victims.
    pub(crate) fn toll(&self, victims: &Victims, priority: i32, pods: PodTable<'_>) -> Toll {
        let safety = self.safety.filter(|it| it.for_priority(priority).is_some());
        let Some(safety) = safety else {
            return Toll::default();
        };
        let count = |scope: &(Option<Symbol>, Option<Symbol>)| {
            let rows = victims.pods.iter().filter_map(|pod| pods.row(*pod));
            let rows = rows.filter(|row| !row.standing.is_terminating);
            rows.filter(|row| covers(*scope, row.standing.class, row.namespace))
                .count()
        };
        Toll {
            violating: match safety.args.strict_pdb {
                true => victims.violating.len(),
                false => 0,
            },
            counts: safety.scopes.iter().map(count).collect(),
        }
    }

    /// Whether victims with this toll are too many, and until when.
    pub(crate) fn check(&self, toll: &Toll) -> Result<(), Hold> {
        if toll.violating > 0 {
            let count = toll.violating;
            return Err(Hold {
                reason: format!(
                    "PreemptionSafety: {count} victim(s) against a PodDisruptionBudget"
                ),
                retry_at: None,
            });
        }
        let limits = self.safety.into_iter().flat_map(|safety| {
            let budgets = safety.args.budgets.iter();
            budgets.zip(&safety.scopes)
        });
        let mut counted = limits.zip(&toll.counts);
        counted.try_for_each(|((budget, scope), count)| self.check_budget(budget, *scope, *count))
    }

    fn check_budget(
        &self,
        budget: &PreemptionBudget,
        scope: (Option<Symbol>, Option<Symbol>),
        count: usize,
    ) -> Result<(), Hold> {
        if let Some(limit) = budget.victims_per_decision
            && count > limit
        {
            let name = budget.name();
            return Err(Hold {
                reason: format!("PreemptionSafety: {count} {name} at once, {limit} allowed"),
                retry_at: None,
            });
        }
        match budget.victims_per_minute {
            Some(limit) if count > 0 => self.check_minute(budget, scope, count, limit),
            _ => Ok(()),
        }
    }

    fn check_minute(
        &self,
        budget: &PreemptionBudget,
        scope: (Option<Symbol>, Option<Symbol>),
        count: usize,
        limit: usize,
    ) -> Result<(), Hold> {
        let recent = || self.kills.recent(scope, self.now);
        let killed: usize = recent().map(|kills| kills.len()).sum();
        if killed + count <= limit {
            return Ok(());
        }
        // So many of those before must be more than a minute ago.
        let must_age = killed + count - limit;
        let mut times: Vec<TimeNanos> = recent().flatten().copied().collect();
        times.sort_unstable();
        let last = times.get(must_age.wrapping_sub(1));
        Err(Hold {
            reason: format!(
                "PreemptionSafety: {} {} within a minute and {count} more, {limit} allowed",
                killed,
                budget.name()
            ),
            retry_at: last.map(|at| at.saturating_add(MINUTE_NANOS)),
        })
    }
}

impl Hold {
    /// The refusal of a node for it.
    pub(crate) fn refusal(&self) -> Refusal {
        Refusal::new(
            PREEMPTION_SAFETY,
            Code::Unschedulable,
            Reason::Text(self.reason.as_str().into()),
        )
    }
}

/// What of a node's pods of lower priority is protected: rules, how many pods each, and when the
/// first protection ends.
#[derive(Debug, Default)]
pub(crate) struct Protected {
    by_rule: BTreeMap<&'static str, usize>,
    pub(crate) until: Option<TimeNanos>,
}

impl Protected {
    pub(crate) fn add(&mut self, protection: Protection) {
        *self.by_rule.entry(protection.rule).or_insert(0) += 1;
        self.until = [self.until, protection.until].into_iter().flatten().min();
    }

    pub(crate) fn is_any(&self) -> bool {
        !self.by_rule.is_empty()
    }

    /// Reasons to be told beside why the node is of no use.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = Reason> + '_ {
        self.by_rule.keys().map(|rule| {
            let text = format!("node(s) had pods of lower priority protected by {rule}");
            Reason::Text(text.into())
        })
    }
}

//! What the arguments of plugins that kube-scheduler does not have mean, in sentences.

use outrank_engine::plugins::priority_share::PriorityShare;
use outrank_engine::preemption::safety::{
    PREEMPTION_SAFETY, PreemptionBudget, PreemptionMode, PreemptionSafetyArgs,
};
use outrank_engine::profile::ProfileConfig;

use crate::ExtensionPoint;

/// The rules of a profile, as far as the plugins that heed them are asked.
pub(crate) fn rules(profile: &ProfileConfig, points: &[ExtensionPoint]) -> Vec<String> {
    let is_asked = |name: &str, at: &str| {
        let mut points = points.iter().filter(|point| point.name == at);
        points.any(|point| point.plugins.iter().any(|plugin| plugin.name == name))
    };
    let mut rules = Vec::new();
    if let Some(safety) = &profile.preemption_safety
        && is_asked("DefaultPreemption", "postFilter")
    {
        let of_safety = safety_rules(safety).into_iter();
        rules.extend(of_safety.map(|rule| format!("{PREEMPTION_SAFETY}: {rule}.")));
    }
    if is_asked(PriorityShare::NAME, "preFilter") {
        let shares = profile.priority_shares.iter();
        rules.extend(shares.map(|share| format!("{}: {}.", PriorityShare::NAME, share.text())));
    }
    rules
}

fn safety_rules(safety: &PreemptionSafetyArgs) -> Vec<String> {
    let mut rules = vec![
        match safety.mode {
            PreemptionMode::Off => return vec!["nobody is killed (mode Off)".to_owned()],
            PreemptionMode::DryRun => "nobody is killed, but it is told who would be (mode DryRun)",
            PreemptionMode::Enforce => "victims are killed (mode Enforce)",
        }
        .to_owned(),
    ];
    if safety.delay_seconds > 0 {
        let seconds = safety.delay_seconds;
        rules.push(format!(
            "a pod waits for {seconds} s before others are killed for it"
        ));
    }
    if safety.minimum_run_seconds > 0 {
        let seconds = safety.minimum_run_seconds;
        rules.push(format!(
            "pods that have run for less than {seconds} s are no victims"
        ));
    }
    if safety.prefers_least_lost_work {
        let rule = "of equal priority, those are killed that lose the least work: their GPUs (at \
                    least 1) times the seconds since they started or saved it";
        rules.push(rule.to_owned());
    }
    if safety.strict_pdb {
        rules.push("no PodDisruptionBudget is ever violated".to_owned());
    }
    rules.extend(safety.budgets.iter().map(budget_rule));
    rules.push(format!(
        "none of it holds back pods of priority {} and above",
        safety.exempt_priority
    ));
    rules
}

fn budget_rule(budget: &PreemptionBudget) -> String {
    let limits = [
        (budget.victims_per_decision, "at once"),
        (budget.victims_per_minute, "in 60 s"),
    ];
    let limits = limits.into_iter();
    let limits = limits.filter_map(|(limit, span)| Some(format!("{} {span}", limit?)));
    let limits = limits.collect::<Vec<_>>().join(" and ");
    format!("at most {limits}: {}", budget.name())
}

//! What is configured, in the words of the checker.

use outrank_checker::{KillBudget, PreemptionRules};
use outrank_engine::preemption::safety::{PreemptionMode, PreemptionSafetyArgs};

/// The rules by which kills are judged.
pub(crate) fn rules_of(args: &PreemptionSafetyArgs) -> PreemptionRules {
    let budgets = args.budgets.iter().map(|budget| KillBudget {
        priority_class_name: budget.priority_class_name.clone(),
        namespace: budget.namespace.clone(),
        victims_per_minute: budget.victims_per_minute,
        victims_per_decision: budget.victims_per_decision,
    });
    PreemptionRules {
        kills_nobody: args.mode != PreemptionMode::Enforce,
        exempt_priority: args.exempt_priority,
        budgets: budgets.collect(),
        minimum_run_seconds: args.minimum_run_seconds,
        prefers_least_lost_work: args.prefers_least_lost_work,
        strict_pdb: args.strict_pdb,
    }
}

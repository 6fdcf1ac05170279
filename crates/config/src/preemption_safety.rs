//! Arguments of PreemptionSafety, which kube-scheduler does not have.
//!
//! They are told under `pluginConfig` and hold for DefaultPreemption of the profile; there is no
//! plugin of that name to enable.

use outrank_engine::preemption::safety::{PreemptionBudget, PreemptionMode, PreemptionSafetyArgs};

use crate::ConfigError;
use crate::fields::Fields;

/// Reads the arguments.
pub(crate) fn read(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> PreemptionSafetyArgs {
    let defaults = PreemptionSafetyArgs::default();
    let mode = match fields.text("mode", errors) {
        None | Some((_, "Enforce")) => PreemptionMode::Enforce,
        Some((_, "DryRun")) => PreemptionMode::DryRun,
        Some((_, "Off")) => PreemptionMode::Off,
        Some((path, other)) => {
            let message = format!("{other:?}: must be Off, DryRun or Enforce");
            errors.push(ConfigError { path, message });
            PreemptionMode::Enforce
        }
    };
    let exempt = number(
        fields,
        "exemptPriority",
        i64::from(i32::MIN)..=i64::from(i32::MAX),
        errors,
    );
    let seconds = |fields: &mut Fields<'_>, name: &str, errors: &mut Vec<ConfigError>| {
        let seconds = number(fields, name, 0..=i64::from(i32::MAX), errors);
        seconds.and_then(|it| u64::try_from(it).ok()).unwrap_or(0)
    };
    PreemptionSafetyArgs {
        mode,
        exempt_priority: exempt
            .and_then(|it| i32::try_from(it).ok())
            .unwrap_or(defaults.exempt_priority),
        delay_seconds: seconds(fields, "delaySeconds", errors),
        minimum_run_seconds: seconds(fields, "minimumRunSeconds", errors),
        prefers_least_lost_work: fields
            .boolean("preferLeastLostWork", errors)
            .unwrap_or(false),
        strict_pdb: fields
            .boolean("strictPodDisruptionBudgets", errors)
            .unwrap_or(false),
        budgets: budgets(fields, errors),
    }
}

fn budgets(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) -> Vec<PreemptionBudget> {
    let budgets = fields.list("budgets", errors);
    let Some((path, budgets)) = budgets else {
        return Vec::new();
    };
    let budgets = budgets.iter().enumerate();
    let read = budgets.filter_map(|(index, budget)| {
        let path = format!("{path}[{index}]");
        let mut fields = Fields::of(budget, &path, errors)?;
        let mut name = |fields: &mut Fields<'_>, field: &str| {
            let text = fields.text(field, errors).map(|(_, text)| text.to_owned());
            text.filter(|text| !text.is_empty())
        };
        let (priority_class_name, namespace) = (
            name(&mut fields, "priorityClassName"),
            name(&mut fields, "namespace"),
        );
        let mut victims = |fields: &mut Fields<'_>, field: &str| {
            let limit = number(fields, field, 0..=i64::from(i32::MAX), errors);
            limit.and_then(|limit| usize::try_from(limit).ok())
        };
        let budget = PreemptionBudget {
            priority_class_name,
            namespace,
            victims_per_minute: victims(&mut fields, "victimsPerMinute"),
            victims_per_decision: victims(&mut fields, "victimsPerDecision"),
        };
        fields.finish(errors);
        if (budget.victims_per_minute, budget.victims_per_decision) == (None, None) {
            let message = "needs victimsPerMinute or victimsPerDecision".to_owned();
            errors.push(ConfigError { path, message });
        }
        Some(budget)
    });
    read.collect()
}

/// A whole number in a range.
fn number(
    fields: &mut Fields<'_>,
    name: &str,
    range: std::ops::RangeInclusive<i64>,
    errors: &mut Vec<ConfigError>,
) -> Option<i64> {
    let (path, number) = fields.integer(name, errors)?;
    if range.contains(&number) {
        return Some(number);
    }
    let (start, end) = range.into_inner();
    let message = format!("{number}: not in valid range [{start}, {end}]");
    errors.push(ConfigError { path, message });
    None
}

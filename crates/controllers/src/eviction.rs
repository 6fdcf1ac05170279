//! Eviction: deleting a pod only if its PodDisruptionBudget allows it.
//!
//! Whoever drains a node does not delete pods, but asks the API server to evict them. The server
//! looks at the budgets: a pod that is healthy takes one of the disruptions that its budget
//! allows, and if none is left, it stays for now. The budget is charged at once
//! (`status.disruptedPods`), long before its controller counts again.
//!
//! Source: `pkg/registry/core/pod/storage/eviction.go`, Kubernetes 1.36.

use outrank_api::labels::Selector;
use outrank_api::names::quoted;
use outrank_api::status::StatusCause;
use outrank_api::time::rfc3339;
use outrank_api::types::{Pod, PodDisruptionBudget, PodDisruptionBudgetStatus};

use crate::disruption::{DISRUPTION_ALLOWED, SYNC_FAILED, is_healthy, tell_whether_allowed};
use crate::write::Refusal;

/// How many pods a budget takes note of while its controller has not counted them.
const DISRUPTED_PODS_MAX: usize = 2_000;

/// Why a pod may not be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The API server's refusal: code 429 if it may be otherwise later.
    pub refusal: Refusal,
    /// Name of the budget, where the refusal is about that.
    pub budget: Option<String>,
    /// How long to wait before the next try, in seconds; 0 if that is not said.
    pub retry_after_seconds: u32,
}

/// Whether a pod may be evicted, and what its budget says then: index of the budget and its new
/// status. `budgets` are those of the namespace.
///
/// # Errors
/// If it may not.
pub fn evict(
    pod: &Pod,
    budgets: &[&PodDisruptionBudget],
    now: i64,
) -> Result<Option<(usize, PodDisruptionBudgetStatus)>, Denial> {
    if !asks_budgets(pod) {
        return Ok(None);
    }
    let selects = |budget: &PodDisruptionBudget| {
        let selector = Selector::from_label_selector(budget.spec.selector.as_ref());
        selector.is_ok_and(|it| it.matches(&pod.metadata.labels))
    };
    let mut of_pod = budgets.iter().enumerate().filter(|(_, it)| selects(it));
    let Some((index, budget)) = of_pod.next() else {
        return Ok(None);
    };
    if of_pod.next().is_some() {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction \
                       subresource does not support.";
        return Err(refusal(500, "", message.to_owned()).into());
    }
    if is_free(pod, budget) {
        return Ok(None);
    }
    charged(pod, budget, now).map(|status| Some((index, status)))
}

/// Whether budgets are asked before a pod is evicted: who has ended, or has not begun, or is going,
/// disrupts nothing.
pub fn asks_budgets(pod: &Pod) -> bool {
    let is_pending = matches!(pod.status.phase.as_str(), "" | "Pending");
    !pod.is_finished() && !is_pending && pod.metadata.deletion_timestamp.is_none()
}

/// Whether a pod may go without being counted: it is not healthy, and its budget either does not
/// guard such pods or is met without it.
pub fn is_free(pod: &Pod, budget: &PodDisruptionBudget) -> bool {
    let status = &budget.status;
    let policy = budget.spec.unhealthy_pod_eviction_policy.as_deref();
    let is_met = status.current_healthy >= status.desired_healthy && status.desired_healthy > 0;
    !is_healthy(pod) && (policy == Some("AlwaysAllow") || is_met)
}

fn charged(
    pod: &Pod,
    budget: &PodDisruptionBudget,
    now: i64,
) -> Result<PodDisruptionBudgetStatus, Denial> {
    let (name, status) = (&budget.metadata.name, &budget.status);
    if status.observed_generation < budget.metadata.generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(Denial {
            retry_after_seconds: 10,
            ..violated(why)
        });
    }
    let forbidden = |why: &str| {
        let message = format!(
            "poddisruptionbudget.policy {} is forbidden: {why}",
            quoted(name)
        );
        Denial {
            budget: Some(name.clone()),
            ..refusal(403, "Forbidden", message).into()
        }
    };
    if status.disruptions_allowed < 0 {
        return Err(forbidden("pdb disruptions allowed is negative"));
    }
    if status.disrupted_pods.len() > DISRUPTED_PODS_MAX {
        return Err(forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if status.disruptions_allowed == 0 {
        let why = why_none(status);
        return Err(violated(format!("The disruption budget {name} {why}")));
    }
    let mut status = status.clone();
    status.disruptions_allowed -= 1;
    if status.disruptions_allowed == 0 {
        tell_whether_allowed(&mut status, now);
    }
    let pod = pod.metadata.name.clone();
    status.disrupted_pods.insert(pod, Some(rfc3339(now)));
    Ok(status)
}

/// The budget does not allow it now.
fn violated(why: String) -> Denial {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let refusal = Refusal {
        causes: vec![StatusCause {
            reason: "DisruptionBudget".to_owned(),
            message: why,
            ..StatusCause::default()
        }],
        ..refusal(429, "TooManyRequests", message.to_owned())
    };
    refusal.into()
}

impl From<Refusal> for Denial {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            budget: None,
            retry_after_seconds: 0,
        }
    }
}

/// Why a budget allows nothing. If its controller could not count, its numbers mean nothing.
fn why_none(status: &PodDisruptionBudgetStatus) -> String {
    let mut conditions = status.conditions.iter();
    let denied = conditions.find(|it| it.type_ == DISRUPTION_ALLOWED);
    let denied = denied.filter(|it| it.status == "False" && !it.message.is_empty());
    let not_now = "does not allow evicting pods currently";
    match denied {
        Some(it) if it.reason == SYNC_FAILED => {
            format!("{not_now} because it failed sync: {}", it.message)
        }
        _ if status.current_healthy <= status.desired_healthy => format!(
            "needs {} healthy pods and has {} currently",
            status.desired_healthy, status.current_healthy
        ),
        Some(it) => format!("{not_now} ({}): {}", it.reason, it.message),
        None => not_now.to_owned(),
    }
}

fn refusal(code: u16, reason: &str, message: String) -> Refusal {
    Refusal {
        code,
        reason: reason.to_owned(),
        message,
        causes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(phase: &str) -> Pod {
        let pod = json!({"metadata": {"name": "p", "labels": {"app": "web"}},
            "status": {"phase": phase}});
        serde_json::from_value(pod).expect("a pod")
    }

    fn budget(allowed: i32) -> PodDisruptionBudget {
        let budget = json!({"metadata": {"name": "b"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": 2 + allowed,
                "desiredHealthy": 2, "expectedPods": 3}});
        serde_json::from_value(budget).expect("a budget")
    }

    #[test]
    fn a_budget_is_charged_until_nothing_is_left() {
        let one = budget(1);
        let charged = evict(&pod("Running"), &[&one], 0).expect("one may go");
        let (index, status) = charged.expect("it is charged");
        assert_eq!((index, status.disruptions_allowed), (0, 0));
        assert!(status.disrupted_pods.contains_key("p"));
        let none = budget(0);
        let refusal = evict(&pod("Running"), &[&none], 0).expect_err("none may go");
        let refusal = refusal.refusal;
        assert_eq!(refusal.code, 429);
        assert_eq!(
            refusal.in_full(),
            "Cannot evict pod as it would violate the pod's disruption budget. The disruption \
             budget b needs 2 healthy pods and has 2 currently"
        );
    }

    #[test]
    fn it_is_told_why_nobody_may_go() {
        let answer = |allowed: i32, healthy: i32, reason: &str| {
            let mut budget = budget(allowed);
            budget.status.current_healthy = healthy;
            budget.status.conditions = vec![outrank_api::types::Condition {
                type_: DISRUPTION_ALLOWED.into(),
                status: "False".into(),
                reason: reason.into(),
                message: "no".into(),
                ..Default::default()
            }];
            let denial = evict(&pod("Running"), &[&budget], 0).expect_err("none may go");
            let refusal = denial.refusal;
            let text = refusal.in_full();
            let told = text.rsplit_once("budget b ");
            (
                refusal.code,
                told.map_or(text.clone(), |(_, it)| it.to_owned()),
            )
        };
        let told = |code, text: &str| (code, text.to_owned());
        let of_sync = "does not allow evicting pods currently because it failed sync: no";
        assert_eq!(answer(0, 3, SYNC_FAILED), told(429, of_sync));
        let few = "needs 2 healthy pods and has 2 currently";
        assert_eq!(answer(0, 2, "InsufficientPods"), told(429, few));
        let other = "does not allow evicting pods currently (InsufficientPods): no";
        assert_eq!(answer(0, 3, "InsufficientPods"), told(429, other));
        let negative = "poddisruptionbudget.policy \"b\" is forbidden: pdb disruptions allowed is \
                        negative";
        assert_eq!(answer(-1, 3, "InsufficientPods"), told(403, negative));
    }

    #[test]
    fn the_last_charge_says_that_nothing_is_left() {
        let charged = evict(&pod("Running"), &[&budget(1)], 0).expect("one may go");
        let (_, status) = charged.expect("it is charged");
        let condition = &status.conditions[0];
        assert_eq!(
            (&*condition.status, &*condition.reason),
            ("False", "InsufficientPods")
        );
    }

    #[test]
    fn who_does_not_run_disrupts_nothing() {
        for phase in ["Pending", "Succeeded", "Failed"] {
            assert_eq!(evict(&pod(phase), &[&budget(0)], 0), Ok(None), "{phase}");
        }
    }

    #[test]
    fn two_budgets_are_one_too_many() {
        let (one, other) = (budget(1), budget(1));
        let denial = evict(&pod("Running"), &[&one, &other], 0).expect_err("refused");
        assert_eq!(
            (denial.refusal.code, denial.refusal.reason.as_str()),
            (500, "")
        );
    }
}

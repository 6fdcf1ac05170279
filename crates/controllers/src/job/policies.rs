//! What failures of single pods mean to a Job, and which successes are enough.
//!
//! Source: `pod_failure_policy.go` and `success_policy.go` of `pkg/controller/job`, Kubernetes 1.36.

use outrank_api::types::{
    ContainerStatus, Job, Pod, PodCondition, PodFailurePolicyOnExitCodes,
    PodFailurePolicyOnPodCondition,
};

use super::indexes::Indexes;

/// What the failure of a pod means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It counts against the limit.
    Count,
    /// It does not count.
    Ignore,
    /// Its index has failed for good.
    FailIndex,
    /// The job has failed, with this message.
    FailJob(String),
}

/// The verdict of the first rule that a failed pod matches; it counts if none does.
pub(super) fn verdict(job: &Job, pod: &Pod) -> Verdict {
    let policy = job.spec.pod_failure_policy.as_ref();
    let rules = policy.into_iter().flat_map(|policy| &policy.rules);
    for (number, rule) in rules.enumerate() {
        let codes = rule.on_exit_codes.as_ref();
        let reason = match codes.map(|codes| container_matching(codes, pod)) {
            Some(found) => found.map(|(container, code)| {
                let Pod { metadata, .. } = pod;
                let (namespace, name) = (&metadata.namespace, &metadata.name);
                format!(
                    "Container {container} for pod {namespace}/{name} failed with exit code {code}"
                )
            }),
            None => condition_matching(&rule.on_pod_conditions, pod).map(|condition| {
                let Pod { metadata, .. } = pod;
                format!(
                    "Pod {}/{} has condition {condition}",
                    metadata.namespace, metadata.name
                )
            }),
        };
        let Some(reason) = reason else {
            continue;
        };
        return match rule.action.as_str() {
            "Ignore" => Verdict::Ignore,
            "FailIndex" if job.spec.backoff_limit_per_index.is_some() => Verdict::FailIndex,
            "FailJob" => {
                Verdict::FailJob(format!("{reason} matching FailJob rule at index {number}"))
            }
            _ => Verdict::Count,
        };
    }
    Verdict::Count
}

/// The first container that ended with one of the codes, and the code.
fn container_matching<'p>(
    codes: &PodFailurePolicyOnExitCodes,
    pod: &'p Pod,
) -> Option<(&'p str, i32)> {
    let status = &pod.status;
    let containers = status
        .container_statuses
        .iter()
        .chain(&status.init_container_statuses);
    let is_meant = |it: &&ContainerStatus| {
        codes
            .container_name
            .as_ref()
            .is_none_or(|name| *name == it.name)
    };
    let ended = containers.filter(is_meant).filter_map(|it| {
        let code = it.state.terminated.as_ref()?.exit_code;
        Some((it.name.as_str(), code))
    });
    let matches = |code: i32| match codes.operator.as_str() {
        "In" => codes.values.contains(&code),
        "NotIn" => !codes.values.contains(&code),
        _ => false,
    };
    let mut matching = ended.filter(|(_, code)| *code != 0 && matches(*code));
    matching.next()
}

/// The first condition of the pod that one of the patterns is about.
fn condition_matching<'p>(
    patterns: &[PodFailurePolicyOnPodCondition],
    pod: &'p Pod,
) -> Option<&'p str> {
    let matches = |condition: &PodCondition| {
        patterns.iter().any(|pattern| {
            let status = match pattern.status.as_str() {
                "" => "True",
                status => status,
            };
            condition.type_ == pattern.type_ && condition.status == status
        })
    };
    let mut conditions = pod.status.conditions.iter();
    let found = conditions.find(|it| matches(it))?;
    Some(&found.type_)
}

/// The message of the first rule of success that holds.
pub(super) fn success(job: &Job, succeeded: &Indexes, completions: i32) -> Option<String> {
    let rules = &job.spec.success_policy.as_ref()?.rules;
    let holds = |rule: &outrank_api::types::SuccessPolicyRule| {
        let wanted = rule.succeeded_indexes.as_ref();
        let wanted = wanted.map(|it| Indexes::read(it, completions));
        let there = wanted
            .as_ref()
            .map_or(succeeded.len(), |wanted| wanted.in_common(succeeded));
        match (rule.succeeded_count, wanted) {
            // What cannot be read holds never.
            (_, Some(wanted)) if wanted.is_empty() => false,
            (Some(count), _) => usize::try_from(count).is_ok_and(|count| there >= count),
            (None, Some(wanted)) => there == wanted.len(),
            (None, None) => false,
        }
    };
    let number = rules
        .iter()
        .position(holds)
        .filter(|_| !succeeded.is_empty())?;
    Some(format!("Matched rules at index {number}"))
}

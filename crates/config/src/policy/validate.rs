//! What must hold of a policy whatever its names mean
//! (`apis/config/validation/validation.go` ValidatePolicy, Kubernetes 1.20).

use std::collections::{BTreeMap, BTreeSet};

use super::decode::{PolicyFile, Priority};
use super::{NOT_CREATED, PolicyError, Stage, extender, problem};
use crate::ConfigError;

/// Weights must be below this: a tenth of the highest total.
const WEIGHT_LIMIT: i64 = i64::MAX / 10;

/// Reports all that is wrong.
pub(super) fn validate(file: &PolicyFile) -> Result<(), PolicyError> {
    let mut problems = Vec::new();
    let mut texts = Vec::new();
    let mut custom: BTreeMap<&str, &Priority> = BTreeMap::new();
    let priorities = file.priorities.iter().flatten().enumerate();
    for (index, priority) in priorities {
        let path = format!("priorities[{index}]");
        if priority.weight <= 0 || priority.weight >= WEIGHT_LIMIT {
            let message = format!(
                "priority {} should have a positive weight applied to it or it has overflown",
                priority.name
            );
            texts.push(message.clone());
            problems.push(problem(&format!("{path}.weight"), message));
        }
        if let Some(message) = check_custom(priority, &mut custom) {
            texts.push(message.clone());
            problems.push(problem(&path, message));
        }
    }
    let mut with_paths = extender::validate(&file.extenders);
    let weight = file.hard_pod_affinity_symmetric_weight;
    if !(0..=100).contains(&weight) {
        let message = format!("Invalid value: {weight}: not in valid range [0-100]");
        with_paths.push(problem("hardPodAffinitySymmetricWeight", message));
    }
    texts.extend(with_paths.iter().map(ConfigError::to_string));
    problems.extend(with_paths);
    if problems.is_empty() {
        return Ok(());
    }
    Err(PolicyError {
        stage: Stage::Validate,
        problems,
        text_of_1_20: format!("{NOT_CREATED}{}", aggregate(texts)),
    })
}

/// What is wrong with a priority that has an argument, given the first ones of each kind.
fn check_custom<'f>(
    priority: &'f Priority,
    first: &mut BTreeMap<&'static str, &'f Priority>,
) -> Option<String> {
    let argument = priority.argument.as_ref()?;
    let kind = if argument.label_preference.is_some() {
        "LabelPreference"
    } else if argument.service_anti_affinity.is_some() {
        "ServiceAntiAffinity"
    } else if argument.requested_to_capacity_ratio.is_some() {
        "RequestedToCapacityRatio"
    } else {
        let name = &priority.name;
        return Some(format!("no priority arguments set for priority {name}"));
    };
    let (name, Some(other)) = (&priority.name, first.get(kind)) else {
        first.insert(kind, priority);
        return None;
    };
    if kind == "RequestedToCapacityRatio" {
        return Some(format!(
            "priority {name:?} redeclares custom priority {kind:?}, from: {:?}",
            other.name
        ));
    }
    if other.weight != priority.weight {
        return Some(format!(
            "{kind}  priority {name:?} has a different weight with {:?}",
            other.name
        ));
    }
    first.insert(kind, priority);
    None
}

/// Several messages as one, each once.
fn aggregate(messages: Vec<String>) -> String {
    let mut seen = BTreeSet::new();
    let different: Vec<&str> = messages
        .iter()
        .map(String::as_str)
        .filter(|message| seen.insert(*message))
        .collect();
    match different.as_slice() {
        [message] => (*message).to_owned(),
        messages => format!("[{}]", messages.join(", ")),
    }
}

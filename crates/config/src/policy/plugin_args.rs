//! What plugins of 1.20 demand of their arguments
//! (`apis/config/validation/validation_pluginargs.go`, Kubernetes 1.20).

use std::collections::BTreeSet;

use outrank_engine::plugins::legacy::node_label::NodeLabel;
use outrank_engine::plugins::legacy::node_resources::NodeResourcesScore;
use outrank_engine::profile::{LegacyArgs, NodeLabelArgs, ProfileConfig, UtilizationShapePoint};

use super::{NOT_CREATED, PolicyError, Stage};

/// Refuses the arguments of the first plugin that refuses them.
pub(super) fn check(profile: &ProfileConfig) -> Result<(), PolicyError> {
    let scores = |name: &str| profile.score.iter().any(|(other, _)| other == name);
    let uses = |name: &str| scores(name) || profile.filter.iter().any(|other| other == name);
    let ratio = NodeResourcesScore::REQUESTED_TO_CAPACITY_RATIO;
    let refused = if uses(NodeLabel::NAME)
        && let Some(message) = check_node_label(&profile.legacy.node_label)
    {
        Some((NodeLabel::NAME, message))
    } else if scores(ratio) {
        check_ratio(&profile.legacy).map(|message| (ratio, message))
    } else {
        None
    };
    let Some((plugin, message)) = refused else {
        return Ok(());
    };
    let message = format!("initializing plugin {plugin:?}: {message}");
    let text = format!(
        "{NOT_CREATED}initializing profiles: creating profile for scheduler name {}: {message}",
        profile.scheduler_name
    );
    let path = match plugin {
        NodeLabel::NAME => "predicates and priorities",
        _ => "priorities",
    };
    Err(PolicyError::single(Stage::Plugins, path, message, text))
}

fn check_node_label(args: &NodeLabelArgs) -> Option<String> {
    let conflict = |present: &[String], absent: &[String]| {
        let known: BTreeSet<&String> = present.iter().collect();
        let label = absent.iter().find(|label| known.contains(label))?;
        Some(format!(
            "detecting at least one label (e.g., {label:?}) that exist in both the \
             present([{}]) and absent([{}]) label list",
            present.join(" "),
            absent.join(" ")
        ))
    };
    conflict(&args.present_labels, &args.absent_labels).or_else(|| {
        conflict(
            &args.present_labels_preference,
            &args.absent_labels_preference,
        )
    })
}

fn check_ratio(args: &LegacyArgs) -> Option<String> {
    check_shape(&args.ratio_shape).or_else(|| {
        let mut resources = args.ratio_resources.iter();
        let resource = resources.find(|resource| resource.weight < 1)?;
        let (name, weight) = (&resource.name, resource.weight);
        Some(format!(
            "resource {name} weight {weight} must not be less than 1"
        ))
    })
}

fn check_shape(shape: &[UtilizationShapePoint]) -> Option<String> {
    if shape.is_empty() {
        return Some("at least one point must be specified".into());
    }
    for (index, pair) in shape.windows(2).enumerate() {
        let (left, right) = (pair[0].utilization, pair[1].utilization);
        if left >= right {
            return Some(format!(
                "utilization values must be sorted. Utilization[{index}]=={left} >= \
                 Utilization[{}]=={right}",
                index + 1
            ));
        }
    }
    shape.iter().enumerate().find_map(|(index, point)| {
        check_range("utilization", "Utilization", index, point.utilization, 100)
            .or_else(|| check_range("score", "Score", index, point.score, 10))
    })
}

fn check_range(what: &str, name: &str, index: usize, value: i64, most: i64) -> Option<String> {
    let is_wrong = if value < 0 {
        "less than 0".to_owned()
    } else if value > most {
        format!("greater than {most}")
    } else {
        return None;
    };
    Some(format!(
        "{what} values must not be {is_wrong}. {name}[{index}]=={value}"
    ))
}

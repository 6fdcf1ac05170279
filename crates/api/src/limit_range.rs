//! What a LimitRange may say, in the words of the API server.
//!
//! Source: `ValidateLimitRange` in `pkg/apis/core/validation`, Kubernetes 1.36; where it looks
//! at resources in no fixed order, they are sorted here.
//!
//! ```
//! use outrank_api::limit_range::validate;
//! use outrank_api::types::LimitRange;
//!
//! let range: LimitRange = serde_json::from_str(
//!     r#"{"metadata": {"name": "l", "namespace": "n"},
//!         "spec": {"limits": [{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}}"#,
//! ).unwrap();
//! assert_eq!(
//!     validate(&range)[0].to_string(),
//!     "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
//! );
//! ```

use std::collections::BTreeSet;

use crate::diagnostic::Here;
use crate::field_error::FieldError;
use crate::metadata;
use crate::names::{NameRule, label_key_errors};
use crate::pod_resources::is_extended_resource_name;
use crate::quantity::{Format, Quantity};
use crate::types::{LimitRange, LimitRangeItem, ResourceList};

/// Everything that is wrong with a LimitRange that has its defaults.
pub fn validate(range: &LimitRange) -> Vec<FieldError> {
    let mut errors = metadata::validate(&range.metadata, true, NameRule::DnsSubdomain);
    errors.extend(limit_errors(range));
    errors
}

/// What is wrong with the limits.
pub(crate) fn limit_errors(range: &LimitRange) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = Here::OBJECT.field("spec");
    let limits = spec.field("limits");
    let mut types = BTreeSet::new();
    for (index, limit) in range.spec.limits.iter().enumerate() {
        let here = limits.index(index);
        let limit_type = here.field("type");
        errors.extend(type_errors(&limit.type_, &limit_type));
        if !types.insert(limit.type_.as_str()) {
            errors.push(FieldError::duplicate(&limit_type, limit.type_.as_str()));
        }
        errors.extend(resource_errors(limit, &here));
        errors.extend(claim_errors(limit, &here));
        for resource in resources(limit) {
            errors.extend(bound_errors(limit, resource, &here));
        }
    }
    errors
}

const CONTAINER: &str = "Container";
const POD: &str = "Pod";
const CLAIM: &str = "PersistentVolumeClaim";

fn type_errors(limit_type: &str, here: &Here<'_>) -> Vec<FieldError> {
    let mut broken = label_key_errors(limit_type);
    let is_standard = [CONTAINER, POD, CLAIM].contains(&limit_type);
    if broken.is_empty() && !limit_type.contains('/') && !is_standard {
        broken.push("must be a standard limit type or fully qualified".to_owned());
    }
    let broken = broken.into_iter();
    broken
        .map(|rule| FieldError::invalid(here, limit_type, rule))
        .collect()
}

/// The fields of a limit that hold amounts, with those that count for its type.
fn amounts(limit: &LimitRangeItem) -> [(&'static str, &ResourceList); 5] {
    [
        ("max", &limit.max),
        ("min", &limit.min),
        ("default", &limit.default),
        ("defaultRequest", &limit.default_request),
        ("maxLimitRequestRatio", &limit.max_limit_request_ratio),
    ]
}

fn is_default(field: &str) -> bool {
    matches!(field, "default" | "defaultRequest")
}

fn resources(limit: &LimitRangeItem) -> BTreeSet<&str> {
    let counted = amounts(limit).into_iter();
    let counted = counted.filter(|(field, _)| limit.type_ != POD || !is_default(field));
    counted
        .flat_map(|(_, list)| list.keys().map(String::as_str))
        .collect()
}

fn resource_errors(limit: &LimitRangeItem, here: &Here<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, list) in amounts(limit) {
        let here = here.field(field);
        if limit.type_ == POD && is_default(field) {
            if !list.is_empty() {
                let rule = "may not be specified when `type` is 'Pod'";
                errors.push(FieldError::forbidden(&here, rule));
            }
            continue;
        }
        for name in list.keys() {
            let here = here.key(name);
            let broken = resource_name_rule(&limit.type_, name).into_iter();
            errors.extend(broken.map(|rule| FieldError::invalid(&here, name.as_str(), rule)));
        }
    }
    errors
}

/// What is wrong with the name of a resource.
fn resource_name_rule(limit_type: &str, name: &str) -> Vec<String> {
    let broken = label_key_errors(name);
    if !broken.is_empty() {
        return broken;
    }
    let of_container =
        matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    let is_qualified = name.contains('/');
    let of_container_type = matches!(limit_type, CONTAINER | POD);
    let rule = match (is_qualified, of_container_type) {
        (true, true) if !is_extended_resource_name(name) && !name.contains("kubernetes.io/") => {
            "doesn't follow extended resource name standard"
        }
        (true, _) => return Vec::new(),
        (false, true) if !of_container => "must be a standard resource for containers",
        (false, false) if !of_container && !is_standard_resource(name) => {
            "must be a standard resource type or fully qualified"
        }
        _ => return Vec::new(),
    };
    vec![rule.to_owned()]
}

/// Resources without a domain that quotas and claims know.
fn is_standard_resource(name: &str) -> bool {
    matches!(
        name,
        "storage"
            | "pods"
            | "services"
            | "replicationcontrollers"
            | "resourcequotas"
            | "secrets"
            | "configmaps"
            | "persistentvolumeclaims"
            | "requests.cpu"
            | "requests.memory"
            | "requests.storage"
            | "requests.ephemeral-storage"
            | "limits.cpu"
            | "limits.memory"
            | "limits.ephemeral-storage"
            | "services.nodeports"
            | "services.loadbalancers"
    ) || name.starts_with("requests.hugepages-")
}

fn claim_errors(limit: &LimitRangeItem, here: &Here<'_>) -> Option<FieldError> {
    let has_size = [&limit.min, &limit.max]
        .iter()
        .any(|list| list.contains_key("storage"));
    let rule = "either minimum or maximum storage value is required, but neither was provided";
    let is_wrong = limit.type_ == CLAIM && !has_size;
    is_wrong.then(|| FieldError::required(&here.field("limits"), rule))
}

/// What is wrong with the bounds of one resource among each other.
fn bound_errors(limit: &LimitRangeItem, resource: &str, here: &Here<'_>) -> Vec<FieldError> {
    let (min, max) = (limit.min.get(resource), limit.max.get(resource));
    let is_pod = limit.type_ == POD;
    let default = limit.default.get(resource).filter(|_| !is_pod);
    let request = limit.default_request.get(resource).filter(|_| !is_pod);
    let mut errors = Vec::new();
    // What is compared, what is said of it, and which field and value are shown.
    let ordered = [
        (min, "min", max, "max", "min", min),
        (
            min,
            "min",
            request,
            "default request",
            "defaultRequest",
            request,
        ),
        (
            request,
            "default request",
            max,
            "max",
            "defaultRequest",
            request,
        ),
        (
            request,
            "default request",
            default,
            "default limit",
            "defaultRequest",
            request,
        ),
        (min, "min", default, "default", "default", min),
        (default, "default", max, "max", "default", max),
    ];
    for (low, low_name, high, high_name, field, shown) in ordered {
        if let (Some(low), Some(high), Some(shown)) = (low, high, shown)
            && low > high
        {
            let rule = format!("{low_name} value {low} is greater than {high_name} value {high}");
            errors.push(invalid(&here.field(field).key(resource), shown, rule));
        }
    }
    errors.extend(ratio_errors(limit, resource, here));
    if let (Some(default), Some(request)) = (default, request)
        && !may_be_overcommitted(resource)
        && default != request
    {
        let rule = format!(
            "default value {default} must equal to defaultRequest value {request} in {resource}"
        );
        errors.push(invalid(
            &here.field("defaultRequest").key(resource),
            request,
            rule,
        ));
    }
    errors
}

fn ratio_errors(limit: &LimitRangeItem, resource: &str, here: &Here<'_>) -> Vec<FieldError> {
    const MAX_MILLI_VALUE: i64 = i64::MAX / 1000;
    let Some(ratio) = limit.max_limit_request_ratio.get(resource) else {
        return Vec::new();
    };
    let field = here.field("maxLimitRequestRatio");
    let here = field.key(resource);
    let mut errors = Vec::new();
    if *ratio < Quantity::from_value(1, Format::DecimalSi) {
        errors.push(invalid(
            &here,
            ratio,
            format!("ratio {ratio} is less than 1"),
        ));
    }
    if let (Some(min), Some(max)) = (limit.min.get(resource), limit.max.get(resource)) {
        let fits = [ratio, min, max]
            .iter()
            .all(|it| it.value() < MAX_MILLI_VALUE);
        #[expect(
            clippy::cast_precision_loss,
            reason = "upstream divides them as floats"
        )]
        let (ratio_value, possible) = match fits {
            true => (
                ratio.milli_value() as f64 / 1000.0,
                max.milli_value() as f64 / min.milli_value() as f64,
            ),
            false => (
                ratio.value() as f64,
                max.value() as f64 / min.value() as f64,
            ),
        };
        if ratio_value > possible {
            let rule = format!("ratio {ratio} is greater than max/min = {possible:.6}");
            errors.push(invalid(&here, ratio, rule));
        }
    }
    errors
}

fn invalid(here: &Here<'_>, amount: &Quantity, rule: String) -> FieldError {
    FieldError::invalid(here, amount.to_string().as_str(), rule)
}

/// Whether limits of a resource may be larger than requests.
fn may_be_overcommitted(resource: &str) -> bool {
    let is_own = !resource.contains('/') || resource.contains("kubernetes.io/");
    is_own && !resource.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn texts(limits: Value) -> Vec<String> {
        let range =
            json!({"metadata": {"name": "l", "namespace": "n"}, "spec": {"limits": limits}});
        let range: LimitRange = serde_json::from_value(range).expect("a LimitRange");
        validate(&range).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn bounds_must_fit_each_other() {
        let limit = json!([{
            "type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"},
            "default": {"cpu": "3"}, "defaultRequest": {"cpu": "4"},
            "maxLimitRequestRatio": {"cpu": "500m"},
        }]);
        assert_eq!(
            texts(limit),
            [
                "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max \
                 value 1",
                "spec.limits[0].defaultRequest[cpu]: Invalid value: \"4\": default request value 4 \
                 is greater than max value 1",
                "spec.limits[0].defaultRequest[cpu]: Invalid value: \"4\": default request value 4 \
                 is greater than default limit value 3",
                "spec.limits[0].default[cpu]: Invalid value: \"1\": default value 3 is greater \
                 than max value 1",
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is \
                 less than 1",
            ]
        );
    }

    #[test]
    fn types_and_resources_are_known() {
        let limits = json!([
            {"type": "Pod", "default": {"cpu": "1"}, "max": {"bananas": "1"}},
            {"type": "Pod"}, {"type": "Whale"}, {"type": "PersistentVolumeClaim"},
        ]);
        assert_eq!(
            texts(limits),
            [
                "spec.limits[0].max[bananas]: Invalid value: \"bananas\": must be a standard \
                 resource for containers",
                "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
                "spec.limits[1].type: Duplicate value: \"Pod\"",
                "spec.limits[2].type: Invalid value: \"Whale\": must be a standard limit type or \
                 fully qualified",
                "spec.limits[3].limits: Required value: either minimum or maximum storage value is \
                 required, but neither was provided",
            ]
        );
    }

    #[test]
    fn what_is_reasonable_is_valid() {
        let limits = json!([
            {"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "2"},
             "default": {"cpu": "1", "nvidia.com/gpu": "1"},
             "defaultRequest": {"cpu": "500m", "nvidia.com/gpu": "1"},
             "maxLimitRequestRatio": {"cpu": "4"}},
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}},
        ]);
        assert_eq!(texts(limits), Vec::<String>::new());
    }
}

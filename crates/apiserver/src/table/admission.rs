//! What stands between a request and the store: webhooks and policies of admission.

use std::fmt::Write;

use serde_json::Value;

use super::BuiltIn;
use super::cell::{self, UNSET, list, text};
use super::column::{AGE, Heading, NAME, integer as integers, text as texts};

const PARAM_KIND: Heading = texts(
    "ParamKind",
    "The kind of objects that the policy is set with.",
);

/// Of mutating and validating ones.
pub(super) static WEBHOOK_CONFIGURATIONS: BuiltIn = BuiltIn::new(
    &[NAME, integers("Webhooks", "How many webhooks it has."), AGE],
    webhook_configuration_cells,
);

pub(super) static VALIDATING_ADMISSION_POLICIES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        integers("Validations", "How many rules it has."),
        PARAM_KIND,
        AGE,
    ],
    validating_admission_policy_cells,
);

pub(super) static MUTATING_ADMISSION_POLICIES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        integers("Mutations", "How many changes it makes."),
        PARAM_KIND,
        AGE,
    ],
    mutating_admission_policy_cells,
);

/// Of mutating and validating ones.
pub(super) static ADMISSION_POLICY_BINDINGS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("PolicyName", "The policy that is put to use."),
        texts("ParamRef", "The objects that it is set with."),
        AGE,
    ],
    admission_policy_binding_cells,
);

fn webhook_configuration_cells(configuration: &Value, now_nanos: i64) -> Vec<Value> {
    cells![
        cell::name(configuration),
        cell::count(&configuration["webhooks"]),
        cell::age(configuration, now_nanos),
    ]
}

fn validating_admission_policy_cells(policy: &Value, now_nanos: i64) -> Vec<Value> {
    policy_cells(policy, "validations", now_nanos)
}

fn mutating_admission_policy_cells(policy: &Value, now_nanos: i64) -> Vec<Value> {
    policy_cells(policy, "mutations", now_nanos)
}

fn policy_cells(policy: &Value, rules: &str, now_nanos: i64) -> Vec<Value> {
    let spec = &policy["spec"];
    let param_kind = match &spec["paramKind"] {
        Value::Null => UNSET.to_owned(),
        it => format!("{}/{}", text(&it["apiVersion"]), text(&it["kind"])),
    };
    cells![
        cell::name(policy),
        cell::count(&spec[rules]),
        param_kind,
        cell::age(policy, now_nanos),
    ]
}

fn admission_policy_binding_cells(binding: &Value, now_nanos: i64) -> Vec<Value> {
    let spec = &binding["spec"];
    cells![
        cell::name(binding),
        text(&spec["policyName"]),
        param_ref(&spec["paramRef"]),
        cell::age(binding, now_nanos),
    ]
}

/// `namespace/name`, with `*` for no namespace, or a selector.
fn param_ref(reference: &Value) -> String {
    match text(&reference["name"]) {
        "" if reference["selector"].is_object() => go_selector(&reference["selector"]),
        "" => UNSET.to_owned(),
        name => format!("{}/{name}", cell::text_or(&reference["namespace"], "*")),
    }
}

/// A label selector in the debug form of Go, which upstream shows here.
fn go_selector(selector: &Value) -> String {
    let mut labels = String::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        // Writing to a string does not fail.
        let _ = write!(labels, "{key}: {},", text(value));
    }
    let mut expressions = String::new();
    for it in list(&selector["matchExpressions"]) {
        let values: Vec<&str> = list(&it["values"]).iter().map(text).collect();
        let (key, operator, values) = (text(&it["key"]), text(&it["operator"]), values.join(" "));
        let _ = write!(
            expressions,
            "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},"
        );
    }
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

//! Jobs and CronJobs.
//!
//! Source: `pkg/apis/batch/validation/validation.go`, Kubernetes 1.36.

use serde_json::Value;

use super::errors::Errors;
use super::pod::pod_template;
use super::selector::{compiled, label_selector, labels_of, shown};
use crate::cron::{Schedule, Zone};
use crate::diagnostic::Here;
use crate::fields_of::FieldsOf;

/// Longest name of a CronJob, in bytes: the Jobs that it makes have the time in their names.
const CRON_JOB_NAME_BYTES_MAX: usize = 52;
/// Most pods at once of a Job whose pods have indices.
const INDEXED_PODS_MAX: i64 = 100_000;

/// Checks a Job beyond its metadata.
pub(super) fn job(job: &Value, errors: &mut Errors) {
    let here = Here::OBJECT.field("spec");
    let spec = job.part("spec").unwrap_or(&Value::Null);
    stored_job(spec, &here, errors);
}

/// Checks the spec of a Job that has its selector.
pub(super) fn stored_job(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    job_spec(spec, here, errors);
    if spec.part("selector").is_none() {
        errors.required(&here.field("selector"), "");
    }
    label_selector(spec, "selector", here, errors);
    let template = spec.part("template").unwrap_or(&Value::Null);
    let selector = compiled(spec.part("selector"));
    if selector.is_some_and(|selector| !selector.matches(&labels_of(template))) {
        let labels = template.pointer("/metadata/labels").unwrap_or(&Value::Null);
        let template_here = here.field("template");
        let here = template_here.field("metadata");
        let rule = "`selector` does not match template `labels`";
        errors.invalid(&here.field("labels"), labels, rule);
    }
}

fn job_spec(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.not_negative(spec, field, here);
    }
    let per_index = spec.number("backoffLimitPerIndex");
    if spec.part("maxFailedIndexes").is_some() && per_index.is_none() {
        let detail = "when maxFailedIndexes is specified";
        errors.required(&here.field("backoffLimitPerIndex"), detail);
    }
    let mode = spec.some_text("completionMode");
    if let Some(mode) = mode {
        let here = here.field("completionMode");
        errors.word(mode, &["NonIndexed", "Indexed"], &here);
    }
    let is_indexed = mode == Some("Indexed");
    if is_indexed {
        if spec.part("completions").is_none() {
            let detail = "when completion mode is Indexed";
            errors.required(&here.field("completions"), detail);
        }
        let parallelism = spec.number("parallelism").unwrap_or(0);
        if parallelism > INDEXED_PODS_MAX {
            let rule = format!(
                "must be less than or equal to {INDEXED_PODS_MAX} when completion mode is Indexed"
            );
            errors.invalid(&here.field("parallelism"), parallelism, rule);
        }
    }
    if let Some(limit) = per_index.filter(|_| !is_indexed) {
        let rule = "requires indexed completion mode";
        errors.invalid(&here.field("backoffLimitPerIndex"), limit, rule);
    }
    if let Some(policy) = spec.some_text("podReplacementPolicy") {
        let here = here.field("podReplacementPolicy");
        match spec.part("podFailurePolicy") {
            Some(_) => errors.word(policy, &["Failed"], &here),
            None => errors.word(policy, &["Failed", "TerminatingOrFailed"], &here),
        }
    }
    let template = spec.part("template").unwrap_or(&Value::Null);
    pod_template(template, &here.field("template"), errors);
    restart_policy(spec, template, here, errors);
}

fn restart_policy(spec: &Value, template: &Value, here: &Here<'_>, errors: &mut Errors) {
    let template_here = here.field("template");
    let here = template_here.field("spec");
    let here = here.field("restartPolicy");
    let pod = template.part("spec").unwrap_or(&Value::Null);
    match pod.text("restartPolicy") {
        "" | "Always" => errors.required(&here, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" => {
            if spec.part("podFailurePolicy").is_some() {
                let rule = "only \"Never\" is supported when podFailurePolicy is specified";
                errors.invalid(&here, "OnFailure", rule);
            }
        }
        policy => errors.not_supported(&here, policy, &["OnFailure", "Never"]),
    }
}

/// Checks a CronJob beyond its metadata.
pub(super) fn cron_job(cron_job: &Value, errors: &mut Errors) {
    let here = Here::OBJECT.field("spec");
    let spec = cron_job.part("spec").unwrap_or(&Value::Null);
    schedule(spec, &here, errors);
    errors.not_negative(spec, "startingDeadlineSeconds", &here);
    if let Some(zone) = spec.some_text("timeZone") {
        let here = here.field("timeZone");
        if zone.is_empty() {
            let rule = "timeZone must be nil or non-empty string";
            errors.invalid(&here, zone, rule);
        } else if zone.eq_ignore_ascii_case("local") {
            let rule = "timeZone must be an explicit time zone as defined in \
                        https://www.iana.org/time-zones";
            errors.invalid(&here, zone, rule);
        } else if Zone::named(zone).is_none() {
            errors.invalid(&here, zone, format!("unknown time zone {zone}"));
        }
    }
    let supported = ["Allow", "Forbid", "Replace"];
    let policy = spec.text("concurrencyPolicy");
    errors.required_word(policy, &supported, &here.field("concurrencyPolicy"));
    job_template(spec, &here, errors);
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        errors.not_negative(spec, field, &here);
    }
    let metadata = cron_job.part("metadata").unwrap_or(&Value::Null);
    let name = metadata.text("name");
    if name.len() > CRON_JOB_NAME_BYTES_MAX {
        let here = Here::OBJECT.field("metadata");
        let rule = format!("must be no more than {CRON_JOB_NAME_BYTES_MAX} characters");
        errors.invalid(&here.field("name"), name, rule);
    }
}

fn schedule(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let here = here.field("schedule");
    let schedule = spec.text("schedule");
    if schedule.is_empty() {
        errors.required(&here, "");
        return;
    }
    if let Err(error) = Schedule::parse(schedule) {
        errors.invalid(&here, schedule, error);
    }
    if schedule.contains("TZ") {
        let rule = match spec.part("timeZone") {
            Some(_) => "cannot use both timeZone field and TZ or CRON_TZ in schedule",
            None => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        };
        errors.invalid(&here, schedule, rule);
    }
}

fn job_template(spec: &Value, here: &Here<'_>, errors: &mut Errors) {
    let template = spec.part("jobTemplate").unwrap_or(&Value::Null);
    let job = template.part("spec").unwrap_or(&Value::Null);
    let here = here.field("jobTemplate");
    let here = here.field("spec");
    job_spec(job, &here, errors);
    if let Some(selector) = job.part("selector") {
        let rule = "`selector` will be auto-generated";
        errors.invalid(&here.field("selector"), shown(Some(selector)), rule);
    }
    if job.flag("manualSelector") {
        let here = here.field("manualSelector");
        errors.not_supported(&here, true, &["nil", "false"]);
    }
}

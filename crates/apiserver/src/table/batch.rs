//! Work that ends: Jobs, and CronJobs that start them.

use serde_json::Value;

use super::BuiltIn;
use super::age::{human, since, time};
use super::cell::{self, NONE, UNSET, integer, is_true};
use super::column::{
    AGE, CONTAINERS, IMAGES, NAME, SELECTOR, boolean as booleans, integer as integers,
    text as texts,
};

pub(super) static JOBS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts(
            "Status",
            "Whether the job runs, waits, or how it has ended.",
        ),
        texts(
            "Completions",
            "How many pods have succeeded, of how many that must.",
        ),
        texts(
            "Duration",
            "How long the job has been at work, or was until it ended.",
        ),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    job_cells,
);

pub(super) static CRON_JOBS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Schedule", "When jobs are started, in cron's language."),
        texts("Timezone", "The time zone of the schedule."),
        booleans("Suspend", "Whether no jobs are started for now."),
        integers("Active", "How many of the jobs run."),
        texts("Last Schedule", "How long ago a job was started."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cron_job_cells,
);

fn job_cells(job: &Value, now_nanos: i64) -> Vec<Value> {
    let spec = &job["spec"];
    let pod_spec = &spec["template"]["spec"];
    cells![
        cell::name(job),
        job_status(job),
        completions(spec, &job["status"]),
        duration(&job["status"], now_nanos),
        cell::age(job, now_nanos),
        cell::container_names(pod_spec),
        cell::container_images(pod_spec),
        cell::selector(&spec["selector"]),
    ]
}

/// What the conditions of a job come to; the first that applies.
fn job_status(job: &Value) -> &'static str {
    let is_true = |type_| is_true(&job["status"]["conditions"], type_);
    if is_true("Complete") {
        "Complete"
    } else if is_true("Failed") {
        "Failed"
    } else if cell::is_deleted(job) {
        "Terminating"
    } else if is_true("Suspended") {
        "Suspended"
    } else if is_true("FailureTarget") {
        "FailureTarget"
    } else if is_true("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

/// A job without a number of completions is done when one pod succeeds, however many try.
fn completions(spec: &Value, status: &Value) -> String {
    let succeeded = integer(&status["succeeded"]);
    if let Some(completions) = spec["completions"].as_i64() {
        return format!("{succeeded}/{completions}");
    }
    match integer(&spec["parallelism"]) {
        parallelism if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        _ => format!("{succeeded}/1"),
    }
}

/// Empty until the job has begun.
fn duration(status: &Value, now_nanos: i64) -> String {
    let Some(start) = time(&status["startTime"]) else {
        return String::new();
    };
    let end = time(&status["completionTime"]).unwrap_or(now_nanos);
    human(end.saturating_sub(start))
}

fn cron_job_cells(cron_job: &Value, now_nanos: i64) -> Vec<Value> {
    let (spec, status) = (&cron_job["spec"], &cron_job["status"]);
    let job_spec = &spec["jobTemplate"]["spec"];
    let pod_spec = &job_spec["template"]["spec"];
    let last_schedule = match &status["lastScheduleTime"] {
        Value::Null => NONE.to_owned(),
        time => since(time, now_nanos),
    };
    let suspend = match spec["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    cells![
        cell::name(cron_job),
        cell::text(&spec["schedule"]),
        cell::present_or(&spec["timeZone"], NONE),
        suspend,
        cell::count(&status["active"]),
        last_schedule,
        cell::age(cron_job, now_nanos),
        cell::container_names(pod_spec),
        cell::container_images(pod_spec),
        cell::selector(&job_spec["selector"]),
    ]
}

//! What a configuration says of the scheduler's process: leader election, the connection to
//! the API server, profiling, parallelism. It is checked as upstream does, and has no effect
//! on decisions.
//!
//! Sources: `component-base/config/validation/validation.go`,
//! `apis/config/validation/validation.go`, Kubernetes 1.36.

use crate::ConfigError;
use crate::duration::{SignedDuration, duration};
use crate::fields::Fields;

/// Reads all fields of a configuration that are about the process.
pub(crate) fn check(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) {
    for switch in [
        "delayCacheUntilActive",
        "enableContentionProfiling",
        "enableProfiling",
    ] {
        fields.boolean(switch, errors);
    }
    if let Some((path, parallelism)) = fields.integer("parallelism", errors)
        && !(1..=i64::from(i32::MAX)).contains(&parallelism)
    {
        let message = format!("{parallelism}: should be an integer value greater than zero");
        errors.push(ConfigError { path, message });
    }
    check_client_connection(fields, errors);
    check_leader_election(fields, errors);
}

fn check_client_connection(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) {
    let Some(mut fields) = fields.object("clientConnection", errors) else {
        return;
    };
    for text in ["acceptContentTypes", "contentType", "kubeconfig"] {
        fields.text(text, errors);
    }
    fields.number("qps", errors);
    if let Some((path, burst)) = fields.integer("burst", errors) {
        let problem = match burst {
            ..0 => Some("must be non-negative"),
            burst if burst > i64::from(i32::MAX) => Some("does not fit into 32 bits"),
            _ => None,
        };
        if let Some(problem) = problem {
            let message = format!("{burst}: {problem}");
            errors.push(ConfigError { path, message });
        }
    }
    fields.finish(errors);
}

fn check_leader_election(fields: &mut Fields<'_>, errors: &mut Vec<ConfigError>) {
    let Some(mut fields) = fields.object("leaderElection", errors) else {
        return;
    };
    let is_on = fields.boolean("leaderElect", errors).unwrap_or(true);
    let mut seconds = |name, default| {
        let default = SignedDuration::of_seconds(default);
        match duration(&mut fields, name, default, errors) {
            // Those that are zero get the default.
            SignedDuration { nanos: 0 } => default,
            given => given,
        }
    };
    let lease_duration = seconds("leaseDuration", 15);
    let renew_deadline = seconds("renewDeadline", 10);
    let retry_period = seconds("retryPeriod", 2);
    let resource_lock = fields.text("resourceLock", errors);
    fields.text("resourceName", errors);
    fields.text("resourceNamespace", errors);
    let path = |name| fields.path(name);
    let (lease_path, renew_path, retry_path) = (
        path("leaseDuration"),
        path("renewDeadline"),
        path("retryPeriod"),
    );
    fields.finish(errors);
    if !is_on {
        return;
    }
    let mut refuse = |is_wrong: bool, path: &str, message: &str| {
        if is_wrong {
            errors.push(ConfigError {
                path: path.to_owned(),
                message: message.to_owned(),
            });
        }
    };
    let zero = SignedDuration { nanos: 0 };
    for (value, path) in [
        (lease_duration, &lease_path),
        (renew_deadline, &renew_path),
        (retry_period, &retry_path),
    ] {
        refuse(value < zero, path, "must be greater than zero");
    }
    refuse(
        lease_duration <= renew_deadline,
        &lease_path,
        "must be greater than renewDeadline",
    );
    if let Some((path, lock)) = resource_lock {
        refuse(
            !matches!(lock, "" | "leases"),
            &path,
            "resourceLock value must be \"leases\"",
        );
    }
}

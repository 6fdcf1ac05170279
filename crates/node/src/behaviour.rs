//! What the programs in a simulated pod do.
//!
//! Nothing runs in a simulated pod, so someone has to say how long it runs and how it ends.
//! Annotations of the pod do:
//!
//! | annotation | meaning | without it |
//! | --- | --- | --- |
//! | `node.outrank.dev/start-after` | time from admission to the first container: volumes, images | at once |
//! | `node.outrank.dev/run-for` | how long a container runs until it exits by itself | for ever |
//! | `node.outrank.dev/exit-code` | its exit code, or one for each run, such as `1,1,0`; the last one repeats | 0 |
//! | `node.outrank.dev/ready-after` | time from the start of a container until it is ready, or `never` | at once |
//! | `node.outrank.dev/stop-after` | time that a container takes to stop when asked to | at once |
//! | `node.outrank.dev/stop-exit-code` | its exit code then | 143 |
//!
//! Times are written as `90s`, `1m30s` or `250ms`. All but the first may be given for one
//! container, with its name: `node.outrank.dev/run-for.NAME` comes before
//! `node.outrank.dev/run-for`. Init containers and sidecars heed only those with their name:
//! otherwise an init container succeeds at once, and a sidecar runs for ever.
//!
//! 143 is how a program ends that does not expect to be stopped, so a deleted pod has failed
//! and not succeeded: its work is not done. If it takes longer than its grace period, it is
//! killed, with 137. `preStop.sleep` of a container adds to the time it takes.
//!
//! Annotations are read when a pod is admitted; later changes have no effect. What cannot be
//! read counts as absent, with an event that says so.

use outrank_api::time::span_nanos;
use outrank_api::types::{Container, Pod};

use crate::TimeNanos;

/// Prefix of the annotations.
pub const PREFIX: &str = "node.outrank.dev/";

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// What a pod does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodBehaviour {
    /// Time from admission to the first container.
    pub start_after: TimeNanos,
    /// What the init containers and sidecars do, as they are listed.
    pub init_containers: Vec<ContainerBehaviour>,
    /// What the containers do, as they are listed.
    pub containers: Vec<ContainerBehaviour>,
}

/// What a container does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerBehaviour {
    /// How long it runs; `None` is for ever.
    pub run_for: Option<TimeNanos>,
    /// Exit code of each run; the last one repeats, without any it is 0.
    pub exit_codes: Vec<i32>,
    /// Time from its start until it is ready; `None` is never.
    pub ready_after: Option<TimeNanos>,
    /// Time it takes to stop when asked to, `preStop` included.
    pub stop_after: TimeNanos,
    /// Its exit code then.
    pub stop_exit_code: i32,
}

impl Default for ContainerBehaviour {
    /// Runs for ever, is ready at once and stops when asked to.
    fn default() -> Self {
        Self {
            run_for: None,
            exit_codes: Vec::new(),
            ready_after: Some(0),
            stop_after: 0,
            stop_exit_code: 143,
        }
    }
}

impl ContainerBehaviour {
    /// Exit code of a run, counted from 0.
    pub fn exit_code(&self, run: usize) -> i32 {
        let code = self.exit_codes.get(run).or(self.exit_codes.last());
        code.copied().unwrap_or(0)
    }
}

impl PodBehaviour {
    /// What the annotations of a pod say, and what is wrong with them.
    pub fn of(pod: &Pod) -> (Self, Vec<String>) {
        let mut annotations = Annotations {
            pod,
            problems: Vec::new(),
        };
        let spec = &pod.spec;
        let start_after = annotations.read(&["start-after".to_owned()], "a time", span_nanos);
        let init_containers = spec.init_containers.iter().map(|container| {
            let mut behaviour = annotations.behaviour(container, false);
            if !container.is_sidecar() {
                behaviour.run_for = behaviour.run_for.or(Some(0));
            }
            behaviour
        });
        let init_containers = init_containers.collect();
        let containers = spec.containers.iter();
        let containers = containers.map(|it| annotations.behaviour(it, true));
        let behaviour = Self {
            start_after: start_after.unwrap_or(0),
            init_containers,
            containers: containers.collect(),
        };
        let mut problems = annotations.problems;
        problems.sort();
        problems.dedup();
        (behaviour, problems)
    }
}

/// The annotations of a pod while they are read.
struct Annotations<'p> {
    pod: &'p Pod,
    problems: Vec<String>,
}

impl Annotations<'_> {
    /// What a container does. `heeds_all`: whether annotations without a name are for it, too.
    fn behaviour(&mut self, container: &Container, heeds_all: bool) -> ContainerBehaviour {
        let default = ContainerBehaviour::default();
        let keys = |key: &str| {
            let mut keys = vec![format!("{key}.{}", container.name)];
            keys.extend(heeds_all.then(|| key.to_owned()));
            keys
        };
        let ready_after = |text: &str| match text {
            "never" => Some(None),
            text => span_nanos(text).map(Some),
        };
        let stop_after = self.read(&keys("stop-after"), "a time", span_nanos);
        let code = "a number from 0 to 255";
        ContainerBehaviour {
            run_for: self.read(&keys("run-for"), "a time", span_nanos),
            exit_codes: self
                .read(&keys("exit-code"), "numbers from 0 to 255", exit_codes)
                .unwrap_or_default(),
            ready_after: self
                .read(&keys("ready-after"), "a time or `never`", ready_after)
                .unwrap_or(default.ready_after),
            stop_after: stop_after
                .unwrap_or(0)
                .saturating_add(pre_stop_nanos(container)),
            stop_exit_code: self
                .read(&keys("stop-exit-code"), code, exit_code)
                .unwrap_or(default.stop_exit_code),
        }
    }

    /// The first annotation that is there, if it can be read.
    fn read<T>(
        &mut self,
        keys: &[String],
        wanted: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let annotations = &self.pod.metadata.annotations;
        let mut found = keys.iter().filter_map(|key| {
            let key = format!("{PREFIX}{key}");
            let value = annotations.get(&key)?;
            Some((key, value))
        });
        let (key, value) = found.next()?;
        let parsed = parse(value);
        if parsed.is_none() {
            self.problems.push(format!(
                "annotation {key}: {value:?} is not {wanted}, and is ignored"
            ));
        }
        parsed
    }
}

fn pre_stop_nanos(container: &Container) -> TimeNanos {
    let pre_stop = container
        .lifecycle
        .as_ref()
        .and_then(|it| it.pre_stop.as_ref());
    let sleep = pre_stop.and_then(|it| it.sleep.as_ref());
    let seconds = sleep.map_or(0, |sleep| sleep.seconds.max(0));
    seconds.saturating_mul(NANOS_PER_SECOND)
}

fn exit_code(text: &str) -> Option<i32> {
    let code: u8 = text.trim().parse().ok()?;
    Some(code.into())
}

fn exit_codes(text: &str) -> Option<Vec<i32>> {
    text.split(',').map(exit_code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behaviour(annotations: serde_json::Value) -> (PodBehaviour, Vec<String>) {
        let pod = serde_json::json!({
            "metadata": { "annotations": annotations },
            "spec": {
                "initContainers": [
                    { "name": "prepare" },
                    { "name": "proxy", "restartPolicy": "Always" },
                ],
                "containers": [{ "name": "a" }, { "name": "b" }],
            },
        });
        PodBehaviour::of(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn a_name_comes_before_no_name() {
        let (behaviour, problems) = behaviour(serde_json::json!({
            "node.outrank.dev/run-for": "1m",
            "node.outrank.dev/run-for.b": "2s",
            "node.outrank.dev/run-for.prepare": "3s",
            "node.outrank.dev/exit-code.b": "1,0",
        }));
        assert_eq!(problems, Vec::<String>::new());
        let [a, b] = &behaviour.containers[..] else {
            panic!("two containers");
        };
        assert_eq!(a.run_for, Some(60 * NANOS_PER_SECOND));
        assert_eq!(b.run_for, Some(2 * NANOS_PER_SECOND));
        assert_eq!([0, 1, 2].map(|run| b.exit_code(run)), [1, 0, 0]);
        assert_eq!(a.exit_code(0), 0);
        let [prepare, proxy] = &behaviour.init_containers[..] else {
            panic!("two init containers");
        };
        assert_eq!(prepare.run_for, Some(3 * NANOS_PER_SECOND));
        assert_eq!(proxy.run_for, None);
    }

    #[test]
    fn what_cannot_be_read_is_told_and_ignored() {
        let (behaviour, problems) = behaviour(serde_json::json!({
            "node.outrank.dev/run-for": "soon",
            "node.outrank.dev/exit-code": "1,256",
        }));
        assert_eq!(behaviour.containers[0].run_for, None);
        assert_eq!(behaviour.containers[0].exit_code(0), 0);
        assert!(
            problems.contains(
                &"annotation node.outrank.dev/run-for: \"soon\" is not a time, and is ignored"
                    .to_owned()
            ),
            "{problems:?}"
        );
        assert!(
            problems
                .iter()
                .any(|problem| problem.contains("is not numbers from 0 to 255")),
            "{problems:?}"
        );
    }
}

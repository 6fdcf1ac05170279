//! The life of a container: it waits, runs, ends, and may be started again.
//!
//! A container that ends and is to be started again is so at once the first time. After that
//! it waits from its end: 10 s, then 20 s, doubling up to 300 s, shown as CrashLoopBackOff,
//! however it ended. If it ran for more than 10 minutes since the wait was last raised, all
//! this begins anew. Sources: `doBackOff` in `pkg/kubelet/kuberuntime` and
//! `k8s.io/client-go/util/flowcontrol`, Kubernetes 1.36.

use crate::TimeNanos;
use crate::behaviour::ContainerBehaviour;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
/// The first wait before a restart.
const BACK_OFF_INITIAL: TimeNanos = 10 * NANOS_PER_SECOND;
/// The longest wait before a restart.
pub const BACK_OFF_MAX: TimeNanos = 300 * NANOS_PER_SECOND;

/// What a container is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Runs before the others, to its end.
    Init,
    /// Starts before the others and stops after them.
    Sidecar,
    /// One of those the pod is for.
    Main,
}

/// A container of a pod on a node.
#[derive(Clone, Debug)]
pub(crate) struct ContainerLife {
    pub(crate) kind: Kind,
    behaviour: ContainerBehaviour,
    pub(crate) state: State,
    /// How the run before this one ended.
    pub(crate) last: Option<Ended>,
    /// How often it was started.
    pub(crate) runs: usize,
    /// Runs before the first that was seen here.
    runs_before: usize,
    back_off: Option<BackOff>,
}

/// What a container is doing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    /// It is yet to start.
    Waiting,
    /// It ended and is started again later.
    BackingOff {
        until: TimeNanos,
        delay: TimeNanos,
    },
    Running(Running),
    Ended(Ended),
}

/// A run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) since: TimeNanos,
    pub(crate) is_ready: bool,
    /// When it becomes ready, if it will and is not.
    ready_at: Option<TimeNanos>,
    /// When it will end, and with which exit code.
    end: Option<(TimeNanos, i32)>,
    pub(crate) is_stopping: bool,
}

/// What was seen of a container before it came here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) restarts: usize,
    pub(crate) state: State,
    pub(crate) last: Option<Ended>,
    /// `None` if nothing is said of it.
    pub(crate) is_ready: Option<bool>,
}

/// A run that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) started_at: TimeNanos,
    pub(crate) finished_at: TimeNanos,
    pub(crate) exit_code: i32,
    /// The runtime lost sight of it, as when the machine went down.
    pub(crate) is_lost: bool,
}

/// What is remembered of restarts.
#[derive(Clone, Copy, Debug)]
struct BackOff {
    delay: TimeNanos,
    raised_at: TimeNanos,
}

impl ContainerLife {
    pub(crate) fn new(kind: Kind, behaviour: ContainerBehaviour) -> Self {
        Self {
            kind,
            behaviour,
            state: State::Waiting,
            last: None,
            runs: 0,
            runs_before: 0,
            back_off: None,
        }
    }

    /// A container that was seen before it came here. If it runs, it is ready if it was; if it was
    /// not, it becomes ready when one that began then would, unless that time is over: then it is
    /// not known why it is not, and it stays so. If nothing is known of it, it is as one that began
    /// then.
    pub(crate) fn adopted(mut self, seen: Seen, now: TimeNanos) -> Self {
        self.runs = seen.restarts.saturating_add(1);
        self.runs_before = seen.restarts;
        self.last = seen.last;
        self.state = seen.state;
        if let State::Running(Running { since, .. }) = seen.state {
            let mut running = self.run(since);
            if let Some(is_ready) = seen.is_ready.filter(|_| self.kind != Kind::Init) {
                running.is_ready = is_ready;
                let ready_at = running.ready_at;
                running.ready_at = ready_at.filter(|time| !is_ready && *time > now);
            }
            self.state = State::Running(running);
        }
        self
    }

    /// How often it was started again.
    pub(crate) fn restarts(&self) -> i32 {
        i32::try_from(self.runs.saturating_sub(1)).unwrap_or(i32::MAX)
    }

    pub(crate) fn running(&self) -> Option<&Running> {
        match &self.state {
            State::Running(running) => Some(running),
            _ => None,
        }
    }

    /// Whether it has ended, and is not known to be started again.
    pub(crate) fn ended(&self) -> Option<&Ended> {
        match &self.state {
            State::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Whether it was ever started.
    pub(crate) fn has_started(&self) -> bool {
        self.runs > 0
    }

    /// When something happens to it by itself.
    pub(crate) fn next_time(&self) -> Option<TimeNanos> {
        match &self.state {
            State::Running(running) => {
                let end = running.end.map(|(time, _)| time);
                end.into_iter().chain(running.ready_at).min()
            }
            State::BackingOff { until, .. } => Some(*until),
            State::Waiting | State::Ended(_) => None,
        }
    }

    /// Lets happen what is due: it becomes ready, or ends.
    pub(crate) fn settle(&mut self, now: TimeNanos) {
        let State::Running(running) = &mut self.state else {
            return;
        };
        if running.ready_at.is_some_and(|time| time <= now) {
            running.ready_at = None;
            running.is_ready = true;
        }
        if let Some((finished_at, exit_code)) = running.end.filter(|(time, _)| *time <= now) {
            self.state = State::Ended(Ended {
                started_at: running.since,
                finished_at,
                exit_code,
                is_lost: false,
            });
        }
    }

    /// Starts it.
    pub(crate) fn start(&mut self, now: TimeNanos) {
        if let State::Ended(ended) = self.state {
            self.last = Some(ended);
        }
        self.runs += 1;
        self.state = State::Running(self.run(now));
    }

    /// Starts it again, at once or after a wait. Returns whether a wait begins.
    pub(crate) fn restart(&mut self, now: TimeNanos) -> bool {
        let (ended_at, is_waiting) = match (&self.state, self.last) {
            (State::Ended(ended), _) => (ended.finished_at, false),
            (State::BackingOff { until, .. }, _) if now < *until => return false,
            (State::BackingOff { .. }, Some(last)) => (last.finished_at, true),
            _ => {
                self.start(now);
                return false;
            }
        };
        let known = self
            .back_off
            .filter(|it| ended_at.saturating_sub(it.raised_at) <= 2 * BACK_OFF_MAX);
        if let Some(BackOff { delay, .. }) = known
            && !is_waiting
        {
            let until = ended_at.saturating_add(delay);
            if now < until {
                self.last = self.ended().copied();
                self.state = State::BackingOff { until, delay };
                return true;
            }
        }
        self.back_off = Some(BackOff {
            delay: known.map_or(BACK_OFF_INITIAL, |it| (it.delay * 2).min(BACK_OFF_MAX)),
            raised_at: now,
        });
        self.start(now);
        false
    }

    /// Asks it to stop; it does by `deadline`, or is killed. If it waits for a restart there
    /// will be none.
    pub(crate) fn stop(&mut self, now: TimeNanos, deadline: TimeNanos) {
        if let (State::BackingOff { .. }, Some(last)) = (&self.state, self.last) {
            self.state = State::Ended(last);
            self.last = None;
        }
        let behaviour = &self.behaviour;
        let State::Running(running) = &mut self.state else {
            return;
        };
        let stopped = (
            now.saturating_add(behaviour.stop_after),
            behaviour.stop_exit_code,
        );
        let planned = match running.end {
            Some(end) if running.is_stopping || end.0 <= stopped.0 => end,
            _ => stopped,
        };
        running.is_stopping = true;
        running.end = Some(if planned.0 <= deadline {
            planned
        } else {
            (deadline, KILLED)
        });
    }

    /// The machine went down.
    pub(crate) fn lose_power(&mut self, at: TimeNanos) {
        self.back_off = None;
        match (&self.state, self.last) {
            (State::Running(running), _) => {
                self.state = State::Ended(Ended {
                    started_at: running.since,
                    finished_at: at,
                    exit_code: LOST,
                    is_lost: true,
                });
            }
            (State::BackingOff { .. }, Some(last)) => {
                self.state = State::Ended(last);
                self.last = None;
            }
            _ => {}
        }
    }

    /// Will run once more, as its pod begins anew.
    pub(crate) fn begin_anew(&mut self) {
        if let State::Ended(ended) = self.state {
            self.last = Some(ended);
            self.state = State::Waiting;
        }
    }

    /// The run that begins now: the `runs`th.
    fn run(&self, now: TimeNanos) -> Running {
        let behaviour = &self.behaviour;
        let run = self.runs.saturating_sub(1 + self.runs_before);
        let ready_at = match self.kind {
            Kind::Init => None,
            _ => behaviour.ready_after.map(|after| now.saturating_add(after)),
        };
        let exit_code = behaviour.exit_code(run);
        let end = behaviour.run_for;
        Running {
            since: now,
            is_ready: false,
            ready_at,
            end: end.map(|run_for| (now.saturating_add(run_for), exit_code)),
            is_stopping: false,
        }
    }
}

/// Exit code of what is killed with SIGKILL.
const KILLED: i32 = 137;
/// Exit code of what the runtime lost.
const LOST: i32 = 255;

impl Running {
    /// A run that began then; how it goes on is for [`ContainerLife::adopted`] to say.
    pub(crate) fn since(since: TimeNanos) -> Self {
        Self {
            since,
            is_ready: false,
            ready_at: None,
            end: None,
            is_stopping: false,
        }
    }
}

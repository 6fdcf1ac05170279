//! CronJobs: a Job each time the schedule says so.
//!
//! Of several runs that are due at once, only the latest is made. If the last run has not ended,
//! the concurrency policy decides: both run, the new one is left out, or the old one is deleted.
//! Runs that have ended are kept up to a limit.
//!
//! Times are counted in the schedule's zone, or in UTC if it names none.
//! Source: `pkg/controller/cronjob`, Kubernetes 1.36.

use std::sync::Arc;

use outrank_api::cron::{Schedule, Zone};
use outrank_api::decode::{Object, ObjectKind};
use outrank_api::time::{rfc3339, unix_nanos};
use outrank_api::types::{CronJob, CronJobStatus, Job, ObjectMeta, ObjectReference};

use crate::claim::{owned, reference_to};
use crate::conditions;
use crate::controller::{Controller, Plan};
use crate::job::has_ended;
use crate::world::{Key, Kind, Seen, Stored, World};
use crate::write::{Create, Delete, Event, Outcome, Propagation, Write, Written};

/// When a run was due, in its zone.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

const SECOND: i64 = 1_000_000_000;

/// So many missed runs are a sign that something is wrong.
const MISSED_MAX: i64 = 100;

/// The controller of CronJobs.
#[derive(Clone, Copy, Debug, Default)]
pub struct CronJobController;

impl Controller for CronJobController {
    fn name(&self) -> &'static str {
        "cronjob-controller"
    }

    fn concerned(&mut self, seen: &Seen, world: &World, _: i64) -> Vec<Key> {
        match &seen.key.kind {
            Kind::Known(ObjectKind::CronJob) => vec![seen.key.clone()],
            Kind::Known(ObjectKind::Job) => {
                let job = seen.new.as_ref().or(seen.old.as_ref());
                let owner = job.and_then(|it| it.metadata().controller());
                let owner = owner.and_then(|it| world.with_uid(&it.uid));
                let owner = owner.filter(|it| it.get::<CronJob>().is_some());
                Vec::from_iter(owner.map(|it| it.key()))
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&mut self, key: &Key, world: &World, now: i64) -> Plan {
        let mut plan = Plan::nothing();
        if let Some(stored) = world.stored(key)
            && let Some(cron_job) = stored.get::<CronJob>()
        {
            let turn = Turn::of(stored, cron_job, world, now);
            turn.clean_up(&mut plan);
            turn.follow_runs(&mut plan);
            turn.start_due_run(&mut plan);
        }
        plan
    }

    fn tell(&self, key: &Key, world: &World, write: &Write, outcome: &Outcome) -> Option<Event> {
        let about = world.stored(key)?;
        match (write, outcome) {
            (Write::Create(_), Outcome::Refused(refusal)) => {
                let message = format!("Error creating job: {}", refusal.message);
                let is_told = !refusal.namespace_ends() && !refusal.already_exists();
                is_told.then(|| Event::warning(about, "FailedCreate", message))
            }
            (Write::Create(create), _) => {
                let message = format!("Created job {}", create.object.metadata().name);
                Some(Event::normal(about, "SuccessfulCreate", message))
            }
            (Write::Delete(_), Outcome::Refused(refusal)) if refusal.is_not_found() => None,
            (Write::Delete(_), Outcome::Refused(refusal)) => {
                let message = format!("Deleted job: {}", refusal.message);
                Some(Event::warning(about, "FailedDelete", message))
            }
            (Write::Delete(delete), _) => {
                let message = format!("Deleted job {}", delete.key.name);
                Some(Event::normal(about, "SuccessfulDelete", message))
            }
            _ => None,
        }
    }
}

/// A run of the CronJob.
struct Run<'w> {
    stored: &'w Arc<Stored>,
    job: &'w Job,
}

impl Run<'_> {
    /// The condition of its end.
    fn end(&self) -> Option<&'static str> {
        let conditions = &self.job.status.conditions;
        let mut ends = ["Complete", "Failed"].into_iter();
        ends.find(|end| conditions::is_true(conditions, end))
    }

    /// When it was due, if it says.
    fn scheduled(&self) -> Option<i64> {
        let text = self.job.metadata.annotations.get(SCHEDULED)?;
        unix_nanos(text)
    }
}

/// One look at a CronJob.
struct Turn<'w> {
    stored: &'w Arc<Stored>,
    cron_job: &'w CronJob,
    now: i64,
    /// Its runs, by name.
    runs: Vec<Run<'w>>,
}

impl<'w> Turn<'w> {
    fn of(stored: &'w Arc<Stored>, cron_job: &'w CronJob, world: &'w World, now: i64) -> Self {
        let runs = owned::<Job>(world, stored);
        let runs = runs.filter_map(|stored| {
            Some(Run {
                stored,
                job: stored.get()?,
            })
        });
        Self {
            stored,
            cron_job,
            now,
            runs: runs.collect(),
        }
    }

    fn event(&self, is_warning: bool, reason: &'static str, message: String) -> Write {
        let event = Event::normal(self.stored, reason, message);
        Write::Event(Event {
            is_warning,
            ..event
        })
    }

    fn delete(run: &Run<'_>) -> Write {
        Write::Delete(Delete {
            key: run.stored.key(),
            uid: Some(run.job.metadata.uid.clone()),
            resource_version: None,
            grace_seconds: None,
            propagation: Some(Propagation::Background),
        })
    }

    /// Deletes runs that have ended beyond the limits of history, the oldest first.
    fn clean_up(&self, plan: &mut Plan) {
        let spec = &self.cron_job.spec;
        let limits = [
            ("Complete", spec.successful_jobs_history_limit),
            ("Failed", spec.failed_jobs_history_limit),
        ];
        for (end, limit) in limits {
            let Some(limit) = limit.and_then(|it| usize::try_from(it).ok()) else {
                continue;
            };
            let ended = self.runs.iter().filter(|run| {
                run.end() == Some(end) && run.job.metadata.deletion_timestamp.is_none()
            });
            let mut ended: Vec<&Run<'_>> = ended.collect();
            // Those that never started come last.
            ended.sort_by_key(|run| {
                let start = &run.job.status.start_time;
                (start.is_none(), start, &run.job.metadata.name)
            });
            let surplus = ended.len().saturating_sub(limit);
            plan.step(ended.into_iter().take(surplus).map(Self::delete));
        }
    }

    /// Keeps the list of active runs, and notes how the last ones went.
    fn follow_runs(&self, plan: &mut Plan) {
        let old = &self.cron_job.status;
        let mut status = old.clone();
        let mut events = Vec::new();
        for run in &self.runs {
            self.follow(run, &mut status, &mut events);
        }
        let is_there = |uid: &str| self.runs.iter().any(|run| run.job.metadata.uid == uid);
        status.active.retain(|reference| {
            let is_kept = is_there(&reference.uid);
            if !is_kept {
                let message = format!("Active job went missing: {}", reference.name);
                events.push(self.event(false, "MissingJob", message));
            }
            is_kept
        });
        plan.step(Write::status(self.stored, old, &status));
        plan.step(events);
    }

    fn follow(&self, run: &Run<'_>, status: &mut CronJobStatus, events: &mut Vec<Write>) {
        let metadata = &run.job.metadata;
        let position = status.active.iter().position(|it| it.uid == metadata.uid);
        if let Some(end) = run.end() {
            if let Some(position) = position {
                status.active.remove(position);
                let name = &metadata.name;
                let message = format!("Saw completed job: {name}, condition: {end}");
                events.push(self.event(false, "SawCompletedJob", message));
            }
            let completion = run
                .job
                .status
                .completion_time
                .as_deref()
                .and_then(unix_nanos);
            let known = status.last_successful_time.as_deref().and_then(unix_nanos);
            if completion > known {
                status.last_successful_time = run.job.status.completion_time.clone();
            }
            return;
        }
        if position.is_some() {
            return;
        }
        let known = status.last_schedule_time.as_deref().and_then(unix_nanos);
        match run
            .scheduled()
            .filter(|time| known.is_none_or(|known| *time > known))
        {
            // One that was made just now.
            Some(time) => {
                status.last_schedule_time = Some(rfc3339(time));
                status.active.push(reference(run));
            }
            None => {
                let name = &metadata.name;
                let message =
                    format!("Saw a job that the controller did not create or forgot: {name}");
                events.push(self.event(true, "UnexpectedJob", message));
            }
        }
    }

    fn start_due_run(&self, plan: &mut Plan) {
        let spec = &self.cron_job.spec;
        let is_going = self.cron_job.metadata.deletion_timestamp.is_some();
        if is_going || spec.suspend == Some(true) {
            return;
        }
        let schedule = match Schedule::parse(&spec.schedule) {
            Ok(schedule) => schedule,
            Err(error) => {
                let message = format!("unparseable schedule: {} : {error}", spec.schedule);
                return plan.step([self.event(true, "UnparseableSchedule", message)]);
            }
        };
        let zone = match &spec.time_zone {
            None => Zone::utc(),
            Some(name) => match Zone::named(name) {
                Some(zone) => zone,
                None => {
                    let message = format!("invalid timeZone: {name:?}: unknown time zone {name}");
                    return plan.step([self.event(true, "UnknownTimeZone", message)]);
                }
            },
        };
        if let Some(next) = schedule.next(self.now, &zone) {
            plan.look_at(next);
        }
        if let Some(due) = self.due(&schedule, &zone, plan) {
            self.start(due, &zone, plan);
        }
    }

    /// When the latest run that has not been made was due.
    fn due(&self, schedule: &Schedule, zone: &Zone, plan: &mut Plan) -> Option<i64> {
        let time = |text: &Option<String>| text.as_deref().and_then(unix_nanos);
        let last = time(&self.cron_job.status.last_schedule_time);
        let since = last.or_else(|| time(&self.cron_job.metadata.creation_timestamp))?;
        let deadline = self.cron_job.spec.starting_deadline_seconds;
        let earliest = deadline.map(|it| self.now.saturating_sub(it.saturating_mul(SECOND)));
        let since = earliest.map_or(since, |it| it.max(since));
        let first = schedule.next(since, zone).filter(|it| *it <= self.now)?;
        let Some(second) = schedule.next(first, zone).filter(|it| *it <= self.now) else {
            return Some(first);
        };
        let interval = (second - first).max(SECOND);
        let missed = (self.now - first) / interval + 1;
        if missed > MISSED_MAX {
            let message = "too many missed start times. Set or decrease \
                .spec.startingDeadlineSeconds or check clock skew";
            plan.step([self.event(true, "TooManyMissedTimes", message.to_owned())]);
        }
        // Schedules are not regular: from well before now on, runs are looked at one by one.
        let near = first.max(self.now.saturating_sub(interval.saturating_mul(2)));
        let from = match schedule.next(near - 1, zone).filter(|it| *it <= self.now) {
            Some(near) => near,
            None => first,
        };
        let later = std::iter::successors(Some(from), |time| schedule.next(*time, zone));
        later.take_while(|time| *time <= self.now).last()
    }

    /// Makes a run, unless it is too late for it or another is in its way.
    fn start(&self, due: i64, zone: &Zone, plan: &mut Plan) {
        let spec = &self.cron_job.spec;
        let name = format!("{}-{}", self.cron_job.metadata.name, due / (60 * SECOND));
        if self.runs.iter().any(|run| run.job.metadata.name == name) {
            return;
        }
        let deadline = spec.starting_deadline_seconds;
        if deadline.is_some_and(|it| due.saturating_add(it.saturating_mul(SECOND)) < self.now) {
            let due = rfc3339(due);
            let message = format!("Missed scheduled time to start a job: {due}");
            return plan.step([self.event(true, "MissSchedule", message)]);
        }
        let mut active = self
            .runs
            .iter()
            .filter(|run| !has_ended(run.job))
            .peekable();
        match spec.concurrency_policy.as_str() {
            "Forbid" if active.peek().is_some() => {
                let message = "Not starting job because prior execution is running and \
                    concurrency policy is Forbid";
                return plan.step([self.event(false, "JobAlreadyActive", message.to_owned())]);
            }
            "Replace" => plan.step(active.map(Self::delete)),
            _ => {}
        }
        plan.step([self.new_run(name, due, zone)]);
    }

    fn new_run(&self, name: String, due: i64, zone: &Zone) -> Write {
        let template = &self.cron_job.spec.job_template;
        let mut annotations = template.metadata.annotations.clone();
        annotations.insert(SCHEDULED.to_owned(), zone.rfc3339(due));
        let job = Job {
            metadata: ObjectMeta {
                name,
                namespace: self.cron_job.metadata.namespace.clone(),
                labels: template.metadata.labels.clone(),
                annotations,
                owner_references: vec![reference_to(self.stored)],
                ..Default::default()
            },
            spec: template.spec.clone(),
            ..Default::default()
        };
        Write::Create(Box::new(Create {
            object: Object::Job(Box::new(job)),
            written: self.stored.raw().map(|source| Written {
                at: "/spec",
                source: source.clone(),
                pointer: "/spec/jobTemplate/spec".into(),
                edits: Vec::new(),
            }),
        }))
    }
}

fn reference(run: &Run<'_>) -> ObjectReference {
    let metadata = &run.job.metadata;
    ObjectReference {
        api_version: ObjectKind::Job.api_version().to_owned(),
        kind: ObjectKind::Job.name().to_owned(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
    }
}

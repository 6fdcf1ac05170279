//! CronJobs: a Job each time the schedule says so.
//!
//! Of several runs that are due at once, only the latest is made. If the last run has not ended,
//! the concurrency policy decides: both run, the new one is left out, or the old one is deleted.
//! Runs that have ended are kept up to a limit.
//!
//! Times are counted in the schedule's zone, or in UTC if it names none.
//! Source: `pkg/controller/cronjob`, Kubernetes 1.36.

use std::collections::HashMap;
use std::sync::Arc;

use outrank_api::cron::{Schedule, Zone};
use outrank_api::decode::{Object, ObjectKind};
use outrank_api::time::{rfc3339, unix_nanos};
use outrank_api::types::{CronJob, CronJobStatus, Job, ObjectMeta, ObjectReference};

use crate::claim::{owned, reference_to};
use crate::conditions;
use crate::controller::{Controller, Plan};
use crate::roster::uid_of_gone;
use crate::world::{Key, Kind, Seen, Stored, World};
use crate::write::{Create, Delete, Event, Outcome, Propagation, Write, Written};

/// When a run was due, in its zone.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

const SECOND: i64 = 1_000_000_000;

/// So many missed runs are a sign that something is wrong.
const MISSED_MAX: i64 = 100;

/// The controller of CronJobs.
#[derive(Clone, Debug, Default)]
pub struct CronJobController {
    /// When somebody last changed the schedule, by uid: runs that the new one would have had before
    /// that are not made up for.
    rescheduled: HashMap<String, i64>,
}

impl CronJobController {
    /// Takes note of a changed schedule.
    fn note(&mut self, seen: &Seen, now: i64) {
        if let Some(uid) = uid_of_gone(seen) {
            self.rescheduled.remove(uid);
        }
        if let [Some(old), Some(new)] = seen.both::<CronJob>()
            && (&old.spec.schedule, &old.spec.time_zone)
                != (&new.spec.schedule, &new.spec.time_zone)
        {
            self.rescheduled.insert(new.metadata.uid.clone(), now);
        }
    }
}

impl Controller for CronJobController {
    fn name(&self) -> &'static str {
        "cronjob-controller"
    }

    fn concerned(&mut self, seen: &Seen, world: &World, now: i64) -> Vec<Key> {
        match &seen.key.kind {
            Kind::Known(ObjectKind::CronJob) => {
                self.note(seen, now);
                vec![seen.key.clone()]
            }
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
            let rescheduled = self.rescheduled.get(&cron_job.metadata.uid).copied();
            let turn = Turn {
                rescheduled,
                ..Turn::of(stored, cron_job, world, now)
            };
            turn.clean_up(&mut plan);
            let status = turn.follow_runs(&mut plan);
            turn.start_due_run(&status, &mut plan);
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

/// Runs that were due.
struct Missed {
    /// The time from which on runs are looked for.
    since: i64,
    latest: Option<i64>,
    /// How many, about; 0 if it is one at most.
    count: i64,
}

impl Missed {
    /// The time from which on the next run is looked for.
    fn last(&self, now: i64) -> i64 {
        let none = if self.count == 0 { self.since } else { now };
        self.latest.unwrap_or(none)
    }
}

/// One look at a CronJob.
struct Turn<'w> {
    stored: &'w Arc<Stored>,
    cron_job: &'w CronJob,
    now: i64,
    /// When the schedule was changed, if it was.
    rescheduled: Option<i64>,
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
            rescheduled: None,
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

    /// Keeps the list of active runs, and notes how the last ones went. Returns the new status: what
    /// others have made for the CronJob is not in its list.
    fn follow_runs(&self, plan: &mut Plan) -> CronJobStatus {
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
        status
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

    fn start_due_run(&self, status: &CronJobStatus, plan: &mut Plan) {
        let spec = &self.cron_job.spec;
        if self.cron_job.metadata.deletion_timestamp.is_some() {
            return;
        }
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
        if spec.suspend == Some(true) {
            return;
        }
        let schedule = match Schedule::parse(&spec.schedule) {
            Ok(schedule) => schedule,
            Err(error) => {
                let message = format!("unparseable schedule: {:?} : {error}", spec.schedule);
                return plan.step([self.event(true, "UnparseableSchedule", message)]);
            }
        };
        let deadline = spec.starting_deadline_seconds;
        let earliest = deadline.map(|it| self.now.saturating_sub(it.saturating_mul(SECOND)));
        let missed = match self.missed(&schedule, &zone, earliest) {
            Ok(missed) => missed,
            Err(error) => {
                let message = format!("invalid schedule: {} : {error}", spec.schedule);
                return plan.step([self.event(true, "InvalidSchedule", message)]);
            }
        };
        // What is too late for the deadline counts for the next one all the same.
        let ever = self.missed(&schedule, &zone, None);
        let last = ever.map_or(self.now, |it| it.last(self.now));
        if let Some(next) = schedule.next(last, &zone) {
            plan.look_at(next);
        }
        let Some(due) = missed.latest.filter(|due| Some(*due) > self.rescheduled) else {
            return;
        };
        if missed.count > MISSED_MAX {
            let message = "too many missed start times. Set or decrease \
                .spec.startingDeadlineSeconds or check clock skew";
            plan.step([self.event(true, "TooManyMissedTimes", message.to_owned())]);
        }
        self.start(due, &zone, status, plan);
    }

    /// The runs that were due and have not been made, as upstream finds them: it takes the first two
    /// for the rule, and does not look far back for the latest.
    fn missed(
        &self,
        schedule: &Schedule,
        zone: &Zone,
        earliest: Option<i64>,
    ) -> Result<Missed, &'static str> {
        const NEVER: &str = "time difference between two schedules is less than 1 second";
        let time = |text: &Option<String>| text.as_deref().and_then(unix_nanos);
        let last = time(&self.cron_job.status.last_schedule_time);
        let since = last.or_else(|| time(&self.cron_job.metadata.creation_timestamp));
        let since = since.unwrap_or(0).max(earliest.unwrap_or(i64::MIN));
        let mut missed = Missed {
            since,
            latest: None,
            count: 0,
        };
        let first = schedule.next(since, zone).ok_or(NEVER)?;
        if first > self.now {
            return Ok(missed);
        }
        let second = schedule.next(first, zone).ok_or(NEVER)?;
        if second > self.now {
            missed.latest = Some(first);
            return Ok(missed);
        }
        let interval = second.saturating_sub(first).max(SECOND);
        missed.count = self.now.saturating_sub(first) / interval + 1;
        let near = first.saturating_add((missed.count - 2).saturating_mul(interval));
        let later = std::iter::successors(schedule.next(near, zone), |it| schedule.next(*it, zone));
        missed.latest = later.take_while(|time| *time <= self.now).last();
        Ok(missed)
    }

    /// Makes a run, unless it is too late for it or another is in its way.
    fn start(&self, due: i64, zone: &Zone, status: &CronJobStatus, plan: &mut Plan) {
        let spec = &self.cron_job.spec;
        let name = format!("{}-{}", self.cron_job.metadata.name, due / (60 * SECOND));
        if self.runs.iter().any(|run| run.job.metadata.name == name) {
            return;
        }
        let deadline = spec.starting_deadline_seconds;
        if deadline.is_some_and(|it| due.saturating_add(it.saturating_mul(SECOND)) < self.now) {
            let due = rfc1123(due);
            let message = format!("Missed scheduled time to start a job: {due}");
            return plan.step([self.event(true, "MissSchedule", message)]);
        }
        match spec.concurrency_policy.as_str() {
            "Forbid" if !status.active.is_empty() => {
                let message = "Not starting job because prior execution is running and \
                    concurrency policy is Forbid";
                return plan.step([self.event(false, "JobAlreadyActive", message.to_owned())]);
            }
            "Replace" => self.replace(status, plan),
            _ => {}
        }
        plan.step([self.new_run(name, due, zone)]);
    }

    /// Deletes the active runs, and takes them from the list.
    fn replace(&self, status: &CronJobStatus, plan: &mut Plan) {
        let is_active = |run: &&Run<'_>| {
            let mut active = status.active.iter();
            active.any(|it| it.uid == run.job.metadata.uid)
        };
        let mut without = status.clone();
        without.active.clear();
        plan.step(self.runs.iter().filter(is_active).map(Self::delete));
        plan.step(Write::status(self.stored, &self.cron_job.status, &without));
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

/// A time as old protocols write it: `Thu, 01 Jan 2026 00:10:00 +0000`.
fn rfc1123(time: i64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    // 1970 began on a Thursday.
    let days = time.div_euclid(24 * 60 * 60 * SECOND);
    let weekday = WEEKDAYS[usize::try_from(days.rem_euclid(7)).unwrap_or(0)];
    let text = rfc3339(time);
    let parts: Vec<&str> = text.split(['-', 'T', 'Z']).collect();
    let [year, month, day, clock, ..] = parts[..] else {
        return text;
    };
    let month = month.parse::<usize>().ok();
    let month = month.and_then(|it| MONTHS.get(it.checked_sub(1)?));
    let month = month.copied().unwrap_or_default();
    format!("{weekday}, {day} {month} {year} {clock} +0000")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_the_old_way() {
        for (time, text) in [
            ("2026-01-01T00:10:00Z", "Thu, 01 Jan 2026 00:10:00 +0000"),
            ("2024-02-29T23:59:59Z", "Thu, 29 Feb 2024 23:59:59 +0000"),
            ("1969-12-31T12:00:00Z", "Wed, 31 Dec 1969 12:00:00 +0000"),
        ] {
            assert_eq!(unix_nanos(time).map(rfc1123).as_deref(), Some(text));
        }
    }
}

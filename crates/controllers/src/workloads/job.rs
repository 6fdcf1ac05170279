//! Jobs and CronJobs: pods that end.

use std::collections::BTreeSet;

use outrank_api::types::{CronJob, Job, ObjectMeta, Pod, PodTemplateSpec};

use super::deletion_order::sort_for_job;
use crate::pod_state::is_active;

use super::existing::ExistingPods;
use super::pods::{NewPod, Owner, PodMaker};
use super::{TooManyPods, Workload};
use crate::generated_names::{GENERATED_BASE_BYTES_MAX, shortened};

/// Annotation and label with the number of a pod of an indexed Job.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Labels that the API server adds to the template of a Job: its name and its uid, each
/// under the name of today and the one of old.
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

/// Source: `pkg/controller/job/job_controller.go`, `manageJob`, Kubernetes 1.36.
pub(super) fn reconcile(
    job: &Job,
    existing: &ExistingPods<'_>,
    maker: &mut PodMaker,
) -> Result<(), TooManyPods> {
    let owner = Owner::of(&Workload::Job(job));
    let pods = existing.owned_by(&owner);
    let mut active: Vec<&Pod> = pods.iter().copied().filter(|pod| is_active(pod)).collect();
    let plan = Plan::of(job);
    let succeeded = pods
        .iter()
        .copied()
        .filter(|pod| pod.status.phase == "Succeeded");
    let progress = Progress::of(job, succeeded);
    let wanted = if is_held(job) {
        0
    } else {
        plan.wanted(&progress, active.len() as u64)
    };

    let mut going = Vec::new();
    if plan.is_indexed {
        (going, active) = split_repeated(active, plan.completions.unwrap_or(0));
    }
    let (there, wanted_there) = (active.len(), usize::try_from(wanted).unwrap_or(usize::MAX));
    if there > wanted_there {
        sort_for_job(&mut active);
        going.extend(active.drain(..there - wanted_there));
    }
    going.iter().for_each(|pod| maker.delete(pod));

    let missing = wanted.saturating_sub(active.len() as u64);
    maker.reserve(missing)?;
    let template = labelled(job, &owner);
    if plan.is_indexed {
        let indices = progress.next_indices(&active, plan.completions.unwrap_or(0), missing);
        for index in indices {
            let prefix = prefix_with_index(&job.metadata.name, index);
            let mut pod = NewPod::of(&owner, &template);
            pod.label(INDEX, index.to_string());
            pod.annotations.insert(INDEX.to_owned(), index.to_string());
            maker.create_with_suffix(pod, &prefix, &mut 0);
        }
        return Ok(());
    }
    let prefix = format!("{}-", job.metadata.name);
    let mut tried = 0;
    for _ in 0..missing {
        maker.create_with_suffix(NewPod::of(&owner, &template), &prefix, &mut tried);
    }
    Ok(())
}

/// The pods of the Job that the CronJob makes next. Its name ends with `next`, where the
/// controller would write the minute it is due.
pub(super) fn reconcile_next_run(
    cron_job: &CronJob,
    existing: &ExistingPods<'_>,
    maker: &mut PodMaker,
) -> Result<(), TooManyPods> {
    if cron_job.spec.suspend == Some(true) {
        return Ok(());
    }
    let template = &cron_job.spec.job_template;
    let job = Job {
        metadata: ObjectMeta {
            name: format!("{}-next", cron_job.metadata.name),
            namespace: cron_job.metadata.namespace.clone(),
            labels: template.metadata.labels.clone(),
            annotations: template.metadata.annotations.clone(),
            ..Default::default()
        },
        spec: template.spec.clone(),
        ..Default::default()
    };
    reconcile(&job, existing, maker)
}

/// Whether a Job has no pods to run: it waits to be resumed, or has ended or is about to,
/// well or not.
fn is_held(job: &Job) -> bool {
    const ENDS: [&str; 4] = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"];
    let mut conditions = job.status.conditions.iter();
    let has_ended = conditions.any(|it| it.status == "True" && ENDS.contains(&it.type_.as_str()));
    job.spec.suspend == Some(true) || job.status.completion_time.is_some() || has_ended
}

/// What a Job asks for, with the API server's defaults.
struct Plan {
    parallelism: u64,
    /// Absent: the first success ends the job.
    completions: Option<u64>,
    is_indexed: bool,
}

impl Plan {
    fn of(job: &Job) -> Self {
        let spec = &job.spec;
        let number = |value: i32| u64::try_from(value).unwrap_or(0);
        let completions = match (spec.completions, spec.parallelism) {
            (None, None) => Some(1),
            (completions, _) => completions.map(number),
        };
        Self {
            parallelism: spec.parallelism.map_or(1, number),
            completions,
            is_indexed: completions.is_some() && spec.completion_mode.as_deref() == Some("Indexed"),
        }
    }

    /// How many pods should be active.
    fn wanted(&self, progress: &Progress, active: u64) -> u64 {
        match self.completions {
            Some(completions) => self
                .parallelism
                .min(completions.saturating_sub(progress.succeeded)),
            // After the first success the others run to their end.
            None if progress.succeeded > 0 => active,
            None => self.parallelism,
        }
    }
}

/// How far a Job is.
struct Progress {
    succeeded: u64,
    /// Numbers that are done, first and last of each run: those of succeeded pods that still
    /// exist, and those that the status names.
    done: Vec<(u64, u64)>,
    /// How many more are done, of which it is not known which.
    unknown: u64,
}

impl Progress {
    fn of<'a>(job: &Job, succeeded: impl Iterator<Item = &'a Pod> + Clone) -> Self {
        let pods = succeeded.clone().count() as u64;
        let recorded = u64::try_from(job.status.succeeded).unwrap_or(0);
        let recorded = recorded.max(pods);
        let indices: BTreeSet<u64> = succeeded.filter_map(index_of).collect();
        let named = completed_indexes(&job.status.completed_indexes);
        Self {
            succeeded: recorded,
            unknown: match named.is_empty() {
                true => recorded.saturating_sub(indices.len() as u64),
                false => 0,
            },
            done: indices
                .into_iter()
                .map(|it| (it, it))
                .chain(named)
                .collect(),
        }
    }

    /// The lowest `count` numbers below `completions` that are neither done nor active.
    ///
    /// If the status counts more successes than there are succeeded pods, their pods have
    /// been cleaned up; the lowest numbers are taken for done, as jobs start with them.
    fn next_indices(&self, active: &[&Pod], completions: u64, count: u64) -> Vec<u64> {
        let mut cleaned_up = self.unknown;
        let active = active.iter().copied().filter_map(index_of);
        let mut used: Vec<(u64, u64)> = self.done.clone();
        used.extend(active.map(|index| (index, index)));
        used.sort_unstable();
        let mut next = Vec::new();
        let mut candidate = 0;
        let used = used.into_iter().filter(|(first, _)| *first < completions);
        for (first, last) in used.chain([(completions, completions)]) {
            let done = cleaned_up.min(first.saturating_sub(candidate));
            cleaned_up -= done;
            let room = count - next.len() as u64;
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            next.extend((candidate + done..first).take(room));
            candidate = candidate.max(last.saturating_add(1));
        }
        next
    }
}

fn index_of(pod: &Pod) -> Option<u64> {
    pod.metadata.annotations.get(INDEX)?.parse().ok()
}

/// Parts off the pods that an indexed Job must not have: those without a number or with
/// one beyond the last, and of those with the same number all but the one that would be
/// deleted last.
fn split_repeated(mut pods: Vec<&Pod>, completions: u64) -> (Vec<&Pod>, Vec<&Pod>) {
    sort_for_job(&mut pods);
    let mut seen = BTreeSet::new();
    let (mut staying, mut going) = (Vec::new(), Vec::new());
    for pod in pods.into_iter().rev() {
        match index_of(pod).filter(|index| *index < completions) {
            Some(index) if seen.insert(index) => staying.push(pod),
            _ => going.push(pod),
        }
    }
    going.reverse();
    (going, staying)
}

/// The template with the labels that every Job's pods have.
fn labelled(job: &Job, owner: &Owner<'_>) -> PodTemplateSpec {
    let mut template = job.spec.template.clone();
    let labels = &mut template.metadata.labels;
    for label in NAME_LABELS {
        labels
            .entry(label.to_owned())
            .or_insert_with(|| job.metadata.name.clone());
    }
    for label in UID_LABELS {
        labels
            .entry(label.to_owned())
            .or_insert_with(|| owner.uid.clone());
    }
    template
}

/// `job-7-`; of a long name the job's part is cut, so that the number stays.
pub(crate) fn prefix_with_index(job_name: &str, index: u64) -> String {
    let end = format!("-{index}-");
    let room = GENERATED_BASE_BYTES_MAX.saturating_sub(end.len());
    format!("{}{end}", shortened(job_name, room))
}

/// The numbers in a list such as `0,2-4`, first and last of each run; what cannot be read is
/// left out.
fn completed_indexes(text: &str) -> Vec<(u64, u64)> {
    let runs = text.split(',').filter_map(|run| {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    });
    runs.collect()
}

//! `outrank rehearse`: who lands where, who waits and why.

mod text;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use outrank_api::decode::{
    Ignored, KeepRaw, LoadOptions, Loaded, LoadedObject, ObjectKey, load_with,
};
use outrank_api::schema;
use outrank_api::time::span_nanos;
use outrank_engine::EngineConfig;
use outrank_engine::extensions::Extensions;
use outrank_extender::HttpExtender;
use outrank_rehearse::input::{self, Input};
use outrank_rehearse::replay::ReplayReport;
use outrank_rehearse::report::Report;
use outrank_rehearse::scenario::{NodeTaint, ObjectName, Scale};
use outrank_rehearse::simulation::{self, Entry, Simulation};
use outrank_rehearse::trace::{Trace, TraceColumns, TraceOptions, read_trace};
use outrank_rehearse::{Changes, RunOptions, Scenario, replay, run, unmatched};

use crate::admission::AdmissionArguments;
use crate::config::{self, PolicyCompat};
use crate::{print_structured, progress, refuse, tell, write_out};

/// Exit code when a condition of `--fail-on` holds.
const FAILED_ON: u8 = 3;

/// Say who lands where, who waits and why, before it happens
///
/// Reads a cluster and the workloads on it from manifests, `kubectl get ... -o yaml` dumps
/// or a trace, and schedules every pod as kube-scheduler 1.36 would, or by the plugins of 1.20
/// if --config is a legacy Policy. Nothing is changed anywhere.
///
/// Workloads (Deployments, Jobs, ...) become pods as their controllers would make them.
/// Pods that already run, or name their node, count as placed. Ties between nodes are
/// broken by name, or by --seed.
///
/// Changes are made before: first --apply, then --delete, --scale, --cordon, --taint and --drain,
/// each in the order given. Controllers replace the pods that go, as far as they would.
///
/// Extenders of the configuration are really called, over HTTP: to filter, to prioritize and to
/// say who would be preempted, never to bind. A pod whose extender cannot be reached ends as an
/// error, unless the extender is ignorable.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  # A cluster in a file, with its workloads
  outrank rehearse -f cluster.yaml

  # A live cluster, and what a change would do to it
  kubectl get nodes,pods,deployments,replicasets,replicationcontrollers,statefulsets,\\
daemonsets,controllerrevisions,jobs,cronjobs,priorityclasses,namespaces,services,\\
persistentvolumeclaims,persistentvolumes,storageclasses,csinodes,csidrivers,\\
csistoragecapacities,volumeattachments,poddisruptionbudgets,resourcequotas,limitranges,\\
runtimeclasses -A -o yaml | outrank rehearse -f - --apply new.yaml

  # What becomes of it when nodes go away, or workloads grow
  outrank rehearse -f cluster.yaml --drain node-1 --delete node/node-2
  outrank rehearse -f cluster.yaml --scale deployment/web=20 --scale shop/sts/db=5
  outrank rehearse -f cluster.yaml --cordon node-1 --taint node-2=gpu=a100:NoSchedule

  # Why a pod waits, node by node, and who would have to go for it
  outrank rehearse -f cluster.yaml --explain shop/web-0

  # Every pod and where it goes, as JSON
  outrank rehearse -f cluster/ -o json

  # A trace: all tasks at once, or as they came and went
  outrank rehearse --trace nodes.csv pods.csv
  outrank rehearse --trace nodes.csv pods.csv --replay

  # What happens when: a node without power, and a drain that waits for budgets
  outrank rehearse -f cluster.yaml --stop node-1 --for 10m
  outrank rehearse -f cluster.yaml --drain node-2 --for 30m

  # Who would be killed if preemption were switched on
  outrank rehearse -f dump.yaml --preemption on

  # In a pipeline: fail if the change would have anybody killed, or wait
  outrank rehearse -f cluster.yaml --apply new.yaml --fail-on victims,pending

Exit codes:
  0  rehearsed
  1  the input is wrong; nothing was scheduled
  2  the command line is wrong
  3  a condition of --fail-on holds")]
pub(crate) struct Rehearse {
    /// Files or directories with the cluster: YAML or JSON, also gzipped; - is standard input.
    #[arg(short, long = "filename", value_name = "FILE|DIR|-")]
    filename: Vec<String>,

    /// Files or directories with a change on top, made as kubectl apply makes it: objects are
    /// added, or merged into those of the same name. Also their status counts.
    #[arg(long, value_name = "FILE|DIR|-")]
    apply: Vec<String>,

    #[command(flatten)]
    changes: ChangeArguments,

    /// Let so much time pass after the change, such as 90s, 10m or 2h, and tell what happens
    /// when: rollouts step by step, pods that take their grace to end, taints and lost nodes that
    /// evict when their time has come.
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    #[arg(conflicts_with_all = ["trace", "explain", "fail_on", "loop_limit"])]
    time: Option<i64>,

    /// With --for: cut the power of a node. It is noticed when nothing was heard of it for 50 s.
    #[arg(long, value_name = "NODE", requires = "time")]
    stop: Vec<String>,

    /// A trace instead of files: one CSV file of machines and one of tasks.
    #[arg(long, num_args = 2, value_names = ["NODES.csv", "PODS.csv"])]
    #[arg(conflicts_with_all = ["filename", "apply", "delete", "scale", "cordon", "taint", "drain"])]
    trace: Vec<PathBuf>,

    /// Columns of the trace that are called otherwise, as KEY=COLUMN,...; keys are
    /// nodes.name, nodes.cpu_milli, pods.num_gpu and so on.
    #[arg(long, value_name = "KEY=COLUMN,...")]
    trace_columns: Option<TraceColumns>,

    /// Let the tasks of the trace come and go as they did, under a virtual clock.
    #[arg(long)]
    replay: bool,

    /// Have the tasks of the trace come closer together, or further apart, until all of their
    /// work is so many percent of what the GPUs, or the CPUs if there are none, give in that time.
    #[arg(long, value_name = "PERCENT", requires = "replay")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    load: Option<u32>,

    /// A KubeSchedulerConfiguration file, or a legacy Policy; its extenders are called.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The file of --config is a legacy Policy, read and carried out exactly as this
    /// release of kube-scheduler does.
    #[arg(long, value_enum, value_name = "RELEASE", requires = "config")]
    policy_compat: Option<PolicyCompat>,

    /// Have pods of lower priority killed for others (on), or never (off), whatever the
    /// configuration says. If there is no other change, who is killed is told compared with the
    /// opposite.
    #[arg(long, value_enum, value_name = "on|off")]
    preemption: Option<Preemption>,

    /// How often a pod may be killed and made again before that is told as a loop.
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    loop_limit: usize,

    /// Shuffle nodes of equal score by this seed instead of taking the smallest name.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Tell what every node says to a pod in the end: its score, or why it refuses, and who would
    /// have to be killed there. May be given several times.
    #[arg(long, value_name = "[NAMESPACE/]POD")]
    explain: Vec<String>,

    /// Show only pods of this namespace; totals and nodes are still those of all.
    #[arg(short, long)]
    namespace: Option<String>,

    /// Output format.
    #[arg(short, long, value_enum)]
    output: Option<Output>,

    /// Exit with code 3 if this is the case in any namespace; several are separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CONDITION")]
    fail_on: Vec<FailOn>,

    #[command(flatten)]
    admission: AdmissionArguments,
}

/// Changes other than by files, in the order in which they are made.
#[derive(Args)]
struct ChangeArguments {
    /// Delete an object with all that belongs to it, as kubectl delete does: deployment/web is in
    /// the namespace default, shop/deployment/web in shop. A node takes its pods along.
    #[arg(long, value_name = "KIND/NAME")]
    delete: Vec<ObjectName>,

    /// Give a Deployment, ReplicaSet, StatefulSet or ReplicationController N replicas, as kubectl
    /// scale does, or a Job N pods at once.
    #[arg(long, value_name = "KIND/NAME=N")]
    scale: Vec<Scale>,

    /// Let a node take no new pods, as kubectl cordon does.
    #[arg(long, value_name = "NODE")]
    cordon: Vec<String>,

    /// Taint a node as kubectl taint does: NODE=KEY=VALUE:EFFECT, or without a value; NODE=KEY-
    /// takes a taint away. NoExecute evicts pods that do not tolerate it, or only for some
    /// tolerationSeconds.
    #[arg(long, value_name = "NODE=KEY:EFFECT")]
    taint: Vec<NodeTaint>,

    /// Cordon a node and evict its pods, as kubectl drain --ignore-daemonsets
    /// --delete-emptydir-data --force does; not waiting for PodDisruptionBudgets, but warning
    /// of them.
    #[arg(long, value_name = "NODE")]
    drain: Vec<String>,
}

impl ChangeArguments {
    /// The changes, with objects that are applied before.
    fn on_top_of(&self, apply: Vec<LoadedObject>) -> Changes {
        Changes {
            apply,
            delete: self.delete.clone(),
            scale: self.scale.clone(),
            cordon: self.cordon.clone(),
            taint: self.taint.clone(),
            drain: self.drain.clone(),
        }
    }
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
enum Output {
    /// Every pod in a line.
    Wide,
    /// All there is, as JSON.
    Json,
    /// All there is, as YAML.
    Yaml,
    /// Pods and their nodes only, for scripts; a pod that waits has the node "-".
    Name,
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
enum Preemption {
    /// Pods of lower priority are killed for others.
    On,
    /// Nobody is killed.
    Off,
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
enum FailOn {
    /// A pod waits.
    Pending,
    /// A pod is killed; if there is a change, one that would not be killed without it.
    Victims,
    /// One of these is killed though a PodDisruptionBudget does not allow it.
    Pdb,
    /// A pod is killed and made again more often than --loop-limit.
    Loop,
    /// Admission refuses a pod, or the kubelet would.
    Refused,
    /// The input has warnings.
    Warnings,
}

pub(crate) fn main(arguments: &Rehearse) -> Result<ExitCode> {
    check_arguments(arguments);
    let (options, mut config_warnings) = read_options(arguments)?;
    let admission = arguments.admission.read(&mut config_warnings)?;
    if let [nodes, pods] = arguments.trace.as_slice() {
        let columns = arguments.trace_columns.clone().unwrap_or_default();
        let trace_options = TraceOptions {
            columns,
            ..TraceOptions::default()
        };
        let mut trace = read_trace(nodes, pods, &trace_options)?;
        if let Some(percent) = arguments.load {
            trace.scale_load(percent);
        }
        return rehearse_trace(arguments, &options, trace, config_warnings);
    }
    let cluster = read_inputs(&arguments.filename)?;
    let applied = read_inputs(&arguments.apply)?;
    // What a change does not mention is as telling as what it does, so the objects that it
    // is about are kept as they were written.
    let changed = keys(&load(&applied, LoadOptions::default()).objects);
    let keep_raw = match arguments.time {
        Some(_) => KeepRaw::All,
        None => KeepRaw::Of(&changed),
    };
    let cluster = tell_findings(load(
        &cluster,
        LoadOptions {
            keep_raw,
            partial: None,
        },
    ));
    let known = keys(&cluster.objects);
    let applied = tell_findings(load(
        &applied,
        LoadOptions {
            keep_raw: KeepRaw::All,
            partial: Some(&known),
        },
    ));
    if applied.is_empty && !arguments.apply.is_empty() {
        bail!("{}: no objects to apply", arguments.apply.join(", "));
    }
    let errors = cluster.errors + applied.errors;
    if errors > 0 {
        bail!(
            "{} in the input; nothing was scheduled",
            count(errors, "error")
        );
    }
    if cluster.objects.is_empty() {
        bail!(
            "{}: there are no Kubernetes objects in it",
            arguments.filename.join(", ")
        );
    }
    let changes = arguments.changes.on_top_of(applied.objects);
    if let Some(nanos) = arguments.time {
        let options = with_and_without(arguments, &options, true).0;
        tell_warnings(&simulation::doubts(&cluster.objects));
        let mut simulation = Simulation::of(cluster.objects, &options, &admission);
        let simulation = simulation
            .as_mut()
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        return simulate(arguments, simulation, &changes, nanos);
    }
    // Compared with this, the report says what the change causes.
    let without = match changes.is_empty() {
        false => Some(Scenario::with_admission(
            cluster.objects.clone(),
            Changes::default(),
            &admission,
        )),
        true => None,
    };
    let without = without.transpose().map_err(anyhow::Error::msg)?;
    let scenario = Scenario::with_admission(cluster.objects, changes, &admission);
    let scenario = scenario.map_err(anyhow::Error::msg)?;
    let mut warnings = cluster.warnings + applied.warnings + config_warnings;
    warnings += tell_warnings(&scenario.warnings);
    warnings += tell_warnings(&unmatched::warnings(&options.engine.profiles, &scenario));
    let report = compare(arguments, &options, &scenario, without.as_ref())?;
    finish(arguments, report, warnings)
}

/// Makes the changes in a cluster in which time passes, and tells what happens.
fn simulate(
    arguments: &Rehearse,
    simulation: &mut Simulation,
    changes: &Changes,
    nanos: i64,
) -> Result<ExitCode> {
    let start = simulation.cluster().now();
    if !changes.is_empty() || !arguments.stop.is_empty() {
        simulation.begin_change();
    }
    simulation.change(changes).map_err(anyhow::Error::msg)?;
    simulation
        .stop_nodes(&arguments.stop)
        .map_err(anyhow::Error::msg)?;
    simulation.run_until(start.saturating_add(nanos));
    let mut report = simulation.report();
    if let Some(namespace) = &arguments.namespace {
        let prefix = format!("{namespace}/");
        report.waiting.retain(|it| it.pod.starts_with(&prefix));
        let is_kept = |entry: &Entry| {
            let name = entry.object.split_once(' ').map_or("", |(_, name)| name);
            !name.contains('/') || name.starts_with(&prefix)
        };
        report.timeline.retain(is_kept);
    }
    match arguments.output {
        Some(output @ (Output::Json | Output::Yaml)) => {
            print_structured(&report, output == Output::Yaml)?;
        }
        Some(Output::Wide) => write_out(&text::simulation(&report, true))?,
        _ => write_out(&text::simulation(&report, false))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a span of time.
fn span(text: &str) -> Result<i64, String> {
    let span = span_nanos(text).filter(|nanos| *nanos > 0);
    span.ok_or_else(|| format!("{text:?} is not a span of time such as 90s, 10m or 1h30m"))
}

/// Rehearses with and without the change, if there is one, and says what differs in who is
/// killed. `without` is the cluster without changes of objects.
fn compare(
    arguments: &Rehearse,
    options: &RunOptions,
    scenario: &Scenario,
    without: Option<&Scenario>,
) -> Result<Report> {
    let (with_change, without_change) = with_and_without(arguments, options, without.is_some());
    let mut report = run_scenario(scenario, &with_change)?;
    let is_change = without.is_some() || changes_decisions(arguments);
    if is_change && !report.victims.is_empty() {
        let before = run_scenario(without.unwrap_or(scenario), &without_change)?;
        report.compare(&before);
    }
    Ok(report)
}

/// Whether options say how pods are decided, which is a change that can be rehearsed.
fn changes_decisions(arguments: &Rehearse) -> bool {
    arguments.preemption.is_some() || arguments.config.is_some()
}

/// How pods are decided with the change and without it. A configuration is a change of its own
/// only if there is no other.
fn with_and_without(
    arguments: &Rehearse,
    options: &RunOptions,
    has_other_change: bool,
) -> (RunOptions, RunOptions) {
    let mut with_change = options.clone();
    let mut without_change = options.clone();
    without_change.explain.clear();
    if let Some(preemption) = arguments.preemption {
        let is_on = preemption == Preemption::On;
        with_change.engine.switch_preemption(is_on);
        // With another change it is the same on both sides.
        let is_on_without = is_on == has_other_change;
        without_change.engine.switch_preemption(is_on_without);
    } else if !has_other_change && arguments.config.is_some() {
        let defaults = EngineConfig {
            tie_seed: options.engine.tie_seed,
            ..EngineConfig::default()
        };
        without_change.engine = defaults;
        without_change.extensions = Extensions::default();
    }
    (with_change, without_change)
}

/// Leaves with exit code 2 if options do not go together.
fn check_arguments(arguments: &Rehearse) {
    let refuse = |message: &str| refuse("rehearse", message);
    let has_trace = !arguments.trace.is_empty();
    if arguments.filename.is_empty() && !has_trace {
        refuse("nothing to rehearse: give the cluster with -f FILE, or a trace with --trace");
    }
    let config = arguments.config.iter().map(|path| path.as_os_str());
    let others = arguments.filename.iter().chain(&arguments.apply);
    let names = others.map(std::ffi::OsStr::new).chain(config);
    if names.filter(|name| *name == input::STDIN).count() > 1 {
        refuse("standard input (-) can be read only once");
    }
    if arguments.time.is_some() && matches!(arguments.output, Some(Output::Name)) {
        refuse("--for can print -o wide, -o json and -o yaml only");
    }
    if arguments.replay && !has_trace {
        refuse("--replay is for --trace only");
    }
    if arguments.trace_columns.is_some() && !has_trace {
        refuse("--trace-columns is for --trace only");
    }
    if arguments.replay {
        if matches!(arguments.output, Some(Output::Wide | Output::Name)) {
            refuse("--replay can print -o json and -o yaml only");
        }
        if arguments.namespace.is_some() {
            refuse("--replay has no -n");
        }
        if !arguments.explain.is_empty() {
            refuse("--replay has no --explain: nothing stays as it is");
        }
        let has = [FailOn::Pending, FailOn::Victims];
        if arguments.fail_on.iter().any(|it| !has.contains(it)) {
            refuse("--replay has --fail-on pending and --fail-on victims only");
        }
    }
}

/// How the rehearsal runs, as `--config` and `--seed` say, and how many warnings there were.
fn read_options(arguments: &Rehearse) -> Result<(RunOptions, usize)> {
    let mut options = RunOptions::default();
    let mut warnings = 0;
    if let Some(path) = &arguments.config {
        let config = config::read_any(path, arguments.policy_compat)?;
        options.engine = config.engine;
        warnings = config.warnings;
        for extender in &config.extenders {
            let extender = HttpExtender::new(extender).map_err(anyhow::Error::msg)?;
            options.extensions.extenders.push(Arc::new(extender));
        }
    }
    options.engine.tie_seed = arguments.seed;
    options.loop_limit = arguments.loop_limit;
    options.explain = arguments.explain.clone();
    Ok((options, warnings))
}

fn rehearse_trace(
    arguments: &Rehearse,
    options: &RunOptions,
    trace: Trace,
    config_warnings: usize,
) -> Result<ExitCode> {
    if !arguments.replay {
        let pods = trace.pods.into_iter().map(|task| task.pod).collect();
        let scenario = Scenario::of_new_pods(trace.nodes, pods, &trace.priority_classes);
        let scenario = scenario.map_err(anyhow::Error::msg)?;
        let unmatched = unmatched::warnings(&options.engine.profiles, &scenario);
        let warnings = config_warnings + tell_warnings(&unmatched);
        let report = compare(arguments, options, &scenario, None)?;
        return finish(arguments, report, warnings);
    }
    let (with_change, without_change) = with_and_without(arguments, options, false);
    let mut report = replay_trace(&trace, &with_change)?;
    if changes_decisions(arguments) {
        report.without_change = Some(Box::new(replay_trace(&trace, &without_change)?));
    }
    match arguments.output {
        Some(output @ (Output::Json | Output::Yaml)) => {
            print_structured(&report, output == Output::Yaml)?;
        }
        _ => write_out(&text::replay(&report))?,
    }
    let failed = arguments.fail_on.iter().any(|condition| match condition {
        FailOn::Pending => report.pending > 0,
        FailOn::Victims => !report.victims.is_empty(),
        _ => false,
    });
    Ok(if failed {
        ExitCode::from(FAILED_ON)
    } else {
        ExitCode::SUCCESS
    })
}

fn replay_trace(trace: &Trace, options: &RunOptions) -> Result<ReplayReport> {
    let bar = progress::bar("replaying");
    let report = replay(trace, options, &mut |done, total| {
        progress::advance(&bar, done, total)
    });
    bar.finish_and_clear();
    report.map_err(anyhow::Error::msg)
}

fn run_scenario(scenario: &Scenario, options: &RunOptions) -> Result<Report> {
    let bar = progress::bar("scheduling");
    let mut advance = |done, total| progress::advance(&bar, done, total);
    let report = run(scenario, options, &mut advance);
    bar.finish_and_clear();
    report.map_err(anyhow::Error::msg)
}

/// Tells warnings, and how many there were.
fn tell_warnings(warnings: &[String]) -> usize {
    for warning in warnings {
        tell(&format!("warning: {warning}"));
    }
    warnings.len()
}

/// What was read, and how many findings were told.
struct Objects {
    objects: Vec<LoadedObject>,
    /// Whether there was nothing at all, not even objects of kinds that are not read.
    is_empty: bool,
    warnings: usize,
    errors: usize,
}

fn read_inputs(names: &[String]) -> Result<Vec<Input>> {
    let paths = names.iter().map(Path::new);
    Ok(input::read_inputs(paths, &mut std::io::stdin().lock())?)
}

fn load(inputs: &[Input], options: LoadOptions<'_>) -> Loaded {
    let inputs = inputs.iter();
    load_with(options, inputs.map(|it| (&*it.name, &*it.bytes)))
}

fn keys(objects: &[LoadedObject]) -> HashSet<ObjectKey> {
    objects.iter().map(|loaded| loaded.object.key()).collect()
}

/// Tells on standard error what there is to say about what was read.
fn tell_findings(loaded: Loaded) -> Objects {
    let Loaded {
        objects,
        ignored,
        warnings,
        errors,
    } = loaded;
    for warning in &warnings {
        tell(&warning.to_string());
    }
    let mut misspelt = 0;
    for ignored in &ignored {
        let Ignored {
            api_version,
            kind,
            count: number,
            origin,
            ..
        } = ignored;
        match misspelt_kind(ignored) {
            Some(meant) => {
                misspelt += 1;
                tell(&format!(
                    "{origin}: warning: there is no kind {kind:?} in {api_version}, left out; did \
                     you mean {meant}?"
                ));
            }
            None => tell(&format!(
                "{origin}: ignored: {number} {kind} ({api_version})"
            )),
        }
    }
    for error in &errors {
        tell(&error.to_string());
    }
    Objects {
        is_empty: objects.is_empty() && ignored.is_empty() && errors.is_empty(),
        objects,
        warnings: warnings.len() + misspelt,
        errors: errors.len(),
    }
}

/// The kind that was meant, if an ignored one looks misspelt.
fn misspelt_kind(ignored: &Ignored) -> Option<String> {
    let Ignored {
        api_version, kind, ..
    } = ignored;
    if schema::is_known(api_version, kind) {
        return None;
    }
    if let Some(version) = schema::version_of(api_version, kind) {
        return Some(format!("apiVersion {version}"));
    }
    schema::nearest_kind(api_version, kind).map(|kind| format!("{kind:?}"))
}

fn finish(arguments: &Rehearse, mut report: Report, mut warnings: usize) -> Result<ExitCode> {
    if let Some(namespace) = &arguments.namespace {
        let has_pods = report.placed.iter().any(|pod| pod.namespace == *namespace)
            || report.pending.iter().any(|pod| pod.namespace == *namespace);
        if !has_pods {
            warnings += 1;
            tell(&format!(
                "warning: no pod of namespace {namespace:?} was placed or waits"
            ));
        }
    }
    let failed = arguments.fail_on.iter().any(|condition| match condition {
        FailOn::Pending => report.summary.pending() > 0,
        FailOn::Victims => report.summary.victims > 0,
        FailOn::Pdb => report.summary.pdb_violations > 0,
        FailOn::Loop => !report.loops.is_empty(),
        FailOn::Refused => report.summary.refused + report.kubelet_refusals.len() > 0,
        FailOn::Warnings => warnings > 0,
    });
    if let Some(namespace) = &arguments.namespace {
        keep_namespace(&mut report, namespace);
    }
    match arguments.output {
        Some(output @ (Output::Json | Output::Yaml)) => {
            print_structured(&report, output == Output::Yaml)?;
        }
        Some(Output::Name) => write_out(&text::names(&report))?,
        Some(Output::Wide) => write_out(&text::wide(&report))?,
        None => write_out(&text::summary(&report))?,
    }
    Ok(if failed {
        ExitCode::from(FAILED_ON)
    } else {
        ExitCode::SUCCESS
    })
}

/// Leaves out the pods of other namespaces; totals and nodes stay those of all.
fn keep_namespace(report: &mut Report, namespace: &str) {
    let is_kept = |key: &str| key.split('/').next() == Some(namespace);
    report.placed.retain(|pod| pod.namespace == namespace);
    report.pending.retain(|pod| pod.namespace == namespace);
    report.victims.retain(|pod| pod.namespace == namespace);
    report.refused.retain(|refused| is_kept(&refused.pod));
    report.deleted.retain(|pod| is_kept(pod));
    let refusals = &mut report.kubelet_refusals;
    refusals.retain(|refusal| is_kept(&refusal.pod));
    report.other_schedulers.retain(|_, pods| {
        pods.retain(|pod| is_kept(pod));
        !pods.is_empty()
    });
}

/// `1 pod`, `2 pods`.
fn count(number: usize, what: &str) -> String {
    if number == 1 {
        format!("1 {what}")
    } else {
        format!("{number} {what}s")
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;
    use outrank_api::decode::ObjectKind;

    #[test]
    fn the_dump_in_the_help_has_every_kind_that_is_read() {
        let command = super::Rehearse::augment_args(clap::Command::new("rehearse"));
        let help = command.get_after_long_help().expect("examples").to_string();
        // As a shell reads it.
        let help = help.replace("\\\n", "");
        let dump = help
            .lines()
            .find_map(|line| line.trim().strip_prefix("kubectl get "));
        let dump = dump.expect("a dump").split(' ').next();
        let kinds: Vec<&str> = dump.expect("kinds").split(',').collect();
        for kind in ObjectKind::ALL {
            assert!(kinds.contains(&kind.plural()), "{}", kind.plural());
        }
    }
}

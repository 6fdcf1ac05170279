//! A walk: a cluster of its own for a topic, and the steps of the record, one after the other.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use outrank_api::document;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::Api;
use crate::compare::{Likeness, Order, compare, differences};
use crate::record::{self, Answer, Command, Step};
use crate::stand_in::StandIn;
use crate::stream::{self, Stream};

/// A kubectl under test.
#[derive(Clone, Debug)]
pub(crate) struct Kubectl {
    /// Its version, such as `1.36`.
    pub(crate) version: String,
    pub(crate) path: PathBuf,
}

/// What came of a step.
pub(crate) struct Outcome {
    pub(crate) number: u64,
    pub(crate) likeness: Likeness,
    /// What differs, for people.
    pub(crate) told: String,
}

/// How often a question is asked until the answer is what was recorded.
const ATTEMPTS: u32 = 14;
/// The same, if it is known that it will not be.
const ATTEMPTS_WITH_KNOWN: u32 = 6;
/// How a command exits that was stopped after other steps, beside which it went on.
const STOPPED: &str = "stopped";
/// The longest that a command may take.
const COMMAND_SECONDS: &str = "60";
/// The server and the token of the records, which stand in commands of curl.
const RECORDED_SERVER: &str = "https://127.0.0.1:18080";
const RECORDED_TOKEN: &str = "-H 'Authorization: Bearer admin-token'";

/// Goes through a topic. `is_known` says of which steps it is known that they differ.
pub(crate) fn walk(kubectl: &Kubectl, topic: &str, is_known: impl Fn(u64) -> bool) -> Vec<Outcome> {
    let records = kubectl.records();
    let steps = record::read(records, topic);
    let place = Place::new(kubectl, topic, &steps);
    let mut outcomes = Vec::new();
    let watch = steps.iter().find_map(|step| match step {
        Step::Command(command) if command.answer.exit == STOPPED => Some(command.clone()),
        _ => None,
    });
    let mut stream = None;
    for step in steps {
        match step {
            Step::File { name, content } => {
                fs::write(place.folder.path().join(name), content).expect("a writable folder");
            }
            Step::Command(command) if command.answer.exit == STOPPED => {
                let told = stream.take().map(Stream::end).unwrap_or_default();
                outcomes.push(of_stream(topic, &command, &told));
            }
            Step::Command(command) => {
                if let Some(watch) = &watch
                    && stream::begins_before(topic) == Some(command.number)
                {
                    place.stand_in.start_pods();
                    let started = place.command(topic, watch.number, &watch.line);
                    stream = Some(Stream::begin(started, place.folder.path()));
                }
                let attempts = match is_known(command.number) {
                    true => ATTEMPTS_WITH_KNOWN,
                    false => ATTEMPTS,
                };
                outcomes.push(place.take(topic, &command, attempts));
            }
        }
    }
    outcomes
}

/// Compares what a watch has told beside the other steps.
fn of_stream(topic: &str, command: &Command, found: &str) -> Outcome {
    let answer = |text: &str| Answer {
        stdout: stream::stories(text),
        ..Answer::default()
    };
    let (found, recorded) = (answer(found), answer(&command.answer.stdout));
    let command = Command {
        answer: recorded,
        ..command.clone()
    };
    Outcome {
        number: command.number,
        likeness: compare(&found, &command.answer, Order::OfLines),
        told: told(topic, &command, &found),
    }
}

impl Kubectl {
    /// A kubectl and its version; `None` if it is none.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let output = std::process::Command::new(path)
            .args(["version", "--client", "-o", "json"])
            .output();
        let version: Value = serde_json::from_slice(&output.ok()?.stdout).ok()?;
        let number = |field: &str| {
            let text = version["clientVersion"][field].as_str()?;
            Some(text.trim_end_matches('+').to_owned())
        };
        Some(Self {
            version: format!("{}.{}", number("major")?, number("minor")?),
            path: path.to_owned(),
        })
    }

    /// The folder of the records with which it is compared.
    pub(crate) fn records(&self) -> &str {
        match &*self.version {
            "1.36" => "1.36",
            _ => "1.32",
        }
    }
}

/// Where a walk takes place: a cluster, and a folder with what commands find.
struct Place {
    folder: TempDir,
    api: Api,
    // Ends before the cluster does.
    stand_in: StandIn,
    _cluster: Cluster,
}

impl Place {
    fn new(kubectl: &Kubectl, topic: &str, steps: &[Step]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path();
        for name in ["home", "bin", "config"] {
            fs::create_dir(path.join(name)).expect("a folder");
        }
        let name = path.join("bin/kubectl");
        let target = fs::canonicalize(&kubectl.path).expect("kubectl");
        // Some programs look at the name by which they are called, and in their own folder.
        let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", target.display());
        fs::write(&name, script).expect("a script");
        make_executable(&name);
        let cluster = Cluster::start(&path.join("config"), &flags(path, steps));
        let kubeconfig = path.join("config/kubeconfig");
        let api = Api::new(&kubeconfig);
        write_certificates(path, &kubeconfig);
        prepare(&api, kubectl.records(), topic);
        let stand_in = StandIn::new(api.clone());
        Self {
            stand_in,
            api,
            folder,
            _cluster: cluster,
        }
    }

    /// Takes a step until its answer is the recorded one, or it was tried often enough.
    fn take(&self, topic: &str, command: &Command, attempts_max: u32) -> Outcome {
        let line = self.line(&command.line);
        if !is_question(&command.line) && !is_at_once(topic, command.number) {
            // Whoever changes something has seen that what was there before runs.
            std::thread::sleep(Duration::from_millis(100));
            self.stand_in.start_pods();
        }
        self.prepare_step(topic, command);
        let closed = closed(topic, command.number);
        close(&self.api, closed, true);
        let mut attempts = 0;
        let (likeness, found) = loop {
            let run = || self.run(topic, command.number, &line);
            let found = match waits(&command.line) {
                true => self.stand_in.free(run),
                false => run(),
            };
            let likeness = compare_step(topic, command, &found);
            let is_refused = found.exit != "0" && command.answer.exit != found.exit;
            let may_repeat = is_question(&command.line) || is_refused;
            attempts += 1;
            if likeness != Likeness::Different || !may_repeat || attempts >= attempts_max {
                break (likeness, found);
            }
            self.move_on(attempts);
        };
        if !closed.is_empty() {
            wait_until_all_are_bound(&self.api);
            close(&self.api, closed, false);
        }
        Outcome {
            number: command.number,
            likeness,
            told: told(topic, command, &found),
        }
    }

    /// Does what was done before a step and is not in the record.
    fn prepare_step(&self, topic: &str, command: &Command) {
        const EVENTS: &str = "/api/v1/namespaces/default/events";
        match (topic, command.number) {
            ("05-preemption", 7) | ("09-taints", 54) | ("11-drain", 21) => {
                self.stand_in.start_pods();
                self.api.write("DELETE", EVENTS, &json!({}));
            }
            // There were some seconds between the steps, in which a rollout ended.
            ("14-watch-streams", 9) => {
                self.stand_in
                    .free(|| std::thread::sleep(Duration::from_secs(4)));
            }
            ("07-limited-resources", 3) => {
                self.run(topic, command.number, &command.line);
            }
            ("09-taints", 52) => {
                self.run(topic, command.number, &command.line);
                wait_until_all_are_bound(&self.api);
            }
            _ => {}
        }
    }

    /// Has the cluster move on: first what it does by itself, then pods that start, then pods that go.
    fn move_on(&self, attempts: u32) {
        match attempts {
            0..=2 => {}
            _ if attempts % 2 == 1 => {
                self.stand_in.renew_leases();
                self.stand_in.start_pods();
            }
            _ => {
                self.stand_in.remove_pods();
            }
        }
        // The longest wait is for what controllers do every five seconds.
        std::thread::sleep(Duration::from_millis(100 * u64::from(attempts).min(5)));
    }

    /// The command, with what is different here: the server, who asks, and names of pods.
    fn line(&self, recorded: &str) -> String {
        let identity = "--cert config/client.crt --key config/client.key";
        let line = recorded.replace(RECORDED_SERVER, self.api.server());
        let mut line = line.replace(RECORDED_TOKEN, identity);
        let words = recorded.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        for word in words.filter(|word| !word.is_empty()) {
            let marked = crate::compare::normal(word);
            if let Some((prefix, _)) = marked.split_once("<hash>-<rand>")
                && let Some(name) = self.pod(prefix)
            {
                line = line.replace(word, &name);
            }
        }
        line
    }

    /// The first pod whose name begins like this.
    fn pod(&self, prefix: &str) -> Option<String> {
        let pods = self.api.get("/api/v1/pods");
        let pods = pods["items"].as_array()?.iter();
        let mut names = pods.filter_map(|pod| pod["metadata"]["name"].as_str());
        names
            .find(|name| name.starts_with(prefix))
            .map(str::to_owned)
    }

    fn run(&self, topic: &str, number: u64, line: &str) -> Answer {
        let output = self.command(topic, number, line).output();
        let output = output.expect("bash runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code();
        Answer {
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            exit: code.map_or("signal".into(), |it| it.to_string()),
        }
    }

    /// What runs a line, as a user would.
    fn command(&self, topic: &str, number: u64, line: &str) -> std::process::Command {
        let folder = self.folder.path();
        let kubeconfig = match (topic, number) {
            // Recorded as another user, though the command does not say so.
            ("12-imperative", 17) => "config/kubeconfig.dev",
            _ => "config/kubeconfig",
        };
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = std::process::Command::new("timeout");
        command
            .args(["-k", "2", COMMAND_SECONDS, "bash", "-c", line])
            .current_dir(folder)
            .env_clear()
            .env("PATH", format!("{}:{path}", folder.join("bin").display()))
            .env("HOME", folder.join("home"))
            .env("KUBECONFIG", folder.join(kubeconfig))
            .env("KUBE_EDITOR", "sed -i 's/replicas: .*/replicas: 1/'")
            .env("TZ", "UTC")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }
}

/// Compares an answer with the recorded one, as far as it is about this topic.
fn compare_step(topic: &str, command: &Command, found: &Answer) -> Likeness {
    let order = match &*command.line {
        // kubectl prints labels as they come when it lists them.
        line if line.contains("--list") => Order::OfLines,
        // How often a pod is told of depends on how many wrote what of it in the meantime.
        line if line.contains("get pods -w") => Order::OfDistinctLines,
        _ => Order::Strict,
    };
    let about = about(topic, command.number);
    compare(
        &of_topic(found, about),
        &of_topic(&command.answer, about),
        order,
    )
}

/// What lines of the answer are about, if there are others, about what other topics left behind
/// when they were recorded.
fn about(topic: &str, number: u64) -> &'static [&'static str] {
    match (topic, number) {
        ("08-placement", 58) => &["-none ", "/spread-", "/away", "/direct", "/nosched"],
        ("13-short-walk", 6 | 26 | 27) => &["web", "NAME"],
        _ => &[],
    }
}

fn of_topic(answer: &Answer, about: &[&str]) -> Answer {
    let mut answer = answer.clone();
    if !about.is_empty() {
        let is_about = |line: &&str| {
            let is_head = line.starts_with("LAST SEEN") || line.is_empty();
            is_head || about.iter().any(|it| line.contains(it))
        };
        let lines: Vec<&str> = answer.stdout.lines().filter(is_about).collect();
        answer.stdout = lines.join("\n");
    }
    answer
}

/// Whether a step was taken before pods of the step before it could start.
fn is_at_once(topic: &str, number: u64) -> bool {
    matches!(
        (topic, number),
        ("07-limited-resources", 22 | 23) | ("10-apply-patch", 41) | ("13-short-walk", 5)
    )
}

/// Whether a command only asks, so that it may be asked again.
fn is_question(line: &str) -> bool {
    let changes = [
        "apply",
        "create",
        "delete",
        "patch",
        "label",
        "annotate",
        "taint",
        "scale",
        "run",
        "set",
        "undo",
        "replace",
        "edit",
        "drain",
        "cordon",
        "uncordon",
        "expose",
        "autoscale",
        "-X",
    ];
    !line.split_whitespace().any(|word| changes.contains(&word))
}

/// Whether a command waits for pods to start or to go.
fn waits(line: &str) -> bool {
    let has = |wanted: &str| line.split_whitespace().any(|word| word == wanted);
    // Who deletes by force waits for nobody; who replaces so does.
    let deletes = match has("--force") {
        true => has("replace"),
        false => has("delete"),
    };
    (deletes && !line.contains("--wait=false"))
        || has("drain")
        || line.contains("rollout status")
        || has("wait")
        || has("-w")
        || has("--watch-only")
}

fn told(topic: &str, command: &Command, found: &Answer) -> String {
    let Command { number, line, .. } = command;
    let about = about(topic, *number);
    let (found, answer) = (of_topic(found, about), of_topic(&command.answer, about));
    let mut told = format!("{topic} {number}: {line}\n");
    if found.exit != answer.exit {
        told.push_str(&format!(
            "    exit {} instead of {}\n",
            found.exit, answer.exit
        ));
    }
    for (found, recorded, name) in [
        (&found.stdout, &answer.stdout, "stdout"),
        (&found.stderr, &answer.stderr, "stderr"),
    ] {
        let differences = differences(found, recorded);
        if !differences.is_empty() {
            told.push_str(&format!("  {name}\n{differences}"));
        }
    }
    told
}

/// What the server is told on its command line in a topic.
fn flags(folder: &Path, steps: &[Step]) -> Vec<String> {
    let admission = steps.iter().find_map(|step| match step {
        Step::File { name, content } if name == "admission.yaml" => Some(content),
        _ => None,
    });
    admission.map_or_else(Vec::new, |content| {
        let path = folder.join("admission.yaml");
        fs::write(&path, content).expect("a writable folder");
        let flag = "--admission-control-config-file".to_owned();
        vec![flag, path.display().to_string()]
    })
}

/// What curl shows who it is with.
fn write_certificates(folder: &Path, kubeconfig: &Path) {
    use outrank_apiserver::kubeconfig::{Credentials, connection};
    let connection = connection(&[kubeconfig.to_owned()], None).expect("a kubeconfig");
    if let Some(Credentials::Certificate(identity)) = connection.credentials {
        let write = |name: &str, text: &str| fs::write(folder.join(name), text);
        write("config/client.crt", &identity.certificate_pem).expect("a writable folder");
        write("config/client.key", identity.key_pem.reveal()).expect("a writable folder");
    }
}

/// Makes what the topics before this one left behind, when they were recorded.
fn prepare(api: &Api, records: &str, topic: &str) {
    if topic == "01-nodes" {
        return;
    }
    for node in objects(records, "01-nodes", "nodes.yaml") {
        let is_fast = node["metadata"]["labels"]["disktype"] == "ssd";
        make(api, "/api/v1/nodes", &node);
        let labels = json!({"pool": if is_fast { "fast" } else { "main" }});
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("/api/v1/nodes/{name}?fieldManager=kubectl-label");
        api.write("PATCH", &path, &json!({"metadata": {"labels": labels}}));
    }
    if matches!(
        topic,
        "04-deployment" | "05-preemption" | "09-taints" | "11-drain"
    ) {
        wait_until_nodes_are_registered(api);
    }
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let number: u32 = topic[..2].parse().expect("topics are numbered");
    for (from, file) in [(3, "03-priorityclass"), (5, "05-preemption")] {
        let name = if from == 3 {
            "pc.yaml"
        } else {
            "pc-urgent.yaml"
        };
        if number > from {
            for class in objects(records, file, name) {
                make(api, classes, &class);
            }
        }
    }
    if matches!(topic, "11-drain" | "12-imperative") {
        // Where its pods were, of which some are evicted later.
        let closed = if records == "1.36" {
            "node-2"
        } else {
            "node-1"
        };
        let path = "/apis/apps/v1/namespaces/default/deployments";
        wait_for_accounts(api);
        close(api, &[closed], true);
        make(api, path, &left_deployment());
        wait_until_all_are_bound(api);
        close(api, &[closed], false);
    }
    if topic == "14-watch-streams" {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "w1"}});
        make(api, "/api/v1/namespaces", &namespace);
    }
    wait_for_accounts(api);
}

/// The Deployment that the topic about patches leaves behind.
fn left_deployment() -> Value {
    let resources = json!({"requests": {"cpu": "100m", "memory": "64Mi"}});
    let containers =
        json!([{"name": "app", "image": "registry.example/app:1", "resources": resources}]);
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "dup", "labels": {"app": "dup"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "dup"}},
            "template": {"metadata": {"labels": {"app": "dup"}},
                "spec": {"containers": containers}}}})
}

/// Nodes that take no pods during a step. Where several nodes are equally good for pods, any may be
/// taken; so it is seen to that it is the recorded one, if later steps depend on it.
fn closed(topic: &str, number: u64) -> &'static [&'static str] {
    match (topic, number) {
        ("11-drain", 1) => &["node-2"],
        _ => &[],
    }
}

fn close(api: &Api, nodes: &[&str], is_closed: bool) {
    let spec = json!({"unschedulable": if is_closed { Value::Bool(true) } else { Value::Null }});
    for node in nodes {
        let path = format!("/api/v1/nodes/{node}?fieldManager=kubectl-cordon");
        let (status, answer) = api.write("PATCH", &path, &json!({"spec": spec}));
        assert_eq!(status, 200, "{answer}");
    }
}

/// Waits until the nodes have been told of, which takes up to five seconds: the walk begins when
/// that is long over.
fn wait_until_nodes_are_registered(api: &Api) {
    let count = |path: &str| api.get(path)["items"].as_array().map_or(0, Vec::len);
    let told = "/api/v1/events?fieldSelector=reason%3DRegisteredNode";
    let begun = Instant::now();
    while count(told) < count("/api/v1/nodes") {
        assert!(begun.elapsed().as_secs() < 60, "nodes are not registered");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until there are pods, and all of them are on nodes.
fn wait_until_all_are_bound(api: &Api) {
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(100));
        let pods = api.get("/api/v1/pods");
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        if !pods.is_empty() && pods.iter().all(|pod| pod["spec"]["nodeName"].is_string()) {
            return;
        }
    }
}

fn objects(records: &str, topic: &str, name: &str) -> Vec<Value> {
    let text = record::file(records, topic, name);
    let values = document::values(text.as_bytes());
    let values = values.expect("a manifest").into_iter();
    values.filter(|value| !value.is_null()).collect()
}

fn make(api: &Api, path: &str, object: &Value) {
    let path = format!("{path}?fieldManager=kubectl-create");
    let (status, answer) = api.write("POST", &path, object);
    assert_eq!(status, 201, "{path}: {answer}");
}

/// Waits until pods can be made: controllers have made the account that pods use.
fn wait_for_accounts(api: &Api) {
    let path = "/api/v1/namespaces/default/serviceaccounts/default";
    for _ in 0..200 {
        if !api.get(path).is_null() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the controllers made no service account within 10 s");
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("own file");
}

/// A cluster of the program under test; it ends with this.
pub(crate) struct Cluster(Child);

impl Cluster {
    /// Starts a cluster without nodes and kubelets, whose kubeconfig is in a folder.
    pub(crate) fn start(folder: &Path, flags: &[String]) -> Self {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_outrank"))
            .args(["up", "--port", "0", "--nodes", "0", "--without", "kubelets"])
            .args(["--user", "dev", "--kubeconfig"])
            .arg(folder.join("kubeconfig"))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped"));
        let mut told = String::new();
        while !told.contains("listens at") {
            let read = lines.read_line(&mut told);
            assert!(
                read.is_ok_and(|it| it > 0),
                "the cluster did not start: {told}"
            );
        }
        std::thread::spawn(move || {
            // Nobody waits for what else it says, but it must not wait for a reader.
            let mut rest = String::new();
            let _ = lines.read_to_string(&mut rest);
            if rest.contains("panicked") {
                eprintln!("{rest}");
            }
        });
        Self(child)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

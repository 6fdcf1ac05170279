//! A cluster that runs for a test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::api::Api;

/// `outrank up`, until this is dropped.
pub(crate) struct Running {
    process: Child,
    folder: TempDir,
}

impl Running {
    /// Starts the program, and waits until it answers.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        Self {
            process: spawn(folder.path(), arguments),
            folder,
        }
        .ready()
    }

    /// Starts the program with a limit to the size of its files, in KiB or half as much, depending on
    /// the shell. What is beyond is refused, as by a disk that fails.
    pub(crate) fn start_with_file_limit(kib: usize, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let script = format!("trap '' XFSZ; ulimit -f {kib}; exec \"$0\" \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, PROGRAM]);
        Self {
            process: spawn_by(shell, folder.path(), arguments),
            folder,
        }
        .ready()
    }

    /// Starts the program again in the same folder, after it was killed.
    pub(crate) fn start_again(mut self, arguments: &[&str]) -> Self {
        self.check_log();
        let _ = fs::remove_file(self.kubeconfig());
        self.process = spawn(self.folder.path(), arguments);
        self.ready()
    }

    fn ready(self) -> Self {
        let begun = Instant::now();
        loop {
            let is_written = self.kubeconfig().exists();
            if is_written && self.api().send("GET", "/readyz", &[], Vec::new()).is_ok() {
                return self;
            }
            let log = self.log();
            assert!(begun.elapsed().as_secs() < 120, "it does not start: {log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the program at once, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A client that may do everything.
    pub(crate) fn api(&self) -> Api {
        Api::new(&self.kubeconfig())
    }

    /// The memory that the program takes, in MiB.
    pub(crate) fn memory_mib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = fs::read_to_string(path).expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|it| it.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.expect("the system says how much memory is used") / 1024
    }

    /// What the program has written.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn check_log(&self) {
        let log = self.log();
        assert!(!log.contains("panicked"), "{log}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if !std::thread::panicking() {
            self.check_log();
        }
    }
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_outrank");

fn spawn(folder: &Path, arguments: &[&str]) -> Child {
    spawn_by(Command::new(PROGRAM), folder, arguments)
}

fn spawn_by(mut command: Command, folder: &Path, arguments: &[&str]) -> Child {
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .expect("a log");
    command
        .current_dir(folder)
        .args(["up", "--port", "0", "--kubeconfig", "kubeconfig"])
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the program starts")
}

/// A client that does nothing wrong, while others do: it asks and writes all the time, and must be
/// answered.
pub(crate) struct Bystander {
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    thread: JoinHandle<Duration>,
}

impl Bystander {
    pub(crate) fn start(cluster: &Running) -> Self {
        let api = cluster.api();
        let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (stops, counts) = (is_over.clone(), Arc::clone(&answered));
        let thread = std::thread::spawn(move || look_on(&api, &stops, &counts));
        Self {
            is_over,
            answered,
            thread,
        }
    }

    /// Ends it; how often it was answered, and how long it waited at most.
    pub(crate) fn end(self) -> (usize, Duration) {
        self.is_over.store(true, Ordering::SeqCst);
        let longest = self.thread.join().expect("it was answered all the time");
        (self.answered.load(Ordering::SeqCst), longest)
    }
}

fn look_on(api: &Api, is_over: &AtomicBool, answered: &AtomicUsize) -> Duration {
    let maps = "/api/v1/namespaces/kube-public/configmaps";
    let map = serde_json::json!({"metadata": {"name": "bystander"}});
    assert_eq!(api.write("POST", maps, &map).0, 201);
    let mut longest = Duration::ZERO;
    while !is_over.load(Ordering::SeqCst) {
        let begun = Instant::now();
        let count = answered.fetch_add(1, Ordering::SeqCst);
        let data = serde_json::json!({"data": {"count": count.to_string()}});
        let path = format!("{maps}/bystander");
        let (status, answer) = api.write("PATCH", &path, &data);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(api.get(&path)["data"], data["data"]);
        longest = longest.max(begun.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    longest
}

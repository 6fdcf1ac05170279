//! The program is killed at any moment. What it has acknowledged is there when it comes again.
//!
//! Several clients write, each objects of its own, and know of each object what was acknowledged
//! last and what was asked for since. After the kill an object must be as one of the two says:
//! an earlier state means that something acknowledged was lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::cluster::Running;
use crate::random::{Random, seed};

const CLIENTS: u64 = 4;
const NAMES: u64 = 6;

/// How long rounds are added. `OUTRANK_TEST_CRASH_SECONDS` says otherwise.
const SECONDS: u64 = 45;

/// Where objects of each kind are, and what is beside the metadata of a new one.
fn kinds() -> [(&'static str, Value); 3] {
    let pod = json!({"containers": [{"name": "c", "image": "i"}]});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": &pod});
    [
        (
            "/api/v1/namespaces/default/configmaps",
            json!({"data": {"k": "v"}}),
        ),
        ("/api/v1/namespaces/default/pods", json!({ "spec": pod })),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}},
                            "template": template}}),
        ),
    ]
}

/// A state of an object: the number that was written into it, or that it is not there.
type State = Option<u64>;

/// What a client knows of an object.
#[derive(Clone, Debug, Default)]
struct Known {
    acknowledged: State,
    /// Asked for, and not answered.
    asked: Option<State>,
}

#[derive(Clone, Debug, Default)]
struct Client {
    /// By kind and name.
    objects: BTreeMap<(usize, String), Known>,
    /// The newest version that was acknowledged.
    version: u64,
    writes: usize,
}

#[test]
fn what_was_acknowledged_survives() {
    let mut random = Random::new(seed("crash"));
    let said = std::env::var("OUTRANK_TEST_CRASH_SECONDS").ok();
    let seconds = said.and_then(|it| it.parse().ok()).unwrap_or(SECONDS);
    let (begun, mut rounds) = (Instant::now(), 0);
    let mut cluster = Running::start(&["--data", "data", "--nodes", "2"]);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::default()).collect();
    while begun.elapsed() < Duration::from_secs(seconds) {
        let is_over = AtomicBool::new(false);
        let api = cluster.api();
        thread::scope(|scope| {
            for (number, client) in clients.iter_mut().enumerate() {
                let (api, random) = (api.clone(), Random::new(random.next()));
                let is_over = &is_over;
                scope.spawn(move || client.write(&api, number, random, is_over));
            }
            thread::sleep(Duration::from_millis(50 + random.below(700)));
            cluster.kill();
            is_over.store(true, Ordering::SeqCst);
        });
        cluster = cluster.start_again(&["--data", "data"]);
        let api = cluster.api();
        for (number, client) in clients.iter_mut().enumerate() {
            client.compare(&api, number, rounds);
        }
        rounds += 1;
    }
    let writes: usize = clients.iter().map(|it| it.writes).sum();
    println!("crash: {rounds} rounds, {writes} writes acknowledged, none lost");
    assert!(rounds > 2 && writes > 20, "too few to say anything");
}

impl Client {
    /// Writes until nobody answers any more.
    fn write(&mut self, api: &Api, number: usize, mut random: Random, is_over: &AtomicBool) {
        while !is_over.load(Ordering::SeqCst) {
            let at = random.below(3) as usize;
            let name = format!("c{number}-{}", random.below(NAMES));
            let value = random.next() >> 12;
            let known = self.objects.entry((at, name.clone())).or_default();
            let (path, body) = &kinds()[at];
            let mark = json!({"name": name, "annotations": {"mark": value.to_string()}});
            let object = format!("{path}/{name}");
            let (asked, answer) = match known.acknowledged {
                None => {
                    let mut new = body.clone();
                    new["metadata"] = mark;
                    known.asked = Some(Some(value));
                    (Some(value), write(api, "POST", path, &new))
                }
                Some(_) if random.below(4) == 0 => {
                    known.asked = Some(None);
                    let options = json!({"gracePeriodSeconds": 0});
                    (None, write(api, "DELETE", &object, &options))
                }
                Some(_) => {
                    known.asked = Some(Some(value));
                    let change = json!({ "metadata": mark });
                    (Some(value), write(api, "PATCH", &object, &change))
                }
            };
            let Some((status, answer)) = answer else {
                return;
            };
            assert!(matches!(status, 200 | 201), "{object}: {status} {answer}");
            known.acknowledged = asked;
            known.asked = None;
            self.writes += 1;
            if let Some(version) = version_of(&answer) {
                self.version = self.version.max(version);
            }
        }
    }

    /// Compares what is there with what is known; then knows what is there.
    fn compare(&mut self, api: &Api, number: usize, round: usize) {
        for ((at, name), known) in &mut self.objects {
            let found = api.get(&format!("{}/{name}", kinds()[*at].0));
            let mark = &found["metadata"]["annotations"]["mark"];
            let state: State = mark.as_str().and_then(|it| it.parse().ok());
            let is_known = state == known.acknowledged || known.asked == Some(state);
            assert!(
                is_known,
                "round {round}: {name} is {state:?}, known is {known:?}"
            );
            *known = Known {
                acknowledged: state,
                asked: None,
            };
        }
        let path = kinds()[0].0;
        let new = json!({"metadata": {"name": format!("new{number}-{round}")}});
        let (status, answer) = api.write("POST", path, &new);
        assert_eq!(status, 201, "{answer}");
        let version = version_of(&answer).expect("a version");
        assert!(
            version > self.version,
            "round {round}: versions go back to {version}"
        );
        self.version = version;
    }
}

/// The answer, if there was one: a connection that breaks off says nothing.
fn write(api: &Api, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    let (status, answer) = api.write(method, path, body);
    (status != 0 && !answer.is_null()).then_some((status, answer))
}

fn version_of(object: &Value) -> Option<u64> {
    let version = &object["metadata"]["resourceVersion"];
    version.as_str().and_then(|it| it.parse().ok())
}

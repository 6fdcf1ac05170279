//! The program, and that what is kept of the plugin's answers is never out of date.

use std::process::Command;
use std::sync::Arc;

use outrank_api::types::{Node, Pod, PodSpec};
use outrank_engine::extensions::Extensions;
use outrank_engine::{Engine, EngineConfig, Event, Outcome};
use plugin_preferred_by_annotation::{OFFERS, PREFERS, PreferredByAnnotation};

fn run(config: &str) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_plugin-preferred-by-annotation"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([config, "cluster.yaml"])
        .output()
        .expect("run");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (
        output.status.success(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_pod_goes_where_its_preference_is_offered() {
    let (ok, placed, _) = run("scheduler.yaml");
    assert!(ok);
    // Without the plugin the first pod would go to node-1, by its name.
    assert_eq!(placed, "default/database node-2\ndefault/web node-1\n");
}

#[test]
fn a_file_that_is_no_configuration_is_refused() {
    let (ok, _, told) = run("cluster.yaml");
    assert!(!ok);
    assert!(told.contains("kind"), "{told}");
}

fn engine() -> Engine {
    let mut config = EngineConfig::default();
    let score = &mut config.profiles[0].score;
    score.push((PreferredByAnnotation::NAME.to_owned(), 5));
    let extensions = Extensions {
        plugins: PreferredByAnnotation::plugin().into_iter().collect(),
        ..Extensions::default()
    };
    Engine::with_extensions(&config, extensions).expect("an engine")
}

fn node(name: &str, offers: &str) -> Event {
    let mut node = Node::default();
    node.metadata.name = name.into();
    let annotations = &mut node.metadata.annotations;
    annotations.insert(OFFERS.into(), offers.into());
    for (resource, amount) in [("cpu", "64"), ("memory", "64Gi"), ("pods", "110")] {
        let allocatable = &mut node.status.allocatable;
        allocatable.insert(resource.into(), amount.parse().expect("a quantity"));
    }
    Event::NodeChanged(node)
}

/// Decides a pod by what is kept, and looks at every node from scratch beside it.
fn decide(engine: &mut Engine, name: &str, prefers: &str, spec: &Arc<PodSpec>) -> String {
    let mut pod = Pod::default();
    pod.metadata.namespace = "default".into();
    pod.metadata.name = name.into();
    let annotations = &mut pod.metadata.annotations;
    annotations.insert(PREFERS.into(), prefers.into());
    pod.spec = Arc::clone(spec);
    engine.handle(Event::PodChanged(pod), 0);
    let id = engine.pod("default", name).expect("the pod");
    let best = engine.evaluate(id).expect("an evaluation").best();
    let decision = engine.next(0).expect("a decision");
    let Outcome::Scheduled { node, .. } = decision.outcome else {
        panic!("{decision:?}");
    };
    assert!(best.contains(&node));
    engine.cluster().name(node).to_owned()
}

#[test]
fn what_is_kept_is_never_out_of_date() {
    let mut engine = engine();
    for (name, offers) in [("a", ""), ("b", "disk"), ("c", "licence, disk")] {
        engine.handle(node(name, offers), 0);
    }
    // Pods of one spec whose annotations differ.
    let spec = Arc::new(PodSpec::default());
    assert_eq!(decide(&mut engine, "p1", "disk", &spec), "b");
    assert_eq!(decide(&mut engine, "p2", "licence", &spec), "c");
    assert_eq!(decide(&mut engine, "p3", "nothing", &spec), "a");
    // Nodes that change what they offer.
    engine.handle(node("a", "disk"), 0);
    engine.handle(node("c", ""), 0);
    assert_eq!(decide(&mut engine, "p4", "disk", &spec), "a");
    assert_eq!(decide(&mut engine, "p5", "licence", &spec), "a");
}

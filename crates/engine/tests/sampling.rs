//! `percentageOfNodesToScore`: which nodes are considered, pod after pod.

use std::sync::Arc;

use outrank_api::types::{Container, Node, Pod, PodSpec};
use outrank_engine::profile::ProfileConfig;
use outrank_engine::{Engine, EngineConfig, Event, Outcome};

fn engine(percentage: Option<u8>) -> Engine {
    let profile = ProfileConfig {
        percentage_of_nodes_to_score: percentage,
        ..ProfileConfig::default()
    };
    let config = EngineConfig {
        profiles: vec![profile],
        ..EngineConfig::default()
    };
    Engine::new(&config).unwrap()
}

/// Nodes `n000` on; every `full_every`-th takes no pod.
fn add_nodes(engine: &mut Engine, count: usize, full_every: usize) {
    for number in 0..count {
        let mut node = Node::default();
        node.metadata.name = format!("n{number:03}");
        let pods = if number % full_every == 0 { "0" } else { "110" };
        let allocatable = &mut node.status.allocatable;
        allocatable.insert("cpu".into(), "4".parse().unwrap());
        allocatable.insert("memory".into(), "8Gi".parse().unwrap());
        allocatable.insert("pods".into(), pods.parse().unwrap());
        engine.handle(Event::NodeChanged(node), 0);
    }
}

/// Decides a new pod: its node, and how many were feasible.
fn decide(engine: &mut Engine, name: &str) -> Option<(String, usize)> {
    let mut pod = Pod::default();
    pod.metadata.namespace = "default".into();
    pod.metadata.name = name.into();
    pod.spec = Arc::new(PodSpec {
        containers: vec![Container::default()],
        ..PodSpec::default()
    });
    engine.handle(Event::PodChanged(pod), 0);
    match engine.next(0)?.outcome {
        Outcome::Scheduled {
            node,
            feasible_nodes,
            ..
        } => Some((engine.cluster().name(node).to_owned(), feasible_nodes)),
        _ => None,
    }
}

fn at(node: &str, feasible_nodes: usize) -> Option<(String, usize)> {
    Some((node.to_owned(), feasible_nodes))
}

#[test]
fn the_next_search_begins_where_one_ended() {
    let mut engine = engine(Some(50));
    add_nodes(&mut engine, 250, usize::MAX);
    // n000 is number 0 and takes none; 125 feasible nodes are enough: n001 to n125.
    assert_eq!(decide(&mut engine, "a"), at("n001", 125));
    // Then n126 to n249 and, around, n001.
    assert_eq!(decide(&mut engine, "b"), at("n126", 125));
    // n001 has a pod already.
    assert_eq!(decide(&mut engine, "c"), at("n002", 125));
}

#[test]
fn refused_nodes_count_as_looked_at() {
    let mut engine = engine(Some(50));
    // Half of the nodes are full: the search for 125 ends where it began.
    add_nodes(&mut engine, 250, 2);
    assert_eq!(decide(&mut engine, "a"), at("n001", 125));
    assert_eq!(decide(&mut engine, "b"), at("n003", 125));
}

#[test]
fn small_clusters_are_searched_whole() {
    let mut engine = engine(Some(1));
    add_nodes(&mut engine, 99, usize::MAX);
    assert_eq!(decide(&mut engine, "a"), at("n001", 98));
}

#[test]
fn without_a_percentage_every_node_is_considered() {
    for percentage in [None, Some(100)] {
        let mut engine = engine(percentage);
        add_nodes(&mut engine, 250, 2);
        assert_eq!(decide(&mut engine, "a"), at("n001", 125));
        assert_eq!(decide(&mut engine, "b"), at("n003", 125));
    }
}

#[test]
fn nodes_come_and_go_between_searches() {
    let mut engine = engine(Some(0));
    add_nodes(&mut engine, 200, usize::MAX);
    // 49% of 200 are fewer than the least, 100.
    assert_eq!(decide(&mut engine, "a"), at("n001", 100));
    for number in 101..200 {
        let name = format!("n{number:03}");
        engine.handle(Event::NodeGone { name }, 0);
    }
    // 101 nodes are left, one takes none; the search begins at the last and is one round.
    assert_eq!(decide(&mut engine, "b"), at("n002", 100));
}

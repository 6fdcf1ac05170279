//! Random clusters, pods, profiles and histories. Names are few, so that nodes come back
//! and pods compete.

pub(crate) mod checked;
mod preemption;
mod storage;

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use outrank_api::decode::{Object, ObjectKind};
use outrank_api::types::{
    Node, NodeAffinity, Pod, PodCondition, PodDisruptionBudget, PriorityClass,
};
use outrank_checker::Kill;
use outrank_engine::ids::PodId;
use outrank_engine::plugins::priority_share::{LimitedShare, PriorityShare, ShareLimit};
use outrank_engine::profile::{
    LegacyArgs, NodeLabelArgs, NodeResourcesFitArgs, ProfileConfig, ResourceSpec, ScoringStrategy,
    ServiceAffinityArgs, UtilizationShapePoint,
};
use outrank_engine::shares::SharePods;
use outrank_engine::{
    Decision, Engine, EngineConfig, Event, Outcome, PodState, Release, TimeNanos,
};
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};
use serde_json::{Value, json};

use storage::{
    CLAIM_NAMES, Claims, StorageStep, shared_storage, storage_classes, storage_step, volumes,
};

/// All the nodes there ever are; in no order, as in life.
pub(crate) const NODE_NAMES: [&str; 12] = [
    "m3", "a1", "k7", "b", "z9", "a0", "a10", "q", "c5", "zz", "e2", "d",
];

/// Those about which storage says most.
const FEW_NODES: [&str; 6] = ["m3", "a1", "k7", "b", "z9", "a0"];

/// What is random about a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeShape {
    zone: u8,
    disk: u8,
    rank: Option<i8>,
    taints: Vec<usize>,
    cordoned: bool,
    images: Vec<usize>,
    cpu_half_cores: u32,
    memory_gib: u32,
    gpus: u32,
    pods: u32,
    /// Conditions that are not as they should be.
    conditions: Vec<usize>,
    /// Whether pods of the ReplicaSet `a` had better go elsewhere.
    avoids_a: bool,
}

const CONDITIONS: [(&str, &str); 4] = [
    ("Ready", "Unknown"),
    ("MemoryPressure", "True"),
    ("DiskPressure", "True"),
    ("PIDPressure", "True"),
];

const TAINTS: [(&str, &str, &str); 6] = [
    ("dedicated", "ml", "NoSchedule"),
    ("dedicated", "web", "NoSchedule"),
    ("evict", "", "NoExecute"),
    ("slow", "yes", "PreferNoSchedule"),
    ("old", "yes", "PreferNoSchedule"),
    ("far", "yes", "PreferNoSchedule"),
];

/// Images and their sizes, the same on every node.
const IMAGES: [(&str, i64); 3] = [
    ("nginx:latest", 500 << 20),
    ("registry.example.com/train:v1", 900 << 20),
    ("busybox:1", 1 << 20),
];

impl NodeShape {
    /// 2 cores, 4 GiB, nothing special.
    pub(crate) fn plain() -> Self {
        Self {
            zone: 0,
            disk: 0,
            rank: None,
            taints: Vec::new(),
            cordoned: false,
            images: Vec::new(),
            cpu_half_cores: 4,
            memory_gib: 4,
            gpus: 0,
            pods: 10,
            conditions: Vec::new(),
            avoids_a: false,
        }
    }

    /// The same with room for many pods.
    fn roomy(self) -> Self {
        Self {
            cpu_half_cores: 20,
            memory_gib: 40,
            pods: 30,
            taints: Vec::new(),
            cordoned: false,
            ..self
        }
    }
}

pub(crate) fn node_shape() -> impl Strategy<Value = NodeShape> {
    let object = (
        0..3u8,
        0..3u8,
        prop::option::of(-1..9i8),
        prop_oneof![
            2 => Just(Vec::new()),
            1 => subsequence((0..TAINTS.len()).collect::<Vec<_>>(), 0..=3),
            2 => subsequence(vec![3, 4, 5], 0..=3),
        ],
        prop::bool::weighted(0.1),
        subsequence((0..IMAGES.len()).collect::<Vec<_>>(), 0..=3),
    );
    let amounts = (0..9u32, 0..9u32, prop_oneof![Just(0), 0..5u32], 0..6u32);
    let numbers = (0..CONDITIONS.len()).collect::<Vec<_>>();
    let of_the_past = (
        prop_oneof![3 => Just(Vec::new()), 1 => subsequence(numbers, 1..=2)],
        prop::bool::weighted(0.3),
    );
    (object, amounts, of_the_past).prop_map(
        |(
            (zone, disk, rank, taints, cordoned, images),
            (cpu, memory, gpus, pods),
            (conditions, avoids_a),
        )| NodeShape {
            zone,
            disk,
            rank,
            taints,
            cordoned,
            images,
            cpu_half_cores: cpu,
            memory_gib: memory,
            gpus,
            pods,
            conditions,
            avoids_a,
        },
    )
}

/// A node of that name and shape.
pub(crate) fn node_of(name: &str, shape: &NodeShape) -> Node {
    let mut labels = json!({
        "kubernetes.io/hostname": name,
        "zone": format!("z{}", shape.zone),
    });
    // A node that says nothing of zones takes volumes of all.
    if shape.disk > 0 {
        labels["topology.kubernetes.io/zone"] = labels["zone"].clone();
    }
    match shape.disk {
        0 => {}
        1 => labels["disk"] = "ssd".into(),
        _ => labels["disk"] = "hdd".into(),
    }
    if let Some(rank) = shape.rank {
        labels["rank"] = rank.to_string().into();
    }
    let taint = |&taint: &usize| {
        let (key, value, effect) = TAINTS[taint];
        json!({"key": key, "value": value, "effect": effect})
    };
    let image = |&image: &usize| json!({"names": [IMAGES[image].0], "sizeBytes": IMAGES[image].1});
    let condition = |&condition: &usize| {
        let (kind, status) = CONDITIONS[condition];
        json!({"type": kind, "status": status})
    };
    let mut annotations = json!({});
    if shape.avoids_a {
        let a = json!({"podController": {"kind": "ReplicaSet", "uid": "uid-a"}});
        let avoided = json!({"preferAvoidPods": [{"podSignature": a}]});
        annotations["scheduler.alpha.kubernetes.io/preferAvoidPods"] = avoided.to_string().into();
    }
    let node = json!({
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {
            "unschedulable": shape.cordoned,
            "taints": shape.taints.iter().map(taint).collect::<Vec<_>>(),
        },
        "status": {
            "allocatable": {
                "cpu": format!("{}m", shape.cpu_half_cores * 500),
                "memory": format!("{}Gi", shape.memory_gib),
                "ephemeral-storage": "10Gi",
                "example.com/gpu": shape.gpus.to_string(),
                "pods": shape.pods.to_string(),
            },
            "images": shape.images.iter().map(image).collect::<Vec<_>>(),
            "conditions": shape.conditions.iter().map(condition).collect::<Vec<_>>(),
        },
    });
    serde_json::from_value(node).expect("a node")
}

/// What pods are made from: a spec, and where its preemption made room for it.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    app: &'static str,
    spec: Value,
    /// Claims that each of the pods has for itself.
    claims: Claims,
    nominated: Option<&'static str>,
}

fn requirement() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"key": "disk", "operator": "In", "values": ["ssd"]})),
        Just(json!({"key": "disk", "operator": "NotIn", "values": ["hdd"]})),
        Just(json!({"key": "disk", "operator": "Exists"})),
        Just(json!({"key": "rank", "operator": "DoesNotExist"})),
        Just(json!({"key": "zone", "operator": "In", "values": ["z0", "z1"]})),
        (0..8i32).prop_map(|n| json!({"key": "rank", "operator": "Gt", "values": [n.to_string()]})),
        (0..8i32).prop_map(|n| json!({"key": "rank", "operator": "Lt", "values": [n.to_string()]})),
    ]
}

fn term() -> impl Strategy<Value = Value> {
    let names = subsequence(NODE_NAMES.to_vec(), 1..=4);
    let by_name = (names, prop::option::of(requirement())).prop_map(|(names, also)| {
        // The API takes one name a requirement; several requirements exclude each other.
        let fields = json!([{"key": "metadata.name", "operator": "In", "values": [names[0]]}]);
        let expressions: Vec<Value> = also.into_iter().collect();
        json!({"matchFields": fields, "matchExpressions": expressions})
    });
    let by_label = prop::collection::vec(requirement(), 0..=2)
        .prop_map(|expressions| json!({"matchExpressions": expressions}));
    prop_oneof![1 => by_name, 2 => by_label]
}

fn preference() -> impl Strategy<Value = Value> {
    let term = prop_oneof![
        12 => term(),
        // Something that cannot be read: an error of the plugin.
        1 => Just(json!({"matchExpressions": [
            {"key": "rank", "operator": "Gt", "values": ["high"]}]})),
    ];
    (1..=100, term).prop_map(|(weight, term)| json!({"weight": weight, "preference": term}))
}

fn node_affinity() -> impl Strategy<Value = Value> {
    let required = prop::option::weighted(0.4, prop::collection::vec(term(), 1..=3));
    let preferred = prop_oneof![
        Just(Vec::new()).boxed(),
        prop::collection::vec(preference(), 1..=3).boxed()
    ];
    (required, preferred).prop_map(|(required, preferred)| {
        let mut affinity = json!({"preferredDuringSchedulingIgnoredDuringExecution": preferred});
        if let Some(terms) = required {
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": terms});
        }
        affinity
    })
}

fn toleration() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"key": "dedicated", "operator": "Equal", "value": "ml"})),
        Just(json!({"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"})),
        Just(json!({"key": "slow", "operator": "Exists", "effect": "PreferNoSchedule"})),
        Just(json!({"operator": "Exists", "effect": "NoExecute"})),
        Just(json!({"operator": "Exists"})),
        Just(json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})),
    ]
}

fn container() -> impl Strategy<Value = Value> {
    let image = prop::sample::select(vec!["nginx", "registry.example.com/train:v1", "busybox:1"]);
    let requests = (0..5u32, 0..4u32, prop::option::weighted(0.2, 1..3u32));
    let port = prop::option::weighted(0.2, (0..2u32, prop::bool::ANY));
    (image, requests, port).prop_map(|(image, (cpu, memory, gpus), port)| {
        let mut requests = json!({});
        if cpu > 0 {
            requests["cpu"] = format!("{}m", cpu * 300).into();
        }
        if memory > 0 {
            requests["memory"] = format!("{}Mi", memory * 700).into();
        }
        if let Some(gpus) = gpus {
            requests["example.com/gpu"] = gpus.to_string().into();
        }
        let ports: Vec<Value> = port
            .into_iter()
            .map(|(port, is_local)| {
                let ip = if is_local { "127.0.0.1" } else { "" };
                json!({"containerPort": 80, "hostPort": 8080 + port, "hostIP": ip})
            })
            .collect();
        json!({"name": "c", "image": image, "resources": {"requests": requests}, "ports": ports})
    })
}

/// Relations to other pods: affinity, anti-affinity, spreading; mostly none.
fn relations() -> impl Strategy<Value = Value> {
    let app = || prop::sample::select(vec!["a", "b"]);
    let key = || prop::sample::select(vec!["zone", "kubernetes.io/hostname", "disk"]);
    let term = move || {
        (app(), key()).prop_map(|(app, key)| {
            json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key})
        })
    };
    let required = move || {
        term().prop_map(|term| json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]}))
    };
    let preferred = (term(), 1..=100).prop_map(|(term, weight)| {
        json!({"preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": weight, "podAffinityTerm": term}]})
    });
    let spread = (app(), key(), 1..3, prop::bool::ANY).prop_map(|(app, key, skew, is_hard)| {
        let otherwise = if is_hard {
            "DoNotSchedule"
        } else {
            "ScheduleAnyway"
        };
        json!({"topologySpreadConstraints": [{
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": otherwise,
            "labelSelector": {"matchLabels": {"app": app}},
        }]})
    });
    prop_oneof![
        10 => Just(json!({})),
        1 => required().prop_map(|terms| json!({"podAffinity": terms})),
        1 => required().prop_map(|terms| json!({"podAntiAffinity": terms})),
        1 => preferred.prop_map(|terms| json!({"podAntiAffinity": terms})),
        1 => spread,
    ]
}

pub(crate) fn template() -> impl Strategy<Value = Template> {
    let selector = prop::option::weighted(0.2, prop::sample::select(vec!["ssd", "hdd"]));
    let gated = prop::bool::weighted(0.08);
    let scheduler = prop_oneof![8 => Just(""), 3 => Just("second"), 1 => Just("nobody")];
    let nominated = prop::option::weighted(0.2, prop::sample::select(NODE_NAMES.to_vec()));
    (
        (selector, prop::option::weighted(0.5, node_affinity())),
        (prop::collection::vec(toleration(), 0..=2), container()),
        (0..4, gated, scheduler, nominated),
        (
            prop::sample::select(vec!["a", "b"]),
            relations(),
            prop_oneof![3 => Just(json!([])), 1 => volumes()],
            prop_oneof![6 => Just(Claims::default()), 1 => storage::claims()],
        ),
    )
        .prop_map(
            |((selector, affinity), (tolerations, container), rest, others)| {
                let (priority, gated, scheduler, nominated) = rest;
                let (app, relations, volumes, claims) = others;
                let mut spec = json!({
                    "schedulerName": scheduler,
                    "priority": priority * 10,
                    "tolerations": tolerations,
                    "containers": [container],
                    "volumes": volumes,
                });
                if let Some(disk) = selector {
                    spec["nodeSelector"] = json!({"disk": disk});
                }
                if let Some(affinity) = affinity {
                    spec["affinity"] = json!({"nodeAffinity": affinity});
                }
                if gated {
                    spec["schedulingGates"] = json!([{"name": "example.com/wait"}]);
                }
                relate(&mut spec, &relations);
                Template {
                    app,
                    spec,
                    claims,
                    nominated,
                }
            },
        )
}

/// A template of pods with volumes, about which hardly anything else is particular.
fn template_with_volumes() -> impl Strategy<Value = Template> {
    let apps = prop::sample::select(vec!["a", "b"]);
    let volumes = prop_oneof![2 => Just(json!([])), 1 => volumes()];
    let relations = prop_oneof![3 => Just(json!({})), 1 => relations()];
    let names = prop::option::weighted(0.1, node_affinity());
    (apps, relations, volumes, storage::claims(), names).prop_map(
        |(app, relations, volumes, claims, affinity)| {
            let mut spec = json!({"containers": [{"name": "c", "image": "nginx"}],
                "volumes": volumes});
            if let Some(affinity) = affinity {
                spec["affinity"] = json!({"nodeAffinity": affinity});
            }
            relate(&mut spec, &relations);
            Template {
                app,
                spec,
                claims,
                nominated: None,
            }
        },
    )
}

fn relate(spec: &mut Value, relations: &Value) {
    for (field, value) in relations.as_object().into_iter().flatten() {
        match field.as_str() {
            "topologySpreadConstraints" => spec[field] = value.clone(),
            _ => spec["affinity"][field] = value.clone(),
        }
    }
}

/// A pod made from a template.
pub(crate) fn pod_named(name: &str, template: &Template) -> Pod {
    let mut pod = json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}"),
            "labels": {"app": template.app}},
        "spec": template.spec,
    });
    if let Some(volumes) = pod["spec"]["volumes"].as_array_mut() {
        volumes.extend(template.claims.volumes(name));
    }
    if template.app == "a" {
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1",
            "kind": "ReplicaSet", "name": "a", "uid": "uid-a", "controller": true}]);
    }
    if let Some(node) = template.nominated {
        pod["status"] = json!({"nominatedNodeName": node});
    }
    serde_json::from_value(pod).expect("a pod")
}

/// The event of a pod's deletion.
pub(crate) fn gone(name: &str) -> Event {
    Event::PodGone {
        namespace: "default".into(),
        name: name.into(),
    }
}

fn resource_specs() -> impl Strategy<Value = Vec<ResourceSpec>> {
    let names = subsequence(
        vec!["cpu", "memory", "ephemeral-storage", "example.com/gpu"],
        1..=3,
    );
    (names, prop::collection::vec(1..=5i64, 3)).prop_map(|(names, weights)| {
        let weighted = names.into_iter().zip(weights);
        let spec = |(name, weight): (&str, i64)| ResourceSpec {
            name: name.to_owned(),
            weight,
        };
        weighted.map(spec).collect()
    })
}

fn scoring_strategy() -> impl Strategy<Value = ScoringStrategy> {
    let shape = prop_oneof![
        Just(vec![(0, 0), (100, 10)]),
        Just(vec![(0, 10), (50, 3), (100, 0)]),
        Just(vec![(40, 2), (60, 9)])
    ];
    let shape = shape.prop_map(|points| {
        let point = |(utilization, score)| UtilizationShapePoint { utilization, score };
        points.into_iter().map(point).collect()
    });
    prop_oneof![
        resource_specs().prop_map(ScoringStrategy::LeastAllocated),
        resource_specs().prop_map(ScoringStrategy::MostAllocated),
        (resource_specs(), shape).prop_map(|(resources, shape)| {
            ScoringStrategy::RequestedToCapacityRatio(resources, shape)
        }),
    ]
}

fn added_affinity() -> impl Strategy<Value = Option<NodeAffinity>> {
    let expressions = prop::collection::vec(requirement(), 1..=2);
    let terms = (expressions, prop::bool::ANY).prop_map(|(expressions, is_required)| {
        let term = json!({"matchExpressions": expressions});
        let affinity = if is_required {
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}})
        } else {
            json!({"preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": 7, "preference": term}]})
        };
        serde_json::from_value(affinity).expect("node affinity")
    });
    prop::option::weighted(0.2, terms)
}

/// What pods of some priorities may use of some resource; mostly no limits.
fn limited_shares() -> impl Strategy<Value = Vec<LimitedShare>> {
    let resource = prop::sample::select(vec!["cpu", "memory", "example.com/gpu"]);
    let limit = prop_oneof![
        3 => (0..=100u8).prop_map(ShareLimit::Percent),
        1 => (0..4000i64).prop_map(ShareLimit::Amount),
    ];
    let share = (resource, 0..4, 0..4, limit).prop_map(|(resource, from, more, limit)| {
        let (least, most) = (from * 10, (from + more) * 10);
        LimitedShare {
            pods: SharePods::Priorities { least, most },
            namespace: None,
            resource: resource.to_owned(),
            limit,
        }
    });
    prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(share, 1..=3)]
}

/// A profile with PriorityShare, if there are limits, as the last plugin.
fn with_shares(profile: ProfileConfig, shares: Vec<LimitedShare>) -> ProfileConfig {
    let mut profile = profile;
    if !shares.is_empty() {
        let name = PriorityShare::NAME.to_owned();
        match &mut profile.pre_filter {
            Some(pre_filter) => pre_filter.push(name),
            None => profile.filter.push(name),
        }
        profile.priority_shares = shares;
    }
    profile
}

/// The default profile, or one with plugins left out, moved and weighted otherwise, with
/// limits of shares or without.
fn profile(scheduler_name: &'static str) -> impl Strategy<Value = ProfileConfig> {
    (profile_of_upstream(scheduler_name), limited_shares())
        .prop_map(|(profile, shares)| with_shares(profile, shares))
}

fn profile_of_upstream(scheduler_name: &'static str) -> impl Strategy<Value = ProfileConfig> {
    let default = ProfileConfig::default();
    let all = default.filter.len();
    let filters = subsequence(default.filter.clone(), all - 3..=all).prop_shuffle();
    let names: Vec<String> = default.score.iter().map(|(name, _)| name.clone()).collect();
    let scores = subsequence(names.clone(), 0..=names.len()).prop_shuffle();
    let weights = prop::collection::vec(1..=6i64, names.len());
    let args = (
        scoring_strategy(),
        added_affinity(),
        prop::bool::weighted(0.2),
    );
    // Mostly those of the stages that read them, or more, so that some pods get a node.
    let preparing = |names: Vec<String>| {
        let count = names.len();
        prop::option::weighted(0.3, subsequence(names, count - 1..=count).prop_shuffle())
    };
    let stages = (
        preparing(default.filter.clone()),
        preparing(names),
        preparing(vec!["VolumeBinding".into(), "DynamicResources".into()]),
    );
    let custom = (filters, scores, weights, args, stages).prop_map(
        move |(filter, scores, weights, args, (pre_filter, pre_score, reserve))| {
            let (scoring_strategy, added_affinity, ignores_gpus) = args;
            let ignored = if ignores_gpus {
                vec!["example.com".to_owned()]
            } else {
                Vec::new()
            };
            ProfileConfig {
                scheduler_name: scheduler_name.to_owned(),
                pre_filter,
                filter,
                pre_score,
                reserve,
                score: scores.into_iter().zip(weights).collect(),
                added_affinity,
                node_resources_fit: NodeResourcesFitArgs {
                    ignored_resource_groups: ignored,
                    scoring_strategy,
                    ..NodeResourcesFitArgs::default()
                },
                ..ProfileConfig::default()
            }
        },
    );
    let default = ProfileConfig {
        scheduler_name: scheduler_name.to_owned(),
        ..ProfileConfig::default()
    };
    prop_oneof![1 => Just(default), 2 => custom]
}

/// A profile of 1.20: plugins of it, in any order, with any weights.
fn profile_of_1_20(scheduler_name: &'static str) -> impl Strategy<Value = ProfileConfig> {
    let filters = subsequence(FILTERS_OF_1_20.to_vec(), 0..=FILTERS_OF_1_20.len()).prop_shuffle();
    let scores = subsequence(SCORES_OF_1_20.to_vec(), 0..=SCORES_OF_1_20.len()).prop_shuffle();
    let weights = prop::collection::vec(1..=6i64, SCORES_OF_1_20.len());
    let label = || prop::sample::select(vec!["zone", "disk", "rank"]).prop_map(String::from);
    let switches = (prop::bool::weighted(0.2), prop::bool::ANY);
    (
        filters,
        scores,
        weights,
        (label(), label()),
        resource_specs(),
        switches,
    )
        .prop_map(
            move |(filters, scores, weights, (one, other), resources, (checks_all, is_list))| {
                let names = |names: Vec<&'static str>| names.into_iter().map(String::from);
                let legacy = LegacyArgs {
                    node_label: NodeLabelArgs {
                        absent_labels: vec![one.clone()],
                        present_labels_preference: vec![other.clone()],
                        ..NodeLabelArgs::default()
                    },
                    service_affinity: ServiceAffinityArgs {
                        affinity_labels: vec![one],
                        anti_affinity_labels_preference: vec![other],
                    },
                    ratio_resources: resources,
                    ratio_shape: vec![
                        UtilizationShapePoint {
                            utilization: 10,
                            score: 1,
                        },
                        UtilizationShapePoint {
                            utilization: 90,
                            score: 9,
                        },
                    ],
                };
                ProfileConfig {
                    scheduler_name: scheduler_name.to_owned(),
                    filter: names(filters).collect(),
                    score: names(scores).zip(weights).collect(),
                    release: Release::V1_20,
                    legacy,
                    checks_all_filters: checks_all,
                    default_spread_constraints: is_list.then(Vec::new),
                    ..ProfileConfig::default()
                }
            },
        )
}

const FILTERS_OF_1_20: [&str; 18] = [
    "NodeUnschedulable",
    "NodeResourcesFit",
    "NodeName",
    "NodePorts",
    "NodeAffinity",
    "VolumeRestrictions",
    "TaintToleration",
    "PodToleratesNodeNoExecuteTaints",
    "NodeLabel",
    "ServiceAffinity",
    "GCEPDLimits",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "CheckNodeCondition",
    "CheckNodeMemoryPressure",
    "PodTopologySpread",
    "InterPodAffinity",
];

const SCORES_OF_1_20: [&str; 12] = [
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "InterPodAffinity",
    "NodeResourcesLeastAllocated",
    "NodeResourcesMostAllocated",
    "NodeAffinity",
    "NodeLabel",
    "NodePreferAvoidPods",
    "RequestedToCapacityRatio",
    "PodTopologySpread",
    "ServiceAffinity",
    "TaintToleration",
];

/// Something that happens, or is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    SetNode(&'static str, NodeShape),
    RemoveNode(Index),
    AddPod(Index),
    /// Made from another template.
    ChangePod(Index, Index),
    RemovePod(Index),
    /// Bound by somebody else, maybe to a node that is not there.
    BindPod(Index, &'static str),
    AddBoundPod(Index, &'static str),
    /// To be placed, though it names a node.
    AddPodForNode(Index, &'static str),
    /// Told again as it is, on the node that was chosen.
    ConfirmPod(Index),
    SetStorage(Box<Object>),
    RemoveStorage(ObjectKind, &'static str),
    /// Something about the claims that a pod has for itself.
    Claims(Index, Box<StorageStep>),
    SetBudget(Box<PodDisruptionBudget>),
    RemoveBudget(&'static str),
    SetPriorityClass(Box<PriorityClass>),
    RemovePriorityClass(&'static str),
    /// The kubelet takes a pod that is on a node, in that second.
    StartPod(Index, u8),
    /// Somebody deletes a pod that is on a node, and it takes its time to go.
    StartDeletion(Index),
    /// A service selects the pods of an app, or none any more.
    SetService(&'static str, bool),
    PassTime(u64),
    /// A pod comes and goes that many times on a node.
    Churn {
        node: &'static str,
        times: usize,
    },
    Decide,
    DecidePod(Index),
}

fn step() -> impl Strategy<Value = Step> {
    let node = || prop::sample::select(NODE_NAMES.to_vec());
    prop_oneof![
        6 => (node(), node_shape()).prop_map(|(name, shape)| Step::SetNode(name, shape)),
        3 => any::<Index>().prop_map(Step::RemoveNode),
        4 => shared_storage().prop_map(|object| Step::SetStorage(Box::new(object))),
        1 => prop::sample::select(CLAIM_NAMES.to_vec())
            .prop_map(|name| Step::RemoveStorage(ObjectKind::PersistentVolumeClaim, name)),
        1 => (any::<Index>(), storage_step()).prop_map(|(pod, it)| Step::Claims(pod, it.into())),
        8 => any::<Index>().prop_map(Step::AddPod),
        2 => any::<(Index, Index)>().prop_map(|(pod, template)| Step::ChangePod(pod, template)),
        4 => any::<Index>().prop_map(Step::RemovePod),
        1 => (any::<Index>(), node()).prop_map(|(pod, node)| Step::BindPod(pod, node)),
        2 => (any::<Index>(), node()).prop_map(|(pod, node)| Step::AddBoundPod(pod, node)),
        1 => (any::<Index>(), node()).prop_map(|(pod, node)| Step::AddPodForNode(pod, node)),
        1 => preemption::budget().prop_map(|budget| Step::SetBudget(Box::new(budget))),
        1 => (any::<Index>(), 0..4u8).prop_map(|(pod, second)| Step::StartPod(pod, second)),
        2 => (0..20_000_000_000u64).prop_map(Step::PassTime),
        12 => Just(Step::Decide),
        2 => any::<Index>().prop_map(Step::DecidePod),
    ]
}

/// Steps of a history in which storage is what matters.
fn step_about_volumes() -> impl Strategy<Value = Step> {
    let node = || prop::sample::select(FEW_NODES.to_vec());
    let roomy = node_shape().prop_map(NodeShape::roomy);
    prop_oneof![
        1 => (node(), roomy).prop_map(|(name, shape)| Step::SetNode(name, shape)),
        1 => any::<Index>().prop_map(Step::RemoveNode),
        8 => shared_storage().prop_map(|object| Step::SetStorage(Box::new(object))),
        2 => storage::removable().prop_map(|(kind, name)| Step::RemoveStorage(kind, name)),
        8 => (any::<Index>(), storage_step()).prop_map(|(pod, it)| Step::Claims(pod, it.into())),
        10 => any::<Index>().prop_map(Step::AddPod),
        1 => any::<(Index, Index)>().prop_map(|(pod, template)| Step::ChangePod(pod, template)),
        2 => any::<Index>().prop_map(Step::RemovePod),
        3 => any::<Index>().prop_map(Step::ConfirmPod),
        4 => (any::<Index>(), node()).prop_map(|(pod, node)| Step::AddBoundPod(pod, node)),
        1 => (0..20_000_000_000u64).prop_map(Step::PassTime),
        14 => Just(Step::Decide),
        8 => any::<Index>().prop_map(Step::DecidePod),
    ]
}

/// Profiles, what pods are made from, and what happens.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) config: EngineConfig,
    pub(crate) templates: Vec<Template>,
    pub(crate) steps: Vec<Step>,
    /// What time it is at first.
    pub(crate) start: TimeNanos,
    /// Whether rules that upstream lacks hold pods back. Not all that ends them wakes a pod.
    pub(crate) has_rules: bool,
}

impl History {
    /// The default profile, one plain template, and nothing happens.
    pub(crate) fn plain() -> Self {
        let spec = json!({"containers": [{"name": "c", "image": "nginx"}]});
        Self {
            config: EngineConfig::default(),
            templates: vec![Template {
                app: "a",
                spec,
                claims: Claims::default(),
                nominated: None,
            }],
            steps: Vec::new(),
            start: 0,
            has_rules: false,
        }
    }
}

/// A random history with that many templates, and that many steps after some nodes came.
pub(crate) fn history(
    templates: RangeInclusive<usize>,
    steps: Range<usize>,
    is_seeded: bool,
) -> impl Strategy<Value = History> {
    let profiles = (profile("default-scheduler"), profile("second"));
    history_with(profiles, step(), templates, steps, is_seeded)
}

/// A random history of pods with volumes.
pub(crate) fn history_with_volumes(
    templates: RangeInclusive<usize>,
    steps: Range<usize>,
) -> impl Strategy<Value = History> {
    let profiles = (profile("default-scheduler"), profile("second"));
    let templates = prop::collection::vec(template_with_volumes(), templates);
    // Pods that differ in nothing but that they have no volumes.
    let without = prop::bool::weighted(0.3);
    let templates = (templates, without).prop_map(|(mut templates, without)| {
        let mut other = templates[0].clone();
        other.spec["volumes"] = json!([]);
        other.claims = Claims::default();
        templates.extend(without.then_some(other));
        templates
    });
    let nodes = node_shape().prop_map(NodeShape::roomy);
    let step = step_about_volumes();
    let history = history_of(profiles, (nodes, 2..7), templates, step, steps, false);
    let storage = prop::collection::vec(shared_storage(), 0..40);
    (storage, history).prop_map(|(storage, mut history)| {
        let storage = storage.into_iter().map(|it| Step::SetStorage(it.into()));
        history.steps.splice(0..0, storage);
        history
    })
}

/// A random history in which pods preempt each other.
pub(crate) fn history_of_preemption(
    templates: RangeInclusive<usize>,
    steps: Range<usize>,
    is_seeded: bool,
) -> impl Strategy<Value = History> {
    let profiles = (
        preemption::profile("default-scheduler"),
        preemption::profile("second"),
    );
    let templates = prop::collection::vec(preemption::template(), templates);
    let nodes = (preemption::node(), 2..7);
    history_of(
        profiles,
        nodes,
        templates,
        preemption::step(),
        steps,
        is_seeded,
    )
}

/// The same with rules that make preemption safe, and searches that end before all nodes are
/// tried.
pub(crate) fn history_of_safe_preemption(
    templates: RangeInclusive<usize>,
    steps: Range<usize>,
    is_seeded: bool,
) -> impl Strategy<Value = History> {
    let profiles = (
        preemption::safe_profile("default-scheduler"),
        preemption::safe_profile("second"),
    );
    let templates = prop::collection::vec(preemption::template_of_a_class(), templates);
    let nodes = (preemption::node(), 2..7);
    let history = history_of(
        profiles,
        nodes,
        templates,
        preemption::step_with_rules(),
        steps,
        is_seeded,
    );
    history.prop_map(|history| History {
        start: preemption::START,
        has_rules: true,
        ..history
    })
}

/// The same with plugins of 1.20, and services.
pub(crate) fn history_of_1_20(
    templates: RangeInclusive<usize>,
    steps: Range<usize>,
) -> impl Strategy<Value = History> {
    let profiles = (
        profile_of_1_20("default-scheduler"),
        profile_of_1_20("second"),
    );
    let app = prop::sample::select(vec!["a", "b"]);
    let service = (app, prop::bool::weighted(0.8));
    let service = service.prop_map(|(app, is_there)| Step::SetService(app, is_there));
    let step = prop_oneof![15 => step(), 1 => service];
    history_with(profiles, step, templates, steps, false)
}

fn history_with(
    profiles: (
        impl Strategy<Value = ProfileConfig>,
        impl Strategy<Value = ProfileConfig>,
    ),
    step: impl Strategy<Value = Step>,
    templates: RangeInclusive<usize>,
    steps: Range<usize>,
    is_seeded: bool,
) -> impl Strategy<Value = History> {
    let templates = prop::collection::vec(template(), templates);
    history_of(
        profiles,
        (node_shape(), 0..NODE_NAMES.len()),
        templates,
        step,
        steps,
        is_seeded,
    )
}

fn history_of(
    profiles: (
        impl Strategy<Value = ProfileConfig>,
        impl Strategy<Value = ProfileConfig>,
    ),
    (node, count): (impl Strategy<Value = NodeShape>, Range<usize>),
    templates: impl Strategy<Value = Vec<Template>>,
    step: impl Strategy<Value = Step>,
    steps: Range<usize>,
    is_seeded: bool,
) -> impl Strategy<Value = History> {
    let nodes = prop::collection::vec(node, count);
    (
        profiles,
        nodes,
        templates,
        prop::collection::vec(step, steps),
        any::<u64>(),
    )
        .prop_map(move |((first, second), nodes, templates, steps, seed)| {
            let come = NODE_NAMES.iter().zip(nodes);
            let come = come.map(|(name, shape)| Step::SetNode(name, shape));
            History {
                config: EngineConfig {
                    profiles: vec![first, second],
                    tie_seed: is_seeded.then_some(seed),
                    ..EngineConfig::default()
                },
                templates,
                steps: come.chain(steps).collect(),
                start: 0,
                has_rules: false,
            }
        })
}

/// An engine and what it should know.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) now: TimeNanos,
    /// The nodes that are there.
    pub(crate) nodes: BTreeMap<String, Node>,
    /// The budgets that are there.
    budgets: BTreeMap<String, PodDisruptionBudget>,
    /// The priority classes that are there.
    priority_classes: BTreeMap<String, PriorityClass>,
    /// Who was killed, in order.
    kills: Vec<Kill>,
    /// How many of these the status of each budget counts.
    kills_counted: BTreeMap<String, usize>,
    /// Whether pods ever had the same host port on a node.
    had_ports_twice: bool,
    profiles: Vec<ProfileConfig>,
    /// The pods that are there, as they were last told.
    pub(crate) pods: BTreeMap<String, Pod>,
    templates: Vec<Template>,
    created: usize,
}

impl World {
    pub(crate) fn new(history: &History) -> Self {
        let mut engine = Engine::new(&history.config).expect("a valid profile");
        storage_classes().for_each(|class| engine.handle(Event::StorageChanged(class), 0));
        Self {
            engine,
            now: history.start,
            nodes: BTreeMap::new(),
            budgets: BTreeMap::new(),
            priority_classes: BTreeMap::new(),
            kills: Vec::new(),
            kills_counted: BTreeMap::new(),
            had_ports_twice: false,
            profiles: history.config.profiles.clone(),
            pods: BTreeMap::new(),
            templates: history.templates.clone(),
            created: 0,
        }
    }

    /// The pod to which an index points, if there is any.
    pub(crate) fn pick_pod(&self, which: Index) -> Option<PodId> {
        self.engine.pod("default", &self.pick_name(which)?)
    }

    /// A decision with names.
    pub(crate) fn tell(&self, decision: &Decision) -> String {
        let cluster = self.engine.cluster();
        let (_, pod) = self.engine.pod_name(decision.pod).expect("a known pod");
        match &decision.outcome {
            Outcome::Scheduled { node, .. } => format!("{pod} on {}", cluster.name(*node)),
            Outcome::Unschedulable(diagnosis) => format!("{pod}: {}", diagnosis.message(cluster)),
            Outcome::Error(error) => format!("{pod}: {error}"),
        }
    }

    /// Lets those go that a decision wants gone. Pods whose names are the same length as the
    /// preemptor's take their time: they are only being deleted, until something deletes them.
    pub(crate) fn evict(&mut self, decision: &Decision) {
        let Some(preemption) = self.told(decision) else {
            return;
        };
        self.note_kills(&preemption);
        let name_of = |key: &String| key.trim_start_matches("default/").to_owned();
        let preemptor = name_of(&preemption.preemptor);
        let victims: Vec<String> = preemption.victims.iter().map(name_of).collect();
        for victim in victims {
            if victim.len() != preemptor.len() {
                self.pods.remove(&victim);
                self.engine.handle(gone(&victim), self.now);
                continue;
            }
            let mut pod = self.pods[&victim].clone();
            pod = bound(pod, &preemption.node);
            pod.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
            pod.status.conditions.push(PodCondition {
                type_: "DisruptionTarget".into(),
                status: "True".into(),
                reason: "PreemptionByScheduler".into(),
                ..PodCondition::default()
            });
            self.set_pod(pod);
        }
    }

    /// Lets something happen that decides nothing.
    pub(crate) fn take(&mut self, step: &Step) {
        match step {
            Step::SetNode(name, shape) => {
                let node = node_of(name, shape);
                self.nodes.insert((*name).to_owned(), node.clone());
                self.engine.handle(Event::NodeChanged(node), self.now);
            }
            Step::RemoveNode(which) => self.remove_node(*which),
            Step::AddPod(template) => {
                let pod = self.new_pod(*template);
                self.set_pod(pod);
            }
            Step::ChangePod(which, template) => {
                if let Some(name) = self.pick_name(*which) {
                    let template = template.get(&self.templates).clone();
                    self.bring_claims(&name, &template.claims);
                    self.set_pod(pod_named(&name, &template));
                }
            }
            Step::RemovePod(which) => {
                if let Some(name) = self.pick_name(*which) {
                    self.pods.remove(&name);
                    self.engine.handle(gone(&name), self.now);
                }
            }
            Step::BindPod(which, node) => {
                if let Some(name) = self.pick_name(*which) {
                    let pod = bound(self.pods[&name].clone(), node);
                    self.set_pod(pod);
                }
            }
            Step::AddBoundPod(template, node) => {
                let pod = bound(self.new_pod(*template), node);
                self.set_pod(pod);
            }
            Step::AddPodForNode(template, node) => {
                let pod = bound(self.new_pod(*template), node);
                self.pods.insert(pod.metadata.name.clone(), pod.clone());
                self.engine.handle(Event::PodPending(pod), self.now);
            }
            Step::SetStorage(object) => {
                let event = Event::StorageChanged((**object).clone());
                self.engine.handle(event, self.now);
            }
            Step::RemoveStorage(kind, name) => self.remove_storage(*kind, name),
            Step::Claims(which, step) => {
                if let Some(name) = self.pick_name(*which) {
                    self.step_of_claims(&name, step);
                }
            }
            Step::ConfirmPod(which) => self.confirm_pod(*which, |_| {}),
            Step::StartPod(which, second) => {
                let time = format!("2026-01-01T00:00:0{second}Z");
                self.confirm_pod(*which, |pod| start(pod, time));
            }
            Step::StartDeletion(which) => self.confirm_pod(*which, |pod| {
                pod.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
            }),
            Step::SetBudget(budget) => {
                let budget = PodDisruptionBudget::clone(budget);
                self.note_budget(budget.clone());
                self.engine.handle(Event::BudgetChanged(budget), self.now);
            }
            Step::RemoveBudget(name) => {
                self.budgets.remove(*name);
                let event = Event::BudgetGone {
                    namespace: "default".into(),
                    name: (*name).into(),
                };
                self.engine.handle(event, self.now);
            }
            Step::SetPriorityClass(class) => {
                let class = PriorityClass::clone(class);
                let name = class.metadata.name.clone();
                self.priority_classes.insert(name, class.clone());
                let event = Event::PriorityClassChanged(class);
                self.engine.handle(event, self.now);
            }
            Step::RemovePriorityClass(name) => {
                self.priority_classes.remove(*name);
                let name = (*name).into();
                let event = Event::PriorityClassGone { name };
                self.engine.handle(event, self.now);
            }
            Step::SetService(app, is_there) => {
                let selector = if *is_there {
                    json!({"app": app})
                } else {
                    Value::Null
                };
                let service = json!({"metadata": {"namespace": "default", "name": app},
                    "spec": {"selector": selector}});
                let service = serde_json::from_value(service).expect("a service");
                self.engine.handle(Event::ServiceChanged(service), self.now);
            }
            Step::PassTime(nanos) => self.now += nanos,
            Step::Churn { node, times } => self.churn(node, *times),
            Step::Decide | Step::DecidePod(_) => {}
        }
    }

    fn pick_name(&self, which: Index) -> Option<String> {
        let count = self.pods.len();
        (count > 0).then(|| {
            self.pods
                .keys()
                .nth(which.index(count))
                .expect("there")
                .clone()
        })
    }

    fn new_pod(&mut self, template: Index) -> Pod {
        self.created += 1;
        let name = format!("p{}", self.created);
        let template = template.get(&self.templates).clone();
        self.bring_claims(&name, &template.claims);
        pod_named(&name, &template)
    }

    /// The claims come before their pod.
    fn bring_claims(&mut self, pod: &str, claims: &Claims) {
        for object in claims.objects(pod) {
            self.engine.handle(Event::StorageChanged(object), self.now);
        }
    }

    fn step_of_claims(&mut self, pod: &str, step: &StorageStep) {
        let engine = &self.engine;
        let id = engine.pod("default", pod);
        let node = match id.and_then(|id| engine.pod_state(id)) {
            Some(PodState::Placed(node)) => Some(engine.cluster().name(*node).to_owned()),
            _ => None,
        };
        for event in step.events(pod, node.as_deref()) {
            self.engine.handle(event, self.now);
        }
    }

    fn remove_storage(&mut self, kind: ObjectKind, name: &str) {
        let event = Event::StorageGone {
            kind,
            namespace: storage::namespace_of(kind).into(),
            name: name.into(),
        };
        self.engine.handle(event, self.now);
    }

    fn confirm_pod(&mut self, which: Index, change: impl FnOnce(&mut Pod)) {
        let Some(name) = self.pick_name(which) else {
            return;
        };
        let id = self.engine.pod("default", &name).expect("a known pod");
        if let Some(PodState::Placed(node)) = self.engine.pod_state(id) {
            let node = self.engine.cluster().name(*node).to_owned();
            let mut pod = bound(self.pods[&name].clone(), &node);
            change(&mut pod);
            self.set_pod(pod);
        }
    }

    fn set_pod(&mut self, pod: Pod) {
        self.pods.insert(pod.metadata.name.clone(), pod.clone());
        self.engine.handle(Event::PodChanged(pod), self.now);
    }

    fn remove_node(&mut self, which: Index) {
        if self.nodes.is_empty() {
            return;
        }
        let name = self
            .nodes
            .keys()
            .nth(which.index(self.nodes.len()))
            .expect("there")
            .clone();
        self.nodes.remove(&name);
        self.engine.handle(Event::NodeGone { name }, self.now);
    }

    fn churn(&mut self, node: &str, times: usize) {
        let pod = bound(pod_named("churn", &self.templates[0]), node);
        // It may have a port that others there have, and goes.
        self.set_pod(pod.clone());
        self.note_ports();
        self.pods.remove("churn");
        for _ in 0..times {
            self.engine.handle(Event::PodChanged(pod.clone()), self.now);
            self.engine.handle(gone("churn"), self.now);
        }
    }
}

/// Has a pod got its node and been started at a time.
fn start(pod: &mut Pod, time: String) {
    let condition = PodCondition {
        type_: "PodScheduled".into(),
        status: "True".into(),
        last_transition_time: Some(time.clone()),
        ..PodCondition::default()
    };
    pod.status.conditions.push(condition);
    pod.status.start_time = Some(time);
}

fn bound(mut pod: Pod, node: &str) -> Pod {
    std::sync::Arc::make_mut(&mut pod.spec).node_name = node.to_owned();
    pod
}

//! Workloads that keep running: ReplicationControllers and the kinds of `apps`.

use serde_json::Value;

use super::BuiltIn;
use super::cell::{self, NONE, integer, list, text};
use super::column::{
    AGE, CONTAINERS, Heading, IMAGES, NAME, SELECTOR, integer as integers, text as texts,
};

pub(super) static REPLICATION_CONTROLLERS: BuiltIn =
    BuiltIn::new(REPLICA_SET_COLUMNS, replication_controller_cells);

pub(super) static REPLICA_SETS: BuiltIn = BuiltIn::new(REPLICA_SET_COLUMNS, replica_set_cells);

const REPLICA_SET_COLUMNS: &[Heading] = &[
    NAME,
    integers("Desired", "How many pods there should be."),
    integers("Current", "How many pods there are."),
    integers("Ready", "How many pods are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) static DEPLOYMENTS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts(
            "Ready",
            "How many pods are ready, of how many that should be.",
        ),
        texts("Up-to-date", "How many pods are of the present template."),
        texts(
            "Available",
            "How many pods have been ready for long enough.",
        ),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    deployment_cells,
);

pub(super) static STATEFUL_SETS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts(
            "Ready",
            "How many pods are ready, of how many that should be.",
        ),
        AGE,
        CONTAINERS,
        IMAGES,
    ],
    stateful_set_cells,
);

pub(super) static DAEMON_SETS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        integers("Desired", "How many nodes should run the pod."),
        integers("Current", "How many nodes run it that should."),
        integers("Ready", "On how many nodes it is ready."),
        integers(
            "Up-to-date",
            "How many nodes run it by the present template.",
        ),
        integers(
            "Available",
            "On how many nodes it has been ready for long enough.",
        ),
        texts(
            "Node Selector",
            "The labels of the nodes that should run the pod.",
        ),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    daemon_set_cells,
);

pub(super) static CONTROLLER_REVISIONS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Controller", "The object that the revision is of."),
        texts("Revision", "The number of the revision."),
        AGE,
    ],
    controller_revision_cells,
);

fn replication_controller_cells(object: &Value, now_nanos: i64) -> Vec<Value> {
    replica_cells(object, now_nanos, cell::labels(&object["spec"]["selector"]))
}

fn replica_set_cells(object: &Value, now_nanos: i64) -> Vec<Value> {
    let selector = cell::selector(&object["spec"]["selector"]);
    replica_cells(object, now_nanos, selector)
}

fn replica_cells(object: &Value, now_nanos: i64, selector: String) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let pod_spec = &spec["template"]["spec"];
    cells![
        cell::name(object),
        integer(&spec["replicas"]),
        integer(&status["replicas"]),
        integer(&status["readyReplicas"]),
        cell::age(object, now_nanos),
        cell::container_names(pod_spec),
        cell::container_images(pod_spec),
        selector,
    ]
}

fn deployment_cells(deployment: &Value, now_nanos: i64) -> Vec<Value> {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    let pod_spec = &spec["template"]["spec"];
    // Unlike other kinds, a Deployment shows nothing if its selector says nothing.
    let selector = cell::selector_text(&spec["selector"]);
    cells![
        cell::name(deployment),
        ready(spec, status),
        integer(&status["updatedReplicas"]),
        integer(&status["availableReplicas"]),
        cell::age(deployment, now_nanos),
        cell::container_names(pod_spec),
        cell::container_images(pod_spec),
        selector.unwrap_or_else(|| "<invalid>".to_owned()),
    ]
}

fn stateful_set_cells(stateful_set: &Value, now_nanos: i64) -> Vec<Value> {
    let (spec, status) = (&stateful_set["spec"], &stateful_set["status"]);
    let pod_spec = &spec["template"]["spec"];
    cells![
        cell::name(stateful_set),
        ready(spec, status),
        cell::age(stateful_set, now_nanos),
        cell::container_names(pod_spec),
        cell::container_images(pod_spec),
    ]
}

fn ready(spec: &Value, status: &Value) -> String {
    let ready = integer(&status["readyReplicas"]);
    format!("{ready}/{}", integer(&spec["replicas"]))
}

fn daemon_set_cells(daemon_set: &Value, now_nanos: i64) -> Vec<Value> {
    let (spec, status) = (&daemon_set["spec"], &daemon_set["status"]);
    let pod_spec = &spec["template"]["spec"];
    cells![
        cell::name(daemon_set),
        integer(&status["desiredNumberScheduled"]),
        integer(&status["currentNumberScheduled"]),
        integer(&status["numberReady"]),
        integer(&status["updatedNumberScheduled"]),
        integer(&status["numberAvailable"]),
        cell::labels(&pod_spec["nodeSelector"]),
        cell::age(daemon_set, now_nanos),
        cell::container_names(pod_spec),
        cell::container_images(pod_spec),
        cell::selector(&spec["selector"]),
    ]
}

fn controller_revision_cells(revision: &Value, now_nanos: i64) -> Vec<Value> {
    cells![
        cell::name(revision),
        controller(revision).unwrap_or_else(|| NONE.to_owned()),
        integer(&revision["revision"]),
        cell::age(revision, now_nanos),
    ]
}

/// The controller of an object, such as `statefulset.apps/db`.
fn controller(object: &Value) -> Option<String> {
    let mut owners = list(&object["metadata"]["ownerReferences"]).iter();
    let owner = owners.find(|owner| cell::boolean(&owner["controller"]))?;
    let kind = text(&owner["kind"]).to_lowercase();
    let name = text(&owner["name"]);
    let (group, _) = text(&owner["apiVersion"])
        .split_once('/')
        .unwrap_or_default();
    Some(match (kind.as_str(), group) {
        ("", "") => name.to_owned(),
        (kind, "") => format!("{kind}/{name}"),
        (kind, group) => format!("{kind}.{}/{name}", group.to_lowercase()),
    })
}

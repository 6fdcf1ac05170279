//! Situations with quotas that surprised people, and what a cluster makes of them.

use std::collections::BTreeSet;

use outrank_admission::resource_quota::{
    self, Charge, GroupResource, Operation, QuotaObject, QuotaRequest, Refusal,
};
use outrank_api::defaults;
use outrank_api::types::{Pod, ResourceQuota};
use serde_json::{Value, json};

fn quota(name: &str, spec: Value) -> ResourceQuota {
    let quota = json!({"metadata": {"name": name, "namespace": "team"}, "spec": spec});
    serde_json::from_value(quota).expect("a quota")
}

fn pod(name: &str, spec: Value) -> Pod {
    let pod = json!({"metadata": {"name": name, "namespace": "team"}, "spec": spec});
    let mut pod = serde_json::from_value(pod).expect("a pod");
    defaults::default_pod(&mut pod);
    pod
}

/// A pod of a class that requests so much cpu.
fn cpu_pod(name: &str, class: &str, cpu: &str) -> Pod {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    pod(
        name,
        json!({"priorityClassName": class, "containers": [container]}),
    )
}

/// The namespace `team`.
#[derive(Default)]
struct Team {
    quotas: Vec<ResourceQuota>,
    pods: Vec<Pod>,
}

impl Team {
    /// A namespace with these pods, and quotas that have been counted.
    fn new(quotas: Vec<ResourceQuota>, pods: Vec<Pod>) -> Self {
        let mut team = Self { quotas, pods };
        team.count();
        team
    }

    fn count(&mut self) {
        let pods = GroupResource::new("", "pods");
        for quota in &mut self.quotas {
            let objects = self.pods.iter().map(|pod| (&pods, QuotaObject::Pod(pod)));
            if let Some(status) = resource_quota::status(quota, &BTreeSet::new(), objects, 0) {
                quota.status = status;
            }
        }
    }

    fn create(&mut self, pod: Pod) -> Result<(), Refusal> {
        let request = QuotaRequest {
            operation: Operation::Create,
            resource: &GroupResource::new("", "pods"),
            subresource: "",
            namespace: "team",
            object: QuotaObject::Pod(&pod),
            old_object: None,
            dry_run: false,
        };
        for charge in resource_quota::admit(&self.quotas, &[], &request, 0)? {
            self.quotas[charge.quota].status.used = charge.used;
        }
        self.pods.push(pod);
        Ok(())
    }

    fn used(&self, quota: usize, resource: &str) -> String {
        self.quotas[quota].status.used[resource].to_string()
    }
}

/// kubernetes/kubernetes#104335, #91320: three pods of low priority use up a quota. A pod of
/// high priority is not created, so it never comes to the scheduler, which could preempt them.
#[test]
fn priority_does_not_reach_through_quota() {
    let low = |number: u8| cpu_pod(&format!("low{number}"), "low", "333m");
    let all = quota("all", json!({"hard": {"requests.cpu": "1"}}));
    let mut team = Team::new(vec![all], vec![low(1), low(2), low(3)]);
    assert_eq!(team.used(0, "requests.cpu"), "999m");

    let refusal = team.create(cpu_pod("high", "high", "333m")).unwrap_err();
    assert_eq!((refusal.code(), refusal.reason()), (403, "Forbidden"));
    assert_eq!(
        refusal.to_string(),
        "pods \"high\" is forbidden: exceeded quota: all, requested: requests.cpu=333m, used: \
         requests.cpu=999m, limited: requests.cpu=1"
    );
    assert_eq!(team.pods.len(), 3, "no pod is stored, none is preempted");
}

/// The cure: a quota for each class, so that low priority cannot use up what is meant for high.
#[test]
fn a_quota_for_each_class_keeps_room_for_each() {
    let of_class = |class: &str| {
        let in_class = json!({"scopeName": "PriorityClass", "operator": "In", "values": [class]});
        let selector = json!({"matchExpressions": [in_class]});
        quota(
            class,
            json!({"hard": {"requests.cpu": "1"}, "scopeSelector": selector}),
        )
    };
    let mut team = Team::new(vec![of_class("low"), of_class("high")], Vec::new());
    for number in 1..=3 {
        let name = format!("low{number}");
        assert_eq!(team.create(cpu_pod(&name, "low", "333m")), Ok(()));
    }
    assert!(team.create(cpu_pod("low4", "low", "333m")).is_err());
    assert_eq!(team.create(cpu_pod("high", "high", "333m")), Ok(()));
    assert_eq!(team.used(0, "requests.cpu"), "999m");
    assert_eq!(team.used(1, "requests.cpu"), "333m");
}

/// kubernetes/kubernetes#117663: `pods` counts pods that have not ended, `count/pods` all that
/// are stored.
#[test]
fn pods_at_rest_count_as_objects() {
    let both = quota("both", json!({"hard": {"pods": "2", "count/pods": "2"}}));
    let mut done = cpu_pod("done", "", "1");
    done.status.phase = "Succeeded".to_owned();
    let mut running = cpu_pod("running", "", "1");
    running.status.phase = "Running".to_owned();
    let mut team = Team::new(vec![both], vec![done, running]);
    assert_eq!(team.used(0, "pods"), "1");
    assert_eq!(team.used(0, "count/pods"), "2");

    let refusal = team.create(cpu_pod("third", "", "1")).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "pods \"third\" is forbidden: exceeded quota: both, requested: count/pods=1, used: \
         count/pods=2, limited: count/pods=2"
    );
}

/// A pod that hangs on a lost node is charged until its grace period after its deletion is
/// over, and no longer.
#[test]
fn a_pod_that_should_be_gone_is_not_charged() {
    let mut stuck = cpu_pod("stuck", "", "1");
    stuck.metadata.deletion_timestamp = Some("1970-01-01T00:00:10Z".to_owned());
    stuck.metadata.deletion_grace_period_seconds = Some(30);
    let pods = GroupResource::new("", "pods");
    let charged_at = |seconds: i64| {
        let now = seconds * 1_000_000_000;
        resource_quota::object_usage(&pods, &QuotaObject::Pod(&stuck), now).contains_key("pods")
    };
    assert!(charged_at(40));
    assert!(!charged_at(41));
}

/// A quota that nobody has counted yet lets nothing through, since nobody knows.
#[test]
fn a_quota_without_a_status_counts_once_its_limits_are_in_force() {
    let mut fresh = quota("fresh", json!({"hard": {"pods": "1"}}));
    let mut team = Team::default();
    team.quotas.push(fresh.clone());
    assert_eq!(
        team.create(cpu_pod("first", "", "1")),
        Ok(()),
        "limits come with the status"
    );

    fresh.status.hard = fresh.spec.hard.clone();
    team.quotas = vec![fresh];
    let refusal = team.create(cpu_pod("second", "", "1")).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "pods \"second\" is forbidden: status unknown for quota: fresh, resources: pods"
    );
}

/// A quota on cpu or memory demands that every container states it, unless the pod as a whole
/// does.
#[test]
fn limited_cpu_must_be_stated() {
    let cpu = quota(
        "cpu",
        json!({"hard": {"requests.cpu": "1", "limits.cpu": "2"}}),
    );
    let mut team = Team::new(vec![cpu], Vec::new());
    let containers = json!([{"name": "b"}, {"name": "a"}]);
    let bare = pod("bare", json!({"containers": containers}));
    let refusal = team.create(bare).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "pods \"bare\" is forbidden: failed quota: cpu: must specify limits.cpu for: a,b; \
         requests.cpu for: a,b"
    );
    let whole = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
    let stated = pod(
        "stated",
        json!({"containers": containers, "resources": whole}),
    );
    assert_eq!(team.create(stated), Ok(()));
}

/// An update of a pod matters where it moves the pod into another scope: the pod is then charged
/// in full by a quota that did not count it before, and may be refused.
#[test]
fn a_deadline_moves_a_pod_into_another_quota() {
    let terminating = json!({"hard": {"pods": "1"}, "scopes": ["Terminating"]});
    let running = json!({"hard": {"pods": "9"}, "scopes": ["NotTerminating"]});
    let quotas = vec![quota("terminating", terminating), quota("running", running)];
    let spec = |deadline: Value| json!({"containers": [], "activeDeadlineSeconds": deadline});
    let mut old = pod("job", spec(Value::Null));
    old.metadata.resource_version = "7".to_owned();
    let new = pod("job", spec(json!(60)));
    let mut team = Team::new(quotas, vec![old.clone()]);

    let charges = update(&team, &old, &new, "").expect("there is room");
    assert_eq!(
        charges.len(),
        1,
        "the quota that it leaves is counted anew later"
    );
    assert_eq!(charges[0].quota, 0);
    assert_eq!(charges[0].used["pods"].to_string(), "1");

    team.pods.push(pod("other", spec(json!(60))));
    team.count();
    let refusal = update(&team, &old, &new, "").unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "pods \"job\" is forbidden: exceeded quota: terminating, requested: pods=1, used: pods=1, \
         limited: pods=1"
    );
}

/// A pod that is resized in place is charged the increase; any other update, even of its
/// requests, is not looked at.
#[test]
fn a_resize_is_charged_the_increase() {
    let cpu = quota("cpu", json!({"hard": {"requests.cpu": "1"}}));
    let mut old = cpu_pod("web", "", "400m");
    old.metadata.resource_version = "7".to_owned();
    let team = Team::new(vec![cpu], vec![old.clone()]);

    let charges = update(&team, &old, &cpu_pod("web", "", "900m"), "resize").expect("room");
    assert_eq!(charges[0].used["requests.cpu"].to_string(), "900m");
    let smaller = update(&team, &old, &cpu_pod("web", "", "100m"), "resize");
    assert_eq!(
        smaller,
        Ok(Vec::new()),
        "only counting anew finds that less is used"
    );
    let too_much = update(&team, &old, &cpu_pod("web", "", "1100m"), "resize").unwrap_err();
    assert_eq!(
        too_much.to_string(),
        "pods \"web\" is forbidden: exceeded quota: cpu, requested: requests.cpu=700m, used: \
         requests.cpu=400m, limited: requests.cpu=1"
    );
    assert_eq!(
        update(&team, &old, &cpu_pod("web", "", "1100m"), ""),
        Ok(Vec::new())
    );
    assert_eq!(
        update(&team, &old, &cpu_pod("web", "", "1100m"), "status"),
        Ok(Vec::new())
    );
}

fn update(team: &Team, old: &Pod, new: &Pod, subresource: &str) -> Result<Vec<Charge>, Refusal> {
    let request = QuotaRequest {
        operation: Operation::Update,
        resource: &GroupResource::new("", "pods"),
        subresource,
        namespace: "team",
        object: QuotaObject::Pod(new),
        old_object: Some(QuotaObject::Pod(old)),
        dry_run: false,
    };
    resource_quota::admit(&team.quotas, &[], &request, 0)
}

/// A quota whose condition is not valid (the API server takes it, as it does not look into
/// values) lets no pod through; objects of other kinds are in no scope and do not come to it.
#[test]
fn a_condition_that_is_not_valid_stops_pods() {
    let condition =
        json!({"scopeName": "PriorityClass", "operator": "In", "values": ["not valid"]});
    let selector = json!({"matchExpressions": [condition]});
    let odd = quota(
        "odd",
        json!({"hard": {"pods": "1"}, "scopeSelector": selector}),
    );
    let mut team = Team::new(vec![odd], Vec::new());
    let refusal = team.create(cpu_pod("web", "high", "1")).unwrap_err();
    assert_eq!((refusal.code(), refusal.reason()), (500, ""));
    let start = "error matching scopes of quota odd, err: error on matching scope {PriorityClass In \
                 [not valid]}: failed to parse and convert selector: values[0][PriorityClass]: \
                 Invalid value: \"not valid\": a valid label must";
    assert!(refusal.to_string().starts_with(start), "{refusal}");
}

#[test]
fn a_pod_that_is_resized_as_a_whole_counts_as_it_is_asked_for() {
    let resources = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
    let containers = json!([{"name": "c"}]);
    let mut pod = pod(
        "p",
        json!({"containers": containers, "resources": resources}),
    );
    let actual = json!({"requests": {"cpu": "3"}});
    pod.status.resources = serde_json::from_value(actual).expect("resources");
    let limited = json!({"hard": {"requests.cpu": "9"}});
    let team = Team::new(vec![quota("q", limited)], vec![pod]);
    assert_eq!(team.quotas[0].status.used["requests.cpu"].to_string(), "1");
}

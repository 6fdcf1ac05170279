//! Requests to write, of typed kinds and of others: what is stored, refused and warned of.

use outrank_admission::service_account::AccountSettings;
use outrank_admission::write::{Stamp, Written};
use outrank_admission::{
    AdmissionChain, Attributes, ClassRules, Cluster, Operation, PluginFlags, PriorityResolver,
    Writes,
};
use outrank_api::resource_type::ResourceType;
use outrank_api::status::Status;
use serde_json::{Value, json};

/// A cluster without anything but a service account for all pods.
struct Nothing(PriorityResolver, AccountSettings);

impl Cluster for Nothing {
    fn priority_classes(&self) -> &PriorityResolver {
        &self.0
    }

    fn service_account(&self, _: &str, name: &str) -> Option<AccountSettings> {
        (name != "missing").then(|| self.1.clone())
    }
}

const STAMP: Stamp<'static> = Stamp {
    now: "2026-01-01T00:00:00Z",
    uid: "u",
    suffix: "abcde",
    manager: "kubectl",
};

fn with_writes<T>(act: impl FnOnce(&Writes<'_>) -> T) -> T {
    with_account(AccountSettings::default(), act)
}

fn with_account<T>(account: AccountSettings, act: impl FnOnce(&Writes<'_>) -> T) -> T {
    let chain = AdmissionChain::default_plugins(&PluginFlags::default()).expect("no flags");
    let cluster = Nothing(PriorityResolver::new([]), account);
    act(&Writes {
        chain: &chain,
        classes: ClassRules::default(),
        cluster: &cluster,
    })
}

fn of(object: &Value) -> &'static ResourceType {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    ResourceType::of_kind(text("apiVersion"), text("kind")).expect("a kind")
}

fn create(object: Value) -> Result<Written, Status> {
    let resource = of(&object);
    let attributes = Attributes {
        namespace: if resource.is_namespaced { "shop" } else { "" },
        ..Attributes::of(Operation::Create, resource)
    };
    with_writes(|writes| writes.create(&attributes, object, STAMP))
}

fn made(object: Value) -> Value {
    let mut made = create(object).expect("created").value;
    made["metadata"]["resourceVersion"] = "1".into();
    made
}

fn update(live: &Value, subresource: &str, new: Value) -> Result<Written, Status> {
    let resource = of(live);
    let attributes = Attributes {
        namespace: if resource.is_namespaced { "shop" } else { "" },
        subresource,
        ..Attributes::of(Operation::Update, resource)
    };
    with_writes(|writes| writes.update(&attributes, live, new, STAMP))
}

fn changed(live: &Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut new = live.clone();
    change(&mut new);
    new
}

fn causes(status: Status) -> Vec<String> {
    let causes = status.details.expect("details").causes;
    let causes = causes.into_iter();
    causes
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

fn deployment() -> Value {
    let container = json!({"name": "c", "image": "i"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
           "spec": {"selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}},
                                 "spec": {"containers": [container]}}}})
}

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
           "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

#[test]
fn kinds_without_a_type_go_the_same_way() {
    let map = made(json!({"apiVersion": "v1", "kind": "ConfigMap",
                          "metadata": {"generateName": "m-", "labels": {}}, "data": {"k": "v"},
                          "immutable": true}));
    assert_eq!(map["metadata"]["name"], "m-abcde");
    assert_eq!(map["metadata"]["namespace"], "shop");
    assert_eq!(map["metadata"]["managedFields"][0]["manager"], "kubectl");
    assert!(map["metadata"].get("generation").is_none());
    let refused = update(&map, "", changed(&map, |map| map["data"]["k"] = "w".into()));
    assert_eq!(
        causes(refused.expect_err("refused")),
        ["data: Forbidden: field is immutable when `immutable` is set"]
    );
    let refused = create(json!({"apiVersion": "v1", "kind": "Secret",
                                "metadata": {"name": "A"}, "data": {"a b": ""}}));
    let causes = causes(refused.expect_err("refused"));
    assert_eq!(causes.len(), 2, "{causes:?}");
    assert!(causes[1].starts_with("data[a b]: Invalid value: \"a b\": a valid config key"));
}

#[test]
fn custom_resources_have_their_metadata_looked_at() {
    let resource = ResourceType {
        group: "example.com".into(),
        version: "v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
        singular: "widget".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        is_namespaced: true,
        verbs: Vec::new(),
        subresources: vec!["status".into()],
        type_name: None,
        schema: None,
    };
    let attributes = Attributes {
        namespace: "shop",
        ..Attributes::of(Operation::Create, &resource)
    };
    let body = json!({"metadata": {"name": "w"}, "spec": {"size": 0}, "status": {"ready": true}});
    let made = with_writes(|writes| writes.create(&attributes, body, STAMP));
    let mut made = made.expect("created").value;
    assert_eq!(made["spec"]["size"], 0);
    assert_eq!(made["apiVersion"], "example.com/v1");
    assert_eq!(made["metadata"]["generation"], 1);
    assert!(made.get("status").is_none());
    made["metadata"]["resourceVersion"] = "1".into();
    let attributes = Attributes {
        subresource: "status",
        ..Attributes::of(Operation::Update, &resource)
    };
    let new = changed(&made, |widget| {
        widget["spec"]["size"] = 7.into();
        widget["status"]["ready"] = true.into();
        widget["metadata"]["labels"] = json!({"a": "b"});
    });
    let attributes = Attributes {
        namespace: "shop",
        ..attributes
    };
    let updated = with_writes(|writes| writes.update(&attributes, &made, new, STAMP));
    let updated = updated.expect("updated").value;
    assert_eq!(updated["spec"], made["spec"]);
    assert_eq!(updated["status"]["ready"], true);
    assert!(updated["metadata"].get("labels").is_none());
    assert_eq!(updated["metadata"]["generation"], 1);
}

#[test]
fn a_new_pod_is_what_the_server_makes_of_it() {
    let mut body = pod();
    body["status"] = json!({"phase": "Running"});
    body["spec"]["nodeName"] = "".into();
    let pod = made(body);
    assert_eq!(
        pod["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
    assert!(pod["spec"].get("nodeName").is_none());
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
    assert_eq!(pod["spec"]["volumes"][0]["name"], "kube-api-access-abcde");
    let mount = &pod["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["name"], "kube-api-access-abcde");
    assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
}

#[test]
fn of_a_pod_little_can_be_changed() {
    let live = made(pod());
    let image = changed(&live, |pod| {
        pod["spec"]["containers"][0]["image"] = "i:2".into();
        pod["status"]["phase"] = "Failed".into();
    });
    let updated = update(&live, "", image).expect("updated").value;
    assert_eq!(updated["spec"]["containers"][0]["image"], "i:2");
    assert_eq!(updated["status"]["phase"], "Pending");
    assert_eq!(updated["metadata"]["generation"], 2);
    let class = changed(&live, |pod| pod["spec"]["hostname"] = "h".into());
    let refused = causes(update(&live, "", class).expect_err("refused"));
    let [cause] = refused.as_slice() else {
        panic!("{refused:?}")
    };
    let start = "spec: Forbidden: pod updates may not change fields other than \
                 `spec.containers[*].image`,`spec.initContainers[*].image`,";
    assert!(cause.starts_with(start), "{cause}");
    assert!(
        cause.contains("\n- \"Hostname\": null,\n+ \"Hostname\": \"h\",\n"),
        "{cause}"
    );
    let more = changed(&live, |pod| {
        pod["spec"]["containers"] = json!([]);
    });
    let refused = causes(update(&live, "", more).expect_err("refused"));
    let last = "spec.containers: Forbidden: pod updates may not add or remove containers";
    assert_eq!(refused.last().map(String::as_str), Some(last));
}

#[test]
fn the_status_is_written_by_itself() {
    let live = made(deployment());
    let new = changed(&live, |deployment| {
        deployment["spec"]["replicas"] = 7.into();
        deployment["status"]["replicas"] = 3.into();
        deployment["status"]["readyReplicas"] = 4.into();
    });
    let refused = update(&live, "status", new.clone()).expect_err("refused");
    assert_eq!(
        causes(refused),
        ["status.readyReplicas: Invalid value: 4: cannot be greater than status.replicas",]
    );
    let new = changed(&new, |it| it["status"]["readyReplicas"] = 3.into());
    let status = update(&live, "status", new.clone()).expect("updated").value;
    assert_eq!(status["spec"]["replicas"], 1);
    assert_eq!(status["status"]["replicas"], 3);
    assert_eq!(status["metadata"]["generation"], 1);
    let whole = update(&live, "", new).expect("updated").value;
    assert_eq!(whole["spec"]["replicas"], 7);
    assert_eq!(whole["status"], json!({}));
    assert_eq!(whole["metadata"]["generation"], 2);
}

#[test]
fn an_update_that_changes_nothing_is_none() {
    let live = made(deployment());
    let attributes = Attributes {
        namespace: "shop",
        ..Attributes::of(Operation::Update, of(&live))
    };
    let later = Stamp {
        now: "2026-01-02T00:00:00Z",
        ..STAMP
    };
    let again = with_writes(|writes| writes.update(&attributes, &live, live.clone(), later));
    assert_eq!(again.expect("updated").value, live);
}

#[test]
fn selectors_and_claims_stay() {
    let live = made(deployment());
    let other = changed(&live, |deployment| {
        deployment["spec"]["selector"]["matchLabels"]["app"] = "z".into();
    });
    assert_eq!(
        causes(update(&live, "", other).expect_err("refused")),
        [
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not \
             match template `labels`",
            "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"z\"}}: field is immutable",
        ]
    );
    let mut set = deployment();
    set["kind"] = "StatefulSet".into();
    set["spec"]["serviceName"] = "web".into();
    let live = made(set);
    let other = changed(&live, |set| set["spec"]["serviceName"] = "other".into());
    let refused = causes(update(&live, "", other).expect_err("refused"));
    let start = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas'";
    assert!(refused[0].starts_with(start), "{refused:?}");
}

#[test]
fn jobs_get_their_selector_and_keep_it() {
    let mut job = deployment();
    job["apiVersion"] = "batch/v1".into();
    job["kind"] = "Job".into();
    job["spec"]
        .as_object_mut()
        .expect("a spec")
        .remove("selector");
    let refused = causes(create(job.clone()).expect_err("refused"));
    assert_eq!(
        refused,
        [
            "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""
        ]
    );
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    let live = made(job);
    let uid = "batch.kubernetes.io/controller-uid";
    assert_eq!(live["spec"]["selector"]["matchLabels"][uid], "u");
    let other = changed(&live, |job| job["spec"]["completions"] = 2.into());
    assert_eq!(
        causes(update(&live, "", other).expect_err("refused")),
        ["spec.completions: Invalid value: 2: field is immutable"]
    );
}

#[test]
fn what_may_not_be_meant_is_warned_of() {
    let mut body = deployment();
    let variables = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    body["spec"]["template"]["spec"]["containers"][0]["env"] = variables;
    let written = create(body).expect("created");
    let warning = "spec.template.spec.containers[0].env[1]: hides previous definition of \"A\", \
                   which may be dropped when using apply";
    assert_eq!(written.warnings, [warning]);
    let mut live = written.value;
    live["metadata"]["resourceVersion"] = "1".into();
    let scaled = changed(&live, |it| it["spec"]["replicas"] = 2.into());
    let updated = update(&live, "", scaled).expect("updated");
    assert!(updated.warnings.is_empty());
}

#[test]
fn a_stale_update_is_a_conflict() {
    let live = made(deployment());
    let stale = changed(&live, |it| it["metadata"]["resourceVersion"] = "0".into());
    assert_eq!(update(&live, "", stale).expect_err("refused").code, 409);
}

/// What becomes of a new pod whose account has settings, or the answer.
fn pod_of(account: AccountSettings, pod: Value) -> Result<Value, String> {
    let attributes = Attributes {
        namespace: "shop",
        ..Attributes::of(Operation::Create, of(&pod))
    };
    let written = with_account(account, |writes| writes.create(&attributes, pod, STAMP));
    written.map(|it| it.value).map_err(|status| status.message)
}

#[test]
fn an_account_gives_what_a_pod_has_not() {
    let account = AccountSettings {
        image_pull_secrets: vec!["registry".to_owned()],
        ..AccountSettings::default()
    };
    let mut body = pod();
    body["spec"]["serviceAccountName"] = "".into();
    body["spec"]["imagePullSecrets"] = json!([]);
    body["spec"]["volumes"] = json!([{"name": "kube-api-access-mine", "emptyDir": {}}]);
    let made = pod_of(account, body).expect("a pod");
    assert_eq!(made["spec"]["serviceAccountName"], "default");
    assert_eq!(
        made["spec"]["imagePullSecrets"],
        json!([{"name": "registry"}])
    );
    // A volume that is called as ours is ours.
    let mount = &made["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["name"], "kube-api-access-mine");
    assert_eq!(made["spec"]["volumes"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_pod_without_a_name_yet_is_called_by_its_beginning() {
    let mut body = pod();
    body["metadata"] = json!({"generateName": "web-"});
    body["spec"]["serviceAccountName"] = "missing".into();
    assert_eq!(
        pod_of(AccountSettings::default(), body),
        Err(
            "pods \"web-\" is forbidden: error looking up service account shop/missing: \
             serviceaccount \"missing\" not found"
                .to_owned()
        )
    );
}

#[test]
fn an_account_may_enforce_which_secrets_its_pods_use() {
    let account = || AccountSettings {
        image_pull_secrets: vec!["registry".to_owned()],
        mountable_secrets: Some(vec!["listed".to_owned()]),
        ..AccountSettings::default()
    };
    let with = |change: &dyn Fn(&mut Value)| pod_of(account(), changed(&pod(), |it| change(it)));
    let refused = |why: &str, what: &str| {
        Err(format!(
            "pods \"p\" is forbidden: {why} is not allowed because service account default does \
             not reference that {what}"
        ))
    };
    let of_secret = |why: &str| refused(why, "secret");
    let volume = |secret: &str| {
        let volumes = json!([{"name": "v", "secret": {"secretName": secret}}]);
        with(&move |pod| pod["spec"]["volumes"] = volumes.clone())
    };
    assert!(volume("listed").is_ok());
    assert_eq!(
        volume("other"),
        of_secret("volume with secret.secretName=\"other\"")
    );
    let environment = json!([{"name": "E", "valueFrom":
        {"secretKeyRef": {"name": "other", "key": "k"}}}]);
    assert_eq!(
        with(&|pod| pod["spec"]["containers"][0]["env"] = environment.clone()),
        of_secret("container c with envVar E referencing secret.secretName=\"other\"")
    );
    let source = json!([{"secretRef": {"name": "other"}}]);
    assert_eq!(
        with(&|pod| pod["spec"]["containers"][0]["envFrom"] = source.clone()),
        of_secret("container c with envFrom referencing secret.secretName=\"other\"")
    );
    assert_eq!(
        with(&|pod| pod["spec"]["imagePullSecrets"] = json!([{"name": "other"}])),
        refused("imagePullSecrets[0].name=\"other\"", "imagePullSecret")
    );
}

#[test]
fn a_mirror_pod_has_no_account_and_no_secrets() {
    let mut mirror = pod();
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
    mirror["spec"]["nodeName"] = "node-1".into();
    let made = pod_of(AccountSettings::default(), mirror.clone()).expect("a pod");
    assert!(made["spec"].get("serviceAccountName").is_none());
    assert!(made["spec"].get("volumes").is_none());
    let refused = |change: &dyn Fn(&mut Value)| {
        pod_of(
            AccountSettings::default(),
            changed(&mirror, |it| change(it)),
        )
    };
    let why = |why: &str| {
        Err(format!(
            "pods \"p\" is forbidden: a mirror pod may not {why}"
        ))
    };
    assert_eq!(
        refused(&|pod| pod["spec"]["serviceAccountName"] = "a".into()),
        why("reference service accounts")
    );
    let volumes = |source: Value| json!([{"name": "v", "projected": {"sources": [source]}}]);
    let secret = volumes(json!({"secret": {"name": "s"}}));
    assert_eq!(
        refused(&|pod| pod["spec"]["volumes"] = secret.clone()),
        why("reference secrets")
    );
    let token = volumes(json!({"serviceAccountToken": {"path": "t"}}));
    assert_eq!(
        refused(&|pod| pod["spec"]["volumes"] = token.clone()),
        why("use ServiceAccountToken volume projections")
    );
}

#[test]
fn a_pod_with_gates_says_why_it_waits() {
    let mut body = pod();
    body["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    let condition = &made(body)["status"]["conditions"][0];
    assert_eq!(condition["type"], "PodScheduled");
    assert_eq!(condition["status"], "False");
    assert_eq!(condition["reason"], "SchedulingGated");
    assert_eq!(
        condition["message"],
        "Scheduling is blocked due to non-empty scheduling gates"
    );
    assert_eq!(condition["lastTransitionTime"], STAMP.now);
}

#[test]
fn the_status_of_a_pod_keeps_of_which_generation_it_is() {
    let mut live = made(pod());
    live["status"] = json!({"phase": "Running", "qosClass": "BestEffort", "observedGeneration": 1,
    "conditions": [
        {"type": "Ready", "status": "True", "observedGeneration": 1},
        {"type": "Mine", "status": "True"},
    ]});
    let new = changed(&live, |pod| {
        pod["status"] = json!({"phase": "Running", "conditions": [
            {"type": "Mine", "status": "False"},
            {"type": "Ready", "status": "False"},
        ]});
    });
    let status = update(&live, "status", new).expect("updated").value["status"].clone();
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(status["conditions"][0].get("observedGeneration"), None);
    assert_eq!(status["conditions"][1]["observedGeneration"], 1);
}

#[test]
fn a_resize_changes_resources_and_nothing_else() {
    let mut body = pod();
    let cpu = |amount: &str| json!({"requests": {"cpu": amount}, "limits": {"cpu": amount}});
    body["spec"]["containers"][0]["resources"] = cpu("1");
    let live = made(body);
    let new = changed(&live, |pod| {
        pod["metadata"]["labels"] = json!({"a": "b"});
        pod["spec"]["containers"][0]["resources"] = cpu("2");
        pod["spec"]["containers"][0]["image"] = "other".into();
    });
    let updated = update(&live, "resize", new).expect("updated").value;
    assert!(updated["metadata"].get("labels").is_none());
    assert_eq!(
        updated["spec"]["containers"][0]["image"],
        live["spec"]["containers"][0]["image"]
    );
    assert_eq!(updated["spec"]["containers"][0]["resources"], cpu("2"));
}

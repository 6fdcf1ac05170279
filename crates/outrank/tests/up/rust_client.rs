//! kube-rs, the client library of Rust programs, without special settings.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams, PostParams,
    Preconditions,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Config, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::Running;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(100);

/// Runs a test against a cluster.
fn with_client<F: Future>(arguments: &[&str], test: impl FnOnce(Client) -> F) {
    let cluster = Running::start(arguments);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let client = Client::try_from(config.expect("a configuration")).expect("a client");
        let ended = tokio::time::timeout(PATIENCE, test(client)).await;
        ended.expect("in time");
    });
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object of the type")
}

fn map(name: &str, value: &str) -> ConfigMap {
    object(json!({"metadata": {"name": name, "labels": {"of": "test"}}, "data": {"a": value}}))
}

fn deployment(replicas: usize) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

/// The status with which a request was refused.
fn refusal<T: std::fmt::Debug>(outcome: kube::Result<T>) -> (u16, String) {
    match outcome {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone()),
        other => panic!("it was not refused: {other:?}"),
    }
}

fn is(code: u16, reason: &str) -> (u16, String) {
    (code, reason.to_owned())
}

#[test]
fn objects_are_made_changed_and_deleted() {
    with_client(&["--nodes", "0"], |client| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        let post = PostParams::default();
        let made = maps.create(&post, &map("a", "1")).await.expect("made");
        assert_eq!(
            refusal(maps.create(&post, &map("a", "1")).await),
            is(409, "AlreadyExists")
        );

        let patch = PatchParams::default();
        let merge = Patch::Merge(json!({"data": {"b": "2"}}));
        let merged = maps.patch("a", &patch, &merge).await.expect("patched");
        assert_eq!(merged.data.as_ref().map(|it| it.len()), Some(2));
        let strategic = Patch::Strategic(json!({"data": {"$patch": "replace", "c": "3"}}));
        let merged = maps.patch("a", &patch, &strategic).await.expect("patched");
        assert_eq!(merged.data.as_ref().map(|it| it.len()), Some(1));

        // An old version is not replaced.
        assert_eq!(
            refusal(maps.replace("a", &post, &made).await),
            is(409, "Conflict")
        );
        let replaced = maps.replace("a", &post, &merged).await.expect("replaced");

        let only = |preconditions| DeleteParams::default().preconditions(preconditions);
        let other = Preconditions {
            uid: Some("another".to_owned()),
            ..Preconditions::default()
        };
        assert_eq!(
            refusal(maps.delete("a", &only(other)).await),
            is(409, "Conflict")
        );
        let old = Preconditions {
            resource_version: made.resource_version(),
            ..Preconditions::default()
        };
        assert_eq!(
            refusal(maps.delete("a", &only(old)).await),
            is(409, "Conflict")
        );
        let this = Preconditions {
            uid: replaced.uid(),
            resource_version: replaced.resource_version(),
        };
        maps.delete("a", &only(this)).await.expect("deleted");
        assert!(maps.get_opt("a").await.expect("asked").is_none());
        assert_eq!(refusal(maps.get("a").await), is(404, "NotFound"));
    });
}

#[test]
fn who_applies_owns_what_he_says() {
    with_client(&["--nodes", "0"], |client| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        let config = |value: &str| {
            Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a"}, "data": {"a": value}}))
        };
        let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
        maps.patch("a", &one, &config("1")).await.expect("made");
        maps.patch("a", &two, &config("1"))
            .await
            .expect("they agree");
        let refused = maps.patch("a", &two, &config("2")).await;
        match &refused {
            Err(kube::Error::Api(status)) => {
                let details = status.details.as_ref().expect("details");
                assert_eq!(details.causes[0].field, ".data.a", "{status:?}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(refusal(refused), is(409, "Conflict"));
        let forced = maps.patch("a", &two.clone().force(), &config("2")).await;
        let owners = forced
            .expect("forced")
            .metadata
            .managed_fields
            .unwrap_or_default();
        let owners: Vec<_> = owners
            .iter()
            .filter_map(|it| it.manager.as_deref())
            .collect();
        assert_eq!(owners, ["two"]);
        // A dry run changes nothing.
        let dry = PatchParams {
            dry_run: true,
            ..two
        };
        let told = maps.patch("a", &dry, &config("3")).await.expect("applied");
        let kept = maps.get("a").await.expect("it is there");
        assert_eq!(told.data.unwrap_or_default()["a"], "3");
        assert_eq!(kept.data.unwrap_or_default()["a"], "2");
    });
}

#[test]
fn long_lists_come_in_pieces() {
    with_client(&["--nodes", "0"], |client| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        let name = |number: usize| format!("m{number:03}");
        for number in 0..105 {
            let made = maps
                .create(&PostParams::default(), &map(&name(number), "1"))
                .await;
            made.expect("made");
        }
        let mut names = Vec::new();
        let mut pieces = 0;
        let mut params = ListParams::default().labels("of=test").limit(20);
        loop {
            let piece = maps.list(&params).await.expect("listed");
            names.extend(piece.items.iter().map(ResourceExt::name_any));
            pieces += 1;
            // What happens meanwhile is not in the pieces.
            let late = map(&format!("n{pieces}"), "late");
            maps.create(&PostParams::default(), &late)
                .await
                .expect("made");
            match piece.metadata.continue_.filter(|it| !it.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        assert_eq!(names, (0..105).map(name).collect::<Vec<_>>());
        assert_eq!(pieces, 6);
        let one = ListParams::default().fields("metadata.name=m007");
        assert_eq!(maps.list(&one).await.expect("listed").items.len(), 1);
    });
}

/// The next events, with names of objects, up to a number of them.
async fn events<K: ResourceExt>(
    stream: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
    count: usize,
) -> Vec<String> {
    let mut told = Vec::new();
    while told.len() < count {
        let event = stream.next().await.expect("the watch goes on");
        told.push(match event.expect("no error") {
            Event::Init => "init".to_owned(),
            Event::InitApply(it) => format!("init {}", it.name_any()),
            Event::InitDone => "init done".to_owned(),
            Event::Apply(it) => format!("apply {}", it.name_any()),
            Event::Delete(it) => format!("delete {}", it.name_any()),
        });
    }
    told
}

#[test]
fn watchers_follow_what_happens() {
    with_client(&["--nodes", "0"], |client| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let post = PostParams::default();
        for name in ["a", "b", "c"] {
            maps.create(&post, &map(name, "1")).await.expect("made");
        }
        let of_test = || watcher::Config::default().labels("of=test");
        let configs = [
            of_test(),
            of_test().streaming_lists(),
            of_test().page_size(1),
        ];
        for (round, config) in configs.into_iter().enumerate() {
            let mut stream = pin!(watcher(maps.clone(), config));
            let start = events(&mut stream, 5).await;
            assert_eq!(start, ["init", "init a", "init b", "init c", "init done"]);
            maps.create(&post, &map("d", "1")).await.expect("made");
            let leave = Patch::Merge(json!({"metadata": {"labels": {"of": "other"}}}));
            // What changes nothing is not told.
            let change = Patch::Merge(json!({"data": {"round": round.to_string()}}));
            let patch = PatchParams::default();
            maps.patch("a", &patch, &change).await.expect("changed");
            maps.patch("d", &patch, &leave).await.expect("changed");
            let told = events(&mut stream, 3).await;
            assert_eq!(told, ["apply d", "apply a", "delete d"]);
            maps.delete("d", &DeleteParams::default())
                .await
                .expect("deleted");
        }
    });
}

#[test]
fn pods_run_are_scaled_and_evicted() {
    with_client(&["--nodes", "2"], |client| async move {
        let nodes: Api<Node> = Api::all(client.clone());
        assert_eq!(
            nodes
                .list(&ListParams::default())
                .await
                .expect("listed")
                .items
                .len(),
            2
        );
        let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
        let pods: Api<Pod> = Api::default_namespaced(client);
        let web: Deployment = object(deployment(2));
        deployments
            .create(&PostParams::default(), &web)
            .await
            .expect("made");
        let done = conditions::is_deployment_completed();
        await_condition(deployments.clone(), "web", done)
            .await
            .expect("it is rolled out");

        let patch = PatchParams::default();
        let three = Patch::Merge(json!({"spec": {"replicas": 3}}));
        let scale = deployments
            .patch_scale("web", &patch, &three)
            .await
            .expect("scaled");
        assert_eq!(scale.spec.and_then(|it| it.replicas), Some(3));
        let has_three = |it: Option<&Deployment>| {
            let status = it.and_then(|it| it.status.as_ref());
            status.and_then(|it| it.ready_replicas) == Some(3)
        };
        await_condition(deployments.clone(), "web", has_three)
            .await
            .expect("three run");

        // The status is a matter of its own.
        let both = Patch::Merge(json!({"spec": {"replicas": 9}, "status": {"collisionCount": 7}}));
        let told = deployments
            .patch_status("web", &patch, &both)
            .await
            .expect("patched");
        assert_eq!(told.spec.and_then(|it| it.replicas), Some(3));

        let list = pods
            .list(&ListParams::default().labels("app=web"))
            .await
            .expect("listed");
        let pod = &list.items[0];
        await_condition(pods.clone(), &pod.name_any(), conditions::is_pod_running())
            .await
            .expect("it runs");
        let (name, uid) = (pod.name_any(), pod.uid().expect("a uid"));
        pods.evict(&name, &EvictParams::default())
            .await
            .expect("evicted");
        await_condition(pods.clone(), &name, conditions::is_deleted(&uid))
            .await
            .expect("gone");

        let whole = DeleteParams::foreground();
        let going = deployments.delete("web", &whole).await.expect("deleted");
        let going = going.left().expect("it waits for its pods");
        assert!(
            going
                .finalizers()
                .iter()
                .any(|it| it == "foregroundDeletion")
        );
        let uid = going.uid().expect("a uid");
        await_condition(deployments, "web", conditions::is_deleted(&uid))
            .await
            .expect("gone");
        let left = pods
            .list(&ListParams::default().labels("app=web"))
            .await
            .expect("listed");
        let is_going = |it: &Pod| it.metadata.deletion_timestamp.is_some();
        assert!(left.items.iter().all(is_going), "{:?}", left.items);
    });
}

#[test]
fn custom_objects_are_objects() {
    with_client(&["--nodes", "0"], |client| async move {
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let definition = json!({"metadata": {"name": "boats.sea.example"},
        "spec": {"group": "sea.example", "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                    "status": {"type": "object", "properties": {"at": {"type": "string"}}},
                }}}}]}});
        definitions
            .create(&PostParams::default(), &object(definition))
            .await
            .expect("made");
        let name = "boats.sea.example";
        await_condition(definitions.clone(), name, conditions::is_crd_established())
            .await
            .expect("established");

        let kind = GroupVersionKind::gvk("sea.example", "v1", "Boat");
        let (resource, _) = kube::discovery::pinned_kind(&client, &kind)
            .await
            .expect("found");
        assert_eq!(resource, ApiResource::from_gvk_with_plural(&kind, "boats"));
        let boats: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
        let mut stream = pin!(watcher(boats.clone(), watcher::Config::default()));
        assert_eq!(events(&mut stream, 2).await, ["init", "init done"]);
        let boat = json!({"apiVersion": "sea.example/v1", "kind": "Boat",
            "metadata": {"name": "b"}, "spec": {"size": 3}});
        let applied = boats
            .patch("b", &PatchParams::apply("me"), &Patch::Apply(boat))
            .await;
        assert_eq!(applied.expect("applied").data["spec"], json!({"size": 3}));
        let wrong = Patch::Merge(json!({"spec": {"size": "large"}}));
        let patch = PatchParams::default();
        assert_eq!(
            refusal(boats.patch("b", &patch, &wrong).await),
            is(422, "Invalid")
        );
        let status = Patch::Merge(json!({"spec": {"size": 9}, "status": {"at": "sea"}}));
        let told = boats
            .patch_status("b", &patch, &status)
            .await
            .expect("patched");
        assert_eq!(
            (&told.data["spec"]["size"], &told.data["status"]["at"]),
            (&json!(3), &json!("sea"))
        );
        boats
            .delete("b", &DeleteParams::default())
            .await
            .expect("deleted");
        assert_eq!(
            events(&mut stream, 3).await,
            ["apply b", "apply b", "delete b"]
        );
    });
}

/// Who takes part in an election: takes the lease, or renews it.
struct Candidate {
    name: &'static str,
    leases: Api<Lease>,
    /// As it was seen last.
    seen: Option<Lease>,
    renewals: u32,
}

impl Candidate {
    async fn look(&mut self) {
        self.seen = self.leases.get_opt("leader").await.expect("asked");
    }

    /// Takes the lease as it was seen; with the code of a refusal.
    async fn take(&mut self) -> Result<(), u16> {
        let post = PostParams::default();
        // A write that changes nothing makes no version, so every renewal has its own time.
        self.renewals += 1;
        let renewed = format!("2026-01-01T00:00:{:02}.000000Z", self.renewals);
        let spec = json!({"holderIdentity": self.name, "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": renewed});
        let outcome = match &self.seen {
            None => {
                let lease = object(json!({"metadata": {"name": "leader"}, "spec": spec}));
                self.leases.create(&post, &lease).await
            }
            Some(seen) => {
                let mut lease = seen.clone();
                lease.spec = Some(object(spec));
                self.leases.replace("leader", &post, &lease).await
            }
        };
        match outcome {
            Ok(lease) => {
                self.seen = Some(lease);
                Ok(())
            }
            Err(error) => Err(refusal::<Lease>(Err(error)).0),
        }
    }
}

#[test]
fn one_of_two_candidates_leads() {
    with_client(&["--nodes", "0"], |client| async move {
        let candidate = |name| Candidate {
            name,
            leases: Api::default_namespaced(client.clone()),
            seen: None,
            renewals: 0,
        };
        let (mut one, mut two) = (candidate("one"), candidate("two"));
        one.look().await;
        two.look().await;
        assert_eq!(one.take().await, Ok(()));
        assert_eq!(two.take().await, Err(409));
        two.look().await;
        assert_eq!(one.take().await, Ok(()), "it renews");
        assert_eq!(two.take().await, Err(409), "what it saw is old");
        two.look().await;
        assert_eq!(two.take().await, Ok(()), "it takes over");
        assert_eq!(one.take().await, Err(409), "it leads no more");
        one.look().await;
        let spec = one.seen.and_then(|it| it.spec);
        assert_eq!(
            spec.and_then(|it| it.holder_identity).as_deref(),
            Some("two")
        );
    });
}

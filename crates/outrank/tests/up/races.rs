//! Many clients that want the same at once.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Api;
use crate::cluster::Running;

const CLIENTS: usize = 8;

/// Has clients do the same at once, each with its number; what came of it, of all.
fn at_once<T: Send>(api: &Api, does: impl Fn(Api, usize) -> Vec<T> + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let does = &does;
        let clients = (0..CLIENTS).map(|number| {
            let api = api.clone();
            scope.spawn(move || does(api, number))
        });
        let clients: Vec<_> = clients.collect();
        let outcomes = clients.into_iter();
        outcomes
            .flat_map(|client| client.join().expect("the client"))
            .collect()
    })
}

fn counts(statuses: &[u16]) -> BTreeMap<u16, usize> {
    let mut counts = BTreeMap::new();
    for status in statuses {
        *counts.entry(*status).or_default() += 1;
    }
    counts
}

fn wait_for(api: &Api, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..6_000 {
        let object = api.get(path);
        if is_so(&object) {
            return object;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{path} stays as it is: {:#}", api.get(path));
}

#[test]
fn of_two_who_change_one_version_one_is_refused() {
    const TIMES: usize = 25;
    let cluster = Running::start(&["--nodes", "0"]);
    let api = cluster.api();
    let maps = "/api/v1/namespaces/default/configmaps";
    let counter = format!("{maps}/counter");
    let new = json!({"metadata": {"name": "counter"}, "data": {"count": "0"}});
    assert_eq!(api.write("POST", maps, &new).0, 201);
    let statuses = at_once(&api, |api, _| {
        let mut statuses = Vec::new();
        let mut done = 0;
        while done < TIMES {
            let mut map = api.get(&counter);
            let count = map["data"]["count"].as_str().and_then(|it| it.parse().ok());
            let count: usize = count.expect("a number");
            map["data"]["count"] = (count + 1).to_string().into();
            let (status, answer) = api.write("PUT", &counter, &map);
            assert!(matches!(status, 200 | 409), "{status} {answer}");
            done += usize::from(status == 200);
            statuses.push(status);
        }
        statuses
    });
    println!("compare and swap: {:?}", counts(&statuses));
    let count = api.get(&counter)["data"]["count"].clone();
    assert_eq!(count, (CLIENTS * TIMES).to_string());
}

#[test]
fn a_quota_lets_as_many_in_as_it_says() {
    let cluster = Running::start(&["--nodes", "0"]);
    let api = cluster.api();
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "50"}}});
    assert_eq!(api.write("POST", quotas, &quota).0, 201);
    let path = format!("{quotas}/few");
    wait_for(&api, &path, |it| it["status"]["hard"]["pods"] == "50");
    let statuses = at_once(&api, |api, client| {
        let pods = "/api/v1/namespaces/default/pods";
        let create = |number: usize| {
            let pod = json!({"metadata": {"name": format!("p{client}-{number}")},
                "spec": {"containers": [{"name": "c", "image": "i"}]}});
            let (status, answer) = api.write("POST", pods, &pod);
            if status == 403 {
                let message = answer["message"].as_str().unwrap_or_default();
                assert!(message.contains("exceeded quota: few"), "{answer}");
            }
            status
        };
        (0..200 / CLIENTS).map(create).collect()
    });
    assert_eq!(counts(&statuses), BTreeMap::from([(201, 50), (403, 150)]));
    wait_for(&api, &path, |it| it["status"]["used"]["pods"] == "50");
    let pods = api.get("/api/v1/namespaces/default/pods");
    assert_eq!(pods["items"].as_array().map(Vec::len), Some(50));
}

#[test]
fn a_budget_is_not_spent_twice() {
    const PODS: usize = 20;
    const ALLOWED: usize = 6;
    let cluster = Running::start(&["--nodes", "3"]);
    let api = cluster.api();
    let pods = "/api/v1/namespaces/default/pods";
    for number in 0..PODS {
        let pod = json!({"metadata": {"name": format!("p{number}"), "labels": {"app": "a"}},
            "spec": {"terminationGracePeriodSeconds": 0,
                     "containers": [{"name": "c", "image": "i"}]}});
        assert_eq!(api.write("POST", pods, &pod).0, 201);
    }
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "b"}, "spec": {
        "minAvailable": PODS - ALLOWED, "selector": {"matchLabels": {"app": "a"}}}});
    assert_eq!(api.write("POST", budgets, &budget).0, 201);
    let path = format!("{budgets}/b");
    wait_for(&api, &path, |it| {
        it["status"]["disruptionsAllowed"] == ALLOWED
    });
    let statuses = at_once(&api, |api, client| {
        let evict = |number: usize| {
            let name = format!("p{}", (number + client * 3) % PODS);
            let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": name}});
            let (status, answer) = api.write("POST", &format!("{pods}/{name}/eviction"), &eviction);
            assert!(matches!(status, 201 | 404 | 429), "{status} {answer}");
            status
        };
        (0..PODS).map(evict).collect()
    });
    let counts = counts(&statuses);
    println!("evictions: {counts:?}");
    let left = wait_for(&api, pods, |it| {
        it["items"]
            .as_array()
            .is_some_and(|it| it.len() <= PODS - ALLOWED)
    });
    assert_eq!(left["items"].as_array().map(Vec::len), Some(PODS - ALLOWED));
    // A pod that is going may be evicted again, which costs nothing.
    assert!(
        counts.get(&201).is_some_and(|it| *it >= ALLOWED),
        "{counts:?}"
    );
    assert!(counts.contains_key(&429), "{counts:?}");
}

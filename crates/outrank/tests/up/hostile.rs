//! Clients that send nonsense are refused, and others are answered all the while.

use std::io::{Read, Write};
use std::time::Instant;

use serde_json::{Value, json};

use crate::attacks;
use crate::cluster::{Bystander, Running};
use crate::connection::{Access, Heard, request};

/// How much memory the program may take in the end, in MiB. All attacks together hold less than a
/// tenth of it in bodies.
const MEMORY_MIB_MAX: u64 = 1_000;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn nonsense_is_refused_with_the_right_status() {
    let cluster = Running::start(&["--nodes", "1"]);
    let api = cluster.api();
    for (path, object) in attacks::victims() {
        let (status, answer) = api.write("POST", path, &object);
        assert_eq!(status, 201, "{answer}");
    }
    let bystander = Bystander::start(&cluster);
    let mut wrong = Vec::new();
    for attack in attacks::all() {
        let begun = Instant::now();
        let headers = [
            ("content-type", attack.content_type),
            ("accept", "application/json"),
        ];
        let answer = api.send(attack.method, &attack.path, &headers, attack.body);
        let (status, body) = match &answer {
            Ok(answer) => (answer.status, answer.json()),
            Err(error) => (0, Value::from(error.as_str())),
        };
        let took = begun.elapsed();
        if took.as_millis() > 500 {
            println!(
                "{}: {status} after {took:.1?}, {} MiB",
                attack.what,
                cluster.memory_mib()
            );
        }
        let is_status = status < 400
            || body["kind"] == "Status" && body["status"] == "Failure" && body["code"] == status;
        if !attack.statuses.contains(&status) || !is_status {
            let shown: String = body.to_string().chars().take(300).collect();
            wrong.push(format!(
                "{}: {status} instead of {:?}: {shown}",
                attack.what, attack.statuses
            ));
        }
    }
    let (answered, longest) = bystander.end();
    let memory = cluster.memory_mib();
    println!(
        "nonsense: a bystander was answered {answered} times, after {longest:.1?} at most; {memory} MiB"
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(memory < MEMORY_MIB_MAX, "{memory} MiB");
    // What was done to them did not make them unreadable.
    for (path, object) in attacks::victims() {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let found = api.get(&format!("{path}/{name}"));
        assert_eq!(found["metadata"]["name"], name);
    }
}

#[test]
fn bodies_beyond_the_limit_are_refused_before_they_are_read() {
    let cluster = Running::start(&["--nodes", "0"]);
    let access = Access::of(&cluster);
    let announced = |bytes: usize| {
        let headers = format!("content-type: application/json\r\ncontent-length: {bytes}\r\n");
        request("POST", MAPS, &headers)
    };
    // Nothing follows the head: the announcement is enough.
    let heard = access
        .exchange(&announced(3 * 1024 * 1024 + 1))
        .expect("an answer");
    check(&heard, 413);
    let mut whole = announced(4 << 20);
    whole.resize(whole.len() + (4 << 20), b' ');
    check(&access.exchange(&whole).expect("an answer"), 413);

    let headers = "content-type: application/json\r\ntransfer-encoding: chunked\r\n";
    let mut chunked = request("POST", MAPS, headers);
    for _ in 0..64 {
        chunked.extend_from_slice(b"10000\r\n");
        chunked.resize(chunked.len() + 0x10000, b' ');
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    check(&access.exchange(&chunked).expect("an answer"), 413);

    // As large as may be.
    let mut map = br#"{"metadata":{"name":"large"},"data":{"a":"b"}}"#.to_vec();
    map.resize(3 * 1024 * 1024, b' ');
    let mut fits = announced(map.len());
    fits.extend_from_slice(&map);
    assert_eq!(access.exchange(&fits).expect("an answer").status, 201);
}

fn check(heard: &Heard, status: u16) {
    assert_eq!(heard.status, status, "{heard:?}");
    let body: Value = serde_json::from_slice(&heard.body).expect("a Status");
    assert_eq!(
        (&body["kind"], &body["code"]),
        (&json!("Status"), &json!(status))
    );
}

#[test]
fn who_has_no_credentials_gets_no_further() {
    let cluster = Running::start(&["--nodes", "0"]);
    let access = Access::of(&cluster);
    let nobody = access.anonymous();
    for authorization in [
        "Bearer x",
        "bearer eyJhbGciOiJub25lIn0.e30.",
        "Bearer a.b.c.d",
        "Bearer \u{e4}\u{f6}",
        &format!("Bearer {}", "x".repeat(20_000)),
    ] {
        let headers = format!("authorization: {authorization}\r\n");
        let heard = nobody.exchange(&request("GET", MAPS, &headers));
        check(&heard.expect("an answer"), 401);
    }
    for (method, path) in [
        ("GET", MAPS),
        ("GET", "/metrics"),
        ("GET", "/api"),
        ("POST", MAPS),
    ] {
        check(
            &nobody
                .exchange(&request(method, path, ""))
                .expect("an answer"),
            403,
        );
    }
    let impersonated = request("GET", MAPS, "impersonate-user: outrank-admin\r\n");
    check(&nobody.exchange(&impersonated).expect("an answer"), 403);
    // His body is not waited for.
    let headers = "content-type: application/json\r\ncontent-length: 3000000\r\n";
    check(
        &nobody
            .exchange(&request("POST", MAPS, headers))
            .expect("an answer"),
        403,
    );
    let heard = nobody
        .exchange(&request("GET", "/healthz", ""))
        .expect("an answer");
    assert_eq!((heard.status, heard.body.as_slice()), (200, &b"ok"[..]));

    // Who shows a certificate of another authority is not spoken to.
    let other = Running::start(&["--nodes", "0"]);
    let stranger = Access {
        identity: Access::of(&other).identity,
        ..access.clone()
    };
    assert!(stranger.exchange(&request("GET", MAPS, "")).is_err());
    // And who trusts another authority does not speak.
    let deceived = Access {
        ca_pem: Access::of(&other).ca_pem,
        ..access.clone()
    };
    assert!(deceived.tls().is_err());
    assert_eq!(
        access
            .exchange(&request("GET", MAPS, ""))
            .expect("an answer")
            .status,
        200
    );
}

#[test]
fn what_is_no_tls_ends_the_connection() {
    let cluster = Running::start(&["--nodes", "0"]);
    let access = Access::of(&cluster);
    let bystander = Bystander::start(&cluster);
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let said: [&[u8]; 6] = [
        b"GET /api HTTP/1.1\r\nhost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0; 1000],
        &[0xff; 20_000],
        // A record that ends too soon, and one of SSL 3.
        &[hello.as_slice(), &[0; 600]].concat(),
        b"\x16\x03\x00\x00\x2f\x01\x00\x00\x2b\x03\x00",
    ];
    for (number, bytes) in said.into_iter().enumerate() {
        let mut stream = access.tcp();
        // It may have ended already.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(!heard.starts_with(b"HTTP/1.1 2"), "{number}: {heard:?}");
    }
    // Half of a conversation, then nonsense.
    for _ in 0..20 {
        let mut stream = access.tls().expect("TLS");
        let _ = stream.sock.write_all(&[0x17, 0x03, 0x03, 0x00, 0x20]);
        let _ = stream.sock.write_all(&[0xaa; 32]);
        let mut heard = Vec::new();
        let _ = stream.sock.read_to_end(&mut heard);
    }
    let (answered, longest) = bystander.end();
    println!("no TLS: a bystander was answered {answered} times, after {longest:.1?} at most");
}

#[test]
fn paths_lead_nowhere_else() {
    let cluster = Running::start(&["--nodes", "0", "--user", "small=few"]);
    let api = cluster.api();
    let binding = json!({"metadata": {"name": "small"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "Group", "name": "few", "apiGroup": "rbac.authorization.k8s.io"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    assert_eq!(api.write("POST", bindings, &binding).0, 201);
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"key": "hidden"}});
    assert_eq!(
        api.write("POST", "/api/v1/namespaces/kube-system/secrets", &secret)
            .0,
        201
    );
    let small = Access::of_file(&cluster.kubeconfig().with_file_name("kubeconfig.small"));
    let own = small.exchange(&request("GET", "/api/v1/namespaces/default/secrets", ""));
    assert_eq!(own.expect("an answer").status, 200);
    let long = format!("/api/v1/namespaces/default/secrets/{}", "x".repeat(9_000));
    let longest = format!("/{}", "a/".repeat(40_000));
    for path in [
        "/api/v1/namespaces/kube-system/secrets/s",
        "/api/v1/namespaces/default/../kube-system/secrets/s",
        "/api/v1/namespaces/default/%2e%2e/kube-system/secrets/s",
        "/api/v1/namespaces/default%2f..%2fkube-system/secrets/s",
        "/api/v1/namespaces//kube-system/secrets/s",
        "/api/v1/namespaces/default/secrets/..%2f..%2fkube-system%2fsecrets%2fs",
        "/api/v1/namespaces/default/secrets/%00",
        "/api/v1/namespaces/default/secrets/s%00/../../kube-system/secrets/s",
        "//api/v1/namespaces/kube-system/secrets",
        "/api/v1/secrets",
        "/API/v1/namespaces/kube-system/secrets/s",
        "/api/v1/watch/namespaces/kube-system/secrets",
        "/api/v1/namespaces/default/pods/../../kube-system/secrets/s",
        "/api/v1/namespaces/default/secrets/s/../../../kube-system/secrets/s",
        "/%61pi/v1/namespaces/kube-system/secrets/s",
        "/healthz/../api/v1/namespaces/kube-system/secrets/s",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.namespace%3Dkube-system",
        &long,
        &longest,
        "*",
        "http://other/api/v1/namespaces/kube-system/secrets/s",
        "/api/v1/namespaces/default/secrets/\u{e4}",
    ] {
        // Some are no HTTP: the connection ends.
        let Ok(heard) = small.exchange(&request("GET", path, "")) else {
            continue;
        };
        let shown: String = path.chars().take(100).collect();
        let told = String::from_utf8_lossy(&heard.body);
        let is_refused = (400..500).contains(&heard.status);
        let is_empty_list = heard.status == 200 && told.contains("\"items\":[]");
        assert!(is_refused || is_empty_list, "{shown}: {heard:?}");
        let hidden = "aGlkZGVu";
        assert!(!told.contains(hidden), "{shown}: {told}");
    }
}

#[test]
fn heads_without_measure_are_refused() {
    let cluster = Running::start(&["--nodes", "0"]);
    let access = Access::of(&cluster);
    let bystander = Bystander::start(&cluster);
    let many: String = (0..1_000).map(|it| format!("x-{it}: y\r\n")).collect();
    let long = format!("x-long: {}\r\n", "y".repeat(1 << 20));
    let selector = format!("{MAPS}?labelSelector={}", "a,".repeat(100_000));
    for (what, said) in [
        ("a thousand headers", request("GET", MAPS, &many)),
        ("a long header", request("GET", MAPS, &long)),
        ("a selector without end", request("GET", &selector, "")),
        (
            "a header that is none",
            request("GET", MAPS, "no header\r\n"),
        ),
        (
            "two lengths",
            request("POST", MAPS, "content-length: 1\r\ncontent-length: 2\r\n"),
        ),
        ("no length", request("POST", MAPS, "content-length: -1\r\n")),
        ("no version", b"GET /api\r\n\r\n".to_vec()),
        ("no method", request("G\u{0}T", MAPS, "")),
    ] {
        // Where HTTP itself is broken, the status has no body, or there is none at all.
        if let Ok(heard) = access.exchange(&said) {
            assert!(matches!(heard.status, 400 | 414 | 431), "{what}: {heard:?}");
        }
    }
    for method in ["PROPFIND", "TRACE", "get"] {
        check(
            &access
                .exchange(&request(method, MAPS, ""))
                .expect("an answer"),
            405,
        );
    }
    let (answered, longest) = bystander.end();
    println!("heads: a bystander was answered {answered} times, after {longest:.1?} at most");
}

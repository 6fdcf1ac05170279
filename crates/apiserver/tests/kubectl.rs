//! kubectl against discovery and OpenAPI, served by as little as is needed.
//!
//! Which kubectl is said by the environment variable `OUTRANK_TEST_KUBECTL`, which `cargo xtask
//! test` sets. Without it there is nothing to try, and the tests pass.

mod recorded;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use outrank_api::resource_type::ResourceType;
use outrank_apiserver::discovery::{Discovery, Form};
use outrank_apiserver::document::Document;
use outrank_apiserver::openapi::{CustomSchema, OpenApi, version_2};
use recorded::recorded;
use serde_json::{Value, json};

/// A server of documents, with some objects. What is written to it is answered as it came.
struct Server {
    discovery: Discovery,
    openapi: OpenApi,
    objects: BTreeMap<String, Value>,
    /// Method, target and body of each request.
    requests: Mutex<Vec<(String, String, String)>>,
}

impl Server {
    fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(&stream);
        let (mut first, mut line) = (String::new(), String::new());
        reader.read_line(&mut first)?;
        let mut headers = BTreeMap::new();
        while reader.read_line(&mut line)? > 2 {
            if let Some((name, value)) = line.trim().split_once(": ") {
                headers.insert(name.to_ascii_lowercase(), value.to_owned());
            }
            line.clear();
        }
        let header = |name: &str| headers.get(name).map_or("", String::as_str);
        let length = header("content-length").parse().unwrap_or(0);
        let mut body = String::new();
        reader.take(length).read_to_string(&mut body)?;
        let mut words = first.split(' ');
        let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let path = target.split('?').next().unwrap_or("");
        self.requests
            .lock()
            .unwrap()
            .push((method.into(), target.into(), body.clone()));
        let (status, content_type, body, tag) = match self.document(path, header("accept")) {
            Some((content_type, _, tag)) if header("if-none-match") == tag => {
                ("304 Not Modified", content_type, Vec::new(), tag)
            }
            Some((content_type, body, tag)) => ("200 OK", content_type, body, tag),
            None => {
                let (status, body) = self.object(method, path, &body);
                (status, "application/json", body, String::new())
            }
        };
        let mut stream = &stream;
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nETag: {tag}\r\n"
        )?;
        let length = body.len();
        write!(
            stream,
            "Content-Length: {length}\r\nConnection: close\r\n\r\n"
        )?;
        stream.write_all(&body)
    }

    fn document(&self, path: &str, accept: &str) -> Option<(&'static str, Vec<u8>, String)> {
        let told = |it: &Document| (it.content_type(), it.body().to_vec(), it.etag());
        if path == "/openapi/v2" {
            return version_2(accept).as_ref().map(told);
        }
        match path.strip_prefix("/openapi/v3") {
            Some("") => Some(told(self.openapi.index())),
            Some(path) => self
                .openapi
                .document(path.trim_start_matches('/'))
                .map(told),
            None => {
                let document = self.discovery.document(path, Form::accepted(accept)?)?;
                Some(told(&document))
            }
        }
    }

    fn object(&self, method: &str, path: &str, body: &str) -> (&'static str, Vec<u8>) {
        match (method, self.objects.get(path)) {
            ("GET" | "PATCH", Some(object)) => ("200 OK", object.to_string().into_bytes()),
            ("POST", _) => ("201 Created", body.as_bytes().to_vec()),
            _ => {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": "not found", "reason": "NotFound", "code": 404,
                });
                ("404 Not Found", status.to_string().into_bytes())
            }
        }
    }
}

/// A kubectl and the server that it is told of.
struct Kubectl {
    program: String,
    address: String,
    directory: tempfile::TempDir,
    server: Arc<Server>,
}

impl Kubectl {
    /// `None` without a kubectl.
    fn with(objects: &[(&str, Value)]) -> Option<Self> {
        let Ok(program) = std::env::var("OUTRANK_TEST_KUBECTL") else {
            println!("OUTRANK_TEST_KUBECTL names no kubectl: nothing is tried");
            return None;
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (types, custom) = served();
        let server = Arc::new(Server {
            discovery: Discovery::new(&types, &address),
            openapi: OpenApi::new(&types, custom),
            objects: objects
                .iter()
                .map(|(path, it)| ((*path).to_owned(), it.clone()))
                .collect(),
            requests: Mutex::default(),
        });
        let own = Arc::clone(&server);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = Arc::clone(&own);
                std::thread::spawn(move || server.answer(stream));
            }
        });
        let directory = tempfile::tempdir().unwrap();
        Some(Kubectl {
            program,
            address,
            directory,
            server,
        })
    }

    /// Runs it; answers what it prints to both outputs, and whether it was content.
    fn run(&self, arguments: &[&str]) -> (String, String, bool) {
        let output = Command::new(&self.program)
            .args([
                "--server",
                &format!("http://{}", self.address),
                "--cache-dir",
            ])
            .arg(self.directory.path().join("cache"))
            .args(["--kubeconfig", "/dev/null"])
            .args(arguments)
            .env_clear()
            .env("HOME", self.directory.path())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            text(output.stdout),
            text(output.stderr),
            output.status.success(),
        )
    }

    /// Runs it; answers what it prints if it was content and had no doubts.
    fn prints(&self, arguments: &[&str]) -> String {
        let (stdout, stderr, is_success) = self.run(arguments);
        assert!(
            is_success && stderr.is_empty(),
            "{arguments:?}: {stdout}{stderr}"
        );
        stdout
    }

    fn write(&self, name: &str, object: &Value) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, object.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn requests(&self, method: &str) -> Vec<(String, String)> {
        let requests = self.server.requests.lock().unwrap();
        let requests = requests.iter().filter(|(own, ..)| own == method);
        requests
            .map(|(_, target, body)| (target.clone(), body.clone()))
            .collect()
    }
}

/// The built-in types and a custom one.
fn served() -> (Vec<Arc<ResourceType>>, Vec<CustomSchema>) {
    let mut types = ResourceType::built_in().to_vec();
    types.push(Arc::new(ResourceType {
        group: "batch.example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "Training".to_owned(),
        plural: "trainings".to_owned(),
        singular: "training".to_owned(),
        short_names: vec!["tr".to_owned()],
        type_name: None,
        schema: None,
        ..ResourceType::clone(ResourceType::of_kind("apps/v1", "Deployment").unwrap())
    }));
    let schema = json!({ "type": "object", "description": "A training run.", "properties": {
        "spec": { "type": "object", "required": ["epochs"], "properties": {
            "epochs": { "type": "integer", "description": "How often all data is seen." },
        } },
    } });
    let custom = CustomSchema {
        group: "batch.example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "Training".to_owned(),
        schema,
    };
    (types, vec![custom])
}

#[test]
fn resources_are_listed_as_kubernetes_lists_them() {
    let Some(kubectl) = Kubectl::with(&[]) else {
        return;
    };
    let without_custom = |text: &str| -> Vec<String> {
        let lines = text
            .lines()
            .filter(|line| !line.contains("batch.example.com"));
        // Columns are as wide as their widest value.
        lines
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    };
    for command in [
        "api-resources",
        "api-resources --namespaced=true -o wide",
        "api-resources --api-group=scheduling.k8s.io",
        "api-versions",
    ] {
        let arguments: Vec<&str> = command.split(' ').collect();
        let printed = kubectl.prints(&arguments);
        assert_eq!(
            without_custom(&printed),
            without_custom(&recorded(command)),
            "{command}"
        );
    }
    let custom = kubectl.prints(&["api-resources", "--api-group=batch.example.com"]);
    assert!(
        custom.contains("trainings   tr           batch.example.com/v1"),
        "{custom}"
    );
}

#[test]
fn the_version_raises_no_doubts() {
    let Some(kubectl) = Kubectl::with(&[]) else {
        return;
    };
    let printed = kubectl.prints(&["version"]);
    assert!(
        printed.contains("Server Version: v1.36.2+outrank-"),
        "{printed}"
    );
}

#[test]
fn fields_are_explained() {
    let Some(kubectl) = Kubectl::with(&[]) else {
        return;
    };
    let explain = |what: &str| kubectl.prints(&["explain", what]);
    let printed = explain("pod.spec.priorityClassName");
    assert!(
        printed.contains("KIND:       Pod\nVERSION:    v1\n"),
        "{printed}"
    );
    assert!(
        printed.contains("FIELD: priorityClassName <string>"),
        "{printed}"
    );
    assert!(
        printed.contains("The PriorityClass of the pod"),
        "{printed}"
    );
    let printed = explain("priorityclass");
    for line in [
        "GROUP:      scheduling.k8s.io\n",
        "  globalDefault\t<boolean>\n",
        "  metadata\t<ObjectMeta>\n",
        "  preemptionPolicy\t<string>\n  enum: ",
        "  value\t<integer>\n",
    ] {
        assert!(printed.contains(line), "{line} {printed}");
    }
    let printed = explain("deploy.spec");
    assert!(
        printed.contains("  selector\t<LabelSelector> -required-\n"),
        "{printed}"
    );
    assert!(explain("node.spec.taints.effect").contains("PreferNoSchedule"));
    assert!(explain("pod.spec.containers.resources.limits").contains("<map[string]Quantity>"));
    assert!(explain("pdb.spec.maxUnavailable").contains("<IntOrString>"));
    assert!(explain("pod.metadata.creationTimestamp").contains("<string>"));
    let printed = explain("tr.spec.epochs");
    assert!(printed.contains("How often all data is seen."), "{printed}");
    assert!(explain("tr").contains("A training run."));

    let (stdout, stderr, is_success) = kubectl.run(&["explain", "pod.spec.nosuch"]);
    assert!(!is_success);
    assert_eq!(stdout, "KIND:       Pod\nVERSION:    v1\n\n");
    assert_eq!(stderr, "error: field \"nosuch\" does not exist\n");
}

#[test]
fn every_kind_is_explained_to_its_last_field() {
    let Some(kubectl) = Kubectl::with(&[]) else {
        return;
    };
    let (types, _) = served();
    for it in &types {
        let api_version = it.api_version();
        let arguments = [
            "explain",
            &it.plural,
            "--recursive",
            "--api-version",
            &api_version,
        ];
        let printed = kubectl.prints(&arguments);
        assert!(
            printed.contains(&format!("KIND:       {}\n", it.kind)),
            "{}",
            it.kind
        );
        // Whatever is in a namespace or none has metadata.
        assert!(
            printed.contains("\n  metadata\t<ObjectMeta>\n    annotations\t"),
            "{}",
            it.kind
        );
    }
}

#[test]
fn the_server_is_asked_to_validate() {
    let Some(kubectl) = Kubectl::with(&[]) else {
        return;
    };
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": { "name": "high" }, "value": 1000,
    });
    let training = json!({
        "apiVersion": "batch.example.com/v1", "kind": "Training",
        "metadata": { "name": "llm", "namespace": "default" }, "spec": { "epochs": 3 },
    });
    for (name, object) in [("class.json", class), ("training.json", training)] {
        let file = kubectl.write(name, &object);
        let printed = kubectl.prints(&["create", "--dry-run=server", "-f", &file]);
        assert!(printed.ends_with("created (server dry run)\n"), "{printed}");
    }
    let posts = kubectl.requests("POST");
    assert_eq!(posts.len(), 2);
    for (target, _) in posts {
        assert!(
            target.contains("dryRun=All") && target.contains("fieldValidation=Strict"),
            "{target}"
        );
    }
}

#[test]
fn kinds_that_are_not_there_are_told_as_kubernetes_tells() {
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let none = json!({
        "kind": "CustomResourceDefinitionList", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {}, "items": [],
    });
    let Some(kubectl) = Kubectl::with(&[(crds, none)]) else {
        return;
    };
    let pod = json!({ "apiVersion": "v1", "kind": "Podd", "metadata": { "name": "x" } });
    let file = kubectl.write("pod.json", &pod);
    let (_, stderr, is_success) = kubectl.run(&["apply", "-f", &file]);
    assert!(!is_success);
    let expected = format!(
        "error: resource mapping not found for name: \"x\" namespace: \"\" from \"{file}\": \
         no matches for kind \"Podd\" in version \"v1\"\nensure CRDs are installed first\n"
    );
    assert_eq!(stderr, expected);
}

#[test]
fn patches_are_made_by_the_documents() {
    let container = |name: &str, image: &str| json!({ "name": name, "image": image });
    let deployment = |containers: Value, replicas: u32| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "namespace": "default", "annotations": {} },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": containers },
                },
            },
        })
    };
    let before = deployment(json!([container("a", "a:1"), container("b", "b:1")]), 1);
    let mut live = before.clone();
    live["metadata"]["resourceVersion"] = "7".into();
    live["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
        before.to_string().into();
    let path = "/apis/apps/v1/namespaces/default/deployments/web";
    let Some(kubectl) = Kubectl::with(&[(path, live)]) else {
        return;
    };
    let wanted = deployment(json!([container("a", "a:2")]), 2);
    let file = kubectl.write("web.json", &wanted);
    kubectl.prints(&["apply", "-f", &file]);
    let patches = kubectl.requests("PATCH");
    let (target, body) = patches.first().unwrap();
    assert!(target.contains("fieldValidation=Strict"), "{target}");
    let patch: Value = serde_json::from_str(body).unwrap();
    let spec = &patch["spec"]["template"]["spec"];
    assert_eq!(
        spec["$setElementOrder/containers"],
        json!([{ "name": "a" }])
    );
    let expected = json!([
        { "name": "a", "image": "a:2" },
        { "name": "b", "$patch": "delete" },
    ]);
    assert_eq!(spec["containers"], expected);
    assert_eq!(patch["spec"]["replicas"], 2);
}

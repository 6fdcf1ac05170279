//! Services and what leads to them.

use serde_json::{Value, json};

use super::Cases;

pub(super) fn check(cases: &mut Cases) {
    let service = |spec: Value, external: &str, ports: &str, ip: &str, type_: &str| {
        let balancer =
            json!({"ingress": [{"ip": "9.9.9.9"}, {"hostname": "lb"}, {"ip": "1.1.1.1"}]});
        let object = json!({"spec": spec, "status": {"loadBalancer": balancer}});
        (
            object,
            json!(["it", type_, ip, external, ports, "5m", "<none>"]),
        )
    };
    let ports = json!([
        {"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"},
    ]);
    let services = [
        service(
            json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "ports": ports}),
            "<none>",
            "80:30080/TCP,53/UDP",
            "10.0.0.1",
            "ClusterIP",
        ),
        service(
            json!({"type": "NodePort", "clusterIPs": ["10.0.0.1", "fd::1"], "externalIPs": ["5.5.5.5"]}),
            "5.5.5.5",
            "<none>",
            "10.0.0.1",
            "NodePort",
        ),
        service(
            json!({"type": "LoadBalancer", "externalIPs": ["5.5.5.5"]}),
            "1.1.1.1,9.9.9.9,lb,5.5.5.5",
            "<none>",
            "<none>",
            "LoadBalancer",
        ),
        service(
            json!({"type": "ExternalName", "externalName": "example.com"}),
            "example.com",
            "<none>",
            "<none>",
            "ExternalName",
        ),
        service(json!({}), "<unknown>", "<none>", "<none>", ""),
    ];
    for (object, expected) in services {
        cases.check("v1", "Service", object, expected);
    }
    cases.check(
        "v1",
        "Service",
        json!({"spec": {"type": "LoadBalancer", "selector": {"app": "a"}}}),
        json!([
            "it",
            "LoadBalancer",
            "<none>",
            "<pending>",
            "<none>",
            "5m",
            "app=a"
        ]),
    );
    let addresses = json!([{"ip": "10.0.0.1"}, {"ip": "fd::1"}]);
    cases.check(
        "v1",
        "Endpoints",
        json!({"subsets": [
            {"addresses": addresses, "ports": [{"port": 80}, {"port": 90}]},
            {"addresses": addresses},
        ]}),
        json!(["it", "10.0.0.1:80,[fd::1]:80,10.0.0.1:90 + 3 more...", "5m"]),
    );
    cases.check(
        "v1",
        "Endpoints",
        json!({"subsets": [{}]}),
        json!(["it", "", "5m"]),
    );
    cases.check("v1", "Endpoints", json!({}), json!(["it", "<none>", "5m"]));
    let slice = ("discovery.k8s.io/v1", "EndpointSlice");
    cases.check(
        slice.0,
        slice.1,
        json!({
            "addressType": "IPv4", "ports": [{"port": 80}, {"name": "dns"}, {}],
            "endpoints": [{"addresses": ["a", "b"]}, {"addresses": ["c", "d"]}, {}],
        }),
        json!(["it", "IPv4", "80,dns,*", "a,b,c + 1 more...", "5m"]),
    );
    cases.check(
        slice.0,
        slice.1,
        json!({}),
        json!(["it", "", "<unset>", "<unset>", "5m"]),
    );
    ingress(cases);
    let group = "networking.k8s.io/v1";
    let all_pods = json!({"spec": {"podSelector": {}}});
    cases.check(
        group,
        "NetworkPolicy",
        all_pods,
        json!(["it", "<none>", "5m"]),
    );
    cases.check(
        group,
        "ServiceCIDR",
        json!({"spec": {"cidrs": ["10.0.0.0/16", "fd::/64"]}}),
        json!(["it", "10.0.0.0/16,fd::/64", "5m"]),
    );
    let parent = json!({
        "group": "", "resource": "services", "namespace": "default", "name": "kubernetes",
    });
    cases.check(
        group,
        "IPAddress",
        json!({"spec": {"parentRef": parent}}),
        json!(["it", "services/default/kubernetes"]),
    );
    let parent = json!({"group": "g.io", "resource": "things", "name": "x"});
    cases.check(
        group,
        "IPAddress",
        json!({"spec": {"parentRef": parent}}),
        json!(["it", "things.g.io/x"]),
    );
    cases.check(group, "IPAddress", json!({}), json!(["it", "<none>"]));
}

fn ingress(cases: &mut Cases) {
    let group = "networking.k8s.io/v1";
    let hosts = |hosts: &[&str]| -> Value { hosts.iter().map(|it| json!({"host": it})).collect() };
    let shown = [
        (hosts(&[]), "*"),
        (hosts(&[""]), "*"),
        (hosts(&["a", "", "b"]), "a,b"),
        (hosts(&["a", "b", "c"]), "a,b,c"),
        (hosts(&["a", "b", "c", ""]), "a,b,c + 1 more..."),
        (hosts(&["a", "", "b", "c", "d"]), "a,b,c + 2 more..."),
    ];
    for (rules, shown) in shown {
        cases.check(
            group,
            "Ingress",
            json!({"spec": {"rules": rules}}),
            json!(["it", "<none>", shown, "", "80", "5m"]),
        );
    }
    cases.check(
        group,
        "Ingress",
        json!({
            "spec": {"ingressClassName": "nginx", "tls": [{}]},
            "status": {"loadBalancer": {"ingress": [
                {"hostname": "a-very-long-name.example.com"}, {"ip": "1.1.1.1"},
            ]}},
        }),
        json!([
            "it",
            "nginx",
            "*",
            "1.1.1.1,a-very-long-name.example.com",
            "80, 443",
            "5m"
        ]),
    );
    cases.check(
        group,
        "IngressClass",
        json!({
            "metadata": {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
            "spec": {
                "controller": "c.io/c",
                "parameters": {"apiGroup": "k.io", "kind": "Params", "name": "p"},
            },
        }),
        json!(["it (default)", "c.io/c", "Params.k.io/p", "5m"]),
    );
    cases.check(
        group,
        "IngressClass",
        json!({}),
        json!(["it", "", "<none>", "5m"]),
    );
}

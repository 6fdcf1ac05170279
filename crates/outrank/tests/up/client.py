"""What a program with the Python client of Kubernetes does, with nothing but a kubeconfig."""

import threading
import time

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

config.load_kube_config()
core = client.CoreV1Api()
apps = client.AppsV1Api()
extensions = client.ApiextensionsV1Api()
custom = client.CustomObjectsApi()


def refused(status, call, *arguments, **named):
    """The answer of a call that must be refused."""
    try:
        call(*arguments, **named)
    except ApiException as error:
        assert error.status == status, (error.status, error.body)
        return error
    raise AssertionError(f"{call.__name__} was not refused")


def wait_until(holds, what):
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError(f"never: {what}")


def nodes_and_version():
    assert {it.metadata.name for it in core.list_node().items} == {"node-1", "node-2"}
    version = client.VersionApi().get_code()
    assert (version.major, version.minor) == ("1", "36"), version
    groups = {it.name for it in client.ApisApi().get_api_versions().groups}
    assert {"apps", "batch", "policy"} <= groups, groups


def objects():
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a"), data={"k": "1"})
    made = core.create_namespaced_config_map("default", body)
    assert made.data == {"k": "1"} and made.metadata.uid
    error = refused(409, core.create_namespaced_config_map, "default", body)
    assert "AlreadyExists" in error.body
    patched = core.patch_namespaced_config_map("a", "default", {"data": {"k": "2", "l": "3"}})
    assert patched.data == {"k": "2", "l": "3"}
    patched = core.patch_namespaced_config_map(
        "a", "default", [{"op": "remove", "path": "/data/l"}]
    )
    assert patched.data == {"k": "2"}
    made.data = {"k": "4"}
    refused(409, core.replace_namespaced_config_map, "a", "default", made)
    patched.data = {"k": "5"}
    assert core.replace_namespaced_config_map("a", "default", patched).data == {"k": "5"}
    refused(404, core.read_namespaced_config_map, "b", "default")
    name = client.V1ObjectMeta(name="No_Name")
    error = refused(
        422, core.create_namespaced_config_map, "default", client.V1ConfigMap(metadata=name)
    )
    assert "metadata.name" in error.body, error.body
    core.delete_namespaced_config_map("a", "default")
    refused(404, core.delete_namespaced_config_map, "a", "default")


def pages_and_selectors():
    for number in range(25):
        metadata = client.V1ObjectMeta(name=f"m{number:02}", labels={"odd": str(number % 2)})
        core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=metadata))
    names, token = [], None
    while True:
        page = core.list_namespaced_config_map(
            "default", limit=7, _continue=token, label_selector="odd"
        )
        assert len(page.items) <= 7
        names += [it.metadata.name for it in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"m{number:02}" for number in range(25)], names
    odd = core.list_namespaced_config_map("default", label_selector="odd=1").items
    assert len(odd) == 12
    one = core.list_namespaced_config_map("default", field_selector="metadata.name=m03").items
    assert [it.metadata.name for it in one] == ["m03"]
    core.delete_collection_namespaced_config_map("default", label_selector="odd=1")
    left = core.list_namespaced_config_map("default", label_selector="odd").items
    assert len(left) == 13


def a_deployment_runs():
    labels = {"app": "web"}
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="i")]),
    )
    spec = client.V1DeploymentSpec(
        replicas=2, selector=client.V1LabelSelector(match_labels=labels), template=template
    )
    body = client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    apps.create_namespaced_deployment("default", body)
    events = watch.Watch()
    ready = 0
    for event in events.stream(
        apps.list_namespaced_deployment, "default", field_selector="metadata.name=web",
        timeout_seconds=60,
    ):
        ready = event["object"].status.ready_replicas or 0
        if ready == 2:
            events.stop()
    assert ready == 2
    apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 1}})
    assert apps.read_namespaced_deployment_scale("web", "default").spec.replicas == 1
    running = lambda: [
        it.metadata.name
        for it in core.list_namespaced_pod("default", label_selector="app=web").items
        if it.metadata.deletion_timestamp is None
    ]
    wait_until(lambda: len(running()) == 1, "one pod is left")
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name=running()[0]))
    core.create_namespaced_pod_eviction(running()[0], "default", eviction)
    apps.delete_namespaced_deployment("web", "default", propagation_policy="Foreground")
    wait_until(lambda: not running(), "the pods are gone")


def a_watch_goes_on():
    start = core.list_namespaced_secret("default").metadata.resource_version

    def write():
        for number in range(3):
            metadata = client.V1ObjectMeta(name=f"s{number}")
            core.create_namespaced_secret("default", client.V1Secret(metadata=metadata))
        core.delete_namespaced_secret("s1", "default")

    writer = threading.Thread(target=write)
    writer.start()
    events, seen = watch.Watch(), []
    for event in events.stream(
        core.list_namespaced_secret, "default", resource_version=start, timeout_seconds=60
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 4:
            events.stop()
    writer.join()
    assert seen == [("ADDED", "s0"), ("ADDED", "s1"), ("ADDED", "s2"), ("DELETED", "s1")], seen
    try:
        for _ in watch.Watch().stream(
            core.list_namespaced_secret, "default", resource_version="x", timeout_seconds=5
        ):
            raise AssertionError("a version that is none was taken")
    except ApiException as error:
        assert error.status in (400, 500), error.status


def custom_objects():
    text = {"type": "string"}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"color": text}, "required": ["color"]},
            "status": {"type": "object", "properties": {"phase": text}},
        },
    }
    version = {
        "name": "v1", "served": True, "storage": True,
        "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
    }
    names = {"plural": "boats", "singular": "boat", "kind": "Boat"}
    spec = {"group": "sea.example", "scope": "Namespaced", "names": names, "versions": [version]}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.sea.example"}, "spec": spec,
    }
    extensions.create_custom_resource_definition(body)

    def established():
        found = extensions.read_custom_resource_definition("boats.sea.example")
        conditions = {it.type: it.status for it in found.status.conditions or []}
        return conditions.get("Established") == "True"

    wait_until(established, "the definition is established")
    boats = ("sea.example", "v1", "default", "boats")
    boat = {
        "apiVersion": "sea.example/v1", "kind": "Boat",
        "metadata": {"name": "b"}, "spec": {"color": "red"},
    }
    made = custom.create_namespaced_custom_object(*boats, boat)
    assert made["spec"] == {"color": "red"}
    wrong = {**boat, "metadata": {"name": "c"}, "spec": {}}
    error = refused(422, custom.create_namespaced_custom_object, *boats, wrong)
    assert "spec.color" in error.body, error.body
    custom.patch_namespaced_custom_object(*boats, "b", {"spec": {"color": "blue"}})
    custom.patch_namespaced_custom_object_status(*boats, "b", {"status": {"phase": "Afloat"}})
    found = custom.list_namespaced_custom_object(*boats)["items"]
    assert [it["spec"]["color"] for it in found] == ["blue"]
    assert found[0]["status"] == {"phase": "Afloat"}
    custom.delete_namespaced_custom_object(*boats, "b")
    refused(404, custom.get_namespaced_custom_object, *boats, "b")
    extensions.delete_custom_resource_definition("boats.sea.example")

    def unknown():
        try:
            custom.list_namespaced_custom_object(*boats)
        except ApiException as error:
            return error.status == 404
        return False

    wait_until(unknown, "the custom type is not served any more")


for story in (
    nodes_and_version,
    objects,
    pages_and_selectors,
    a_watch_goes_on,
    a_deployment_runs,
    custom_objects,
):
    story()
    print(story.__name__, "ok")
print("done")

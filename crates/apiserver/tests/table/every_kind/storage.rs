//! Volumes and their classes.

use serde_json::json;

use super::{Cases, NOW};

pub(super) fn check(cases: &mut Cases) {
    cases.check(
        "v1",
        "PersistentVolume",
        json!({
            "spec": {
                "capacity": {"storage": "1024Mi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "fast",
                "claimRef": {"namespace": "team", "name": "data"}, "volumeMode": "Block",
                "volumeAttributesClassName": "gold",
            },
            "status": {"phase": "Bound", "reason": "r"},
        }),
        json!([
            "it",
            "1Gi",
            "RWO,RWX",
            "Retain",
            "Bound",
            "team/data",
            "fast",
            "gold",
            "r",
            "5m",
            "Block",
        ]),
    );
    cases.check(
        "v1",
        "PersistentVolume",
        json!({"metadata": {
            "deletionTimestamp": NOW,
            "annotations": {"volume.beta.kubernetes.io/storage-class": "old"},
        }}),
        json!([
            "it",
            "0",
            "",
            "",
            "Terminating",
            "",
            "old",
            "<unset>",
            "",
            "5m",
            "<unset>"
        ]),
    );
    let claim = |volume: &str| {
        json!({
            "spec": {
                "volumeName": volume, "storageClassName": "fast", "volumeMode": "Filesystem",
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {
                "phase": "Pending", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadOnlyMany"],
            },
        })
    };
    cases.check(
        "v1",
        "PersistentVolumeClaim",
        claim("pv"),
        json!([
            "it",
            "Pending",
            "pv",
            "2Gi",
            "ROX",
            "fast",
            "<unset>",
            "5m",
            "Filesystem"
        ]),
    );
    cases.check(
        "v1",
        "PersistentVolumeClaim",
        claim(""),
        json!([
            "it",
            "Pending",
            "",
            "",
            "",
            "fast",
            "<unset>",
            "5m",
            "Filesystem"
        ]),
    );
    let group = "storage.k8s.io/v1";
    cases.check(
        group,
        "StorageClass",
        json!({
            "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "p", "reclaimPolicy": "Retain", "allowVolumeExpansion": true,
            "volumeBindingMode": "WaitForFirstConsumer",
        }),
        json!([
            "it (default)",
            "p",
            "Retain",
            "WaitForFirstConsumer",
            true,
            "5m"
        ]),
    );
    cases.check(
        group,
        "StorageClass",
        json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "no"}}}),
        json!(["it", "", "Delete", "Immediate", false, "5m"]),
    );
    let class = json!({"driverName": "d"});
    cases.check(
        group,
        "VolumeAttributesClass",
        class,
        json!(["it", "d", "5m"]),
    );
    cases.check(
        group,
        "VolumeAttachment",
        json!({
            "spec": {"attacher": "d", "source": {"persistentVolumeName": "pv"}, "nodeName": "n"},
            "status": {"attached": true},
        }),
        json!(["it", "d", "pv", "n", true, "5m"]),
    );
    let drivers = json!({"spec": {"drivers": [{}, {}]}});
    cases.check(group, "CSINode", drivers, json!(["it", 2, "5m"]));
    cases.check(
        group,
        "CSIDriver",
        json!({}),
        json!(["it", true, false, false, "<unset>", false, "<none>", "5m"]),
    );
    cases.check(
        group,
        "CSIDriver",
        json!({"spec": {
            "attachRequired": false, "podInfoOnMount": true, "storageCapacity": true,
            "tokenRequests": [{"audience": "a"}, {"audience": "b"}], "requiresRepublish": true,
            "volumeLifecycleModes": ["Persistent", "Ephemeral"],
        }}),
        json!([
            "it",
            false,
            true,
            true,
            "a,b",
            true,
            "Persistent,Ephemeral",
            "5m"
        ]),
    );
    let capacity = json!({"storageClassName": "fast", "capacity": "2048Ki"});
    cases.check(
        group,
        "CSIStorageCapacity",
        capacity,
        json!(["it", "fast", "2Mi"]),
    );
    cases.check(
        group,
        "CSIStorageCapacity",
        json!({}),
        json!(["it", "", "<unset>"]),
    );
}

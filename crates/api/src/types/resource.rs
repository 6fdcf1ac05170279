//! Claims to devices (`k8s.io/api/resource/v1`): what quotas read of them.

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, null_default};

/// A ResourceClaim: a wish for devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wished for.
    pub spec: ResourceClaimSpec,
}

/// `spec` of a ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceClaimSpec {
    /// The devices.
    pub devices: DeviceClaim,
}

/// `spec.devices` of a ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceClaim {
    /// Requests that must all be met.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub requests: Vec<DeviceRequest>,
}

/// A request for devices, in one way or in one of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceRequest {
    /// Name, unique in the claim.
    pub name: String,
    /// The one way to meet it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exactly: Option<ExactDeviceRequest>,
    /// Ways to meet it, the best first.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub first_available: Vec<ExactDeviceRequest>,
}

/// A way to meet a request: devices of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExactDeviceRequest {
    /// Name, where there are several ways.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Name of the DeviceClass.
    pub device_class_name: String,
    /// `ExactCount` (also if empty) or `All`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub allocation_mode: String,
    /// How many devices; absent is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
}

//! Devices that pods claim: `resource.k8s.io`.

use serde_json::Value;

use super::BuiltIn;
use super::cell::{self, list, text};
use super::column::{AGE, NAME, text as texts};
use super::core::name_and_age;

/// Of DeviceClasses and ResourceClaimTemplates.
pub(super) static NAME_AND_AGE: BuiltIn = BuiltIn::new(&[NAME, AGE], name_and_age);

pub(super) static RESOURCE_CLAIMS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("State", "Whether devices are allocated, and in use."),
        AGE,
    ],
    resource_claim_cells,
);

pub(super) static RESOURCE_SLICES: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Node", "The node that has the devices."),
        texts("Driver", "The driver of the devices."),
        texts("Pool", "The pool that the slice is a part of."),
        AGE,
    ],
    resource_slice_cells,
);

fn resource_claim_cells(claim: &Value, now_nanos: i64) -> Vec<Value> {
    cells![cell::name(claim), state(claim), cell::age(claim, now_nanos),]
}

fn state(claim: &Value) -> &'static str {
    let status = &claim["status"];
    let is_allocated = !status["allocation"].is_null();
    let is_reserved = !list(&status["reservedFor"]).is_empty();
    match (cell::is_deleted(claim), is_allocated, is_reserved) {
        (false, false, _) => "pending",
        (false, true, false) => "allocated",
        (false, true, true) => "allocated,reserved",
        (true, false, _) => "deleted",
        (true, true, false) => "deleted,allocated",
        (true, true, true) => "deleted,allocated,reserved",
    }
}

fn resource_slice_cells(slice: &Value, now_nanos: i64) -> Vec<Value> {
    let spec = &slice["spec"];
    cells![
        cell::name(slice),
        text(&spec["nodeName"]),
        text(&spec["driver"]),
        text(&spec["pool"]["name"]),
        cell::age(slice, now_nanos),
    ]
}

//! Tables as clients get them: recorded ones, one of each kind, and of objects that are none.

mod custom_resources;
mod every_kind;
mod pods;
mod random_objects;
mod recorded;

use outrank_api::resource_type::ResourceType;
use outrank_apiserver::table::Columns;

/// The columns of a built-in kind.
fn columns(api_version: &str, kind: &str) -> Columns {
    let resource_type = ResourceType::of_kind(api_version, kind);
    let resource_type = resource_type.unwrap_or_else(|| panic!("no {kind} in {api_version}"));
    Columns::of(resource_type, &[])
}

/// A point in time in nanoseconds since 1970.
fn nanos(time: &str) -> i64 {
    outrank_api::time::unix_nanos(time).unwrap_or_else(|| panic!("no time: {time}"))
}

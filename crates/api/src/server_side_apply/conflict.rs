//! Conflicts: fields that a configuration would change and others own.

use crate::managed_fields::field_set::FieldSet;
use crate::managed_fields::owners::{Operation, Owner, key};
use crate::names::quoted;
use crate::status::{Reason, Status, StatusCause, StatusDetails};

/// What one manager owns of what would be changed.
pub(super) struct Conflict<'o> {
    pub(super) owner: &'o Owner,
    pub(super) fields: FieldSet,
}

/// How many bytes of paths are told.
const PATH_BYTES_MAX: usize = 4 << 20;

/// The answer to conflicts, of which there is at least one; in the order of managers. (Upstream
/// has them in the message in this order, and in none among the causes.)
pub(super) fn refusal(mut conflicts: Vec<Conflict<'_>>) -> Status {
    conflicts.sort_by_cached_key(|conflict| key(conflict.owner));
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    let mut bytes_left = PATH_BYTES_MAX;
    for Conflict { owner, fields } in &conflicts {
        let shown = shown(owner);
        lines.push(format!("conflicts with {shown}:"));
        for path in fields.paths() {
            let path = path.to_string();
            bytes_left = bytes_left.saturating_sub(path.len());
            if bytes_left == 0 {
                break;
            }
            lines.push(format!("- {path}"));
            causes.push(StatusCause {
                reason: "FieldManagerConflict".to_owned(),
                message: format!("conflict with {shown}"),
                field: path,
            });
        }
    }
    let message = match causes.as_slice() {
        [one] => format!("1 conflict: {}: {}", one.message, one.field),
        several => format!("{} conflicts: {}", several.len(), lines.join("\n")),
    };
    Status {
        code: 409,
        reason: Some(Reason::Conflict),
        message: format!("Apply failed with {message}"),
        details: Some(Box::new(StatusDetails {
            causes,
            ..StatusDetails::default()
        })),
        continue_token: String::new(),
    }
}

fn shown(owner: &Owner) -> String {
    let mut shown = quoted(&owner.manager);
    if !owner.subresource.is_empty() {
        shown = format!("{shown} with subresource {}", quoted(&owner.subresource));
    }
    match owner.operation {
        Operation::Apply => shown,
        Operation::Update => format!("{shown} using {}", owner.api_version),
    }
}

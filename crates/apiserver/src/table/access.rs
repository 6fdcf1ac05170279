//! Who may do what: bindings of roles, and requests for certificates.

use serde_json::Value;

use super::BuiltIn;
use super::age::human;
use super::cell::{self, NONE, condition, list, text};
use super::column::{AGE, NAME, text as texts};

/// Of RoleBindings and ClusterRoleBindings. (Roles are shown [as any
/// object](super::core::DEFAULT).)
pub(super) static ROLE_BINDINGS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        texts("Role", "The role that is given."),
        AGE,
        texts("Users", "The users that it is given to.").wide(),
        texts("Groups", "The groups that it is given to.").wide(),
        texts(
            "ServiceAccounts",
            "The service accounts that it is given to.",
        )
        .wide(),
    ],
    role_binding_cells,
);

pub(super) static CERTIFICATE_SIGNING_REQUESTS: BuiltIn = BuiltIn::new(
    &[
        NAME,
        AGE,
        texts("SignerName", "Who is asked to sign."),
        texts("Requestor", "Who asks."),
        texts(
            "RequestedDuration",
            "For how long the certificate should be valid.",
        ),
        texts("Condition", "What came of the request."),
    ],
    certificate_signing_request_cells,
);

fn role_binding_cells(binding: &Value, now_nanos: i64) -> Vec<Value> {
    let role = &binding["roleRef"];
    let subjects = |kind: &'static str| {
        let all = list(&binding["subjects"]).iter();
        all.filter(move |subject| text(&subject["kind"]) == kind)
    };
    let names = |kind| {
        let names: Vec<&str> = subjects(kind).map(|it| text(&it["name"])).collect();
        names.join(", ")
    };
    let account = |it: &Value| format!("{}/{}", text(&it["namespace"]), text(&it["name"]));
    let accounts: Vec<String> = subjects("ServiceAccount").map(account).collect();
    cells![
        cell::name(binding),
        format!("{}/{}", text(&role["kind"]), text(&role["name"])),
        cell::age(binding, now_nanos),
        names("User"),
        names("Group"),
        accounts.join(", "),
    ]
}

fn certificate_signing_request_cells(request: &Value, now_nanos: i64) -> Vec<Value> {
    let spec = &request["spec"];
    let duration = match spec["expirationSeconds"].as_i64() {
        Some(seconds) => human(seconds.saturating_mul(1_000_000_000)),
        None => NONE.to_owned(),
    };
    cells![
        cell::name(request),
        cell::age(request, now_nanos),
        cell::text_or(&spec["signerName"], NONE),
        text(&spec["username"]),
        duration,
        state(&request["status"]),
    ]
}

fn state(status: &Value) -> String {
    // That a condition is there is enough; its status does not matter.
    let has = |type_| condition(&status["conditions"], type_).is_some();
    let mut state = if has("Denied") {
        "Denied".to_owned()
    } else if has("Approved") {
        "Approved".to_owned()
    } else {
        "Pending".to_owned()
    };
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text(&status["certificate"]).is_empty() {
        state.push_str(",Issued");
    }
    state
}

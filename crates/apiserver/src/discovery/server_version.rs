//! `/version`: which Kubernetes the server is like.

use serde::Serialize;

/// The release of Kubernetes whose behaviour is served.
const KUBERNETES: &str = "v1.36.2";

/// What a server says of itself (`apimachinery/pkg/version/types.go`, Kubernetes 1.36).
///
/// Clients compare `git_version` with their own: kubectl warns if the minor versions are more
/// than one apart. What stands behind its `+` says that it is Outrank, and counts for nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerVersion {
    /// `1`.
    pub major: &'static str,
    /// `36`.
    pub minor: &'static str,
    /// The major version that is emulated.
    pub emulation_major: &'static str,
    /// The minor version that is emulated.
    pub emulation_minor: &'static str,
    /// The oldest major version that clients and stored objects may be of.
    pub min_compatibility_major: &'static str,
    /// The oldest minor version that clients and stored objects may be of.
    pub min_compatibility_minor: &'static str,
    /// Such as `v1.36.2+outrank-0.1.0`.
    pub git_version: String,
    /// Not known: empty.
    pub git_commit: &'static str,
    /// Not known: empty.
    pub git_tree_state: &'static str,
    /// Not known: the beginning of the epoch.
    pub build_date: &'static str,
    /// No Go here: empty.
    pub go_version: &'static str,
    /// `rustc`.
    pub compiler: &'static str,
    /// Operating system and processor as Go names them, such as `linux/amd64`.
    pub platform: String,
}

impl ServerVersion {
    /// That of this program.
    pub fn own() -> Self {
        ServerVersion {
            major: "1",
            minor: "36",
            emulation_major: "1",
            emulation_minor: "36",
            min_compatibility_major: "1",
            min_compatibility_minor: "35",
            git_version: format!("{KUBERNETES}+outrank-{}", env!("CARGO_PKG_VERSION")),
            git_commit: "",
            git_tree_state: "",
            build_date: "1970-01-01T00:00:00Z",
            go_version: "",
            compiler: "rustc",
            platform: platform(),
        }
    }
}

fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let processor = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    format!("{system}/{processor}")
}

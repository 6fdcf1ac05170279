//! Whose decisions a profile makes.

/// A release of kube-scheduler. Plugins that decide differently in different releases are
/// built for one of them; what they do not say otherwise is the same in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    /// Kubernetes 1.20.5, which takes a scheduler Policy.
    V1_20,
    /// Kubernetes 1.36.
    #[default]
    V1_36,
}

//! DefaultBinder: binds a pod to the node that was chosen.
//!
//! The engine only says what is to be bound; whoever carries the decision out sends the
//! [`Binding`] to the API server (`POST .../pods/NAME/binding`), or notes it.
//! Source: `plugins/defaultbinder/default_binder.go`, Kubernetes 1.36.

/// A pod and the node it is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding<'n> {
    /// The pod's namespace.
    pub namespace: &'n str,
    /// The pod's name.
    pub name: &'n str,
    /// The node's name.
    pub node_name: &'n str,
}

/// See the module.
pub struct DefaultBinder;

impl DefaultBinder {
    /// Name in configurations.
    pub const NAME: &'static str = "DefaultBinder";
}

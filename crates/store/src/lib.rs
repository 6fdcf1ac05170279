//! Kubernetes objects by key, with versions, conditions on writes, and watches.

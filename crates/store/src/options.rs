//! Limits of a store: [`Options`].

/// Limits of a [`Store`](crate::Store). The defaults are for a large cluster on one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most objects that may exist at once. A write that would make one more fails with
    /// [`CommitError::Full`](crate::CommitError::Full). 5,000,000 by default.
    pub max_objects: usize,
    /// Most bytes that all objects with their keys may take together, by
    /// [`Record::size_bytes`](crate::Record::size_bytes) or, on disk, by what is written of them.
    /// A write that would take more fails; one that makes objects smaller or deletes them never
    /// does. 8 GiB by default, as much as etcd advises at most.
    pub max_bytes: u64,
    /// Most bytes of a single object. 64 MiB by default. (kube-apiserver takes about 3 MiB.)
    pub max_object_bytes: usize,
    /// Most changes of one resource that are remembered for watches and for lists of the past.
    /// 100,000 by default.
    pub history_changes: usize,
    /// Most bytes that the remembered changes of all resources may take together; about 300 bytes
    /// are counted for each beside its object. If it is too much the oldest changes of that resource
    /// go whose changes take most. 256 MiB by default.
    pub history_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_objects: 5_000_000,
            max_bytes: 8 << 30,
            max_object_bytes: 64 << 20,
            history_changes: 100_000,
            history_bytes: 256 << 20,
        }
    }
}

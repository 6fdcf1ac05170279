//! Dense identifiers: everything the engine knows has a small number, so that state
//! can live in columns and the hot path never touches a string.

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The identifier as an index into a column.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The identifier of the `index`-th row of a column.
            ///
            /// # Panics
            /// If there are more than 2^32 rows, which [`crate::limits`] rules out.
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("more than 2^32 rows"))
            }
        }
    };
}

dense_id!(
    /// A node's row. Rows of deleted nodes are used again.
    NodeId
);
dense_id!(
    /// A pod's row. Rows of deleted pods are used again.
    PodId
);
dense_id!(
    /// A class of pods whose scheduling-relevant spec is identical.
    ClassId
);
dense_id!(
    /// A resource: `cpu`, `memory`, `ephemeral-storage` or a scalar resource.
    ResourceId
);
dense_id!(
    /// An interned string: label key or value, name, image, address.
    Symbol
);
dense_id!(
    /// An interned list of taints.
    TaintSetId
);
dense_id!(
    /// A share of a resource that pods of some priority may use.
    ShareId
);

impl ResourceId {
    /// `cpu`, in thousandths of a core.
    pub const CPU_MILLI: Self = Self(0);
    /// `memory`, in bytes.
    pub const MEMORY_BYTES: Self = Self(1);
    /// `ephemeral-storage`, in bytes.
    pub const EPHEMERAL_STORAGE_BYTES: Self = Self(2);
    /// Resources below this one always exist; from here on they are scalar resources.
    pub(crate) const FIRST_SCALAR: u32 = 3;

    /// Whether this is neither cpu, memory nor ephemeral storage.
    pub fn is_scalar(self) -> bool {
        self.0 >= Self::FIRST_SCALAR
    }
}

/// Gives equal values equal numbers, in the order in which they come.
pub(crate) type Interner<T> = IndexSet<T, FxBuildHasher>;

/// Interned strings.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    values: Interner<Box<str>>,
}

impl Symbols {
    /// The symbol of `text`, a new one if it was not seen before. O(length).
    pub fn intern(&mut self, text: &str) -> Symbol {
        match self.find(text) {
            Some(symbol) => symbol,
            None => Symbol::from_index(self.values.insert_full(text.into()).0),
        }
    }

    /// The symbol of `text`, if it has one. O(length).
    pub fn find(&self, text: &str) -> Option<Symbol> {
        self.values.get_index_of(text).map(Symbol::from_index)
    }

    /// The text of a symbol of this table.
    pub fn text(&self, symbol: Symbol) -> &str {
        &self.values[symbol.index()]
    }
}

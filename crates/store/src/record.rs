//! What can be stored: [`Record`].

use std::borrow::Cow;

use crate::Key;

/// A value that a [`Store`](crate::Store) keeps.
///
/// The store shares values (`Arc<T>`) with whoever reads, so a value never changes; a write brings
/// a new one. Only a store on disk writes bytes and reads them back.
///
/// None of these methods may use the store: it may hold locks while it calls them.
pub trait Record: Sized + Send + Sync + 'static {
    /// The value as it is written to disk, in full: [`from_bytes`](Self::from_bytes) must make an
    /// equal value of it, in this version of the program and in later ones.
    fn to_bytes(&self) -> Cow<'_, [u8]>;

    /// The value that [`to_bytes`](Self::to_bytes) wrote for the object `key`.
    ///
    /// # Errors
    ///
    /// What is wrong with the bytes. [`Store::open`](crate::Store::open) then fails with
    /// [`OpenError::Record`](crate::OpenError::Record), which adds where it was.
    fn from_bytes(key: &Key, bytes: &[u8]) -> Result<Self, String>;

    /// About how many bytes of memory the value takes, for the limits in
    /// [`Options`](crate::Options).
    ///
    /// Asked once for each write. As it stands it makes the bytes to count them: a type that does
    /// not have its bytes at hand should say something cheaper.
    fn size_bytes(&self) -> usize {
        self.to_bytes().len()
    }
}

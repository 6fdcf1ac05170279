//! The two latest commits that the database keeps in the first bytes of its file, and which is valid.
//!
//! A commit is written in two steps, each of which waits for the disk: its data and its slot, then a
//! flag that makes the slot the valid one. So at any moment the valid slot is whole, and if it is not
//! the file is damaged; an older commit is never taken for the newest. Only that flag is a bit that
//! no checksum covers. If it fell over, the commit before the last would be taken for the last, and
//! nothing would look wrong, except that the other slot is newer. That is also what is left if a
//! process dies between the two steps. In both cases, if both commits are whole, the newer one can be
//! taken: it was either acknowledged, or about to be.
//!
//! Source: redb's `docs/design.md`, file format 3.

/// Where the flags are in the file.
pub(crate) const FLAGS_OFFSET: u64 = 9;

/// The flag that says which slot is the valid one.
pub(crate) const VALID_SLOT_FLAG: u8 = 1;

/// How many bytes of the file [`other_is_newer`] reads.
pub(crate) const HEADER_BYTES: usize = 320;

const MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";
const TWO_STEPS_FLAG: u8 = 4;
const SLOTS: [usize; 2] = [64, 192];
const FORMAT: u8 = 3;
/// Where the number of the commit is in its slot: behind eight bytes, and three places of a tree with
/// 32 bytes each.
const NUMBER_OFFSET: usize = 104;

/// Whether the slot that is not the valid one has the newer commit. False for what is no file of
/// format 3.
pub(crate) fn other_is_newer(header: &[u8; HEADER_BYTES]) -> bool {
    let flags = header[FLAGS_OFFSET as usize];
    if !header.starts_with(MAGIC)
        || flags & TWO_STEPS_FLAG == 0
        || SLOTS.iter().any(|slot| header[*slot] != FORMAT)
    {
        return false;
    }
    let number = |slot: usize| {
        let start = slot + NUMBER_OFFSET;
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[start..start + 8]);
        u64::from_le_bytes(bytes)
    };
    let [first, second] = SLOTS.map(number);
    if flags & VALID_SLOT_FLAG == 0 {
        second > first
    } else {
        first > second
    }
}

//! Names and identities that nobody chose: suffixes, hashes of templates, uids.
//!
//! Where the API server draws lots, a rehearsal hashes: the same input gives the same names.

use outrank_api::types::PodTemplateSpec;
use serde_json::Value;

/// Longest name of an object, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 253;

/// A short hash of a template, as it ends names of ReplicaSets: of the template as it is
/// `written` if that is known, and of how often a name was taken already.
///
/// The form is upstream's (FNV-1a of 32 bits, written in [`SAFE_CHARACTERS`]); the value
/// is not, because upstream hashes a memory dump of its own types.
pub(crate) fn template_hash(
    template: &PodTemplateSpec,
    written: Option<&Value>,
    collisions: Option<i32>,
) -> String {
    let bytes = match written {
        Some(written) => serde_json::to_vec(written),
        None => serde_json::to_vec(template),
    };
    let bytes = bytes.unwrap_or_default();
    let collisions = collisions.map(i32::to_le_bytes);
    let parts: Vec<&[u8]> = [bytes.as_slice()]
        .into_iter()
        .chain(collisions.as_ref().map(<[u8; 4]>::as_slice))
        .collect();
    short_hash(&parts)
}

/// A hash in the form of names.
pub(crate) fn short_hash(parts: &[&[u8]]) -> String {
    let hash = fnv1a(parts);
    let folded = (hash >> 32) as u32 ^ hash as u32;
    let digits = folded.to_string();
    let characters = digits
        .bytes()
        .map(|digit| safe_character(usize::from(digit)));
    characters.collect()
}

/// What upstream writes generated names in: no vowels and nothing that looks like one.
const SAFE_CHARACTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

fn safe_character(number: usize) -> char {
    char::from(SAFE_CHARACTERS[number % SAFE_CHARACTERS.len()])
}

/// Longest base of a generated name, in bytes; the suffix makes it 63.
pub(crate) const GENERATED_BASE_BYTES_MAX: usize = 58;

/// As many suffixes as five of 27 characters make.
const SUFFIXES: u64 = 27_u64.pow(5);

/// Has no divisor in common with [`SUFFIXES`], so `SUFFIXES` steps reach every suffix once.
const SUFFIX_STEP: u64 = 8_868_112;
const _: () = assert!(!SUFFIX_STEP.is_multiple_of(3) && SUFFIX_STEP < SUFFIXES);
const _: () = assert!((crate::workloads::PODS_MAX as u64) < SUFFIXES);

/// The suffix number `index` from `seed` on. No two indices below [`SUFFIXES`] give the
/// same one.
pub(crate) fn suffix(seed: u64, index: u64) -> String {
    let mut rest = (seed % SUFFIXES + (index % SUFFIXES) * SUFFIX_STEP) % SUFFIXES;
    let digits = (0..5).map(|_| {
        let digit = rest % 27;
        rest /= 27;
        safe_character(digit as usize)
    });
    digits.collect()
}

/// A UUID that depends on nothing but `parts` (version 8 of RFC 9562: a hash of one's own).
pub(crate) fn uid_of(parts: &[&str]) -> String {
    let bytes: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    let high = fnv1a(&bytes);
    let low = fnv1a(&[
        &high.to_le_bytes(),
        bytes.last().copied().unwrap_or_default(),
    ]);
    format!(
        "{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        0x8000 | low >> 48 & 0x3fff,
        low & 0xffff_ffff_ffff
    )
}

/// FNV-1a over the parts, with a mark between them.
pub(crate) fn fnv1a(parts: &[&[u8]]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = parts.iter().flat_map(|part| part.iter().chain(&[0xff]));
    bytes.fold(OFFSET, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
    })
}

/// The first `bytes_max` bytes, or fewer if that would cut a character.
pub(crate) fn shortened(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn suffixes_do_not_repeat() {
        let suffixes: HashSet<String> = (0..200_000).map(|index| suffix(77, index)).collect();
        assert_eq!(suffixes.len(), 200_000);
        let safe = |character: char| SAFE_CHARACTERS.contains(&(character as u8));
        assert!(
            suffixes
                .iter()
                .all(|suffix| suffix.len() == 5 && suffix.chars().all(safe))
        );
    }

    #[test]
    fn uids_look_like_uuids_and_differ() {
        let uids: HashSet<String> = (0..10_000)
            .map(|i| uid_of(&["rs", &i.to_string()]))
            .collect();
        assert_eq!(uids.len(), 10_000);
        for uid in uids {
            let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{uid}");
        }
        assert_ne!(uid_of(&["ab", "c"]), uid_of(&["a", "bc"]));
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(shortened("abc", 58), "abc");
        assert_eq!(shortened("aé", 2), "a");
    }
}

//! The end of a generated name.

use uuid::Uuid;

/// Letters that make no words, and digits that are not taken for letters.
///
/// Source: `k8s.io/apimachinery/pkg/util/rand`, Kubernetes 1.36.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Characters of a suffix.
const LENGTH: u32 = 5;

/// A random suffix.
pub(crate) fn suffix() -> String {
    let mut random = Uuid::new_v4().as_u128();
    let mut next = || {
        let index = usize::try_from(random % 27).unwrap_or_default();
        random /= 27;
        ALPHABET[index] as char
    };
    (0..LENGTH).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_short_and_differ() {
        let many: std::collections::BTreeSet<String> = (0..100).map(|_| suffix()).collect();
        assert!(many.len() > 95, "{many:?}");
        assert!(many.iter().all(|it| it.len() == 5));
    }
}

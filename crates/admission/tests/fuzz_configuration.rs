//! Configurations that are broken at random: whatever is read, there is an answer.

#[path = "../../../tests/random.rs"]
mod random;

use outrank_admission::configuration;

use random::Random;

const SEED: &str = include_str!("../../../tests/seeds/admission-configuration.yaml");

/// Words that make more of a difference than letters.
const WORDS: [&str; 12] = [
    "null",
    "[]",
    "{}",
    "- ",
    ": ",
    "\n",
    "  ",
    "7",
    "path: a",
    "&a",
    "*a",
    "configuration:",
];

#[test]
fn broken_configurations_are_refused_or_read() {
    let (mut read, mut refused) = (0, 0);
    for seed in 0..4000 {
        let mut random = Random(seed);
        let mut text = SEED.to_owned();
        for _ in 0..=random.below(3) {
            let at = random.below(text.len());
            let end = at + random.below(12).min(text.len() - at);
            let word: &&str = random.pick(&WORDS);
            text.replace_range(at..end, word);
        }
        let broken = text.clone();
        let mut file = |_: &str| Ok(broken.as_bytes().to_vec());
        match configuration::read(text.as_bytes(), &mut file) {
            Ok(_) => read += 1,
            Err(problems) => {
                assert!(
                    !problems.is_empty(),
                    "seed {seed}: refused without a reason"
                );
                refused += 1;
            }
        }
    }
    assert!(
        read > 100 && refused > 100,
        "{read} read, {refused} refused"
    );
}

//! Random numbers that can be had again.

use std::time::SystemTime;

/// A sequence of numbers that follows from its seed (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// The seed of a test: what `OUTRANK_TEST_SEED` says, or a new one. It is printed.
pub(crate) fn seed(test: &str) -> u64 {
    let said = std::env::var("OUTRANK_TEST_SEED").ok();
    let seed = said.and_then(|it| it.parse().ok()).unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.expect("after 1970").as_nanos() as u64
    });
    println!("{test}: OUTRANK_TEST_SEED={seed}");
    seed
}

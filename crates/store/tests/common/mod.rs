//! What all tests store.

#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

use std::borrow::Cow;

use outrank_store::{Key, Record};

/// A number, and bytes that follow from it, so that a part of another note in it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    pub number: u64,
    pub length: usize,
}

impl Note {
    pub fn new(number: u64) -> Self {
        Self { number, length: 0 }
    }

    fn tail(self) -> impl Iterator<Item = u8> {
        let mut random = Random(self.number | 1);
        (0..self.length).map(move |_| random.below(256) as u8)
    }
}

impl Record for Note {
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        let mut bytes = self.number.to_be_bytes().to_vec();
        bytes.extend(self.tail());
        bytes.into()
    }

    fn from_bytes(_: &Key, bytes: &[u8]) -> Result<Self, String> {
        let (number, tail) = bytes.split_first_chunk().ok_or("it is too short")?;
        let note = Self {
            number: u64::from_be_bytes(*number),
            length: tail.len(),
        };
        if !note.tail().eq(tail.iter().copied()) {
            return Err(format!("what follows {} is of something else", note.number));
        }
        Ok(note)
    }

    fn size_bytes(&self) -> usize {
        8 + self.length
    }
}

/// Numbers that follow from a seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A length below 2 to the power of `bits`; short ones are as likely as long ones.
    pub fn length(&mut self, bits: u64) -> usize {
        let limit = 1 << self.below(bits + 1);
        self.below(limit) as usize
    }
}

/// The seed that the environment sets to repeat a failure, or one of the time; printed.
pub fn seed() -> u64 {
    let seed = match std::env::var("SEED") {
        Ok(seed) => seed.parse().expect("SEED is a number"),
        Err(_) => std::time::UNIX_EPOCH
            .elapsed()
            .map_or(1, |since| since.as_nanos() as u64),
    };
    println!("SEED={seed}");
    seed
}

/// A new directory, in memory where that can be had: for what does not depend on how long a disk takes.
pub fn quick_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

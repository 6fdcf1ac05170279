//! Sets of numbers as the status of a Job writes them: `0,2-4`.
//!
//! They are kept as runs, so that a million numbers in a row cost no more than one.

use std::collections::BTreeMap;

/// A set of numbers from 0 on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes {
    /// First and last of each run; between two runs at least one number is missing.
    runs: BTreeMap<i32, i32>,
}

impl Indexes {
    /// The numbers in a list, from 0 and below `count`; what cannot be read is left out.
    pub(super) fn read(text: &str, count: i32) -> Self {
        let runs = text.split(',').filter_map(|run| {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let first: i32 = first.trim().parse().ok()?;
            let last: i32 = last.trim().parse().ok()?;
            let (first, last) = (first.max(0), last.min(count.saturating_sub(1)));
            (first <= last).then_some((first, last))
        });
        let mut sorted: Vec<(i32, i32)> = runs.collect();
        sorted.sort_unstable();
        let mut merged: Vec<(i32, i32)> = Vec::with_capacity(sorted.len());
        for (first, last) in sorted {
            match merged.last_mut() {
                Some(known) if first <= known.1.saturating_add(1) => known.1 = known.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self {
            runs: merged.into_iter().collect(),
        }
    }

    /// The list: runs of three or more are written as first and last.
    pub(super) fn write(&self) -> String {
        let run = |(first, last): (&i32, &i32)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        };
        let runs: Vec<String> = self.runs.iter().map(run).collect();
        runs.join(",")
    }

    /// How many numbers there are.
    pub(super) fn len(&self) -> usize {
        let lengths = self.runs.iter().map(|(first, last)| length(*first, *last));
        lengths.sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn contains(&self, index: i32) -> bool {
        self.end_of_run(index).is_some()
    }

    /// The last number of the run that a number is in.
    pub(super) fn end_of_run(&self, index: i32) -> Option<i32> {
        let (_, last) = self.runs.range(..=index).next_back()?;
        (*last >= index).then_some(*last)
    }

    /// Adds a number; false if it is there. O(log runs).
    pub(super) fn insert(&mut self, index: i32) -> bool {
        if self.contains(index) {
            return false;
        }
        let before = self.runs.range(..index).next_back();
        let before = before.filter(|(_, last)| last.checked_add(1) == Some(index));
        let first = before.map_or(index, |(first, _)| *first);
        let after = index.checked_add(1).and_then(|it| self.runs.remove(&it));
        self.runs.insert(first, after.unwrap_or(index));
        true
    }

    /// Removes a number; false if it is not there. O(log runs).
    pub(super) fn remove(&mut self, index: i32) -> bool {
        let run = self.runs.range(..=index).next_back();
        let Some((first, last)) = run.map(|(first, last)| (*first, *last)) else {
            return false;
        };
        if last < index {
            return false;
        }
        self.runs.remove(&first);
        if first < index {
            self.runs.insert(first, index - 1);
        }
        if index < last {
            self.runs.insert(index + 1, last);
        }
        true
    }

    /// How many numbers are in both sets. O(runs).
    pub(super) fn in_common(&self, other: &Self) -> usize {
        let (mut ours, mut theirs) = (self.runs.iter(), other.runs.iter());
        let (mut our, mut their) = (ours.next(), theirs.next());
        let mut count = 0;
        while let (Some((first, last)), Some((other_first, other_last))) = (our, their) {
            let (low, high) = (*first.max(other_first), *last.min(other_last));
            if low <= high {
                count += length(low, high);
            }
            match last < other_last {
                true => our = ours.next(),
                false => their = theirs.next(),
            }
        }
        count
    }
}

fn length(first: i32, last: i32) -> usize {
    usize::try_from(i64::from(last) - i64::from(first) + 1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        for text in ["", "0", "0,1", "0-2", "0,2-4,6,7,9"] {
            assert_eq!(Indexes::read(text, 100).write(), text);
        }
        assert_eq!(Indexes::read("3-9,x,-1", 5).write(), "3,4");
        assert_eq!(Indexes::read("4,0-1,2-3,1-2,9-7", 100).write(), "0-4");
        assert_eq!(Indexes::read("0-2", -7).write(), "");
    }

    #[test]
    fn a_list_may_be_as_long_as_it_likes() {
        let all = Indexes::read("0-2147483647", i32::MAX);
        assert_eq!(all.len(), 2_147_483_647);
        assert_eq!(all.write(), "0-2147483646");
        assert_eq!(all.in_common(&Indexes::read("5-7,9", 100)), 4);
    }

    #[test]
    fn runs_are_a_set() {
        let seed = 77_u64;
        let mut state = seed;
        let mut below = move |end: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % end
        };
        let (mut runs, mut set) = (Indexes::default(), BTreeSet::new());
        for step in 0..3_000 {
            let index = below(40) as i32;
            let context = format!("step {step} of seed {seed}");
            match below(2) {
                0 => assert_eq!(runs.insert(index), set.insert(index), "{context}"),
                _ => assert_eq!(runs.remove(index), set.remove(&index), "{context}"),
            }
            assert_eq!(runs.len(), set.len(), "{context}");
            assert_eq!(Indexes::read(&runs.write(), 40), runs, "{context}");
            let even: BTreeSet<i32> = (0..40).step_by(2).collect();
            let mut even_runs = Indexes::default();
            even.iter().for_each(|it| {
                even_runs.insert(*it);
            });
            let common = set.intersection(&even).count();
            assert_eq!(runs.in_common(&even_runs), common, "{context}");
        }
    }
}

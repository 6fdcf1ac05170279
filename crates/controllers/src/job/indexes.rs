//! Sets of numbers as the status of a Job writes them: `0,2-4`.

use std::collections::BTreeSet;

/// The numbers in a list, below `count`; what cannot be read is left out.
pub(super) fn read(text: &str, count: i32) -> BTreeSet<i32> {
    let runs = text.split(',').filter_map(|run| {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let first: i32 = first.trim().parse().ok()?;
        let last: i32 = last.trim().parse().ok()?;
        Some(first.max(0)..last.saturating_add(1).min(count))
    });
    runs.flatten().collect()
}

/// The list: runs of three or more are written as first and last.
pub(super) fn write(indexes: &BTreeSet<i32>) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => runs.push((*index, *index)),
        }
    }
    let run = |(first, last): (i32, i32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    let runs: Vec<String> = runs.into_iter().map(run).collect();
    runs.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        for text in ["", "0", "0,1", "0-2", "0,2-4,6,7,9"] {
            assert_eq!(write(&read(text, 100)), text);
        }
        assert_eq!(write(&read("3-9,x,-1", 5)), "3,4");
    }
}

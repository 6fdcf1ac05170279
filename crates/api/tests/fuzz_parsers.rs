//! Every parser takes whatever bytes it is given without a panic, and what it accepts it
//! prints so that it is read again as the same.
//!
//! The inputs come from fixed seeds: random bytes, mutated valid texts, and texts put
//! together from pieces of each language.

#[path = "../../../tests/random.rs"]
mod random;

use std::time::{Duration, Instant};

use outrank_api::fields::FieldSelector;
use outrank_api::labels::{Operator, Requirement, Selector};
use outrank_api::names;
use outrank_api::quantity::Quantity;
use outrank_api::taints::{TaintSpecs, taint_string};
use outrank_api::types::StringMap;

use random::Random;

const ROUNDS: usize = 20_000;

impl Random {
    fn bytes(&mut self) -> Vec<u8> {
        let len = self.below(24);
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// A few pieces, one after the other.
    fn pieces(&mut self, pieces: &[&str]) -> Vec<u8> {
        let count = 1 + self.below(10);
        (0..count).flat_map(|_| self.pick(pieces).bytes()).collect()
    }

    /// A piece with a few bytes changed, removed or inserted.
    fn mutated(&mut self, pieces: &[&str]) -> Vec<u8> {
        let mut bytes = self.pick(pieces).as_bytes().to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            let byte = self.next() as u8;
            match self.below(3) {
                0 => bytes.insert(at, byte & 0x7f),
                1 if at < bytes.len() => bytes[at] = byte,
                _ if at < bytes.len() => drop(bytes.remove(at)),
                _ => {}
            }
        }
        bytes
    }
}

/// Runs a parser on many inputs made of the pieces of its language.
fn run(seed: u64, pieces: &[&str], fuzz: fn(&[u8])) {
    let mut random = Random(seed);
    for round in 0..ROUNDS {
        let data = match round % 3 {
            0 => random.bytes(),
            1 => random.pieces(pieces),
            _ => random.mutated(pieces),
        };
        fuzz(&data);
    }
}

/// Runs a parser on long inputs that repeat one piece, and holds it to a time that only
/// more than linear work exceeds.
fn run_long(pieces: &[&str], fuzz: fn(&[u8])) {
    let start = Instant::now();
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        fuzz(piece.repeat((1 << 20) / piece.len()).as_bytes());
    }
    let limit = Duration::from_secs(2) * pieces.len() as u32;
    assert!(
        start.elapsed() < limit,
        "{:?} for {} MiB",
        start.elapsed(),
        pieces.len()
    );
}

fn fuzz_quantity(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(quantity) = text.parse::<Quantity>() else {
        return;
    };
    // Without a suffix for so much, an amount cannot be printed.
    let milli = Quantity::from_milli(i64::MAX, quantity.format());
    if quantity < milli && -quantity.clone() < milli {
        let printed = quantity.to_string();
        assert_eq!(printed.parse(), Ok(quantity.clone()), "{text}");
        let json = serde_json::to_string(&quantity).unwrap();
        assert_eq!(
            serde_json::from_str::<Quantity>(&json).unwrap(),
            quantity,
            "{text}"
        );
    }
    let (mut sum, mut rounded) = (quantity.clone(), quantity.clone());
    sum += &quantity;
    sum -= &quantity;
    assert_eq!(sum, quantity, "{text}");
    rounded.round_up(0);
    assert!(
        if quantity.sign() < 0 {
            rounded <= quantity
        } else {
            rounded >= quantity
        },
        "{text}"
    );
    for scale in [-9, -3, 0, 3, 18] {
        let _ = quantity.scaled_value(scale);
    }
}

fn fuzz_selector(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(selector) = Selector::parse(&text) else {
        return;
    };
    assert_eq!(
        Selector::parse(&selector.to_string()).as_ref(),
        Ok(&selector),
        "{text}"
    );
    let _ = selector.matches(&StringMap::new());
    for requirement in selector.requirements().unwrap() {
        let Requirement {
            key,
            operator,
            values,
        } = requirement.clone();
        assert!(
            Requirement::new(&key, operator, values, "").is_ok(),
            "{text}"
        );
    }
}

fn fuzz_field_selector(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(selector) = FieldSelector::parse(&text) else {
        return;
    };
    // `==` is printed as `=`, which may change the order.
    let sorted = |selector: &FieldSelector| {
        let mut requirements = selector.requirements().to_vec();
        requirements.sort();
        requirements
    };
    let again = FieldSelector::parse(&selector.to_string()).unwrap();
    assert_eq!(sorted(&again), sorted(&selector), "{text}");
}

fn fuzz_taints(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let args: Vec<&str> = text.split(' ').collect();
    let Ok(specs) = TaintSpecs::parse(&args) else {
        return;
    };
    let printed: Vec<String> = specs.add.iter().map(taint_string).collect();
    assert_eq!(
        TaintSpecs::parse(&printed).unwrap().add,
        specs.add,
        "{text}"
    );
    let removals = specs.remove.iter().map(|taint| taint_string(taint) + "-");
    let removals: Vec<String> = removals.collect();
    assert_eq!(
        TaintSpecs::parse(&removals).unwrap().remove,
        specs.remove,
        "{text}"
    );
    let _ = specs.conflict();
}

fn fuzz_names(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let dns_label = names::dns1123_label_errors(&text).is_empty();
    if dns_label {
        assert!(names::dns1123_subdomain_errors(&text).is_empty(), "{text}");
        assert!(names::label_value_errors(&text).is_empty(), "{text}");
    }
    if names::label_value_errors(&text).is_empty() && !text.is_empty() {
        assert!(names::label_key_errors(&text).is_empty(), "{text}");
        let selector = Requirement::new(&text, Operator::Exists, Vec::new(), "").unwrap();
        assert_eq!(selector.to_string(), text);
    }
    let quoted = names::quoted(&text);
    assert!(
        quoted.len() >= text.len() + 2 && !quoted.contains('\n'),
        "{text}"
    );
}

const QUANTITIES: [&str; 22] = [
    "0",
    "1",
    "9",
    "000",
    "999999999",
    ".",
    "-",
    "+",
    "e",
    "E",
    "e-",
    "e3",
    "i",
    "Ki",
    "Ei",
    "m",
    "n",
    "1.5Gi",
    "100m",
    "-1e-10",
    "12345678901234567890",
    "0.0000000001",
];
const SELECTORS: [&str; 18] = [
    "a",
    "b",
    "in",
    "notin",
    " ",
    ",",
    "(",
    ")",
    "=",
    "==",
    "!=",
    "!",
    ">",
    "<",
    "1",
    "\0",
    "é",
    "example.com/a in (b,,c),!d,e=f,g>1",
];
const FIELDS: [&str; 12] = [
    "a",
    "metadata.name",
    "=",
    "==",
    "!=",
    "!",
    ",",
    "\\",
    "\\,",
    "\\=",
    "é",
    "a=b,c!=d\\,e",
];
const TAINTS: [&str; 12] = [
    "a",
    "b",
    "example.com/a",
    "=",
    ":",
    "-",
    " ",
    "NoSchedule",
    "NoExecute",
    "a=b:NoSchedule",
    "a:NoExecute-",
    "a-",
];
const NAMES: [&str; 10] = [
    "a",
    "A",
    "0",
    "-",
    "_",
    ".",
    "/",
    "é",
    "example.com/my-name",
    "\u{7f}",
];

#[test]
fn quantities() {
    run(1, &QUANTITIES, fuzz_quantity);
    run_long(&QUANTITIES, fuzz_quantity);
}

#[test]
fn selectors() {
    run(2, &SELECTORS, fuzz_selector);
    run_long(&SELECTORS, fuzz_selector);
    run_long(&["a,", "a in (b),", "a in (,"], fuzz_selector);
}

#[test]
fn field_selectors() {
    run(3, &FIELDS, fuzz_field_selector);
    run_long(&FIELDS, fuzz_field_selector);
}

#[test]
fn taint_specs() {
    run(4, &TAINTS, fuzz_taints);
    run_long(&TAINTS, fuzz_taints);
}

#[test]
fn object_names() {
    run(5, &NAMES, fuzz_names);
    run_long(&NAMES, fuzz_names);
}

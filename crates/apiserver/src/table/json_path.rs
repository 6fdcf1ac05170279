//! Paths into objects, in the dialect of JSONPath that columns of custom resources are written in.
//!
//! | path | what it finds |
//! | --- | --- |
//! | `.spec.replicas` | a field |
//! | `.metadata.labels.app\.kubernetes\.io/name`, `['app']` | a field; a dot in its name is escaped |
//! | `.items[0]`, `[-1]`, `[1:3]`, `[::2]`, `[*]` | elements of a list |
//! | `.spec.*` | all fields, or all elements |
//! | `..name` | the fields of that name, however deep |
//! | `.a['x','y']` | several |
//! | `.conditions[?(@.type=="Ready")].status` | elements that fulfil a condition: `==`, `!=`, `<`, `<=`, `>`, `>=`, or that the field is there |
//!
//! What is not there is not found, and that is no error; a list that is not one, an index beyond
//! its end and a comparison of different types are, and then nothing is found at all. Source:
//! `k8s.io/client-go/util/jsonpath`, Kubernetes 1.36. Where Go takes fields in random order, they
//! are taken in order of their names here.
//!
//! This is not the JSONPath of RFC 9535, which knows no escapes, wants other quotes and finds other
//! things, so that crates for it are of no use.

use serde_json::Value;

mod parser;

/// How many values may be looked at for one cell. A path such as `..a..b..c` looks at the same
/// values again and again.
const MAX_VISITED: usize = 100_000;

/// A path that can be followed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    /// Every list and object, however deep, from the outside in.
    Descend,
    Elements(Slice),
    Union(Vec<JsonPath>),
    Filter(Filter),
    /// A value in a condition.
    Constant(Value),
}

/// `[start:end:step]`, as written.
#[derive(Clone, Debug, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: End,
    step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The end of the list.
    OfList,
    /// Before the element of this number.
    At(i64),
    /// Behind the start: there was one number only.
    OfOne,
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: JsonPath,
    /// `None` if it is enough that there is something on the left.
    right: Option<(Comparison, JsonPath)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl JsonPath {
    /// Reads a path. The error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        parser::steps(text).map(|steps| Self { steps })
    }

    /// The path of a field in a field in a field.
    pub(super) fn of_fields(names: &[&str]) -> Self {
        let field = |name: &&str| Step::Field((*name).to_owned());
        Self {
            steps: names.iter().map(field).collect(),
        }
    }

    /// The first that is found; `None` if nothing is, or if the path does not fit the value. Costs
    /// no more than looking at 100,000 values.
    pub(super) fn first<'v>(&'v self, value: &'v Value) -> Option<&'v Value> {
        let mut budget = MAX_VISITED;
        self.find(value, &mut budget)?.first().copied()
    }

    /// All that is found; `None` if the path does not fit the value or the budget is used up.
    fn find<'v>(&'v self, value: &'v Value, budget: &mut usize) -> Option<Vec<&'v Value>> {
        let mut found = vec![value];
        for step in &self.steps {
            found = step.find(&found, budget)?;
            *budget = budget.checked_sub(1)?;
        }
        Some(found)
    }
}

impl Step {
    fn find<'v>(&'v self, from: &[&'v Value], budget: &mut usize) -> Option<Vec<&'v Value>> {
        let mut found = Vec::new();
        match self {
            Step::Field(name) => {
                let fields = from.iter().filter_map(|value| value.get(name));
                add(&mut found, fields, budget)?;
            }
            Step::Wildcard => {
                let children = from.iter().flat_map(|value| children(value));
                add(&mut found, children, budget)?;
            }
            Step::Descend => {
                for value in from {
                    descend(value, &mut found, budget)?;
                }
            }
            Step::Elements(slice) => {
                for value in from.iter().filter(|value| !value.is_null()) {
                    let Some(elements) = slice.of(value.as_array()?)? else {
                        return Some(found);
                    };
                    add(&mut found, elements, budget)?;
                }
            }
            Step::Union(paths) => {
                for path in paths {
                    for value in from {
                        add(&mut found, path.find(value, budget)?, budget)?;
                    }
                }
            }
            Step::Filter(filter) => {
                for value in from {
                    filter.find(value.as_array()?, &mut found, budget)?;
                }
            }
            Step::Constant(value) => found.push(value),
        }
        Some(found)
    }
}

/// Adds values; `None` if the budget is used up.
fn add<'v>(
    found: &mut Vec<&'v Value>,
    values: impl IntoIterator<Item = &'v Value>,
    budget: &mut usize,
) -> Option<()> {
    for value in values {
        *budget = budget.checked_sub(1)?;
        found.push(value);
    }
    Some(())
}

/// The fields or elements of a value.
fn children(value: &Value) -> Box<dyn DoubleEndedIterator<Item = &Value> + '_> {
    match value {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Adds a value and all that is in it, except what has nothing in it.
fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>, budget: &mut usize) -> Option<()> {
    let mut next = vec![value];
    while let Some(value) = next.pop() {
        *budget = budget.checked_sub(1)?;
        let before = next.len();
        next.extend(children(value).rev());
        if next.len() > before {
            found.push(value);
        }
    }
    Some(())
}

impl Slice {
    /// The elements; `None` inside if none are asked for, which ends the search, and outside if
    /// there are not as many.
    fn of<'v>(
        &self,
        list: &'v [Value],
    ) -> Option<Option<impl Iterator<Item = &'v Value> + use<'v>>> {
        let len = i64::try_from(list.len()).ok()?;
        let from_end = |number: i64| {
            if number < 0 {
                number.saturating_add(len)
            } else {
                number
            }
        };
        let start = from_end(self.start.unwrap_or(0));
        let end = match self.end {
            End::OfList => len,
            End::At(end) => from_end(end),
            // The number behind -1 is 0, which stands for the end of the list.
            End::OfOne => match self.start.unwrap_or(0).saturating_add(1) {
                0 => len,
                end => from_end(end),
            },
        };
        if start == end {
            return Some(None);
        }
        if !(0..len).contains(&start) || end > len || start > end {
            return None;
        }
        let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
        let step = usize::try_from(self.step.unwrap_or(1)).ok()?;
        if step == 0 {
            return None;
        }
        Some(Some(list.get(range)?.iter().step_by(step)))
    }
}

impl Filter {
    fn find<'v>(
        &'v self,
        list: &'v [Value],
        found: &mut Vec<&'v Value>,
        budget: &mut usize,
    ) -> Option<()> {
        for element in list {
            *budget = budget.checked_sub(1)?;
            let Some((comparison, right)) = &self.right else {
                // Upstream passes over errors here.
                let left = self.left.find(element, budget);
                if left.is_some_and(|left| !left.is_empty()) {
                    found.push(element);
                }
                continue;
            };
            let left = self.left.find(element, budget)?;
            if left.is_empty() {
                continue;
            }
            let right = right.find(element, budget)?;
            match (left.as_slice(), right.as_slice()) {
                (_, []) => {}
                ([left], [right]) if comparison.holds(left, right)? => found.push(element),
                ([_], [_]) => {}
                _ => return None,
            }
        }
        Some(())
    }
}

impl Comparison {
    /// Whether it holds; `None` if the values cannot be compared. Integers and other numbers
    /// cannot, nor is there an order of booleans.
    fn holds(self, left: &Value, right: &Value) -> Option<bool> {
        use std::cmp::Ordering;
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => Some(left.cmp(&right)),
                (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
                _ => return None,
            },
            (Value::Bool(left), Value::Bool(right)) => match self {
                Comparison::Equal | Comparison::NotEqual => Some(left.cmp(right)),
                _ => return None,
            },
            _ => return None,
        };
        Some(match self {
            Comparison::Equal => order == Some(Ordering::Equal),
            Comparison::NotEqual => order != Some(Ordering::Equal),
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::LessEqual => order.is_some_and(Ordering::is_le),
            Comparison::Greater => order == Some(Ordering::Greater),
            Comparison::GreaterEqual => order.is_some_and(Ordering::is_ge),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "spec": {"replicas": 3, "a.b/c": "dotted", "empty": null, "half": 0.5},
            "status": {"conditions": [
                {"type": "Synced", "status": "False", "age": 1},
                {"type": "Ready", "status": "True", "age": 2, "why": "a)b"},
                {"status": "Unknown"},
            ]},
            "list": ["a", "b", "c", "d"],
        })
    }

    fn found(path: &str) -> Value {
        let path = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let object = object();
        let all = path.find(&object, &mut 1000);
        all.map_or(json!("error"), |all| all.into_iter().cloned().collect())
    }

    #[test]
    fn paths_find_what_they_say() {
        let cases = [
            (".spec.replicas", json!([3])),
            ("$.spec.replicas", json!([3])),
            (".spec.nothing.more", json!([])),
            (".spec.empty", json!([null])),
            (".spec.empty.more", json!([])),
            (r".spec.a\.b/c", json!(["dotted"])),
            (r".spec['a\.b/c']", json!(["dotted"])),
            (".spec['half']", json!([0.5])),
            (".['spec'].half", json!([])),
            (".list[0]", json!(["a"])),
            (".list[-1]", json!(["d"])),
            (".list[-2]", json!(["c"])),
            (".list[1:3]", json!(["b", "c"])),
            (".list[:2]", json!(["a", "b"])),
            (".list[2:]", json!(["c", "d"])),
            (".list[-3:-1]", json!(["b", "c"])),
            (".list[::2]", json!(["a", "c"])),
            (".list[*]", json!(["a", "b", "c", "d"])),
            (".list[]", json!(["a"])),
            (".list[1:1]", json!([])),
            (".list[0,-1]", json!(["a", "d"])),
            (".list[4]", json!("error")),
            (".list[-5]", json!("error")),
            (".list[3:1]", json!("error")),
            (".list[::0]", json!("error")),
            (".spec[0]", json!("error")),
            (".spec['replicas','half']", json!([3, 0.5])),
            (".status.conditions[*].type", json!(["Synced", "Ready"])),
            ("..type", json!(["Synced", "Ready"])),
            (".status..type", json!(["Synced", "Ready"])),
            (
                ".status.conditions[?(@.type==\"Ready\")].status",
                json!(["True"]),
            ),
            (
                ".status.conditions[?(@.type=='Ready')].status",
                json!(["True"]),
            ),
            (
                ".status.conditions[?( @.type == 'Ready' )].status",
                json!(["True"]),
            ),
            (
                ".status.conditions[?(@.why==\"a)b\")].status",
                json!(["True"]),
            ),
            (
                ".status.conditions[?(@.type!='Ready')].status",
                json!(["False"]),
            ),
            (
                ".status.conditions[?(@.type)].status",
                json!(["False", "True"]),
            ),
            (".status.conditions[?(@.age>1)].status", json!(["True"])),
            (".status.conditions[?(@.age<=1)].status", json!(["False"])),
            (".status.conditions[?(@.age==1.0)].status", json!("error")),
            (".status.conditions[?(@.age=='1')].status", json!("error")),
            (".status.conditions[?(@.type==true)].status", json!("error")),
            (".spec[?(@.a)]", json!("error")),
            (".", json!([])),
        ];
        for (path, expected) in cases {
            assert_eq!(found(path), expected, "{path}");
        }
    }

    #[test]
    fn wrong_paths_are_refused() {
        let wrong = [
            ".list[",
            ".list[x]",
            ".list[1:2:3:4]",
            ".list[+1]",
            ".list[99999999999999999999]",
            ".list[?(@.a=='b')",
            ".list[?(@.a=='b'",
            ".list[?(@.a=='b]",
            ".list[?(@.a=~'b')]",
            ".list[?(@.a===1)]",
            ".a....b",
            ".a}",
            ".a|b@|",
            ".a range",
            ".list[?(@.a==1x)]",
        ];
        for path in wrong {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_path_does_not_look_for_ever() {
        let mut value = json!({});
        for _ in 0..100 {
            value = json!({"a": value, "b": [1, 2, 3]});
        }
        let path = JsonPath::parse("..a..a..a..a..a..a").unwrap();
        assert_eq!(path.first(&value), None);
        let path = JsonPath::parse("..b").unwrap();
        assert_eq!(path.first(&value), Some(&json!([1, 2, 3])));
    }
}

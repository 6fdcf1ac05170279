//! Comparing what is printed with what was printed, up to what no two clusters have in common.
//!
//! Ages, times, identifiers, versions of objects, ports, addresses, and the parts of names that are
//! drawn at random become marks such as `<age>`; the width of columns, which depends on them, does
//! not count. JSON is compared as values, not as text: clients do not see in which order fields are.

use serde_json::Value;

use crate::record::Answer;

/// How two answers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Likeness {
    /// The same.
    Same,
    /// The same lines or list elements in another order: they are sorted by names that are random.
    OtherOrder,
    /// The same, up to which of several nodes a pod is on, or waits for.
    OtherNode,
    /// Different.
    Different,
}

/// What the order of lines means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// It counts, unless names are random.
    Strict,
    /// It does not count.
    OfLines,
    /// Neither does how often a line comes.
    OfDistinctLines,
}

/// Compares an answer with the recorded one.
pub(crate) fn compare(found: &Answer, recorded: &Answer, order: Order) -> Likeness {
    if found.exit != recorded.exit {
        return Likeness::Different;
    }
    let out = texts(&found.stdout, &recorded.stdout, order);
    out.max(texts(&found.stderr, &recorded.stderr, order))
}

fn texts(found: &str, recorded: &str, order: Order) -> Likeness {
    let (found, recorded) = (normal(found), normal(recorded));
    if found == recorded {
        return Likeness::Same;
    }
    let is_random = [&found, &recorded]
        .iter()
        .all(|text| text.contains("<rand>") || text.contains("<hash>"));
    if order == Order::Strict && !is_random {
        return Likeness::Different;
    }
    if sorted(&found, order) == sorted(&recorded, order) {
        return Likeness::OtherOrder;
    }
    let (found, recorded) = (without_nodes(&found), without_nodes(&recorded));
    match is_random && sorted(&found, order) == sorted(&recorded, order) {
        true => Likeness::OtherNode,
        false => Likeness::Different,
    }
}

fn sorted(text: &str, order: Order) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().map(|it| it.trim_end_matches(',')).collect();
    lines.sort_unstable();
    if order == Order::OfDistinctLines {
        lines.dedup();
    }
    lines
}

/// The text without what depends on which node was taken among equals.
fn without_nodes(text: &str) -> String {
    let mut text = text.to_owned();
    for (what, mark) in [("node-", "<node>"), ("\"z", "\"<zone>"), ("=z", "=<zone>")] {
        for number in 1..=3 {
            text = text.replace(&format!("{what}{number}"), mark);
        }
    }
    text
}

/// The text with marks for what varies.
pub(crate) fn normal(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let (head, body) = head_and_body(text);
    for line in head.lines().filter(|line| !is_of_this_answer(line)) {
        lines.push(line.trim_end().to_owned());
    }
    // The order of headers says nothing.
    lines.get_mut(1..).unwrap_or_default().sort_unstable();
    // For what a client waits on its way depends on how often it looks, and how slow it is.
    let is_on_the_way = |line: &&str| {
        line.starts_with("Waiting for deployment") || line.contains("client-side throttling")
    };
    let body = canonical(body);
    let told = body.lines().filter(|line| !is_on_the_way(line));
    lines.extend(told.map(normal_line));
    lines.join("\n").trim_end().to_owned()
}

/// The head of an HTTP answer, if there is one, and what follows.
fn head_and_body(text: &str) -> (&str, &str) {
    if !text.starts_with("HTTP/") {
        return ("", text);
    }
    let end = text.find("\r\n\r\n").map(|at| (at, at + 4));
    let end = end.or_else(|| text.find("\n\n").map(|at| (at, at + 2)));
    end.map_or((text, ""), |(head, body)| (&text[..head], &text[body..]))
}

/// Whether a header says something of this one answer, or of what the server is made of.
fn is_of_this_answer(line: &str) -> bool {
    [
        "date:",
        "audit-id:",
        "content-length:",
        "x-kubernetes-pf-",
        // Ours alone, and no harm.
        "x-content-type-options:",
    ]
    .iter()
    .any(|header| line.to_ascii_lowercase().starts_with(header))
}

/// JSON with sorted fields, each on its line, if the text is JSON or lines of JSON.
fn canonical(text: &str) -> String {
    if !text.trim_start().starts_with('{') {
        return text.to_owned();
    }
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let Ok(values) = values.collect::<Result<Vec<_>, _>>() else {
        return text.to_owned();
    };
    let printed = values.into_iter().map(|mut value| {
        value.sort_all_objects();
        sort_items(&mut value);
        format!("{value:#}")
    });
    printed.collect::<Vec<_>>().join("\n")
}

/// Sorts the elements of a list whose names are random.
fn sort_items(value: &mut Value) {
    if let Some(Value::Array(items)) = value.get_mut("items") {
        let text = |item: &Value| {
            let lines = format!("{item:#}");
            lines.lines().map(normal_line).collect::<String>()
        };
        if items.iter().any(|item| text(item).contains("<rand>")) {
            items.sort_by_cached_key(text);
        }
    }
}

fn normal_line(line: &str) -> String {
    let mut normal = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let (mark, length) = mark(rest, normal.ends_with("for "));
        if length > 0 {
            normal.push_str(&mark);
            rest = &rest[length..];
        } else if first == ' ' && !normal.trim().is_empty() {
            let spaces = rest.len() - rest.trim_start_matches(' ').len();
            normal.push_str(if spaces == 1 { " " } else { "  " });
            rest = &rest[spaces..];
        } else {
            normal.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    let normal = without_counts(normal.trim_end());
    keyed(&normal)
}

/// What stands at the beginning of a text, as a mark, and how long it is; 0 if it is a separator.
fn mark(rest: &str, is_limit: bool) -> (String, usize) {
    // Folders of `kubectl diff`; what was recorded has them without place and number.
    for folder in ["LIVE", "MERGED"] {
        let rest = rest.strip_prefix(&format!("/tmp/{folder}-"));
        if let Some(number) = rest.map(digits).filter(|it| *it > 0) {
            return (folder.to_owned(), "/tmp/-".len() + folder.len() + number);
        }
    }
    for shape in [
        "aaa, dd aaa dddd dd:dd:dd +dddd",
        "aaa, dd aaa dddd dd:dd:dd GMT",
        "dddd-dd-ddTdd:dd:dd.ddddddZ",
        "dddd-dd-ddTdd:dd:ddZ",
        "dddd-dd-dd dd:dd:dd.ddddddddd +dddd",
    ] {
        if fits(rest, shape) {
            return ("<time>".to_owned(), shape.len());
        }
    }
    if fits(rest, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh") {
        return ("<uid>".to_owned(), 36);
    }
    let is_inside = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let length = rest.find(|c| !is_inside(c)).unwrap_or(rest.len());
    let token = &rest[..length];
    if is_address(token) {
        let port = rest[length..].strip_prefix(':').map_or(0, digits);
        return match port {
            0 => ("<ip>".to_owned(), length),
            port => ("<ip>:<port>".to_owned(), length + 1 + port),
        };
    }
    if is_age(token) && !is_limit {
        return ("<age>".to_owned(), length);
    }
    (name(token), length)
}

fn digits(text: &str) -> usize {
    let end = text.find(|c: char| !c.is_ascii_digit());
    end.unwrap_or(text.len())
}

/// Whether a text begins like this: `d` is a digit, `a` a letter, `h` a hexadecimal digit.
fn fits(text: &str, shape: &str) -> bool {
    let text = text.as_bytes();
    text.len() >= shape.len()
        && shape.bytes().zip(text).all(|(wanted, found)| match wanted {
            b'd' => found.is_ascii_digit(),
            b'a' => found.is_ascii_alphabetic(),
            b'h' => found.is_ascii_hexdigit(),
            _ => wanted == *found,
        })
}

fn is_address(token: &str) -> bool {
    let parts: Vec<&str> = token.split('.').collect();
    parts.len() == 4 && parts.iter().all(|part| part.parse::<u8>().is_ok())
}

/// Whether this is an age such as `5s` or `2m10s`. Minutes alone are amounts of CPU.
fn is_age(token: &str) -> bool {
    let Some(rest) = token.strip_suffix('s') else {
        return false;
    };
    let rest = rest.strip_suffix('m').unwrap_or(rest);
    rest.split('m')
        .all(|number| !number.is_empty() && digits(number) == number.len())
}

/// A name with marks for its random parts.
fn name(token: &str) -> String {
    if let Some((component, "vm" | "outrank")) = token.rsplit_once('-') {
        // The host on which a component runs.
        return format!("{component}-<host>");
    }
    if let Some(rest) = token
        .strip_prefix("v1.36.")
        .filter(|it| digits(it) == it.len())
    {
        // The records are of 1.36.2; the client may be of a later patch.
        return if rest.is_empty() {
            token
        } else {
            "v1.36.<patch>"
        }
        .to_owned();
    }
    let (token, event) = match token.rsplit_once('.') {
        Some((token, last)) if last.len() == 16 && fits(last, "hhhhhhhhhhhhhhhh") => {
            (token, ".<event>")
        }
        _ => (token, ""),
    };
    let is_random = |part: &str| {
        part.chars()
            .all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c))
    };
    let parts = token
        .split('-')
        .enumerate()
        .map(|(at, part)| match part.len() {
            5 if at > 0 && is_random(part) => "<rand>",
            8..=10 if at > 0 && is_random(part) => "<hash>",
            // A hash that stands alone: the value of the label pod-template-hash.
            8..=10 if is_random(part) && part.contains(|c: char| c.is_ascii_digit()) => "<hash>",
            _ => part,
        });
    parts.collect::<Vec<_>>().join("-") + event
}

/// An event is counted as often as its cause came back, which is a matter of time.
fn without_counts(line: &str) -> String {
    match (line.find(" (x"), line.find(" over <age>)")) {
        (Some(start), Some(end)) if start < end => {
            format!("{}{}", &line[..start], &line[end + " over <age>)".len()..])
        }
        _ => line.to_owned(),
    }
}

/// Marks for values that are known by their keys.
fn keyed(line: &str) -> String {
    let mut line = line.to_owned();
    for key in ["resourceVersion", "continue", "Resource Version"] {
        for (before, after) in [
            ("\": \"", '"'),
            ("\":\"", '"'),
            (": \"", '"'),
            ("\\\":\\\"", '\\'),
        ] {
            let Some(at) = line.find(&format!("{key}{before}")) else {
                continue;
            };
            let start = at + key.len() + before.len();
            if let Some(length) = line[start..].find(after).filter(|it| *it > 0) {
                line.replace_range(start..start + length, "<version>");
            }
        }
    }
    if let Some(start) = line.find(", current: ").map(|at| at + ", current: ".len()) {
        let length = digits(&line[start..]);
        line.replace_range(start..start + length, "<version>");
    }
    while let Some(start) = line.find("hash=").map(|at| at + 5) {
        let end = line[start..].find(|c: char| !c.is_ascii_hexdigit());
        let end = end.map_or(line.len(), |end| start + end);
        if end == start {
            break;
        }
        line.replace_range(start - 1..end, ":<hash>");
    }
    line
}

/// Where two texts differ, line by line.
pub(crate) fn differences(found: &str, recorded: &str) -> String {
    let (found, recorded) = (normal(found), normal(recorded));
    let (found, recorded): (Vec<_>, Vec<_>) = (found.lines().collect(), recorded.lines().collect());
    let mut text = String::new();
    // The longest common subsequence, from the end.
    let width = found.len() + 1;
    let mut lengths = vec![0_u32; (recorded.len() + 1) * width];
    for r in (0..recorded.len()).rev() {
        for f in (0..found.len()).rev() {
            lengths[r * width + f] = match recorded[r] == found[f] {
                true => lengths[(r + 1) * width + f + 1] + 1,
                false => lengths[(r + 1) * width + f].max(lengths[r * width + f + 1]),
            };
        }
    }
    let (mut r, mut f) = (0, 0);
    while r < recorded.len() || f < found.len() {
        let is_common = r < recorded.len() && f < found.len() && recorded[r] == found[f];
        if is_common {
            (r, f) = (r + 1, f + 1);
        } else if r < recorded.len()
            && (f == found.len() || lengths[(r + 1) * width + f] >= lengths[r * width + f + 1])
        {
            text.push_str(&format!("    - {}\n", recorded[r]));
            r += 1;
        } else {
            text.push_str(&format!("    + {}\n", found[f]));
            f += 1;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_varies_is_marked() {
        for (text, expected) in [
            (
                "web-76c94fb65b-6wqv5   1/1  3s",
                "web-<hash>-<rand>  1/1  <age>",
            ),
            ("kube-api-access-bx4w5 (ro)", "kube-api-access-<rand> (ro)"),
            ("op=Exists for 300s", "op=Exists for 300s"),
            ("cpu  50m  2m10s", "cpu  50m  <age>"),
            ("at Sun, 29 Nov 2026 11:29:28 +0000", "at <time>"),
            (
                "\"resourceVersion\": \"366\",",
                "\"resourceVersion\": \"<version>\",",
            ),
            ("https://127.0.0.1:6443/", "https://<ip>:<port>/"),
            ("web.18ec8167d4ab5a00", "web.<event>"),
            ("0s (x2 over 1s)   Normal", "<age>  Normal"),
            ("Client Version: v1.32.4", "Client Version: v1.32.4"),
            (
                "fake://ec90a692-3359-4421-804a-768e551054c7app",
                "fake://<uid>app",
            ),
            ("pod-template-hash=76c94fb65b", "pod-template-hash=<hash>"),
        ] {
            assert_eq!(normal(text), expected);
        }
    }

    #[test]
    fn json_is_compared_as_values() {
        assert_eq!(
            normal("{\"b\":1,\"a\":2}"),
            normal("{ \"a\": 2, \"b\": 1 }\n")
        );
        assert_ne!(normal("{\"b\":1}"), normal("{\"b\":2}"));
    }

    #[test]
    fn differences_are_told_line_by_line() {
        let told = differences("a\nc\n", "a\nb\nc\n");
        assert_eq!(told, "    - b\n");
    }
}

//! Tables as kubectl prints them, and amounts for people.

use comfy_table::{CellAlignment, Table};

/// A table without lines; columns are two blanks apart.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(header.iter().map(|name| (*name).to_owned()));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// Aligns columns to the right, from `first` on.
pub(crate) fn align_right(table: &mut Table, first: usize) {
    for column in table.column_iter_mut().skip(first) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// A table as text: each line indented, without blanks at its end.
pub(crate) fn text(table: &Table, indent: &str) -> String {
    let lines = table
        .lines()
        .map(|line| format!("{indent}{}", line.trim_end()));
    lines.collect::<Vec<_>>().join("\n")
}

/// An amount of a resource: cores for cpu, binary units for bytes.
pub(crate) fn amount(resource: &str, amount: i64) -> String {
    match resource {
        "cpu" if amount % 1000 == 0 => (amount / 1000).to_string(),
        "cpu" => {
            let cores = format!("{:.3}", amount as f64 / 1000.0);
            cores.trim_end_matches('0').to_owned()
        }
        "memory" | "ephemeral-storage" => bytes(amount),
        _ if resource.starts_with("hugepages-") => bytes(amount),
        _ => amount.to_string(),
    }
}

/// A share in percent.
pub(crate) fn percent(part: i64, whole: i64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1}%", part as f64 * 100.0 / whole as f64)
}

fn bytes(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let rounded = format!("{value:.1}");
    format!(
        "{}{}",
        rounded.trim_end_matches('0').trim_end_matches('.'),
        UNITS[unit]
    )
}

#[cfg(test)]
mod tests {
    use super::amount;

    #[test]
    fn amounts_for_people() {
        assert_eq!(amount("cpu", 2000), "2");
        assert_eq!(amount("cpu", 2500), "2.5");
        assert_eq!(amount("memory", 3 << 29), "1.5Gi");
        assert_eq!(amount("memory", 1023), "1023");
        assert_eq!(amount("nvidia.com/gpu", 8), "8");
    }
}

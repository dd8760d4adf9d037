//! Pictures of a table for the terminal.

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Lines of the occupancy chart.
const HEIGHT: usize = 4;
/// Columns of the longest bar.
const WIDTH: f64 = 50.0;

/// How full each part of the table is: a column a part, from the table's start to its end.
#[must_use]
pub fn occupancy(parts: &[f64]) -> String {
    let mut text = String::new();
    for row in (0..HEIGHT).rev() {
        let label = match row {
            0 => "  0 %",
            row if row == HEIGHT - 1 => "100 %",
            _ => "     ",
        };
        let columns: String = parts.iter().map(|part| cell(*part, row)).collect();
        text += &format!("{label} |{columns}|\n");
    }
    text
}

fn cell(part: f64, row: usize) -> char {
    let eighths = (part * (HEIGHT * 8) as f64).round() as usize;
    // A part that holds anything at all is seen to.
    let eighths = if part > 0.0 { eighths.max(1) } else { 0 };
    EIGHTHS[eighths.saturating_sub(row * 8).min(8)]
}

/// How many there are of each class: a line with its name, its number and a bar.
#[must_use]
pub fn classes(counts: &[u64], name: impl Fn(usize) -> String) -> String {
    let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let mut text = String::new();
    for (class, count) in counts.iter().enumerate() {
        let bar = bar(*count as f64 / most * WIDTH);
        text += &format!(
            "{:>15}  {:>11}  {bar}\n",
            name(class),
            farslot_terminal::output::grouped(*count)
        );
    }
    text
}

/// The lengths in a class of lengths: `1`, `2-3`, `4-7`.
#[must_use]
pub fn lengths(class: usize) -> String {
    let (from, to) = (1_u64 << class, (2_u64 << class) - 1);
    if from == to {
        from.to_string()
    } else {
        format!("{from}-{to}")
    }
}

/// A bar of so many columns, to an eighth.
fn bar(columns: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = if columns > 0.0 {
        ((columns * 8.0).round() as usize).max(1)
    } else {
        0
    };
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_show_what_was_surveyed() {
        assert_eq!(
            occupancy(&[0.0, 0.001, 0.5, 1.0]),
            "100 % |   █|\n      |   █|\n      |  ██|\n  0 % | ▁██|\n"
        );
        let drawn = classes(&[100, 50, 0, 1], lengths);
        let lines: Vec<_> = drawn.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[0].ends_with(&"█".repeat(50)) && lines[0].contains(" 1 "));
        assert!(lines[1].contains("2-3") && lines[1].ends_with(&"█".repeat(25)));
        assert!(lines[2].trim_end().ends_with(" 0"));
        assert!(lines[3].contains("8-15") && lines[3].ends_with('▌'));
    }

    #[test]
    fn an_empty_table_is_drawn() {
        assert_eq!(classes(&[], lengths), "");
        assert!(occupancy(&[0.0; 3]).contains("|   |"));
    }
}

//! Renders tables as text and as Markdown.

use std::fmt::Write as _;

use super::escape;
use super::style::Style;
use crate::terminal;

/// Pads columns to their widest cell. The first and the last are left-aligned, the others
/// right-aligned.
pub(crate) fn aligned(table: &[Vec<String>], style: Style) -> String {
    let table: Vec<Vec<String>> = table
        .iter()
        .map(|row| row.iter().map(|cell| terminal::escape_line(cell)).collect())
        .collect();
    let columns = table[0].len();
    let width = |c: usize| table.iter().map(|row| row[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for (i, row) in table.iter().enumerate() {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(c, cell)| {
                let pad = " ".repeat(widths[c] - cell.chars().count());
                if c == 0 || c == columns - 1 {
                    format!("{cell}{pad}")
                } else {
                    format!("{pad}{cell}")
                }
            })
            .collect();
        let line = cells.join("  ");
        let line = line.trim_end();
        let _ = writeln!(out, "{}", if i == 0 { style.dim(line) } else { line.to_string() });
    }
    out
}

/// Renders a table. The text of its cells is escaped.
pub(crate) fn markdown(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|c| escape::markdown(c)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|{}\n", " --- |".repeat(head.len()));
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    line(&head) + &rule + &rows.map(|row| line(&row)).collect::<String>()
}

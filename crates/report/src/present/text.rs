//! Renders sections as aligned text for a terminal.

use std::fmt::Write as _;

use dyno_analysis::{Caveat, Severity};

use super::block::{Block, ReportSection};
use super::style::Style;
use super::table::ReportTable;
use crate::terminal::{self, escape_controls};

/// Maximum width of a paragraph, in characters.
const WIDTH: usize = 110;

/// Maximum number of lines of preformatted text, such as a log. The last lines are shown.
const CODE_LINES: usize = 5;

/// Renders a section with its heading.
pub(crate) fn section(section: &ReportSection, style: Style) -> String {
    let title = style.bold(&terminal::escape_line(&section.title));
    format!("{title}\n{}", render(&section.content, style))
}

/// Renders a part of a section.
pub(crate) fn render(block: &Block, style: Style) -> String {
    let group = |blocks: &[Block]| blocks.iter().map(|block| render(block, style)).collect();
    match block {
        Block::Heading(title) => style.bold(&terminal::escape_line(title)) + "\n",
        Block::Paragraph(class, sentence) => {
            let text = sentence.text();
            match *class {
                "answer" => style.bold(&wrap(&text, WIDTH, "")) + "\n",
                "note" => style.dim(&wrap(&text, WIDTH, "")) + "\n",
                // Messages of failures may have several lines.
                "bad" => {
                    let mark = style.paint_severity(Severity::Invalid, "✗");
                    format!("{mark} {}\n", escape_controls(&text))
                }
                _ => wrap(&text, WIDTH, "") + "\n",
            }
        }
        // An item stays on one line, because people and scripts search for its words.
        Block::List(items) => {
            let line = |text: String| format!("· {}\n", terminal::escape_line(&text));
            items.iter().map(|sentence| line(sentence.text())).collect()
        }
        Block::Caveats(caveats) => caveats.iter().map(|c| caveat_line(c, style)).collect(),
        Block::Code(_, text) => code(text, style),
        Block::Table(table) if table.rows.is_empty() => String::new(),
        Block::Table(table) => table.aligned(style),
        Block::Figure(figure) => {
            figure.table.aligned(style) + &render(&Block::note(&figure.note), style)
        }
        Block::Group(blocks) | Block::Marked(_, blocks) | Block::Folded(_, blocks) => group(blocks),
        Block::OnPages(_) | Block::Page(_) => String::new(),
    }
}

/// Formats a table that is indented by four spaces.
pub(crate) fn indented(table: &ReportTable, style: Style) -> String {
    table.aligned(style).lines().map(|line| format!("    {line}\n")).collect()
}

/// Formats a text after a mark.
fn item(mark: &str, text: &str) -> String {
    format!("{mark} {}\n", wrap(text, WIDTH - 2, "  "))
}

/// Formats a caveat with the mark of its severity.
pub(crate) fn caveat_line(caveat: &Caveat, style: Style) -> String {
    let mark = if caveat.severity == Severity::Info {
        style.dim("·")
    } else {
        style.paint_severity(caveat.severity, "!")
    };
    item(&mark, &caveat.message)
}

/// Formats the last lines of preformatted text.
fn code(text: &str, style: Style) -> String {
    let mut out = String::new();
    let lines: Vec<&str> = text.lines().collect();
    for line in lines.iter().skip(lines.len().saturating_sub(CODE_LINES)) {
        let _ = writeln!(out, "    {}", style.dim(&terminal::escape_line(line)));
    }
    out
}

/// Breaks a long line at spaces. All lines except the first begin with `indent`. Control characters
/// are made visible.
#[must_use]
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let text = escape_controls(text);
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > width {
            out.push('\n');
            out.push_str(indent);
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += len;
    }
    out
}

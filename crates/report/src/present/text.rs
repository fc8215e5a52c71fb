//! Renders sections as aligned text for a terminal.

use std::fmt::Write as _;

use dyno_analysis::{Caveat, Severity};

use super::block::{Block, ReportSection, ScopedPart};
use super::sentence::Sentence;
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
    let group =
        |blocks: &[Block]| -> String { blocks.iter().map(|block| render(block, style)).collect() };
    let heading = |title: &str| style.bold(&terminal::escape_line(title)) + "\n";
    let part = |part: &ScopedPart| heading(&part.title.text) + &group(&part.content);
    match block {
        Block::Heading(title) => heading(title),
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
        Block::List(items) => items.iter().map(list_line).collect(),
        Block::Steps(items) => items.iter().map(|item| list_line(&item.text)).collect(),
        Block::Caveats(caveats) => {
            caveats.iter().map(|c| caveat_line(c, style, ("", WIDTH - 2))).collect()
        }
        Block::Code(_, text) => code(text, style),
        Block::Table(table) if table.rows.is_empty() => String::new(),
        Block::Table(table) => table.aligned(style),
        Block::Figure(figure) => {
            figure.table.aligned(style) + &render(&Block::note(&figure.note), style)
        }
        Block::Group(blocks)
        | Block::Marked(_, blocks)
        | Block::OfWorkloads(_, blocks)
        | Block::Folded(_, blocks) => group(blocks),
        Block::Cards(parts) => parts.iter().map(part).collect(),
        Block::Profile { part: profile, .. } => part(profile),
        Block::OnPages(_) | Block::Page(_) => String::new(),
    }
}

/// Formats an item of a list. It stays on one line, because people and scripts search for words.
fn list_line(item: &Sentence) -> String {
    format!("· {}\n", terminal::escape_line(&item.text()))
}

/// Formats a table that is indented by four spaces.
pub(crate) fn indented(table: &ReportTable, style: Style) -> String {
    table.aligned(style).lines().map(|line| format!("    {line}\n")).collect()
}

/// Formats a caveat with the mark of its severity, after an indentation. `width`: the maximum width
/// of its message, in characters.
pub(crate) fn caveat_line(caveat: &Caveat, style: Style, (indent, width): (&str, usize)) -> String {
    let mark = if caveat.severity == Severity::Info {
        style.dim("·")
    } else {
        style.paint_severity(caveat.severity, "!")
    };
    format!("{indent}{mark} {}\n", wrap(&caveat.message, width, &format!("{indent}  ")))
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

//! Renders sections as Markdown.

use super::block::{Block, ReportSection};
use super::escape;
use super::sentence::Sentence;
use crate::terminal;

/// Renders a section after an empty line. Empty if only pages have its content.
pub(crate) fn section(section: &ReportSection) -> String {
    let content = render(&section.content);
    match content.is_empty() {
        true => content,
        false => format!("\n## {}\n{content}", escape::markdown(&section.title)),
    }
}

/// Renders a part of a section, after an empty line.
fn render(block: &Block) -> String {
    let group = |blocks: &[Block]| blocks.iter().map(render).collect::<String>();
    let titled = |title: &str, content: String| match content.is_empty() {
        true => content,
        false => format!("\n### {}\n{content}", escape::markdown(title)),
    };
    match block {
        Block::Heading(title) => format!("\n### {}\n", escape::markdown(title)),
        Block::Paragraph("answer", sentence) => format!("\n**{}**\n", sentence.markdown()),
        Block::Paragraph(_, sentence) => format!("\n{}\n", sentence.markdown()),
        Block::List(items) => list(items.iter()),
        Block::Steps(items) => list(items.iter().map(|item| &item.text)),
        Block::Caveats(caveats) => {
            let sentences: Vec<_> = caveats.iter().map(|c| Sentence::new(&c.message)).collect();
            list(sentences.iter())
        }
        Block::Code(language, text) => format!("\n{}", code_block(language, text)),
        Block::Table(table) if table.rows.is_empty() => String::new(),
        Block::Table(table) => format!("\n{}", table.markdown()),
        Block::Figure(figure) if figure.table.rows.is_empty() => String::new(),
        Block::Figure(figure) => {
            let note = render(&Block::note(&figure.note));
            titled(&figure.caption, format!("\n{}{note}", figure.table.markdown()))
        }
        Block::Group(blocks) | Block::Marked(_, blocks) | Block::OfWorkloads(_, blocks) => {
            group(blocks)
        }
        Block::Cards(parts) => {
            parts.iter().map(|part| titled(&part.title.text, group(&part.content))).collect()
        }
        Block::Profile { part, .. } => titled(&part.title.text, group(&part.content)),
        Block::Folded(summary, blocks) => titled(summary, group(blocks)),
        Block::OnPages(_) | Block::Page(_) => String::new(),
    }
}

/// Renders a list. Empty without items.
fn list<'a>(items: impl Iterator<Item = &'a Sentence>) -> String {
    let lines: String = items.map(|item| format!("- {}\n", item.markdown())).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Formats a code block. Its fence is longer than any sequence of backticks in the text.
fn code_block(language: &str, text: &str) -> String {
    let text = terminal::escape_controls(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_block_ends_at_its_own_fence() {
        assert_eq!(code_block("sh", "dyno run x"), "```sh\ndyno run x\n```\n");
        assert_eq!(code_block("", "a ```` b"), "`````\na ```` b\n`````\n");
    }
}

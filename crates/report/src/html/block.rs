//! Renders sections on a page.

use dyno_analysis::{Caveat, Severity};
use maud::{Markup, html};

use super::table;
use crate::present::block::{Block, Figure, ReportSection};
use crate::present::sentence::Sentence;
use crate::present::table::ReportTable;

/// Renders a section with its heading.
pub(crate) fn section(section: &ReportSection) -> Markup {
    html! {
        section id=(section.id) { h2 { (section.title) } "\n" (render(&section.content)) }
        "\n"
    }
}

/// Renders a part of a section.
pub(crate) fn render(block: &Block) -> Markup {
    match block {
        Block::Heading(title) => html! { h3 { (title) } "\n" },
        Block::Paragraph("", sentence) => html! { p { (sentence) } "\n" },
        Block::Paragraph(class, sentence) => html! { p class=(class) { (sentence) } "\n" },
        Block::List(items) => html! { ul { @for item in items { li { (item) } } } "\n" },
        Block::Code(_, text) => html! { pre { (text) } "\n" },
        Block::Table(content) => table::render(content),
        Block::Figure(content) => figure(content),
        Block::Group(blocks) | Block::OnPages(blocks) => group(blocks),
        Block::Marked(id, blocks) => html! { div id=(id) { (group(blocks)) } },
        Block::Folded(summary, blocks) => folded(summary, &group(blocks)),
        Block::Caveats(caveats) => caveat_list(caveats),
        Block::Page(content) => content.clone(),
    }
}

/// Renders caveats as a list. Empty without caveats. Each has a link to its meaning.
fn caveat_list(caveats: &[Caveat]) -> Markup {
    html! {
        @if !caveats.is_empty() {
            ul.caveats {
                @for caveat in caveats {
                    li class=(severity_class(caveat.severity)) {
                        (Sentence::new(&caveat.message)) " "
                        a.code href={ "#caveat-" (caveat.code) } { (caveat.code.in_words()) }
                    }
                }
            }
            "\n"
        }
    }
}

/// Returns the CSS class of a severity.
pub(crate) const fn severity_class(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Invalid => "invalid",
    }
}

fn group(blocks: &[Block]) -> Markup {
    html! { @for block in blocks { (render(block)) } }
}

/// Renders a place for a chart, with the chart's table folded below.
fn figure(Figure { chart, caption, legend, note, table }: &Figure) -> Markup {
    html! {
        figure data-chart=(chart) {
            "\n" figcaption { (caption) } "\n"
            div.tools {}
            div.plot {}
            "\n"
            (self::note(legend)) (self::note(note))
            (folded_table("Table", table))
        }
        "\n"
    }
}

/// Renders a table in a folded block.
pub(crate) fn folded_table(summary: &str, content: &ReportTable) -> Markup {
    folded(summary, &table::render(content))
}

/// Renders a note.
pub(crate) fn note(text: &str) -> Markup {
    render(&Block::note(text))
}

/// Renders a folded block. A click on `summary` opens the block.
pub(crate) fn folded(summary: &str, body: &Markup) -> Markup {
    html! { details { summary { (summary) } "\n" (body) } "\n" }
}

//! Renders sections on a page.

use dyno_analysis::{Caveat, Severity};
use maud::{Markup, html};

use super::table;
use crate::present::block::{Block, Chart, Figure, ReportSection, ScopedPart, StepItem};
use crate::present::sentence::Sentence;

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
        Block::Steps(items) => html! { ol.strip { @for item in items { (step(item)) } } "\n" },
        Block::Code(_, text) => html! { pre { (text) } "\n" },
        Block::Table(content) => table::render(content),
        Block::Figure(content) => figure(content),
        Block::Group(blocks) | Block::OnPages(blocks) | Block::OfWorkloads(None, blocks) => {
            group(blocks)
        }
        Block::OfWorkloads(Some(workloads), blocks) => {
            html! { div.reason data-workload=(workloads) { (group(blocks)) } }
        }
        Block::Marked(id, blocks) => html! { div id=(id) { (group(blocks)) } },
        Block::Cards(cards) => {
            html! { div.cards { "\n" @for part in cards { (card(part)) } } "\n" }
        }
        Block::Profile { part, is_open } => profile(part, *is_open),
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

/// Renders a step of a list.
fn step(StepItem { class, scope, hint, text }: &StepItem) -> Markup {
    html! {
        li class=(class) data-workload=[&scope.workloads] data-step=[scope.step] title=(hint) {
            (text)
        }
    }
}

/// Renders the card of a subject.
fn card(ScopedPart { scope, title, content }: &ScopedPart) -> Markup {
    html! {
        article.card data-subject=[scope.subject] data-workload=[&scope.workloads] {
            h3 { (title.content()) } "\n"
            (group(content))
        }
        "\n"
    }
}

/// Renders the profile of a cell.
fn profile(ScopedPart { scope, title, content }: &ScopedPart, is_open: bool) -> Markup {
    html! {
        details.profile
            data-subject=[scope.subject]
            data-workload=[&scope.workloads]
            data-step=[scope.step]
            open[is_open] {
            summary { (title.content()) }
            "\n"
            (group(content))
        }
        "\n"
    }
}

/// Renders a place for a chart, with the chart's table folded below.
fn figure(Figure { chart, caption, legend, note, table, table_title }: &Figure) -> Markup {
    let (name, flame, plot) = match chart {
        Chart::Named(name) => (Some(name), None, "plot"),
        Chart::Flame(index, side) => (None, Some((index, side.name())), "flame"),
    };
    let (profile, side) = flame.unzip();
    html! {
        figure data-chart=[name] data-profile=[profile] data-side=[side] {
            "\n" figcaption { (caption) } "\n"
            div.tools {}
            div class=(plot) {}
            "\n"
            (render(&Block::note(legend))) (render(&Block::note(note)))
            (folded(table_title, &table::render(table)))
        }
        "\n"
    }
}

/// Renders a folded block. A click on `summary` opens the block.
fn folded(summary: &str, body: &Markup) -> Markup {
    html! { details { summary { (summary) } "\n" (body) } "\n" }
}

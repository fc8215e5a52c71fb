//! Sections of a report as data: what a section contains, in which order. `html/block.rs` and
//! `markdown.rs` render them.

use dyno_analysis::Caveat;
use maud::Markup;

use super::sentence::Sentence;
use super::table::ReportTable;

/// A section with a heading.
pub(crate) struct ReportSection {
    /// Anchor on a page.
    pub(crate) id: &'static str,
    pub(crate) title: String,
    pub(crate) content: Block,
}

/// A part of a section.
pub(crate) enum Block {
    /// Heading below that of the section.
    Heading(String),
    /// A paragraph with its class on a page, which may be empty.
    Paragraph(&'static str, Sentence),
    List(Vec<Sentence>),
    Caveats(Vec<Caveat>),
    /// Text that is shown as it is, and its language, which may be empty.
    Code(&'static str, String),
    Table(ReportTable),
    Figure(Figure),
    Group(Vec<Block>),
    /// A group that a page shows folded.
    Folded(String, Vec<Block>),
    /// A group with an id by which the viewer finds it.
    Marked(&'static str, Vec<Block>),
    /// A group that only pages have, such as a table with a row per trial, which CSV has too.
    OnPages(Vec<Block>),
    /// Content that only pages have, such as a form.
    Page(Markup),
}

/// A chart of the viewer. Other forms show its table.
pub(crate) struct Figure {
    /// Name of the chart in the viewer.
    pub(crate) chart: &'static str,
    pub(crate) caption: String,
    /// Explains the marks of the chart, for pages.
    pub(crate) legend: String,
    /// Explains the values.
    pub(crate) note: String,
    pub(crate) table: ReportTable,
}

impl Block {
    /// Returns a block without content.
    pub(crate) const fn empty() -> Block {
        Block::Group(Vec::new())
    }

    /// Returns a paragraph.
    pub(crate) fn paragraph(text: &str) -> Block {
        Block::Paragraph("", Sentence::new(text))
    }

    /// Returns a note with a paragraph per line of the text.
    pub(crate) fn note(text: &str) -> Block {
        let paragraph = |line: &str| Block::Paragraph("note", Sentence::new(line));
        Block::Group(text.lines().filter(|line| !line.is_empty()).map(paragraph).collect())
    }

    /// Returns a table with its heading, and with notes above and below it. Empty without rows.
    pub(crate) fn part(title: &str, above: &str, table: ReportTable, below: &str) -> Block {
        if table.rows.is_empty() {
            return Block::empty();
        }
        Block::Group(vec![
            Block::Heading(title.into()),
            Block::note(above),
            Block::Table(table),
            Block::note(below),
        ])
    }

    /// Returns a chart with its table. `legend` explains the marks of the chart, `note` the values.
    pub(crate) fn figure(
        chart: &'static str,
        caption: impl Into<String>,
        (legend, note): (&str, &str),
        table: ReportTable,
    ) -> Block {
        let (legend, note) = (legend.into(), note.trim_start().into());
        Block::Figure(Figure { chart, caption: caption.into(), legend, note, table })
    }
}

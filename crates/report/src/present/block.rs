//! Sections of a report as data: what a section contains, in which order. `html/block.rs`,
//! `markdown.rs` and `text.rs` render them.

use dyno_analysis::Caveat;
use dyno_analysis::profile::SampleKind;
use maud::Markup;

use super::part_scope::PartScope;
use super::sentence::Sentence;
use super::table::{ReportTable, TableCell};

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
    /// A list of steps.
    Steps(Vec<StepItem>),
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
    /// A group that belongs to these workloads. `None`: shown under every selection.
    OfWorkloads(Option<String>, Vec<Block>),
    /// Cards of subjects.
    Cards(Vec<ScopedPart>),
    /// The profile of a cell, which a page shows folded unless it is open.
    Profile {
        part: ScopedPart,
        is_open: bool,
    },
    /// A group that only pages have, such as a table with a row per trial, which CSV has too.
    OnPages(Vec<Block>),
    /// Content that only pages have, such as a form.
    Page(Markup),
}

/// A titled part of a section, and the part of the plan that it belongs to.
pub(crate) struct ScopedPart {
    pub(crate) scope: PartScope,
    pub(crate) title: TableCell,
    pub(crate) content: Vec<Block>,
}

/// A step in a list, with a class and a hint for pages.
pub(crate) struct StepItem {
    pub(crate) class: &'static str,
    pub(crate) scope: PartScope,
    pub(crate) hint: String,
    pub(crate) text: Sentence,
}

/// A chart of the viewer. Other forms show its table.
pub(crate) struct Figure {
    pub(crate) chart: Chart,
    pub(crate) caption: String,
    /// Explains the marks of the chart, for pages.
    pub(crate) legend: String,
    /// Explains the values.
    pub(crate) note: String,
    pub(crate) table: ReportTable,
    /// Title of the folded table on a page.
    pub(crate) table_title: &'static str,
}

/// What the viewer draws.
pub(crate) enum Chart {
    /// The chart of this name.
    Named(&'static str),
    /// The flame graph of a profile, by its index on the page.
    Flame(usize, SampleKind),
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

    /// Returns a table. Empty without rows.
    pub(crate) fn rows(table: ReportTable) -> Block {
        if table.rows.is_empty() { Block::empty() } else { Block::Table(table) }
    }

    /// Returns a table that pages show folded. Empty without rows.
    pub(crate) fn folded_rows(summary: &str, table: ReportTable) -> Block {
        match table.rows.is_empty() {
            true => Block::empty(),
            false => Block::Folded(summary.into(), vec![Block::Table(table)]),
        }
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
        Block::Figure(Figure {
            chart: Chart::Named(chart),
            caption: caption.into(),
            legend: legend.into(),
            note: note.trim_start().into(),
            table,
            table_title: "Table",
        })
    }
}

//! Tables of a report as data. A form of output renders a [`ReportTable`]: `html/table.rs` for
//! pages, and this file for text and Markdown.

use std::fmt::Write as _;

use maud::{Markup, Render, html};

use super::escape;
use super::part_scope::PartScope;
use super::style::Style;
use crate::format::{bar_share, or_dash};
use crate::terminal;

/// A column: its head, and a function from a row to its value. A column whose head begins with `#`
/// holds numbers.
pub(crate) type Column<'a, R> = (&'a str, &'a dyn Fn(&R) -> TableCell);

/// A table: its class on a page, its columns and its rows.
pub(crate) struct ReportTable {
    pub(crate) class: &'static str,
    pub(crate) heads: Vec<Head>,
    pub(crate) rows: Vec<Row>,
    /// Workloads to which the table belongs; `None`: shown under every selection.
    pub(crate) workloads: Option<String>,
}

/// The head of a column.
pub(crate) struct Head {
    pub(crate) name: String,
    /// Whether the column holds numbers, which pages align to the right.
    pub(crate) is_number: bool,
    /// Subject to which the column belongs; `None`: shown under every selection.
    pub(crate) subject: Option<usize>,
}

impl Head {
    /// Makes the head of a column of texts with a name that users gave, such as `#1`.
    pub(crate) fn named(name: impl Into<String>) -> Head {
        Head { name: name.into(), is_number: false, subject: None }
    }

    /// Makes a head from a constant. A leading `#` marks a column of numbers.
    pub(crate) fn new(name: &str) -> Head {
        let number = name.strip_prefix('#');
        let is_number = number.is_some();
        Head { name: number.unwrap_or(name).into(), is_number, subject: None }
    }
}

/// A row: its values, and the part of the plan that it belongs to.
pub(crate) struct Row {
    pub(crate) scope: PartScope,
    pub(crate) values: Vec<TableCell>,
}

impl Row {
    pub(crate) fn new(scope: PartScope, values: Vec<TableCell>) -> Row {
        Row { scope, values }
    }
}

/// Makes a row of texts.
impl FromIterator<String> for Row {
    fn from_iter<I: IntoIterator<Item = String>>(texts: I) -> Row {
        Row::from(texts.into_iter().map(text).collect::<Vec<TableCell>>())
    }
}

/// Makes a row that is shown under every selection of the reader.
impl From<Vec<TableCell>> for Row {
    fn from(values: Vec<TableCell>) -> Row {
        Row { scope: PartScope::default(), values }
    }
}

impl ReportTable {
    /// Makes a table of rows with a value for each head.
    pub(crate) fn new(class: &'static str, heads: &[&str], rows: Vec<Row>) -> ReportTable {
        let heads = heads.iter().map(|name| Head::new(name)).collect();
        ReportTable::with_heads(class, heads, rows)
    }

    /// Makes a table of rows with a value for each of these heads.
    pub(crate) const fn with_heads(
        class: &'static str,
        heads: Vec<Head>,
        rows: Vec<Row>,
    ) -> ReportTable {
        ReportTable { class, heads, rows, workloads: None }
    }

    /// Makes a table with a row per item of `rows`, which is shown under every selection.
    pub(crate) fn plain<'r, R: 'r>(
        class: &'static str,
        columns: &[Column<'_, R>],
        rows: impl IntoIterator<Item = &'r R>,
    ) -> ReportTable {
        ReportTable::scoped(class, columns, rows, |_| PartScope::default())
    }

    /// Makes a table with a row per item of `rows`. `scope` returns the scope of an item.
    pub(crate) fn scoped<'r, R: 'r>(
        class: &'static str,
        columns: &[Column<'_, R>],
        rows: impl IntoIterator<Item = &'r R>,
        scope: impl Fn(&R) -> PartScope,
    ) -> ReportTable {
        let heads: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let values = |item: &R| columns.iter().map(|(_, value)| value(item)).collect();
        let row = |item| Row::new(scope(item), values(item));
        ReportTable::new(class, &heads, rows.into_iter().map(row).collect())
    }

    /// Pads columns to their widest cell. Numbers are right-aligned.
    pub(crate) fn aligned(&self, style: Style) -> String {
        let lines: Vec<Vec<String>> = self
            .texts()
            .map(|row| row.iter().map(|text| terminal::escape_line(text)).collect())
            .collect();
        let columns = self.heads.len();
        let width = |c: usize| lines.iter().map(|row| row[c].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for (i, row) in lines.iter().enumerate() {
            let padded = row.iter().enumerate().map(|(c, cell)| {
                let pad = " ".repeat(widths[c] - cell.chars().count());
                match self.heads[c].is_number {
                    true => format!("{pad}{cell}"),
                    false => format!("{cell}{pad}"),
                }
            });
            let line = padded.collect::<Vec<_>>().join("  ");
            let line = line.trim_end();
            let _ = writeln!(out, "{}", if i == 0 { style.dim(line) } else { line.to_string() });
        }
        out
    }

    /// Renders the table as Markdown. Its text is escaped.
    pub(crate) fn markdown(&self) -> String {
        let rule = |head: &Head| if head.is_number { " ---: |" } else { " --- |" };
        let rule = format!("|{}\n", self.heads.iter().map(rule).collect::<String>());
        let mut lines = self.texts().map(|row| {
            let cells: Vec<String> = row.iter().map(|text| escape::markdown(text)).collect();
            format!("| {} |\n", cells.join(" | "))
        });
        lines.next().unwrap_or_default() + &rule + &lines.collect::<String>()
    }

    /// Returns the texts of the heads, and then those of each row.
    fn texts(&self) -> impl Iterator<Item = Vec<String>> {
        let heads = self.heads.iter().map(|head| head.name.clone()).collect();
        let rows = self.rows.iter().map(|row| row.values.iter().map(TableCell::in_line).collect());
        std::iter::once(heads).chain(rows)
    }
}

/// A value of a table: its text in every form, and what only pages show.
#[derive(Default)]
pub(crate) struct TableCell {
    pub(crate) text: String,
    /// Content on a page; `None`: the text.
    page: Option<Markup>,
    /// More texts, which a page shows smaller and below.
    small: Vec<String>,
    /// Key by which the viewer sorts rows.
    pub(crate) key: Option<f64>,
    /// Hint on hover.
    pub(crate) hint: Option<String>,
    /// Length of a bar, 0 to 1.
    pub(crate) bar: Option<f64>,
    /// Whether the bar is truncated.
    pub(crate) is_cut: bool,
}

/// Returns a value with a content of its own on pages.
pub(crate) fn cell(text: impl Into<String>, page: Markup) -> TableCell {
    TableCell { text: text.into(), page: Some(page), ..TableCell::default() }
}

/// Returns a text.
pub(crate) fn text(text: impl Into<String>) -> TableCell {
    TableCell { text: text.into(), ..TableCell::default() }
}

/// Returns a number, which is its sort key. The text is `–` if the number is missing.
pub(crate) fn value(value: Option<f64>, show: impl FnOnce(f64) -> String) -> TableCell {
    text(or_dash(value, show)).sorted_by(value)
}

impl TableCell {
    /// Returns the content on a page. Text is escaped.
    pub(crate) fn content(&self) -> Markup {
        let main = self.page.clone().unwrap_or_else(|| self.text.render());
        html! { (main) @for text in &self.small { small { (text) } } }
    }

    /// Returns all texts on one line: `2.13 (2.10–2.15)`.
    fn in_line(&self) -> String {
        match self.small.as_slice() {
            [] => self.text.clone(),
            small => format!("{} ({})", self.text, small.join("; ")),
        }
    }

    /// Sets the sort key.
    pub(crate) fn sorted_by(mut self, key: Option<f64>) -> TableCell {
        self.key = key;
        self
    }

    /// Adds a bar that fills the cell if the key is `end`, and is truncated if the key is higher.
    pub(crate) fn with_bar(mut self, end: f64) -> TableCell {
        let key = if end > 0.0 { self.key } else { None };
        self.bar = key.map(|key| bar_share(key, end));
        self.is_cut = key.is_some_and(|key| key > end);
        self
    }

    /// Sets the hint on hover.
    pub(crate) fn with_hint(mut self, hint: Option<String>) -> TableCell {
        self.hint = hint;
        self
    }

    /// Adds a text, which a page shows smaller and below.
    pub(crate) fn with_small(mut self, below: impl Into<String>) -> TableCell {
        self.small.push(below.into());
        self
    }

    /// Adds smaller content that only pages have, below the text.
    pub(crate) fn with_small_on_page(mut self, below: &Markup) -> TableCell {
        self.page = Some(html! { (self.content()) small { (below) } });
        self.small.clear();
        self
    }
}

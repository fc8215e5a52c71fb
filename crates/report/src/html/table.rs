//! Tables of a page: rows that name what they are of, and cells with a sort key, a hint on hover
//! and a bar for the eye.

use maud::{Markup, Render, html};

use super::part_scope::PartScope;
use crate::format::{css_percent, or_dash, part};

/// A table. Columns whose name begins with `#` hold numbers.
pub(super) fn table(class: &str, head: &[&str], rows: &[TableRow]) -> Markup {
    html! {
        div.scroll {
            table class=(class) {
                thead { tr { @for name in head { (column(name)) } } }
                tbody {
                    "\n"
                    @for TableRow { of, cells } in rows {
                        tr data-subject=[of.subject]
                            data-workload=[&of.workloads]
                            data-step=[of.step]
                            data-control[of.control] {
                            @for (cell, name) in cells.iter().zip(head) { (cell.show(name)) }
                        }
                        "\n"
                    }
                }
            }
        }
        "\n"
    }
}

/// A row: its cells, and what it is of.
pub(super) struct TableRow {
    of: PartScope,
    cells: Vec<TableCell>,
}

/// A row that is shown under every selection of the reader.
impl From<Vec<TableCell>> for TableRow {
    fn from(cells: Vec<TableCell>) -> TableRow {
        TableRow { of: PartScope::default(), cells }
    }
}

impl TableRow {
    pub(super) fn new(of: PartScope, cells: Vec<TableCell>) -> TableRow {
        TableRow { of, cells }
    }
}

/// A column: its name, and a function from a row to its cell.
pub(super) type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> TableCell);

/// A table with a line for each of `rows`. `of`: what a line is of.
pub(super) fn table_of<T>(
    class: &str,
    columns: &[Column<'_, T>],
    rows: &[T],
    of: impl Fn(&T) -> PartScope,
) -> Markup {
    let head: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let row =
        |line: &T| TableRow::new(of(line), columns.iter().map(|(_, cell)| cell(line)).collect());
    table(class, &head, &rows.iter().map(row).collect::<Vec<TableRow>>())
}

fn column(name: &str) -> Markup {
    html! {
        @match name.strip_prefix('#') {
            Some(name) => { th.n scope="col" { (name) } }
            None => { th scope="col" { (name) } }
        }
    }
}

/// A cell: what is shown, what it sorts by, a hint on hover, and a bar for the eye (0 to 1).
#[derive(Default)]
pub(super) struct TableCell {
    shown: Markup,
    key: Option<f64>,
    hint: Option<String>,
    bar: Option<f64>,
    /// It would be longer than its cell.
    is_cut: bool,
}

/// A cell of markup or of text, which is escaped.
pub(super) fn cell(shown: impl Render) -> TableCell {
    TableCell { shown: shown.render(), ..TableCell::default() }
}

pub(super) fn text(text: impl AsRef<str>) -> TableCell {
    cell(text.as_ref())
}

pub(super) fn value(value: Option<f64>, show: impl FnOnce(f64) -> String) -> TableCell {
    text(or_dash(value, show)).sorted_by(value)
}

impl TableCell {
    pub(super) fn sorted_by(mut self, key: Option<f64>) -> TableCell {
        self.key = key;
        self
    }

    /// With a bar that fills the cell if the key is `end`, and is cut if it is more.
    pub(super) fn with_bar(mut self, end: f64) -> TableCell {
        self.bar = self.key.filter(|_| end > 0.0).map(|k| part(k, end));
        self.is_cut = end > 0.0 && self.key.is_some_and(|k| k > end);
        self
    }

    pub(super) fn with_hint(mut self, hint: Option<String>) -> TableCell {
        self.hint = hint;
        self
    }

    /// Adds smaller text below.
    pub(super) fn with_small(mut self, below: impl Render) -> TableCell {
        self.shown = html! { (self.shown) small { (below) } };
        self
    }

    fn show(&self, column: &str) -> Markup {
        let class = match (column.starts_with('#'), self.is_cut) {
            (true, true) => Some("n cut"),
            (true, false) => Some("n"),
            (false, true) => Some("cut"),
            (false, false) => None,
        };
        let bar = self.bar.map(|b| format!("--bar:{}", css_percent(b)));
        html! {
            td class=[class] data-key=[self.key] title=[&self.hint] style=[bar] { (self.shown) }
        }
    }
}

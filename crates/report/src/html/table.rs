//! Renders tables of a page. Rows name the part of the plan that they belong to. Cells have a sort
//! key, a hint on hover and a bar.

use maud::{Markup, Render, html};

use super::part_scope::PartScope;
use crate::format::{bar_share, css_percent, or_dash};

/// Renders a table. Columns whose name begins with `#` hold numbers.
pub(super) fn table(class: &str, head: &[&str], rows: &[TableRow]) -> Markup {
    html! {
        div.scroll {
            table class=(class) {
                thead { tr { @for name in head { (head_cell(name)) } } }
                tbody {
                    "\n"
                    @for TableRow { scope, cells } in rows {
                        tr data-subject=[scope.subject]
                            data-workload=[&scope.workloads]
                            data-step=[scope.step]
                            data-control[scope.control] {
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

/// A row: its cells, and the part of the plan that it belongs to.
pub(super) struct TableRow {
    scope: PartScope,
    cells: Vec<TableCell>,
}

/// Makes a row that is shown under every selection of the reader.
impl From<Vec<TableCell>> for TableRow {
    fn from(cells: Vec<TableCell>) -> TableRow {
        TableRow { scope: PartScope::default(), cells }
    }
}

impl TableRow {
    pub(super) fn new(scope: PartScope, cells: Vec<TableCell>) -> TableRow {
        TableRow { scope, cells }
    }
}

/// A column: its name, and a function from a row to its cell.
pub(super) type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> TableCell);

/// Renders a table with a row per item of `rows`. `scope` returns the scope of an item.
pub(super) fn table_from_columns<T>(
    class: &str,
    columns: &[Column<'_, T>],
    rows: &[T],
    scope: impl Fn(&T) -> PartScope,
) -> Markup {
    let head: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let row =
        |item: &T| TableRow::new(scope(item), columns.iter().map(|(_, cell)| cell(item)).collect());
    table(class, &head, &rows.iter().map(row).collect::<Vec<TableRow>>())
}

/// Renders the head of a column.
fn head_cell(name: &str) -> Markup {
    html! {
        @match name.strip_prefix('#') {
            Some(name) => { th.n scope="col" { (name) } }
            None => { th scope="col" { (name) } }
        }
    }
}

/// A cell: its content, its sort key, a hint on hover, and the length of a bar (0 to 1).
#[derive(Default)]
pub(super) struct TableCell {
    content: Markup,
    key: Option<f64>,
    hint: Option<String>,
    bar: Option<f64>,
    /// Whether the bar is truncated.
    is_cut: bool,
}

/// Returns a cell of markup, or of text, which is escaped.
pub(super) fn cell(content: impl Render) -> TableCell {
    TableCell { content: content.render(), ..TableCell::default() }
}

/// Returns a cell of text.
pub(super) fn text(text: impl AsRef<str>) -> TableCell {
    cell(text.as_ref())
}

/// Returns a row of texts. `keys`: columns that hold numbers, with the number of this row.
pub(super) fn text_row<const N: usize>(
    texts: impl IntoIterator<Item = String>,
    keys: [(usize, Option<f64>); N],
) -> TableRow {
    let mut cells: Vec<TableCell> = texts.into_iter().map(text).collect();
    for (column, key) in keys {
        cells[column].key = key;
    }
    TableRow::from(cells)
}

/// Returns a cell of a number, which is its sort key. The text is `–` if the number is missing.
pub(super) fn value(value: Option<f64>, show: impl FnOnce(f64) -> String) -> TableCell {
    text(or_dash(value, show)).sorted_by(value)
}

impl TableCell {
    /// Sets the sort key.
    pub(super) fn sorted_by(mut self, key: Option<f64>) -> TableCell {
        self.key = key;
        self
    }

    /// Adds a bar that fills the cell if the key is `end`, and is truncated if the key is higher.
    pub(super) fn with_bar(mut self, end: f64) -> TableCell {
        let key = if end > 0.0 { self.key } else { None };
        self.bar = key.map(|key| bar_share(key, end));
        self.is_cut = key.is_some_and(|key| key > end);
        self
    }

    /// Sets the hint on hover.
    pub(super) fn with_hint(mut self, hint: Option<String>) -> TableCell {
        self.hint = hint;
        self
    }

    /// Adds smaller text below the content.
    pub(super) fn with_small(mut self, below: impl Render) -> TableCell {
        self.content = html! { (self.content) small { (below) } };
        self
    }

    /// Renders the cell in a column of this name.
    fn show(&self, column: &str) -> Markup {
        let class = match (column.starts_with('#'), self.is_cut) {
            (true, true) => Some("n cut"),
            (true, false) => Some("n"),
            (false, true) => Some("cut"),
            (false, false) => None,
        };
        let bar = self.bar.map(|b| format!("--bar:{}", css_percent(b)));
        html! {
            td class=[class] data-key=[self.key] title=[&self.hint] style=[bar] { (self.content) }
        }
    }
}

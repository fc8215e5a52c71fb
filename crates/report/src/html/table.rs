//! Tables of a page: cells with a sort key, a hint on hover and a bar for the eye.

use maud::{Markup, Render, html};

use crate::format::{css_percent, or_dash, part};

/// A table. Columns whose name begins with `#` hold numbers.
pub(super) fn table(class: &str, head: &[&str], rows: &[Vec<Cell>]) -> Markup {
    html! {
        div.scroll {
            table class=(class) {
                thead { tr { @for name in head { (column(name)) } } }
                tbody {
                    "\n"
                    @for row in rows {
                        tr data-workload=[workloads(row)] {
                            @for (cell, name) in row.iter().zip(head) { (cell.show(name)) }
                        }
                        "\n"
                    }
                }
            }
        }
        "\n"
    }
}

/// A column: its name, and a function from a row to its cell.
pub(super) type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> Cell);

/// A table with a line for each of `rows`.
pub(super) fn table_of<T>(class: &str, columns: &[Column<'_, T>], rows: &[T]) -> Markup {
    let head: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let row = |of: &T| columns.iter().map(|(_, cell)| cell(of)).collect();
    table(class, &head, &rows.iter().map(row).collect::<Vec<Vec<Cell>>>())
}

fn column(name: &str) -> Markup {
    html! {
        @match name.strip_prefix('#') {
            Some(name) => { th.n scope="col" { (name) } }
            None => { th scope="col" { (name) } }
        }
    }
}

/// Indices of the workloads that a row is of, as one of its cells says.
fn workloads(row: &[Cell]) -> Option<&str> {
    row.iter().find_map(|cell| cell.workloads.as_deref())
}

/// A cell: what is shown, what it sorts by, a hint on hover, a bar for the eye (0 to 1), and the workloads of its row.
#[derive(Default)]
pub(super) struct Cell {
    shown: Markup,
    key: Option<f64>,
    hint: Option<String>,
    bar: Option<f64>,
    workloads: Option<String>,
}

/// A cell of markup or of text, which is escaped.
pub(super) fn cell(shown: impl Render) -> Cell {
    Cell { shown: shown.render(), ..Cell::default() }
}

pub(super) fn text(text: impl AsRef<str>) -> Cell {
    cell(text.as_ref())
}

pub(super) fn value(value: Option<f64>, show: impl FnOnce(f64) -> String) -> Cell {
    text(or_dash(value, show)).sorted_by(value)
}

impl Cell {
    pub(super) fn sorted_by(mut self, key: Option<f64>) -> Cell {
        self.key = key;
        self
    }

    pub(super) fn with_bar(mut self, of: f64) -> Cell {
        self.bar = self.key.filter(|_| of > 0.0).map(|k| part(k, of));
        self
    }

    pub(super) fn with_hint(mut self, hint: Option<String>) -> Cell {
        self.hint = hint;
        self
    }

    /// Lets the viewer's switch pick the row by these workloads, given by their indices in the plan.
    pub(super) fn of_workloads(mut self, indices: impl IntoIterator<Item = usize>) -> Cell {
        let indices: Vec<String> = indices.into_iter().map(|index| index.to_string()).collect();
        self.workloads = Some(indices.join(" "));
        self
    }

    /// Adds smaller text below.
    pub(super) fn with_small(mut self, below: impl Render) -> Cell {
        self.shown = html! { (self.shown) small { (below) } };
        self
    }

    fn show(&self, column: &str) -> Markup {
        let class = column.starts_with('#').then_some("n");
        let bar = self.bar.map(|b| format!("--bar:{}", css_percent(b)));
        html! {
            td class=[class] data-key=[self.key] title=[&self.hint] style=[bar] { (self.shown) }
        }
    }
}

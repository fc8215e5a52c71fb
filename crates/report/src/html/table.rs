//! Renders tables of a page.

use maud::{Markup, html};

use crate::format::css_percent;
use crate::present::table::{Head, ReportTable, Row, TableCell};

/// Renders a table. Its rows name the part of the plan that they belong to.
pub(crate) fn render(table: &ReportTable) -> Markup {
    html! {
        div.scroll data-workload=[&table.workloads] {
            table class=(table.class) {
                thead { tr { @for head in &table.heads { (head_cell(head)) } } }
                tbody {
                    "\n"
                    @for Row { scope, values } in &table.rows {
                        tr data-subject=[scope.subject]
                            data-workload=[&scope.workloads]
                            data-step=[scope.step]
                            data-control[scope.control] {
                            @for (value, head) in values.iter().zip(&table.heads) {
                                (cell(value, head))
                            }
                        }
                        "\n"
                    }
                }
            }
        }
        "\n"
    }
}

/// Renders the head of a column.
fn head_cell(head: &Head) -> Markup {
    html! {
        th class=[head.is_number.then_some("n")] scope="col" data-subject=[head.subject] {
            (head.name)
        }
    }
}

/// Renders a value in a column.
fn cell(value: &TableCell, head: &Head) -> Markup {
    let class = match (head.is_number, value.is_cut) {
        (true, true) => Some("n cut"),
        (true, false) => Some("n"),
        (false, true) => Some("cut"),
        (false, false) => None,
    };
    let bar = value.bar.map(|b| format!("--bar:{}", css_percent(b)));
    html! {
        td class=[class]
            data-subject=[head.subject]
            data-key=[value.key]
            title=[&value.hint]
            style=[bar] {
            (value.content())
        }
    }
}

//! Every trial as a line of CSV (RFC 4180).

use dyno_analysis::Report;
use dyno_analysis::report::Table;
use serde_json::Value;

/// The table of trials.
#[must_use]
pub fn render(report: &Report) -> String {
    report.tables.iter().find(|t| t.name == "trials").map(table).unwrap_or_default()
}

/// Any table.
#[must_use]
pub fn table(table: &Table) -> String {
    let head = table.columns.join(",");
    let rows = table.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(","));
    std::iter::once(head).chain(rows).map(|line| line + "\r\n").collect()
}

/// What is not known is an empty cell, never a zero.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let t = Table {
            name: "t",
            title: "T",
            columns: vec!["a", "b"],
            rows: vec![vec![json!("x,\"y\""), json!(null)], vec![json!(1.5), json!(true)]],
        };
        assert_eq!(table(&t), "a,b\r\n\"x,\"\"y\"\"\",\r\n1.5,true\r\n");
    }
}

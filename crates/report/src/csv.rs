//! Formats tables as CSV (RFC 4180). A report in CSV has a line per trial.

use dyno_analysis::tables::Table;
use serde_json::Value;

use crate::output::Format;
use crate::terminal::escape_controls;

/// The format: the table of trials of a report.
pub const FORMAT: Format =
    Format::stored("csv", "A line per trial, for spreadsheets", |redacted| {
        let trials = redacted.report.tables.iter().find(|t| t.name == "trials");
        trials.map(table).unwrap_or_default()
    });

/// Renders a table.
#[must_use]
pub fn table(table: &Table) -> String {
    let mut lines =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let written = lines.write_record(&table.columns).and_then(|()| {
        table.rows.iter().try_for_each(|row| lines.write_record(row.iter().map(cell)))
    });
    written.expect("writes to memory succeed, and rows have a cell for every column");
    let bytes = lines.into_inner().expect("writes to memory succeed");
    String::from_utf8(bytes).expect("all cells are UTF-8")
}

/// Formats a cell. An unknown value is an empty cell, never a zero. Control characters are made
/// visible. A text that begins like a formula is prefixed with an apostrophe, as OWASP advises,
/// because a spreadsheet would run it. Numbers are not prefixed.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) => {
            format!("'{}", escape_controls(text))
        }
        Value::String(text) => escape_controls(text).into_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn render_table(columns: Vec<&'static str>, rows: Vec<Vec<Value>>) -> String {
        table(&Table { name: "t", title: "T", columns, rows })
    }

    #[test]
    fn table_with_quotes_and_commas_is_quoted() {
        let rows = vec![vec![json!("x,\"y\"\x1b]0;z"), json!(null)], vec![json!(1.5), json!(true)]];
        assert_eq!(
            render_table(vec!["a", "b"], rows),
            "a,b\r\n\"x,\"\"y\"\"␛]0;z\",\r\n1.5,true\r\n"
        );
    }

    #[test]
    fn cell_with_formula_is_escaped_and_number_is_not() {
        let texts = ["=HYPERLINK(\"http://x\")", "+1", "-1", "@a", "\tx", "\rx"];
        let rows = texts
            .iter()
            .map(|t| vec![json!(t)])
            .chain([vec![json!(-1.5)], vec![json!("a-b")]])
            .collect();
        let text = render_table(vec!["name"], rows);
        let cells: Vec<String> = csv::Reader::from_reader(text.as_bytes())
            .records()
            .map(|r| r.unwrap()[0].to_string())
            .collect();
        let defused: Vec<String> =
            texts.iter().map(|t| format!("'{}", escape_controls(t))).collect();
        assert_eq!(cells[..6], defused);
        assert_eq!(cells[6..], ["-1.5", "a-b"]);
    }
}

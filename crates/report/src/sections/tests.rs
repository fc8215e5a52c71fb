//! Tests that all forms of a report have the same content.

use std::collections::BTreeSet;
use std::path::Path;

use dyno_analysis::Report;
use dyno_archive::RunDir;
use serde_json::Value;

use super::*;
use crate::html;
use crate::present::style::Style;
use crate::present::{markdown, text};
use crate::redact::redact;

fn golden_report() -> Report {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    dyno_analysis::report::report(&RunDir::open(folder).unwrap().read().unwrap())
}

/// Collects the tables of a block, and of the blocks in it.
fn collect_tables<'a>(block: &'a Block, found: &mut Vec<&'a ReportTable>) {
    match block {
        Block::Table(table) => found.push(table),
        Block::Figure(figure) => found.push(&figure.table),
        Block::Group(blocks)
        | Block::Folded(_, blocks)
        | Block::Marked(_, blocks)
        | Block::OfWorkloads(_, blocks)
        | Block::OnPages(blocks) => blocks.iter().for_each(|block| collect_tables(block, found)),
        Block::Cards(parts) => {
            let blocks = parts.iter().flat_map(|part| &part.content);
            blocks.for_each(|block| collect_tables(block, found));
        }
        Block::Profile { part, .. } => {
            part.content.iter().for_each(|block| collect_tables(block, found));
        }
        Block::Heading(_)
        | Block::Paragraph(..)
        | Block::List(_)
        | Block::Steps(_)
        | Block::Caveats(_)
        | Block::Code(..)
        | Block::Page(_) => {}
    }
}

/// Collects the bits of all numbers of a JSON value.
fn collect_numbers(value: &Value, found: &mut BTreeSet<u64>) {
    match value {
        Value::Number(number) => found.extend(number.as_f64().map(f64::to_bits)),
        Value::Array(items) => items.iter().for_each(|item| collect_numbers(item, found)),
        Value::Object(members) => members.values().for_each(|item| collect_numbers(item, found)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Columns with numbers of items of lists that the JSON has, as section and head.
const COUNTS: [(&str, &str); 1] = [("load", "Intervals")];

/// The tables of CSV and JSON are not used for this test: they could repeat a wrong number.
#[test]
fn numbers_of_tables_are_numbers_of_json() {
    let report = golden_report();
    let mut json = serde_json::to_value(&report).unwrap();
    json["tables"].take();
    let mut known = BTreeSet::new();
    collect_numbers(&json, &mut known);
    let mut checked = BTreeSet::new();
    for section in sections(&redact(&report)) {
        let mut tables = Vec::new();
        collect_tables(&section.content, &mut tables);
        for (head, key) in tables.iter().flat_map(|table| {
            let cells = table.rows.iter().flat_map(|row| row.values.iter().zip(&table.heads));
            cells.filter_map(|(cell, head)| Some((head, cell.key?)))
        }) {
            let place = (section.id, &*head.name);
            let is_known = known.contains(&key.to_bits()) || COUNTS.contains(&place);
            assert!(is_known, "{place:?}: {key} is not in the JSON");
            checked.insert((section.id, head.name.clone()));
        }
    }
    assert!(checked.len() > 60, "{checked:?}");
}

#[test]
fn cards_of_limits_have_every_form() {
    let report = golden_report();
    let Block::OnPages(blocks) = limiters::limiters(&report) else { panic!("a block of pages") };
    let content = Block::Group(blocks);
    let section = ReportSection { id: "why", title: "Why".into(), content };
    let page = html::block::section(&section).into_string();
    let (markdown, text) = (markdown::section(&section), text::section(&section, Style::Plain));
    let step = report.summaries.iter().find(|s| s.subject == "slow").unwrap();
    let limiter = step.limiter.in_words();
    assert!(page.contains("</span>Slow</h3>"), "{page}");
    assert!(page.contains(&format!("<b>4</b> {limiter}")), "{page}");
    assert!(markdown.contains("\n### Slow\n"), "{markdown}");
    assert!(markdown.contains(&format!("\n- **4** {limiter}")), "{markdown}");
    assert!(text.contains("\nSlow\n"), "{text}");
    assert!(text.contains(&format!("\n· 4 {limiter}")), "{text}");
    for form in [&page, &markdown, &text] {
        assert_eq!(form.matches("events per wait").count(), 2, "{form}");
    }
}

//! Tests the content of the page without a viewer: each test changes the report of the golden run,
//! and checks the page.

use std::path::Path;
use std::sync::LazyLock;

use dyno_analysis::metric::MetricId;
use dyno_analysis::report::report;
use dyno_analysis::{Caveat, Code, Report, Severity};
use dyno_archive::RunDir;
use dyno_report::html;

/// Three repeats at 4 and at 16 connections of a fast and a slow server, in one workload. The slow
/// server is the baseline. A third server, `absent`, was skipped.
static HELLO: LazyLock<Report> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
    report(&RunDir::open(folder).unwrap().read().unwrap())
});

/// Returns the page of the changed report.
fn page(change: impl Fn(&mut Report)) -> String {
    let mut report = HELLO.clone();
    change(&mut report);
    html::page(&report, "", "")
}

/// Adds a second workload with the numbers of the first.
fn add_workload(r: &mut Report) {
    let mut second = r.run.workloads[0].clone();
    second.name = "json".into();
    r.run.workloads.push(second);
    let set_workload = |cell: &mut dyno_analysis::cell::CellKey, name: &mut String| {
        cell.workload = 1;
        *name = "json".into();
    };
    r.summaries.extend(r.summaries.clone().into_iter().map(|mut s| {
        set_workload(&mut s.cell, &mut s.workload);
        s
    }));
    r.overview.extend(r.overview.clone().into_iter().map(|mut row| {
        set_workload(&mut row.reference_cell, &mut row.workload);
        row
    }));
    r.comparisons.extend(r.comparisons.clone().into_iter().map(|mut c| {
        set_workload(&mut c.cell, &mut c.workload);
        c
    }));
}

/// Returns the text between the first `from` and the next `to`.
fn text_between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text.split_once(from).unwrap_or_else(|| panic!("no {from}")).1;
    rest.split_once(to).unwrap_or_else(|| panic!("no {to}")).0
}

fn section<'a>(page: &'a str, id: &str) -> &'a str {
    text_between(page, &format!("<section id=\"{id}\">"), "</section>")
}

/// Returns the start tags of elements: `li class="…"`.
fn tags<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let begins = format!("<{name}");
    text.split(begins.as_str()).skip(1).map(|rest| rest.split_once('>').unwrap().0.trim()).collect()
}

fn overview_rows(page: &str) -> Vec<&str> {
    let body = text_between(section(page, "overview"), "<tbody>", "</tbody>");
    body.split("<tr").skip(1).collect()
}

/// A leading `#` of a constant head marks a column of numbers.
#[test]
fn name_of_check_keeps_number_sign() {
    let page = page(|r| {
        let checks = r.subjects.iter_mut().flat_map(|subject| &mut subject.checks);
        checks.for_each(|check| check.name = "#health".into());
    });
    let head = text_between(section(&page, "life"), "class=\"checks\"", "</thead>");
    assert!(head.contains(">#health<"), "{head}");
}

#[test]
fn rows_and_cards_name_their_scope() {
    let one = page(|_| {});
    let rows = tags(text_between(section(&one, "load"), "<tbody>", "</tbody>"), "tr");
    assert_eq!(
        rows,
        [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(arm, step)| scope_attributes(arm, step))
    );
    assert!(!one.contains("data-workload"), "one workload needs no selection");
    let two = page(add_workload);
    let rows = tags(text_between(section(&two, "load"), "<tbody>", "</tbody>"), "tr");
    assert_eq!(rows.len(), 8);
    assert_eq!(rows[4], "data-subject=\"0\" data-workload=\"1\" data-step=\"0\"");
    let cards = tags(section(&two, "why"), "article");
    assert_eq!(
        cards,
        ["0", "1"]
            .map(|arm| format!("class=\"card\" data-subject=\"{arm}\" data-workload=\"0 1\""))
    );
    let steps = tags(section(&two, "why"), "li");
    assert!(
        steps.len() == 8
            && steps.iter().all(|li| li.contains("data-workload") && li.contains("data-step"))
    );
}

fn scope_attributes(arm: usize, step: usize) -> String {
    format!("data-subject=\"{arm}\" data-step=\"{step}\"")
}

/// Names come from archives, which may be untrusted.
#[test]
fn control_characters_are_visible_in_every_form() {
    let mut report = HELLO.clone();
    report.run.suite = "x\x1b]0;title\x07\u{202e}y".into();
    report.subjects[0].title = "a\x1b[2Jb\u{9b}c".into();
    report.overview[0].title = "a\x1b[2Jb\u{9b}c".into();
    report.caveats.push(dyno_analysis::Caveat {
        code: dyno_analysis::Code::TREND,
        severity: dyno_analysis::Severity::Warning,
        message: "Use `--repeats 5` \x1b here.".into(),
        evidence: serde_json::Value::Null,
    });
    let page = html::page(&report, "", "");
    let visible = page.split("<script type=\"application/json\"").next().unwrap();
    let is_control = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
    assert!(
        !visible.contains(is_control) && visible.contains("x␛]0;title␇\\u{202e}y"),
        "{visible}"
    );
    assert!(visible.contains("Use <code>--repeats 5</code> ␛ here."), "{visible}");
    let csv = dyno_report::csv::FORMAT.render(&report);
    assert!(!csv.contains(|c: char| c.is_control() && !"\r\n\t".contains(c)), "{csv}");
}

#[test]
fn row_without_numbers_belongs_to_every_workload() {
    let row_workloads = |page: &str| -> Vec<String> {
        overview_rows(page)
            .iter()
            .map(|row| text_between(row, "data-workload=\"", "\"").to_string())
            .collect()
    };
    let absent = HELLO.overview.iter().position(|row| row.subject == "absent").unwrap();
    let mut expected = ["0", "0", "0", "1", "1", "1"];
    (expected[absent], expected[absent + 3]) = ("0 1", "0 1");
    assert_eq!(row_workloads(&page(add_workload)), expected);
    let lost = page(|r| {
        add_workload(r);
        r.summaries.retain(|s| s.workload != "json");
    });
    let mut expected = ["0", "0", "0", "0 1", "0 1", "0 1"];
    expected[absent] = "0 1";
    assert_eq!(row_workloads(&lost), expected, "a workload without results");
}

#[test]
fn card_has_reason_per_workload() {
    let sentences = |page: &str| -> Vec<String> {
        let cards = section(page, "why");
        cards.split("<p>").skip(1).map(|p| p.split_once(':').unwrap().0.to_string()).collect()
    };
    let one = page(|_| {});
    assert_eq!(sentences(&one), ["At 16 connections", "At 16 connections"]);
    assert!(!one.contains("class=\"reason\""));
    let two = page(|r| {
        add_workload(r);
        for s in
            r.summaries.iter_mut().filter(|s| s.workload == "json" && s.shape.connections == 16)
        {
            s.metrics.get_mut(&MetricId::Throughput).unwrap().repeats.median = None;
        }
    });
    let each = ["At 16 connections of plaintext", "At 4 connections of json"];
    assert_eq!(sentences(&two), [each, each].concat());
    assert_eq!(
        tags(section(&two, "why"), "div class=\"reason\""),
        ["0", "1", "0", "1"].map(|w| format!("data-workload=\"{w}\""))
    );
}

#[test]
fn counters_are_compared_with_reference_in_same_workload() {
    let two = page(|r| {
        add_workload(r);
        let there = r
            .summaries
            .iter_mut()
            .find(|s| s.workload == "json" && s.subject == "slow" && s.shape.connections == 16);
        there.unwrap().metrics.get_mut(&MetricId::BytesReceived).unwrap().repeats.median =
            Some(1234.0);
        let pairs =
            r.comparisons.iter_mut().find(|c| c.workload == "json" && c.shape.connections == 16);
        pairs.unwrap().metrics.get_mut(&MetricId::BytesReceived).unwrap().median = Some(0.5);
    });
    let cards: Vec<&str> = section(&two, "why").split("<article").skip(1).collect();
    let [fast, slow] = cards[..] else { panic!("{} cards", cards.len()) };
    let rows: Vec<&str> = fast
        .split("<tr>")
        .filter(|row| row.starts_with("<td>bytes received"))
        .map(str::trim)
        .collect();
    assert!(rows[0].contains(">78.0 B<") && !rows[0].contains("1.23 kB"), "{}", rows[0]);
    assert!(rows[1].contains(">1.23 kB<") && rows[1].contains(">× 0.500<"), "{}", rows[1]);
    assert!(!slow.contains("Ratio of pairs"), "the baseline has no ratio to itself");
}

#[test]
fn bars_are_scaled_per_workload_and_controls_truncated() {
    let peaks = |change: fn(&mut Report)| -> Vec<String> {
        let page = page(change);
        let peak = |row: &&str| {
            let cell = row.split("<td").nth(2).unwrap().split('>').next().unwrap();
            let cut = if cell.contains("cut") { ", cut" } else { "" };
            cell.contains("--bar").then(|| format!("{}{cut}", text_between(cell, "--bar:", "\"")))
        };
        overview_rows(&page).iter().filter_map(peak).collect()
    };
    let scaled = peaks(|r| {
        add_workload(r);
        for row in r.overview.iter_mut().filter(|row| row.workload == "json") {
            if let Some(peak) = row.peak_rps.as_mut() {
                peak.median = peak.median.map(|m| m * 1000.0);
            }
        }
    });
    assert_eq!(scaled[..2], scaled[2..], "bars do not depend on the other workload");
    let cut = peaks(|r| {
        for row in r.overview.iter_mut().filter(|row| row.subject == "fast") {
            row.control = true;
        }
    });
    assert_eq!(cut, ["100.0%, cut", "80.0%"]);
}

#[test]
fn columns_without_content_are_left_out() {
    let heads = |change: fn(&mut Report)| -> String {
        let page = page(change);
        text_between(section(&page, "load"), "<thead>", "</thead>").to_string()
    };
    let plain = heads(|_| {});
    for name in ["Streams", "Pipeline", "Rate", "Pass"] {
        assert!(!plain.contains(&format!(">{name}<")), "{plain}");
    }
    assert!(heads(|r| r.summaries[0].shape.streams = 2).contains(">Streams<"));
    assert!(heads(|r| r.summaries[0].shape.pass = 2).contains(">Pass<"));
    assert!(heads(|r| r.summaries[0].shape.rate = Some(100.0)).contains(">Rate<"));
}

#[test]
fn lifetimes_with_data_have_chart() {
    let with = page(|_| {});
    assert!(with.contains("data-chart=\"lifetimes\"") && !with.contains("requests, whole life"));
    let priced = page(|r| {
        r.run.cost = Some(dyno_model::plan::Cost { per_vcpu_hour: 0.04, ..Default::default() });
    });
    assert!(priced.contains("CPU cost of a billion requests, whole life"));
    let without = page(|r| r.subjects.iter_mut().for_each(|s| s.lifetimes = Default::default()));
    assert!(
        !without.contains("data-chart=\"lifetimes\"")
            && without.contains("over a server's whole life")
    );
}

/// Returns the first cell of a table's column.
fn first_cell(table: &str, head: &str) -> String {
    let heads: Vec<&str> = text_between(table, "<thead>", "</thead>").split("<th").collect();
    let of_head = format!(">{head}</th>");
    let column = heads.iter().position(|cell| cell.contains(&of_head));
    let column = column.unwrap_or_else(|| panic!("no column {head} in {heads:?}"));
    let row = text_between(table, "<tbody>", "</tr>");
    let cell = row.split("<td").nth(column).unwrap();
    text_between(cell, ">", "</td>").to_string()
}

#[test]
fn incorrect_responses_are_complete_and_not_ok_everywhere() {
    let page = page(|r| {
        for trial in &mut r.trials {
            let load = &mut trial.load;
            let counts = &mut load.exchanges;
            (counts.scheduled, counts.started, counts.completed) = (1000, 1000, 1000);
            (counts.carried_in, counts.failed, counts.dropped) = (0, 0, 0);
            (counts.in_flight_at_end, counts.cut_off) = (0, 0);
            load.outcomes = Default::default();
            (0..1000).for_each(|_| load.outcomes.count(dyno_model::Outcome::UnexpectedStatus));
            trial.error_share = Some(load.error_share());
        }
        for step in &mut r.summaries {
            let errors = step.metrics.get_mut(&MetricId::ErrorShare).unwrap();
            errors.repeats = dyno_analysis::stats::Repeated::new(vec![1.0; 3]);
        }
    });
    let trials = section(&page, "explorer");
    assert_eq!(first_cell(trials, "Completed"), "1,000");
    assert_eq!(first_cell(trials, "No complete response"), "0");
    assert_eq!(first_cell(trials, "Not ok"), "1,000");
    let errors = text_between(&page, "data-chart=\"errors\"", "</figure>");
    assert_eq!(first_cell(errors, "Not ok"), "100 %");
    assert!(!page.contains(">Failed</th>"), "one name for two numbers");
}

/// The hours in the table are for fully used CPUs, and the cost is for partly used ones.
#[test]
fn table_of_costs_says_that_hours_are_for_full_use() {
    for utilisation in [None, Some(0.6)] {
        let page = page(|r| {
            let cost =
                dyno_model::plan::Cost { per_vcpu_hour: 0.04, utilisation, ..Default::default() };
            r.run.cost = Some(cost);
        });
        let cost = section(&page, "cost");
        let (always, at_prices) = cost.split_once("id=\"at-prices\"").unwrap();
        assert!(always.contains("fully used") && always.contains("divided by the CPU utilisation"));
        assert!(at_prices.contains("Prices: 0.04"));
    }
}

/// The facts on the machine are those of the first part of the run.
#[test]
fn facts_of_mixed_run_name_their_part() {
    let mixed = page(|r| {
        let message = "Its parts differ.".into();
        let evidence = serde_json::Value::Null;
        let severity = Severity::Warning;
        r.caveats.push(Caveat { code: Code::MIXED, severity, message, evidence });
    });
    assert!(mixed.contains(">Machine (first part of the run) and plan<"));
    assert_eq!(mixed.matches(" (first part of the run)").count(), 2, "heading and head of page");
    assert!(!page(|_| {}).contains("first part of the run"));
}

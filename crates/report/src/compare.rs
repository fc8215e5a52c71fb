//! Two sides that were compared: as text, as Markdown for pull requests, as JSON, as JUnit's XML
//! for CI, and as a page.

use std::fmt::Write as _;

use dyno_analysis::compare::{
    CellRepeats, ComparisonAnswer, ComparisonResult, ComparisonRow, GateResult, GateState,
    OnUndecided, RunDifference, SideResult,
};
use dyno_analysis::metric::Metric;
use maud::{Markup, html};

use crate::VIEWER_CSS;
use crate::format::{or_dash, quantity, ratio};
use crate::html::{Viewer, document};
use crate::markdown::{self, escape};
use crate::overview::label_in_words;
use crate::terminal;
use crate::text::{Style, align};

/// The forms that a comparison can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonFormat {
    Markdown,
    Json,
    Junit,
    Html,
}

/// Renders a comparison for programs and pages; [`text`] is for people at a terminal.
#[must_use]
pub fn render(compared: &ComparisonResult, form: ComparisonFormat) -> String {
    match form {
        ComparisonFormat::Markdown => markdown(compared),
        ComparisonFormat::Json => {
            serde_json::to_string_pretty(compared).expect("JSON can hold it") + "\n"
        }
        ComparisonFormat::Junit => junit(compared),
        ComparisonFormat::Html => page(compared),
    }
}

pub(crate) const HEAD: [&str; 8] =
    ["subject", "step", "metric", "A", "B", "B ÷ A", "95 % interval", "verdict"];

pub(crate) fn cells(row: &ComparisonRow) -> Vec<String> {
    let unit = Metric::from_key(row.metric).unit;
    let shown = |value: Option<f64>| or_dash(value, |value| quantity(unit, value));
    vec![
        subject(row),
        format!("{}, {}", row.workload, label_in_words(row.step)),
        row.title.into(),
        shown(row.a.median),
        shown(row.b.median),
        or_dash(row.estimate.map(|e| e.ratio).or(row.ratio_of_medians), ratio),
        or_dash(row.estimate, |e| format!("{}–{}", ratio(e.low), ratio(e.high))),
        row.sentence.clone(),
    ]
}

fn subject(row: &ComparisonRow) -> String {
    let control = if row.control { " (control)" } else { "" };
    match row.subject_a == row.subject_b {
        true => format!("{}{control}", row.subject_a),
        false => format!("{} → {}{control}", row.subject_a, row.subject_b),
    }
}

/// `A  run hello-1, nginx, begun at …`.
fn side(name: &str, of: &SideResult) -> String {
    let subject = of.subject.as_ref().map_or(String::new(), |subject| format!(", {subject}"));
    format!("{name}: run {}{subject}, started at {}", of.run, of.started)
}

/// `h2o against nginx, plaintext, 64 connections: 6.8–12 % less throughput; …`.
pub(crate) fn answer(of: &ComparisonAnswer) -> String {
    let who = match of.subject_a == of.subject_b {
        true => of.subject_a.clone(),
        false => format!("{} compared with {}", of.subject_b, of.subject_a),
    };
    format!("{who}, {}, {}: {}", of.workload, label_in_words(of.step), of.sentence)
}

/// `nginx, plaintext, 64 connections: 7 of 14 repeats of B do not count (the server failed: 7)`,
/// cell by cell.
fn repeats(compared: &ComparisonResult) -> impl Iterator<Item = String> {
    let in_words = |cell: &CellRepeats| {
        let control = if cell.control { " (control)" } else { "" };
        let who = match cell.subject_a == cell.subject_b {
            true => cell.subject_a.clone(),
            false => format!("{} → {}", cell.subject_a, cell.subject_b),
        };
        let step = label_in_words(cell.step);
        let said = cell.sentence.as_ref()?;
        Some(format!("{who}{control}, {}, {step}: {said}", cell.workload))
    };
    compared.repeats.iter().filter_map(in_words)
}

fn how(compared: &ComparisonResult) -> &'static str {
    if compared.at_every_look {
        "Ratios are geometric means over pairs of repeats of one block. Intervals allow for early \
         stopping. A ratio without an interval is one of medians."
    } else if compared.paired {
        "Ratios are geometric means over pairs of repeats of one block. Intervals are Student's. A \
         ratio without an interval is one of medians."
    } else {
        "Ratios are of geometric means over the repeats of each run. Intervals are Welch's. A \
         ratio without an interval is one of medians."
    }
}

fn difference(of: &RunDifference) -> String {
    match (&of.a, &of.b) {
        (Some(a), Some(b)) => format!("{}: {a} in A, {b} in B", of.what),
        _ => of.what.clone(),
    }
}

fn gate(compared: &ComparisonResult, of: &GateResult) -> String {
    let row = &compared.rows[of.row];
    format!(
        "{} of {}, {}, {}: {}: {}",
        of.gate,
        subject(row),
        row.workload,
        label_in_words(row.step),
        state(of.state),
        of.sentence
    )
}

const fn state(of: GateState) -> &'static str {
    match of {
        GateState::Held => "held",
        GateState::Missed => "MISSED",
        GateState::Undecided => "undecided",
    }
}

/// For a terminal.
#[must_use]
pub fn text(compared: &ComparisonResult, style: Style) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        let _ = writeln!(out, "{}", terminal::line(text));
    };
    line(&side("A", &compared.a));
    line(&side("B", &compared.b));
    for of in &compared.differences {
        line(&format!("! The sides differ in {}", difference(of)));
    }
    repeats(compared).for_each(|of| line(&format!("! {of}")));
    let _ = writeln!(out);
    for of in &compared.answers {
        let _ = writeln!(out, "{}", terminal::line(&answer(of)));
    }
    let mut table = vec![HEAD.map(String::from).to_vec()];
    table.extend(compared.rows.iter().map(cells));
    let _ = writeln!(out, "\n{}", align(&table, style));
    for of in &compared.gates {
        let _ = writeln!(out, "{}", terminal::line(&gate(compared, of)));
    }
    for note in compared.notes.iter().map(String::as_str).chain([how(compared)]) {
        let _ = writeln!(out, "{}", style.dim(&terminal::line(&format!("· {note}"))));
    }
    out
}

fn markdown(compared: &ComparisonResult) -> String {
    let mut out = String::new();
    let mut item = |text: &str| {
        let _ = writeln!(out, "- {}", escape(text));
    };
    item(&side("A", &compared.a));
    item(&side("B", &compared.b));
    for of in &compared.differences {
        item(&format!("The sides differ in {}", difference(of)));
    }
    repeats(compared).for_each(|of| item(&of));
    compared.gates.iter().for_each(|of| item(&gate(compared, of)));
    compared.answers.iter().for_each(|of| item(&answer(of)));
    let table = markdown::table(&HEAD, compared.rows.iter().map(cells));
    let notes = compared.notes.iter().map(String::as_str).chain([how(compared)]);
    let notes: String = notes.map(|note| format!("- {}\n", escape(note))).collect();
    format!("{out}\n{table}\n{notes}")
}

/// A test case for each gate, or for each row where there are none. An undecided gate is an error,
/// or skipped where it is to pass: the file agrees with the exit status. The repeats that do not
/// count are the suite's output.
fn junit(compared: &ComparisonResult) -> String {
    let cases: Vec<String> = match compared.gates.is_empty() {
        true => compared.rows.iter().map(case_of_row).collect(),
        false => compared.gates.iter().map(|gate| case_of_gate(compared, gate)).collect(),
    };
    let missed = compared.gates.iter().filter(|gate| gate.state == GateState::Missed).count();
    let (errors, skipped) = match compared.on_undecided {
        OnUndecided::Fail => (compared.undecided, 0),
        OnUndecided::Pass => (0, compared.undecided),
    };
    let output: Vec<String> = repeats(compared).chain(compared.notes.iter().cloned()).collect();
    let output = match output.is_empty() {
        true => String::new(),
        false => format!("  <system-out>{}</system-out>\n", xml_lines(&output)),
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"dyno compare\" tests=\"{}\" \
         failures=\"{missed}\" errors=\"{errors}\" skipped=\"{skipped}\">\n{}{output}\
         </testsuite>\n",
        cases.len(),
        cases.concat()
    )
}

fn case_of_row(row: &ComparisonRow) -> String {
    let of_row =
        format!("{}, {}, {}, {}", row.title, subject(row), row.workload, label_in_words(row.step));
    case(&format!("{of_row}: {}", row.sentence), None)
}

fn case_of_gate(compared: &ComparisonResult, of: &GateResult) -> String {
    let row = &compared.rows[of.row];
    let name =
        format!("{} of {}, {}, {}", of.gate, subject(row), row.workload, label_in_words(row.step));
    let inner = match (of.state, compared.on_undecided) {
        (GateState::Held, _) if compared.differences.is_empty() => None,
        // What holds of sides that differ in more is no plain yes.
        (GateState::Held, _) => Some("system-out"),
        (GateState::Missed, _) => Some("failure"),
        (GateState::Undecided, OnUndecided::Fail) => Some("error"),
        (GateState::Undecided, OnUndecided::Pass) => Some("skipped"),
    };
    case(&name, inner.map(|tag| (tag, &*of.sentence)))
}

fn case(name: &str, inner: Option<(&str, &str)>) -> String {
    let inner = match inner {
        Some(("system-out", said)) => format!("<system-out>{}</system-out>", xml(said)),
        Some((tag, why)) => format!("<{tag} message=\"{}\"/>", xml(why)),
        None => String::new(),
    };
    format!("  <testcase classname=\"dyno.compare\" name=\"{}\">{inner}</testcase>\n", xml(name))
}

fn xml_lines(lines: &[String]) -> String {
    lines.iter().map(|line| xml(line)).collect::<Vec<String>>().join("\n")
}

/// A text within an attribute of XML. Characters that XML cannot hold are shown as on a terminal.
fn xml(text: &str) -> String {
    let mut out = String::new();
    for c in terminal::line(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

fn page(compared: &ComparisonResult) -> String {
    let title = match (&compared.a.subject, &compared.b.subject) {
        (Some(a), Some(b)) => format!("{b} compared with {a}"),
        _ => format!("{} compared with {}", compared.b.run, compared.a.run),
    };
    let main = html! {
        header { p.brand { "dyno compare" } h1 { (title) } }
        p { (side("A", &compared.a)) }
        p { (side("B", &compared.b)) }
        @for of in repeats(compared) { p.note { (of) } }
        h2 { "Summary" }
        ul { @for of in &compared.answers { li { (answer(of)) } } }
        @if !compared.differences.is_empty() {
            h2 { "Differences of the sides" }
            ul { @for of in &compared.differences { li { (difference(of)) } } }
        }
        @if !compared.gates.is_empty() {
            h2 { "Gates" }
            ul { @for of in &compared.gates { li { (gate(compared, of)) } } }
        }
        (verdicts(compared))
        @for note in &compared.notes { p.note { (note) } }
        p.note { (how(compared)) }
    };
    document(
        &format!("{title} · dyno compare"),
        &main,
        Viewer { css: VIEWER_CSS, js: "", data: "" },
    )
}

fn verdicts(compared: &ComparisonResult) -> Markup {
    let is_number = |column: usize| (3..=6).contains(&column);
    html! {
        h2 { "By metric" }
        div.scroll { table {
            thead {
                tr { @for (i, name) in HEAD.iter().enumerate() { th.n[is_number(i)] { (name) } } }
            }
            tbody { @for row in &compared.rows {
                tr {
                    @for (i, cell) in cells(row).iter().enumerate() {
                        td.n[is_number(i)] { (cell) }
                    }
                }
            } }
        } }
    }
}

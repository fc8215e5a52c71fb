//! Formats a comparison as text, as Markdown for pull requests, as JSON, as JUnit XML for CI, and
//! as a page.

use dyno_analysis::compare::{
    CellRepeats, ComparisonAnswer, ComparisonResult, ComparisonRow, GateResult, GateState,
    OnUndecided, RunDifference, RunProblem, SideResult,
};
use dyno_analysis::experiment::Effect;
use dyno_analysis::metric::Metric;
use dyno_analysis::stats::Estimate;
use maud::{Markup, html};

use crate::format::{or_dash, quantity, ratio};
use crate::html::document::sections_page;
use crate::output::Format;
use crate::overview::label_in_words;
use crate::present::block::{Block, ReportSection};
use crate::present::sentence::Sentence;
use crate::present::style::Style;
use crate::present::table::{self, Column, ReportTable, TableCell, value};
use crate::present::{self, escape};
use crate::{json, terminal};

/// A format of a comparison.
pub type ComparisonFormat = Format<fn(&ComparisonResult, Style) -> String>;

/// Every format of a comparison.
pub const FORMATS: &[ComparisonFormat] = &[
    ComparisonFormat::new("text", "A table, for a terminal", text),
    ComparisonFormat::new("md", "Markdown, for a pull request", |compared, _| markdown(compared)),
    ComparisonFormat::new("json", "Everything, for programs", |compared, _| json::lines(compared)),
    ComparisonFormat::new("junit", "JUnit's XML, for CI: each gate is a test", |compared, _| {
        junit(compared)
    }),
    ComparisonFormat::new("html", "An HTML page", |compared, _| html_page(compared)),
];

/// Columns of the table of metrics.
const COLUMNS: [Column<'_, ComparisonRow>; 8] = [
    ("subject", &|row| table::text(subject(row))),
    ("step", &|row| table::text(format!("{}, {}", row.workload, label_in_words(row.step)))),
    ("metric", &|row| table::text(row.title)),
    ("#A", &|row| side_value(row, row.a.median)),
    ("#B", &|row| side_value(row, row.b.median)),
    ("#B ÷ A", &|row| value(row.estimate.map(|e| e.ratio).or(row.ratio_of_medians), ratio)),
    ("#95 % interval", &|row| {
        table::text(interval_text(row.estimate)).sorted_by(row.estimate.map(|e| e.low))
    }),
    ("verdict", &|row| table::text(&row.sentence)),
];

/// Formats the 95 % interval of a ratio.
pub(crate) fn interval_text(estimate: Option<Estimate>) -> String {
    or_dash(estimate, |e| format!("{}–{}", ratio(e.low), ratio(e.high)))
}

/// Returns the value of a metric on one side.
fn side_value(row: &ComparisonRow, median: Option<f64>) -> TableCell {
    value(median, |median| quantity(Metric::from_key(row.metric).unit, median))
}

/// Returns the table of effects, with a row per metric.
pub(crate) fn effects_table(effects: &[Effect]) -> ReportTable {
    ReportTable::plain("sortable", &COLUMNS, effects.iter().flat_map(|effect| &effect.rows))
}

/// Names the subjects of a row: `nginx`, or `nginx → h2o`.
fn subject(row: &ComparisonRow) -> String {
    subjects_text([&row.subject_a, &row.subject_b], row.control)
}

fn subjects_text([a, b]: [&str; 2], is_control: bool) -> String {
    let control = if is_control { " (control)" } else { "" };
    if a == b { format!("{a}{control}") } else { format!("{a} → {b}{control}") }
}

/// Describes a side: `A: run hello-1, nginx, started at …`.
fn side_text(name: &str, side: &SideResult) -> String {
    let subject = side.subject.as_ref().map_or(String::new(), |subject| format!(", {subject}"));
    format!("{name}: run {}{subject}, started at {}", side.run, side.started)
}

/// Formats an answer: `h2o compared with nginx, plaintext, 64 connections: 6.8–12 % less
/// throughput`.
pub(crate) fn answer_text(answer: &ComparisonAnswer) -> String {
    let subjects = match answer.subject_a == answer.subject_b {
        true => answer.subject_a.clone(),
        false => format!("{} compared with {}", answer.subject_b, answer.subject_a),
    };
    format!("{subjects}, {}, {}: {}", answer.workload, label_in_words(answer.step), answer.sentence)
}

/// Returns the problems of the run that measured both sides, then the excluded repeats.
fn warnings(compared: &ComparisonResult) -> impl Iterator<Item = String> {
    let problems = compared.run_problems.iter().map(|problem| problem.sentence.clone());
    problems.chain(excluded_repeats(compared))
}

/// Describes the excluded repeats of each cell: `nginx, plaintext, 64 connections: 7 of 14 repeats
/// of B are excluded (the server failed: 7)`.
fn excluded_repeats(compared: &ComparisonResult) -> impl Iterator<Item = String> {
    let in_words = |cell: &CellRepeats| {
        let subjects = subjects_text([&cell.subject_a, &cell.subject_b], cell.control);
        let (step, sentence) = (label_in_words(cell.step), cell.sentence.as_ref()?);
        Some(format!("{subjects}, {}, {step}: {sentence}", cell.workload))
    };
    compared.repeats.iter().filter_map(in_words)
}

/// Describes how ratios and intervals were computed.
fn method_note(compared: &ComparisonResult) -> &'static str {
    if compared.at_every_look {
        "Each pass over all servers (block) gives a pair of repeats, one of A and one of B. A \
         ratio is the geometric mean of the ratios of these pairs. Intervals stay valid if the run \
         stops early. A ratio without an interval is a ratio of medians."
    } else if compared.paired {
        "Each pass over all servers (block) gives a pair of repeats, one of A and one of B. A \
         ratio is the geometric mean of the ratios of these pairs. Intervals use Student's t. A \
         ratio without an interval is a ratio of medians."
    } else {
        "A ratio is the geometric mean over the repeats of B, divided by the geometric mean over \
         the repeats of A. Intervals use Welch's t. A ratio without an interval is a ratio of \
         medians."
    }
}

/// Formats a difference other than the compared servers: `machine.kernel: 6.1 in A, 6.2 in B`.
fn difference_text(difference: &RunDifference) -> String {
    match (&difference.a, &difference.b) {
        (Some(a), Some(b)) => format!("{}: {a} in A, {b} in B", difference.name),
        _ => difference.name.clone(),
    }
}

/// Formats the result of a gate: `p99<+5% of h2o, plaintext, 64 connections is held: …`.
fn gate_text(compared: &ComparisonResult, gate: &GateResult) -> String {
    let place = place(&compared.rows[gate.row]);
    format!("{} of {place} is {}: {}", gate.gate, state_text(gate.state), gate.sentence)
}

/// Names the subjects, workload and step of a row.
fn place(row: &ComparisonRow) -> String {
    format!("{}, {}, {}", subject(row), row.workload, label_in_words(row.step))
}

const fn state_text(state: GateState) -> &'static str {
    match state {
        GateState::Held => "held",
        GateState::Missed => "MISSED",
        GateState::Undecided => "undecided",
    }
}

/// Formats a comparison for a terminal.
fn text(compared: &ComparisonResult, style: Style) -> String {
    let sides = sides(compared).map(|side| terminal::escape_line(&side) + "\n").concat();
    let section = |section| format!("\n{}", present::text::section(section, style));
    sides + &sections(compared).iter().map(section).collect::<String>()
}

/// Returns the title of a comparison.
fn title(compared: &ComparisonResult) -> String {
    match (&compared.a.subject, &compared.b.subject) {
        (Some(a), Some(b)) => format!("{b} compared with {a}"),
        _ => format!("{} compared with {}", compared.b.run, compared.a.run),
    }
}

/// Returns the sections of a comparison. A section without content is omitted.
fn sections(compared: &ComparisonResult) -> Vec<ReportSection> {
    let list =
        |items: Vec<String>| Block::List(items.iter().map(|text| Sentence::new(text)).collect());
    let section = |id, title: &str, items: Vec<String>| {
        let title = title.into();
        (!items.is_empty()).then(|| ReportSection { id, title, content: list(items) })
    };
    let differences = compared.differences.iter().map(difference_text);
    let differences = differences.map(|text| format!("A and B also differ in {text}"));
    let answers = compared.answers.iter().map(answer_text).collect();
    let gates = compared.gates.iter().map(|gate| gate_text(compared, gate)).collect();
    let notes = compared.notes.iter().cloned().chain([method_note(compared).into()]).collect();
    let table = Block::Table(ReportTable::plain("", &COLUMNS, &compared.rows));
    let content = Block::Group(vec![table, list(notes)]);
    let metrics = ReportSection { id: "metrics", title: "By metric".into(), content };
    let lists = [
        section("warnings", "Warnings", differences.chain(warnings(compared)).collect()),
        section("summary", "Summary", answers),
        section("gates", "Gates", gates),
    ];
    lists.into_iter().flatten().chain([metrics]).collect()
}

/// Returns the descriptions of both sides.
fn sides(compared: &ComparisonResult) -> [String; 2] {
    [side_text("A", &compared.a), side_text("B", &compared.b)]
}

/// Formats a comparison as Markdown.
fn markdown(compared: &ComparisonResult) -> String {
    let sides: String =
        sides(compared).iter().map(|side| format!("- {}\n", escape::markdown(side))).collect();
    let sections = sections(compared);
    let sections: String = sections.iter().map(present::markdown::section).collect();
    format!("# {}\n\n{sides}{sections}", escape::markdown(&title(compared)))
}

/// Renders a JUnit file that agrees with the exit status:
///
/// - Each problem of the run is a test case.
/// - Each gate is a test case. Without gates, each row of the table is one.
/// - An undecided gate is an error, or a skipped test case with `--undecided pass`.
/// - Excluded repeats are listed in the output of the suite.
fn junit(compared: &ComparisonResult) -> String {
    let mut cases: Vec<Markup> = compared.run_problems.iter().map(run_test_case).collect();
    match compared.gates.is_empty() {
        true => cases.extend(compared.rows.iter().map(row_test_case)),
        false => cases.extend(compared.gates.iter().map(|gate| gate_test_case(compared, gate))),
    }
    let invalid = compared.run_problems.iter().filter(|problem| problem.is_invalid).count();
    let incomplete = compared.run_problems.len() - invalid;
    let missed = compared.gates.iter().filter(|gate| gate.state == GateState::Missed).count();
    let (undecided, skipped) = match compared.on_undecided {
        OnUndecided::Fail => (compared.undecided, 0),
        OnUndecided::Pass => (0, compared.undecided),
    };
    let output: Vec<String> =
        excluded_repeats(compared).chain(compared.notes.iter().cloned()).collect();
    let suite = html! {
        testsuite name="dyno compare"
            tests=(cases.len())
            failures=(missed + invalid)
            errors=(undecided + incomplete)
            skipped=(skipped) {
            "\n"
            @for case in &cases { "  " (case) "\n" }
            @if !output.is_empty() {
                "  " system-out { (terminal::escape_controls(&output.join("\n"))) } "\n"
            }
        }
    };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", suite.into_string())
}

/// Result of a test case of JUnit, with its text.
enum TestResult<'a> {
    Passed,
    PassedWithNote(&'a str),
    Failure(&'a str),
    Error(&'a str),
    Skipped(&'a str),
}

/// Renders a problem of the run as a test case.
fn run_test_case(problem: &RunProblem) -> Markup {
    let result = match problem.is_invalid {
        true => TestResult::Failure(&problem.sentence),
        false => TestResult::Error(&problem.sentence),
    };
    test_case("the run of both revisions", &result)
}

/// Renders a row without a gate as a test case.
fn row_test_case(row: &ComparisonRow) -> Markup {
    test_case(&format!("{}, {}: {}", row.title, place(row), row.sentence), &TestResult::Passed)
}

/// Renders a gate as a test case.
fn gate_test_case(compared: &ComparisonResult, gate: &GateResult) -> Markup {
    let result = match (gate.state, compared.on_undecided) {
        (GateState::Held, _) if compared.differences.is_empty() => TestResult::Passed,
        // A and B differ in more than the server, so the test case has a note.
        (GateState::Held, _) => TestResult::PassedWithNote(&gate.sentence),
        (GateState::Missed, _) => TestResult::Failure(&gate.sentence),
        (GateState::Undecided, OnUndecided::Fail) => TestResult::Error(&gate.sentence),
        (GateState::Undecided, OnUndecided::Pass) => TestResult::Skipped(&gate.sentence),
    };
    test_case(&format!("{} of {}", gate.gate, place(&compared.rows[gate.row])), &result)
}

/// Renders a test case of JUnit. Characters that XML forbids are shown as on a terminal.
fn test_case(name: &str, result: &TestResult<'_>) -> Markup {
    let text = terminal::escape_line;
    html! {
        testcase classname="dyno.compare" name=(text(name)) {
            @match result {
                TestResult::Passed => {}
                TestResult::PassedWithNote(note) => system-out { (text(note)) },
                TestResult::Failure(reason) => failure message=(text(reason)) {},
                TestResult::Error(reason) => error message=(text(reason)) {},
                TestResult::Skipped(reason) => skipped message=(text(reason)) {},
            }
        }
    }
}

/// Renders a comparison as a page.
fn html_page(compared: &ComparisonResult) -> String {
    sections_page("dyno compare", &title(compared), &sides(compared), &sections(compared))
}

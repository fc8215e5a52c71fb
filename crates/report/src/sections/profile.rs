//! Arranges profiles. The viewer draws the flame graphs. Without the viewer, the texts and tables
//! give the same information.

use dyno_analysis::cell::CellKey;
use dyno_analysis::metric::MetricId;
use dyno_analysis::profile::{Flame, HotFunction, ProfileResult, SampleKind};
use dyno_analysis::report::Report;
use dyno_config::hint::one_line;
use maud::html;

use super::subject_cell;
use crate::format::{count, micros, percent, seconds};
use crate::overview::step_in_words;
use crate::present::block::{Block, Chart, Figure, ScopedPart};
use crate::present::part_scope::PartScope;
use crate::present::table::{Column, ReportTable, cell, text, value};

/// Returns the profiles of all cells. Empty without profiles.
pub(super) fn profiles(report: &Report) -> Block {
    if report.profiles.is_empty() {
        return Block::empty();
    }
    let heading = Block::Heading("Where the time goes, function by function".into());
    let profiles = report.profiles.iter().enumerate();
    let profiles = profiles.map(|(index, profile)| profile_block(report, index, profile));
    Block::Group([heading, Block::note(NOTE)].into_iter().chain(profiles).collect())
}

const NOTE: &str = "Profiles were taken after each measured window, under the same load. Each \
                    function calls the functions below it. The width of a function is its share of \
                    the time, and its colour shows its origin. Click a function to zoom in, press \
                    Esc to zoom out. Search for a part of a name, or for a regular expression \
                    between slashes.";

/// Returns the profiles of a cell.
fn profile_block(report: &Report, index: usize, profile: &ProfileResult) -> Block {
    let subject = &report.subjects[profile.cell.arm];
    let name = subject_cell(report, &subject.id, &subject.title);
    let step = format!(" at {}{}", step_text(report, profile.cell), origins_text(profile));
    let title = cell(format!("{}{step}", name.text), html! { (name.content()) (step) });
    let failures = profile.failures.iter();
    let failures =
        failures.map(|failure| format!("A trial has no profile: {}.", one_line(failure)));
    let unnamed = profile.unnamed.iter();
    let unnamed =
        unnamed.map(|reason| format!("JIT-compiled functions may have no names: {reason}."));
    let covered = profile.sampled_share.map(|share| {
        let share = percent(share);
        format!("The samples cover {share} of the server's CPU time during the profile.")
    });
    let flame =
        |kind, flame: &Option<Flame>| flame.as_ref().map(|flame| flame_figure(index, kind, flame));
    let mut content: Vec<Block> = failures.chain(unnamed).map(|text| Block::note(&text)).collect();
    content.extend(flame(SampleKind::Running, &profile.running));
    content.extend(covered.map(|text| Block::note(&text)));
    content.extend(flame(SampleKind::Waiting, &profile.waiting));
    let scope = PartScope::cell(report, profile.cell);
    let is_open = is_busiest(report, profile.cell);
    Block::Profile { part: ScopedPart { scope, title, content }, is_open }
}

/// Whether the cell is the one with the highest throughput of its subject in its workload.
fn is_busiest(report: &Report, cell: CellKey) -> bool {
    let rate = |cell: CellKey| {
        report.summary(cell).and_then(|s| s.median_of(MetricId::Throughput)).unwrap_or(0.0)
    };
    let cells = report.profiles.iter().map(|p| p.cell);
    let cells = cells.filter(|c| (c.arm, c.workload) == (cell.arm, cell.workload));
    cells.max_by(|a, b| rate(*a).total_cmp(&rate(*b))) == Some(cell)
}

/// Describes the step of a cell.
fn step_text(report: &Report, cell: CellKey) -> String {
    report.summary(cell).map_or_else(String::new, |s| step_in_words(report, &s.workload, s.shape))
}

/// Names the three origins with the most CPU time.
fn origins_text(profile: &ProfileResult) -> String {
    let Some(running) = &profile.running else { return String::new() };
    let origins: Vec<String> = running
        .by_origin
        .iter()
        .take(3)
        .map(|origin| format!("{} in {}", percent(origin.share), origin_name(&origin.name)))
        .collect();
    format!(": {}", origins.join(", "))
}

/// Returns the name of an origin for people.
fn origin_name(name: &str) -> String {
    match name {
        "kernel" => "the kernel".into(),
        "compiled just in time" => "code compiled just in time".into(),
        file => file.into(),
    }
}

/// Returns a figure with a flame graph and its quality. `index`: index of its profile on the page.
pub(crate) fn flame_figure(index: usize, side: SampleKind, flame: &Flame) -> Block {
    let caption = match side {
        SampleKind::Running => "On CPU: where the server's threads ran",
        SampleKind::Waiting => "Off CPU: where the server's threads waited",
    };
    Block::Figure(Figure {
        chart: Chart::Flame(index, side),
        caption: caption.into(),
        legend: String::new(),
        note: samples_note(flame, side),
        table: hottest_table(flame),
        table_title: "Functions with the most own time (without the functions that they call)",
    })
}

/// States the number of samples and their quality.
fn samples_note(flame: &Flame, side: SampleKind) -> String {
    let unit = match side {
        SampleKind::Running => "of CPU time",
        SampleKind::Waiting => "of threads' time",
    };
    let per_response =
        flame.us_per_request.map_or(String::new(), |us| format!(", {} per response", micros(us)));
    let lost = if flame.lost > 0 {
        format!(" {} more samples were lost because the buffer was full.", count(flame.lost))
    } else {
        String::new()
    };
    format!(
        "{} samples: {} {unit}{per_response}. In {} of the samples, the call stack is complete \
         (down to the start of the thread). In {} of the samples, all functions have names.{lost}",
        count(flame.samples),
        seconds(flame.seconds),
        percent(flame.whole_share),
        percent(flame.named_share)
    )
}

/// Returns the table of functions with the most own time.
fn hottest_table(flame: &Flame) -> ReportTable {
    let function = |hot: &HotFunction| &flame.functions[hot.function as usize];
    let columns: [Column<'_, HotFunction>; 5] = [
        ("Function", &|hot| text(&function(hot).name)),
        ("File or origin", &|hot| text(function(hot).file())),
        ("#Own time", &|hot| value(Some(hot.own_share), percent)),
        ("#Own time per response", &|hot| value(hot.own_us_per_request, micros)),
        ("#With callees", &|hot| value(Some(hot.share), percent)),
    ];
    ReportTable::plain("counters", &columns, &flame.hottest)
}

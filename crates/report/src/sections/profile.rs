//! Renders the sections on profiles. The viewer draws the flame graphs. Without the viewer, the
//! texts and tables give the same information.

use dyno_analysis::cell::CellKey;
use dyno_analysis::metric::MetricId;
use dyno_analysis::profile::{Flame, HotFunction, ProfileResult, SampleKind};
use dyno_analysis::report::Report;
use dyno_config::hint::one_line;
use maud::{Markup, html};

use super::swatch;
use crate::format::{count, micros, percent, seconds};
use crate::html::block::{folded_table, note};
use crate::overview::step_in_words;
use crate::present::part_scope::PartScope;
use crate::present::table::{Column, ReportTable, text, value};

/// Renders the profiles of all cells. Empty without profiles.
pub(super) fn profiles(report: &Report) -> Markup {
    html! {
        @if !report.profiles.is_empty() {
            h3 { "Where the time goes, function by function" } "\n"
            (note(NOTE))
            @for (index, profile) in report.profiles.iter().enumerate() {
                (profile_block(report, index, profile))
            }
        }
    }
}

const NOTE: &str = "Profiles were taken after each measured window, under the same load. Each \
                    function calls the functions below it. The width of a function is its share of \
                    the time, and its colour shows its origin. Click a function to zoom in, press \
                    Esc to zoom out. Search for a part of a name, or for a regular expression \
                    between slashes.";

/// Renders the profiles of a cell as a folded block.
fn profile_block(report: &Report, index: usize, profile: &ProfileResult) -> Markup {
    let PartScope { subject, workloads, step, .. } = PartScope::cell(report, profile.cell);
    let title = &report.subjects[profile.cell.arm].title;
    let id = &report.subjects[profile.cell.arm].id;
    html! {
        details.profile
            data-subject=[subject]
            data-workload=[workloads]
            data-step=[step]
            open[is_busiest(report, profile.cell)] {
            summary {
                (swatch(report, id)) (title) " at " (step_text(report, profile.cell))
                (origins_text(profile))
            }
            "\n"
            @for failure in &profile.failures {
                p.note { "A trial has no profile: " (one_line(failure)) "." } "\n"
            }
            @for reason in &profile.unnamed {
                p.note { "JIT-compiled functions may have no names: " (reason) "." } "\n"
            }
            @if let Some(flame) = &profile.running {
                (flame_figure(index, SampleKind::Running, flame))
            }
            @if let Some(share) = profile.sampled_share {
                (note(&format!(
                    "The samples cover {} of the server's CPU time during the profile.",
                    percent(share)
                )))
            }
            @if let Some(flame) = &profile.waiting {
                (flame_figure(index, SampleKind::Waiting, flame))
            }
        }
        "\n"
    }
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

/// Renders a figure with a flame graph and its quality. `index`: index of its profile on the page.
pub(crate) fn flame_figure(index: usize, side: SampleKind, flame: &Flame) -> Markup {
    let (name, caption) = match side {
        SampleKind::Running => ("running", "On CPU: where the server's threads ran"),
        SampleKind::Waiting => ("waiting", "Off CPU: where the server's threads waited"),
    };
    html! {
        figure data-profile=(index) data-side=(name) {
            "\n" figcaption { (caption) } "\n"
            div.tools {}
            div.flame {}
            "\n"
            (note(&samples_note(flame, side)))
            (folded_table("Functions with the most own time (without the functions that they \
                           call)", &hottest_table(flame)))
        }
        "\n"
    }
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
        ("File or origin", &|hot| {
            text(function(hot).module.as_deref().unwrap_or(function(hot).kind.name()))
        }),
        ("#Own time", &|hot| value(Some(hot.own_share), percent)),
        ("#Own time per response", &|hot| value(hot.own_us_per_request, micros)),
        ("#With callees", &|hot| value(Some(hot.share), percent)),
    ];
    ReportTable::plain("counters", &columns, &flame.hottest)
}

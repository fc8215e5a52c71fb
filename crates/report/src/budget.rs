//! Formats a plan that fits a time budget (`dyno plan --budget`), with the differences that the
//! planned run can detect.

use dyno_analysis::budget::{Budget, Expected, UnknownPrecision};
use dyno_analysis::cell::Shape;
use dyno_analysis::metric::CPU;

use crate::format::{list, percent};
use crate::overview::label_in_words;
use crate::terminal::escape_line;

/// The smallest difference that is printed as a number: 0.01 %.
const MIN_DIFFERENCE: f64 = 1e-4;

/// Formats differences by the key of their metric: `5.2 % in throughput and 1.3 % in CPU time per
/// request`.
#[must_use]
pub fn differences(differences: &[(&str, f64)]) -> String {
    let text = |(key, difference): &(&str, f64)| {
        let metric = if *key == CPU.key { "CPU time per request" } else { "throughput" };
        let amount = if *difference < MIN_DIFFERENCE {
            format!("{} or less", percent(MIN_DIFFERENCE))
        } else {
            percent(*difference)
        };
        format!("{amount} in {metric}")
    };
    list(&differences.iter().map(text).collect::<Vec<String>>())
}

/// Formats the plan for a terminal.
#[must_use]
pub fn text(budget: &Budget) -> String {
    let Budget {
        pilot,
        pilot_repeats,
        overhead_s,
        windows_s,
        repeats,
        duration_s,
        slices,
        before_s,
        takes_s,
        rows,
        unknown,
        ..
    } = budget;
    let slices = slices.map_or_else(String::new, |slices| {
        format!("   # split into {slices} time slices per subject")
    });
    let before = match *before_s {
        0.0 => String::new(),
        before => {
            format!(
                ", including about {before:.0} s to measure the throughput of the slowest subject, \
                 from which the rates are computed"
            )
        }
    };
    let width = rows.iter().map(|row| row.title.chars().count()).max().unwrap_or(0);
    let row = |row: &Expected| {
        let variation = row.within_starts.map_or_else(String::new, |variation| {
            format!(", {} within a start", percent(variation))
        });
        format!(
            "    {:<width$}  ±{:<7} detects differences of {} in 80 % of runs   (scatter: {} \
             between starts{variation})\n",
            row.title,
            percent(row.half_width),
            percent(row.detectable),
            percent(row.between_starts),
        )
    };
    let cell = |rows: &[Expected]| {
        let first = &rows[0];
        let subjects = (&*first.subject_a, &*first.subject_b);
        let title = comparison_title(subjects, &first.workload, first.step);
        format!("  {title}\n{}", rows.iter().map(row).collect::<String>())
    };
    let is_same_cell = |a: &Expected, b: &Expected| {
        (&a.subject_a, &a.subject_b, &a.workload, a.step)
            == (&b.subject_a, &b.subject_b, &b.workload, b.step)
    };
    format!(
        "repeats = {repeats}, duration = \"{duration_s}s\"{slices}\n\n  takes {takes_s:.0} \
         s{before}\n  pilot (the earlier run): {}, {pilot_repeats} repeats. Each repeat took \
         {windows_s:.1} s of load and {overhead_s:.1} s of other work.\n  The variance that the \
         pilot estimates may be wrong by a factor of two. The differences are not corrected for \
         the number of comparisons.\n\n{}{}",
        escape_line(pilot),
        rows.chunk_by(is_same_cell).map(cell).collect::<String>(),
        unknown.iter().map(unknown_text).collect::<String>()
    )
}

/// Formats a pair of subjects whose precision is unknown.
fn unknown_text(pair: &UnknownPrecision) -> String {
    let subjects = (&*pair.subject_a, &*pair.subject_b);
    let title = comparison_title(subjects, &pair.workload, pair.step);
    format!(
        "  {title}\n    unknown precision: the pilot has too few repeats in which both subjects \
         are valid\n"
    )
}

/// Formats the subjects, workload and step of a comparison.
fn comparison_title((a, b): (&str, &str), workload: &str, step: Shape) -> String {
    escape_line(&format!("{b} compared with {a}, {workload}, {}", label_in_words(step)))
}

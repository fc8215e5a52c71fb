//! A plan for a given time, in words.

use dyno_analysis::budget::{Budget, Expected};

use crate::format::percent;

/// The plan, for a terminal.
#[must_use]
pub fn text(budget: &Budget) -> String {
    let Budget { pilot, pilot_repeats, overhead_s, windows_s, repeats, duration_s, takes_s, rows, .. } =
        budget;
    let width =
        |name: fn(&Expected) -> &str| rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0);
    let pair_width = width(|row| &row.subject_b);
    let title_width = width(|row| row.title);
    let row = |row: &Expected| {
        let within =
            row.within_starts.map_or_else(String::new, |within| format!(", {} within", percent(within)));
        format!(
            "  {:<pair_width$}  {:<title_width$}  ±{:<7} {} found in 4 of 5   (varies by {} between starts{within})\n",
            row.subject_b,
            row.title,
            percent(row.half_width),
            percent(row.detectable),
            percent(row.between_starts),
        )
    };
    format!(
        "repeats = {repeats}, duration = \"{duration_s}s\"\n\n  takes {takes_s:.0} s: a repeat takes {overhead_s:.1} s besides its loads, and {windows_s:.1} s of load in the pilot\n  \
         pilot {pilot}, {pilot_repeats} repeats: of so few, what varies is known by half or double\n\n{}",
        rows.iter().map(row).collect::<String>()
    )
}

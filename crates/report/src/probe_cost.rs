//! Formats the measured cost of probes, for reports and for `dyno calibrate --probes`.

use std::fmt::Write as _;

use dyno_analysis::probe_cost::PriceResult;
use dyno_analysis::stats::Repeated;

use crate::format::change;
use crate::present::style::Style;
use crate::present::table::{self, Column, ReportTable};
use crate::present::text::indented;

/// Lists the names of the probes.
#[must_use]
pub fn names(price: &PriceResult) -> String {
    price.probes.iter().map(|probe| probe.name()).collect::<Vec<_>>().join(", ")
}

/// Formats a median change with its interval, `−0.8 % (−1.5 % to 0.1 %)`, or with its range,
/// `−0.8 % (range −1.5 % to 0.1 %)`.
#[must_use]
pub fn change_text(ratios: &Repeated) -> String {
    let Some(median) = ratios.median else { return "–".into() };
    let kind = if ratios.interval.is_some() { "" } else { "range " };
    match ratios.spread() {
        Some((low, high)) => {
            format!("{} ({kind}{} to {})", change(median), change(low), change(high))
        }
        None => change(median),
    }
}

/// Formats the change of throughput, or says why it was not measured.
pub(crate) fn throughput_text(price: &PriceResult) -> String {
    price.failure.clone().unwrap_or_else(|| change_text(&price.throughput))
}

/// Formats the result of `dyno calibrate --probes` for a terminal.
#[must_use]
pub fn text(machine: &str, prices: &[PriceResult], style: Style) -> String {
    let mut out = format!("  {}  {machine}\n\n", style.bold("dyno calibrate --probes"));
    let _ = writeln!(
        out,
        "  Cost of probes for dyno's own minimal server at 64 connections: the median difference \
         between time slices with"
    );
    let _ = writeln!(
        out,
        "  and without probes, with the 95 % interval of the median, or the range of fewer than \
         five pairs\n"
    );
    let columns: [Column<'_, PriceResult>; 3] = [
        ("probes", &|price| table::text(names(price))),
        ("#requests/s", &|price| table::text(throughput_text(price))),
        ("#CPU per request", &|price| table::text(change_text(&price.cpu_per_request))),
    ];
    out.push_str(&indented(&ReportTable::plain("", &columns, prices), style));
    out.push_str(
        "\n  This minimal server spends most of its time in system calls, so probes cost other \
         servers less.\n  Set `price = true` under `[observe]` of a suite to measure the cost for \
         the servers of the suite.\n",
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_model::probe::Probe;

    #[test]
    fn change_text_has_median_and_interval_or_range() {
        let price = PriceResult {
            probes: [Probe::Syscalls, Probe::States].into(),
            throughput: Repeated::new(vec![0.98, 0.99, 1.0]),
            ..PriceResult::default()
        };
        assert_eq!(change_text(&price.throughput), "−1.0 % (range −2.0 % to 0.0 %)");
        let five = Repeated::new(vec![0.98, 0.985, 0.99, 0.995, 1.0]);
        assert_eq!(change_text(&five), "−1.0 % (−2.0 % to 0.0 %)");
        assert_eq!(
            (change_text(&price.cpu_per_request), names(&price)),
            ("–".into(), "syscalls, states".into())
        );
        let failed =
            PriceResult { failure: Some("permission denied".into()), ..PriceResult::default() };
        assert!(text("here", &[failed], Style::Plain).contains("permission denied"));
    }
}

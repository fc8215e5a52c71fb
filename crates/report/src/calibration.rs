//! Formats the progress and the findings of `dyno calibrate` for a terminal.

use std::fmt::Write as _;

use dyno_analysis::calibration::{
    Calibration, CeilingRow, Measurement, MeasurementPurpose, PacingRow, StampsRow,
};

use crate::format::{micros, nanos, number, or_dash, percent, percentile_text, rate};
use crate::present::style::Style;
use crate::present::table::{self, Column, ReportTable, Row};
use crate::present::text::indented;

/// Formats the name and the duration of a measurement.
#[must_use]
pub fn measuring(m: &Measurement) -> String {
    let (load, step) = (&m.load, m.step());
    let scheduled = || {
        format!("{} requests/s, spin {}", or_dash(step.arrivals.rate(), number), load.spin.name())
    };
    let name = match m.shows {
        MeasurementPurpose::Ceiling => {
            let (driver, protocol) = (load.driver.name(), m.workload.protocol);
            format!("ceiling, {driver} {protocol} × {}", m.in_flight_each())
        }
        MeasurementPurpose::Pacing => format!("delay of scheduled requests, {}", scheduled()),
        MeasurementPurpose::Stamps => format!("kernel timestamps, {}", scheduled()),
        MeasurementPurpose::Refusals => "refusals by a closed port".into(),
    };
    match load.set_duration_ns() {
        Some(ns) => format!("{name} ({})", nanos(ns)),
        None => name,
    }
}

/// Formats the findings. `stored_in`: the name of the file with the ceilings. `None`: no ceiling
/// was valid, or the file could not be written.
#[must_use]
pub fn text(c: &Calibration, stored_in: Option<&str>, style: Style) -> String {
    let mut out = format!("  {}  {}\n", style.bold("dyno calibrate"), c.machine);
    if c.shared_cpus {
        out.push_str(
            "  ! Server and generator shared a CPU. The ceilings (highest rates that dyno reaches) \
             are therefore too low and were not stored.\n",
        );
    }
    out.push_str(&ceilings_table(c, style));
    out.push_str(&pacing_table(c, style));
    out.push_str(&stamps_table(c, style));
    let _ = writeln!(
        out,
        "\n  Requests to a closed port: {} of {} were counted as connect_refused.",
        c.refused.counted, c.refused.asked
    );
    if c.refused.counted != c.refused.asked {
        out.push_str(
            "  ! Some requests were not counted as refused. Check whether a server listens on this \
             port or a firewall drops packets to it.\n",
        );
    }
    if let Some(stored_in) = stored_in {
        let _ = writeln!(
            out,
            "  `dyno load` compares its results with these ceilings. They are stored in \
             {stored_in}."
        );
    }
    if c.ceilings.iter().any(|row| row.disturbed.is_some()) {
        out.push_str(
            "  ! Ceilings of disturbed loads were not stored. Their earlier ceilings of this \
             machine, and those of other machines, are unchanged. Repeat the calibration when \
             other programs are idle.\n",
        );
    }
    out
}

/// Formats a table below its heading. `disturbed` returns why a row's load is not valid.
fn measurements<R>(
    heading: &str,
    columns: &[Column<'_, R>],
    rows: &[R],
    disturbed: fn(&R) -> Option<&String>,
    style: Style,
) -> String {
    let table = ReportTable::plain("", columns, rows);
    let reason = |(row, cells): (&R, &Row)| {
        let [first, second] = [0, 1].map(|column| &cells.values[column].text);
        Some(format!("    ! {first} {second}: {}\n", disturbed(row)?))
    };
    let reasons: String = rows.iter().zip(&table.rows).filter_map(reason).collect();
    format!("\n  {heading}\n\n{}{reasons}", indented(&table, style))
}

/// Formats the table of ceilings.
fn ceilings_table(c: &Calibration, style: Style) -> String {
    let columns: [Column<'_, CeilingRow>; 6] = [
        ("driver", &|row| table::text(row.driver.name())),
        ("protocol", &|row| table::text(row.protocol.to_string())),
        ("#in flight on each", &|row| table::text(row.in_flight_each().to_string())),
        ("#requests/s", &|row| table::text(rate(row.throughput_rps))),
        ("#CPU per request", &|row| table::text(or_dash(row.cpu_us_per_exchange, micros))),
        ("#thread busy", &|row| table::text(percent(row.busiest_thread_utilisation))),
    ];
    let heading = "Ceilings: highest rates of one generator thread over 64 connections to dyno's \
                   own minimal server";
    let missing =
        |(name, reason): (&String, &String)| format!("    {name}: not measured, {reason}\n");
    measurements(heading, &columns, &c.ceilings, |row| row.disturbed.as_ref(), style)
        + &c.not_measured.iter().map(missing).collect::<String>()
}

/// Formats the table of delays of scheduled requests.
fn pacing_table(c: &Calibration, style: Style) -> String {
    let columns: [Column<'_, PacingRow>; 10] = [
        ("#requests/s", &|row| table::text(number(row.rate))),
        ("spin", &|row| table::text(row.spin.name())),
        ("#send lag p50", &|row| table::text(or_dash(row.send_lag_us.p50, micros))),
        ("#p99", &|row| table::text(or_dash(row.send_lag_us.p99, micros))),
        ("#wake lag p99", &|row| table::text(or_dash(row.wake_lag_us.p99, micros))),
        ("#response p50", &|row| table::text(percentile_text(&row.response_time_us, 0.5))),
        ("#p99", &|row| table::text(percentile_text(&row.response_time_us, 0.99))),
        ("#gaps' CV", &|row| table::text(or_dash(row.achieved_cv, |cv| format!("{cv:.2}")))),
        ("#CPU", &|row| table::text(percent(row.cpu_s_per_s))),
        ("#polling", &|row| table::text(percent(row.polling_s_per_s))),
    ];
    let heading = "How late dyno sends scheduled requests over 16 connections (CV: coefficient of \
                   variation)";
    measurements(heading, &columns, &c.pacing, |row| row.disturbed.as_ref(), style)
}

/// Formats the table that compares dyno's timestamps with the kernel's.
fn stamps_table(c: &Calibration, style: Style) -> String {
    let columns: [Column<'_, StampsRow>; 7] = [
        ("#requests/s", &|row| table::text(number(row.rate))),
        ("spin", &|row| table::text(row.spin.name())),
        ("#p50 dyno", &|row| table::text(percentile_text(&row.ours_us, 0.5))),
        ("#kernel", &|row| table::text(or_dash(row.kernel_us.p50, micros))),
        ("#p99 dyno", &|row| table::text(percentile_text(&row.ours_us, 0.99))),
        ("#kernel", &|row| table::text(or_dash(row.kernel_us.p99, micros))),
        ("#difference p50", &|row| {
            table::text(or_dash(row.difference_p50_us, |us| format!("{us:.1} µs")))
        }),
    ];
    let heading = "Response time by dyno's timestamps, and by the kernel's receive timestamps of \
                   the same responses (epoll)";
    if c.stamps.is_empty() {
        return format!(
            "\n  {heading}\n\n    not measured, because the kernel returned no timestamps for \
             received data\n"
        );
    }
    measurements(heading, &columns, &c.stamps, |row| row.disturbed.as_ref(), style)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use dyno_model::plan::Placement;

    use super::*;

    #[test]
    fn missing_timestamps_are_explained() {
        let placement = Placement { subject: vec![0], generator: vec![1] };
        let calibration = Calibration::new("here".into(), &placement, BTreeMap::new(), &[]);
        let text = text(&calibration, None, Style::Plain);
        let (_, table) = text.split_once("by the kernel's receive timestamps").unwrap();
        assert!(
            table.contains("not measured, because the kernel returned no timestamps"),
            "{text}"
        );
        assert!(!table.contains("p50 dyno"), "{text}");
        assert!(!text.contains("They are stored in"), "{text}");
    }
}

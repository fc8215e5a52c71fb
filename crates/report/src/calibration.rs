//! Formats the progress and the findings of `dyno calibrate` for a terminal.

use std::fmt::Write as _;

use dyno_analysis::calibration::{Calibration, Measurement, MeasurementPurpose};

use crate::format::{micros, nanos, number, or_dash, percent, percentile_text, rate};
use crate::present::style::Style;

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
    out.push_str(&ceilings_table(c));
    out.push_str(&pacing_table(c));
    out.push_str(&stamps_table(c));
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

/// Returns the line under a row whose load is not valid.
fn disturbance_line(reason: Option<&str>) -> String {
    reason.map_or(String::new(), |reason| format!("      ! {reason}\n"))
}

/// Formats the table of ceilings.
fn ceilings_table(c: &Calibration) -> String {
    let mut out = String::from(
        "\n  Ceilings: highest rates of one generator thread over 64 connections to dyno's own \
         minimal server\n\n    driver   protocol   in flight on each   requests/s   CPU per \
         request     thread busy\n",
    );
    for row in &c.ceilings {
        let _ = writeln!(
            out,
            "    {:<8} {:<10} {:>17} {:>12} {:>17} {:>15}",
            row.driver.name(),
            row.protocol,
            row.in_flight_each(),
            rate(row.throughput_rps),
            or_dash(row.cpu_us_per_exchange, micros),
            percent(row.busiest_thread_utilisation)
        );
        out.push_str(&disturbance_line(row.disturbed.as_deref()));
    }
    for (name, reason) in &c.not_measured {
        let _ = writeln!(out, "    {name}: not measured, {reason}");
    }
    out
}

/// Formats the table of delays of scheduled requests.
fn pacing_table(c: &Calibration) -> String {
    let mut out = String::from(
        "\n  How late dyno sends scheduled requests over 16 connections (CV: coefficient of \
         variation)\n\n    requests/s   spin      send lag p50 / p99        wake lag p99   \
         response p50 / p99       gaps' CV    CPU    polling\n",
    );
    for row in &c.pacing {
        let _ = writeln!(
            out,
            "    {:>10}   {:<7} {:>10} / {:<10} {:>14} {:>12} / {:<10} {:>8} {:>6} {:>10}",
            number(row.rate),
            row.spin.name(),
            or_dash(row.send_lag_us.p50, micros),
            or_dash(row.send_lag_us.p99, micros),
            or_dash(row.wake_lag_us.p99, micros),
            percentile_text(&row.response_time_us, 0.5),
            percentile_text(&row.response_time_us, 0.99),
            or_dash(row.achieved_cv, |cv| format!("{cv:.2}")),
            percent(row.cpu_s_per_s),
            percent(row.polling_s_per_s)
        );
        out.push_str(&disturbance_line(row.disturbed.as_deref()));
    }
    out
}

/// Formats the table that compares dyno's timestamps with the kernel's.
fn stamps_table(c: &Calibration) -> String {
    let mut out = String::from(
        "\n  Response time by dyno's timestamps, and by the kernel's receive timestamps of the \
         same responses (epoll)\n\n",
    );
    if c.stamps.is_empty() {
        out.push_str(
            "    not measured, because the kernel returned no timestamps for received data\n",
        );
        return out;
    }
    out.push_str(
        "    requests/s   spin      p50 dyno / kernel           p99 dyno / kernel           \
         difference p50\n",
    );
    for row in &c.stamps {
        let _ = writeln!(
            out,
            "    {:>10}   {:<7} {:>10} / {:<10} {:>13} / {:<10} {:>16}",
            number(row.rate),
            row.spin.name(),
            percentile_text(&row.ours_us, 0.5),
            or_dash(row.kernel_us.p50, micros),
            percentile_text(&row.ours_us, 0.99),
            or_dash(row.kernel_us.p99, micros),
            or_dash(row.difference_p50_us, |us| format!("{us:.1} µs"))
        );
        out.push_str(&disturbance_line(row.disturbed.as_deref()));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use dyno_archive::plan::Placement;

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
        assert!(!table.contains("p50 dyno / kernel"), "{text}");
        assert!(!text.contains("They are stored in"), "{text}");
    }
}

//! What was reached, and what it took: throughput, response times, pages, requests of a mix.

use dyno_analysis::load::{Pages, RequestResult};
use dyno_analysis::report::{Report, TrialResult};

use super::overview::marks;
use super::table::{Cell, table, text, value};
use super::{figure, repeats_of, step_table, valid};
use crate::format::{count, micros, number, percent};

pub(super) fn under_load(report: &Report) -> String {
    let throughput = step_table(
        report,
        &[
            ("#Requests/s", &|s| value(s.throughput_rps.median, number)),
            ("#Each repeat", &|s| repeats_of(&s.throughput_rps, number)),
            ("Valid", &valid),
            ("Caveats", &|s| Cell { html: marks(&s.caveats), ..Cell::default() }),
            ("Limited by", &|s| text(&s.limiter_sentence)),
        ],
    );
    let errors = step_table(
        report,
        &[
            ("#Failed", &|s| value(s.error_share.median, percent)),
            ("#Each repeat", &|s| repeats_of(&s.error_share, percent)),
        ],
    );
    let legend = "A dot per repeat, a line through the medians of valid steps. The shape of a dot tells what limited the \
                  step: ● its CPU, ▲ too few requests in flight, ■ the generator, ▼ something else that it waits for, ◆ anything else. Steps that are not valid are \
                  crossed and never joined; hover for the reason. Grey: the control, the most this machine and generator reach.";
    let no_errors = report.trials.iter().all(|t| t.error_share == 0.0);
    let errors_note = if no_errors {
        "No request failed in any step."
    } else {
        "Share of requests that failed or were answered wrongly."
    };
    figure("throughput", "Throughput", legend, &throughput)
        + &figure("errors", "Errors", errors_note, &errors)
}

pub(super) fn response(report: &Report) -> String {
    let times = step_table(
        report,
        &[
            ("#p50", &|s| value(s.response_p50_us.median, micros)),
            ("#p90", &|s| value(s.response_p90_us.median, micros)),
            ("#p99", &|s| value(s.response_p99_us.median, micros)),
            ("#p99, each repeat", &|s| repeats_of(&s.response_p99_us, micros)),
        ],
    );
    let rows: Vec<Vec<Cell>> = report.trials.iter().map(times_row).collect();
    let kinds = table(
        "sortable",
        &[
            "Subject",
            "#Connections",
            "#Repeat",
            "#Response p50",
            "#Response p99",
            "#Response max",
            "#Service p50",
            "#Service p99",
            "#Send lag p99",
            "#First byte p50",
            "#Wake lag p99",
        ],
        &rows,
    );
    let note = "Response time counts from the instant a request was intended, service time from its sending, send lag is between the two. \
                A percentile with fewer than 20 samples beyond it is not shown.";
    figure("response", "Response time", note, &times)
        + &figure(
            "spectrum",
            "Response time by percentile",
            "All repeats of the step; each line ends where fewer than 20 samples lie beyond.",
            &kinds,
        )
        + &pages(report)
        + &by_request(report)
}

/// Of workloads that load pages: what became of them. Empty if none does.
fn pages(report: &Report) -> String {
    let of_pages = report.trials.iter().filter_map(|t| Some((t, t.load.pages.as_ref()?)));
    let rows: Vec<Vec<Cell>> = of_pages.map(|(t, p)| page_row(t, p)).collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = [
        "Subject",
        "Workload",
        "#Visitors",
        "#Repeat",
        "#Pages/s",
        "#Page p50",
        "#Page p90",
        "#Page p99",
        "#Complete",
        "#Not complete",
        "#Resources each",
        "#Connections each",
        "#Requests/s",
    ];
    format!(
        "<h3>Pages</h3>\n<p class=\"note\">A page counts from the intended start of its document to the end of its last resource, and as complete if everything of it was answered as expected.</p>\n{}",
        table("sortable", &head, &rows)
    )
}

fn page_row(t: &TrialResult, p: &Pages) -> Vec<Cell> {
    let n = |n: u64| value(Some(n as f64), |n| count(n as u64));
    vec![
        text(&t.subject_id),
        text(&t.workload),
        n(u64::from(t.step.connections)),
        n(u64::from(t.repeat)),
        value(Some(p.per_second), number),
        value(p.time_us.p50, micros),
        value(p.time_us.p90, micros),
        value(p.time_us.p99, micros),
        n(p.completed),
        n(p.failed),
        n(p.resources as u64),
        n(u64::from(p.connections_each)),
        value(Some(t.load.throughput_rps), number),
    ]
}

/// Of workloads that mix several requests: what became of each. Empty if none does.
fn by_request(report: &Report) -> String {
    let mixed = report.trials.iter().flat_map(|t| t.load.requests.iter().map(move |r| (t, r)));
    let rows: Vec<Vec<Cell>> = mixed.map(|(t, r)| request_row(t, r)).collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = [
        "Subject",
        "Workload",
        "Request",
        "#Weight",
        "#Connections",
        "#Repeat",
        "#Requests/s",
        "#Response p50",
        "#Response p99",
        "#Service p50",
        "Not ok",
    ];
    format!("<h3>By request</h3>\n{}", table("sortable", &head, &rows))
}

fn request_row(t: &TrialResult, r: &RequestResult) -> Vec<Cell> {
    let bad: Vec<String> = r
        .outcomes
        .iter()
        .filter(|(name, _)| *name != "ok" && !name.starts_with("status_"))
        .map(|(name, n)| format!("{} {name}", count(*n)))
        .collect();
    vec![
        text(&t.subject_id),
        text(&t.workload),
        text(&r.name),
        value(Some(f64::from(r.weight)), |w| format!("{w}")),
        value(Some(f64::from(t.step.connections)), |c| format!("{c}")),
        value(Some(f64::from(t.repeat)), |c| format!("{c}")),
        value(Some(r.throughput_rps), |rps| count(rps.round() as u64)),
        value(r.response_time_us.p50, micros),
        value(r.response_time_us.p99, micros),
        value(r.service_time_us.p50, micros),
        text(if bad.is_empty() { "–".into() } else { bad.join(", ") }),
    ]
}

pub(super) fn times_row(t: &TrialResult) -> Vec<Cell> {
    let l = &t.load;
    vec![
        text(&t.subject_id),
        value(Some(f64::from(t.step.connections)), |c| format!("{c}")),
        value(Some(f64::from(t.repeat)), |c| format!("{c}")),
        value(l.response_time_us.p50, micros),
        value(l.response_time_us.p99, micros),
        value(l.response_time_us.max, micros),
        value(l.service_time_us.p50, micros),
        value(l.service_time_us.p99, micros),
        value(l.send_lag_us.p99, micros),
        value(l.first_byte_us.p50, micros),
        value(l.client.wake_lag_us.p99, micros),
    ]
}

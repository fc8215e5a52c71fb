//! What was reached, and what it took: throughput, response times, pages, requests of a mix.

use dyno_analysis::load::{Pages, Percentiles, RequestResult};
use dyno_analysis::report::Report;
use dyno_analysis::summary::Summary;
use dyno_analysis::trial::TrialResult;
use maud::{Markup, html};

use super::overview::marks;
use super::table::{Cell, cell, table, text, value};
use super::{figure, note, repeats_of, step_table, valid, whole};
use crate::format::{Quantile, count, micros, number, percent, wait, wait_at_step};

pub(super) fn under_load(report: &Report) -> Markup {
    let throughput = step_table(
        report,
        &[
            ("#Requests/s", &|s| value(s.throughput_rps.median, number)),
            ("#Each repeat", &|s| repeats_of(&s.throughput_rps, number)),
            ("Valid", &valid),
            ("Caveats", &|s| cell(marks(&s.caveats))),
            ("Limited by", &|s| text(&s.limiter_sentence)),
        ],
    );
    let legend = "A dot per repeat, a line through the medians of valid steps. The shape of a dot tells what limited the \
                  step: ● its CPU, ▲ too few requests in flight, ■ the generator, ▼ something else that it waits for, ◆ anything else. Steps that are not valid are \
                  crossed and never joined; hover for the reason. Grey: the control, the most this machine and generator reach.";
    html! {
        (figure("throughput", "Throughput", legend, &throughput))
        (errors(report))
    }
}

/// A chart of nothing says less than a sentence.
fn errors(report: &Report) -> Markup {
    if report.trials.iter().all(|t| t.error_share == 0.0) {
        return note("No request failed in any step.");
    }
    let columns: [(&str, &dyn Fn(&Summary) -> Cell); 2] = [
        ("#Failed", &|s| value(s.error_share.median, percent)),
        ("#Each repeat", &|s| repeats_of(&s.error_share, percent)),
    ];
    let what = "Share of requests that failed or were answered wrongly.";
    figure("errors", "Errors", what, &step_table(report, &columns))
}

pub(super) fn response(report: &Report) -> Markup {
    let at = |s: &Summary, q: Quantile| text(wait_at_step(s, q)).sorted_by(q.of_step(s).median);
    let times = step_table(
        report,
        &[
            ("#p50", &|s| at(s, Quantile::P50)),
            ("#p90", &|s| at(s, Quantile::P90)),
            ("#p99", &|s| at(s, Quantile::P99)),
            ("#p99, each repeat", &|s| p99_of_repeats(report, s)),
            ("#Not answered", &|s| value(Some(s.response_unanswered.share), percent)),
        ],
    );
    let rows: Vec<Vec<Cell>> = report.trials.iter().map(times_row).collect();
    let kinds = table(
        "sortable",
        &[
            "Subject",
            "#Connections",
            "#Repeat",
            "#Right answers",
            "#Not answered",
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
    let what = "Response time counts from the instant a request was intended, service time from its sending, send lag is between the two. \
                Percentiles are over all requests that were due: one that got no right answer ranks above every right answer. Where a \
                percentile lies among those, as in > 1.20 s (5.9 % not answered), the time is the longest wait known, and an arrow \
                stands for it in the chart. –: fewer than 20 samples lie beyond it, which is too few to give it.";
    let spectrum = "All repeats of the step; each line ends where fewer than 20 samples lie beyond, or where the unanswered begin.";
    html! {
        (figure("response", "Response time", what, &times))
        (figure("spectrum", "Response time by percentile", spectrum, &kinds))
        (pages(report))
        (by_request(report))
    }
}

/// A percentile, sorted by its time where it has one.
fn percentile(p: &Percentiles, q: f64) -> Cell {
    let key = match p.place(q) {
        dyno_analysis::load::place::Place::At(us) => Some(us),
        dyno_analysis::load::place::Place::Beyond(u) => u.longest_wait,
        dyno_analysis::load::place::Place::TooFew => None,
    };
    text(wait(p, q)).sorted_by(key)
}

fn p99_of_repeats(report: &Report, s: &Summary) -> Cell {
    let is_of = |t: &&TrialResult| {
        t.valid && t.subject_id == s.subject && t.workload == s.workload && t.step.index == s.step
    };
    let each: Vec<String> =
        report.trials.iter().filter(is_of).map(|t| wait(&t.load.response_time_us, 0.99)).collect();
    text(each.join("  "))
}

/// Of workloads that load pages: what became of them. Empty if none does.
fn pages(report: &Report) -> Markup {
    let of_pages = report.trials.iter().filter_map(|t| Some((t, t.load.pages.as_ref()?)));
    let rows: Vec<Vec<Cell>> = of_pages.map(|(t, p)| page_row(t, p)).collect();
    if rows.is_empty() {
        return Markup::default();
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
    html! {
        h3 { "Pages" } "\n"
        (note("A page counts from the intended start of its document to the end of its last resource, and as complete if everything of it was answered as expected."))
        (table("sortable", &head, &rows))
    }
}

fn page_row(t: &TrialResult, p: &Pages) -> Vec<Cell> {
    let n = |n: u64| value(Some(n as f64), |n| count(n as u64));
    vec![
        text(&t.subject_id),
        text(&t.workload),
        n(u64::from(t.step.connections)),
        n(u64::from(t.repeat)),
        value(Some(p.per_second), number),
        percentile(&p.time_us, 0.5),
        percentile(&p.time_us, 0.9),
        percentile(&p.time_us, 0.99),
        n(p.completed),
        n(p.failed),
        n(p.resources as u64),
        n(u64::from(p.connections_each)),
        value(Some(t.load.throughput_rps), number),
    ]
}

/// Of workloads that mix several requests: what became of each. Empty if none does.
fn by_request(report: &Report) -> Markup {
    let mixed = report.trials.iter().flat_map(|t| t.load.requests.iter().map(move |r| (t, r)));
    let rows: Vec<Vec<Cell>> = mixed.map(|(t, r)| request_row(t, r)).collect();
    if rows.is_empty() {
        return Markup::default();
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
    html! {
        h3 { "By request" } "\n"
        (table("sortable", &head, &rows))
    }
}

fn request_row(t: &TrialResult, r: &RequestResult) -> Vec<Cell> {
    let bad: Vec<String> =
        r.outcomes.not_ok().map(|(outcome, n)| format!("{} {}", count(n), outcome.name())).collect();
    vec![
        text(&t.subject_id),
        text(&t.workload),
        text(&r.name),
        whole(r.weight),
        whole(t.step.connections),
        whole(t.repeat),
        value(Some(r.throughput_rps), |rps| count(rps.round() as u64)),
        percentile(&r.response_time_us, 0.5),
        percentile(&r.response_time_us, 0.99),
        percentile(&r.service_time_us, 0.5),
        text(if bad.is_empty() { "–".into() } else { bad.join(", ") }),
    ]
}

fn times_row(t: &TrialResult) -> Vec<Cell> {
    let l = &t.load;
    let n = |n: u64| value(Some(n as f64), |n| count(n as u64));
    vec![
        text(&t.subject_id),
        whole(t.step.connections),
        whole(t.repeat),
        n(l.response_time_us.count),
        n(l.response_time_us.unanswered),
        percentile(&l.response_time_us, 0.5),
        percentile(&l.response_time_us, 0.99),
        percentile(&l.response_time_us, 1.0),
        percentile(&l.service_time_us, 0.5),
        percentile(&l.service_time_us, 0.99),
        value(l.send_lag_us.p99, micros),
        value(l.first_byte_us.p50, micros),
        value(l.client.wake_lag_us.p99, micros),
    ]
}

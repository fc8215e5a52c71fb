//! Arranges the sections on the load: throughput, errors, response times, pages, and requests of a
//! mix.

use dyno_analysis::load::percentile_value::PercentileValue;
use dyno_analysis::load::{GroupSummary, Percentiles, RequestResult};
use dyno_analysis::metric::{MetricId, RESPONSE_P99, THROUGHPUT};
use dyno_analysis::report::Report;
use dyno_analysis::scaling::{Coefficient, LawResult, ScalingResult};
use dyno_analysis::summary::Summary;
use dyno_analysis::trial::TrialResult;
use dyno_model::Phase;

use super::overview::marks;
use super::{
    REQUESTS_PER_SECOND, VaryingColumn, count_cell, metric_figure, metric_table, repeats_cell,
    step_table, trial_table, valid_repeats_cell, varying_columns, whole_number_cell,
};
use crate::brackets;
use crate::format::{
    micros, not_ok_texts, number, page_percentile_text, percent, percentile_text, plural, rate,
    step_percentile_text,
};
use crate::overview::caveat_names;
use crate::present::block::Block;
use crate::present::part_scope::PartScope;
use crate::present::table::{Column, ReportTable, TableCell, cell, text, value};

/// Returns the content of the section on throughput and errors.
pub(super) fn under_load(report: &Report) -> Block {
    let throughput = step_table(
        report,
        &[
            ("#Requests/s", &|s| value(s.median_of(MetricId::Throughput), number)),
            ("#Each repeat", &|s| repeats_cell(s.values(MetricId::Throughput), number)),
            ("Valid", &valid_repeats_cell),
            ("Caveats", &|s| cell(caveat_names(&s.caveats), marks(&s.caveats))),
            ("Limited by", &|s| text(&s.limiter_sentence)),
        ],
    );
    let over_time = throughput_over_time(report);
    Block::Group(vec![
        metric_figure(
            (report, THROUGHPUT.key),
            "throughput",
            "Throughput",
            (LEGEND, CONTROL),
            throughput,
        ),
        Block::OnPages(vec![Block::figure(
            "over-time",
            "Throughput over time",
            (OVER_TIME, ""),
            over_time,
        )]),
        errors(report),
        scaling(report),
        objective(report),
    ])
}

/// Returns the table of scaling curves (throughput over requests in flight): the knee of each, and
/// the coefficients of the Universal Scalability Law. Empty without a curve of three levels or
/// more.
fn scaling(report: &Report) -> Block {
    let curves: Vec<&ScalingResult> =
        report.scaling.iter().filter(|curve| curve.levels.len() > 2).collect();
    let law = |curve: &&ScalingResult, pick: fn(&LawResult) -> Option<f64>| {
        curve.law.as_ref().and_then(pick)
    };
    let coefficient = |curve: &&ScalingResult, pick: fn(&LawResult) -> Coefficient| {
        let coefficient = curve.law.as_ref().map(pick);
        let interval = coefficient.and_then(|c| c.interval);
        let range = interval.map(|(low, high)| format!("{}–{}", number(low), number(high)));
        let cell = value(coefficient.map(|c| c.value), number);
        match range {
            Some(range) => cell.with_small(range),
            None => cell,
        }
    };
    let subject_columns: [Column<'_, &ScalingResult>; 2] = [
        ("Subject", &|c| text(&report.subjects[c.arm].title)),
        ("Workload", &|c| text(&report.run.workloads[c.workload].name)),
    ];
    let optional_columns: [VaryingColumn<'_, &ScalingResult>; 2] = [
        (|at| at.streams > 1, ("#Streams", &|c| whole_number_cell(c.streams))),
        (|at| at.pipeline > 1, ("#Pipeline", &|c| whole_number_cell(c.pipeline))),
    ];
    let figures: [Column<'_, &ScalingResult>; 7] = [
        ("#Levels", &|c| count_cell(c.levels.len() as u64)),
        ("#Knee, in flight", &|c| knee_cell(c)),
        ("#λ, requests/s", &|c| coefficient(c, |law| law.lambda)),
        ("#σ, contention", &|c| coefficient(c, |law| law.sigma)),
        ("#κ, coherency", &|c| coefficient(c, |law| law.kappa)),
        ("#Peak by the law", &|c| value(law(c, |law| law.max_rps), number)),
        ("#Worst residual", &|c| value(law(c, |law| Some(law.worst_residual)), percent)),
    ];
    let scope = |curve: &&ScalingResult| {
        PartScope::subject(report, &curve.subject).with_workloads(report, [curve.workload])
    };
    let columns =
        [&subject_columns[..], &varying_columns(report, &optional_columns), &figures].concat();
    let table = ReportTable::scoped("sortable", &columns, &curves, scope);
    Block::part("How throughput grows", "", table, SCALING)
}

const SCALING: &str = "The knee is the number of requests in flight above which throughput hardly \
                       rises. The cell is empty if the bend is within the noise, or if repeats at \
                       or above the knee are excluded and may hide higher throughput.\nThe \
                       Universal Scalability Law, λn / (1 + σ(n − 1) + κn(n − 1)), gives the \
                       throughput at n requests in flight. It is fitted to six levels or more, \
                       without levels whose excluded repeats may hide higher throughput. A \
                       residual far above the noise means that the server does not follow the \
                       law.\nEach coefficient has its 95 % interval in smaller text below it, if \
                       there are five starts or more. A coefficient that the fit sets to 0 has no \
                       interval.";

/// Returns the cell of the knee, or of the levels at which it is unknown.
fn knee_cell(curve: &ScalingResult) -> TableCell {
    let cell = value(curve.knee, number);
    if curve.knee.is_some() || curve.open_levels.is_empty() {
        return cell;
    }
    let levels: Vec<String> = curve.open_levels.iter().map(u64::to_string).collect();
    cell.with_small(format!("not known at {}", levels.join(", ")))
}

/// Returns the table of the rates between which servers stop meeting the objective. Empty without
/// an objective.
fn objective(report: &Report) -> Block {
    let Some(objective) = &report.run.objective else { return Block::empty() };
    let rates = ReportTable::plain("sortable", &brackets::COLUMNS, &report.brackets);
    let heading = format!("Rates that meet {objective}");
    let mut blocks = vec![Block::part(&heading, "", rates, brackets::NOTE)];
    if !report.searches.is_empty() {
        let searches = ReportTable::plain("sortable", &brackets::SEARCH_COLUMNS, &report.searches);
        blocks.extend([Block::Table(searches), Block::note(brackets::SEARCHES_NOTE)]);
    }
    Block::Group(blocks)
}

const LEGEND: &str = "Each dot is a repeat. The line joins the medians of valid steps. A bar shows \
                      the median if there is only one step.\nThe shape of a dot shows the limiter: \
                      ● the server's CPU, ▲ too few requests in flight, ■ the generator, ▼ \
                      something else that the server waits for, ◆ any other limiter. Hover over a \
                      dot to see the reason.\nSteps that are not valid are crossed out, and the \
                      line omits them. The control is grey.";

const CONTROL: &str = "The control, dyno's own minimal server, shows the highest throughput that \
                       this machine and the generator allow under the limits of the servers.";

const OVER_TIME: &str = "Throughput of one step in each interval since the load began, with a line \
                         per repeat. Warm-up is shaded. Repeats that are not valid are pale.";

/// Returns the table of the lowest and the highest throughput of the measured intervals of each
/// trial.
fn throughput_over_time(report: &Report) -> ReportTable {
    let rates = |t: &TrialResult| -> Vec<f64> {
        let measured = t.load.intervals.iter().filter(|i| i.phase == Phase::Measured);
        measured.map(|i| i.throughput_rps).collect()
    };
    trial_table(
        report,
        &report.trials,
        |t| t,
        &[
            REQUESTS_PER_SECOND,
            ("#Lowest interval", &|t| value(rates(t).into_iter().reduce(f64::min), number)),
            ("#Highest interval", &|t| value(rates(t).into_iter().reduce(f64::max), number)),
            ("#Intervals", &|t| count_cell(rates(t).len() as u64)),
        ],
    )
}

/// Returns the chart of failed requests, or a sentence if no request failed. Empty without a step.
fn errors(report: &Report) -> Block {
    if report.trials.is_empty() {
        return Block::empty();
    }
    if report.trials.iter().all(|t| t.error_share.unwrap_or(0.0) == 0.0) {
        let without_requests = report.trials.iter().filter(|t| t.error_share.is_none()).count();
        return Block::note(&match without_requests {
            0 => "No request failed in any step.".to_owned(),
            n => format!(
                "No request failed in any window. {} had no request in the window.",
                plural(n as u64, "step")
            ),
        });
    }
    let note = "Share of intended requests without a correct response (not ok).";
    let table = metric_table(report, "#Not ok", MetricId::ErrorShare, &[]);
    Block::figure("errors", "Errors", ("", note), table)
}

/// Returns the content of the section on response times.
pub(super) fn response(report: &Report) -> Block {
    let step_cell = |s: &Summary, id| text(step_percentile_text(s, id)).sorted_by(s.median_of(id));
    let times = step_table(
        report,
        &[
            ("#p50", &|s| step_cell(s, MetricId::ResponseP50)),
            ("#p90", &|s| step_cell(s, MetricId::ResponseP90)),
            ("#p99", &|s| step_cell(s, MetricId::ResponseP99)),
            ("#p99, each repeat", &|s| p99_of_repeats_cell(report, s)),
            ("#Not ok", &|s| value(Some(s.response_unanswered.share), percent)),
        ],
    );
    let trial_times = trial_table(report, &report.trials, |t| t, &TIMES);
    Block::Group(vec![
        metric_figure(
            (report, RESPONSE_P99.key),
            "response",
            "Response time",
            (RESPONSE_LEGEND, RESPONSE),
            times,
        ),
        Block::OnPages(vec![
            Block::figure("spectrum", "Response time by percentile", (SPECTRUM, ""), trial_times),
            pages(report),
            visits(report),
            by_request(report),
        ]),
    ])
}

const RESPONSE_LEGEND: &str = "An arrow is a percentile among the requests that are not ok.\nIn \
                               tables of trials, each percentile has its 95 % interval in smaller \
                               text below it. The interval comes from order statistics, which \
                               assume independent requests, so the true interval is at least as \
                               wide.";

const RESPONSE: &str = "Response time counts from the intended start of a request. Service time \
                        counts from the sending of the request. Send lag is the \
                        difference.\nPercentiles are over all intended requests. Requests without \
                        a correct response (not ok) rank above every correct response.\n\"> 1.20 \
                        s (5.9 % not ok)\" means that the percentile lies among the requests that \
                        are not ok. The time is the longest known wait.\n\"–\" means too few \
                        samples: fewer than 20 lie beyond the percentile.";

const SPECTRUM: &str = "All repeats of the step. Repeats that are not valid are pale. Each line \
                        ends at the percentile beyond which fewer than 20 samples lie, or beyond \
                        which requests got no correct response.";

/// Returns the cell of a percentile. Its sort key is the time, or the longest known wait if the
/// percentile lies among unanswered requests.
fn percentile_with_key(p: &Percentiles, q: f64) -> TableCell {
    percentile_cell(p, q, percentile_text)
}

/// Returns the cell of a percentile of the times of pages or visits.
fn time_cell(p: &Percentiles, q: f64) -> TableCell {
    percentile_cell(p, q, page_percentile_text)
}

/// Returns the cell of a percentile that `show` formats, with its interval.
fn percentile_cell(p: &Percentiles, q: f64, show: fn(&Percentiles, f64) -> String) -> TableCell {
    let key = match p.value(q) {
        PercentileValue::Known(us) => Some(us),
        PercentileValue::Unanswered(unanswered) => unanswered.longest_wait,
        PercentileValue::TooFew => None,
    };
    let cell = text(show(p, q)).sorted_by(key);
    match p.bounds_at(q) {
        Some((low, high)) => cell.with_small(format!("{}–{}", micros(low), micros(high))),
        None => cell,
    }
}

/// Returns a cell with the p99 of each valid repeat.
fn p99_of_repeats_cell(report: &Report, s: &Summary) -> TableCell {
    let trials = report.trials.iter().filter(|t| t.valid && t.duet.is_none() && t.cell == s.cell);
    let texts: Vec<String> =
        trials.map(|t| percentile_text(&t.load.response_time_us, 0.99)).collect();
    text(texts.join("  "))
}

/// Returns the table of pages or visits of each trial. `group` returns the summary, and how many
/// requests and connections each page or visit has. Empty without them.
fn groups(
    report: &Report,
    noun: &str,
    (per_group, note): (&str, &str),
    group: fn(&TrialResult) -> Option<(&GroupSummary, usize, u32)>,
) -> Block {
    type TrialGroup<'a> = (&'a TrialResult, (&'a GroupSummary, usize, u32));
    let rows: Vec<TrialGroup<'_>> =
        report.trials.iter().filter_map(|t| Some((t, group(t)?))).collect();
    let [rate, p50, p90, p99] = ["s/s", " p50", " p90", " p99"].map(|end| format!("#{noun}{end}"));
    let table = trial_table(
        report,
        &rows,
        |(t, _)| t,
        &[
            (&rate, &|(_, (g, ..))| value(Some(g.per_second), number)),
            (&p50, &|(_, (g, ..))| time_cell(&g.time_us, 0.5)),
            (&p90, &|(_, (g, ..))| time_cell(&g.time_us, 0.9)),
            (&p99, &|(_, (g, ..))| time_cell(&g.time_us, 0.99)),
            ("#Complete", &|(_, (g, ..))| count_cell(g.completed)),
            ("#Not complete", &|(_, (g, ..))| count_cell(g.incomplete())),
            (per_group, &|(_, (_, requests, _))| count_cell(*requests as u64)),
            ("#Connections per visitor", &|(_, (.., n))| count_cell(u64::from(*n))),
            (REQUESTS_PER_SECOND.0, &|(t, _)| REQUESTS_PER_SECOND.1(t)),
        ],
    );
    Block::part(&format!("{noun}s"), note, table, "")
}

/// Returns the table of pages.
fn pages(report: &Report) -> Block {
    groups(report, "Page", ("#Resources per page", PAGES), |t| {
        let pages = t.load.pages.as_ref()?;
        Some((&pages.group, pages.resources, pages.connections_each))
    })
}

/// Returns the table of visits, each over one connection.
fn visits(report: &Report) -> Block {
    groups(report, "Visit", ("#Requests per visit", VISITS), |t| {
        let visits = t.load.visits.as_ref()?;
        Some((&visits.group, visits.steps, 1))
    })
}

const PAGES: &str = "Page time runs from the intended start of the page's document to the end of \
                     its last resource. A page is complete if all of its responses were correct. \
                     The first column \"Connections\" counts visitors.";

const VISITS: &str = "Visit time runs from the intended start of the first request of a sequence \
                      to the end of its last one. A visit is complete if all of its responses \
                      were correct. It ends with the first response that is not.";

/// Returns the table of the results of each request of a mix. Empty without a mix.
fn by_request(report: &Report) -> Block {
    let rows: Vec<TrialRequest<'_>> =
        report.trials.iter().flat_map(|t| t.load.requests.iter().map(move |r| (t, r))).collect();
    let table = trial_table(
        report,
        &rows,
        |(t, _)| t,
        &[
            ("Request", &|(_, r)| text(&r.name)),
            ("#Weight", &|(_, r)| whole_number_cell(r.weight)),
            ("#Requests/s", &|(_, r)| value(Some(r.throughput_rps), rate)),
            ("#Response p50", &|(_, r)| percentile_with_key(&r.response_time_us, 0.5)),
            ("#Response p99", &|(_, r)| percentile_with_key(&r.response_time_us, 0.99)),
            ("#Service p50", &|(_, r)| percentile_with_key(&r.service_time_us, 0.5)),
            ("Not ok", &|(_, r)| not_ok_cell(r)),
        ],
    );
    Block::part("By request", "", table, "")
}

type TrialRequest<'a> = (&'a TrialResult, &'a RequestResult);

/// Returns a cell with the number of requests per outcome that is not ok.
fn not_ok_cell(r: &RequestResult) -> TableCell {
    let bad = not_ok_texts(&r.outcomes);
    text(if bad.is_empty() { "–".into() } else { bad.join(", ") })
}

const TIMES: [Column<'_, TrialResult>; 10] = [
    ("#Correct responses", &|t| count_cell(t.load.response_time_us.count)),
    ("#Not ok", &|t| count_cell(t.load.response_time_us.unanswered)),
    ("#Response p50", &|t| percentile_with_key(&t.load.response_time_us, 0.5)),
    ("#Response p99", &|t| percentile_with_key(&t.load.response_time_us, 0.99)),
    ("#Response max", &|t| percentile_with_key(&t.load.response_time_us, 1.0)),
    ("#Service p50", &|t| percentile_with_key(&t.load.service_time_us, 0.5)),
    ("#Service p99", &|t| percentile_with_key(&t.load.service_time_us, 0.99)),
    ("#Send lag p99", &|t| value((MetricId::SendLagP99.metric().pick)(t), micros)),
    ("#First byte p50", &|t| value(t.load.first_byte_us.p50, micros)),
    ("#Wake lag p99", &|t| value(t.load.client.wake_lag_us.p99, micros)),
];

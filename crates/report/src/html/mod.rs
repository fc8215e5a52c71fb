//! `report.html`: one self-contained page. What can be read is rendered here; the viewer (`web/`) draws the charts
//! from the same JSON, and without it the page still reads and prints.

mod table;
mod wire;

use std::fmt::Write as _;

use dyno_analysis::load::{Pages, RequestResult};
use dyno_analysis::report::{Report, SubjectResult, TrialResult};
use dyno_analysis::stats::Repeated;
use dyno_analysis::summary::{OverviewRow, StepCaveat, Summary};
use dyno_analysis::{Caveat, Severity};

use self::table::{Cell, escape, table, text, value};
use crate::answer;
use crate::format::{bytes, count, micros, number, or_dash, percent, plural};

const VIEWER_JS: &str = include_str!("../../viewer/viewer.js");
const VIEWER_CSS: &str = include_str!("../../viewer/viewer.css");

/// Renders the page.
#[must_use]
pub fn render(report: &Report) -> String {
    page(report, VIEWER_CSS, VIEWER_JS)
}

/// The page with another viewer: golden tests leave the bundle out.
#[must_use]
pub fn page(report: &Report, css: &str, js: &str) -> String {
    let title = format!("{} · dyno", report.run.suite);
    let data = serde_json::to_string(report).expect("reports hold nothing that JSON cannot");
    // Inside a script element only `</script` and `<!--` could end or hide it; no `<` at all is simplest.
    let data = data.replace('<', "\\u003c");
    let body = [
        header(report),
        section("answer", "The answer", &answer_html(report)),
        section("overview", "Overview", &overview(report)),
        section("load", "Under load", &under_load(report)),
        section("response", "Response time", &response(report)),
        section("cost", "Cost", &cost(report)),
        section("why", "Why", &why(report)),
        section("wire", "On the wire", &wire::wire(report)),
        section("life", "Start-up, stop, checks, build", &life(report)),
        section("explorer", "Explorer", &explorer(report)),
        section("method", "Method", &method(report)),
    ]
    .concat();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>{css}</style>\n</head>\n<body>\n\
         <main>\n{body}</main>\n<script type=\"application/json\" id=\"dyno-data\">{data}</script>\n\
         <script>{js}</script>\n</body>\n</html>\n",
        title = escape(&title)
    )
}

fn section(id: &str, title: &str, body: &str) -> String {
    format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{body}</section>\n")
}

fn header(report: &Report) -> String {
    let facts = &report.run.facts;
    let machine = format!(
        "{} × {} · Linux {}",
        facts.cpus,
        facts.cpu_model.as_deref().unwrap_or("unknown CPU"),
        facts.kernel.as_deref().unwrap_or("of unknown version")
    );
    let nav = [
        ("answer", "Answer"),
        ("overview", "Overview"),
        ("load", "Load"),
        ("response", "Response time"),
        ("cost", "Cost"),
        ("why", "Why"),
        ("wire", "On the wire"),
        ("life", "Start-up & checks"),
        ("explorer", "Explorer"),
        ("method", "Method"),
    ];
    let links: String = nav.iter().map(|(id, name)| format!("<a href=\"#{id}\">{name}</a>")).collect();
    format!(
        "<header>\n<p class=\"brand\">dyno</p>\n<h1>{}</h1>\n<p class=\"lede\">{}</p>\n<p class=\"meta\">{} · {} · {} repeats · seed {}</p>\n<nav aria-label=\"Sections\">{links}</nav>\n</header>\n<div id=\"legend\" class=\"legend\" hidden></div>\n",
        escape(&report.run.suite),
        escape(&report.run.description),
        escape(&report.run.started),
        escape(&machine),
        report.run.repeats,
        report.run.seed
    )
}

fn answer_html(report: &Report) -> String {
    let sentences: String = answer::sentences(report)
        .iter()
        .map(|s| format!("<p class=\"answer\">{}</p>\n", escape(s)))
        .collect();
    format!("{sentences}{}", caveat_list(&report.caveats))
}

fn caveat_list(caveats: &[Caveat]) -> String {
    if caveats.is_empty() {
        return String::new();
    }
    let items: String = caveats.iter().map(caveat_item).collect();
    format!("<ul class=\"caveats\">{items}</ul>\n")
}

fn caveat_item(caveat: &Caveat) -> String {
    format!(
        "<li class=\"{}\">{} <a href=\"#caveat-{}\" class=\"code\">{}</a></li>",
        severity(caveat.severity),
        escape(&caveat.message),
        caveat.code,
        caveat.code.replace('_', " ")
    )
}

const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Invalid => "invalid",
    }
}

fn spread(q: &Repeated, show: impl Fn(f64) -> String) -> String {
    or_dash(q.spread(), |(a, b)| format!("{}–{}", show(a), show(b)))
}

fn swatch(report: &Report, id: &str) -> String {
    let index = report.subjects.iter().position(|s| s.id == id).unwrap_or(0);
    format!("<span class=\"swatch\" data-subject=\"{index}\"></span>")
}

fn overview(report: &Report) -> String {
    let rows = &report.overview;
    let most = |pick: &dyn Fn(&OverviewRow) -> Option<f64>| rows.iter().filter_map(pick).fold(0.0, f64::max);
    let peak = |r: &OverviewRow| r.peak_rps.as_ref().and_then(|p| p.median);
    let maxima = Maxima {
        rps: most(&peak),
        p99: most(&|r| r.response_p99_us),
        cpu: most(&|r| r.cpu_us_per_request),
        memory: most(&|r| r.memory_peak_bytes),
        startup: most(&|r| r.startup_ms),
    };
    let reference = crate::overview::at_reference(rows, "at ");
    let (p50, p99) = (format!("#p50{reference}"), format!("#p99{reference}"));
    let where_at = crate::overview::reference_in_words(rows);
    let head = [
        "Subject",
        "#Peak requests/s",
        "#Tie group",
        &p50,
        &p99,
        "#CPU per request",
        "#Memory",
        "#Start-up",
        "#Errors",
        "Checks",
        "Limited by",
    ];
    let cells: Vec<Vec<Cell>> = rows.iter().map(|r| overview_row(report, r, &maxima)).collect();
    let note = format!(
        "<p class=\"note\">Peak: the best median over the steps, below it the range of the repeats. Response times and CPU {where_at}. Subjects of one tie group cannot be told apart. Hover a number for its ratio to the reference; click a column to sort.</p>\n"
    );
    table("sortable overview", &head, &cells) + &note
}

struct Maxima {
    rps: f64,
    p99: f64,
    cpu: f64,
    memory: f64,
    startup: f64,
}

fn overview_row(report: &Report, r: &OverviewRow, max: &Maxima) -> Vec<Cell> {
    // Of the same workload: another one may ask for something else.
    let baseline = report.overview.iter().find(|b| b.baseline && b.workload == r.workload);
    let ratio = |own: Option<f64>, pick: &dyn Fn(&OverviewRow) -> Option<f64>| {
        let (own, base) = (own?, baseline.and_then(pick)?);
        (!r.baseline)
            .then(|| format!("{} × {}", number(own / base), baseline.map_or("", |b| b.title.as_str())))
    };
    let peak = |r: &OverviewRow| r.peak_rps.as_ref().and_then(|p| p.median);
    let mut name = format!("{}{}", swatch(report, &r.subject), escape(&r.title));
    if r.control {
        name.push_str(" <span class=\"tag\">control</span>");
    }
    if r.baseline {
        name.push_str(" <span class=\"tag\">reference</span>");
    }
    let _ = write!(name, "<small>{}</small>", escape(&r.language));
    let streams = r.peak_streams.filter(|n| *n > 1).map_or(String::new(), |n| format!(" × {n} streams"));
    let at = r.peak_connections.map(|c| format!("at {}{streams}", plural(u64::from(c), "connection")));
    let peak_hint = [ratio(peak(r), &peak), at].into_iter().flatten().collect::<Vec<_>>().join(", ");
    vec![
        Cell { html: name, ..Cell::default() },
        peak_cell(r).with_bar(max.rps).with_hint(Some(peak_hint).filter(|h| !h.is_empty())),
        value(r.tie_group.map(|g| g as f64), |g| format!("{g}")),
        value(r.response_p50_us, micros).with_hint(ratio(r.response_p50_us, &|r| r.response_p50_us)),
        value(r.response_p99_us, micros)
            .with_bar(max.p99)
            .with_hint(ratio(r.response_p99_us, &|r| r.response_p99_us)),
        value(r.cpu_us_per_request, micros)
            .with_bar(max.cpu)
            .with_hint(ratio(r.cpu_us_per_request, &|r| r.cpu_us_per_request)),
        value(r.memory_peak_bytes, bytes)
            .with_bar(max.memory)
            .with_hint(ratio(r.memory_peak_bytes, &|r| r.memory_peak_bytes)),
        value(r.startup_ms, |ms| micros(ms * 1e3))
            .with_bar(max.startup)
            .with_hint(ratio(r.startup_ms, &|r| r.startup_ms)),
        value(Some(r.errors as f64), |n| count(n as u64)),
        Cell {
            html: format!("{}/{}", r.checks_passed, r.checks),
            hint: None,
            key: Some(r.checks_passed as f64),
            bar: None,
        },
        limited(r),
    ]
}

fn peak_cell(r: &OverviewRow) -> Cell {
    let Some(peak) = &r.peak_rps else { return text("–") };
    let mut cell = value(peak.median, number);
    let _ = write!(cell.html, "<small>{}</small>", spread(peak, number));
    cell
}

/// Caveats as marks beside a number: each leads to what it means, and tells its evidence on hover.
fn marks(caveats: &[StepCaveat]) -> String {
    caveats
        .iter()
        .map(|c| {
            format!(
                "<a class=\"mark {}\" href=\"#caveat-{}\" title=\"{}\">{}</a> ",
                severity(c.severity),
                c.code,
                escape(&c.message),
                c.code.replace('_', " ")
            )
        })
        .collect()
}

fn limited(r: &OverviewRow) -> Cell {
    let mut cell = limiter_cell(r);
    if !r.caveats.is_empty() {
        let _ = write!(cell.html, "<small>{}</small>", marks(&r.caveats));
    }
    cell
}

fn limiter_cell(r: &OverviewRow) -> Cell {
    match (&r.absent, r.limiter) {
        (Some(why), _) => {
            Cell { html: format!("<span class=\"bad\">{}</span>", escape(why)), ..Cell::default() }
        }
        (None, Some(limiter)) => {
            Cell { html: escape(&resource(limiter)), hint: r.limiter_sentence.clone(), ..Cell::default() }
        }
        (None, None) => text("–"),
    }
}

fn resource(resource: dyno_analysis::limiter::Resource) -> String {
    use dyno_analysis::limiter::Resource as R;
    match resource {
        R::Failure => "failure",
        R::Generator => "the generator",
        R::CpuQuota => "its CPU quota",
        R::ServerCpu => "its CPU",
        R::ServerThread => "one of its threads",
        R::OfferedRate => "the offered rate",
        R::Concurrency => "few in flight",
        R::Unknown => "unknown",
    }
    .into()
}

/// A place for a chart, with its table one click away.
fn figure(chart: &str, caption: &str, note: &str, table: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!("<p class=\"note\">{note}</p>\n") };
    format!(
        "<figure data-chart=\"{chart}\">\n<figcaption>{caption}</figcaption>\n<div class=\"tools\"></div>\n<div class=\"plot\"></div>\n{note}<details><summary>Table</summary>\n{table}</details>\n</figure>\n"
    )
}

fn step_table(report: &Report, columns: &[(&str, &dyn Fn(&Summary) -> Cell)]) -> String {
    let mut head = vec!["Subject", "Workload", "#Connections", "#Streams", "#Pipeline", "#Rate"];
    head.extend(columns.iter().map(|(name, _)| *name));
    let rows: Vec<Vec<Cell>> = report
        .summaries
        .iter()
        .map(|s| {
            let mut row = vec![
                text(&s.subject),
                text(&s.workload),
                value(Some(f64::from(s.connections)), |c| format!("{c}")),
                value(Some(f64::from(s.streams)), |c| format!("{c}")),
                value(Some(f64::from(s.pipeline)), |c| format!("{c}")),
                value(s.rate, number),
            ];
            row.extend(columns.iter().map(|(_, cell)| cell(s)));
            row
        })
        .collect();
    table("sortable", &head, &rows)
}

fn repeats_of(q: &Repeated, show: impl Fn(f64) -> String) -> Cell {
    text(q.values.iter().map(|v| show(*v)).collect::<Vec<_>>().join("  "))
}

fn valid(s: &Summary) -> Cell {
    text(format!("{} of {}", s.trials - s.invalid, s.trials))
}

fn under_load(report: &Report) -> String {
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
                  step: ● its CPU, ▲ too few requests in flight, ■ the generator, ◆ anything else. Steps that are not valid are \
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

fn response(report: &Report) -> String {
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

fn times_row(t: &TrialResult) -> Vec<Cell> {
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

fn cost(report: &Report) -> String {
    let cpu = step_table(
        report,
        &[
            ("#CPU per request", &|s| value(s.cpu_us_per_request.median, micros)),
            ("#Each repeat", &|s| repeats_of(&s.cpu_us_per_request, micros)),
            ("#Context switches per request", &|s| value(s.context_switches_per_request.median, number)),
        ],
    );
    let memory = step_table(
        report,
        &[
            ("#Memory", &|s| value(s.memory_bytes.median, bytes)),
            ("#Each repeat", &|s| repeats_of(&s.memory_bytes, bytes)),
            ("#Memory·time per request", &|s| {
                value(s.memory_mb_s_per_request.median, |m| format!("{} kB·s", number(m * 1e3)))
            }),
        ],
    );
    let memory_note = "Anonymous memory of the control group where there is one, resident memory otherwise; page cache is left out.";
    figure("cpu", "Server CPU per request", "", &cpu)
        + &price(report)
        + &figure(
            "split",
            "User and system CPU per request",
            "At the reference step, median of the repeats. The kernel's tick samples the split.",
            &cpu,
        )
        + &figure("memory", "Memory", memory_note, &memory)
}

/// What the CPU time of a billion requests costs, where the suite says what CPU time costs.
fn price(report: &Report) -> String {
    let Some(cost) = report.run.cost else { return String::new() };
    let rows: Vec<Vec<Cell>> = report
        .overview
        .iter()
        .map(|r| {
            vec![
                text(&r.title),
                value(r.cpu_us_per_request, micros),
                value(r.cost_per_billion_requests, number),
            ]
        })
        .collect();
    let note =
        format!("<p class=\"note\">At {} per vCPU and hour, every CPU fully used.</p>\n", cost.per_vcpu_hour);
    "<h3>Cost of a billion requests</h3>\n".to_string()
        + &table("sortable", &["Subject", "#CPU per request", "#Cost"], &rows)
        + &note
}

fn why(report: &Report) -> String {
    let mut out = String::from("<div class=\"cards\">\n");
    for subject in &report.subjects {
        let steps: Vec<&Summary> = report.summaries.iter().filter(|s| s.subject == subject.id).collect();
        if !steps.is_empty() {
            out.push_str(&card(report, subject, &steps));
        }
    }
    out + "</div>\n"
}

fn card(report: &Report, subject: &SubjectResult, steps: &[&Summary]) -> String {
    let strip: String = steps
        .iter()
        .map(|s| {
            let resource_name = serde_json::to_value(s.limiter).ok();
            let class = resource_name.as_ref().and_then(|v| v.as_str()).unwrap_or("unknown").to_string();
            format!(
                "<li class=\"{class}\" title=\"{}\"><b>{}</b> {}</li>",
                escape(&s.limiter_sentence),
                escape(&step_label(report, s)),
                escape(&resource(s.limiter))
            )
        })
        .collect();
    let busiest = steps.iter().max_by(|a, b| {
        a.throughput_rps.median.unwrap_or(0.0).total_cmp(&b.throughput_rps.median.unwrap_or(0.0))
    });
    let why = busiest.map_or(String::new(), |s| {
        let sentence = format!(
            "{}: {}",
            step_in_words(report, &s.workload, [s.connections, s.streams, s.pipeline]),
            s.limiter_sentence
        );
        format!("<p>At {}</p>\n{}", escape(&sentence), counters(report, s))
    });
    format!(
        "<article class=\"card\"><h3>{}{}</h3>\n<ol class=\"strip\">{strip}</ol>\n{why}</article>\n",
        swatch(report, &subject.id),
        escape(&subject.title)
    )
}

/// `64`, or as much of `h2 64 × 10 × 4` (workload, connections, streams, pipeline) as differs from one.
fn step_label(report: &Report, s: &Summary) -> String {
    let workload = if report.run.workloads.len() > 1 { format!("{} ", s.workload) } else { String::new() };
    let times = |n: u32| if n > 1 { format!(" × {n}") } else { String::new() };
    format!("{workload}{}{}{}", s.connections, times(s.streams), times(s.pipeline))
}

/// `64 connections`, or `64 connections × 10 streams of h2`.
fn step_in_words(report: &Report, workload: &str, [connections, streams, pipeline]: [u32; 3]) -> String {
    let streams = if streams > 1 { format!(" × {streams} streams") } else { String::new() };
    let pipeline = if pipeline > 1 { format!(" × {pipeline} pipelined") } else { String::new() };
    let workload = if report.run.workloads.len() > 1 { format!(" of {workload}") } else { String::new() };
    format!("{}{streams}{pipeline}{workload}", plural(u64::from(connections), "connection"))
}

/// Counters per response at the busiest step, beside the reference's at the same step of the same workload.
fn counters(report: &Report, busiest: &Summary) -> String {
    let of = |id: &str| -> Vec<&TrialResult> {
        let is_of = |t: &&TrialResult| {
            t.subject_id == id && t.workload == busiest.workload && t.step.index == busiest.step
        };
        report.trials.iter().filter(is_of).collect()
    };
    let own = of(&busiest.subject);
    let is_baseline =
        |r: &&OverviewRow| r.baseline && r.workload == busiest.workload && r.subject != busiest.subject;
    let baseline = report.overview.iter().find(is_baseline);
    let base = baseline.map(|r| of(&r.subject)).unwrap_or_default();
    let median = |trials: &[&TrialResult], pick: &dyn Fn(&TrialResult) -> Option<f64>| {
        dyno_analysis::stats::median(&trials.iter().filter_map(|t| pick(t)).collect::<Vec<_>>())
    };
    let answers = |t: &TrialResult| Some(t.load.throughput_rps * t.server.window_s).filter(|n| *n > 0.0);
    type Pick<'a> = &'a dyn Fn(&TrialResult) -> Option<f64>;
    let lines: [(&str, Pick<'_>, fn(f64) -> String); 8] = [
        ("user CPU", &|t| Some(t.server.cpu_user_s? * 1e6 / answers(t)?), micros),
        ("system CPU", &|t| Some(t.server.cpu_sys_s? * 1e6 / answers(t)?), micros),
        ("context switches", &|t| t.server.per_request.context_switches, number),
        ("waiting for a CPU", &|t| t.server.per_request.run_delay_us, micros),
        ("bytes received", &|t| Some(t.load.bytes.received as f64 / answers(t)?), bytes),
        ("segments received", &|t| t.load.tcp.data_segments_per_response, number),
        ("busiest thread", &|t| t.server.busiest_thread_utilisation, percent),
        ("threads", &|t| t.server.threads.map(|n| n as f64), |n| format!("{n:.0}")),
    ];
    let rows: Vec<Vec<Cell>> = lines
        .iter()
        .map(|(name, pick, show)| {
            let (a, b) = (median(&own, pick), median(&base, pick));
            vec![
                text(name),
                value(a, *show),
                value(b, *show),
                value(a.zip(b).map(|(a, b)| a / b).filter(|r| r.is_finite()), |r| format!("× {}", number(r))),
            ]
        })
        .collect();
    if baseline.is_none() {
        let own_only = rows.into_iter().map(|row| row.into_iter().take(2).collect()).collect::<Vec<_>>();
        return table("counters", &["Per response", "#Here"], &own_only);
    }
    let beside = baseline.map_or("#Reference".to_string(), |r| format!("#{}", escape(&r.title)));
    table("counters", &["Per response", "#Here", &beside, "#Ratio"], &rows)
}

fn life(report: &Report) -> String {
    let ms = |v: f64| micros(v * 1e3);
    let rows: Vec<Vec<Cell>> = report
        .subjects
        .iter()
        .map(|s| {
            let build = s.build.as_ref();
            vec![
                Cell { html: format!("{}{}", swatch(report, &s.id), escape(&s.title)), ..Cell::default() },
                text(s.version.as_deref().unwrap_or("–")),
                value(s.startup_ms.listening.median, ms),
                value(s.startup_ms.first_answer.median, ms),
                repeats_of(&s.startup_ms.first_answer, ms),
                value(s.startup_ms.cpu.median, ms),
                value(s.stop_ms.median, ms),
                value(Some(s.stop_killed as f64), |n| format!("{n}")),
                value(build.map(|b| b.wall_s), |x| micros(x * 1e6)),
                value(build.and_then(|b| b.cpu_s), |x| micros(x * 1e6)),
                value(build.map(|b| b.artefact_bytes as f64), bytes),
            ]
        })
        .collect();
    let startup = table(
        "sortable",
        &[
            "Subject",
            "Version",
            "#Listening",
            "#First right answer",
            "#Each repeat",
            "#CPU by then",
            "#Stop",
            "#Killed",
            "#Build",
            "#Build CPU",
            "#Artefacts",
        ],
        &rows,
    );
    figure(
        "startup",
        "Start-up",
        "From exec to the first right answer: a bar for the median, a dot per repeat.",
        &startup,
    ) + "<h3>Checks</h3>\n"
        + &checks(report)
        + &failures(report)
}

fn checks(report: &Report) -> String {
    let names: Vec<&str> = report
        .subjects
        .iter()
        .max_by_key(|s| s.checks.len())
        .map(|s| s.checks.iter().map(|c| c.name.as_str()).collect())
        .unwrap_or_default();
    let mut head = vec!["Subject"];
    head.extend(&names);
    let rows: Vec<Vec<Cell>> = report
        .subjects
        .iter()
        .map(|s| {
            let name = format!("{}{}", swatch(report, &s.id), escape(&s.title));
            let mut row = vec![Cell { html: name, ..Cell::default() }];
            row.extend(names.iter().map(|n| check_cell(s, n)));
            row
        })
        .collect();
    let failed: String = report
        .subjects
        .iter()
        .flat_map(|s| s.checks.iter().filter(|c| !c.ok).map(move |c| (s, c)))
        .map(|(s, c)| {
            format!("<h4>{}: {}</h4>\n<pre>{}</pre>\n", escape(&s.title), escape(&c.name), escape(&c.detail))
        })
        .collect();
    let note = "<p class=\"note\">Each check ran before the load, in turn while it ran, and after the last step. Hover for what was seen.</p>\n";
    table("checks", &head, &rows) + note + &failed
}

fn check_cell(subject: &SubjectResult, name: &str) -> Cell {
    match subject.checks.iter().find(|c| c.name == name) {
        None => text("–"),
        Some(c) => Cell {
            html: format!(
                "<span class=\"{}\">{} {}/{}</span>",
                if c.ok { "good" } else { "bad" },
                if c.ok { "✓" } else { "✗" },
                c.passed,
                c.passed + c.failed
            ),
            hint: Some(c.detail.clone()),
            ..Cell::default()
        },
    }
}

fn failures(report: &Report) -> String {
    let mut out = String::new();
    for s in &report.subjects {
        if let Some(why) = &s.skipped {
            let _ = writeln!(out, "<p><b>{}</b> was skipped: {}</p>", escape(&s.title), escape(why));
        }
        for f in &s.failures {
            let _ = writeln!(
                out,
                "<p class=\"bad\"><b>{}</b>, repeat {}: {}: {}</p>",
                escape(&s.title),
                f.repeat,
                f.failure.kind.name(),
                escape(&f.failure.message)
            );
            if let Some(log) = &f.log_tail {
                let _ = writeln!(out, "<pre>{}</pre>", escape(log));
            }
        }
    }
    if out.is_empty() { out } else { format!("<h3>Failures</h3>\n{out}") }
}

fn explorer(report: &Report) -> String {
    let options: String = report
        .trials
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let mark = if t.valid { "" } else { " (not valid)" };
            let shape = [t.step.connections, t.step.streams, t.step.pipeline];
            format!(
                "<option value=\"{i}\">{} · {} · repeat {}{mark}</option>",
                escape(&t.subject_id),
                escape(&step_in_words(report, &t.workload, shape)),
                t.repeat
            )
        })
        .collect();
    let rows: Vec<Vec<Cell>> = report.trials.iter().map(trial_row).collect();
    let all = table(
        "sortable",
        &[
            "Subject",
            "#Connections",
            "#Repeat",
            "#Requests/s",
            "#Scheduled",
            "#Completed",
            "#Failed",
            "Valid",
            "Limited by",
            "Caveats",
        ],
        &rows,
    );
    format!(
        "<p><label>Trial <select id=\"trial\">{options}</select></label></p>\n<div id=\"trial-caveats\"></div>\n{}",
        figure("explorer", "One trial over time", "Warm-up is shaded. Drag the slider to zoom.", &all)
    )
}

fn trial_row(t: &TrialResult) -> Vec<Cell> {
    let codes: Vec<&str> = t.caveats.iter().filter(|c| c.severity > Severity::Info).map(|c| c.code).collect();
    let e = &t.load.exchanges;
    let n = |x: u64| value(Some(x as f64), |n| count(n as u64));
    vec![
        text(&t.subject_id),
        n(u64::from(t.step.connections)),
        n(u64::from(t.repeat)),
        value(Some(t.load.throughput_rps), number),
        n(e.scheduled),
        n(e.completed),
        n(e.failed),
        text(if t.valid { "yes" } else { "no" }),
        text(&t.limiter.sentence),
        text(codes.join(" ").replace('_', " ")),
    ]
}

fn method(report: &Report) -> String {
    let run = &report.run;
    let facts = &run.facts;
    let known = |t: &Option<String>| t.clone().unwrap_or_else(|| "not known here".into());
    let us = |ns: u64| micros(ns as f64 / 1e3);
    let cpus = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let rows: Vec<(&str, String)> = vec![
        ("CPU", format!("{} × {}", facts.cpus, known(&facts.cpu_model))),
        ("Memory", or_dash(facts.memory_bytes, |b| bytes(b as f64))),
        ("Kernel", known(&facts.kernel)),
        ("System", known(&facts.os)),
        ("Virtualisation", known(&facts.virtualisation)),
        ("Governor", known(&facts.governor)),
        ("Clock source", known(&facts.clock_source)),
        ("Control groups", facts.cgroup.clone()),
        ("Open files", or_dash(facts.open_files_limit, count)),
        ("dyno", format!("{} {}", facts.dyno_version, facts.dyno_commit.clone().unwrap_or_default())),
        (
            "Placement",
            format!(
                "subjects on CPU {}, generator on CPU {}",
                cpus(&run.placement.subject),
                cpus(&run.placement.generator)
            ),
        ),
        ("Generator", format!("{} thread(s) over {}", run.load.threads, run.load.driver)),
        (
            "Each trial",
            format!(
                "{} warm-up, {} measured, intervals of {}",
                us(run.load.warmup_ns),
                us(run.load.duration_ns),
                us(run.load.interval_ns)
            ),
        ),
        ("Seed", run.seed.to_string()),
    ];
    let machine = table(
        "facts",
        &["What", "Value"],
        &rows.into_iter().map(|(k, v)| vec![text(k), text(v)]).collect::<Vec<_>>(),
    );
    let sysctls: Vec<Vec<Cell>> = facts.sysctls.iter().map(|(k, v)| vec![text(k), text(v)]).collect();
    let blocks: String = run.order.iter().map(|b| format!("<li>{}</li>", escape(&b.join(" → ")))).collect();
    let missing: String = facts
        .missing
        .iter()
        .map(|m| format!("<li><b>{}</b>: {}. {}</li>", escape(&m.what), escape(&m.why), escape(&m.mend)))
        .collect();
    format!(
        "<h3>Machine and plan</h3>\n{machine}{}<h3>Order of blocks</h3>\n<ol>{blocks}</ol>\n{}<h3>What could not be measured here</h3>\n<ul>{missing}</ul>\n{}<h3>What each caveat means</h3>\n{}<h3>Run it again</h3>\n<pre>{}</pre>\n<details><summary>The suite file</summary><pre>{}</pre></details>\n<p class=\"downloads\"></p>\n",
        table("facts", &["Kernel setting", "Value"], &sysctls),
        limits(report),
        probe(report),
        glossary(),
        escape(&run.command.join(" ")),
        escape(&run.suite_source)
    )
}

fn limits(report: &Report) -> String {
    let rows: Vec<Vec<Cell>> = report
        .subjects
        .iter()
        .flat_map(|s| {
            s.limits.iter().map(|l| {
                vec![
                    text(&s.title),
                    text(&l.name),
                    text(&l.asked),
                    text(
                        l.read_back
                            .clone()
                            .unwrap_or_else(|| format!("not set: {}", l.reason.clone().unwrap_or_default())),
                    ),
                ]
            })
        })
        .collect();
    let rows = table("facts", &["Subject", "Limit", "Asked", "Read back from the kernel"], &rows);
    format!("<h3>Limits</h3>\n{rows}")
}

/// What looking cost.
fn probe(report: &Report) -> String {
    let costs: Vec<f64> =
        report.trials.iter().filter_map(|t| Some(t.server.probe_s? / t.server.window_s)).collect();
    match dyno_analysis::stats::median(&costs) {
        Some(share) => format!(
            "<p>Reading the counters took {} of the measured time (median over the trials), on the generator's CPU.</p>\n",
            percent(share)
        ),
        None => String::new(),
    }
}

fn glossary() -> String {
    let items: String = dyno_analysis::caveat::GLOSSARY
        .iter()
        .map(|(code, meaning)| {
            format!("<dt id=\"caveat-{code}\">{}</dt><dd>{}</dd>", code.replace('_', " "), escape(meaning))
        })
        .collect();
    format!("<dl class=\"glossary\">{items}</dl>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_viewer_can_stand_inside_the_page() {
        assert!(VIEWER_JS.len() > 100_000, "the viewer is missing: run `npm run build` in web/");
        for forbidden in ["</script", "<!--"] {
            assert!(!VIEWER_JS.contains(forbidden));
        }
        assert!(!VIEWER_CSS.contains("</style"));
    }
}

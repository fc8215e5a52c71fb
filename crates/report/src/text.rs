//! Reports for a terminal: aligned, no noise, colours only where asked for.

use std::fmt::Write as _;

use dyno_analysis::load::place::PercentilePlace;
use dyno_analysis::load::{
    ContinuesResult, GapsResult, Http2Result, LoadConfig, PageSummary, Percentiles, RequestResult,
};
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::report::Report;
use dyno_analysis::subject::{SubjectFailure, SubjectResult};
use dyno_analysis::trial::TrialResult;
use dyno_analysis::{Caveat, LoadResult, Severity};
use dyno_archive::Outcome;
use dyno_archive::load::{Timeouts, TlsUse};
use dyno_archive::plan::Arrival;

use crate::format::{
    BEYOND, TOO_FEW, bytes, count, micros, number, or_dash, percent, plural, seconds, wait,
    wait_of_page,
};
use crate::terminal::{self, escape_controls};
use crate::{answer, overview};

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Colour,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Style::Plain => text.to_string(),
            Style::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }

    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn paint_severity(self, severity: Severity, text: &str) -> String {
        match severity {
            Severity::Info => self.dim(text),
            Severity::Warning => self.paint("33", text),
            Severity::Invalid => self.paint("31;1", text),
        }
    }
}

/// Requests of a mix that a terminal shows.
const REQUESTS_SHOWN: usize = 20;

/// Requests of a page that a terminal shows: few, because the page as a whole counts.
const RESOURCES_SHOWN: usize = 3;

/// Lines of a subject's log that a terminal shows.
const LOG_LINES: usize = 5;

/// The result that `dyno load` prints at its end.
#[must_use]
pub fn load(result: &LoadResult, style: Style) -> String {
    let mut out = String::new();
    let name = |name: &str| style.dim(&format!("{name:<10}"));
    let _ = writeln!(out, "  {}{}", name("valid"), verdict(result, style));
    let mut line = |of: &str, text: String| {
        let _ = writeln!(out, "  {}{}", name(of), terminal::line(&text));
    };
    line("rate", rate_line(result));
    line("response", spread(&result.response_time_us, &RESPONSE_SHOWN, wait));
    let service = spread(&result.service_time_us, &SERVICE_SHOWN, wait);
    line(
        "service",
        format!("{service}      send lag p99 {}", or_dash(result.send_lag_us.p99, micros)),
    );
    if let Some(words) = footnote(result) {
        line("", words);
    }
    if let Some(gaps) = &result.gaps {
        line("gaps", gaps_line(gaps, result));
    }
    if let Some(pages) = &result.pages {
        line("pages", pages_line(pages));
    }
    line("wire", wire(result));
    if let Some(tls) = &result.tls {
        line("tls", tls_line(tls, result));
    }
    if let Some(http2) = &result.http2 {
        line("http2", http2_line(http2));
    }
    line("client", client(result));
    let shown = if result.pages.is_some() { RESOURCES_SHOWN } else { REQUESTS_SHOWN };
    for request in result.requests.iter().take(shown) {
        line("", request_line(request));
    }
    if result.requests.len() > shown {
        let more = result.requests.len() - shown;
        line("", format!("and {more} more requests (`--format json` has all)"));
    }
    if failed_count(result) > 0 {
        line("errors", errors(result));
    }
    if let Some(continues) = &result.continues {
        line("continue", continue_line(continues));
    }
    out.push('\n');
    put_caveats(result, style, &mut out);
    format!("{}{}", title(result, style), out.trim_end_matches('\n')) + "\n"
}

/// The first line: URL and shape of the load; then an empty line.
fn title(result: &LoadResult, style: Style) -> String {
    let shape = shape(&result.config, Some((result.duration_s, result.client.threads)));
    let mut url = terminal::line(&result.config.url);
    // A URL with an address says it already.
    let address =
        result.address.as_ref().filter(|address| !result.config.url.contains(address.as_str()));
    if let Some(address) = address {
        url.push_str(&format!(" at {}", terminal::line(address)));
    }
    format!("  {}  {url}      {}\n\n", style.bold("dyno load"), style.dim(&shape))
}

/// Caveats: warnings and worse first, then notes (severity `info`).
fn put_caveats(result: &LoadResult, style: Style, out: &mut String) {
    let (notes, warnings): (Vec<_>, Vec<_>) =
        result.caveats.iter().partition(|c| c.severity == Severity::Info);
    for caveat in warnings {
        let _ = writeln!(
            out,
            "  {} {}",
            style.paint_severity(caveat.severity, "!"),
            wrap(&caveat.message, 96, "    ")
        );
    }
    for caveat in notes {
        let _ = writeln!(out, "  {} {}", style.dim("·"), wrap(&caveat.message, 96, "    "));
    }
}

/// Requests that ended without a correct response.
fn failed_count(result: &LoadResult) -> u64 {
    let started = result.exchanges.started;
    started - result.outcomes.get(Outcome::Ok).min(started) - result.exchanges.in_flight_at_end
}

fn rate_line(result: &LoadResult) -> String {
    let rate = format!("{} requests/s", count(result.throughput_rps.round() as u64));
    let ok = count(result.outcomes.get(Outcome::Ok));
    format!("{rate:<28}{ok} ok      {} failed", count(failed_count(result)))
}

fn gaps_line(gaps: &GapsResult, result: &LoadResult) -> String {
    format!(
        "coefficient of variation {}, intended {}      wake lag p99 {}      loop lag p99 {}",
        or_dash(gaps.achieved_cv, |cv| format!("{cv:.2}")),
        or_dash(gaps.intended_cv, |cv| format!("{cv:.2}")),
        or_dash(result.client.wake_lag_us.p99, micros),
        or_dash(result.client.loop_lag_us.p99, micros)
    )
}

fn verdict(result: &LoadResult, style: Style) -> String {
    let warnings = result.caveats.iter().filter(|c| c.severity == Severity::Warning).count();
    match (result.valid, warnings) {
        (false, _) => style.paint_severity(Severity::Invalid, "no: do not use these numbers"),
        (true, 0) => "yes".into(),
        (true, 1) => "yes, with one warning".into(),
        (true, n) => format!("yes, with {n} warnings"),
    }
}

/// The load that was asked for, in one line. `ran`: its actual seconds and threads, once it is
/// over.
#[must_use]
pub fn shape(c: &LoadConfig, ran: Option<(f64, usize)>) -> String {
    let model = match (c.rate, c.arrival) {
        (Some(rate), Some(arrival)) => {
            format!("open loop {} requests/s, {}", number(rate), arrival.name())
        }
        (None, Some(Arrival::Trace)) => "open loop from a trace".into(),
        (None, Some(arrival)) => format!("open loop at a changing rate, {}", arrival.name()),
        _ => "closed loop".into(),
    };
    let pipeline =
        if c.pipeline > 1 { format!(" × {} pipelined", c.pipeline) } else { String::new() };
    let mix = match c.requests_mixed.len() {
        0 => String::new(),
        n if c.page_connections.is_some() => format!(" · pages of {n} requests"),
        n => format!(" · mix of {n} requests"),
    };
    let driver = c.driver.title();
    let tls = if c.protocol.is_tls() { " over TLS" } else { "" };
    let (length, threads) = match ran {
        Some((length, threads)) => (format!(" · {}", seconds(length)), threads),
        None => (String::new(), c.threads as usize),
    };
    let streams = if c.streams > 1 { format!(" × {} streams", c.streams) } else { String::new() };
    let who = if c.page_connections.is_some() { "visitor" } else { "connection" };
    format!(
        "{}{tls} · {}{streams}{pipeline}{mix} · {model}{length} · {driver} × {threads}",
        c.protocol.base_name(),
        plural(u64::from(c.connections), who)
    )
}

/// Percentiles that a terminal shows, by name.
const RESPONSE_SHOWN: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];
const SERVICE_SHOWN: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];
const PAGES_SHOWN: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];

/// The percentiles in one line. One entry stands for all from the first that lies among unanswered
/// requests. `wait`: a percentile in words.
fn spread(p: &Percentiles, of: &[(&str, f64)], wait: fn(&Percentiles, f64) -> String) -> String {
    let is_beyond = |q: f64| matches!(p.place(q), PercentilePlace::Beyond(_));
    let first_beyond = of.iter().position(|(_, q)| is_beyond(*q)).unwrap_or(of.len());
    let shown = of.iter().take(first_beyond).map(|(name, q)| format!("{name} {}", wait(p, *q)));
    let beyond = of.get(first_beyond).map(|(name, q)| {
        let more = if of.len() > first_beyond + 1 { " and above" } else { "" };
        format!("{name}{more} {}", wait(p, *q))
    });
    shown.chain(beyond).collect::<Vec<_>>().join("   ")
}

/// Note below the percentiles: how many requests were unanswered, or what `–` means; `None` if
/// neither occurs.
fn footnote(result: &LoadResult) -> Option<String> {
    let p = &result.response_time_us;
    let is_missing = |q: f64| p.place(q) == PercentilePlace::TooFew;
    if p.unanswered > 0 {
        return Some(format!(
            "percentiles: {} of {} due requests got no correct response and count as the slowest",
            count(p.unanswered),
            count(p.due())
        ));
    }
    (p.due() > 0 && RESPONSE_SHOWN.iter().any(|(_, q)| is_missing(*q))).then(|| TOO_FEW.into())
}

fn wire(result: &LoadResult) -> String {
    format!(
        "{} in per response   {} segments per response   {} retransmits",
        or_dash(result.bytes.per_response(result.bytes.received), bytes),
        or_dash(result.tcp.data_segments_per_response, |s| format!("{s:.2}")),
        or_dash(result.tcp.retransmits, count)
    )
}

fn client(result: &LoadResult) -> String {
    let c = &result.client;
    let spun = match c.spun_share {
        Some(share) if share > 0.0 => {
            format!(", {} of it polling for exact timing", percent(share))
        }
        _ => String::new(),
    };
    format!(
        "{} CPU per request   {} of one thread{spun}   {}",
        or_dash(c.cpu_us_per_exchange, micros),
        percent(c.busiest_thread_utilisation),
        or_dash(c.rss_peak_bytes, |b| bytes(b as f64))
    )
}

fn tls_line(tls: &TlsUse, result: &LoadResult) -> String {
    let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".into());
    format!(
        "{} {}   ALPN {}   {} full and {} resumed handshakes, p50 {}",
        word(&tls.version),
        word(&tls.cipher_suite),
        word(&tls.alpn),
        count(tls.handshakes_full),
        count(tls.handshakes_resumed),
        or_dash(result.tls_handshake_us.p50, micros)
    )
}

fn pages_line(p: &PageSummary) -> String {
    format!(
        "{} pages/s   {}   {} complete, {} failed, {} unfinished   {} each, over {}",
        number(p.per_second),
        spread(&p.time_us, &PAGES_SHOWN, wait_of_page),
        count(p.completed),
        count(p.failed),
        count(p.unfinished),
        plural(p.resources as u64, "resource"),
        plural(u64::from(p.connections_each), "connection")
    )
}

/// HTTP/2: streams, the frames of a response, and what went wrong.
fn http2_line(h: &Http2Result) -> String {
    // Without a connection of HTTP/2 no server has announced anything.
    let granted = match (h.connections, h.streams.granted) {
        (0, _) => String::new(),
        (_, None) => " (any number allowed)".into(),
        (_, Some(n)) => format!(" ({} allowed)", count(u64::from(n))),
    };
    let frames: Vec<String> =
        h.frames_per_response.iter().filter(|(_, n)| **n >= 0.005).map(frame_share).collect();
    let stalls = match h.window_stall_us.count {
        0 => String::new(),
        n => {
            format!("   {} window stalls, p50 {}", count(n), or_dash(h.window_stall_us.p50, micros))
        }
    };
    format!(
        "{} streams at most{granted}   {} per response   {} frames per segment   HPACK saves {}   \
         {} resets   {} GOAWAY{stalls}",
        count(h.streams.most),
        if frames.is_empty() { "–".into() } else { frames.join(" ") },
        or_dash(h.frames_per_segment, |n| format!("{n:.2}")),
        or_dash(h.header_fields_in.saved, percent),
        count(h.resets_in_total()),
        count(h.goaways_total())
    )
}

fn frame_share((kind, n): (&String, &f64)) -> String {
    format!("{n:.2} {kind}")
}

fn request_line(request: &RequestResult) -> String {
    let bad: Vec<String> = request
        .outcomes
        .not_ok()
        .map(|(outcome, n)| format!("   {} {}", count(n), outcome.name()))
        .collect();
    format!(
        "{:<28} {:>9} requests/s   p50 {}   p99 {}{}",
        request.name,
        count(request.throughput_rps.round() as u64),
        wait(&request.response_time_us, 0.5),
        wait(&request.response_time_us, 0.99),
        bad.concat()
    )
}

fn errors(result: &LoadResult) -> String {
    let shown: Vec<String> = result
        .outcomes
        .not_ok()
        .map(|(outcome, n)| format!("{} {}", count(n), outcome.name()))
        .collect();
    let tls = result.tls.iter().flat_map(|tls| &tls.errors);
    let kinds = result.protocol_errors.iter().chain(&result.unexpected).chain(tls);
    let mut kinds: Vec<String> = kinds.map(|(k, n)| format!("{} × {k}", count(*n))).collect();
    kinds.extend(result.timeouts.iter().flat_map(timeout_kinds));
    if kinds.is_empty() {
        shown.join("   ")
    } else {
        format!("{}   ({})", shown.join("   "), kinds.join("; "))
    }
}

/// How requests that expected 100 (Continue) got on.
fn continue_line(c: &ContinuesResult) -> String {
    let mut line = format!(
        "{} of {} bodies sent after 100   wait p50 {}   p99 {}",
        count(c.continued),
        count(c.asked),
        wait(&c.wait_us, 0.5),
        wait(&c.wait_us, 0.99)
    );
    if c.waited_in_vain > 0 {
        line.push_str(&format!("   {} sent after 1 s without 100", count(c.waited_in_vain)));
    }
    if c.answered_instead > 0 {
        let answered = count(c.answered_instead);
        line.push_str(&format!(
            "   {answered} not sent: final response first ({} × 417)",
            count(c.refused)
        ));
    }
    line
}

/// How far the responses had come that timed out: a phrase of each class that occurred.
fn timeout_kinds(timeouts: &Timeouts) -> Vec<String> {
    let example = match (timeouts.example_bytes, timeouts.example_length) {
        (Some(came), Some(length)) => format!(" (such as {came} of {length} bytes)"),
        (Some(came), None) => format!(" (such as {came} bytes)"),
        (None, _) => String::new(),
    };
    let (of_length, without) = match timeouts.example_length {
        Some(_) => (example.as_str(), ""),
        None => ("", example.as_str()),
    };
    let all = [
        (timeouts.unsent, "before the request was sent", ""),
        (timeouts.nothing, "with no byte of a response", ""),
        (timeouts.part_of_head, "within the response's head", ""),
        (timeouts.head, "after the head, before the body", ""),
        (timeouts.part_of_body, "within the body", of_length),
        (timeouts.body_without_length, "within a body of unknown length", without),
    ];
    let occurred = all.into_iter().filter(|(n, ..)| *n > 0);
    occurred.map(|(n, place, example)| format!("{} timed out {place}{example}", count(n))).collect()
}

/// Breaks a long line at spaces; later lines begin with `indent`. Control characters are made
/// visible.
#[must_use]
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let text = escape_controls(text);
    let mut out = String::new();
    let mut at = 0;
    for word in text.split(' ') {
        let len = word.chars().count();
        if at > 0 && at + 1 + len > width {
            out.push('\n');
            out.push_str(indent);
            at = 0;
        } else if at > 0 {
            out.push(' ');
            at += 1;
        }
        out.push_str(word);
        at += len;
    }
    out
}

/// One line for a trial that has ended; `shape` names its workload and step.
#[must_use]
pub fn trial_line(trial: &TrialResult, shape: &str, style: Style) -> String {
    let head =
        terminal::line(&format!("{:<22} repeat {}  {shape}", trial.subject_id, trial.repeat));
    let rate = format!("{:>9}/s", count(trial.load.throughput_rps.round() as u64));
    let p = &trial.load.response_time_us;
    let cpu = or_dash(trial.server.cpu_us_per_request, |us| format!("{} CPU", micros(us)));
    let times = format!("p50 {:>8}  p99 {:>8}  {cpu:>13}", wait(p, 0.5), wait(p, 0.99));
    let limit = overview::limiter_text(trial.limiter.resource, trial.limiter.confidence);
    let worst = trial.caveats.iter().find(|c| c.severity > Severity::Info);
    let doubt = worst.map_or(String::new(), |c| {
        format!("  {}", style.paint_severity(c.severity, c.code.name()))
    });
    format!("{head}  {rate}  {times}  {}{doubt}", style.dim(&format!("limit: {limit}")))
}

/// A whole report: the response, the overview, caveats of the run, failures.
#[must_use]
pub fn report(report: &Report, style: Style) -> String {
    let mut out = String::new();
    for sentence in answer::sentences(report) {
        let _ = writeln!(out, "{}", style.bold(&wrap(&sentence, 110, "")));
    }
    out.push('\n');
    out.push_str(&overview_table(report, style));
    for note in overview_notes(report) {
        let _ = writeln!(out, "{}", style.dim(&wrap(note, 110, "")));
    }
    out.push('\n');
    for caveat in &report.caveats {
        let _ = writeln!(out, "{}", caveat_line(caveat, style));
    }
    for subject in &report.subjects {
        subject
            .failures
            .iter()
            .for_each(|failure| out.push_str(&failure_lines(subject, failure, style)));
        if let Some(why) = &subject.skipped {
            let words = format!("{} was skipped: {why}", subject.title);
            let _ = writeln!(
                out,
                "{} {}",
                style.paint_severity(Severity::Warning, "–"),
                escape_controls(&words)
            );
        }
    }
    out
}

/// A failure, and the last lines of the subject's log.
fn failure_lines(subject: &SubjectResult, failure: &SubjectFailure, style: Style) -> String {
    let when =
        if failure.repeat > 0 { format!(" in repeat {}", failure.repeat) } else { String::new() };
    let kind = failure.failure.kind.name();
    let words = format!("{} {kind}{when}: {}", subject.title, failure.failure.message);
    let mut out =
        format!("{} {}\n", style.paint_severity(Severity::Invalid, "✗"), escape_controls(&words));
    let log: Vec<&str> = failure.log_tail.iter().flat_map(|tail| tail.lines()).collect();
    for line in log.iter().skip(log.len().saturating_sub(LOG_LINES)) {
        let _ = writeln!(out, "    {}", style.dim(&terminal::line(line)));
    }
    out
}

fn caveat_line(caveat: &Caveat, style: Style) -> String {
    let mark = if caveat.severity == Severity::Info {
        style.dim("·")
    } else {
        style.paint_severity(caveat.severity, "!")
    };
    format!("{mark} {}", wrap(&caveat.message, 108, "  "))
}

fn overview_table(report: &Report, style: Style) -> String {
    let rows = &report.overview;
    let columns = overview::COLUMNS.iter().map(|column| column.short);
    let head = ["subject"].into_iter().chain(columns).chain(["peak limited by"]).map(String::from);
    let mut table: Vec<Vec<String>> = vec![head.collect()];
    let has_several = rows.iter().any(|r| r.workload != rows[0].workload);
    table.extend(rows.iter().flat_map(|r| {
        let mut row = overview_cells(report, r);
        // A subject that was never loaded has one row for all workloads.
        let has_others = || rows.iter().filter(|other| other.subject == r.subject).count() > 1;
        if has_several && (r.highest_throughput().is_some() || has_others()) {
            row[0] = format!("{} · {}", row[0], r.workload);
        }
        let behind = r.backends.iter().map(|b| {
            let mut cells = overview::backend_cells(b);
            cells[0] = format!("  {}", cells[0]);
            cells.push(String::new());
            cells
        });
        std::iter::once(row).chain(behind).collect::<Vec<_>>()
    }));
    align(&table, style) + &style.dim(&wrap(&overview::notes(rows), 110, "")) + "\n"
}

/// Notes on the signs `>` and `–` in the columns of percentiles, if they occur.
fn overview_notes(report: &Report) -> Vec<&'static str> {
    let measured = report.overview.iter().filter(|r| r.highest_throughput().is_some());
    let waits: Vec<String> =
        measured.flat_map(|r| overview::waits_at_reference(report, r)).collect();
    let beyond = waits.iter().any(|w| w.contains("not ok"));
    let too_few = waits.iter().any(|w| w == "–");
    [(beyond, BEYOND), (too_few, TOO_FEW)]
        .into_iter()
        .filter_map(|(is_there, note)| is_there.then_some(note))
        .collect()
}

fn overview_cells(report: &Report, r: &OverviewRow) -> Vec<String> {
    let limiter = r.limiter.zip(r.limiter_confidence);
    let limiter =
        or_dash(limiter, |(limiter, confidence)| overview::limiter_text(limiter, confidence));
    let name = if r.control { format!("{} (control)", r.subject) } else { r.subject.clone() };
    let mut row = vec![name];
    row.extend(overview::COLUMNS.iter().map(|column| (column.cell)(report, r)));
    row.push(r.absent.as_ref().map_or(limiter, |why| why.chars().take(60).collect()));
    row
}

/// Pads columns to their widest cell. The first and the last are left-aligned, the others
/// right-aligned.
pub(crate) fn align(table: &[Vec<String>], style: Style) -> String {
    let table: Vec<Vec<String>> =
        table.iter().map(|row| row.iter().map(|cell| terminal::line(cell)).collect()).collect();
    let columns = table[0].len();
    let width = |c: usize| table.iter().map(|row| row[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for (i, row) in table.iter().enumerate() {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(c, cell)| {
                let pad = " ".repeat(widths[c] - cell.chars().count());
                if c == 0 || c == columns - 1 {
                    format!("{cell}{pad}")
                } else {
                    format!("{pad}{cell}")
                }
            })
            .collect();
        let line = cells.join("  ");
        let line = line.trim_end();
        let _ = writeln!(out, "{}", if i == 0 { style.dim(line) } else { line.to_string() });
    }
    out
}

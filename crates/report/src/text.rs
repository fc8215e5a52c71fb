//! Formats reports for a terminal as aligned text. Colours are optional, because the text may be
//! piped to a file.

use std::fmt::Write as _;

use dyno_analysis::load::percentile_value::PercentileValue;
use dyno_analysis::load::{
    ContinuesResult, GapsResult, GroupSummary, Http2Result, LoadConfig, PageSummary, Percentiles,
    RequestResult,
};
use dyno_analysis::report::Report;
use dyno_analysis::trial::TrialResult;
use dyno_analysis::{Caveat, Code, LoadResult, Severity};
use dyno_model::Outcome;
use dyno_model::load::{Timeouts, TlsUse};
use dyno_model::plan::Arrival;

use crate::format::{
    TOO_FEW, UNANSWERED_NOTE, bytes, count, micros, not_ok_texts, number, or_dash,
    page_percentile_text, percent, percentile_text, plural, protocol_name, rate, seconds, shorten,
};
use crate::output::Format;
use crate::overview::limiter_text;
use crate::present::block::Block;
use crate::present::style::Style;
use crate::present::table::{Head, ReportTable};
use crate::present::text::caveat_line;
use crate::sections::overview::{overview_table, table_note};
use crate::terminal;
use crate::{present, sections};

/// Maximum number of requests of a mix in the text.
const REQUESTS_SHOWN: usize = 20;

/// Maximum number of requests of a page in the text. The maximum is low, because readers look at
/// the page as a whole.
const RESOURCES_SHOWN: usize = 3;

/// Maximum width of a caveat of a load, in characters.
const CAVEAT_WIDTH: usize = 96;

/// Maximum length of the reason why a subject has no numbers in the overview, in characters.
const LONGEST_REASON: usize = 60;

/// Formats the result that `dyno load` prints at its end.
#[must_use]
pub fn load(r: &LoadResult, style: Style) -> String {
    let times = percentiles_line(&r.response_time_us, &RESPONSE_SHOWN, percentile_text);
    let service = percentiles_line(&r.service_time_us, &SERVICE_SHOWN, percentile_text);
    let service = format!("{service}      send lag p99 {}", or_dash(r.send_lag_us.p99, micros));
    let pages = |pages: &PageSummary| group_line("pages", &pages.group) + &page_text(pages);
    let first = [
        ("rate", Some(rate_line(r))),
        ("response", Some(times)),
        ("service", Some(service)),
        ("", percentile_note(r)),
        ("gaps", r.gaps.as_ref().map(|gaps| gaps_line(gaps, r))),
        ("pages", r.pages.as_ref().map(pages)),
        ("visits", r.visits.as_ref().map(|visits| group_line("visits", &visits.group))),
        ("wire", Some(wire_line(r))),
        ("tls", r.tls.as_ref().map(|tls| tls_line(tls, r))),
        ("http2", r.http2.as_ref().map(http2_line)),
        ("client", Some(client_line(r))),
    ];
    let limit = if r.pages.is_some() { RESOURCES_SHOWN } else { REQUESTS_SHOWN };
    let requests = r.requests.iter().take(limit).map(|request| ("", Some(request_line(request))));
    let more = r.requests.len().saturating_sub(limit);
    let more = (more > 0).then(|| format!("and {more} more requests (`--format json` has all)"));
    let last = [
        ("", more),
        ("errors", (failed_count(r) > 0).then(|| errors_line(r))),
        ("continue", r.continues.as_ref().map(continue_line)),
    ];
    let label = |name: &str| style.dim(&format!("{name:<10}"));
    let mut out = format!("  {}{}\n", label("valid"), verdict(r, style));
    for (name, text) in first.into_iter().chain(requests).chain(last) {
        if let Some(text) = text {
            let _ = writeln!(out, "  {}{}", label(name), terminal::escape_line(&text));
        }
    }
    out.push('\n');
    out.push_str(&caveat_lines(r, style));
    format!("{}{}", title(r, style), out.trim_end_matches('\n')) + "\n"
}

/// Formats the first line (URL and shape of the load) and an empty line.
fn title(result: &LoadResult, style: Style) -> String {
    let shape = shape(&result.config, Some((result.duration_s, result.client.threads)));
    let mut url = terminal::escape_line(&result.config.url);
    // A URL that contains the address does not need it again.
    let address =
        result.address.as_ref().filter(|address| !result.config.url.contains(address.as_str()));
    if let Some(address) = address {
        url.push_str(&format!(" at {}", terminal::escape_line(address)));
    }
    format!("  {}  {url}      {}\n\n", style.bold("dyno load"), style.dim(&shape))
}

/// Formats the caveats: warnings and worse first, then notes (severity `info`).
fn caveat_lines(result: &LoadResult, style: Style) -> String {
    let (notes, warnings): (Vec<_>, Vec<_>) =
        result.caveats.iter().partition(|c| c.severity == Severity::Info);
    let caveats = warnings.into_iter().chain(notes);
    caveats.map(|caveat| caveat_line(caveat, style, ("  ", CAVEAT_WIDTH))).collect()
}

/// Returns the number of requests that ended without a correct response.
fn failed_count(result: &LoadResult) -> u64 {
    let started = result.exchanges.started;
    started - result.outcomes.get(Outcome::Ok).min(started) - result.exchanges.in_flight_at_end
}

/// Formats the throughput, and the numbers of correct and failed requests.
fn rate_line(result: &LoadResult) -> String {
    let rate = format!("{} requests/s", rate(result.throughput_rps));
    let ok = count(result.outcomes.get(Outcome::Ok));
    format!("{rate:<28}{ok} ok      {} failed", count(failed_count(result)))
}

/// Formats the gaps between requests, and the delays of the generator.
fn gaps_line(gaps: &GapsResult, result: &LoadResult) -> String {
    // Gaps between requests of different threads are not recorded.
    let of_thread = if result.client.threads > 1 { " per thread" } else { "" };
    format!(
        "coefficient of variation{of_thread} {}, intended {}      wake lag p99 {}      loop lag \
         p99 {}",
        or_dash(gaps.achieved_cv, |cv| format!("{cv:.2}")),
        or_dash(gaps.intended_cv, |cv| format!("{cv:.2}")),
        or_dash(result.client.wake_lag_us.p99, micros),
        or_dash(result.client.loop_lag_us.p99, micros)
    )
}

/// States whether the numbers may be used.
fn verdict(result: &LoadResult, style: Style) -> String {
    let warnings = result.caveats.iter().filter(|c| c.severity == Severity::Warning).count();
    match (result.valid, warnings) {
        (false, _) => style.paint_severity(Severity::Invalid, "no: do not use these numbers"),
        (true, 0) => "yes".into(),
        (true, 1) => "yes, with one warning".into(),
        (true, n) => format!("yes, with {n} warnings"),
    }
}

/// Describes the configured load in one line. `actual`: seconds and threads of the load, which are
/// known at its end.
#[must_use]
pub fn shape(c: &LoadConfig, actual: Option<(f64, usize)>) -> String {
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
        n if c.sequence.is_some() => format!(" · sequence of {n} requests"),
        n => format!(" · mix of {n} requests"),
    };
    let driver = c.driver.title();
    let (duration, threads) = match actual {
        Some((duration_s, threads)) => (format!(" · {}", seconds(duration_s)), threads),
        None => (String::new(), c.threads as usize),
    };
    let streams = if c.streams > 1 { format!(" × {} streams", c.streams) } else { String::new() };
    // Over HTTP/2 each stream of a connection has a visitor.
    let is_visitor = c.page_connections.is_some() || c.sequence.is_some() && c.streams == 1;
    let noun = if is_visitor { "visitor" } else { "connection" };
    format!(
        "{} · {}{streams}{pipeline}{mix} · {model}{duration} · {driver} × {threads}",
        protocol_name(c.protocol),
        plural(u64::from(c.connections), noun)
    )
}

/// Percentiles of response times in the text, with their names.
const RESPONSE_SHOWN: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// Percentiles of service times in the text, with their names.
const SERVICE_SHOWN: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];

/// Percentiles of page times in the text, with their names.
const PAGES_SHOWN: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];

/// Formats percentiles in one line. The first percentile among unanswered requests also represents
/// all higher percentiles. `show` formats a percentile.
fn percentiles_line(
    p: &Percentiles,
    quantiles: &[(&str, f64)],
    show: fn(&Percentiles, f64) -> String,
) -> String {
    let is_unanswered = |q: f64| matches!(p.value(q), PercentileValue::Unanswered(_));
    let first_unanswered =
        quantiles.iter().position(|(_, q)| is_unanswered(*q)).unwrap_or(quantiles.len());
    let texts =
        quantiles.iter().take(first_unanswered).map(|(name, q)| format!("{name} {}", show(p, *q)));
    let unanswered = quantiles.get(first_unanswered).map(|(name, q)| {
        let more = if quantiles.len() > first_unanswered + 1 { " and above" } else { "" };
        format!("{name}{more} {}", show(p, *q))
    });
    texts.chain(unanswered).collect::<Vec<_>>().join("   ")
}

/// Returns the note below the percentiles: the number of unanswered requests, or the meaning of
/// `–`. `None`: neither occurs.
fn percentile_note(result: &LoadResult) -> Option<String> {
    let p = &result.response_time_us;
    let has_too_few = |q: f64| p.value(q) == PercentileValue::TooFew;
    if p.unanswered > 0 {
        return Some(format!(
            "percentiles: {} of {} intended requests got no correct response and rank as the \
             slowest",
            count(p.unanswered),
            count(p.due())
        ));
    }
    (p.due() > 0 && RESPONSE_SHOWN.iter().any(|(_, q)| has_too_few(*q))).then(|| TOO_FEW.into())
}

/// Formats bytes, segments and retransmits.
fn wire_line(result: &LoadResult) -> String {
    format!(
        "{} received per response   {} segments per response   {} retransmits",
        or_dash(result.bytes.per_response(result.bytes.received), bytes),
        or_dash(result.tcp.data_segments_per_response, |s| format!("{s:.2}")),
        or_dash(result.tcp.retransmits, count)
    )
}

/// Formats the CPU time and memory of the generator.
fn client_line(result: &LoadResult) -> String {
    let c = &result.client;
    let polling = match c.polling_share() {
        Some(share) if share > 0.0 => {
            format!(", {} of the CPU time polling for exact timing", percent(share))
        }
        _ => String::new(),
    };
    format!(
        "{} CPU per request   busiest thread {} busy{polling}   {}",
        or_dash(c.cpu_us_per_exchange, micros),
        percent(c.busiest_thread_utilisation),
        or_dash(c.rss_peak_bytes, |b| bytes(b as f64))
    )
}

/// Formats the TLS version, cipher suite and handshakes.
fn tls_line(tls: &TlsUse, result: &LoadResult) -> String {
    let or_dash_text = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".into());
    format!(
        "{} {}   ALPN {}   {} full and {} resumed handshakes, p50 {}",
        or_dash_text(&tls.version),
        or_dash_text(&tls.cipher_suite),
        or_dash_text(&tls.alpn),
        count(tls.handshakes_full),
        count(tls.handshakes_resumed),
        or_dash(result.tls_handshake_us.p50, micros)
    )
}

/// Formats pages or visits per second, their times, and those that are not complete.
fn group_line(noun: &str, group: &GroupSummary) -> String {
    format!(
        "{} {noun}/s   {}   {} complete, {} failed, {} unfinished",
        number(group.per_second),
        percentiles_line(&group.time_us, &PAGES_SHOWN, page_percentile_text),
        count(group.completed),
        count(group.failed),
        count(group.unfinished)
    )
}

/// Formats the resources and the connections of a page.
fn page_text(p: &PageSummary) -> String {
    let connections = plural(u64::from(p.connections_each), "connection");
    format!("   {} per page, {connections} per visitor", plural(p.resources as u64, "resource"))
}

/// Formats streams, frames per response, stalls and errors of HTTP/2.
fn http2_line(h: &Http2Result) -> String {
    // Without an HTTP/2 connection the number of allowed streams is unknown.
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
        count(h.streams.max_open),
        if frames.is_empty() { "–".into() } else { frames.join(" ") },
        or_dash(h.frames_per_segment, |n| format!("{n:.2}")),
        or_dash(h.header_fields_in.saved, percent),
        count(h.resets_in_total()),
        count(h.goaways_total())
    )
}

/// Formats the number of frames of a kind per response.
fn frame_share((kind, n): (&String, &f64)) -> String {
    format!("{n:.2} {kind}")
}

/// Formats the results of a request of a mix.
fn request_line(request: &RequestResult) -> String {
    let line = format!(
        "{:<28} {:>9} requests/s   p50 {}   p99 {}",
        request.name,
        rate(request.throughput_rps),
        percentile_text(&request.response_time_us, 0.5),
        percentile_text(&request.response_time_us, 0.99)
    );
    [line].into_iter().chain(not_ok_texts(&request.outcomes)).collect::<Vec<_>>().join("   ")
}

/// Formats the outcomes of failed requests, and their causes.
fn errors_line(result: &LoadResult) -> String {
    let outcomes = not_ok_texts(&result.outcomes).join("   ");
    let tls = result.tls.iter().flat_map(|tls| &tls.errors);
    let kinds = result.protocol_errors.iter().chain(&result.unexpected).chain(tls);
    let mut kinds: Vec<String> = kinds.map(|(k, n)| format!("{} × {k}", count(*n))).collect();
    kinds.extend(result.timeouts.iter().flat_map(timeout_kinds));
    if kinds.is_empty() { outcomes } else { format!("{outcomes}   ({})", kinds.join("; ")) }
}

/// Formats counts and waits of requests that expected 100 (Continue).
fn continue_line(c: &ContinuesResult) -> String {
    let mut line = format!(
        "{} of {} bodies sent after 100 (Continue)   wait p50 {}   p99 {}",
        count(c.continued),
        count(c.asked),
        percentile_text(&c.wait_us, 0.5),
        percentile_text(&c.wait_us, 0.99)
    );
    if c.waited_in_vain > 0 {
        line.push_str(&format!(
            "   {} sent after 1 s without 100 (Continue)",
            count(c.waited_in_vain)
        ));
    }
    if c.answered_instead > 0 {
        let answered = count(c.answered_instead);
        line.push_str(&format!(
            "   {answered} not sent, because the final response came first ({} × status 417)",
            count(c.refused)
        ));
    }
    line
}

/// Describes how much of timed-out responses had arrived, with a phrase per class that occurred.
fn timeout_kinds(timeouts: &Timeouts) -> Vec<String> {
    let example = match (timeouts.example_bytes, timeouts.example_length) {
        (Some(came), Some(length)) => format!(" (for example after {came} of {length} bytes)"),
        (Some(came), None) => format!(" (for example after {came} bytes)"),
        (None, _) => String::new(),
    };
    let (with_length, without_length) = match timeouts.example_length {
        Some(_) => (example.as_str(), ""),
        None => ("", example.as_str()),
    };
    let classes = [
        (timeouts.unsent, "before the request was sent", ""),
        (timeouts.nothing, "with no byte of a response", ""),
        (timeouts.part_of_head, "within the response's head", ""),
        (timeouts.head, "after the head, before the body", ""),
        (timeouts.part_of_body, "within the body", with_length),
        (timeouts.body_without_length, "within a body of unknown length", without_length),
    ];
    let occurred = classes.into_iter().filter(|(n, ..)| *n > 0);
    occurred.map(|(n, phase, example)| format!("{} timed out {phase}{example}", count(n))).collect()
}

/// Formats one line about a trial that has ended. `shape`: its workload and step.
#[must_use]
pub fn trial_line(trial: &TrialResult, shape: &str, style: Style) -> String {
    let head = terminal::escape_line(&format!(
        "{:<22} repeat {}  {shape}",
        trial.subject_id, trial.repeat
    ));
    let rate = format!("{:>9}/s", rate(trial.load.throughput_rps));
    let p = &trial.load.response_time_us;
    let cpu = or_dash(trial.server.cpu_us_per_request, |us| format!("{} CPU", micros(us)));
    let times = format!(
        "p50 {:>8}  p99 {:>8}  {cpu:>13}",
        percentile_text(p, 0.5),
        percentile_text(p, 0.99)
    );
    let limit = limiter_text(trial.limiter.resource, trial.limiter.confidence);
    // The caveat `Unchecked` is omitted: the contract is checked only after the last step, so all
    // earlier steps have this caveat when their lines are printed.
    let is_reported = |c: &&Caveat| c.severity > Severity::Info && c.code != Code::UNCHECKED;
    let first_caveat = trial.caveats.iter().find(is_reported);
    let mark = first_caveat.map_or(String::new(), |c| {
        format!("  {}", style.paint_severity(c.severity, c.code.name()))
    });
    format!("{head}  {rate}  {times}  {}{mark}", style.dim(&format!("limit: {limit}")))
}

/// The format, without colours.
pub const FORMAT: Format = Format::new("text", "A summary, for a terminal", |redacted| {
    report(&redacted.report, Style::Plain)
});

/// Formats a report: the answer, the overview, the caveats of the run, and failures.
#[must_use]
pub fn report(report: &Report, style: Style) -> String {
    let [answer, caveats] = sections::overview::answer(report);
    let failures = sections::lifecycle::failures(report);
    let [answer, caveats, failures] =
        [answer, caveats, failures].map(|block| present::text::render(&block, style));
    format!("{answer}\n{}\n{caveats}{failures}", overview(report, style))
}

/// Formats the table of subjects, and its notes.
fn overview(report: &Report, style: Style) -> String {
    let mut table = overview_table(report);
    // A row without numbers has the reason for their absence in place of a limiter.
    for limiter in table.rows.iter_mut().filter_map(|row| row.values.last_mut()) {
        limiter.text = shorten(&limiter.text, LONGEST_REASON);
    }
    let notes = Block::note(&[table_note(report), percentile_notes(&table)].join("\n"));
    present::text::render(&Block::Group(vec![Block::Table(table), notes]), style)
}

/// Explains the signs `>` and `–` in the columns of percentiles, if they occur.
fn percentile_notes(table: &ReportTable) -> String {
    let is_percentile = |head: &Head| head.name.starts_with("p50") || head.name.starts_with("p99");
    let columns: Vec<usize> =
        (0..table.heads.len()).filter(|c| is_percentile(&table.heads[*c])).collect();
    let texts = || table.rows.iter().flat_map(|row| columns.iter().map(|c| &row.values[*c].text));
    let has_unanswered = texts().any(|text| text.contains("not ok"));
    let has_too_few = texts().any(|text| text == "–");
    let notes = [(has_unanswered, UNANSWERED_NOTE), (has_too_few, TOO_FEW)];
    let notes = notes.into_iter().filter_map(|(occurs, note)| occurs.then_some(note));
    notes.collect::<Vec<&str>>().join("\n")
}

#[cfg(test)]
mod tests;

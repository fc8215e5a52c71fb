//! Checks of a contract against a server, made with the load's own client, which speaks every protocol anyway.

use std::time::Instant;

use dyno_archive::plan::{Http2, Load, Step, Workload};
use dyno_archive::trial::CheckResult;
use dyno_archive::{LoadRecord, Outcome};
use dyno_contract::check::{Check, How, Problem, Question, Verdict};
use dyno_contract::limits::CHECK;
use dyno_contract::listener::Listener;
use dyno_workload::compile;

use crate::load::{self, StopWhen};
use crate::load_at;

/// Runs one check at a listener.
#[must_use]
pub fn run(check: &Check, listener: &Listener) -> CheckResult {
    let verdict = match &check.how {
        How::Bytes(run) => run(listener.addr),
        How::Question(question) => put(question, listener),
    };
    let (ok, answered, detail) = match verdict {
        Ok(detail) => (true, true, detail),
        Err(Problem::Wrong(detail)) => (false, true, detail),
        Err(Problem::NoAnswer(detail)) => (false, false, detail),
    };
    CheckResult { name: check.name.clone(), ok, answered, detail }
}

fn put(question: &Question, listener: &Listener) -> Verdict {
    match &question.media {
        None => put_with(question, listener, Vec::new()),
        Some(media) => put_typed(question, listener, media),
    }
}

/// Runs a question that expects a media type. Tries it without and with a character set, since expectations compare whole
/// header values.
fn put_typed(question: &Question, listener: &Listener, media: &str) -> Verdict {
    const PARAMETERS: [&str; 5] =
        ["", "; charset=utf-8", ";charset=utf-8", "; charset=UTF-8", ";charset=UTF-8"];
    let mut last = Problem::NoAnswer(String::new());
    for parameters in PARAMETERS {
        let wanted = ("content-type".to_string(), Some(format!("{media}{parameters}")));
        match put_with(question, listener, vec![wanted]) {
            // Whatever else is wrong will be so again.
            Err(Problem::Wrong(why)) if why.contains(Outcome::UnexpectedHeader.name()) => {
                last = Problem::Wrong(format!("{why}, with or without a character set"));
            }
            verdict => return verdict,
        }
    }
    Err(last)
}

fn put_with(question: &Question, listener: &Listener, headers: Vec<(String, Option<String>)>) -> Verdict {
    let mut request = question.request.clone();
    request.expect.headers = headers;
    let shown = format!("{} {} over {}", request.method, request.path, listener.protocol);
    let name = question.name.clone();
    let workload = Workload { name, protocol: listener.protocol, requests: vec![request], page: None };
    let http2 = Http2::default();
    let traffic = compile::compile(&workload, &listener.host(), &http2, &|_| Err("no files here".into()))
        .map_err(Problem::NoAnswer)?;
    let once = load_at::once(listener, traffic, http2);
    let step = Step { streams: question.streams, ..once.step.clone() };
    let load = Load { requests: Some(question.times), ..once.load.clone() };
    let spec = load::Spec { step, load, ..once };
    ask(&spec).map_err(|problem| match problem {
        Problem::Wrong(why) => Problem::Wrong(format!("{shown}: {why}")),
        Problem::NoAnswer(why) => Problem::NoAnswer(format!("{shown}: {why}")),
    })?;
    Ok(match question.times {
        1 => "as expected".into(),
        n => format!("{n} requests on one connection, each answered as expected"),
    })
}

/// Sends the requests of `spec` on one connection. Every answer must be as expected.
fn ask(spec: &load::Spec) -> Result<(), Problem> {
    // Read before the load: a server that never answers is given up then, whatever its connections still wait for.
    let until = Instant::now() + 2 * CHECK;
    let mut watch = StopWhen(|| Instant::now() > until);
    let record = load::run(spec, &mut watch).map_err(Problem::NoAnswer)?;
    let wanted = spec.load.requests.unwrap_or(1);
    let outcomes = || record.intervals.iter().flat_map(|i| i.outcomes.iter());
    let right: u64 = outcomes().filter(|(o, _)| *o == Outcome::Ok).map(|(_, n)| n).sum();
    if let Some((outcome, n)) = worst(outcomes()) {
        let kinds = [&record.unexpected, &record.protocol_errors, &record.connection_failures];
        let why: Vec<&str> = kinds.iter().flat_map(|kind| kind.keys()).map(String::as_str).collect();
        let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
        let words = format!("{n} of {wanted} ended as {}{why}", outcome.name());
        return Err(if record.books.completed > 0 && !is_late(outcome) {
            Problem::Wrong(words)
        } else {
            Problem::NoAnswer(words)
        });
    }
    if right != wanted {
        return Err(Problem::NoAnswer(format!("{right} of {wanted} were answered in time")));
    }
    if record.connections.opened != 1 {
        let n = record.connections.opened;
        return Err(Problem::Wrong(format!("it took {n} connections, because the server closed them")));
    }
    spoke_as_asked(spec, &record)
}

/// The worst outcome that is not `Ok`: a wrong answer weighs more than a late one.
fn worst(outcomes: impl Iterator<Item = (Outcome, u64)>) -> Option<(Outcome, u64)> {
    let bad: Vec<(Outcome, u64)> = outcomes.filter(|(o, n)| *o != Outcome::Ok && *n > 0).collect();
    bad.iter().find(|(o, _)| !is_late(*o)).or(bad.first()).copied()
}

/// Whether an exchange ended because its time was up, or that of an earlier one on its connection.
fn is_late(outcome: Outcome) -> bool {
    outcome.is_timeout() || matches!(outcome, Outcome::ConnectTimeout | Outcome::Cancelled)
}

/// Checks that the server spoke HTTP/2 where asked to, and took as many requests at a time as the check needs.
fn spoke_as_asked(spec: &load::Spec, record: &LoadRecord) -> Result<(), Problem> {
    let Some(http2) = record.http2.as_ref().filter(|_| spec.protocol.is_h2()) else { return Ok(()) };
    if http2.fallen_back + http2.upgrades_declined > 0 {
        return Err(Problem::Wrong("the server went on in HTTP/1.1".into()));
    }
    let streams = u64::from(spec.step.streams);
    if http2.streams_most < streams && streams > 1 {
        let most = http2.streams_most;
        return Err(Problem::Wrong(format!(
            "only {most} of {streams} requests could be in flight at a time"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_answers_are_not_wrong_ones() {
        let late = [(Outcome::Ok, 97), (Outcome::Timeout, 1), (Outcome::Cancelled, 2)];
        let (outcome, n) = worst(late.into_iter()).unwrap();
        assert!(is_late(outcome) && n == 1, "{outcome:?}");
        let both = [(Outcome::Timeout, 1), (Outcome::UnexpectedBody, 3)];
        assert_eq!(worst(both.into_iter()), Some((Outcome::UnexpectedBody, 3)));
        assert!(!is_late(Outcome::Reset) && !is_late(Outcome::ClosedEarly));
        assert_eq!(worst([(Outcome::Ok, 5), (Outcome::Timeout, 0)].into_iter()), None);
    }
}

//! Runs a check of a contract at one listener, with single exchanges.

use std::time::{Duration, Instant};

use dyno_model::trial::CheckResult;

use crate::bytes;
use crate::client::{BodyRetention, ProbeClient};
use crate::contracts::Check;
use crate::description;
use crate::lifecycle::LifecyclePromise;
use crate::limits::CHECK;
use crate::problem::{Problem, TimeLimit};

/// Load of a server during a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerLoad {
    /// No other client sends requests to the server.
    Idle,
    /// The server gets the signal to end during the check. It must respond, and there is no second
    /// try.
    Ending,
    /// The server is under load. A late response, or a closed connection, does not break a promise.
    Loaded,
}

/// Runs a check. Over HTTP/2 it sends the requests one after the other, and ignores the check's
/// `streams`. `time`: time limit of all responses together in the first try, and of each response
/// in a second try. `machine_cause`: as in [`run_with`].
#[must_use]
pub fn run(
    check: &Check,
    client: &ProbeClient,
    load: ServerLoad,
    time: Duration,
    machine_cause: impl FnOnce() -> Option<String>,
) -> CheckResult {
    let attempt = |limit| try_within(check, client, limit, time);
    run_with(check, client, load, attempt, machine_cause)
}

/// Runs a check by calling `attempt`. `machine_cause` returns the packets that the machine dropped
/// since the check began, as text; `None`: it dropped none.
///
/// If an idle server does not respond in time, `attempt` is called once more, because a stall of
/// the machine can delay a response. If the second try gets no response either, the server has
/// broken its promise, unless the machine dropped packets.
pub fn run_with(
    check: &Check,
    client: &ProbeClient,
    load: ServerLoad,
    attempt: impl Fn(TimeLimit) -> Result<String, Problem>,
    machine_cause: impl FnOnce() -> Option<String>,
) -> CheckResult {
    let outcome = match attempt(TimeLimit::Check) {
        Err(Problem::Late(first)) if load == ServerLoad::Idle => {
            let second = attempt(TimeLimit::Response);
            second_try_outcome(check, &first, second, machine_cause)
        }
        outcome => outcome,
    };
    result(check, client, outcome, load)
}

/// Returns the outcome of a check whose first try was late. `first`: the problem of the first try,
/// as text. `second`: the outcome of the second try.
fn second_try_outcome(
    check: &Check,
    first: &str,
    second: Result<String, Problem>,
    machine_cause: impl FnOnce() -> Option<String>,
) -> Result<String, Problem> {
    let both_tries = |second: &str| format!("{first}; on a second try: {second}");
    match second {
        Ok(got) => Err(Problem::Late(both_tries(&got))),
        Err(Problem::Late(second)) => {
            Err(Problem::Silent(both_tries(&second)).excuse(machine_cause))
        }
        // The first try may have changed the server's state, so that the second one fails.
        Err(Problem::Wrong(second) | Problem::Closed(second)) if changes_state(check) => {
            Err(Problem::Late(both_tries(&second)))
        }
        other => other,
    }
}

/// Whether a check may change the state of the server: its methods are not all safe (RFC 9110
/// §9.2.1).
fn changes_state(check: &Check) -> bool {
    check.requests.iter().any(|request| !matches!(&*request.method, "GET" | "HEAD" | "OPTIONS"))
}

/// Returns the result of a check with this outcome. `Ok`: the received response, as text.
#[must_use]
pub fn result(
    check: &Check,
    client: &ProbeClient,
    outcome: Result<String, Problem>,
    load: ServerLoad,
) -> CheckResult {
    let (ok, has_response, got) = match outcome {
        Ok(got) => (true, true, got),
        Err(Problem::Wrong(got) | Problem::Silent(got)) => (false, true, got),
        Err(Problem::Closed(got)) => (false, load != ServerLoad::Loaded, got),
        Err(Problem::Late(got) | Problem::Slow(got) | Problem::OwnShortage(got)) => {
            (false, false, got)
        }
    };
    CheckResult {
        name: check.name.clone(),
        protocol: client.listener().protocol,
        ok,
        has_response,
        waived: false,
        is_lifecycle: check.life.is_some(),
        asked: request_text(check, client),
        expected: expectation_text(check),
        got,
    }
}

/// Describes the requests of a check, and how they are sent.
fn request_text(check: &Check, client: &ProbeClient) -> String {
    let requests: Vec<String> = check.requests.iter().map(description::request_text).collect();
    let sending =
        check.bytes.map(|bytes| format!(", {}", bytes.request_text())).unwrap_or_default();
    let times = if check.times > 1 {
        format!(", {} times on one connection", check.times)
    } else {
        String::new()
    };
    let streams = match check.streams {
        2.. if client.listener().protocol.is_h2() => format!(", {} at a time", check.streams),
        _ => String::new(),
    };
    let life = check.life.as_ref().map(|life| life.kind.action_text());
    let life = match life {
        Some(life) if requests.is_empty() => life.into(),
        Some(life) => format!(", {life}"),
        None => String::new(),
    };
    format!("{}{sending}{times}{streams}{life}", requests.join("; then "))
}

/// Describes what a check expects of the server.
fn expectation_text(check: &Check) -> String {
    if let Some(bytes) = check.bytes {
        return bytes.expectation_text().into();
    }
    let mut texts: Vec<String> = check
        .requests
        .iter()
        .map(|request| description::expectation_text(&request.expect))
        .collect();
    texts.dedup();
    texts.extend(
        check.life.as_ref().map(LifecyclePromise::promise_text).filter(|text| !text.is_empty()),
    );
    texts.join("; then ")
}

/// Tries a check once, as [`run`] does, in the usual time.
pub fn try_run(check: &Check, client: &ProbeClient, limit: TimeLimit) -> Result<String, Problem> {
    try_within(check, client, limit, CHECK)
}

/// Tries a check once. `time`: time of all responses together, or of each one, as `limit` says.
fn try_within(
    check: &Check,
    client: &ProbeClient,
    limit: TimeLimit,
    time: Duration,
) -> Result<String, Problem> {
    let began = Instant::now();
    let traffic = client.compile(check.requests.clone()).map_err(Problem::Wrong)?;
    if let Some(bytes) = check.bytes {
        return bytes::run(bytes, client, traffic.requests(), limit);
    }
    let mut session =
        client.session(&traffic, time).map_err(|error| Problem::from_io(&error, "connecting"))?;
    let mut last = String::new();
    let requests = check.requests.iter().zip(traffic.requests());
    for (n, (request, compiled)) in
        (0..check.times).flat_map(|n| requests.clone().map(move |request| (n, request)))
    {
        let during = || match (check.times, check.requests.len()) {
            (1, 1) => format!("{} {}", request.method, request.path),
            _ => format!(
                "{} {}, repetition {} on this connection",
                request.method,
                request.path,
                n + 1
            ),
        };
        limit.check_elapsed(began)?;
        if limit == TimeLimit::Response {
            session.set_timeout(time);
        }
        let response = session
            .exchange(compiled, BodyRetention::Whole)
            .map_err(|error| Problem::from_io(&error, &during()))?;
        let fault = compiled.expect.check(response.status, &response.headers, &response.body);
        fault.map_err(|fault| {
            Problem::Wrong(format!("{}: {fault}:\n{}", during(), response.to_text()))
        })?;
        last = description::response_text(&response);
    }
    Ok(if check.times > 1 { format!("each time {last}") } else { last })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::{self, Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};
    use std::path::Path;
    use std::thread;

    use dyno_model::Protocol;

    use super::*;
    use crate::contracts::Contract;
    use crate::listener::Listener;

    fn check(keys: &str) -> Check {
        let source = format!("[[checks]]\nname = \"a\"\n{keys}");
        let contract = Contract::parse(Path::new("c.toml"), "c", &source, &|_| unreachable!());
        contract.unwrap().checks.remove(0)
    }

    #[test]
    fn shortage_of_dyno_breaks_no_check() {
        let outcome = |errno| {
            let error = io::Error::from_raw_os_error(errno);
            outcome(ServerLoad::Idle, vec![Err(Problem::from_io(&error, "connecting"))])
        };
        for errno in [libc::EADDRNOTAVAIL, libc::EMFILE, libc::ENFILE, libc::ENOBUFS] {
            assert_eq!(outcome(errno), (false, false, 1), "{errno}");
        }
        assert_eq!(outcome(libc::ECONNREFUSED), (false, true, 1));
    }

    fn client(addr: SocketAddr) -> ProbeClient {
        ProbeClient::new(&Listener { addr, protocol: Protocol::H1, authority: None }).unwrap()
    }

    /// Returns whether the check passed, whether a failure is the server's fault, and the number of
    /// tries.
    fn outcome(load: ServerLoad, attempts: Vec<Result<&str, Problem>>) -> (bool, bool, usize) {
        outcome_of(&check("path = \"/\""), load, attempts)
    }

    fn outcome_of(
        check: &Check,
        load: ServerLoad,
        attempts: Vec<Result<&str, Problem>>,
    ) -> (bool, bool, usize) {
        let planned = attempts.len();
        let remaining_attempts = RefCell::new(attempts);
        let attempt = |_| remaining_attempts.borrow_mut().remove(0).map(String::from);
        let client = client(([127, 0, 0, 1], 1).into());
        let result = run_with(check, &client, load, attempt, || None);
        (result.ok, result.has_response, planned - remaining_attempts.borrow().len())
    }

    /// A server without load that twice does not respond has broken its contract.
    #[test]
    fn idle_server_without_response_gets_second_try() {
        use ServerLoad::{Ending, Idle, Loaded};
        let late = || Err(Problem::Late("no response in time".into()));
        let slow = || Err(Problem::Slow("too slow".into()));
        let wrong = || Err(Problem::Wrong("404".into()));
        let closed = || Err(Problem::Closed("closed".into()));
        assert_eq!(outcome(Idle, vec![late(), late()]), (false, true, 2));
        assert_eq!(outcome(Idle, vec![late(), wrong()]), (false, true, 2));
        assert_eq!(outcome(Idle, vec![late(), closed()]), (false, true, 2));
        // The first POST may have changed what the second one finds.
        let post = check("method = \"POST\"\npath = \"/\"");
        assert_eq!(outcome_of(&post, Idle, vec![late(), wrong()]), (false, false, 2));
        assert_eq!(outcome_of(&post, Idle, vec![late(), late()]), (false, true, 2));
        assert_eq!(outcome_of(&post, Idle, vec![wrong()]), (false, true, 1));
        // Late, as a warning: the responses came.
        assert_eq!(outcome(Idle, vec![late(), Ok("200")]), (false, false, 2));
        assert_eq!(outcome(Idle, vec![late(), slow()]), (false, false, 2));
        assert_eq!(outcome(Idle, vec![slow()]), (false, false, 1));
        assert_eq!(outcome(Idle, vec![wrong()]), (false, true, 1));
        assert_eq!(outcome(Idle, vec![Ok("200")]), (true, true, 1));
        // A loaded server may be full.
        assert_eq!(outcome(Loaded, vec![late()]), (false, false, 1));
        assert_eq!(outcome(Loaded, vec![closed()]), (false, false, 1));
        assert_eq!(outcome(Ending, vec![late()]), (false, false, 1));
        assert_eq!(outcome(Ending, vec![closed()]), (false, true, 1));
    }

    /// The kernel drops the SYN of both tries, so that nothing is known about the server.
    #[test]
    fn silence_during_drops_breaks_no_check() {
        let check = check("path = \"/\"");
        let cause = || Some("the machine dropped packets: 3 by connection tracking".into());
        let run = |problem: fn(String) -> Problem| {
            let attempt = |_| Err(problem("nothing".into()));
            run_with(&check, &client(([127, 0, 0, 1], 1).into()), ServerLoad::Idle, attempt, cause)
        };
        let silent = run(Problem::Late);
        assert!(!silent.ok && !silent.has_response, "{silent:?}");
        assert!(silent.got.ends_with("; the machine dropped packets: 3 by connection tracking"));
        let wrong = run(Problem::Wrong);
        assert!(
            !wrong.ok && wrong.has_response,
            "an incorrect response is the server's: {wrong:?}"
        );
    }

    /// Starts a server of one connection that delays each response.
    fn slow_server(delay: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.read(&mut [0; 1024]).is_ok_and(|n| n > 0) {
                thread::sleep(delay);
                let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                if stream.write_all(response).is_err() {
                    break;
                }
            }
        });
        addr
    }

    /// Six responses of 1 s each take longer than a check, and each comes in time.
    #[test]
    fn second_try_gives_each_response_its_time() {
        let addr = slow_server(Duration::from_secs(1));
        let check = check("path = \"/\"\ntimes = 6");
        let got = try_run(&check, &client(addr), TimeLimit::Response);
        assert!(got.is_ok(), "{got:?}");
    }

    #[test]
    fn check_waits_for_its_time() {
        let run_for = |time: Duration| {
            let addr = slow_server(Duration::from_millis(500));
            run(&check("path = \"/\""), &client(addr), ServerLoad::Ending, time, || None)
        };
        let late = run_for(Duration::from_millis(50));
        assert!(!late.ok && !late.has_response, "{late:?}");
        let in_time = run_for(Duration::from_secs(60));
        assert!(in_time.ok, "{in_time:?}");
    }
}

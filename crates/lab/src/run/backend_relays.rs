//! Relays between a subject and its back ends, for the lifecycle checks. An error of dyno in a
//! relay must not be reported as a broken promise of the subject.

use std::io;

use dyno_contract::problem::Problem;
use dyno_contract::relay::Relay;

use super::ports::Ports;

/// The relays in front of one back end.
pub(super) struct BackendRelays {
    pub(super) name: String,
    pub(super) plain: Relay,
    /// Relay of encrypted connections.
    pub(super) tls: Relay,
}

/// Number of bytes that each connection had sent to a back end's relays at an instant.
#[derive(Clone, Default)]
pub(super) struct BackendMark {
    pub(super) plain: Vec<usize>,
    pub(super) tls: Vec<usize>,
}

impl BackendRelays {
    /// Starts the relays of a back end with these ports.
    pub(super) fn new(name: &str, ports: Ports) -> io::Result<BackendRelays> {
        let (plain, tls) = (Relay::new(ports.plain)?, Relay::new(ports.tls)?);
        Ok(BackendRelays { name: name.into(), plain, tls })
    }

    /// Begins or ends the delay of the back end's responses.
    pub(super) fn delay_responses(&self, is_delaying: bool) {
        self.plain.delay_responses(is_delaying);
        self.tls.delay_responses(is_delaying);
    }

    pub(super) fn mark(&self) -> BackendMark {
        BackendMark { plain: self.plain.mark(), tls: self.tls.mark() }
    }

    /// Returns whether the back end has received requests since a mark.
    pub(super) fn has_requests_since(&self, mark: &BackendMark) -> bool {
        let has_new = |relay: &Relay, mark: &[usize]| {
            relay.requests_since(mark).iter().any(|bytes| !bytes.is_empty())
        };
        has_new(&self.plain, &mark.plain) || has_new(&self.tls, &mark.tls)
    }

    /// Returns why a connection was not forwarded, if dyno or the machine is the cause.
    fn failure(&self) -> Option<String> {
        self.plain.failure().or_else(|| self.tls.failure())
    }
}

/// Returns the result of a check through relays. If a relay failed, a broken promise may be the
/// fault of dyno, so the promise was not checked.
pub(super) fn relayed_result(
    result: Result<String, Problem>,
    relays: &[BackendRelays],
) -> Result<String, Problem> {
    unless_relay_failed(result, relays.iter().find_map(BackendRelays::failure))
}

fn unless_relay_failed(
    result: Result<String, Problem>,
    relay_failure: Option<String>,
) -> Result<String, Problem> {
    result.map_err(|problem| relay_failure.map_or(problem, Problem::OwnShortage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_is_not_checked_if_a_relay_failed() {
        let broken = || Err(Problem::Wrong("0 matches".into()));
        let failure = || Some("Too many open files".into());
        assert!(matches!(unless_relay_failed(broken(), None), Err(Problem::Wrong(_))));
        let unchecked = unless_relay_failed(broken(), failure());
        assert!(
            matches!(unchecked, Err(Problem::OwnShortage(text)) if text.contains("open files"))
        );
        assert!(unless_relay_failed(Ok("1 match".into()), failure()).is_ok(), "a kept promise");
    }
}

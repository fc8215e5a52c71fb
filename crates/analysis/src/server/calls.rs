//! Computes system calls per response, from calls that were counted over a known number of
//! responses. The calls show how a server reads, writes and waits.

use std::collections::BTreeMap;

use dyno_model::sample::{CallUse, CallsUse};
use dyno_model::syscall::{Amount, UNNAMED, hides_bytes, returned_amount};
use schemars::JsonSchema;
use serde::Serialize;

/// The system calls of a server in the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Calls")]
pub struct CallRates {
    /// Time in which calls were counted: the whole window, or slices of it.
    pub counted_s: f64,
    pub slices: u64,
    /// Complete responses in the counted time: the divisor of all values per response.
    #[serde(rename = "answers")]
    pub responses: u64,
    /// All calls.
    pub per_response: f64,
    /// All calls, per second of counted time.
    pub per_s: f64,
    /// Calls by name. Futex calls are listed by purpose, such as `futex(wait)`.
    pub by_name: BTreeMap<String, Call>,
    /// `None`: the server made no reads (or no writes), or too many calls have no name (`other`),
    /// and may be reads (or writes).
    pub reads: Option<Transfers>,
    pub writes: Option<Transfers>,
    /// Mean number of events that a wait for events returned (`epoll_wait`, `poll`,
    /// `io_getevents`). For `io_uring_enter`, the mean number of submissions.
    pub events_per_wait: Option<f64>,
}

/// System calls of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Call {
    pub count: u64,
    pub per_response: f64,
    /// `None`: return values were not observed, as for all fields below.
    pub errors: Option<u64>,
    /// Part of the errors that were EAGAIN: there was nothing to read or no space to write.
    pub again: Option<u64>,
    /// Mean result of the calls that did not fail: bytes of reads and writes, events of waits,
    /// threads woken. `None`: the call returns no amount.
    pub returned_mean: Option<f64>,
}

/// All reads, or all writes, regardless of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Transfers {
    pub per_response: f64,
    /// Bytes of a call that did not fail, on average.
    pub bytes_per_call: Option<f64>,
    pub bytes_per_response: Option<f64>,
}

impl CallRates {
    /// Whether the results of the calls were observed, and not only their number.
    #[must_use]
    pub fn has_results(&self) -> bool {
        self.by_name.values().all(|call| call.errors.is_some())
    }

    /// Computes the rates between two readings; `None`: no call was observed, no response arrived,
    /// or the counters decreased.
    pub(super) fn from_readings(first: &CallsUse, last: &CallsUse) -> Option<CallRates> {
        let responses =
            last.responses?.checked_sub(first.responses.unwrap_or(0)).filter(|n| *n > 0)?;
        let counted_s = last.counted_ns.checked_sub(first.counted_ns)? as f64 / 1e9;
        let calls = CallUse::all_since(&last.by_name, &first.by_name);
        // Every response takes a system call. If no call was counted, threads that were not
        // observed made the calls, so their number is unknown.
        let all = Some(calls.values().map(|call| call.count).sum::<u64>()).filter(|n| *n > 0)?;
        Some(CallRates {
            counted_s,
            slices: last.slices.checked_sub(first.slices)?,
            responses,
            per_response: all as f64 / responses as f64,
            per_s: if counted_s > 0.0 { all as f64 / counted_s } else { 0.0 },
            reads: transfers(&calls, Amount::Read, responses),
            writes: transfers(&calls, Amount::Written, responses),
            events_per_wait: CallSum::from_calls(&calls, Amount::Events).mean(),
            by_name: calls
                .iter()
                .map(|(name, call)| {
                    (name.clone(), Call::from_use(call, responses, returned_amount(name).is_some()))
                })
                .collect(),
        })
    }
}

impl CallRates {
    /// Returns the calls per response, by name.
    pub(super) fn per_response_by_name(&self) -> BTreeMap<String, f64> {
        self.by_name.iter().map(|(name, call)| (name.clone(), call.per_response)).collect()
    }
}

impl Call {
    fn from_use(calls: &CallUse, responses: u64, returns_amount: bool) -> Call {
        let CallUse { count, errors, again, .. } = *calls;
        let returned_mean = CallSum::new(calls).mean().filter(|_| returns_amount);
        Call { count, per_response: count as f64 / responses as f64, errors, again, returned_mean }
    }
}

/// The number of reads or writes is known if calls without a name are at most this share of it.
const MAX_UNNAMED: f64 = 0.01;

/// Returns the sum of the calls of a kind. `None`: there are no such calls, or their number is
/// unknown.
fn transfers(calls: &BTreeMap<String, CallUse>, kind: Amount, responses: u64) -> Option<Transfers> {
    let sum = CallSum::from_calls(calls, kind);
    let unnamed = calls.get(UNNAMED).map_or(0, |call| call.count);
    let is_known = unnamed as f64 <= MAX_UNNAMED * sum.calls as f64;
    sum.transfers(responses).filter(|_| is_known)
}

/// Number of calls, and number and results of those calls that did not fail.
struct CallSum {
    calls: u64,
    succeeded: Option<u64>,
    returned: Option<u64>,
}

impl CallSum {
    fn new(call: &CallUse) -> CallSum {
        let succeeded = call.errors.map(|errors| call.count.saturating_sub(errors));
        CallSum { calls: call.count, succeeded, returned: call.returned }
    }

    /// Sums the calls of a kind. `returned` is `None` if a call of this kind does not return the
    /// number of its bytes.
    fn from_calls(calls: &BTreeMap<String, CallUse>, kind: Amount) -> CallSum {
        let sums = calls
            .iter()
            .filter(|(name, _)| returned_amount(name) == Some(kind))
            .map(|(_, call)| CallSum::new(call));
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        let has_hidden_bytes = calls.keys().any(|name| hides_bytes(name, kind));
        let returned = (!has_hidden_bytes).then_some(0);
        sums.fold(CallSum { calls: 0, succeeded: Some(0), returned }, |a, b| CallSum {
            calls: a.calls + b.calls,
            succeeded: sum(a.succeeded, b.succeeded),
            returned: sum(a.returned, b.returned),
        })
    }

    /// Returns the mean result of the calls that did not fail. `None`: unknown.
    fn mean(&self) -> Option<f64> {
        let succeeded = self.succeeded.filter(|n| *n > 0)?;
        Some(self.returned? as f64 / succeeded as f64)
    }

    /// Returns the calls and bytes per response. `None`: there was no call.
    fn transfers(&self, responses: u64) -> Option<Transfers> {
        let per_response_of = |n: u64| n as f64 / responses as f64;
        (self.calls > 0).then(|| Transfers {
            per_response: per_response_of(self.calls),
            bytes_per_call: self.mean(),
            bytes_per_response: self.returned.map(per_response_of),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls_use(responses: u64, calls: &[(&str, [u64; 4])]) -> CallsUse {
        let call = |[count, errors, again, returned]: [u64; 4]| CallUse {
            count,
            errors: Some(errors),
            again: Some(again),
            returned: Some(returned),
        };
        CallsUse {
            counted_ns: responses * 1_000_000,
            slices: responses / 10,
            responses: Some(responses),
            by_name: calls.iter().map(|(name, counts)| ((*name).into(), call(*counts))).collect(),
            ..CallsUse::default()
        }
    }

    #[test]
    fn call_rates_are_per_response_of_counted_time() {
        let first = calls_use(100, &[("read", [100, 0, 0, 5000]), ("close", [7, 0, 0, 0])]);
        let last = calls_use(
            300,
            &[
                ("read", [340, 40, 40, 15_000]),
                ("close", [7, 0, 0, 0]),
                ("writev", [200, 0, 0, 20_000]),
                ("epoll_wait", [20, 0, 0, 200]),
            ],
        );
        let calls = CallRates::from_readings(&first, &last).unwrap();
        assert_eq!((calls.responses, calls.slices), (200, 20));
        assert!((calls.counted_s - 0.2).abs() < 1e-9 && (calls.per_response - 2.3).abs() < 1e-9);
        assert!((calls.per_s - 2300.0).abs() < 1e-6);
        let read = calls.by_name["read"];
        assert_eq!(
            (read.count, read.errors, read.again, read.per_response),
            (240, Some(40), Some(40), 1.2)
        );
        assert_eq!(read.returned_mean, Some(50.0));
        assert_eq!(calls.by_name["epoll_wait"].returned_mean, Some(10.0));
        assert_eq!(calls.by_name.keys().collect::<Vec<_>>(), ["epoll_wait", "read", "writev"]);
        let transfers = |per_response, per_call, bytes_per_response| {
            Some(Transfers { per_response, bytes_per_call: Some(per_call), bytes_per_response })
        };
        assert_eq!(
            (calls.reads, calls.writes),
            (transfers(1.2, 50.0, Some(50.0)), transfers(1.0, 100.0, Some(100.0)))
        );
        assert_eq!(calls.events_per_wait, Some(10.0));
    }

    /// A call that returns a number of messages or submissions hides how many bytes it moved.
    #[test]
    fn bytes_are_unknown_if_call_hides_them() {
        let bytes = |name| {
            let last = calls_use(
                100,
                &[("read", [9, 0, 0, 90]), ("write", [9, 0, 0, 90]), (name, [1, 0, 0, 2])],
            );
            let calls = CallRates::from_readings(&CallsUse::default(), &last).unwrap();
            [calls.reads, calls.writes].map(|all| all.unwrap().bytes_per_response.is_some())
        };
        assert_eq!(bytes("close"), [true, true]);
        assert_eq!(bytes("recvmmsg"), [false, true]);
        assert_eq!(bytes("sendmmsg"), [true, false]);
        assert_eq!(bytes("io_uring_enter"), [false, false]);
    }

    #[test]
    fn counted_calls_without_results_have_no_means() {
        let counts = |count| CallUse { count, errors: None, again: None, returned: None };
        let at = |responses, calls: u64| CallsUse {
            counted_ns: responses * 1_000_000,
            slices: 1,
            responses: Some(responses),
            by_name: [("read".to_string(), counts(calls)), ("epoll_wait".to_string(), counts(1))]
                .into(),
            ..CallsUse::default()
        };
        let first = CallsUse::default();
        let calls = CallRates::from_readings(&first, &at(100, 120)).unwrap();
        let reads = calls.reads.unwrap();
        assert_eq!(
            (reads.per_response, reads.bytes_per_call, reads.bytes_per_response),
            (1.2, None, None)
        );
        let read = calls.by_name["read"];
        assert_eq!(
            (read.count, read.errors, read.again, read.returned_mean),
            (120, None, None, None)
        );
        assert_eq!(calls.events_per_wait, None);
    }

    #[test]
    fn transfers_are_unknown_with_many_unnamed_calls() {
        let with_unnamed = |unnamed| {
            let calls = [
                ("read", [1000, 0, 0, 9]),
                ("write", [100, 0, 0, 9]),
                ("other", [unnamed, 0, 0, 0]),
            ];
            let rates = CallRates::from_readings(&CallsUse::default(), &calls_use(100, &calls));
            rates.map(|rates| (rates.reads.is_some(), rates.writes.is_some())).unwrap()
        };
        assert_eq!([1, 2, 11].map(with_unnamed), [(true, true), (true, false), (false, false)]);
    }

    #[test]
    fn call_rates_require_calls_and_responses() {
        let reading = calls_use(100, &[("read", [100, 0, 0, 0])]);
        assert_eq!(CallRates::from_readings(&reading, &reading), None);
        let uncounted = CallsUse { responses: None, ..reading.clone() };
        assert_eq!(CallRates::from_readings(&reading, &uncounted), None);
        let without_calls = CallsUse { responses: Some(300), ..reading.clone() };
        assert_eq!(CallRates::from_readings(&reading, &without_calls), None);
    }
}

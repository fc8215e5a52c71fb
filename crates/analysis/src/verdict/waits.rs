//! Waits of the threads of a server that had CPU time left. Thread states and system calls show
//! whether the threads waited for a lock, a disk, a timer or a peer.

use dyno_model::sample::ThreadState;
use serde_json::{Value, json};

use super::conditions::{is_disturbed, may_lack_cpu};
use super::limiters::{Confidence, Limiter, Resource};
use super::thresholds::SERVER_BUSY;
use crate::load::LoadResult;
use crate::number_format::percent;
use crate::server::{Call, ServerUse, ServingThreads};

/// A kind of wait limits the server if it takes at least this share of the serving threads' time.
const LIMITING_SHARE: f64 = 0.5;

/// Requests sleep if there are at least this many sleeps per response. It is below 1, because calls
/// are counted in slices of the window, which may miss the sleep of a response.
pub(super) const SLEEPS_PER_RESPONSE: f64 = 0.5;

/// Calls other than futex that may wait for a lock.
const FILE_LOCK_CALLS: [&str; 4] = ["flock", "fcntl", "semop", "semtimedop"];

/// Threads wait for a lock of the program only if they make at least this many calls per response
/// that may wait for a lock. A thread that waits for a lock may serve several requests that arrived
/// together.
pub(super) const MIN_LOCK_CALLS: f64 = 0.1;

/// Requests wait for threads if there are at least this many requests per thread.
const REQUESTS_PER_THREAD: f64 = 1.2;

/// Requests may queue if on average at least this many threads wait.
const QUEUED_THREADS: f64 = 0.5;

/// A server that makes at most this many writes per response writes only responses. It then sends
/// no requests to a service that it needs.
const ONE_WRITE: f64 = 1.05;

/// A response leaves in several parts if the server makes at least this many writes per response.
pub(super) const SEVERAL_WRITES: f64 = 1.5;

/// Frequency of futex waits that end by time-out. They are a form of sleep, because `Thread.sleep`
/// and condition variables with a time-out use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimedWaits {
    /// Most futex waits end by time-out.
    Most,
    /// Fewer than half end by time-out, but about one per response. Each request sleeps once, and
    /// waits for other threads.
    OncePerResponse,
    /// Too few end by time-out for requests to sleep, or calls were not counted.
    Few,
}

impl TimedWaits {
    pub(super) fn from_use(server: &ServerUse) -> TimedWaits {
        let Some(call) = futex_waits(server) else { return TimedWaits::Few };
        let (Some(errors), Some(again)) = (call.errors, call.again) else {
            return TimedWaits::Few;
        };
        // A futex wait fails with EAGAIN if it need not wait. Nearly all other errors are
        // time-outs.
        let timed_out = errors.saturating_sub(again);
        if timed_out > 0 && 2 * timed_out >= call.count {
            TimedWaits::Most
        } else if per_response(call, timed_out) >= SLEEPS_PER_RESPONSE {
            TimedWaits::OncePerResponse
        } else {
            TimedWaits::Few
        }
    }
}

/// Returns the mean number of serving threads that were asleep. If threads sleep in futex waits,
/// the number includes threads that wait for each other. `None`: thread states were not observed.
pub(super) fn asleep_threads(server: &ServerUse) -> Option<f64> {
    let serving = server.serving.as_ref()?;
    let in_futex = match TimedWaits::from_use(server) {
        TimedWaits::Few => 0.0,
        TimedWaits::Most | TimedWaits::OncePerResponse => serving.share(ThreadState::Lock),
    };
    Some((serving.share(ThreadState::Sleep) + in_futex) * serving.threads as f64)
}

/// Returns the calls per response that may wait for a lock. `None`: calls were not counted. If
/// there are few such calls, threads in the state `lock` wait for the kernel in other calls.
pub(super) fn lock_calls_per_response(server: &ServerUse) -> Option<f64> {
    let calls = &server.calls.as_ref()?.by_name;
    let may_wait = |name: &str| {
        FILE_LOCK_CALLS.contains(&name) || name.starts_with("futex") && !name.contains("wake")
    };
    Some(calls.iter().filter(|(name, _)| may_wait(name)).map(|(_, call)| call.per_response).sum())
}

/// Returns the futex waits of the server. `None`: not counted.
fn futex_waits(server: &ServerUse) -> Option<&Call> {
    server.calls.as_ref()?.by_name.get("futex(wait)")
}

/// Returns the number per response of some of the calls of one name. `part`: their total number.
fn per_response(call: &Call, part: u64) -> f64 {
    part as f64 / call.count.max(1) as f64 * call.per_response
}

/// Whether the threads may sleep in requests. Threads with other tasks sleep too, but less often
/// than once per response. `None`: calls were not counted, or too many of them have no name.
pub(super) fn may_requests_sleep(server: &ServerUse) -> Option<bool> {
    let calls = server.calls.as_ref()?;
    let unnamed = calls.by_name.get("other").map_or(0.0, |call| call.per_response);
    let sleeps =
        ["nanosleep", "clock_nanosleep"].into_iter().filter_map(|name| calls.by_name.get(name));
    let sleeps_per_response: f64 = sleeps.map(|call| call.per_response).sum();
    if sleeps_per_response >= SLEEPS_PER_RESPONSE {
        return Some(true);
    }
    // Calls without a name may be sleeps.
    (sleeps_per_response + unnamed < SLEEPS_PER_RESPONSE).then_some(false)
}

/// Whether the states and calls of the serving threads show that hardly any request queues, neither
/// in the server nor for a service that it needs.
pub(super) fn are_queues_excluded(server: &ServerUse) -> bool {
    let Some(serving) = &server.serving else { return false };
    let waits = [ThreadState::Lock, ThreadState::Disk, ThreadState::Runnable, ThreadState::Other];
    // Sleeps count only if requests may sleep. Other sleeps are those of threads without a request.
    let sleeps = (may_requests_sleep(server) != Some(false)).then_some(ThreadState::Sleep);
    let share: f64 = waits.into_iter().chain(sleeps).map(|state| serving.share(state)).sum();
    let waiting_threads = share * serving.threads as f64;
    waiting_threads < QUEUED_THREADS && writes_once(server)
}

/// Whether the server is known to write once per response, so that it asks no other service.
pub(super) fn writes_once(server: &ServerUse) -> bool {
    let writes = server.calls.as_ref().and_then(|calls| calls.writes);
    writes.is_some_and(|writes| writes.per_response <= ONE_WRITE)
}

/// Returns the server's CPU utilisation if it has CPU time left.
pub(super) fn utilisation_below_limit(server: &ServerUse) -> Option<f64> {
    server.cpu_utilisation.filter(|used| *used < SERVER_BUSY)
}

/// A kind of wait that takes most of the serving threads' time, apart from the time in which
/// threads had no request.
pub(super) struct ThreadWait<'a> {
    pub(super) serving: &'a ServingThreads,
    /// Share of the threads' time.
    share: f64,
    /// Mean number of requests at the server.
    requests: f64,
    /// The server's CPU utilisation.
    used: f64,
    futex_waits_per_response: Option<f64>,
    /// Other programs or virtual machines took CPU time.
    is_disturbed: bool,
}

impl<'a> ThreadWait<'a> {
    /// Returns the wait in these states. `None`: the states do not take most of the time.
    pub(super) fn from_states(
        load: &LoadResult,
        server: &'a ServerUse,
        states: &[ThreadState],
    ) -> Option<ThreadWait<'a>> {
        let used = utilisation_below_limit(server)?;
        let may_lack_cpu = may_lack_cpu(load, server);
        // If the server may lack CPU time, waits for a lock do not count: they get longer when the
        // holder of the lock waits for a CPU. Sleeps and waits for a disk do not get longer,
        // because waiting for a CPU after them is another state.
        let counts = |state: ThreadState| !may_lack_cpu || state != ThreadState::Lock;
        let states = states.iter().copied().filter(|state| counts(*state));
        let serving = server.serving.as_ref()?;
        let share: f64 = states.map(|state| serving.share(state)).sum();
        let requests = load.mean_at_server();
        // With fewer requests than threads, some threads wait for work for this share of the time.
        let idle_share = (1.0 - requests / serving.threads as f64).max(0.0);
        (share - idle_share >= LIMITING_SHARE).then(|| ThreadWait {
            serving,
            share,
            requests,
            used,
            futex_waits_per_response: futex_waits(server).map(|call| call.per_response),
            is_disturbed: is_disturbed(load, server),
        })
    }

    /// Returns the wait for time to pass, if requests may sleep. `None`: the wait does not take
    /// most of the time.
    pub(super) fn from_sleep(load: &LoadResult, server: &'a ServerUse) -> Option<ThreadWait<'a>> {
        if TimedWaits::from_use(server) != TimedWaits::Few {
            return ThreadWait::from_states(load, server, &[ThreadState::Sleep, ThreadState::Lock]);
        }
        ThreadWait::from_states(load, server, &[ThreadState::Sleep])
            .filter(|_| may_requests_sleep(server) != Some(false))
    }

    /// Whether there were more requests than threads, so that some requests waited for a thread.
    pub(super) fn has_waiting_requests(&self) -> bool {
        self.requests >= REQUESTS_PER_THREAD * self.serving.threads as f64
    }

    /// Returns the mean number of threads that waited neither for the lock nor for a peer. The
    /// holder of a lock computes, sleeps or waits for a disk, so this counts possible holders.
    pub(super) fn threads_at_work(&self, server: &ServerUse) -> f64 {
        let states = [
            ThreadState::Running,
            ThreadState::Runnable,
            ThreadState::Sleep,
            ThreadState::Disk,
            ThreadState::Other,
        ];
        let work_s: f64 =
            states.iter().map(|state| self.serving.share(*state) * self.serving.lifetime_s()).sum();
        work_s / server.window_s
    }

    /// Returns the limiter with a sentence about this wait. `remark`: text to follow it.
    pub(super) fn limiter(
        &self,
        resource: Resource,
        confidence: Confidence,
        sentence: &str,
        remark: &str,
    ) -> Limiter {
        let sentence = format!(
            "{sentence} for {} of {} time. On average, {} requests were at the server, which used \
             {} of its CPU.{remark}",
            percent(self.share),
            if self.serving.threads == 1 { "its" } else { "their" },
            if self.requests < 10.0 {
                format!("{:.1}", self.requests)
            } else {
                format!("{:.0}", self.requests)
            },
            percent(self.used)
        );
        let confidence =
            if self.is_disturbed { confidence.at_most(Confidence::Medium) } else { confidence };
        Limiter::new(resource, confidence, sentence, self.evidence())
    }

    /// Whether the waiting threads are at least half as many as the requests at the server, so that
    /// these threads may serve requests. Idle threads of a pool wait for work, without a request.
    pub(super) fn waiters_have_requests(&self) -> bool {
        self.share * self.serving.threads as f64 >= self.requests / 2.0
    }

    fn evidence(&self) -> Value {
        let lifetime_s = self.serving.lifetime_s();
        let share = |s: f64| if lifetime_s > 0.0 { s / lifetime_s } else { 0.0 };
        let states: serde_json::Map<String, Value> = self
            .serving
            .states_s
            .iter()
            .map(|(state, s)| ((*state).into(), json!(share(*s))))
            .collect();
        json!({
            "threads": self.serving.threads, "states": states, "in_flight": self.requests,
            "server_utilisation": self.used,
            "futex_waits_per_response": self.futex_waits_per_response,
        })
    }
}

/// Formats the threads as `serving thread` or `8 serving threads`.
impl std::fmt::Display for ThreadWait<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.serving.threads {
            1 => f.write_str("serving thread"),
            n => write!(f, "{n} serving threads"),
        }
    }
}

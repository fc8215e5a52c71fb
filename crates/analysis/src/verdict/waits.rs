//! Rules that name a limiter by what the server's threads waited for, while it had CPU time left.

use dyno_archive::plan::LoadModel;
use dyno_archive::sample::ThreadState;
use serde_json::{Value, json};

use super::limiter::{Limiter, is_disturbed, is_robbed, verdict};
use super::resource::{Confidence, Resource};
use super::thresholds::SERVER_BUSY;
use crate::load::LoadResult;
use crate::number_format::percent;
use crate::server::{Call, ServerUse, ServingThreads};

/// Share of their time that threads wait for one thing from which on that is what holds requests
/// up.
const MAX_OF_TIME: f64 = 0.5;

/// Share of their time that threads wait for a disk from which on it matters.
const MUCH_OF_TIME: f64 = 0.3;

/// Page faults per second that read from a disk from which on memory is what is short.
const MAJOR_FAULTS_PER_S: f64 = 50.0;

/// The same per response, from which on requests wait for a disk whatever the states of threads
/// say: those of a fast disk are short, and the kernel computes for each.
const MAJOR_FAULTS_EACH: f64 = 1.0;

/// Share of the server's CPU time that its garbage collector may use without being its limit.
const GC_SHARE: f64 = 0.3;

/// Linux delays an acknowledgement by 40 ms at least, and the response comes a little after it.
const DELAYED_ACK_US: (f64, f64) = (38_000.0, 60_000.0);

/// Requests per connection and second when each waits for such an acknowledgement.
const DELAYED_ACK_RATE: (f64, f64) = (16.0, 26.0);

/// Least share of new connections that found the queue full which holds a load up.
const MIN_OVERFLOWS: f64 = 0.001;

/// Share of the requests in flight that wait in a listener's queue from which on that holds them
/// up.
const MAX_QUEUED: f64 = 0.5;

/// Sleeping calls per response from which on requests sleep. Slices of the window count them, so
/// that a response may miss its own.
const A_SLEEP_EACH: f64 = 0.5;

/// Threads at work at a time up to which they take turns with one lock.
const ONE_HOLDER: f64 = 1.5;

/// Requests per thread from which on requests wait for threads.
const MORE_REQUESTS: f64 = 1.2;

/// Writes per response from which on a response does not leave in one piece.
pub(super) const SEVERAL_WRITES: f64 = 1.5;

/// The garbage collector: the server is busy, and much of that is collecting.
pub(super) fn gc(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let used = server.cpu_utilisation.filter(|used| *used >= SERVER_BUSY)?;
    let share = server.role_share("gc").filter(|share| *share > GC_SHARE)?;
    let sentence = format!(
        "The garbage collector: it used {} of the server's CPU time, and the server used {} of its \
         allowed CPU time. Give the server more memory, or allocate less per request.",
        percent(share),
        percent(used)
    );
    verdict(
        Resource::Gc,
        Confidence::High,
        sentence,
        json!({"gc_share": share, "cpu_utilisation": used}),
    )
}

/// Nagle's algorithm at the server waits for an acknowledgement that the client delays: each
/// response is written in parts, the first is sent, and the second waits for 40 ms (RFC 896, RFC
/// 1122 4.2.3.2).
pub(super) fn delayed_ack(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    has_room(server)?;
    // Few responses have no percentile.
    let service = load.service_time_us.p50.or(load.service_time_us.mean)?;
    let rate = load.throughput_rps / f64::from(load.config.connections.max(1));
    let within = |value: f64, (low, high): (f64, f64)| (low..=high).contains(&value);
    let is_alike = load.config.model == LoadModel::Closed
        && load.config.streams == 1
        && load.config.pipeline == 1
        && within(service, DELAYED_ACK_US)
        && within(rate, DELAYED_ACK_RATE);
    let writes =
        server.calls.as_ref().and_then(|calls| calls.writes).map(|writes| writes.per_response);
    let nodelay = server.sockets.as_ref().and_then(|sockets| sockets.nodelay);
    let segments = load.tcp.data_segments_per_response;
    let in_parts = |n: Option<f64>| n.is_none_or(|n| n >= SEVERAL_WRITES);
    // Where it is set, or a response is written and comes in one piece, nothing waits for an
    // acknowledgement.
    if nodelay.is_some_and(|share| share > 0.5) || !in_parts(writes) || !in_parts(segments) {
        return None;
    }
    let is_known = nodelay.is_some() && writes.is_some() && segments.is_some();
    let confidence = if is_known { Confidence::High } else { Confidence::Medium };
    is_alike.then(|| {
        let written = writes.map_or(String::new(), |n| format!(", each in {n:.1} writes"));
        let sentence = format!(
            "Nagle's algorithm and delayed acknowledgements: each connection gets {rate:.0} \
             responses per second{written}. Half of them take {:.0} ms, the time for which Linux \
             delays an acknowledgement. Set TCP_NODELAY in the server, or write each response at \
             once.",
            service / 1e3
        );
        let evidence = json!({
            "service_p50_us": service, "rate_per_connection": rate, "writes_per_response": writes,
            "segments_per_response": segments, "nodelay": nodelay,
        });
        verdict(Resource::DelayedAck, confidence, sentence, evidence)
    })?
}

/// Connections that found the server's queue of connections full are tried again a second later.
pub(super) fn accept_queue(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let used = server.cpu_utilisation;
    if used.is_some_and(|used| used >= SERVER_BUSY) {
        return None;
    }
    // Where connections live on, a queue that was full once limits nothing; nor do a few of very
    // many. Servers may close connections, too.
    let replaced = load.connections.opened.saturating_sub(load.config.connections.into());
    let are_new = replaced > 0 && 2 * replaced >= load.exchanges.completed;
    load.config.requests_per_connection.map(|_| ()).or(are_new.then_some(()))?;
    let is_many = |n: &u64| *n > 0 && *n as f64 >= MIN_OVERFLOWS * load.connections.opened as f64;
    let overflows = server.network.and_then(|network| network.listen_overflows).filter(is_many);
    let queued = queued_connections(load, server);
    let seen = match (overflows, queued) {
        (Some(overflows), _) => {
            format!("{overflows} connections found it full, and are retried after a second")
        }
        (None, Some(queued)) => {
            format!(
                "{queued} connections waited in it, with {:.0} requests in flight",
                load.in_flight.mean
            )
        }
        (None, None) => return None,
    };
    let sentence = format!(
        "The server's accept queue: {seen}{}. Let the server listen with a longer backlog \
         (net.core.somaxconn caps it), or accept faster.",
        used.map_or(String::new(), |used| format!(
            ", while the server used {} of its CPU",
            percent(used)
        ))
    );
    // A full CPU would be why it accepts no faster.
    let confidence = if used.is_some() { Confidence::Medium } else { Confidence::Low };
    let evidence = json!({"listen_overflows": overflows, "queued": queued});
    verdict(Resource::AcceptQueue, confidence, sentence, evidence)
}

/// Connections in the accept queue when the sockets were sampled. `None`: they were fewer than half
/// of the requests in flight, or are not known.
fn queued_connections(load: &LoadResult, server: &ServerUse) -> Option<u64> {
    let queued: u64 =
        server.sockets.as_ref()?.listeners.iter().map(|listener| listener.queued).sum();
    (queued > 1 && queued as f64 >= MAX_QUEUED * load.in_flight.mean).then_some(queued)
}

/// Memory that was written out, or let go, and has to be read again.
pub(super) fn memory(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    has_room(server)?;
    let waited = server.working.as_ref().map(|w| w.share(ThreadState::Disk));
    let waited_much = waited.filter(|share| *share >= MUCH_OF_TIME);
    let faults = server.page_faults_major? as f64 / server.window_s;
    let each = Some(faults / load.throughput_rps).filter(|each| each.is_finite());
    let is_of_requests = each.is_some_and(|each| each >= MAJOR_FAULTS_EACH);
    if faults < MAJOR_FAULTS_PER_S || (waited_much.is_none() && !is_of_requests) {
        return None;
    }
    let (confidence, wait) = match waited_much {
        Some(share) => (
            Confidence::High,
            format!(", and the serving threads waited for it for {} of their time", percent(share)),
        ),
        None => (
            Confidence::Medium,
            each.map_or(String::new(), |each| format!(", {each:.1} per response")),
        ),
    };
    let sentence = format!(
        "Memory: {faults:.0} page faults per second read from a disk{wait}. Give the server more \
         memory."
    );
    let evidence = json!({
        "major_faults_per_s": faults, "major_faults_per_response": each, "disk_share": waited,
    });
    verdict(Resource::Memory, confidence, sentence, evidence)
}

pub(super) fn disk(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let wait = Wait::from_states(load, server, &[ThreadState::Disk])?;
    let sentence = format!("A disk: the server's {wait} waited for a disk");
    wait.verdict(Resource::Disk, Confidence::High, &sentence, "")
}

/// A lock, or any other turn that requests have to wait for.
pub(super) fn lock(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let wait = Wait::from_states(load, server, &[ThreadState::Lock])
        .filter(|wait| wait.working.threads > 1)?;
    if TimedWaits::from_use(server) != TimedWaits::Few {
        return None;
    }
    let sentence = format!("A lock: the server's {wait} waited for each other (futex)");
    let holders = wait.at_work(server);
    let (confidence, advice) = if !wait.is_each_with_a_request() {
        (Confidence::Medium, " They may instead wait for work that an unmonitored service delays.")
    } else if holders < MAX_OF_TIME {
        (
            Confidence::Medium,
            " No thread seems to hold it, so they may instead wait for a response of an \
             unmonitored service.",
        )
    } else if holders > ONE_HOLDER {
        (
            Confidence::Medium,
            " Several threads worked at a time, so the threads may instead wait for a pool.",
        )
    } else if wait.working.steady_workers > 0 {
        (
            Confidence::Medium,
            " The same thread worked all the time, so the others may instead wait for this worker.",
        )
    } else {
        (Confidence::High, "")
    };
    wait.verdict(Resource::Lock, confidence, &sentence, advice)
}

/// Threads that sleep while more requests wait for them than there are threads.
pub(super) fn workers(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let wait = Wait::of_time(load, server).filter(Wait::has_waiting_requests)?;
    let sentence = format!("The server's workers: its {wait} slept");
    // Threads of runtimes wait with a time-out, too, while they have no work.
    let is_sure = TimedWaits::from_use(server) == TimedWaits::Few
        && is_sleep_of_requests(server) == Some(true);
    let confidence = if is_sure { Confidence::High } else { Confidence::Medium };
    wait.verdict(
        Resource::Workers,
        confidence,
        &sentence,
        " Use more workers, or workers that do not sleep.",
    )
}

/// Threads that sleep, one for each request: none waits for a thread.
pub(super) fn sleep(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let wait = Wait::of_time(load, server).filter(|wait| !wait.has_waiting_requests())?;
    if load.config.model != LoadModel::Closed {
        return None;
    }
    let sentence = format!(
        "Too few requests in flight: each waits for time to pass. The server's {wait} slept"
    );
    // Where requests both sleep and wait for other threads, one may sleep while it holds a lock.
    let confidence = match TimedWaits::from_use(server) {
        TimedWaits::OncePerResponse => Confidence::Low,
        TimedWaits::Most | TimedWaits::Few => Confidence::Medium,
    };
    wait.verdict(Resource::Concurrency, confidence, &sentence, "")
}

/// Share of futex waits that ended by time-out, which count as sleep: `Thread.sleep` and condition
/// variables with a time-out wait like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimedWaits {
    /// Most of them.
    Most,
    /// Fewer, but as many as responses came: each request sleeps once, and waits for other threads.
    OncePerResponse,
    /// Too few to be in requests, or they were not counted.
    Few,
}

impl TimedWaits {
    fn from_use(server: &ServerUse) -> TimedWaits {
        let timed = |call: &Call| Some(call.errors?.saturating_sub(call.again?));
        let waits = futex_waits(server).and_then(|call| Some((call, timed(call)?)));
        match waits {
            Some((call, timed)) if timed > 0 && 2 * timed >= call.count => TimedWaits::Most,
            Some((call, timed)) if per_response(call, timed) >= A_SLEEP_EACH => {
                TimedWaits::OncePerResponse
            }
            _ => TimedWaits::Few,
        }
    }
}

/// Average number of serving threads that were asleep at a time. Where sleep is a futex wait, it
/// includes threads that wait for each other. `None`: thread states were not observed.
pub(super) fn asleep_threads(server: &ServerUse) -> Option<f64> {
    let working = server.working.as_ref()?;
    let waiting = match TimedWaits::from_use(server) {
        TimedWaits::Few => 0.0,
        TimedWaits::Most | TimedWaits::OncePerResponse => working.share(ThreadState::Lock),
    };
    Some((working.share(ThreadState::Sleep) + waiting) * working.threads as f64)
}

fn futex_waits(server: &ServerUse) -> Option<&Call> {
    server.calls.as_ref()?.by_name.get("futex(wait)")
}

fn per_response(call: &Call, part: u64) -> f64 {
    part as f64 / call.count.max(1) as f64 * call.per_response
}

/// Whether the sleep of threads may be that of requests. Threads with other tasks sleep, too, but
/// not once per response. `None`: calls were not counted.
fn is_sleep_of_requests(server: &ServerUse) -> Option<bool> {
    let calls = server.calls.as_ref()?;
    let sleeps =
        ["nanosleep", "clock_nanosleep"].into_iter().filter_map(|name| calls.by_name.get(name));
    let each: f64 = sleeps.map(|call| call.per_response).sum();
    Some(each >= A_SLEEP_EACH)
}

/// The server's CPU utilisation, if it has CPU time left.
fn has_room(server: &ServerUse) -> Option<f64> {
    server.cpu_utilisation.filter(|used| *used < SERVER_BUSY)
}

/// Most of the time of the threads that serve, spent in one way: without the time of those for
/// which no request was there.
struct Wait<'a> {
    working: &'a ServingThreads,
    share: f64,
    requests: f64,
    used: f64,
    futex_waits: Option<f64>,
    /// Others took CPU time.
    is_disturbed: bool,
}

impl<'a> Wait<'a> {
    /// Most of the time spent in these states.
    fn from_states(
        load: &LoadResult,
        server: &'a ServerUse,
        states: &[ThreadState],
    ) -> Option<Wait<'a>> {
        let used = has_room(server)?;
        let is_robbed = is_robbed(load, server);
        // A thread that waits for a CPU prolongs the wait for a lock that it holds. It prolongs
        // neither a sleep nor a wait for a disk: what a thread waits then is another state.
        let states = states.iter().filter(|state| !is_robbed || **state != ThreadState::Lock);
        let working = server.working.as_ref()?;
        let share: f64 = states.map(|state| working.share(*state)).sum();
        let requests = load.mean_at_server();
        // With fewer requests than threads some of them have nothing to do, and wait for work: so
        // much of the time is theirs.
        let idle = (1.0 - requests / working.threads as f64).max(0.0);
        let is_held_up = share - idle >= MAX_OF_TIME;
        let futex_waits = futex_waits(server).map(|call| call.per_response);
        let is_disturbed = is_disturbed(load, server);
        is_held_up.then_some(Wait { working, share, requests, used, futex_waits, is_disturbed })
    }

    /// Most of the time spent waiting for time to pass.
    fn of_time(load: &LoadResult, server: &'a ServerUse) -> Option<Wait<'a>> {
        if TimedWaits::from_use(server) != TimedWaits::Few {
            return Wait::from_states(load, server, &[ThreadState::Sleep, ThreadState::Lock]);
        }
        Wait::from_states(load, server, &[ThreadState::Sleep])
            .filter(|_| is_sleep_of_requests(server) != Some(false))
    }

    /// Whether so many more requests than threads were there that some waited for one.
    fn has_waiting_requests(&self) -> bool {
        self.requests >= MORE_REQUESTS * self.working.threads as f64
    }

    /// Threads that waited neither for the lock nor for a peer, at a time on average: a lock has a
    /// holder, which computes, sleeps or waits for a disk meanwhile.
    fn at_work(&self, server: &ServerUse) -> f64 {
        let held = [
            ThreadState::Running,
            ThreadState::Runnable,
            ThreadState::Sleep,
            ThreadState::Disk,
            ThreadState::Other,
        ];
        let held_s: f64 =
            held.iter().map(|state| self.working.share(*state) * self.working.lived_s()).sum();
        held_s / server.window_s
    }

    fn verdict(
        &self,
        resource: Resource,
        confidence: Confidence,
        sentence: &str,
        advice: &str,
    ) -> Option<Limiter> {
        let sentence = format!(
            "{sentence} for {} of {} time. On average, {} requests were at the server, and it used \
             {} of its CPU.{advice}",
            percent(self.share),
            if self.working.threads == 1 { "its" } else { "their" },
            if self.requests < 10.0 {
                format!("{:.1}", self.requests)
            } else {
                format!("{:.0}", self.requests)
            },
            percent(self.used)
        );
        let confidence =
            if self.is_disturbed { confidence.max(Confidence::Medium) } else { confidence };
        verdict(resource, confidence, sentence, self.evidence())
    }

    /// Whether the threads that wait make up most of the requests that are there: each waits for
    /// its turn. Threads of a pool that wait for work have no request.
    fn is_each_with_a_request(&self) -> bool {
        self.share * self.working.threads as f64 >= self.requests / 2.0
    }

    fn evidence(&self) -> Value {
        let all = self.working.lived_s();
        let share = |s: f64| if all > 0.0 { s / all } else { 0.0 };
        let states: serde_json::Map<String, Value> = self
            .working
            .states_s
            .iter()
            .map(|(state, s)| ((*state).into(), json!(share(*s))))
            .collect();
        json!({
            "threads": self.working.threads, "states": states, "in_flight": self.requests,
            "server_utilisation": self.used, "futex_waits_per_response": self.futex_waits,
        })
    }
}

/// `8 threads that serve were`.
impl std::fmt::Display for Wait<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.working.threads {
            1 => f.write_str("serving thread"),
            n => write!(f, "{n} serving threads"),
        }
    }
}

//! Derives the limiter of a server that had CPU time left from the waits of its threads. Thread
//! states, system calls and sockets show whether the server waited for a lock, a disk, a timer or a
//! peer.

use std::ops::RangeInclusive;

use dyno_archive::plan::LoadModel;
use dyno_archive::sample::ThreadState;
use serde_json::{Value, json};

use super::conditions::{is_disturbed, may_lack_cpu};
use super::polling::idle_waits;
use super::resource::{Confidence, Limiter, Resource};
use super::server::may_have_found_queue_full;
use super::thresholds::SERVER_BUSY;
use crate::load::LoadResult;
use crate::machine::MachineResult;
use crate::number_format::{percent, plural, was};
use crate::server::{Call, ServerUse, ServingThreads};

/// A kind of wait limits the server if it takes at least this share of the serving threads' time.
const LIMITING_SHARE: f64 = 0.5;

/// If page faults read from a disk, waiting for the disk is the limit if it takes at least this
/// share of the serving threads' time.
const DISK_SHARE: f64 = 0.3;

/// The server lacks memory if at least this many page faults per second read from a disk.
const MAJOR_FAULTS_PER_S: f64 = 50.0;

/// Page faults delay requests if at least this many per response read from a disk, even if thread
/// states show little. Waits for a fast disk are short, and the kernel uses CPU time for each
/// fault.
const MAJOR_FAULTS_PER_RESPONSE: f64 = 1.0;

/// Memory was not short if programs of the machine waited for memory (the kernel's memory pressure,
/// PSI) for less than this share of the time. A pressure this low shows that the kernel neither
/// evicted pages nor read evicted pages again.
const MIN_MEMORY_PRESSURE: f64 = 1e-5;

/// Threads waited for evicted pages if the memory pressure is at least this many times the share of
/// time in which the threads waited for a disk. First reads of files do not add to memory pressure.
const PRESSURE_OF_DISK: f64 = 0.5;

/// Largest share of the server's CPU time that its garbage collector uses without being the limit.
const GC_SHARE: f64 = 0.3;

/// Range of response times that a delayed acknowledgement causes, microseconds. Linux delays an
/// acknowledgement by at least 40 ms, and the response comes a little after it.
const DELAYED_ACK_US: RangeInclusive<f64> = 38_000.0..=60_000.0;

/// Range of responses per connection and second if each waits for a delayed acknowledgement.
const DELAYED_ACK_RATE: RangeInclusive<f64> = 16.0..=26.0;

/// Responses may wait for delayed acknowledgements if at least this many acknowledgements per
/// response are delayed.
const DELAYED_ACKS_PER_RESPONSE: f64 = 0.5;

/// The server may also write to a back end if its writes per response exceed the TCP segments per
/// response by at least this number.
const OTHER_WRITES: f64 = 0.5;

/// Minimum share of new connections that must find the accept queue full to limit a load.
const OVERFLOW_SHARE: f64 = 0.001;

/// The accept queue limits a load if it contains connections of at least this share of the requests
/// in flight.
const QUEUED_SHARE: f64 = 0.5;

/// Requests sleep if there are at least this many sleeps per response. It is below 1, because calls
/// are counted in slices of the window, which may miss the sleep of a response.
const SLEEPS_PER_RESPONSE: f64 = 0.5;

/// No thread holds the lock if on average fewer than this many threads work.
const MIN_HOLDERS: f64 = 0.5;

/// Threads take turns with one lock if on average at most this many threads work.
const MAX_HOLDERS: f64 = 1.5;

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

/// The server's CPU is full, and its garbage collector used much of it.
pub(super) fn gc(_: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let used = server.cpu_utilisation.filter(|used| *used >= SERVER_BUSY)?;
    let share = server.role_share("gc").filter(|share| *share > GC_SHARE)?;
    let sentence = format!(
        "The garbage collector: it used {} of the server's CPU time, and the server used {} of its \
         allowed CPU time. Give the server more memory, or allocate less per request.",
        percent(share),
        percent(used)
    );
    Some(Limiter::new(
        Resource::Gc,
        Confidence::High,
        sentence,
        json!({"gc_share": share, "cpu_utilisation": used}),
    ))
}

/// Nagle's algorithm at the server waits for an acknowledgement that the client delays. The server
/// writes each response in parts, and the second part waits for 40 ms (RFC 896, RFC 1122 4.2.3.2).
pub(super) fn delayed_ack(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    utilisation_below_limit(server)?;
    // With few responses no percentile is known.
    let service_us = load.service_time_us.p50.or(load.service_time_us.mean)?;
    let rate = load.throughput_rps / f64::from(load.config.connections.max(1));
    let has_one_request_per_connection = load.config.model == LoadModel::Closed
        && load.config.streams == 1
        && load.config.pipeline == 1;
    let shows_delay = has_one_request_per_connection
        && DELAYED_ACK_US.contains(&service_us)
        && DELAYED_ACK_RATE.contains(&rate);
    let writes =
        server.calls.as_ref().and_then(|calls| calls.writes).map(|writes| writes.per_response);
    let nodelay = server.sockets.as_ref().and_then(|sockets| sockets.nodelay);
    let segments = load.tcp.data_segments_per_response;
    let may_be_several = |n: Option<f64>| n.is_none_or(|n| n >= SEVERAL_WRITES);
    // With TCP_NODELAY, or if a response leaves in one part, no write waits for an acknowledgement.
    let has_nodelay = nodelay.is_some_and(|share| share > 0.5);
    if !shows_delay || has_nodelay || !may_be_several(writes) || !may_be_several(segments) {
        return None;
    }
    let responses = load.throughput_rps * server.window_s;
    let delayed_acks = server
        .network
        .and_then(|network| network.delayed_acks)
        .map(|acks| acks as f64 / responses)
        .filter(|acks| acks.is_finite());
    // A server that queries a service between two writes of a response can show the same times and
    // acknowledgements.
    let is_sure = nodelay.is_some()
        && delayed_acks.is_some_and(|acks| acks >= DELAYED_ACKS_PER_RESPONSE)
        && writes.zip(segments).is_some_and(|(writes, parts)| writes < parts + OTHER_WRITES)
        && !may_spend_time(server, service_us - *DELAYED_ACK_US.start());
    let confidence = if is_sure { Confidence::High } else { Confidence::Medium };
    let writes_text = writes.map_or(String::new(), |n| format!(", each in {n:.1} writes"));
    let sentence = format!(
        "Nagle's algorithm and delayed acknowledgements: each connection gets {rate:.0} responses \
         per second{writes_text}. Half of the responses take {:.0} ms or more, about the time for \
         which Linux delays an acknowledgement. Set TCP_NODELAY in the server, or send each \
         response in one write.",
        service_us / 1e3
    );
    let evidence = json!({
        "service_p50_us": service_us, "rate_per_connection": rate,
        "writes_per_response": writes, "segments_per_response": segments, "nodelay": nodelay,
        "delayed_acks_per_response": delayed_acks,
    });
    Some(Limiter::new(Resource::DelayedAck, confidence, sentence, evidence))
}

/// Whether a response may take the server longer than this time, because the server sleeps, waits
/// for a timer, or computes for that long. An unknown counter excludes none of the three.
fn may_spend_time(server: &ServerUse, time_us: f64) -> bool {
    let Some(calls) = server.calls.as_ref().filter(|calls| calls.has_results()) else {
        return true;
    };
    may_requests_sleep(server) != Some(false)
        || TimedWaits::from_use(server) != TimedWaits::Few
        || idle_waits(calls).is_some_and(|waits| waits >= SLEEPS_PER_RESPONSE)
        || server.cpu_us_per_request.is_none_or(|cpu_us| cpu_us > time_us)
}

/// New connections wait in the server's accept queue, or find it full and are retried a second
/// later.
pub(super) fn accept_queue(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let used = server.cpu_utilisation;
    if used.is_some_and(|used| used >= SERVER_BUSY) {
        return None;
    }
    // The queue limits only a load that opens connections all the time: as planned, or because the
    // server closes connections after one or two responses.
    let replaced = load.connections.opened.saturating_sub(load.config.connections.into());
    let are_closed_by_server = replaced > 0 && 2 * replaced >= load.exchanges.completed;
    if load.config.requests_per_connection.is_none() && !are_closed_by_server {
        return None;
    }
    let are_many = |n: &u64| *n > 0 && *n as f64 >= OVERFLOW_SHARE * load.connections.opened as f64;
    let overflows = server
        .network
        .and_then(|network| network.listen_overflows)
        .filter(|n| are_many(n) && may_have_found_queue_full(load));
    let queued = queued_connections(load, server);
    let observation = match (overflows, queued) {
        (Some(overflows), _) => {
            format!(
                "{} found the queue full, and {} retried after a second",
                plural(overflows, "connection"),
                was(overflows)
            )
        }
        (None, Some(queued)) => {
            format!(
                "{queued} connections waited in the queue, with {:.0} requests in flight",
                load.in_flight.mean
            )
        }
        (None, None) => return None,
    };
    let sentence = format!(
        "The server's accept queue: {observation}{}. Let the server listen with a longer backlog \
         (net.core.somaxconn caps it), or accept faster.",
        used.map_or(String::new(), |used| format!(
            ", while the server used {} of its CPU",
            percent(used)
        ))
    );
    // A full CPU would explain the queue, and is excluded only if the utilisation is known.
    let confidence = if used.is_some() { Confidence::Medium } else { Confidence::Low };
    let evidence = json!({"listen_overflows": overflows, "queued": queued});
    Some(Limiter::new(Resource::AcceptQueue, confidence, sentence, evidence))
}

/// Returns the number of connections in full accept queues when the sockets were sampled. `None`:
/// the number is unknown, or less than half of the requests in flight. A queue that is not full
/// only shows that the server accepts when it is ready for a connection.
fn queued_connections(load: &LoadResult, server: &ServerUse) -> Option<u64> {
    let listeners = &server.sockets.as_ref()?.listeners;
    let full = listeners.iter().filter(|listener| listener.queued >= listener.backlog);
    let queued: u64 = full.map(|listener| listener.queued).sum();
    (queued > 1 && queued as f64 >= QUEUED_SHARE * load.in_flight.mean).then_some(queued)
}

/// Page faults of the server read from a disk and delay requests. The server lacks memory if the
/// kernel evicted these pages. Otherwise the faults are first reads of files, which wait for the
/// disk.
pub(super) fn memory(
    load: &LoadResult,
    server: &ServerUse,
    machine: &MachineResult,
) -> Option<Limiter> {
    utilisation_below_limit(server)?;
    let disk_share = server.serving.as_ref().map(|serving| serving.share(ThreadState::Disk));
    let large_disk_share = disk_share.filter(|share| *share >= DISK_SHARE);
    let faults_per_s = server.page_faults_major? as f64 / server.window_s;
    let faults_per_response =
        Some(faults_per_s / load.throughput_rps).filter(|faults| faults.is_finite());
    let delay_requests =
        faults_per_response.is_some_and(|faults| faults >= MAJOR_FAULTS_PER_RESPONSE);
    if faults_per_s < MAJOR_FAULTS_PER_S || (large_disk_share.is_none() && !delay_requests) {
        return None;
    }
    let detail = match large_disk_share {
        Some(share) => {
            format!(
                ", and the serving threads waited for the disk for {} of their time",
                percent(share)
            )
        }
        None => faults_per_response
            .map_or(String::new(), |faults| format!(", {faults:.1} per response")),
    };
    let observation = format!("{faults_per_s:.0} page faults per second read from a disk{detail}.");
    let evidence = json!({
        "major_faults_per_s": faults_per_s,
        "major_faults_per_response": faults_per_response,
        "disk_share": disk_share,
        "memory_pressure": machine.pressure_memory,
    });
    let pressure = machine.pressure_memory;
    if pressure.is_some_and(|share| share < MIN_MEMORY_PRESSURE) {
        let sentence = format!(
            "A disk: {observation} No program waited for memory, so the server probably reads \
             these pages for the first time."
        );
        return Some(Limiter::new(Resource::Disk, Confidence::Medium, sentence, evidence));
    }
    let are_evicted_pages = large_disk_share
        .zip(pressure)
        .is_some_and(|(disk_share, pressure)| pressure >= PRESSURE_OF_DISK * disk_share);
    let confidence = if are_evicted_pages { Confidence::High } else { Confidence::Medium };
    let sentence = format!("Memory: {observation} Give the server more memory.");
    Some(Limiter::new(Resource::Memory, confidence, sentence, evidence))
}

/// The serving threads wait for a disk.
pub(super) fn disk(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let wait = Wait::from_states(load, server, &[ThreadState::Disk])?;
    let sentence = format!("A disk: the server's {wait} waited for a disk");
    Some(wait.limiter(Resource::Disk, Confidence::High, &sentence, ""))
}

/// The serving threads wait for each other: for a lock, or in another way that makes requests take
/// turns.
pub(super) fn lock(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let wait = Wait::from_states(load, server, &[ThreadState::Lock])
        .filter(|wait| wait.serving.threads > 1)?;
    if TimedWaits::from_use(server) != TimedWaits::Few {
        return None;
    }
    let lock_calls = lock_calls_per_response(server);
    let are_in_kernel = lock_calls.is_some_and(|n| n < MIN_LOCK_CALLS);
    let place = match lock_calls {
        Some(_) if are_in_kernel => " (in the kernel)",
        Some(_) => " (futex)",
        None => "",
    };
    let sentence = format!("A lock: the server's {wait} waited for each other{place}");
    let holders = wait.threads_at_work(server);
    let (confidence, doubt) = if are_in_kernel {
        (
            Confidence::Medium,
            " The threads hardly called futex, so they may instead wait for a file system that \
             writes to a disk.",
        )
    } else if !wait.waiters_have_requests() {
        (
            Confidence::Medium,
            " The threads may instead wait for work that an unmonitored service delays.",
        )
    } else if holders < MIN_HOLDERS {
        (
            Confidence::Medium,
            " No thread seems to hold the lock, so the threads may instead wait for a response of \
             an unmonitored service.",
        )
    } else if holders > MAX_HOLDERS {
        (
            Confidence::Medium,
            " Several threads worked at a time, so the threads may instead wait for a pool.",
        )
    } else if !writes_once(server) {
        (
            Confidence::Medium,
            " The threads may instead wait for work, while requests wait for a service to which \
             the server writes.",
        )
    } else if wait.serving.steady_threads > 0 {
        (
            Confidence::Medium,
            " The same thread worked all the time, so the other threads may instead wait for that \
             thread.",
        )
    } else {
        (Confidence::High, "")
    };
    Some(wait.limiter(Resource::Lock, confidence, &sentence, doubt))
}

/// The serving threads sleep in requests, and there are more requests than threads, so requests
/// wait for a thread.
pub(super) fn workers(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let wait = Wait::from_sleep(load, server).filter(Wait::has_waiting_requests)?;
    let sentence = format!("The server's workers: its {wait} slept");
    // Idle threads of language runtimes wait in futex calls with a time-out too, so such waits do
    // not show for sure that requests sleep.
    let is_sure =
        TimedWaits::from_use(server) == TimedWaits::Few && may_requests_sleep(server) == Some(true);
    let confidence = if is_sure { Confidence::High } else { Confidence::Medium };
    Some(wait.limiter(
        Resource::Workers,
        confidence,
        &sentence,
        " Use more workers, or workers that do not sleep.",
    ))
}

/// The serving threads sleep in requests, but each request has a thread. The server would therefore
/// serve more requests in flight.
pub(super) fn sleep(load: &LoadResult, server: &ServerUse) -> Option<Limiter> {
    let wait = Wait::from_sleep(load, server).filter(|wait| !wait.has_waiting_requests())?;
    if load.config.model != LoadModel::Closed {
        return None;
    }
    let sentence =
        format!("Too few requests in flight: each waits for a timer. The server's {wait} slept");
    // If requests both sleep and wait for other threads, a request may sleep while it holds a lock.
    let confidence = match TimedWaits::from_use(server) {
        TimedWaits::OncePerResponse => Confidence::Low,
        TimedWaits::Most | TimedWaits::Few => Confidence::Medium,
    };
    Some(wait.limiter(Resource::Concurrency, confidence, &sentence, ""))
}

/// Frequency of futex waits that end by time-out. They are a form of sleep, because `Thread.sleep`
/// and condition variables with a time-out use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimedWaits {
    /// Most futex waits end by time-out.
    Most,
    /// Fewer than half end by time-out, but about one per response. Each request sleeps once, and
    /// waits for other threads.
    OncePerResponse,
    /// Too few end by time-out for requests to sleep, or calls were not counted.
    Few,
}

impl TimedWaits {
    fn from_use(server: &ServerUse) -> TimedWaits {
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
fn may_requests_sleep(server: &ServerUse) -> Option<bool> {
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
fn writes_once(server: &ServerUse) -> bool {
    let writes = server.calls.as_ref().and_then(|calls| calls.writes);
    writes.is_some_and(|writes| writes.per_response <= ONE_WRITE)
}

/// Returns the server's CPU utilisation if it has CPU time left.
fn utilisation_below_limit(server: &ServerUse) -> Option<f64> {
    server.cpu_utilisation.filter(|used| *used < SERVER_BUSY)
}

/// A kind of wait that takes most of the serving threads' time, apart from the time in which
/// threads had no request.
struct Wait<'a> {
    serving: &'a ServingThreads,
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

impl<'a> Wait<'a> {
    /// Returns the wait in these states. `None`: the states do not take most of the time.
    fn from_states(
        load: &LoadResult,
        server: &'a ServerUse,
        states: &[ThreadState],
    ) -> Option<Wait<'a>> {
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
        (share - idle_share >= LIMITING_SHARE).then(|| Wait {
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
    fn from_sleep(load: &LoadResult, server: &'a ServerUse) -> Option<Wait<'a>> {
        if TimedWaits::from_use(server) != TimedWaits::Few {
            return Wait::from_states(load, server, &[ThreadState::Sleep, ThreadState::Lock]);
        }
        Wait::from_states(load, server, &[ThreadState::Sleep])
            .filter(|_| may_requests_sleep(server) != Some(false))
    }

    /// Whether there were more requests than threads, so that some requests waited for a thread.
    fn has_waiting_requests(&self) -> bool {
        self.requests >= REQUESTS_PER_THREAD * self.serving.threads as f64
    }

    /// Returns the mean number of threads that waited neither for the lock nor for a peer. The
    /// holder of a lock computes, sleeps or waits for a disk, so this counts possible holders.
    fn threads_at_work(&self, server: &ServerUse) -> f64 {
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
    fn limiter(
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
    fn waiters_have_requests(&self) -> bool {
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
impl std::fmt::Display for Wait<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.serving.threads {
            1 => f.write_str("serving thread"),
            n => write!(f, "{n} serving threads"),
        }
    }
}

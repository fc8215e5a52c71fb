//! Tests of the revised limiters, with servers of known queues at several numbers of requests in
//! flight.

use serde_json::json;

use super::*;
use crate::backend_use::BackendUse;
use crate::fixture::five_block_report;
use crate::server::{Call, CallRates, ServingThreads, WithoutRequests};

use Confidence::{High, Low, Medium};
use Resource::{
    Concurrency, CpuQuota, Elsewhere, Lock, OtherPrograms, ServerCpu, ServerThread, Unknown,
    Workers,
};

/// A step: requests in flight, throughput, the server's CPU utilisation, and the limiter that the
/// step alone shows.
type Step = (u32, f64, f64, Resource, Confidence);

fn trials(steps: &[Step]) -> Vec<TrialResult> {
    let base = five_block_report().trials.into_iter().find(|trial| trial.valid).unwrap();
    let trial = |(index, step): (usize, &Step)| {
        let (in_flight, throughput_rps, cpu, resource, confidence) = *step;
        let mut trial = base.clone();
        trial.cell.step = index;
        trial.step.in_flight = u64::from(in_flight);
        trial.load.in_flight.mean = f64::from(in_flight);
        trial.load.throughput_rps = throughput_rps;
        // Little's law.
        trial.load.response_time_us.mean = Some(f64::from(in_flight) / throughput_rps * 1e6);
        trial.server.cpu_utilisation = Some(cpu);
        // The server has one thread and may use one CPU, for which it does not wait.
        trial.server.cpu_allowed_s = Some(trial.server.window_s);
        trial.server.run_delay_s = Some(0.0);
        set_busiest_thread(&mut trial, cpu);
        // The server sleeps once per response, and its thread states were not observed.
        let responses = throughput_rps * trial.server.window_s;
        trial.server.context_switches_voluntary = Some(responses as u64);
        (trial.server.serving, trial.server.calls) = (None, None);
        trial.limiter = Limiter::new(resource, confidence, "It.".into(), json!({"own": 1}));
        trial
    };
    steps.iter().enumerate().map(trial).collect()
}

fn set_busiest_thread(trial: &mut TrialResult, used: f64) {
    trial.server.busiest_thread_utilisation = Some(used);
    trial.server.busiest_serving_utilisation = Some(used);
}

fn revise(steps: &[Step]) -> Vec<Limiter> {
    let mut trials = trials(steps);
    revise_limiters(&mut trials);
    trials.into_iter().map(|trial| trial.limiter).collect()
}

fn verdicts(steps: &[Step]) -> Vec<(Resource, Confidence)> {
    revise(steps).iter().map(|limiter| (limiter.resource, limiter.confidence)).collect()
}

/// The server sends one request at a time to a back end, which takes 5 ms.
#[test]
fn queued_requests_are_not_too_few() {
    let steps = [
        (1, 183.0, 0.02, Concurrency, Medium),
        (4, 190.0, 0.02, Concurrency, Medium),
        (16, 190.0, 0.02, Concurrency, Medium),
        (64, 190.0, 0.02, Elsewhere, Medium),
    ];
    for limiter in revise(&steps) {
        assert_eq!((limiter.resource, limiter.confidence), (Elsewhere, High), "{limiter:?}");
        assert!(
            limiter.sentence.contains("About 1.0 requests are served at a time"),
            "{}",
            limiter.sentence
        );
        assert!(
            limiter.evidence["steps"][1]["throughput_rps"].is_f64() && limiter.evidence["own"] == 1
        );
    }
}

/// Eight threads sleep 20 ms for each request.
#[test]
fn steps_below_pool_width_have_too_few_requests() {
    let steps = [
        (1, 49.0, 0.01, Concurrency, Medium),
        (4, 196.0, 0.01, Workers, High),
        (16, 392.0, 0.01, Workers, High),
        (64, 392.0, 0.01, Workers, High),
    ];
    assert_eq!(
        verdicts(&steps),
        [(Concurrency, High), (Concurrency, High), (Workers, High), (Workers, High)]
    );
    assert!(revise(&steps)[3].sentence.contains("About 8.0 requests are served at a time"));
}

/// A thread per connection sleeps for 20 ms per request. No request waits for another, so the
/// highest step also has too few requests.
#[test]
fn growing_throughput_excludes_locks_and_pools() {
    let steps = [
        (1, 50.0, 0.01, Concurrency, Medium),
        (4, 200.0, 0.01, Lock, High),
        (16, 800.0, 0.02, Workers, High),
    ];
    assert_eq!(verdicts(&steps), [(Concurrency, High); 3]);
}

/// Threads or workers block for each request. The step has as many requests as threads, or a few
/// more, and throughput does not grow with more requests.
#[test]
fn flat_throughput_without_queue_is_not_too_few() {
    let threads = |resource, confidence| {
        [
            (1, 50.0, 0.01, Concurrency, Medium),
            (16, 790.0, 0.05, resource, confidence),
            (64, 800.0, 0.05, resource, confidence),
            (256, 800.0, 0.05, resource, confidence),
        ]
    };
    assert_eq!(verdicts(&threads(Lock, Medium))[1..], [(Lock, Medium); 3]);
    assert_eq!(verdicts(&threads(OtherPrograms, Low))[1..], [(OtherPrograms, Low); 3]);
    let workers = [
        (1, 20.0, 0.01, Concurrency, Medium),
        (12, 200.0, 0.02, Workers, High),
        (64, 200.0, 0.02, Workers, High),
    ];
    assert_eq!(verdicts(&workers)[1..], [(Workers, High); 2]);
    // No higher step shows that throughput stays.
    assert_eq!(verdicts(&workers[..2])[1], (Concurrency, High));
}

/// A limiter that only one step shows applies to the server's other steps.
#[test]
fn limiter_of_one_step_applies_to_other_steps() {
    let steps = [
        (1, 180.0, 0.02, Concurrency, Medium),
        (4, 190.0, 0.02, Concurrency, Medium),
        (32, 190.0, 0.02, Lock, High),
    ];
    assert_eq!(verdicts(&steps), [(Lock, High); 3]);
    let sentence = &revise(&steps)[0].sentence;
    assert!(sentence.starts_with("A lock (found with 32 requests in flight): "), "{sentence}");
}

/// A server that polls uses its whole CPU at any load.
#[test]
fn full_cpu_at_lower_throughput_lowers_confidence() {
    let steps = [(1, 36_000.0, 1.0, ServerCpu, High), (4, 130_000.0, 1.0, ServerCpu, High)];
    assert_eq!(verdicts(&steps), [(ServerCpu, Medium); 2]);
    let steps = [
        (1, 4_000.0, 0.93, ServerCpu, High),
        (4, 4_600.0, 1.0, ServerCpu, High),
        (16, 4_700.0, 1.0, ServerCpu, High),
    ];
    assert_eq!(verdicts(&steps), [(ServerCpu, High); 3]);
}

/// One request in flight uses 60 % of the CPU: the network round trip takes the rest of the time.
#[test]
fn steps_below_full_cpu_have_too_few_requests() {
    let steps = [(1, 3_000.0, 0.6, Concurrency, Medium), (4, 5_000.0, 1.0, ServerCpu, High)];
    assert_eq!(verdicts(&steps), [(Concurrency, High), (ServerCpu, High)]);
    let steps = [(1, 3_000.0, 0.8, Unknown, Low), (4, 3_900.0, 1.0, ServerCpu, High)];
    assert_eq!(verdicts(&steps)[0], (Concurrency, High));
    let steps = [(1, 3_000.0, 0.88, Unknown, Low), (4, 3_200.0, 1.0, ServerCpu, High)];
    assert_eq!(verdicts(&steps)[0], (ServerCpu, High));
    let steps = [(1, 3_000.0, 0.85, Unknown, Low), (4, 3_500.0, 1.0, ServerCpu, High)];
    assert_eq!(verdicts(&steps)[0], (ServerCpu, Medium));
    // The server had headroom, but the full CPU served no more requests: the limiter stays.
    let steps = [(1, 3_000.0, 0.7, Concurrency, Medium), (4, 3_100.0, 1.0, ServerCpu, High)];
    assert_eq!(verdicts(&steps)[0], (Concurrency, Medium));
    let mut trials =
        trials(&[(1, 3_000.0, 0.3, Concurrency, Medium), (4, 3_100.0, 0.3, Concurrency, Medium)]);
    // The generator may be the limit of the second step.
    trials[1].load.client.headroom.need = 0.8;
    revise_limiters(&mut trials);
    assert_eq!(trials[0].limiter.resource, Concurrency);
}

/// The CPU of a server that polls is full at an offered rate too.
#[test]
fn full_cpu_of_open_loop_lowers_confidence_of_closed_loop() {
    let mut trials =
        trials(&[(1, 36_000.0, 1.0, ServerCpu, High), (64, 2_000.0, 1.0, ServerCpu, High)]);
    (trials[1].load.config.model, trials[1].step.shape.rate) = (LoadModel::Open, Some(2_000.0));
    revise_limiters(&mut trials);
    assert!(trials.iter().all(|t| t.limiter.confidence == Medium));
}

#[test]
fn queue_with_monitored_back_end_names_back_end() {
    let mut trials =
        trials(&[(1, 302.0, 0.05, Concurrency, Medium), (8, 317.0, 0.05, Concurrency, Medium)]);
    let server = trials[0].server.clone();
    let backend = BackendUse { name: "db".into(), cpu_share: None, shares_cpus: false, server };
    trials.iter_mut().for_each(|trial| trial.backends = vec![backend.clone()]);
    revise_limiters(&mut trials);
    let limiter = &trials[1].limiter;
    assert_eq!((limiter.resource, limiter.confidence), (Resource::Backend, Medium));
    assert!(
        limiter.claim().starts_with("A back end (db), or the connections to it: "),
        "{}",
        limiter.sentence
    );
}

/// A thread that is always busy serves no more requests than it does.
#[test]
fn growing_throughput_excludes_full_thread() {
    let steps = |rps| [(4, 1_000.0, 0.3, ServerThread, High), (16, rps, 0.6, Concurrency, Medium)];
    assert_eq!(verdicts(&steps(2_000.0))[0], (Concurrency, High));
    assert_eq!(verdicts(&steps(1_240.0))[0], (ServerThread, High));
}

/// One thread on two CPUs is nearly full at 8 requests in flight, and full at 64.
#[test]
fn nearly_full_thread_is_limiter_if_throughput_stays() {
    let steps =
        |rps| [(8, rps, 0.44, Concurrency, Medium), (64, 22_800.0, 0.49, ServerThread, High)];
    let verdicts = |rps: f64, first_thread: f64| {
        let mut trials = trials(&steps(rps));
        set_busiest_thread(&mut trials[0], first_thread);
        set_busiest_thread(&mut trials[1], 0.97);
        revise_limiters(&mut trials);
        [0, 1].map(|i| (trials[i].limiter.resource, trials[i].limiter.confidence))
    };
    assert_eq!(verdicts(21_000.0, 0.88), [(ServerThread, Medium), (ServerThread, High)]);
    assert_eq!(verdicts(21_000.0, 0.75)[0], (ServerThread, Medium));
    // The thread had time left, although it was full at the other step.
    assert_eq!(verdicts(21_000.0, 0.74)[0], (Elsewhere, Medium));
    // Throughput is not flat.
    assert_eq!(verdicts(20_000.0, 0.88)[0], (Concurrency, Medium));
}

/// Bursts of a server with CPU time left are throttled, but more requests are served.
#[test]
fn growing_throughput_excludes_likely_quota() {
    let steps =
        |confidence| [(4, 1_000.0, 0.3, CpuQuota, confidence), (16, 2_000.0, 0.6, CpuQuota, High)];
    assert_eq!(verdicts(&steps(Medium)), [(Concurrency, High), (CpuQuota, High)]);
    assert_eq!(verdicts(&steps(High)), [(CpuQuota, High); 2]);
    let flat = [(4, 1_000.0, 0.3, CpuQuota, Medium), (16, 1_000.0, 0.3, CpuQuota, Medium)];
    assert_eq!(verdicts(&flat), [(CpuQuota, Medium); 2]);
}

/// A disk serves many requests at a time.
#[test]
fn growth_does_not_exclude_disk() {
    let steps = [(8, 1_958.0, 0.3, Resource::Disk, High), (32, 3_432.0, 0.4, Resource::Disk, High)];
    assert_eq!(verdicts(&steps), [(Resource::Disk, High); 2]);
}

#[test]
fn incomparable_steps_keep_limiters() {
    // Throughput is neither flat nor growing.
    let near = [(8, 100.0, 0.1, Lock, High), (16, 118.0, 0.1, Lock, High)];
    assert_eq!(verdicts(&near), [(Lock, High); 2]);
    // The numbers of requests in flight are too close.
    let close = [(8, 100.0, 0.1, Concurrency, Medium), (10, 100.0, 0.1, Concurrency, Medium)];
    assert_eq!(verdicts(&close), [(Concurrency, Medium); 2]);
    let flat = [(1, 100.0, 0.1, Concurrency, Medium), (8, 100.0, 0.1, Concurrency, Medium)];
    // The second step belongs to another curve, or is not valid.
    let first_resource = |change: fn(&mut TrialResult)| {
        let mut trials = trials(&flat);
        change(&mut trials[1]);
        revise_limiters(&mut trials);
        trials[0].limiter.resource
    };
    assert_eq!(first_resource(|_| {}), Elsewhere);
    assert_eq!(first_resource(|t| t.valid = false), Concurrency);
    assert_eq!(first_resource(|t| t.step.shape.streams = 2), Concurrency);
    assert_eq!(first_resource(|t| t.cell.arm += 1), Concurrency);
    assert_eq!(first_resource(|t| t.load.config.model = LoadModel::Open), Concurrency);
}

/// If other programs use the machine, the same limiter is only likely.
#[test]
fn disturbed_steps_lower_confidence() {
    let flat = [(1, 100.0, 0.1, Concurrency, Medium), (8, 100.0, 0.1, Concurrency, Medium)];
    let mut trials = trials(&flat);
    trials[1].caveats.push(crate::caveat::info(Code::SERVER_STARVED, ""));
    revise_limiters(&mut trials);
    let verdicts: Vec<_> =
        trials.iter().map(|t| (t.limiter.resource, t.limiter.confidence)).collect();
    assert_eq!(verdicts, [(Elsewhere, Medium); 2]);
    assert!(trials[0].limiter.sentence.starts_with("Probably "));
}

/// Serving threads that spend these shares of their time in these states.
fn serving(threads: usize, shares: &[(ThreadState, f64)]) -> Option<ServingThreads> {
    let states_s =
        shares.iter().map(|(state, share)| (state.name(), share * threads as f64)).collect();
    Some(ServingThreads { threads, states_s, steady_threads: 0 })
}

/// Calls of one name. `timed_out`: calls per response that timed out, or returned no event.
fn calls(name: &str, per_response: f64, timed_out: f64) -> Option<CallRates> {
    let call = Call {
        count: (1000.0 * per_response) as u64,
        per_response,
        errors: Some((1000.0 * timed_out) as u64),
        again: Some(0),
        returned_mean: Some(1.0 - timed_out / per_response),
    };
    Some(CallRates {
        responses: 1000,
        by_name: [(name.to_string(), call)].into(),
        ..CallRates::default()
    })
}

fn revise_with(steps: &[Step], change: impl Fn(&mut TrialResult)) -> Vec<(Resource, Confidence)> {
    let mut trials = trials(steps);
    trials.iter_mut().for_each(change);
    revise_limiters(&mut trials);
    trials.iter().map(|t| (t.limiter.resource, t.limiter.confidence)).collect()
}

/// A runtime of two idle threads that wait with a time-out, and requests that take turns.
#[test]
fn idle_threads_are_not_workers() {
    let steps = [
        (1, 280.0, 0.1, Concurrency, Medium),
        (8, 275.0, 0.1, Workers, High),
        (32, 282.0, 0.1, Workers, Medium),
    ];
    let runtime = |t: &mut TrialResult| {
        t.server.serving = serving(
            3,
            &[(ThreadState::Lock, 0.62), (ThreadState::Network, 0.3), (ThreadState::Running, 0.08)],
        );
        t.server.calls = calls("futex(wait)", 2.0, 1.1);
    };
    assert_eq!(revise_with(&steps, runtime), [(Elsewhere, Medium); 3]);
}

/// Four workers wait 10 ms each on a condition variable with a time-out.
#[test]
fn workers_are_certain_if_each_served_request_has_worker() {
    let steps = [
        (1, 98.0, 0.01, Concurrency, Medium),
        (8, 390.0, 0.02, Workers, Medium),
        (32, 392.0, 0.02, Workers, Medium),
    ];
    let asleep = |threads: usize| {
        move |t: &mut TrialResult| {
            t.server.serving =
                serving(threads, &[(ThreadState::Lock, 0.98), (ThreadState::Running, 0.02)]);
            t.server.calls = calls("futex(wait)", 1.0, 1.0);
        }
    };
    assert_eq!(
        revise_with(&steps, asleep(4)),
        [(Concurrency, High), (Workers, High), (Workers, High)]
    );
    // Without thread states, or with fewer sleeping threads than served requests, the limiter stays
    // likely.
    assert_eq!(revise_with(&steps, |_| {})[2], (Workers, Medium));
    assert_eq!(revise_with(&steps, asleep(2))[2], (Workers, Medium));
}

/// A lock serves one request at a time.
#[test]
fn wide_queue_lowers_confidence_in_lock() {
    let steps = |width: f64| {
        let rps = 100.0 * width;
        [
            (1, 100.0, 0.02, Concurrency, Medium),
            (8, rps, 0.02, Lock, High),
            (32, rps, 0.02, Lock, High),
        ]
    };
    assert_eq!(verdicts(&steps(1.5))[1..], [(Lock, High); 2]);
    assert_eq!(verdicts(&steps(1.51))[1..], [(Lock, Medium); 2]);
}

/// The holder of a Java monitor sleeps, and the other threads wait for it. Both are futex waits.
#[test]
fn threads_that_wait_for_each_other_name_lock() {
    let steps = [
        (1, 250.0, 0.1, Concurrency, Medium),
        (8, 280.0, 0.1, Concurrency, Low),
        (32, 281.0, 0.1, Concurrency, Low),
    ];
    let monitor = |lock_share: f64| {
        move |t: &mut TrialResult| {
            let threads = t.step.in_flight as usize + 1;
            t.server.serving = serving(
                threads,
                &[(ThreadState::Lock, lock_share), (ThreadState::Network, 1.0 - lock_share)],
            );
        }
    };
    assert_eq!(revise_with(&steps, monitor(0.9))[1..], [(Lock, Medium); 2]);
    // Few requests have a waiting thread.
    assert_eq!(revise_with(&steps, monitor(0.4))[1..], [(Elsewhere, High); 2]);
    // Threads that make no futex call wait in the kernel.
    let in_kernel = |t: &mut TrialResult| {
        monitor(0.9)(t);
        t.server.calls = calls("fsync", 1.0, 0.0);
    };
    assert_eq!(revise_with(&steps, in_kernel)[1..], [(Elsewhere, Medium); 2]);
}

#[test]
fn queue_with_timers_is_not_certain() {
    let steps = [(1, 50.0, 0.02, Concurrency, Medium), (8, 50.0, 0.02, Concurrency, Medium)];
    let timers = |timed_out: f64| {
        move |t: &mut TrialResult| t.server.calls = calls("epoll_wait", 2.0, timed_out)
    };
    assert_eq!(revise_with(&steps, timers(0.4)), [(Elsewhere, High); 2]);
    assert_eq!(revise_with(&steps, timers(0.5)), [(Elsewhere, Medium); 2]);
}

/// Interrupts that are billed to no program may have filled the server's CPU.
#[test]
fn queue_with_many_interrupts_is_not_certain() {
    let steps = [(1, 50.0, 0.02, Concurrency, Medium), (8, 50.0, 0.02, Concurrency, Medium)];
    let interrupts = |seconds: f64| {
        move |t: &mut TrialResult| {
            t.server.cpu_allowed_s = Some(1.0);
            t.server.interrupt_s = Some(seconds);
        }
    };
    assert_eq!(revise_with(&steps, interrupts(0.7)), [(Elsewhere, High); 2]);
    assert_eq!(revise_with(&steps, interrupts(0.74)), [(Elsewhere, Medium); 2]);
}

/// One thread of a server that may use two CPUs, and interrupts that are billed to no program.
#[test]
fn queue_with_nearly_full_thread_is_not_certain() {
    let steps = [(64, 9_000.0, 0.41, Elsewhere, Medium), (256, 9_000.0, 0.41, Elsewhere, Medium)];
    let thread = |busiest: f64, interrupt_s: f64| {
        move |t: &mut TrialResult| {
            t.server.cpu_allowed_s = Some(2.0 * t.server.window_s);
            t.server.interrupt_s = Some(interrupt_s * t.server.window_s);
            set_busiest_thread(t, busiest);
        }
    };
    assert_eq!(revise_with(&steps, thread(0.82, 0.3)), [(Elsewhere, Medium); 2]);
    assert_eq!(revise_with(&steps, thread(0.75, 0.0)), [(Elsewhere, Medium); 2]);
    assert_eq!(revise_with(&steps, thread(0.74, 0.0)), [(Elsewhere, High); 2]);
    assert_eq!(revise_with(&steps, thread(0.5, 0.25)), [(Elsewhere, Medium); 2]);
    assert_eq!(revise_with(&steps, thread(0.5, 0.24)), [(Elsewhere, High); 2]);
    let unknown = |t: &mut TrialResult| t.server.busiest_thread_utilisation = None;
    assert_eq!(revise_with(&steps, unknown), [(Elsewhere, Medium); 2]);
}

/// Four threads of a server that bound itself to one of its two CPUs.
#[test]
fn queue_with_waits_for_cpus_is_not_certain() {
    let steps = [(64, 9_000.0, 0.5, Elsewhere, Medium), (256, 9_000.0, 0.5, Elsewhere, Medium)];
    let waits = |run_delay_s: Option<f64>| {
        move |t: &mut TrialResult| {
            t.server.cpu_allowed_s = Some(2.0);
            t.server.run_delay_s = run_delay_s;
            set_busiest_thread(t, 0.25);
        }
    };
    assert_eq!(revise_with(&steps, waits(Some(3.0))), [(Elsewhere, Medium); 2]);
    assert_eq!(revise_with(&steps, waits(Some(0.2))), [(Elsewhere, Medium); 2]);
    assert_eq!(revise_with(&steps, waits(Some(0.19))), [(Elsewhere, High); 2]);
    assert_eq!(revise_with(&steps, waits(None)), [(Elsewhere, Medium); 2]);
}

/// The threads of 32 connections wake up at the same time and wait for a CPU, but requests take no
/// longer.
#[test]
fn other_programs_without_delay_are_not_limiter() {
    let steps = |in_flight, rps| {
        [(1, 48.0, 0.01, Concurrency, Medium), (in_flight, rps, 0.1, OtherPrograms, Low)]
    };
    assert_eq!(verdicts(&steps(32, 1_530.0))[1], (Concurrency, High));
    assert_eq!(verdicts(&steps(32, 1_200.0))[1], (OtherPrograms, Low));
    let likely = [(1, 48.0, 0.01, Concurrency, Medium), (32, 1_530.0, 0.1, OtherPrograms, Medium)];
    assert_eq!(verdicts(&likely)[1], (OtherPrograms, Medium));
}

/// Requests need more CPU time from step to step. At the first step the server had CPU time left.
#[test]
fn idle_step_excludes_polling() {
    let steps = |first_cpu: f64| {
        [
            (1, 1_000.0, first_cpu, Concurrency, Low),
            (4, 3_000.0, 1.0, ServerCpu, High),
            (16, 2_000.0, 1.0, ServerCpu, High),
        ]
    };
    assert_eq!(verdicts(&steps(0.74))[1..], [(ServerCpu, High); 2]);
    assert_eq!(verdicts(&steps(0.76))[1..], [(ServerCpu, Medium); 2]);
}

/// A server polls at any load.
#[test]
fn polling_at_other_step_lowers_confidence_in_full_cpu() {
    let steps = [(1, 36_000.0, 1.0, Concurrency, Medium), (4, 40_000.0, 1.0, ServerCpu, High)];
    assert_eq!(verdicts(&steps)[1], (ServerCpu, High));
    let polls = |t: &mut TrialResult| t.server.context_switches_voluntary = Some(0);
    assert_eq!(revise_with(&steps, polls)[1], (ServerCpu, Medium));
}

/// The server may have filled a cache before the load.
#[test]
fn use_before_load_makes_too_few_requests_likely() {
    let steps = [(8, 20_000.0, 0.99, Concurrency, Medium), (32, 30_000.0, 0.99, ServerCpu, High)];
    let idle = |cpus| {
        move |t: &mut TrialResult| {
            t.server.without_requests = WithoutRequests::from_cpus(cpus);
            t.server.cpus = Some(1.0);
        }
    };
    assert_eq!(revise_with(&steps, idle(0.8))[0], (Concurrency, Medium));
}

/// A proxy makes three reads per response that end with EAGAIN.
#[test]
fn idle_calls_with_flat_throughput_are_no_polling() {
    let steps = |first_cpu: f64| {
        [
            (1, 9_000.0, first_cpu, Concurrency, Medium),
            (64, 20_000.0, 0.98, Concurrency, Medium),
            (256, 20_000.0, 0.98, Concurrency, Medium),
        ]
    };
    let reads = |t: &mut TrialResult| t.server.calls = calls("epoll_wait", 4.1, 3.1);
    let cpu = [(Concurrency, High), (ServerCpu, Medium), (ServerCpu, Medium)];
    assert_eq!(revise_with(&steps(0.45), reads), cpu);
    // The CPU is nearly full at all steps, so the server may poll.
    let verdicts = revise_with(&steps(0.75), reads);
    assert_eq!(verdicts[1..], [(ServerCpu, Low); 2]);
    // One thread on two CPUs.
    let one_thread = |t: &mut TrialResult| {
        reads(t);
        let cpu = t.server.cpu_utilisation.map(|used| used / 2.0);
        t.server.cpu_utilisation = cpu;
    };
    let thread = [(Concurrency, High), (ServerThread, Medium), (ServerThread, Medium)];
    assert_eq!(revise_with(&steps(0.45), one_thread), thread);
}

/// The server slept at the first step, so idle calls at the last one show no polling.
#[test]
fn idle_step_excludes_polling_by_idle_calls() {
    let last = |first_cpu: f64| {
        let mut trials = trials(&[
            (1, 9_000.0, first_cpu, Concurrency, Medium),
            (16, 17_000.0, 0.98, ServerCpu, High),
            (64, 20_000.0, 0.98, Concurrency, Medium),
        ]);
        trials[2].server.calls = calls("epoll_wait", 4.1, 3.1);
        revise_limiters(&mut trials);
        (trials[1].limiter.resource, trials[1].limiter.confidence)
    };
    assert_eq!(last(0.74), (ServerCpu, High));
    assert_eq!(last(0.76), (ServerCpu, Medium));
}

/// A runtime spins while it has few requests, or a server handles several requests per call.
#[test]
fn growing_throughput_lowers_confidence_in_full_cpu() {
    let steps = |rps| {
        [
            (1, 9_000.0, 0.4, Concurrency, Medium),
            (8, 40_000.0, 0.92, ServerCpu, High),
            (64, rps, 0.99, ServerCpu, High),
        ]
    };
    assert_eq!(verdicts(&steps(70_000.0))[1..], [(ServerCpu, Medium), (ServerCpu, High)]);
    assert_eq!(verdicts(&steps(50_000.0))[1], (ServerCpu, Medium));
    assert_eq!(verdicts(&steps(49_000.0))[1], (ServerCpu, High));
    let sentence = &revise(&steps(70_000.0))[1].sentence;
    let growth = " With 64 requests in flight, the server served 70000 per second, so requests may \
                  need less CPU time.";
    assert!(sentence.ends_with(growth), "{sentence}");
}

/// The CPU of a server that polls is full at any offered rate, so a rate that was met is the limit.
#[test]
fn met_rate_limits_server_that_polls_at_other_step() {
    let limiter = |switches_of_first: u64, unanswered: u64| {
        let mut trials =
            trials(&[(1, 36_000.0, 1.0, Concurrency, Medium), (64, 2_000.0, 1.0, ServerCpu, High)]);
        trials[0].server.context_switches_voluntary = Some(switches_of_first);
        let step = &mut trials[1];
        (step.load.config.model, step.step.shape.rate) = (LoadModel::Open, Some(2_000.0));
        step.load.intervals.iter_mut().for_each(|interval| interval.completed -= unanswered);
        revise_limiters(&mut trials);
        trials.remove(1).limiter
    };
    let met = limiter(0, 0);
    assert_eq!((met.resource, met.confidence), (Resource::OfferedRate, Medium), "{met:?}");
    assert!(
        met.sentence.starts_with("Probably the offered rate: the server kept up with "),
        "{met:?}"
    );
    assert!(met.sentence.contains("100 % of its CPU. Another step shows that"), "{met:?}");
    // The rate was not met.
    assert_eq!(limiter(0, 100).resource, ServerCpu);
    // No step shows that the server polls.
    assert_eq!(limiter(u64::MAX, 0).resource, ServerCpu);
}

/// Steal time is compared with the CPU time that the server may use.
#[test]
fn small_steal_keeps_confidence() {
    let flat = [(1, 100.0, 0.1, Concurrency, Medium), (8, 100.0, 0.1, Concurrency, Medium)];
    let stolen = |share: f64| {
        move |t: &mut TrialResult| {
            t.caveats.push(crate::caveat::info(Code::STEAL, ""));
            t.server.cpu_allowed_s = Some(1.0);
            t.server.stolen_s = Some(share);
        }
    };
    assert_eq!(revise_with(&flat, stolen(0.1)), [(Elsewhere, High); 2]);
    assert_eq!(revise_with(&flat, stolen(0.101)), [(Elsewhere, Medium); 2]);
    assert_eq!(
        revise_with(&flat, |t| t.caveats.push(crate::caveat::info(Code::STEAL, ""))),
        [(Elsewhere, Medium); 2]
    );
}

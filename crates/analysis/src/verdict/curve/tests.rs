//! Servers of known queues, at several numbers of requests in flight.

use serde_json::json;

use super::*;
use crate::backend::BackendUse;
use crate::fixture::five_block_report;
use crate::server::{Call, CallRates, ServingThreads};

use Confidence::{High, Low, Medium};
use Resource::{Concurrency, Elsewhere, Lock, ServerCpu, Unknown, Workers};

/// A step by itself: requests in flight, throughput, share of its CPU that the server used, and
/// what was said to limit it.
type Step = (u32, f64, f64, Resource, Confidence);

fn trials(steps: &[Step]) -> Vec<TrialResult> {
    let base = five_block_report().trials.into_iter().find(|trial| trial.valid).unwrap();
    let of = |(index, step): (usize, &Step)| {
        let (in_flight, throughput_rps, cpu, resource, confidence) = *step;
        let mut trial = base.clone();
        trial.cell.step = index;
        trial.step.in_flight = u64::from(in_flight);
        trial.load.in_flight.mean = f64::from(in_flight);
        trial.load.throughput_rps = throughput_rps;
        // Little's law.
        trial.load.response_time_us.mean = Some(f64::from(in_flight) / throughput_rps * 1e6);
        trial.server.cpu_utilisation = Some(cpu);
        // It sleeps once per response, and its thread states were not observed.
        let responses = throughput_rps * trial.server.window_s;
        trial.server.context_switches_voluntary = Some(responses as u64);
        (trial.server.working, trial.server.calls) = (None, None);
        trial.limiter = Limiter::new(resource, confidence, "It.".into(), json!({"own": 1}));
        trial
    };
    steps.iter().enumerate().map(of).collect()
}

fn settled(steps: &[Step]) -> Vec<Limiter> {
    let mut trials = trials(steps);
    settle(&mut trials);
    trials.into_iter().map(|trial| trial.limiter).collect()
}

fn verdicts(steps: &[Step]) -> Vec<(Resource, Confidence)> {
    settled(steps).iter().map(|limiter| (limiter.resource, limiter.confidence)).collect()
}

/// One request at a time goes to a back end that takes 5 ms.
#[test]
fn requests_that_queue_are_not_too_few() {
    let steps = [
        (1, 183.0, 0.02, Concurrency, Medium),
        (4, 190.0, 0.02, Concurrency, Medium),
        (16, 190.0, 0.02, Concurrency, Medium),
        (64, 190.0, 0.02, Elsewhere, Medium),
    ];
    let all = settled(&steps);
    for limiter in &all {
        assert_eq!((limiter.resource, limiter.confidence), (Elsewhere, High), "{limiter:?}");
        assert!(
            limiter.sentence.contains("About 1.0 are served at a time"),
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
fn steps_below_the_width_of_a_pool_are_short_of_requests() {
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
    assert!(settled(&steps)[3].sentence.contains("About 8.0 are served at a time"));
}

/// A thread for each connection, each asleep for 20 ms: as long as none waits for another, only
/// requests are missing, at the highest step, too.
#[test]
fn throughput_that_grows_with_the_requests_excludes_locks_and_pools() {
    let steps = [
        (1, 50.0, 0.01, Concurrency, Medium),
        (4, 200.0, 0.01, Lock, High),
        (16, 800.0, 0.02, Workers, High),
    ];
    assert_eq!(verdicts(&steps), [(Concurrency, High); 3]);
}

/// A limiter of one step applies to the others, whatever their own rules could see.
#[test]
fn steps_of_one_server_have_one_explanation() {
    let steps = [
        (1, 180.0, 0.02, Concurrency, Medium),
        (4, 190.0, 0.02, Concurrency, Medium),
        (32, 190.0, 0.02, Lock, High),
    ];
    let all = settled(&steps);
    assert_eq!(
        all.iter().map(|l| (l.resource, l.confidence)).collect::<Vec<_>>(),
        [(Lock, High); 3]
    );
    assert!(
        all[0].sentence.starts_with("A lock, as the step with 32 in flight shows: "),
        "{}",
        all[0].sentence
    );
}

/// A server that polls uses its whole CPU at any load.
#[test]
fn full_cpus_at_much_lower_throughput_limit_nothing_for_sure() {
    let steps = [(1, 36_000.0, 1.0, ServerCpu, High), (4, 130_000.0, 1.0, ServerCpu, High)];
    assert_eq!(verdicts(&steps), [(ServerCpu, Medium); 2]);
    let steps = [
        (1, 4_000.0, 0.93, ServerCpu, High),
        (4, 4_600.0, 1.0, ServerCpu, High),
        (16, 4_700.0, 1.0, ServerCpu, High),
    ];
    assert_eq!(verdicts(&steps), [(ServerCpu, High); 3]);
}

/// One alone uses 60 % of the CPU, as the way there and back takes the rest of the time.
#[test]
fn steps_below_a_full_cpu_are_short_of_requests() {
    let steps = [(1, 3_000.0, 0.6, Concurrency, Medium), (4, 5_000.0, 1.0, ServerCpu, High)];
    assert_eq!(verdicts(&steps), [(Concurrency, High), (ServerCpu, High)]);
    let steps = [(1, 3_000.0, 0.8, Unknown, Low), (4, 3_900.0, 1.0, ServerCpu, High)];
    assert_eq!(verdicts(&steps)[0], (Concurrency, High));
    let steps = [(1, 3_000.0, 0.88, Unknown, Low), (4, 3_200.0, 1.0, ServerCpu, High)];
    assert_eq!(verdicts(&steps)[0], (ServerCpu, High));
    let steps = [(1, 3_000.0, 0.85, Unknown, Low), (4, 3_500.0, 1.0, ServerCpu, High)];
    assert_eq!(verdicts(&steps)[0], (ServerCpu, Medium));
    // Not idle, and no faster: what the rest was for is not known.
    let steps = [(1, 3_000.0, 0.7, Concurrency, Medium), (4, 3_100.0, 1.0, ServerCpu, High)];
    assert_eq!(verdicts(&steps)[0], (Concurrency, Medium));
    let mut trials =
        trials(&[(1, 3_000.0, 0.3, Concurrency, Medium), (4, 3_100.0, 0.3, Concurrency, Medium)]);
    // The generator may be what is no faster.
    trials[1].load.client.room.need = 0.8;
    settle(&mut trials);
    assert_eq!(trials[0].limiter.resource, Concurrency);
}

/// At an offered rate, too, the CPU of a server that polls is full.
#[test]
fn full_cpus_of_any_load_doubt_each_other() {
    let mut trials =
        trials(&[(1, 36_000.0, 1.0, ServerCpu, High), (64, 2_000.0, 1.0, ServerCpu, High)]);
    (trials[1].load.config.model, trials[1].step.rate) = (LoadModel::Open, Some(2_000.0));
    settle(&mut trials);
    assert!(trials.iter().all(|t| t.limiter.confidence == Medium));
}

/// A queue behind a server with a monitored back end is attributed to the back end.
#[test]
fn queues_behind_a_server_are_of_its_back_end() {
    let mut trials =
        trials(&[(1, 302.0, 0.05, Concurrency, Medium), (8, 317.0, 0.05, Concurrency, Medium)]);
    let server = trials[0].server.clone();
    let behind = BackendUse { name: "db".into(), cpu_share: None, shares_cpus: false, server };
    trials.iter_mut().for_each(|trial| trial.backends = vec![behind.clone()]);
    settle(&mut trials);
    let limiter = &trials[1].limiter;
    assert_eq!((limiter.resource, limiter.confidence), (Resource::Backend, Medium));
    assert!(
        limiter.sentence.starts_with("A back end (db), or the connections to it: "),
        "{}",
        limiter.sentence
    );
}

/// A disk serves many at a time.
#[test]
fn growth_does_not_exclude_a_disk() {
    let steps = [(8, 1_958.0, 0.3, Resource::Disk, High), (32, 3_432.0, 0.4, Resource::Disk, High)];
    assert_eq!(verdicts(&steps), [(Resource::Disk, High); 2]);
}

#[test]
fn steps_that_tell_nothing_change_nothing() {
    // Between flat and growing, too close together, of another kind, or not valid.
    let near = [(8, 100.0, 0.1, Lock, High), (16, 118.0, 0.1, Lock, High)];
    assert_eq!(verdicts(&near), [(Lock, High); 2]);
    let close = [(8, 100.0, 0.1, Concurrency, Medium), (10, 100.0, 0.1, Concurrency, Medium)];
    assert_eq!(verdicts(&close), [(Concurrency, Medium); 2]);
    let flat = [(1, 100.0, 0.1, Concurrency, Medium), (8, 100.0, 0.1, Concurrency, Medium)];
    let apart = |change: fn(&mut TrialResult)| {
        let mut trials = trials(&flat);
        change(&mut trials[1]);
        settle(&mut trials);
        trials[0].limiter.resource
    };
    assert_eq!(apart(|_| {}), Elsewhere);
    assert_eq!(apart(|t| t.valid = false), Concurrency);
    assert_eq!(apart(|t| t.step.streams = 2), Concurrency);
    assert_eq!(apart(|t| t.cell.arm += 1), Concurrency);
    assert_eq!(apart(|t| t.load.config.model = LoadModel::Open), Concurrency);
}

/// On a machine that others use the same steps make the same likely.
#[test]
fn disturbed_steps_make_nothing_certain() {
    let flat = [(1, 100.0, 0.1, Concurrency, Medium), (8, 100.0, 0.1, Concurrency, Medium)];
    let mut trials = trials(&flat);
    trials[1].caveats.push(crate::caveat::info(Code::ServerStarved, ""));
    settle(&mut trials);
    let all: Vec<_> = trials.iter().map(|t| (t.limiter.resource, t.limiter.confidence)).collect();
    assert_eq!(all, [(Elsewhere, Medium); 2]);
    assert!(trials[0].limiter.sentence.ends_with("This is likely, not certain."));
}

/// Threads that spend these shares of their time in these states.
fn working(threads: usize, shares: &[(ThreadState, f64)]) -> Option<ServingThreads> {
    let states_s =
        shares.iter().map(|(state, share)| (state.name(), share * threads as f64)).collect();
    Some(ServingThreads { threads, states_s, steady_workers: 0 })
}

/// Calls of one name, of which some failed because of their time-out, or returned nothing.
fn calls(name: &str, per_response: f64, timed: f64) -> Option<CallRates> {
    let call = Call {
        count: (1000.0 * per_response) as u64,
        per_response,
        errors: Some((1000.0 * timed) as u64),
        again: Some(0),
        returned_mean: Some(1.0 - timed / per_response),
    };
    Some(CallRates {
        answers: 1000,
        by_name: [(name.to_string(), call)].into(),
        ..CallRates::default()
    })
}

fn settled_with(steps: &[Step], change: impl Fn(&mut TrialResult)) -> Vec<(Resource, Confidence)> {
    let mut trials = trials(steps);
    trials.iter_mut().for_each(change);
    settle(&mut trials);
    trials.iter().map(|t| (t.limiter.resource, t.limiter.confidence)).collect()
}

/// A runtime of two idle threads that wait with a time-out, and requests that take turns.
#[test]
fn idle_threads_are_no_workers() {
    let steps = [
        (1, 280.0, 0.1, Concurrency, Medium),
        (8, 275.0, 0.1, Workers, High),
        (32, 282.0, 0.1, Workers, Medium),
    ];
    let go = |t: &mut TrialResult| {
        t.server.working = working(
            3,
            &[(ThreadState::Lock, 0.62), (ThreadState::Network, 0.3), (ThreadState::Running, 0.08)],
        );
        t.server.calls = calls("futex(wait)", 2.0, 1.1);
    };
    assert_eq!(settled_with(&steps, go), [(Elsewhere, Medium); 3]);
}

/// Four workers wait 10 ms each on a condition variable with a time-out.
#[test]
fn workers_are_certain_where_each_served_request_has_one() {
    let steps = [
        (1, 98.0, 0.01, Concurrency, Medium),
        (8, 390.0, 0.02, Workers, Medium),
        (32, 392.0, 0.02, Workers, Medium),
    ];
    let asleep = |threads: usize| {
        move |t: &mut TrialResult| {
            t.server.working =
                working(threads, &[(ThreadState::Lock, 0.98), (ThreadState::Running, 0.02)]);
            t.server.calls = calls("futex(wait)", 1.0, 1.0);
        }
    };
    assert_eq!(
        settled_with(&steps, asleep(4)),
        [(Concurrency, High), (Workers, High), (Workers, High)]
    );
    // Without a look at threads, or with fewer asleep than are served, it stays likely.
    assert_eq!(settled_with(&steps, |_| {})[2], (Workers, Medium));
    assert_eq!(settled_with(&steps, asleep(2))[2], (Workers, Medium));
}

/// Four are served at a time: no single lock does that.
#[test]
fn locks_serve_one_at_a_time() {
    let of = |width: f64| {
        let rps = 100.0 * width;
        [
            (1, 100.0, 0.02, Concurrency, Medium),
            (8, rps, 0.02, Lock, High),
            (32, rps, 0.02, Lock, High),
        ]
    };
    assert_eq!(verdicts(&of(1.5))[1..], [(Lock, High); 2]);
    assert_eq!(verdicts(&of(1.51))[1..], [(Lock, Medium); 2]);
}

/// The holder of a Java monitor sleeps as the threads wait that want it: both by futex.
#[test]
fn threads_that_wait_for_their_turn_wait_for_a_lock() {
    let steps = [
        (1, 250.0, 0.1, Concurrency, Medium),
        (8, 280.0, 0.1, Concurrency, Low),
        (32, 281.0, 0.1, Concurrency, Low),
    ];
    let java = |lock: f64| {
        move |t: &mut TrialResult| {
            let threads = t.step.in_flight as usize + 1;
            t.server.working =
                working(threads, &[(ThreadState::Lock, lock), (ThreadState::Network, 1.0 - lock)]);
        }
    };
    let all = settled_with(&steps, java(0.9));
    assert_eq!(all[1..], [(Lock, Medium); 2]);
    // Few of the requests have a thread that waits.
    assert_eq!(settled_with(&steps, java(0.4))[1..], [(Elsewhere, High); 2]);
}

#[test]
fn queue_of_a_server_that_waits_for_time_is_not_certain() {
    let steps = [(1, 50.0, 0.02, Concurrency, Medium), (8, 50.0, 0.02, Concurrency, Medium)];
    let timed =
        |waits: f64| move |t: &mut TrialResult| t.server.calls = calls("epoll_wait", 2.0, waits);
    assert_eq!(settled_with(&steps, timed(0.4)), [(Elsewhere, High); 2]);
    assert_eq!(settled_with(&steps, timed(0.5)), [(Elsewhere, Medium); 2]);
}

/// The threads of 32 connections wake up at the same time, and wait for each other's CPU.
#[test]
fn other_programs_that_delay_no_request_are_no_limit() {
    let steps = |in_flight, rps| {
        [(1, 48.0, 0.01, Concurrency, Medium), (in_flight, rps, 0.1, Resource::OtherPrograms, Low)]
    };
    assert_eq!(verdicts(&steps(32, 1_530.0))[1], (Concurrency, High));
    assert_eq!(verdicts(&steps(32, 1_200.0))[1], (Resource::OtherPrograms, Low));
    let likely =
        [(1, 48.0, 0.01, Concurrency, Medium), (32, 1_530.0, 0.1, Resource::OtherPrograms, Medium)];
    assert_eq!(verdicts(&likely)[1], (Resource::OtherPrograms, Medium));
}

/// Requests get dearer from step to step; at another step the server had time left.
#[test]
fn server_that_was_idle_at_a_step_does_not_poll() {
    let steps = |first: f64| {
        [
            (1, 1_000.0, first, Concurrency, Low),
            (4, 3_000.0, 1.0, ServerCpu, High),
            (16, 2_000.0, 1.0, ServerCpu, High),
        ]
    };
    assert_eq!(verdicts(&steps(0.74))[1..], [(ServerCpu, High); 2]);
    assert_eq!(verdicts(&steps(0.76))[1..], [(ServerCpu, Medium); 2]);
}

/// A server that polls does so under any load.
#[test]
fn full_cpu_is_doubted_where_another_step_shows_polling() {
    let steps = [(1, 36_000.0, 1.0, Concurrency, Medium), (4, 40_000.0, 1.0, ServerCpu, High)];
    assert_eq!(verdicts(&steps)[1], (ServerCpu, High));
    let polls = |t: &mut TrialResult| t.server.context_switches_voluntary = Some(0);
    assert_eq!(settled_with(&steps, polls)[1], (ServerCpu, Medium));
}

/// Steal time is compared with the CPU time that the server may use.
#[test]
fn little_steal_changes_no_step() {
    let flat = [(1, 100.0, 0.1, Concurrency, Medium), (8, 100.0, 0.1, Concurrency, Medium)];
    let stolen = |share: f64| {
        move |t: &mut TrialResult| {
            t.caveats.push(crate::caveat::info(Code::Steal, ""));
            t.server.cpu_allowed_s = Some(1.0);
            t.server.stolen_s = Some(share);
        }
    };
    assert_eq!(settled_with(&flat, stolen(0.1)), [(Elsewhere, High); 2]);
    assert_eq!(settled_with(&flat, stolen(0.101)), [(Elsewhere, Medium); 2]);
    assert_eq!(
        settled_with(&flat, |t| t.caveats.push(crate::caveat::info(Code::Steal, ""))),
        [(Elsewhere, Medium); 2]
    );
}

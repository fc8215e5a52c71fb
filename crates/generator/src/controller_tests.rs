//! Tests of the controller in virtual time, with workers and watches that follow a script.

use std::collections::BTreeMap;

use dyno_contract::listener::Listener;
use dyno_driver::best_driver;
use dyno_engine::{Http2, Instant, Stop, WorkerReport};
use dyno_model::load::{Books, Connections, Edges, Timeouts, UnansweredAges};
use dyno_model::plan::{Load, Priority, Request, Step, Workload};
use dyno_model::sample::ThreadUse;
use dyno_model::{Interval, Phase, Protocol, Sample};
use dyno_suite::defaults::default_load;
use proptest::prelude::*;

use super::controller::Controller;
use super::load_requests::LoadRequests;
use super::messages::{GeneratorOrder, LoadCommand, Message, WorkerEvent, WorkerId, WorkerResult};
use super::record::{CutPhase, EndedLoad};
use super::sharing::Sharing;
use super::spec::{LoadSpec, share_cpus, single_request, take_turns};
use super::watch::{Edge, LoadStopReason};
use crate::limits::{ANSWER_NS, BEGIN_NOTICE_NS, STOP_CHECK_INTERVAL};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const DRAIN: u64 = 50 * MS;

/// Returns a load with a warm-up of 100 ms, and a window of 400 ms in intervals of 100 ms.
pub(super) fn spec(threads: u32) -> LoadSpec {
    let addr = ([127, 0, 0, 1], 1).into();
    let listener = Listener { addr, protocol: Protocol::H1, authority: None };
    let request =
        Request { weight: 1, method: "GET".into(), path: "/".into(), ..Request::default() };
    let workload = Workload {
        name: "any".into(),
        protocol: Protocol::H1,
        requests: vec![request],
        page: None,
        sequence: None,
        requests_per_connection: None,
    };
    let (http2, no_files) = (Http2::default(), |_: &str| Err("no files here".into()));
    let requests = LoadRequests::compile(workload, "host", http2, &no_files).unwrap();
    let base = single_request(&listener, requests, default_load(best_driver().0));
    LoadSpec {
        step: Step { connections: threads, ..base.step.clone() },
        load: Load {
            threads,
            requests: None,
            warmup_ns: 100 * MS,
            duration_ns: 400 * MS,
            interval_ns: 100 * MS,
            drain_ns: SECOND,
            connect_timeout_ns: SECOND,
            ..base.load.clone()
        },
        ..base
    }
}

/// The behaviour of a worker.
#[derive(Clone, Copy, Debug)]
enum Script {
    /// Is ready after this time, and drains this time after its window.
    Loads { ready_ns: u64, drain_ns: u64 },
    /// Cannot run.
    FailsAt(u64),
    /// Sends nothing.
    Silent,
    /// Sends nothing more after [`WorkerEvent::Ready`].
    SilentOnceReady,
    /// Has sent its last request this time after the begin, before the end of its window.
    EndsAfter(u64),
}

const PROMPT: Script = Script::Loads { ready_ns: MS, drain_ns: DRAIN };

/// The behaviour of a watch.
#[derive(Clone, Debug, Default)]
struct WatchScript {
    stops: Option<(u64, Option<&'static str>)>,
}

impl WatchScript {
    fn stops_at(at_ns: u64) -> WatchScript {
        WatchScript { stops: Some((at_ns, None)) }
    }

    fn server_fails_at(at_ns: u64) -> WatchScript {
        WatchScript { stops: Some((at_ns, Some("exited"))) }
    }

    fn reason(&self, now_ns: u64) -> Option<LoadStopReason> {
        let (_, failure) = self.stops.filter(|(at_ns, _)| now_ns >= *at_ns)?;
        Some(failure.map_or(LoadStopReason::Stopped, |f| LoadStopReason::ServerFailed(f.into())))
    }
}

/// Loads in virtual time.
struct Rig {
    controller: Controller,
    now_ns: u64,
    specs: Vec<LoadSpec>,
    scripts: Vec<Vec<Script>>,
    watches: Vec<WatchScript>,
    /// Messages that workers will send.
    scheduled: Vec<(u64, WorkerId, WorkerEvent)>,
    begin_ns: Option<u64>,
    /// Duration of each reading of counters.
    reading_ns: u64,
    /// Executed commands with their instants.
    log: Vec<(u64, LoadCommand)>,
}

impl Rig {
    fn new(loads: Vec<(LoadSpec, Vec<Script>, WatchScript)>) -> Rig {
        let mut rig = Rig {
            controller: Controller::new(loads.iter().map(|(spec, ..)| spec)),
            now_ns: SECOND,
            specs: Vec::new(),
            scripts: Vec::new(),
            watches: Vec::new(),
            scheduled: Vec::new(),
            begin_ns: None,
            reading_ns: 0,
            log: Vec::new(),
        };
        for (spec, scripts, watch) in loads {
            assert_eq!(scripts.len(), spec.threads() as usize);
            rig.specs.push(spec);
            rig.scripts.push(scripts);
            rig.watches.push(watch);
        }
        for id in rig.ids() {
            match rig.script(id) {
                Script::Loads { ready_ns, .. } => rig.schedule(ready_ns, id, WorkerEvent::Ready),
                Script::EndsAfter(_) | Script::SilentOnceReady => {
                    rig.schedule(MS, id, WorkerEvent::Ready);
                }
                Script::FailsAt(at_ns) => {
                    rig.schedule(at_ns, id, WorkerEvent::Failed("no driver".into()));
                }
                Script::Silent => {}
            }
        }
        rig
    }

    fn ids(&self) -> Vec<WorkerId> {
        let workers = |(load, scripts): (usize, &Vec<Script>)| {
            (0..scripts.len() as u32).map(move |worker| WorkerId { load, worker })
        };
        self.scripts.iter().enumerate().flat_map(workers).collect()
    }

    fn script(&self, id: WorkerId) -> Script {
        self.scripts[id.load][id.worker as usize]
    }

    fn schedule(&mut self, after_ns: u64, id: WorkerId, event: WorkerEvent) {
        self.scheduled.push((self.now_ns + after_ns, id, event));
    }

    /// Runs the loads to their end.
    fn run(&mut self) {
        while !self.controller.is_over() {
            assert!(self.now_ns < 1000 * SECOND, "the loads should end: {:?}", self.controller);
            let wait_ns = self.controller.wait(Instant(self.now_ns)).as_nanos() as u64;
            let tick_ns = self.now_ns + wait_ns;
            let next = (0..self.scheduled.len()).min_by_key(|i| self.scheduled[*i].0);
            match next.filter(|next| self.scheduled[*next].0 <= tick_ns) {
                Some(next) => {
                    let (at_ns, id, event) = self.scheduled.remove(next);
                    self.now_ns = self.now_ns.max(at_ns);
                    self.pass(Message::Worker(id, event));
                }
                None => self.now_ns = tick_ns,
            }
            self.pass(Message::Tick);
        }
    }

    fn pass(&mut self, message: Message) {
        let mut messages = vec![message];
        while !messages.is_empty() {
            for command in self.controller.handle(messages.remove(0), Instant(self.now_ns)) {
                self.log.push((self.now_ns, command.clone()));
                messages.extend(self.execute(command));
            }
        }
    }

    fn execute(&mut self, command: LoadCommand) -> Option<Message> {
        match command {
            LoadCommand::Order { load, order } => {
                self.obey(load, order);
                None
            }
            LoadCommand::Sample { load, .. } => {
                let sample = Some(Box::new(Sample { at_ns: self.now_ns, ..Sample::default() }));
                self.now_ns += self.reading_ns;
                Some(Message::Sampled { load, sample })
            }
            LoadCommand::Complete { load, sample } => Some(Message::Completed { load, sample }),
            LoadCommand::OpenProbes { .. } | LoadCommand::Report { .. } => None,
            LoadCommand::AskWatches => {
                let watches = self.watches.iter().enumerate();
                let reasons: Vec<_> = watches
                    .filter_map(|(load, watch)| Some((load, watch.reason(self.now_ns)?)))
                    .collect();
                (!reasons.is_empty()).then_some(Message::StopRequested(reasons))
            }
        }
    }

    fn obey(&mut self, load: usize, order: GeneratorOrder) {
        if let GeneratorOrder::Begin(at) = order {
            self.begin_ns = Some(at.0);
        }
        for id in self.ids().into_iter().filter(|id| id.load == load) {
            let script = self.script(id);
            match (order, script) {
                (GeneratorOrder::Begin(at), Script::Loads { drain_ns, .. }) => {
                    let window = self.specs[load].window();
                    let end_ns = window.warmup_ns + window.duration_ns.unwrap_or(0);
                    self.schedule_load(id, at.0, end_ns, drain_ns);
                }
                (GeneratorOrder::Begin(at), Script::EndsAfter(end_ns)) => {
                    self.schedule_load(id, at.0, end_ns, 0);
                }
                (GeneratorOrder::End(Stop::Now(at) | Stop::At(at)), Script::Loads { .. }) => {
                    self.end(id, at.0.max(self.now_ns));
                }
                (GeneratorOrder::Close, Script::Loads { .. } | Script::EndsAfter(_)) => {
                    let drained = self.drained_at(id).unwrap_or(self.now_ns).max(self.now_ns);
                    let closed = WorkerEvent::Closed(Box::new(result()));
                    self.scheduled.push((drained + 1, id, closed));
                }
                _ => {}
            }
        }
    }

    /// Schedules the intervals of a worker, and its drain.
    fn schedule_load(&mut self, id: WorkerId, begin_ns: u64, end_ns: u64, drain_ns: u64) {
        let window = self.specs[id.load].window();
        let mut start_ns = 0;
        while start_ns < end_ns {
            let is_warmup = start_ns < window.warmup_ns;
            let phase = if is_warmup { Phase::Warmup } else { Phase::Measured };
            let edge_ns = if is_warmup { window.warmup_ns.min(end_ns) } else { end_ns };
            let until_ns = (start_ns + window.interval_ns).min(edge_ns);
            let interval = Interval { started: 1, ..Interval::new(phase, start_ns, until_ns) };
            let event = WorkerEvent::Interval(Box::new(interval));
            self.scheduled.push((begin_ns + until_ns, id, event));
            start_ns = until_ns;
        }
        self.scheduled.push((begin_ns + end_ns + drain_ns, id, WorkerEvent::Drained));
    }

    /// Ends a worker's load at an instant.
    fn end(&mut self, id: WorkerId, at_ns: u64) {
        let drained_ns = self.drained_at(id);
        let has_begun = drained_ns.is_some() || self.begin_ns.is_some();
        if has_begun && drained_ns.is_none_or(|drained_ns| drained_ns <= at_ns) {
            return;
        }
        self.scheduled.retain(|(due_ns, other, event)| {
            let is_later = *due_ns > at_ns && !matches!(event, WorkerEvent::Closed(_));
            *other != id || !(is_later || matches!(event, WorkerEvent::Ready))
        });
        self.scheduled.push((at_ns, id, WorkerEvent::Drained));
    }

    fn drained_at(&self, id: WorkerId) -> Option<u64> {
        let drained = |(_, other, event): &&(u64, WorkerId, WorkerEvent)| {
            *other == id && matches!(event, WorkerEvent::Drained)
        };
        self.scheduled.iter().find(drained).map(|(at_ns, ..)| *at_ns)
    }

    /// Returns the orders to a load, without the readings of the machine.
    fn orders(&self, load: usize) -> Vec<(u64, GeneratorOrder)> {
        let order = |(at_ns, command): &(u64, LoadCommand)| match command {
            LoadCommand::Order { load: other, order } if *other == load => Some((*at_ns, *order)),
            _ => None,
        };
        let orders = self.log.iter().filter_map(order);
        orders
            .filter(|(_, o)| !matches!(o, GeneratorOrder::OpenWindow | GeneratorOrder::CloseWindow))
            .collect()
    }

    /// Returns the samples of a load: nanoseconds since the begin, and the edge.
    fn samples(&self, load: usize) -> Vec<(u64, Edge)> {
        let begin_ns = self.begin_ns.unwrap_or(0);
        let sample = |(at_ns, command): &(u64, LoadCommand)| match command {
            LoadCommand::Sample { load: other, edge } if *other == load => {
                Some((*at_ns - begin_ns, *edge))
            }
            _ => None,
        };
        self.log.iter().filter_map(sample).collect()
    }
}

/// Returns the result of a worker without requests.
fn result() -> WorkerResult {
    let report = WorkerReport {
        books: Books::default(),
        connections: Connections::default(),
        tcp: None,
        tls: None,
        http2: None,
        http1_chosen: 0,
        cpu: ThreadUse::default(),
        edges: Edges::default(),
        unanswered: UnansweredAges::default(),
        protocol_errors: BTreeMap::new(),
        unexpected: BTreeMap::new(),
        connection_failures: BTreeMap::new(),
        timeouts: Timeouts::default(),
        continues: None,
        window_ns: (0, 0),
        silences: Vec::new(),
    };
    WorkerResult { report, priority: Priority::Normal }
}

/// Runs loads to their end, and returns the commands and the results.
fn run(loads: Vec<(LoadSpec, Vec<Script>, WatchScript)>) -> (Rig, Result<Vec<EndedLoad>, String>) {
    let mut rig = Rig::new(loads);
    rig.run();
    let controller = std::mem::replace(&mut rig.controller, Controller::new([]));
    (rig, controller.finish())
}

fn run_one(scripts: &[Script], watch: WatchScript) -> (Rig, Result<Vec<EndedLoad>, String>) {
    run(vec![(spec(scripts.len() as u32), scripts.to_vec(), watch)])
}

#[test]
fn load_begins_once_latest_worker_is_ready() {
    let late = Script::Loads { ready_ns: 300 * MS, drain_ns: DRAIN };
    let (rig, ended) = run_one(&[PROMPT, late, PROMPT], WatchScript::default());
    let ready_ns = SECOND + 300 * MS;
    let begin = Instant(ready_ns + BEGIN_NOTICE_NS);
    assert_eq!(rig.orders(0)[0], (ready_ns, GeneratorOrder::Begin(begin)));
    let load = &ended.unwrap()[0];
    assert_eq!((load.began_ns, load.cut, &load.failure), (begin.0, None, &None));
    let parts: Vec<_> = load.intervals.iter().map(|i| (i.start_ns / MS, i.started)).collect();
    assert_eq!(parts, [(0, 3), (100, 3), (200, 3), (300, 3), (400, 3)]);
}

#[test]
fn samples_are_taken_at_edges_and_intervals() {
    let (rig, ended) = run_one(&[PROMPT], WatchScript::default());
    let expected = [
        (0, Edge::Warmup),
        (100 * MS, Edge::Opens),
        (200 * MS, Edge::Within),
        (300 * MS, Edge::Within),
        (400 * MS, Edge::Within),
        (500 * MS, Edge::Closes),
    ];
    assert_eq!(rig.samples(0), expected);
    let began_ns = rig.begin_ns.unwrap();
    let position = |wanted: &LoadCommand| rig.log.iter().position(|(_, command)| command == wanted);
    for (order, edge) in
        [(GeneratorOrder::OpenWindow, Edge::Opens), (GeneratorOrder::CloseWindow, Edge::Closes)]
    {
        let reading = position(&LoadCommand::Order { load: 0, order }).unwrap();
        assert_eq!(rig.log[reading + 1].1, LoadCommand::Sample { load: 0, edge });
    }
    let samples = &ended.unwrap()[0].samples;
    assert_eq!(samples.last().unwrap().at_ns, began_ns + 500 * MS, "it was put back");
}

#[test]
fn failed_worker_ends_all_loads_without_result() {
    let loads = vec![
        (spec(1), vec![PROMPT], WatchScript::default()),
        (spec(2), vec![PROMPT, Script::FailsAt(2 * MS)], WatchScript::default()),
    ];
    let (rig, ended) = run(loads);
    assert_eq!(ended.unwrap_err(), "no driver");
    for load in 0..2 {
        let orders: Vec<GeneratorOrder> =
            rig.orders(load).into_iter().map(|(_, order)| order).collect();
        assert_eq!(
            orders,
            [GeneratorOrder::End(Stop::At(Instant(0))), GeneratorOrder::Close],
            "never begun"
        );
    }
}

#[test]
fn silent_worker_is_given_up() {
    let (rig, ended) = run_one(&[PROMPT, Script::Silent], WatchScript::default());
    assert_eq!(ended.unwrap_err(), "worker 1 of the load generator: does not answer");
    let (given_up_ns, order) = rig.orders(0)[0];
    assert_eq!(order, GeneratorOrder::GiveUp { worker: 1 });
    let limit_ns = SECOND + SECOND + ANSWER_NS;
    assert!((limit_ns..limit_ns + SECOND).contains(&given_up_ns), "{given_up_ns}");
}

#[test]
fn worker_that_falls_silent_in_load_is_given_up() {
    let (rig, ended) = run_one(&[PROMPT, Script::SilentOnceReady], WatchScript::default());
    assert_eq!(ended.unwrap_err(), "worker 1 of the load generator: does not answer");
    let given_up: Vec<_> = rig
        .orders(0)
        .into_iter()
        .filter(|(_, o)| matches!(o, GeneratorOrder::GiveUp { .. }))
        .collect();
    let [(at_ns, GeneratorOrder::GiveUp { worker: 1 })] = given_up[..] else {
        panic!("{given_up:?}")
    };
    assert!(at_ns > rig.begin_ns.unwrap() + 500 * MS + ANSWER_NS);
}

#[test]
fn load_stopped_during_start_never_begins() {
    let late = Script::Loads { ready_ns: 900 * MS, drain_ns: DRAIN };
    let (rig, ended) = run_one(&[PROMPT, late], WatchScript::stops_at(SECOND + 500 * MS));
    let load = &ended.unwrap()[0];
    assert_eq!((load.began_ns, load.cut, load.samples.len()), (0, Some(CutPhase::Window), 0));
    let [(end_ns, GeneratorOrder::End(Stop::Now(at))), (_, GeneratorOrder::Close)] =
        rig.orders(0)[..]
    else {
        panic!("{:?}", rig.orders(0))
    };
    let check_ns = STOP_CHECK_INTERVAL.as_nanos() as u64;
    assert!((SECOND + 500 * MS..=SECOND + 500 * MS + check_ns).contains(&end_ns));
    assert_eq!(at, Instant(end_ns + BEGIN_NOTICE_NS));
}

#[test]
fn early_end_of_one_load_ends_all_at_one_instant() {
    let loads = vec![
        (spec(1), vec![PROMPT], WatchScript::default()),
        (spec(2), vec![PROMPT; 2], WatchScript::stops_at(SECOND + 300 * MS)),
    ];
    let (rig, ended) = run(loads);
    let ends = |load| {
        rig.orders(load)
            .into_iter()
            .find(|(_, order)| matches!(order, GeneratorOrder::End(_)))
            .unwrap()
    };
    assert_eq!(ends(0), ends(1));
    for load in ended.unwrap() {
        assert_eq!((load.cut, load.failure), (Some(CutPhase::Window), None));
        assert_eq!(load.samples.last().unwrap().at_ns, ends(0).0 + BEGIN_NOTICE_NS);
    }
}

#[test]
fn failed_server_is_not_sampled_and_cuts_others() {
    let loads = vec![
        (spec(1), vec![PROMPT], WatchScript::server_fails_at(SECOND + 300 * MS)),
        (spec(1), vec![PROMPT], WatchScript::default()),
    ];
    let (rig, ended) = run(loads);
    let ended = ended.unwrap();
    assert_eq!((ended[0].failure.as_deref(), ended[0].cut), (Some("exited"), None));
    assert_eq!((ended[1].failure.as_deref(), ended[1].cut), (None, Some(CutPhase::Window)));
    assert!(rig.samples(0).iter().all(|(_, edge)| *edge != Edge::Closes));
    assert_eq!(rig.samples(1).last().unwrap().1, Edge::Closes);
}

#[test]
fn stop_in_drain_is_noted_as_such() {
    let slow = Script::Loads { ready_ns: MS, drain_ns: 900 * MS };
    let (_, ended) = run_one(&[slow], WatchScript::stops_at(SECOND + 700 * MS));
    assert_eq!(ended.unwrap()[0].cut, Some(CutPhase::Drain));
}

#[test]
fn load_without_end_closes_when_drained() {
    let mut endless = spec(1);
    endless.load.duration_ns = 0;
    let (rig, ended) =
        run(vec![(endless, vec![Script::EndsAfter(330 * MS)], WatchScript::default())]);
    assert_eq!(rig.samples(0).last(), Some(&(330 * MS, Edge::Closes)));
    assert!(rig.log.iter().all(|(_, command)| {
        *command != LoadCommand::Order { load: 0, order: GeneratorOrder::CloseWindow }
    }));
    assert_eq!(ended.unwrap()[0].cut, None);
}

/// The readings that take long, and the closing of connections, follow all closing samples.
#[test]
fn closing_samples_precede_slow_readings_and_closing() {
    let slow = Script::Loads { ready_ns: MS, drain_ns: 400 * MS };
    let mut longer = spec(1);
    longer.load.duration_ns = 800 * MS;
    let loads = vec![
        (spec(1), vec![PROMPT], WatchScript::default()),
        (longer, vec![slow], WatchScript::default()),
    ];
    let (rig, _) = run(loads);
    let closing = rig.log.iter().filter_map(|(_, command)| match command {
        LoadCommand::Sample { load, edge: Edge::Closes } => Some(("sample", *load)),
        LoadCommand::Complete { load, .. } => Some(("complete", *load)),
        LoadCommand::Order { load, order: GeneratorOrder::Close } => Some(("close", *load)),
        _ => None,
    });
    let expected = ["sample", "complete", "close"].map(|step| [(step, 0), (step, 1)]);
    assert_eq!(closing.collect::<Vec<_>>(), expected.concat());
}

/// Two loads that run together, with readings that take longer than an interval. Each sample of the
/// second load waits for a reading of the first one.
#[test]
fn slow_readings_excuse_delays_and_skip_missed_samples() {
    let mut specs = [spec(1), spec(1)];
    share_cpus(&mut specs);
    let loads = specs.map(|spec| (spec, vec![PROMPT], WatchScript::default()));
    let mut rig = Rig::new(loads.into());
    rig.reading_ns = 350 * MS;
    rig.run();
    let begin_ns = rig.begin_ns.unwrap();
    let controller = std::mem::replace(&mut rig.controller, Controller::new([]));
    let ended = controller.finish().unwrap();
    let times = |load: usize| -> Vec<(u64, u64)> {
        let samples = ended[load].samples.iter();
        samples.map(|s| ((s.at_ns - begin_ns) / MS, s.delayed_ns / MS)).collect()
    };
    // The readings are made one after the other. Both loads open at 200 and close at 1,000 ms. The
    // samples between are missed.
    assert_eq!(times(0), [(0, 0), (700, 500), (1400, 400)]);
    assert_eq!(times(1), [(350, 350), (1050, 850), (1750, 750)]);
}

/// The readings that take long delay no opening sample of another load.
#[test]
fn probes_open_after_opening_samples_of_all_loads() {
    let mut specs = [spec(1), spec(1)];
    share_cpus(&mut specs);
    let loads = specs.map(|spec| (spec, vec![PROMPT], WatchScript::default()));
    let (rig, _) = run(loads.into());
    let opening = rig.log.iter().filter_map(|(_, command)| match command {
        LoadCommand::Sample { load, edge: Edge::Opens } => Some(("sample", *load)),
        LoadCommand::OpenProbes { load } => Some(("probes", *load)),
        _ => None,
    });
    let expected = ["sample", "probes"].map(|step| [(step, 0), (step, 1)]);
    assert_eq!(opening.collect::<Vec<_>>(), expected.concat());
}

#[test]
fn loads_in_turns_are_sampled_in_their_turns() {
    let mut specs = [spec(1), spec(1), spec(1)];
    take_turns(&mut specs, 40 * MS);
    let loads = specs.iter().map(|spec| (spec.clone(), vec![PROMPT], WatchScript::default()));
    let (rig, ended) = run(loads.collect());
    // A round is 240 ms. Alone, the phases take 100 and 400 ms.
    let (opens, closes) = (480 * MS, 480 * MS + 1200 * MS);
    for (index, spec) in specs.iter().enumerate() {
        let samples = rig.samples(index);
        assert!(samples.contains(&(opens, Edge::Opens)), "{samples:?}");
        assert_eq!(samples.last(), Some(&(closes, Edge::Closes)));
        let turns = spec.sharing.slices().unwrap().slices_between(0, closes);
        for edge in turns.iter().flat_map(|(start, end)| [start, end]) {
            assert!(samples.iter().any(|(at_ns, _)| at_ns == edge), "{edge} {samples:?}");
        }
    }
    let begins: Vec<u64> = ended.unwrap().iter().map(|load| load.began_ns).collect();
    assert_eq!(begins, [rig.begin_ns.unwrap(); 3]);
}

#[test]
fn loads_that_share_cpus_are_extended() {
    let mut specs = [spec(1), spec(1)];
    share_cpus(&mut specs);
    assert_eq!(specs[0].sharing, Sharing::Together { loads: 2 });
    let loads = specs.iter().map(|spec| (spec.clone(), vec![PROMPT], WatchScript::default()));
    let (rig, _) = run(loads.collect());
    for load in 0..2 {
        let samples = rig.samples(load);
        assert!(samples.contains(&(200 * MS, Edge::Opens)));
        assert_eq!(samples.last(), Some(&(1000 * MS, Edge::Closes)));
    }
}

fn any_script() -> impl Strategy<Value = Script> {
    prop_oneof![
        8 => (0..700 * MS, 0..900 * MS)
            .prop_map(|(ready_ns, drain_ns)| Script::Loads { ready_ns, drain_ns }),
        1 => (0..900 * MS).prop_map(Script::FailsAt),
        1 => Just(Script::Silent),
        1 => Just(Script::SilentOnceReady),
    ]
}

fn any_watch() -> impl Strategy<Value = WatchScript> {
    let stop = (SECOND..4 * SECOND, prop_oneof![Just(None), Just(Some("exited"))]);
    prop_oneof![
        2 => Just(WatchScript::default()),
        1 => stop.prop_map(|stop| WatchScript { stops: Some(stop) }),
    ]
}

fn any_load() -> impl Strategy<Value = (LoadSpec, Vec<Script>, WatchScript)> {
    (prop::collection::vec(any_script(), 1..4), any_watch())
        .prop_map(|(scripts, watch)| (spec(scripts.len() as u32), scripts, watch))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Loads end for all workers and watches, and the controller keeps its promises.
    #[test]
    fn loads_begin_end_and_close_together(
        loads in prop::collection::vec(any_load(), 1..4),
        sharing in 0..3,
    ) {
        let (mut specs, rest): (Vec<LoadSpec>, Vec<_>) =
            loads.into_iter().map(|(spec, scripts, watch)| (spec, (scripts, watch))).unzip();
        match sharing {
            1 => take_turns(&mut specs, 40 * MS),
            2 => share_cpus(&mut specs),
            _ => {}
        }
        let loads = specs.into_iter().zip(rest).map(|(s, (scripts, watch))| (s, scripts, watch));
        let (rig, ended) = run(loads.collect());
        let scripts = || rig.scripts.iter().flatten();
        let can_answer = scripts().all(|script| matches!(script, Script::Loads { .. }));
        if can_answer {
            prop_assert!(ended.is_ok(), "{:?}", ended);
        }
        let loads = rig.specs.len();
        let all = |wanted: fn(&GeneratorOrder) -> bool| -> Vec<(u64, GeneratorOrder)> {
            (0..loads).flat_map(|load| rig.orders(load)).filter(|(_, o)| wanted(o)).collect()
        };
        let begins = all(|order| matches!(order, GeneratorOrder::Begin(_)));
        prop_assert!(begins.is_empty() || begins == vec![begins[0]; loads], "{:?}", begins);
        let ends = all(|order| matches!(order, GeneratorOrder::End(_)));
        prop_assert!(ends.is_empty() || ends == vec![ends[0]; loads], "{:?}", ends);
        let closes = all(|order| matches!(order, GeneratorOrder::Close));
        prop_assert_eq!(&closes, &vec![closes[0]; loads]);
        for load in 0..loads {
            let samples = rig.samples(load);
            prop_assert!(samples.is_sorted_by_key(|(at_ns, _)| *at_ns));
            let closing = samples.iter().filter(|(_, edge)| *edge == Edge::Closes).count();
            prop_assert!(closing <= 1 && (closing == 1 || !ends.is_empty()));
            let last = samples.last().map(|(at_ns, _)| at_ns + rig.begin_ns.unwrap());
            prop_assert!(last.is_none_or(|last| last <= closes[0].0));
        }
        if let Ok(ended) = ended {
            prop_assert_eq!(ended.iter().all(|load| load.began_ns == ended[0].began_ns), true);
            let is_cut = |load: &EndedLoad| load.cut.is_some() || load.failure.is_some();
            prop_assert!(ends.is_empty() || ended.iter().all(is_cut));
        }
    }
}

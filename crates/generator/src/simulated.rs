//! Simulates loads with the workers and the controller of real ones, but without threads, sockets
//! or a clock. Tests use them for results that never vary.

use std::collections::VecDeque;

use dyno_engine::Instant;
use dyno_engine::sim::{self, SimulationResult, World};
use dyno_model::plan::Priority;
use dyno_model::{LoadRecord, Sample};

use super::controller::Controller;
use super::instrument::{Capabilities, GeneratorReadings, Support};
use super::messages::{GeneratorOrder, LoadCommand, Message, WorkerEvent, WorkerId, WorkerResult};
use super::record::assemble;
use super::spec::LoadSpec;
use super::watch::{Edge, LoadStopReason};
use super::worker_share::config;
use crate::limits::BEGIN_NOTICE_NS;

/// Reads the simulated server's counters at an instant of the simulated clock.
pub type CounterReader<'a> = dyn FnMut(u64, Edge) -> Option<Sample> + 'a;

/// The end of a simulated load before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlyEnd {
    /// Instant of the end, nanoseconds since the load began.
    pub at_ns: u64,
    pub reason: LoadStopReason,
}

/// A load to simulate.
#[allow(missing_debug_implementations)] // It holds closures.
pub struct SimulatedLoad<'a> {
    pub spec: &'a LoadSpec,
    /// Returns the simulated world of each worker.
    pub world: &'a dyn Fn(u32) -> World,
    /// `None`: this load does not end early by itself.
    pub early_end: Option<&'a EarlyEnd>,
    /// Is called for each instant at which a real load would take a sample. A failed server has no
    /// counters to read.
    pub read_counters: &'a mut CounterReader<'a>,
}

/// What a simulated load can do. It does not measure the generator.
const CAPABILITIES: Capabilities = Capabilities {
    tls: Support::Unsupported("simulated load: has no TLS"),
    open_end: Support::Unsupported(
        "simulated load: needs a duration or a number of requests, because no user ends it",
    ),
    kernel_stamps: Support::Unsupported("simulated load: has no kernel"),
};

/// Simulates a load as [`simulate_together`] does.
///
/// # Errors
/// The specification cannot be simulated.
pub fn simulate(load: SimulatedLoad<'_>, began_ns: u64) -> Result<LoadRecord, String> {
    let mut records = simulate_together(vec![load], began_ns)?;
    Ok(records.remove(0))
}

/// Simulates loads that begin at the same instant, `began_ns` on the clock of the records, at least
/// [`BEGIN_NOTICE_NS`]. If one load ends early, all loads end. Returns the records in the order of
/// the loads.
///
/// # Errors
/// A specification cannot be simulated.
pub fn simulate_together(
    loads: Vec<SimulatedLoad<'_>>,
    began_ns: u64,
) -> Result<Vec<LoadRecord>, String> {
    let specs: Vec<&LoadSpec> = loads.iter().map(|load| load.spec).collect();
    for spec in &specs {
        CAPABILITIES.check(spec)?;
    }
    let timeline = Timeline::new(&loads)?;
    let mut simulation = Simulation {
        controller: Controller::new(specs.iter().copied()),
        now_ns: began_ns - BEGIN_NOTICE_NS,
        began_ns,
        loads,
        may_close: false,
    };
    simulation.run(timeline);
    let ended = simulation.controller.finish()?;
    let record = |(spec, ended)| assemble(spec, ended, GeneratorReadings::Unsupported);
    Ok(specs.into_iter().zip(ended).map(record).collect())
}

/// What happens in loads, as their workers and watches report it.
struct Timeline {
    workers: Vec<WorkerId>,
    /// Messages with their times since the loads began, nanoseconds, in the order of time.
    messages: Vec<(u64, Message)>,
    /// The last messages of the workers, which close their connections.
    closed: Vec<Message>,
}

impl Timeline {
    /// Runs each worker in its world, until the first early end of a load if there is one.
    fn new(loads: &[SimulatedLoad<'_>]) -> Result<Timeline, String> {
        let mut timeline =
            Timeline { workers: Vec::new(), messages: Vec::new(), closed: Vec::new() };
        let ends = || (0..).zip(loads).filter_map(|(load, l)| Some((load, l.early_end?)));
        let first_end_ns = ends().map(|(_, end)| end.at_ns).min();
        for (index, load) in loads.iter().enumerate() {
            for worker in 0..load.spec.threads() {
                let config = config(load.spec, worker)?;
                let world = (load.world)(worker);
                let simulated = match first_end_ns {
                    Some(at_ns) => sim::simulate_cut(world, config, at_ns),
                    None => sim::simulate(world, config),
                };
                timeline.add_worker(WorkerId { load: index, worker }, simulated);
            }
        }
        let drained_ns = timeline.messages.iter().map(|(at_ns, _)| *at_ns).max();
        // Loads that have drained cannot end early.
        if let Some(at_ns) = first_end_ns.filter(|at_ns| Some(*at_ns) <= drained_ns) {
            let first = ends().filter(|(_, end)| end.at_ns == at_ns);
            let reasons = first.map(|(load, end)| (load, end.reason.clone())).collect();
            timeline.messages.insert(0, (at_ns, Message::StopRequested(reasons)));
        }
        // A worker ends after the request to end. The messages of a worker stay in order.
        timeline.messages.sort_by_key(|(at_ns, _)| *at_ns);
        Ok(timeline)
    }

    fn add_worker(&mut self, worker: WorkerId, simulated: SimulationResult) {
        self.workers.push(worker);
        let drained_ns = simulated.intervals.last().map_or(0, |interval| interval.end_ns);
        for interval in simulated.intervals {
            let end_ns = interval.end_ns;
            let event = WorkerEvent::Interval(Box::new(interval));
            self.messages.push((end_ns, Message::Worker(worker, event)));
        }
        self.messages.push((drained_ns, Message::Worker(worker, WorkerEvent::Drained)));
        let result = WorkerResult { report: simulated.report, priority: Priority::Normal };
        self.closed.push(Message::Worker(worker, WorkerEvent::Closed(Box::new(result))));
    }
}

/// Controlled loads in virtual time.
struct Simulation<'a> {
    controller: Controller,
    now_ns: u64,
    began_ns: u64,
    loads: Vec<SimulatedLoad<'a>>,
    may_close: bool,
}

impl Simulation<'_> {
    /// Passes all messages of the loads to the controller at their times.
    fn run(&mut self, timeline: Timeline) {
        for worker in timeline.workers {
            self.handle(Message::Worker(worker, WorkerEvent::Ready));
        }
        for (at_ns, message) in timeline.messages {
            self.pass_time(self.began_ns + at_ns);
            self.handle(message);
        }
        self.pass_time(self.now_ns);
        assert!(self.may_close, "all samples of drained loads should be taken");
        timeline.closed.into_iter().for_each(|message| self.handle(message));
    }

    /// Lets time pass until an instant. Samples are taken at their exact times.
    fn pass_time(&mut self, until_ns: u64) {
        loop {
            self.handle(Message::Tick);
            let now = Instant(self.now_ns);
            let next = now.plus(self.controller.wait(now).as_nanos() as u64);
            if next == now || next.0 > until_ns {
                break;
            }
            self.now_ns = next.0;
        }
        self.now_ns = until_ns;
        self.handle(Message::Tick);
    }

    /// Passes a message to the controller, and executes all commands that follow from it.
    fn handle(&mut self, message: Message) {
        let mut commands = VecDeque::from(self.controller.handle(message, Instant(self.now_ns)));
        while let Some(command) = commands.pop_front() {
            if let Some(answer) = self.execute(command) {
                commands.extend(self.controller.handle(answer, Instant(self.now_ns)));
            }
        }
    }

    /// Executes a command. Returns the answer to the controller, if the command needs one.
    fn execute(&mut self, command: LoadCommand) -> Option<Message> {
        match command {
            LoadCommand::Sample { load, edge } => {
                let sample = self.sample(load, edge).map(Box::new);
                Some(Message::Sampled { load, sample })
            }
            LoadCommand::Complete { load, sample } => Some(Message::Completed { load, sample }),
            LoadCommand::Order { order: GeneratorOrder::Close, .. } => {
                self.may_close = true;
                None
            }
            // The simulated workers have run already, and no watch follows the load.
            LoadCommand::Order { .. }
            | LoadCommand::OpenProbes { .. }
            | LoadCommand::Report { .. }
            | LoadCommand::AskWatches => None,
        }
    }

    /// Reads the counters of a load's server. `None`: the server has failed.
    fn sample(&mut self, load: usize, edge: Edge) -> Option<Sample> {
        let SimulatedLoad { early_end, read_counters, .. } = &mut self.loads[load];
        let has_failed = early_end.is_some_and(|end| {
            end.reason != LoadStopReason::Stopped && self.now_ns > self.began_ns + end.at_ns
        });
        if has_failed { None } else { read_counters(self.now_ns, edge) }
    }
}

#[cfg(test)]
mod tests {
    use dyno_engine::sim::{Queue, ServerModel, ServiceTime};
    use dyno_model::load::Books;

    use super::*;
    use crate::controller_tests::spec;
    use crate::spec::share_cpus;

    const MS: u64 = 1_000_000;
    const BEGAN_NS: u64 = 1000 * MS;

    /// Simulates two loads of 500 ms at the same time, of which some end early. Returns the
    /// records, and the times of their samples since the loads began, milliseconds.
    fn simulate_two(early_ends: &[Option<EarlyEnd>; 2]) -> (Vec<LoadRecord>, Vec<Vec<u64>>) {
        let mut specs = vec![spec(2), spec(2)];
        share_cpus(&mut specs);
        // Both phases are twice as long, because two loads share the CPUs.
        let service = ServiceTime::Fixed { ns: 2 * MS };
        let world = |worker: u32| {
            World::new(worker.into(), ServerModel::new(service, Queue::PerConnection))
        };
        let mut readers = [|at_ns: u64, _| Some(Sample { at_ns, ..Sample::default() }); 2];
        let loads = specs.iter().zip(early_ends).zip(&mut readers).map(
            |((spec, early_end), read_counters)| SimulatedLoad {
                spec,
                world: &world,
                early_end: early_end.as_ref(),
                read_counters,
            },
        );
        let records = simulate_together(loads.collect(), BEGAN_NS).unwrap();
        let times = |record: &LoadRecord| {
            record.samples.iter().map(|sample| (sample.at_ns - BEGAN_NS) / MS).collect()
        };
        let times = records.iter().map(times).collect();
        (records, times)
    }

    #[test]
    fn loads_without_early_end_last_for_their_window() {
        let (records, times) = simulate_two(&[None, None]);
        let all: Vec<u64> = (0..=10).map(|k| 100 * k).collect();
        assert_eq!(times, [all.clone(), all]);
        for record in &records {
            assert_eq!((record.window_ns, record.cut_short), ((200 * MS, 1000 * MS), false));
            assert_eq!((record.began_ns, record.concurrent_loads), (BEGAN_NS, Some(2)));
        }
    }

    #[test]
    fn failed_server_ends_all_loads() {
        let reason = LoadStopReason::ServerFailed("it crashed".into());
        let later = EarlyEnd { at_ns: 700 * MS, reason: LoadStopReason::Stopped };
        let ends = [Some(EarlyEnd { at_ns: 550 * MS, reason }), Some(later)];
        let (records, times) = simulate_two(&ends);
        let [failed, other] = records.as_slice() else { panic!("two records") };
        assert_eq!(
            (failed.server_failure.as_deref(), failed.cut_short),
            (Some("it crashed"), false)
        );
        assert_eq!((other.server_failure.as_deref(), other.cut_short), (None, true));
        // The windows close when the workers read the order to end: at their next responses, of
        // which there is one every 2.02 ms.
        let closed_ms: Vec<u64> = records.iter().map(|r| r.window_ns.1 / MS).collect();
        assert_eq!(closed_ms, [551, 551]);
        // The other server is sampled once more, when its last response has arrived.
        assert_eq!(
            times,
            [vec![0, 100, 200, 300, 400, 500], vec![0, 100, 200, 300, 400, 500, 553]]
        );
    }

    #[test]
    fn stopped_load_that_has_drained_is_not_cut() {
        let end = |at_ns| Some(EarlyEnd { at_ns, reason: LoadStopReason::Stopped });
        let in_flight = |Books { in_flight_at_end, .. }: &Books| *in_flight_at_end;
        for at_ms in [1001, 2000] {
            let (records, _) = simulate_two(&[end(at_ms * MS), None]);
            assert!(records.iter().all(|record| !record.cut_short), "{at_ms}");
            assert!(records.iter().all(|record| in_flight(&record.books) == 0), "{at_ms}");
        }
    }
}

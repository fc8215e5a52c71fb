//! Simulates a load with the workers and the controller of a real one, but without threads, sockets
//! or a clock. Tests use it for results that never vary.

use dyno_archive::plan::Priority;
use dyno_archive::{LoadRecord, Sample};
use dyno_engine::Instant;
use dyno_engine::sim::{self, World};

use super::controller::Controller;
use super::instrument::{Capabilities, GeneratorReadings, Support};
use super::messages::{GeneratorOrder, LoadCommand, Message, WorkerEvent, WorkerId, WorkerResult};
use super::record::assemble;
use super::spec::LoadSpec;
use super::watch::Edge;
use super::worker_share::config;
use crate::limits::BEGIN_NOTICE_NS;

/// Reads the simulated server's counters at an instant of the simulated clock.
pub type CounterReader<'a> = dyn FnMut(u64, Edge) -> Option<Sample> + 'a;

/// What a simulated load can do. It does not measure the generator.
const CAPABILITIES: Capabilities = Capabilities {
    tls: Support::Unsupported("simulated load: has no TLS"),
    open_end: Support::Unsupported(
        "simulated load: needs a duration, because nothing else ends it",
    ),
    kernel_stamps: Support::Unsupported("simulated load: has no kernel"),
};

/// Simulates a load to its end. Each worker has its own simulated world. The load begins at
/// `began_ns` on the clock of these worlds, at least [`BEGIN_NOTICE_NS`]. `read_counters` is called
/// for each instant at which a real load would take a sample. `Err`: the specification cannot be
/// simulated.
pub fn simulate(
    spec: &LoadSpec,
    began_ns: u64,
    world: impl Fn(u32) -> World,
    read_counters: &mut CounterReader<'_>,
) -> Result<LoadRecord, String> {
    CAPABILITIES.check(spec)?;
    let mut simulation = Simulation {
        controller: Controller::new([spec]),
        now_ns: began_ns - BEGIN_NOTICE_NS,
        read_counters,
        may_close: false,
    };
    let workers = spec.threads();
    for worker in 0..workers {
        simulation.handle(worker, WorkerEvent::Ready);
    }
    let mut events: Vec<(u64, u32, WorkerEvent)> = Vec::new();
    let mut results = Vec::new();
    for worker in 0..workers {
        let simulated = sim::simulate(world(worker), config(spec, worker)?);
        let drained_ns = simulated.intervals.last().map_or(0, |interval| interval.end_ns);
        for interval in simulated.intervals {
            let end_ns = interval.end_ns;
            events.push((end_ns, worker, WorkerEvent::Interval(Box::new(interval))));
        }
        events.push((drained_ns, worker, WorkerEvent::Drained));
        results.push(WorkerResult { report: simulated.report, priority: Priority::Normal });
    }
    // The events of a worker stay in order.
    events.sort_by_key(|(at_ns, worker, _)| (*at_ns, *worker));
    for (at_ns, worker, event) in events {
        simulation.pass_time(began_ns + at_ns);
        simulation.handle(worker, event);
    }
    simulation.pass_time(simulation.now_ns);
    assert!(simulation.may_close, "all samples of a drained load should be taken");
    for (worker, result) in (0..).zip(results) {
        simulation.handle(worker, WorkerEvent::Closed(Box::new(result)));
    }
    let mut ended = simulation.controller.finish()?;
    Ok(assemble(spec, ended.remove(0), GeneratorReadings::Unsupported))
}

/// A controlled load in virtual time.
struct Simulation<'a, 'r> {
    controller: Controller,
    now_ns: u64,
    read_counters: &'a mut CounterReader<'r>,
    may_close: bool,
}

impl Simulation<'_, '_> {
    /// Lets time pass until an instant. Samples are taken at their exact times.
    fn pass_time(&mut self, until_ns: u64) {
        loop {
            self.pass_message(Message::Tick);
            let now = Instant(self.now_ns);
            let next = now.plus(self.controller.wait(now).as_nanos() as u64);
            if next == now || next.0 > until_ns {
                break;
            }
            self.now_ns = next.0;
        }
        self.now_ns = until_ns;
        self.pass_message(Message::Tick);
    }

    fn handle(&mut self, worker: u32, event: WorkerEvent) {
        self.pass_message(Message::Worker(WorkerId { load: 0, worker }, event));
    }

    /// Passes a message to the controller, and executes the commands that follow from it.
    fn pass_message(&mut self, message: Message) {
        let mut messages = vec![message];
        while let Some(message) = messages.pop() {
            for command in self.controller.handle(message, Instant(self.now_ns)) {
                match command {
                    LoadCommand::Sample { edge, .. } => {
                        let sample = (self.read_counters)(self.now_ns, edge).map(Box::new);
                        messages.push(Message::Sampled { load: 0, sample });
                    }
                    LoadCommand::Complete { load, sample } => {
                        messages.push(Message::Completed { load, sample });
                    }
                    LoadCommand::Order { order: GeneratorOrder::Close, .. } => {
                        self.may_close = true;
                    }
                    // The simulated workers have run already, and no watch follows the load.
                    LoadCommand::Order { .. }
                    | LoadCommand::Report { .. }
                    | LoadCommand::AskWatches => {}
                }
            }
        }
    }
}

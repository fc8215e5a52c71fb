//! Runs loads on this machine: executes the commands of the controller, with a real clock.

use std::collections::VecDeque;
use std::sync::mpsc::{self, RecvTimeoutError};

use dyno_driver::sys;
use dyno_model::LoadRecord;
use dyno_model::machine::Stops;

use super::controller::Controller;
use super::instrument::{GeneratorReadings, Instrument, StartedLoad};
use super::messages::{GeneratorOrder, LoadCommand, Message};
use super::native::Native;
use super::pauses::ControlPauses;
use super::record::assemble;
use super::resources;
use super::response_counts::ResponseCounts;
use super::sink::Sink;
use super::spec::LoadSpec;
use super::watch::{LoadStopReason, Watch};

/// A load and its watch.
#[allow(missing_debug_implementations)] // It holds a trait object.
pub struct MonitoredLoad<'a> {
    pub spec: &'a LoadSpec,
    pub watch: &'a mut dyn Watch,
}

/// Runs a load. `Err`: the load could not begin.
pub fn run(spec: &LoadSpec, watch: &mut dyn Watch) -> Result<LoadRecord, String> {
    let mut records = run_together(&mut [MonitoredLoad { spec, watch }])?;
    Ok(records.remove(0))
}

/// Runs loads that begin at the same instant. If one load ends early, all loads end, so that the
/// compared servers were loaded for the same time. Returns the records in the order of the loads.
///
/// # Errors
/// A load could not begin, so none has begun. Or a worker does not answer.
pub fn run_together(loads: &mut [MonitoredLoad<'_>]) -> Result<Vec<LoadRecord>, String> {
    resources::check(loads.iter().map(|load| load.spec))?;
    let (to_controller, messages) = mpsc::channel();
    let started = start(loads, &to_controller)?;
    // Only the workers keep the channel open.
    drop(to_controller);
    let controller = Controller::new(loads.iter().map(|load| load.spec));
    let pauses = ControlPauses::new(sys::run_delay());
    let windows = vec![PausesInWindow::default(); started.len()];
    let mut session = Session { controller, started, loads, pauses, windows };
    while !session.controller.is_over() {
        // The clock is read immediately before the sleep, because the wait begins there.
        let now = sys::now();
        let sleep = session.pauses.next_sleep(session.controller.wait(now));
        match messages.recv_timeout(sleep) {
            Ok(message) => session.handle(message),
            Err(RecvTimeoutError::Timeout) => {
                // The clock is read right after the sleep, so that later work is no delay.
                let late_ns = sys::now().ns_since(now.plus(sleep.as_nanos() as u64));
                session.pauses.count(late_ns, sys::run_delay);
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
        session.handle(Message::Tick);
    }
    session.finish()
}

/// Starts the generators of loads.
fn start(
    loads: &[MonitoredLoad<'_>],
    to_controller: &mpsc::Sender<Message>,
) -> Result<Vec<Box<dyn StartedLoad>>, String> {
    let mut started: Vec<Box<dyn StartedLoad>> = Vec::new();
    for (index, load) in loads.iter().enumerate() {
        match start_one(index, load, to_controller) {
            Ok(load) => started.push(load),
            Err(reason) => {
                // All workers end before the error is reported.
                started.into_iter().for_each(|load| drop(load.finish()));
                return Err(reason);
            }
        }
    }
    Ok(started)
}

fn start_one(
    index: usize,
    MonitoredLoad { spec, watch }: &MonitoredLoad<'_>,
    to_controller: &mpsc::Sender<Message>,
) -> Result<Box<dyn StartedLoad>, String> {
    let instrument = Native { driver: spec.load.driver };
    instrument.capabilities().check(spec)?;
    let counts = watch.response_counts().unwrap_or_else(|| ResponseCounts::new(spec.threads()));
    instrument.start(spec, Sink::new(index, to_controller.clone(), counts))
}

/// Running loads with their generators and watches.
struct Session<'a, 'l> {
    controller: Controller,
    /// In the order of the loads.
    started: Vec<Box<dyn StartedLoad>>,
    loads: &'a mut [MonitoredLoad<'l>],
    pauses: ControlPauses,
    /// Readings of the pauses, in the order of the loads.
    windows: Vec<PausesInWindow>,
}

/// The control thread's pauses so far at the edges of a window. `None`: not reached.
#[derive(Clone, Copy, Default)]
struct PausesInWindow {
    opens: Option<Stops>,
    closes: Option<Stops>,
}

impl Session<'_, '_> {
    /// Handles a message, and executes all commands that follow from it.
    fn handle(&mut self, message: Message) {
        let mut commands = VecDeque::from(self.controller.handle(message, sys::now()));
        while let Some(command) = commands.pop_front() {
            if let Some(answer) = self.execute(command) {
                // The clock is read at each message, because decisions need the present time.
                commands.extend(self.controller.handle(answer, sys::now()));
            }
        }
    }

    /// Executes a command. Returns the answer to the controller, if the command needs one.
    fn execute(&mut self, command: LoadCommand) -> Option<Message> {
        match command {
            LoadCommand::Order { load, order } => {
                match order {
                    GeneratorOrder::OpenWindow => {
                        self.windows[load].opens = self.pauses.total();
                    }
                    GeneratorOrder::CloseWindow => {
                        self.windows[load].closes = self.pauses.total();
                    }
                    _ => {}
                }
                self.started[load].obey(order);
                None
            }
            LoadCommand::Sample { load, edge } => {
                let sample = self.loads[load].watch.sample(edge).map(Box::new);
                Some(Message::Sampled { load, sample })
            }
            LoadCommand::OpenProbes { load } => {
                self.loads[load].watch.open_probes();
                None
            }
            LoadCommand::Complete { load, mut sample } => {
                self.loads[load].watch.complete(&mut sample);
                Some(Message::Completed { load, sample })
            }
            LoadCommand::Report { load, interval } => {
                self.loads[load].watch.interval(&interval);
                None
            }
            LoadCommand::AskWatches => {
                // Every watch is asked, even after the end was decided, because a watch also
                // updates the screen.
                let reasons: Vec<(usize, LoadStopReason)> = (0..)
                    .zip(&mut *self.loads)
                    .filter_map(|(index, load)| Some((index, load.watch.stop()?)))
                    .collect();
                (!reasons.is_empty()).then_some(Message::StopRequested(reasons))
            }
        }
    }

    /// Returns the records of the loads.
    fn finish(self) -> Result<Vec<LoadRecord>, String> {
        let total = self.pauses.total();
        let finish = |(started, window): (Box<dyn StartedLoad>, PausesInWindow)| {
            let mut readings = started.finish();
            if let GeneratorReadings::Read { machine: Some(machine), .. } = &mut readings {
                machine.stopped = window.opens.zip(total).map(|(opens, total)| {
                    let closes = window.closes.unwrap_or(total);
                    Stops { count: closes.count - opens.count, ns: closes.ns - opens.ns }
                });
            }
            readings
        };
        let readings: Vec<_> = self.started.into_iter().zip(self.windows).map(finish).collect();
        let ended = self.controller.finish()?;
        let specs = self.loads.iter().map(|load| load.spec);
        let record = |((spec, ended), readings): ((&LoadSpec, _), _)| LoadRecord {
            address: Some(spec.target.endpoint.peer.to_string()),
            ..assemble(spec, ended, readings)
        };
        Ok(specs.zip(ended).zip(readings).map(record).collect())
    }
}

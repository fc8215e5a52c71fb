//! Decides when loads that run together begin, are sampled, end and close their connections.
//!
//! The controller is a state machine without a clock, threads or sockets. Real loads, simulated
//! loads and tests drive it with messages, and execute its commands.

use std::time::Duration;

use dyno_engine::{Instant, Stop};
use dyno_model::{Interval, Sample};

use super::answer_wait::AnswerWait;
use super::messages::{GeneratorOrder, LoadCommand, Message, WorkerEvent, WorkerId, WorkerResult};
use super::observations::Observations;
use super::readings::Readings;
use super::record::{CutPhase, EndedLoad};
use super::spec::LoadSpec;
use super::watch::{Edge, LoadStopReason};
use crate::limits::{BEGIN_NOTICE_NS, STOP_CHECK_INTERVAL};

/// The controller of loads that begin at the same instant. If one load ends early, all loads end,
/// so that the compared servers were loaded for the same time.
#[derive(Debug)]
pub struct Controller {
    loads: Vec<LoadControl>,
    /// Instant at which all loads begin; `None`: some workers are not ready.
    begin: Option<Instant>,
    /// Instant at which the watches were asked last.
    asked: Option<Instant>,
    /// Whether workers may close their connections, because the closing samples of all loads were
    /// taken.
    may_close: bool,
    answer_wait: AnswerWait,
    readings: Readings,
}

/// The state of one load.
#[derive(Debug)]
struct LoadControl {
    observations: Observations,
    workers: Vec<WorkerState>,
    /// Longest time from the start of a worker to its [`WorkerEvent::Ready`], nanoseconds.
    ready_limit_ns: u64,
    /// Longest time from the begin of the load to its last response, nanoseconds. `None`: the load
    /// has no planned end.
    length_ns: Option<u64>,
    /// Longest time from the end of the window to the last response, nanoseconds.
    drain_ns: u64,
    /// How the load ends early. `None`: there is no reason for an early end so far.
    stop: Option<Stop>,
    /// Failure of the server, as its watch reported it.
    failure: Option<String>,
    /// Phase in which the load was ended before its time.
    cut: Option<CutPhase>,
    /// Answer of the watch for which the load waits.
    awaited: Option<Awaited>,
}

#[derive(Debug)]
enum WorkerState {
    Opening,
    Ready,
    Drained,
    Closed(Box<WorkerResult>),
    Failed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Sample,
    Completion,
}

impl Controller {
    /// Creates the controller of loads before their generators start.
    #[must_use]
    pub fn new<'a>(specs: impl IntoIterator<Item = &'a LoadSpec>) -> Controller {
        Controller {
            loads: specs.into_iter().map(LoadControl::new).collect(),
            begin: None,
            asked: None,
            may_close: false,
            answer_wait: AnswerWait::default(),
            readings: Readings::default(),
        }
    }

    /// Handles a message at an instant, and returns the commands that follow from it, in order.
    pub fn handle(&mut self, message: Message, now: Instant) -> Vec<LoadCommand> {
        let mut commands = Vec::new();
        match message {
            Message::Worker(worker, event) => self.handle_worker(worker, event, now, &mut commands),
            Message::Sampled { load, sample } => self.add_sample(load, sample, now),
            Message::Completed { load, sample } => self.loads[load].complete(sample),
            Message::StopRequested(reasons) => self.end_loads(reasons, now, &mut commands),
            Message::Tick => self.tick(now, &mut commands),
        }
        self.close_if_sampled(&mut commands);
        commands
    }

    /// Returns how long to wait for a message. Then [`Message::Tick`] is due, whether or not there
    /// was a message.
    #[must_use]
    pub fn wait(&self, now: Instant) -> Duration {
        let samples = self.loads.iter().filter_map(|load| load.observations.next_sample());
        let next = samples.map(|(at_ns, _)| at_ns).min();
        self.begin.zip(next).map_or(STOP_CHECK_INTERVAL, |(begin, at_ns)| {
            Duration::from_nanos(begin.plus(at_ns).ns_since(now)).min(STOP_CHECK_INTERVAL)
        })
    }

    /// Returns whether all workers have sent their last messages.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.loads.iter().all(|load| load.workers.iter().all(WorkerState::is_final))
    }

    /// Returns the results of the loads, in their order.
    ///
    /// # Errors
    /// A worker failed, or has sent no result.
    pub(super) fn finish(self) -> Result<Vec<EndedLoad>, String> {
        let began_ns = self.begin.map_or(0, |begin| begin.0);
        self.loads.into_iter().map(|load| load.finish(began_ns)).collect()
    }

    fn handle_worker(
        &mut self,
        WorkerId { load: index, worker }: WorkerId,
        event: WorkerEvent,
        now: Instant,
        commands: &mut Vec<LoadCommand>,
    ) {
        let since_ns = since_begin(self.begin, now);
        let load = &mut self.loads[index];
        let state = &mut load.workers[worker as usize];
        if state.is_final() {
            // The controller no longer waits for the worker.
            return;
        }
        let report = |interval: &Interval| {
            commands
                .push(LoadCommand::Report { load: index, interval: Box::new(interval.clone()) });
        };
        match event {
            WorkerEvent::Ready => {
                *state = WorkerState::Ready;
                self.begin_if_ready(now, commands);
            }
            WorkerEvent::Interval(interval) => {
                load.observations.merge(worker, &interval, report);
            }
            WorkerEvent::Drained => {
                *state = WorkerState::Drained;
                load.observations.end_worker(worker, report);
                load.close_if_drained(since_ns);
            }
            WorkerEvent::Closed(result) => *state = WorkerState::Closed(result),
            WorkerEvent::Failed(reason) => {
                *state = WorkerState::Failed(reason);
                self.end_all(Stop::At(Instant(0)), now, commands);
            }
        }
    }

    /// Begins all loads if all workers are ready. A load that was stopped does not begin.
    fn begin_if_ready(&mut self, now: Instant, commands: &mut Vec<LoadCommand>) {
        let is_ready = |load: &LoadControl| {
            load.stop.is_none() && load.workers.iter().all(|w| matches!(w, WorkerState::Ready))
        };
        if self.begin.is_none() && self.loads.iter().all(is_ready) {
            let begin = now.plus(BEGIN_NOTICE_NS);
            self.begin = Some(begin);
            self.answer_wait = AnswerWait::default();
            self.order_all(GeneratorOrder::Begin(begin), commands);
        }
    }

    /// Requests the samples that are due, and asks the watches. The watches are asked at intervals,
    /// not at each message, because a watch makes system calls for each server, and the workers of
    /// loads that take turns send hundreds of messages per second.
    fn tick(&mut self, now: Instant, commands: &mut Vec<LoadCommand>) {
        self.give_up_if_overdue(now, commands);
        let since_ns = since_begin(self.begin, now);
        for load in &mut self.loads {
            load.close_if_drained(since_ns);
        }
        let mut opened = Vec::new();
        let mut has_readings = false;
        for (index, load) in self.loads.iter_mut().enumerate() {
            let Some(edge) = since_ns.and_then(|since_ns| load.due_sample(since_ns)) else {
                continue;
            };
            let reading = match edge {
                Edge::Opens => Some(GeneratorOrder::OpenWindow),
                Edge::Closes if !load.observations.has_ended_early() => {
                    Some(GeneratorOrder::CloseWindow)
                }
                Edge::Closes | Edge::Warmup | Edge::Within => None,
            };
            commands.extend(reading.map(|order| LoadCommand::Order { load: index, order }));
            commands.push(LoadCommand::Sample { load: index, edge });
            load.awaited = Some(Awaited::Sample);
            has_readings = true;
            opened.extend((edge == Edge::Opens).then_some(index));
        }
        if has_readings {
            self.readings.begin(now);
        }
        // They take long, so they would delay the samples of other loads.
        commands.extend(opened.into_iter().map(|load| LoadCommand::OpenProbes { load }));
        let interval_ns = STOP_CHECK_INTERVAL.as_nanos() as u64;
        if self.asked.is_none_or(|asked| now.ns_since(asked) >= interval_ns) {
            self.asked = Some(now);
            commands.push(LoadCommand::AskWatches);
        }
    }

    /// Stores a sample, which has the actual instant of the reading. It may be later than planned,
    /// because readings of other loads or earlier readings came first.
    fn add_sample(&mut self, load: usize, sample: Option<Box<Sample>>, now: Instant) {
        let load = &mut self.loads[load];
        let due = self.begin.zip(load.observations.next_sample());
        let due = due.map_or(now, |(begin, (due_ns, _))| begin.plus(due_ns));
        if load.awaited.take_if(|awaited| *awaited == Awaited::Sample).is_some() {
            let sample = sample.map(|sample| {
                let delayed_ns = self.readings.delay_ns(due, Instant(sample.at_ns));
                Sample { delayed_ns, ..*sample }
            });
            let since_ns = since_begin(self.begin, now).unwrap_or(0);
            load.observations.record_sample(sample, since_ns);
        }
        self.readings.end_one(now);
    }

    /// Ends the loads whose watches request it, and then all others.
    fn end_loads(
        &mut self,
        reasons: Vec<(usize, LoadStopReason)>,
        now: Instant,
        commands: &mut Vec<LoadCommand>,
    ) {
        // The end is a little later than now, so that all workers read it in time.
        let stop = Stop::Now(now.plus(BEGIN_NOTICE_NS));
        for (index, reason) in reasons {
            let load = &mut self.loads[index];
            // A watch may repeat its request.
            if load.stop.is_none()
                && let LoadStopReason::ServerFailed(message) = reason
            {
                load.failure = Some(message);
                load.stop = Some(stop);
                self.answer_wait = AnswerWait::default();
                commands.push(LoadCommand::Order { load: index, order: GeneratorOrder::End(stop) });
            }
        }
        self.end_all(stop, now, commands);
    }

    /// Ends all loads that have not been ended.
    fn end_all(&mut self, stop: Stop, now: Instant, commands: &mut Vec<LoadCommand>) {
        let since_ns = since_begin(self.begin, now);
        for (index, load) in self.loads.iter_mut().enumerate() {
            if load.stop.is_none() {
                load.stop = Some(stop);
                load.note_cut(since_ns);
                commands.push(LoadCommand::Order { load: index, order: GeneratorOrder::End(stop) });
                self.answer_wait = AnswerWait::default();
            }
        }
    }

    /// Lets all workers close their connections once the closing samples of all loads are complete.
    /// Each sample has the counters of all servers, so no connection is closed before. The readings
    /// that take long follow only after all closing samples, so that the samples are taken at the
    /// same instant.
    fn close_if_sampled(&mut self, commands: &mut Vec<LoadCommand>) {
        if self.may_close || !self.loads.iter().all(LoadControl::is_sampled) {
            return;
        }
        for (load, control) in self.loads.iter_mut().enumerate() {
            if let Some(sample) = control.observations.take_incomplete_closing_sample() {
                control.awaited = Some(Awaited::Completion);
                commands.push(LoadCommand::Complete { load, sample: Box::new(sample) });
            }
        }
        if self.loads.iter().all(|load| load.awaited.is_none()) {
            self.may_close = true;
            self.answer_wait = AnswerWait::default();
            self.order_all(GeneratorOrder::Close, commands);
        }
    }

    /// Ends all loads if workers have not answered for too long. Their load has no result.
    fn give_up_if_overdue(&mut self, now: Instant, commands: &mut Vec<LoadCommand>) {
        if !self.answer_wait.is_exhausted(now, self.answer_limit_ns()) {
            return;
        }
        let (may_close, has_begun) = (self.may_close, self.begin.is_some());
        let has_stopped = self.loads.iter().any(|load| load.stop.is_some());
        let is_awaited = |state: &WorkerState| match state {
            WorkerState::Opening => true,
            WorkerState::Ready => has_begun || has_stopped,
            WorkerState::Drained => may_close,
            WorkerState::Closed(_) | WorkerState::Failed(_) => false,
        };
        for (load, control) in self.loads.iter_mut().enumerate() {
            for (worker, state) in (0..).zip(&mut control.workers).filter(|(_, w)| is_awaited(w)) {
                *state = WorkerState::Failed(format!(
                    "worker {worker} of the load generator: does not answer"
                ));
                commands
                    .push(LoadCommand::Order { load, order: GeneratorOrder::GiveUp { worker } });
            }
        }
        self.answer_wait = AnswerWait::default();
        self.end_all(Stop::At(Instant(0)), now, commands);
    }

    /// Returns the longest time in which the workers of the present phase have to answer,
    /// nanoseconds. `None`: the phase has no planned end.
    fn answer_limit_ns(&self) -> Option<u64> {
        let longest = |limit: fn(&LoadControl) -> Option<u64>| {
            let limits = self.loads.iter().map(limit);
            limits.collect::<Option<Vec<u64>>>().map(|limits| limits.into_iter().max().unwrap_or(0))
        };
        if self.may_close || self.loads.iter().any(|load| load.stop.is_some()) {
            longest(|load| Some(load.drain_ns))
        } else if self.begin.is_some() {
            longest(|load| load.length_ns)
        } else {
            longest(|load| Some(load.ready_limit_ns))
        }
    }

    fn order_all(&self, order: GeneratorOrder, commands: &mut Vec<LoadCommand>) {
        commands.extend((0..self.loads.len()).map(|load| LoadCommand::Order { load, order }));
    }
}

/// Returns the nanoseconds since the loads began; `None`: they have not begun.
fn since_begin(begin: Option<Instant>, now: Instant) -> Option<u64> {
    begin.filter(|begin| now >= *begin).map(|begin| now.ns_since(begin))
}

impl LoadControl {
    fn new(spec: &LoadSpec) -> LoadControl {
        let window = spec.window();
        LoadControl {
            observations: Observations::new(window, spec.threads())
                .with_slices(spec.sharing.slices()),
            workers: (0..spec.threads()).map(|_| WorkerState::Opening).collect(),
            ready_limit_ns: spec.load.connect_timeout_ns,
            length_ns: window.duration_ns.map(|duration_ns| {
                window.warmup_ns.saturating_add(duration_ns).saturating_add(window.drain_ns)
            }),
            drain_ns: window.drain_ns,
            stop: None,
            failure: None,
            cut: None,
            awaited: None,
        }
    }

    fn is_drained(&self) -> bool {
        let has_drained = |w: &WorkerState| !matches!(w, WorkerState::Opening | WorkerState::Ready);
        self.workers.iter().all(has_drained)
    }

    /// Notes that the load ends before its time.
    fn note_cut(&mut self, since_ns: Option<u64>) {
        let is_over = since_ns.is_some_and(|since_ns| self.observations.is_window_over(since_ns));
        self.cut = Some(if is_over { CutPhase::Drain } else { CutPhase::Window });
    }

    /// Schedules the closing sample for now if the load has drained before the end of its set
    /// duration. The workers wait for the sample with their connections open. A failed server is
    /// not sampled, because it has no counters to read.
    fn close_if_drained(&mut self, since_ns: Option<u64>) {
        if self.failure.is_none()
            && self.is_drained()
            && let Some(since_ns) = since_ns
        {
            self.observations.close_early(since_ns);
        }
    }

    /// Returns the edge of the sample that is due. `None`: no sample is due.
    fn due_sample(&self, since_ns: u64) -> Option<Edge> {
        let (due_ns, edge) = self.observations.next_sample()?;
        (self.awaited.is_none() && since_ns >= due_ns).then_some(edge)
    }

    fn complete(&mut self, sample: Box<Sample>) {
        if self.awaited.take_if(|awaited| *awaited == Awaited::Completion).is_some() {
            self.observations.restore_closing_sample(*sample);
        }
    }

    /// Returns whether the closing sample was taken, or will not be taken.
    fn is_sampled(&self) -> bool {
        let is_taken = self.observations.next_sample().is_none();
        let is_without = self.is_drained() && !self.observations.has_ended_early();
        self.awaited.is_none() && (is_taken || is_without)
    }

    fn finish(self, began_ns: u64) -> Result<EndedLoad, String> {
        let results: Result<Vec<WorkerResult>, String> =
            self.workers.into_iter().map(WorkerState::into_result).collect();
        let results = results?;
        let (intervals, samples) = self.observations.finish();
        let LoadControl { failure, cut, .. } = self;
        Ok(EndedLoad { began_ns, intervals, samples, results, failure, cut })
    }
}

impl WorkerState {
    /// Whether the worker sends no further messages.
    const fn is_final(&self) -> bool {
        matches!(self, WorkerState::Closed(_) | WorkerState::Failed(_))
    }

    fn into_result(self) -> Result<WorkerResult, String> {
        match self {
            WorkerState::Closed(result) => Ok(*result),
            WorkerState::Failed(reason) => Err(reason),
            WorkerState::Opening | WorkerState::Ready | WorkerState::Drained => {
                Err("worker of the load generator: ended without a result".into())
            }
        }
    }
}

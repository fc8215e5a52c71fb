//! Checks `[load]` of a suite, and computes the steps of each workload.

use dyno_analysis::cell::Shape;
use dyno_analysis::window_levels;
use dyno_config::mistake::{Mistake, all_positive, mistake};
use dyno_model::Protocol;
use dyno_model::plan::{
    Arrivals, Gaps, Load, LoadModel, Order, SearchOptions, Step, StillWarming, UntilSteady,
};
use dyno_workload::rates::Rate;

use super::overrides::{NO_PIPELINED_STEPS, SuiteWorkload, locate_in_workload};
use crate::limits::{SEARCH_WIDTH, STEP_WARMUP_NS};
use crate::settings::{
    Conflict, LoadSettings, Notation, Warmup, error_of_pages, key_not_for_pages,
};

impl LoadSettings {
    /// Removes the search of `rate = "find"` from the load, and returns it. Each search begins with
    /// a closed loop, which is the load without the search. `None`: no search.
    pub(super) fn take_search(
        &mut self,
        workloads: &[SuiteWorkload],
        has_objective: bool,
    ) -> Result<Option<SearchOptions>, Mistake> {
        let is_find = |rate: &Rate| matches!(rate, Rate::Text(text) if text.trim() == FIND);
        if !self.rates.iter().any(is_find) {
            if self.find_width.is_none() {
                return Ok(None);
            }
            return Err(mistake(
                "find_width",
                "`find_width`: has no effect without a search for a rate\nhint: set `rate = \
                 \"find\"`, or remove `find_width`",
            ));
        }
        if self.rates.len() > 1 {
            return Err(mistake(
                "rate",
                "`rate`: \"find\" cannot be combined with other rates\nhint: remove the other \
                 rates",
            ));
        }
        if !has_objective {
            return Err(mistake("rate", NO_OBJECTIVE));
        }
        if self.model == Some(LoadModel::Closed) {
            return Err(mistake(
                "model",
                "`model`: must be \"open\" with `rate = \"find\"`\nhint: remove `model`",
            ));
        }
        if let Some(page) = workloads.iter().find(|w| w.workload.page.is_some() && !w.has_rate()) {
            let message = format!(
                "workload {:?}: is a page. Visitors load one page after the other (closed loop), \
                 so there is no rate to find\nhint: move the workload to a suite without `rate = \
                 \"find\"`",
                page.workload.name
            );
            return Err(mistake("rate", message));
        }
        if workloads.iter().all(SuiteWorkload::has_rate) {
            return Err(mistake(
                "rate",
                "`rate = \"find\"`: has no effect, because each workload sets its own `rate`\
                 \nhint: remove `rate` here, or in at least one workload",
            ));
        }
        self.rates.clear();
        self.model = None;
        self.forget_open_loop();
        let width = self.find_width.unwrap_or(SEARCH_WIDTH);
        Ok(Some(SearchOptions { width, arrival: self.arrival() }))
    }

    /// Changes a load without a rate into the closed loop that measures a capacity.
    pub(super) fn make_closed(&mut self) {
        self.model = None;
        self.gaps = Gaps::Even;
        self.forget_open_loop();
    }

    /// Returns the checked load with its steps, and for each workload the indices of its steps in
    /// the load. `order`: order of the subjects, which is the default order of steps. The position
    /// of a mistake is a path from the root of the suite, because the mistake may be in `[load]`
    /// or in a workload.
    pub(super) fn check(
        mut self,
        workloads: &[SuiteWorkload],
        order: Order,
    ) -> Result<(LoadSettings, Vec<Vec<usize>>), Mistake> {
        self.resolve_warmup().map_err(locate_in_load)?;
        let (steps, workload_steps) = self.steps(workloads)?;
        self.load.steps = steps;
        if !self.has("order") {
            self.load.order = order;
        }
        if !self.has("interval") {
            const S: u64 = 1_000_000_000;
            // Levels of the throughput within the window are found only with enough intervals.
            let interval_ns = self.load.duration_ns.div_ceil(window_levels::MIN_INTERVALS as u64);
            self.load.interval_ns = interval_ns.clamp(S / 10, S);
        }
        Ok((self, workload_steps))
    }

    /// Stores the length and the limit of the warm-up in the load.
    fn resolve_warmup(&mut self) -> Result<(), Mistake> {
        let warmup = self.warmup.unwrap_or(Warmup::Auto);
        if warmup != Warmup::Auto && self.has("warmup_limit") {
            return Err(mistake(
                "warmup_limit",
                "`warmup_limit`: needs `warmup = \"auto\"`\nhint: remove `warmup_limit`",
            ));
        }
        // The time during which connections are opened is never measured, unless the suite sets
        // the length of the warm-up.
        let ramp_ns = self.load.ramp_connections_ns.unwrap_or(0);
        self.load.warmup_ns = match warmup {
            Warmup::Auto => STEP_WARMUP_NS + ramp_ns,
            Warmup::Measured => ramp_ns,
            Warmup::Length(ns) => ns,
        };
        self.load.until_steady =
            (warmup == Warmup::Auto).then_some(UntilSteady { limit_ns: self.warmup_limit_ns });
        if warmup == Warmup::Measured {
            self.load.still_warming = StillWarming::Measured;
        }
        Ok(())
    }

    /// Refuses settings that conflict with each other, or with all workloads.
    pub(super) fn refuse_conflicts(&self, workloads: &[SuiteWorkload]) -> Result<(), Mistake> {
        let is_open = workloads.iter().any(SuiteWorkload::has_rate)
            || self.load.steps.iter().any(|step| !step.arrivals.is_closed());
        let protocols: Vec<Protocol> =
            workloads.iter().map(|workload| workload.workload.protocol).collect();
        let requests = || workloads.iter().flat_map(|workload| &workload.workload.requests);
        let conflict = self
            .conflict(Notation::Keys, is_open)
            .or_else(|| self.protocol_conflict(Notation::Keys, &protocols))
            .or_else(|| self.expectation_conflict(Notation::Keys, requests()));
        conflict.map_or(Ok(()), |Conflict { key, message }| Err(mistake(key, message)))
    }

    /// Returns the schedules of the load, which apply to workloads without their own rates.
    fn arrivals(&self, workloads: &[SuiteWorkload]) -> Result<Vec<Arrivals>, Mistake> {
        let rates = self.schedules(&self.rates)?;
        let model = self.model.unwrap_or(if rates.is_empty() {
            LoadModel::Closed
        } else {
            LoadModel::Open
        });
        match (model, rates.is_empty()) {
            (LoadModel::Closed, true) => Ok(vec![Arrivals::Closed]),
            (LoadModel::Closed, false) => Err(mistake(
                "rate",
                "`rate`: cannot be used in a closed loop\nhint: remove `rate`, or set `model = \
                 \"open\"`",
            )),
            // Each workload has its own rates, so none uses the load's.
            (LoadModel::Open, true) if workloads.iter().all(SuiteWorkload::has_rate) => {
                Ok(Vec::new())
            }
            (LoadModel::Open, true) => Err(mistake(
                "model",
                "`model`: an open loop needs a rate\nhint: add `rate`, such as 5000 or [1000, \
                 \"5k\"]",
            )),
            (LoadModel::Open, false) => Ok(rates),
        }
    }

    fn schedules(&self, rates: &[Rate]) -> Result<Vec<Arrivals>, Mistake> {
        let checked = rates.iter().enumerate().map(|(i, rate)| {
            self.schedule(rate).map_err(|message| mistake("rate", message).with_child(i))
        });
        checked.collect()
    }

    /// Returns the different steps of all workloads, and for each workload the indices of its
    /// steps.
    fn steps(&self, workloads: &[SuiteWorkload]) -> Result<(Vec<Step>, Vec<Vec<usize>>), Mistake> {
        let arrivals = self.arrivals(workloads).map_err(locate_in_load)?;
        // The load's own width is checked even if every workload overrides it.
        self.width().map_err(locate_in_load)?;
        let mut steps: Vec<Step> = Vec::new();
        let mut workload_steps = Vec::new();
        for (i, workload) in workloads.iter().enumerate() {
            let locate = |mistake: Mistake| match workload.has_key_of(&mistake) {
                true => locate_in_workload(i, mistake),
                false => locate_in_load(mistake),
            };
            let mut indices: Vec<usize> = Vec::new();
            for step in self.workload_steps(workload, &arrivals).map_err(locate)? {
                // A step that a workload repeats is a further pass of the same step. Reports
                // shorten long schedules, so a step that looks the same in reports is also a
                // further pass.
                let looks_like_earlier_step = |step: &Step, indices: &[usize]| {
                    indices.iter().any(|i| Shape::from_step(&steps[*i]) == Shape::from_step(step))
                };
                let mut step = step;
                while looks_like_earlier_step(&step, &indices) {
                    step.pass += 1;
                }
                let index = steps.iter().position(|other| *other == step).unwrap_or(steps.len());
                if index == steps.len() {
                    steps.push(step);
                }
                indices.push(index);
            }
            workload_steps.push(indices);
        }
        Ok((steps, workload_steps))
    }

    /// Returns the width of the load: `connections` or `in_flight`, 64 connections by default.
    fn width(&self) -> Result<Width, Mistake> {
        let (key, width) = match (self.has("connections"), self.has("in_flight")) {
            (true, true) => {
                return Err(mistake(
                    "in_flight",
                    "`in_flight`: cannot be combined with `connections`\nhint: remove one of the \
                     two keys",
                ));
            }
            (false, true) => ("in_flight", Width::InFlight(self.in_flight.clone())),
            (_, false) => ("connections", Width::Connections(self.connections.clone())),
        };
        let (Width::Connections(values) | Width::InFlight(values)) = &width;
        all_positive(key, values)?;
        Ok(width)
    }

    /// Returns the steps of one workload: all combinations of its values. Connections have streams
    /// with HTTP/2, and a pipeline with HTTP/1.1. `arrivals`: the schedules of the load.
    fn workload_steps(
        &self,
        workload: &SuiteWorkload,
        arrivals: &[Arrivals],
    ) -> Result<Vec<Step>, Mistake> {
        let settings = workload.settings(self)?;
        let arrivals = match workload.has_rate() {
            true => settings.schedules(&settings.rates)?,
            false => arrivals.to_vec(),
        };
        let width = settings.width()?;
        let (mut pipelines, mut streams) = (vec![1], vec![1]);
        match workload.workload.protocol.is_h2() {
            true => streams = settings.streams_for(workload.workload.page),
            false => pipelines = settings.pipeline,
        }
        if workload.workload.sequence.is_some() && pipelines.iter().any(|n| *n != 1) {
            return Err(mistake("pipeline", NO_PIPELINED_STEPS));
        }
        all_positive("pipeline", &pipelines)?;
        all_positive("streams", &streams)?;
        let mut steps = Vec::new();
        for arrivals in arrivals {
            for &pipeline in &pipelines {
                for &streams in &streams {
                    for connections in
                        width.connections(&workload.workload.name, streams * pipeline)?
                    {
                        let arrivals = arrivals.clone();
                        steps.push(Step { connections, streams, pipeline, arrivals, pass: 1 });
                    }
                }
            }
        }
        Ok(steps)
    }
}

/// Width of each step: its number of connections, or of requests in flight.
enum Width {
    Connections(Vec<u32>),
    /// Requests in flight at a time, over all connections.
    InFlight(Vec<u32>),
}

impl Width {
    /// Returns the numbers of connections for a workload with this number of requests in flight per
    /// connection.
    fn connections(&self, workload: &str, per_connection: u32) -> Result<Vec<u32>, Mistake> {
        let totals = match self {
            Width::Connections(connections) => return Ok(connections.clone()),
            Width::InFlight(totals) => totals,
        };
        let connections = totals.iter().enumerate().map(|(i, &in_flight)| {
            if in_flight % per_connection == 0 {
                return Ok(in_flight / per_connection);
            }
            Err(mistake(
                "in_flight",
                format!(
                    "`in_flight`: {in_flight} is not a multiple of {per_connection}, the number of \
                     requests in flight per connection of workload {workload:?}\nhint: use a \
                     multiple of {per_connection}"
                ),
            )
            .with_child(i))
        });
        connections.collect()
    }
}

/// Adds the table `[load]` to the position of a mistake.
pub(super) fn locate_in_load(mistake: Mistake) -> Mistake {
    mistake.with_parent("load")
}

/// Value of `rate` that searches for the highest rate that meets the objective.
const FIND: &str = "find";

const NO_OBJECTIVE: &str = "`rate = \"find\"`: needs an objective\nhint: add one to [report], such \
                            as `objective = \"p99<5ms,errors<0.1%\"`";

/// Refuses keys that have no meaning for a workload that is a page. `steps`: indices of the
/// workload's steps.
pub(super) fn check_pages(load: &Load, steps: &[usize]) -> Result<(), Mistake> {
    let page_steps: Vec<&Step> = steps.iter().map(|step| &load.steps[*step]).collect();
    match key_not_for_pages(load, &page_steps) {
        None => Ok(()),
        Some(key) => Err(mistake(key, error_of_pages(&format!("`{key}`")))),
    }
}

//! Searches for the highest rate at which a running server meets an objective.

use dyno_analysis::capacity::{
    self, CapacityResult, CapacitySearch, CapacityTrial, RateSearch, SearchStep, Width,
};
use dyno_analysis::drops::DropExplanation;
use dyno_analysis::load::LoadConfig;
use dyno_analysis::verdict::{self, Context};
use dyno_analysis::{Code, LoadResult};
use dyno_launch::supervision::Interrupts;
use dyno_model::LoadRecord;
use dyno_model::plan::{Gaps, Load, Objective, Step};
use dyno_workload::rates::Profile;

use crate::load::{self, LoadSpec, SingleResponse, StopWhen};

/// A server whose capacity is searched.
pub trait SearchedServer {
    /// Runs a load.
    ///
    /// # Errors
    /// A sentence: the load could not begin.
    fn load(&mut self, spec: &LoadSpec) -> Result<LoadRecord, String>;

    /// Sends a single request outside of a load.
    ///
    /// # Errors
    /// A sentence: the request could not be sent.
    fn request_once(&mut self, spec: &LoadSpec) -> Result<SingleResponse, String>;

    /// Whether the user has interrupted the search.
    fn is_interrupted(&self) -> bool;
}

/// A server that runs already. An interrupt ends its load.
#[derive(Debug)]
pub struct RunningServer<'a>(pub &'a Interrupts);

impl SearchedServer for RunningServer<'_> {
    fn load(&mut self, spec: &LoadSpec) -> Result<LoadRecord, String> {
        load::run(spec, &mut StopWhen(|| self.is_interrupted()))
    }

    fn request_once(&mut self, spec: &LoadSpec) -> Result<SingleResponse, String> {
        load::request_once(spec, &mut StopWhen(|| self.is_interrupted()))
    }

    fn is_interrupted(&self) -> bool {
        self.0.count() > 0
    }
}

/// A search: the objective, and the loads.
#[allow(missing_debug_implementations)] // It holds a function.
pub struct RateFinder<'a> {
    pub objective: &'a Objective,
    /// The load of each rate, without its rate.
    pub spec: &'a LoadSpec,
    /// Returns the configuration of a load, for its result.
    pub config: &'a dyn Fn(&LoadSpec) -> LoadConfig,
    pub gaps: Gaps,
    /// The first rate, requests per second.
    pub start_rps: f64,
    /// The lowest rate at which a load has enough requests for the objective's percentiles.
    pub least_rps: f64,
    /// Width of the bracket around the capacity, as a share.
    pub width: f64,
}

/// An event of a search, for the progress output.
#[derive(Debug)]
pub enum FinderEvent<'a> {
    /// A longer load at this rate begins, which confirms the result.
    Confirming { rate: f64, seconds: f64 },
    /// A load has ended.
    Tried(&'a CapacityTrial),
}

/// Reason why a search ends if the user interrupts it.
const INTERRUPTED: &str = "it was interrupted";

/// Reason why a search ends if connections cannot be made. The kernel keeps a port for a minute
/// after its connection was closed.
const NO_LOCAL_PORT: &str = "no local port was left to connect from (EADDRNOTAVAIL), so the loads \
                             show nothing about the server. Keep connections alive, connect from \
                             more addresses (--source), or widen net.ipv4.ip_local_port_range.";

impl RateFinder<'_> {
    /// Runs loads until the search has found the rate, or has to end without it.
    pub fn find(
        &self,
        server: &mut dyn SearchedServer,
        on_event: &mut dyn FnMut(FinderEvent<'_>),
    ) -> CapacityResult {
        let search = CapacitySearch::new(self.start_rps, Width(self.width));
        let mut search = RateSearch::new(search, self.objective.clone(), self.least_rps);
        let end_reason = loop {
            let (rate, confirms) = match search.next() {
                SearchStep::Done(_) => break None,
                SearchStep::Try(rate) => (rate, false),
                SearchStep::Confirm(rate) => (rate, true),
            };
            let mut duration_ns = self.spec.load.duration_ns;
            if confirms {
                duration_ns = capacity::confirmation_ns(duration_ns);
                let seconds = duration_ns as f64 / 1e9;
                on_event(FinderEvent::Confirming { rate, seconds });
            }
            if server.is_interrupted() {
                break Some(INTERRUPTED.into());
            }
            let outcome = self.run_load(&self.load_at(rate, duration_ns, search.loads()), server);
            // The result of an interrupted load is not used.
            if server.is_interrupted() {
                break Some(INTERRUPTED.into());
            }
            match outcome {
                Err(message) => break Some(message),
                Ok((record, result)) => {
                    on_event(FinderEvent::Tried(&search.take((rate, confirms), &record, result)));
                }
            }
        };
        search.result(end_reason)
    }

    /// Returns one load of the search. `number`: number of earlier loads. It changes the seed, so
    /// that the random draws of the loads differ.
    fn load_at(&self, rate: f64, duration_ns: u64, number: usize) -> LoadSpec {
        let arrivals = Profile::Constant(rate).arrivals(self.gaps);
        LoadSpec {
            step: Step { arrivals, ..self.spec.step.clone() },
            seed: self.spec.seed.wrapping_add(number as u64),
            load: Load { duration_ns, ..self.spec.load.clone() },
            ..self.spec.clone()
        }
    }

    /// Runs one load of the search. `Err`: the reason why the search must end, for the user.
    ///
    /// A load without a correct response misses any objective. Such a load is a result of the
    /// search only if the server responds to a single request after the load.
    fn run_load(
        &self,
        spec: &LoadSpec,
        server: &mut dyn SearchedServer,
    ) -> Result<(LoadRecord, LoadResult), String> {
        let record = server.load(spec)?;
        let result = verdict::load(&record, (self.config)(spec), &Context::default());
        let length_ns = spec.load.warmup_ns + spec.load.duration_ns;
        let has_responses =
            result.caveats.iter().all(|caveat| caveat.code != Code::NO_CORRECT_RESPONSE);
        let is_load_too_short =
            result.response_time_us.min.is_some_and(|min_us| min_us * 1e3 >= length_ns as f64);
        if has_responses && !is_load_too_short {
            return Ok((record, result));
        }
        // No response was correct, or the fastest response took longer than the whole load. A
        // single request shows why.
        match server.request_once(spec)? {
            SingleResponse::Missing => Err("the server stopped responding".into()),
            SingleResponse::NoLocalPort => Err(NO_LOCAL_PORT.into()),
            SingleResponse::Dropped(DropExplanation { causes, remedies }) => Err(format!(
                "the machine dropped packets ({causes}), so the loads show nothing about the \
                 server. {remedies}"
            )),
            SingleResponse::Complete { response_ns: Some(ns) } if ns >= length_ns => Err(format!(
                "one response takes {:.2} s, which is longer than a load of the search, so no \
                 rate can be measured. Make the loads longer (-d).",
                ns as f64 / 1e9
            )),
            SingleResponse::Complete { .. } => Ok((record, result)),
        }
    }
}

//! Searches for the capacity of a server that runs already.

use std::net::{Ipv4Addr, SocketAddr};

use dyno_analysis::capacity::{CapacityResult, least_rps, parse_objective};
use dyno_analysis::load::LoadConfig;
use dyno_analysis::run_status::RunStatus;
use dyno_config::units;
use dyno_contract::listener::Listener;
use dyno_engine::sim::{self, Fault, Queue, ServerModel, ServiceTime};
use dyno_lab::load::{LoadSpec, SimulatedLoad, SingleResponse, simulate};
use dyno_lab::load_at;
use dyno_lab::rate_finder::{FinderEvent, RateFinder, SearchedServer};
use dyno_model::plan::{Arrival, Gaps};
use dyno_model::{LoadRecord, Protocol};

use crate::world::{World, round};

/// A simulated server. `single`: its response to a single request.
struct SimulatedServer {
    model: ServerModel,
    single: SingleResponse,
    loads: usize,
    /// Number of loads before the user presses Ctrl-C.
    interrupted_after: usize,
}

impl SimulatedServer {
    /// Returns a server with one thread, whose responses take this time.
    fn new(service_ms: u64, single: SingleResponse) -> SimulatedServer {
        let service = ServiceTime::Fixed { ns: service_ms * 1_000_000 };
        let model = ServerModel::new(service, Queue::Single);
        SimulatedServer { model, single, loads: 0, interrupted_after: usize::MAX }
    }
}

impl SearchedServer for SimulatedServer {
    fn load(&mut self, spec: &LoadSpec) -> Result<LoadRecord, String> {
        self.loads += 1;
        let world = |worker| sim::World::new(spec.seed + u64::from(worker), self.model.clone());
        let load =
            SimulatedLoad { spec, world: &world, early_end: None, read_counters: &mut |_, _| None };
        simulate(load, 1_000_000_000)
    }

    fn request_once(&mut self, _: &LoadSpec) -> Result<SingleResponse, String> {
        Ok(self.single.clone())
    }

    fn is_interrupted(&self) -> bool {
        self.loads > self.interrupted_after
    }
}

/// Searches with loads of 400 ms over eight connections, from 100 requests/s, with a width of 30 %.
/// Returns the result and the rates of longer loads.
fn find(server: &mut SimulatedServer, objective: &str) -> (CapacityResult, Vec<f64>) {
    let suite = "[suite]\nrepeats = 1\n[load]\nconnections = 8\nwarmup = \"100ms\"\n\
                 duration = \"400ms\"\ntimeout = \"300ms\"\n";
    let plan = World::new(&["web"], suite).plan;
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
    let listener = Listener { addr, protocol: Protocol::H1, authority: None };
    let spec = load_at::trial(&listener, &plan, 0).unwrap();
    let objective = parse_objective(objective, &units::duration).unwrap();
    let config =
        |spec: &LoadSpec| LoadConfig::new(&plan.workloads[0], &spec.load, &spec.step, spec.seed);
    let finder = RateFinder {
        objective: &objective,
        spec: &spec,
        config: &config,
        gaps: Gaps::Even,
        start_rps: 100.0,
        least_rps: least_rps(&objective, spec.load.duration_ns, Arrival::Constant),
        width: 0.3,
    };
    let mut confirmed = Vec::new();
    let result = finder.find(server, &mut |event| {
        if let FinderEvent::Confirming { rate, .. } = event {
            confirmed.push(round(rate, 1));
        }
    });
    (result, confirmed)
}

/// The server serves a thousand requests per second.
#[test]
fn capacity_search_returns_bracket() {
    let mut server = SimulatedServer::new(1, SingleResponse::Missing);
    let (result, confirmed) = find(&mut server, "p50<200ms,errors<1%");
    let rates: Vec<(f64, bool)> =
        result.trials.iter().map(|load| (round(load.rate_rps, 1), load.kept)).collect();
    let (met, missed) = ([(100.0, true), (200.0, true), (400.0, true)], (1131.4, false));
    let around = [(800.0, true), (1600.0, false), (800.0, true), (1600.0, false)];
    let expected = [&met[..], &around, &[missed; 3], &[(800.0, true)], &[(951.4, true); 4]];
    assert_eq!(rates, expected.concat());
    assert_eq!((confirmed, result.holds_s), (vec![951.4], Some(4.0)));
    assert_eq!(result.kept_rps.map(|rate| round(rate, 3)), Some(951.366));
    assert_eq!(result.missed_rps.map(|rate| round(rate, 1)), Some(1131.4));
    assert_eq!(RunStatus::from_search(&result, false), RunStatus::Valid);
}

#[test]
fn search_rate_without_correct_response_is_missed() {
    let mut server = SimulatedServer::new(1, SingleResponse::Complete { response_ns: None });
    server.model.faults = vec![(Fault::Status, 1.0)];
    let (result, _) = find(&mut server, "p50<50ms");
    assert_eq!(
        (RunStatus::from_search(&result, false), result.ended.as_deref()),
        (RunStatus::Invalid, None)
    );
    assert!(result.trials.len() > 1 && result.trials.iter().all(|load| !load.kept));
    assert_eq!(result.kept_rps, None);
}

#[test]
fn search_ends_if_server_stops_responding() {
    let mut server = SimulatedServer::new(1, SingleResponse::Missing);
    server.model.faults = vec![(Fault::Silence, 1.0)];
    let (result, _) = find(&mut server, "p50<50ms");
    assert_eq!(result.ended.as_deref(), Some("the server stopped responding"));
    assert_eq!((RunStatus::from_search(&result, false), server.loads), (RunStatus::Failed, 1));
}

/// A load that is shorter than each response shows no rate.
#[test]
fn search_ends_if_responses_are_longer_than_loads() {
    let single = SingleResponse::Complete { response_ns: Some(700_000_000) };
    let (result, _) = find(&mut SimulatedServer::new(700, single), "mean<5s");
    let reason = "one response takes 0.70 s, which is longer than a load of the search, so no rate \
                  can be measured. Make the loads longer (-d).";
    assert_eq!(result.ended.as_deref(), Some(reason));
    assert_eq!(
        (RunStatus::from_search(&result, false), result.missed_rps),
        (RunStatus::Failed, None)
    );
}

#[test]
fn interrupted_search_keeps_complete_loads() {
    let mut server = SimulatedServer::new(1, SingleResponse::Missing);
    server.interrupted_after = 2;
    let (result, _) = find(&mut server, "p50<200ms,errors<1%");
    assert_eq!((result.trials.len(), server.loads), (2, 3));
    assert_eq!(result.ended.as_deref(), Some("it was interrupted"));
    assert_eq!(RunStatus::from_search(&result, true), RunStatus::Failed);
}

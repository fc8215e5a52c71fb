//! Loads that come in at a door of a server.

use std::path::Path;
use std::sync::Arc;

use dyno_archive::plan::{Arrivals, Plan, Step};
use dyno_contract::door::Door;
use dyno_contract::limits::CHECK;
use dyno_driver::best_driver;
use dyno_engine::{Http2, Policy, Spin, Traffic, Window, limits};
use dyno_workload::traffic;

use crate::files::Folder;
use crate::load;

/// The load of a trial that comes in at a door.
///
/// # Errors
/// A file that a request names cannot be read, or what it says cannot be sent; as a sentence.
pub fn trial(door: &Door, plan: &Plan, trial: usize) -> Result<load::Spec, String> {
    let load = &plan.load;
    let planned = plan.trials[trial];
    let (step, workload) = (load.steps[planned.step].clone(), &plan.workloads[planned.workload]);
    let files = Folder::of_suite(Path::new(&plan.suite.path));
    let traffic = traffic::compile(workload, &door.host(), &load.http2, &|file| files.read(file))?;
    Ok(load::Spec {
        page_connections: workload.page_connections(),
        check_one_in: load.check_one_in,
        // Each trial draws its own arrivals, and the same again when the run is done again.
        seed: plan.seed ^ (trial as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        total: None,
        policy: Policy {
            timeout_ns: load.timeout_ns,
            first_byte_timeout_ns: load.first_byte_timeout_ns,
            connect_timeout_ns: load.connect_timeout_ns,
            requests_per_connection: load.requests_per_connection,
            ramp_ns: load.ramp_connections_ns,
        },
        spin: load::polling(load.spin, &step.arrivals, plan.placement.is_disjoint()),
        window: Window {
            warmup_ns: load.warmup_ns,
            duration_ns: Some(load.duration_ns),
            interval_ns: load.interval_ns,
            drain_ns: limits::DRAIN_NS.min(load.timeout_ns),
        },
        threads: load.threads,
        driver: load.driver,
        cpus: plan.placement.generator.clone(),
        step,
        ..once(door, traffic, load.http2)
    })
}

/// A load that comes in at a door: one request, patiently. What is to be otherwise, the caller changes.
#[must_use]
pub fn once(door: &Door, traffic: Traffic, http2: Http2) -> load::Spec {
    load::Spec {
        endpoint: door.addr.into(),
        protocol: door.protocol,
        http2,
        page_connections: None,
        traffic: Arc::new(traffic),
        check_one_in: 1,
        step: Step { connections: 1, streams: 1, pipeline: 1, arrivals: Arrivals::Closed },
        trace: Arc::from([]),
        seed: 0,
        total: Some(1),
        policy: Policy {
            timeout_ns: CHECK.as_nanos() as u64,
            first_byte_timeout_ns: None,
            connect_timeout_ns: CHECK.as_nanos() as u64,
            requests_per_connection: None,
            ramp_ns: None,
        },
        tls: door.tls(),
        spin: Spin::Never,
        window: Window {
            warmup_ns: 0,
            duration_ns: None,
            interval_ns: 1_000_000_000,
            drain_ns: CHECK.as_nanos() as u64,
        },
        threads: 1,
        driver: best_driver().0,
        cpus: Vec::new(),
    }
}

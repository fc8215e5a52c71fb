//! Creates the loads of a plan's trials, each sent to one listener of a server.

use std::collections::BTreeSet;
use std::net::IpAddr;

use dyno_contract::listener::Listener;
use dyno_driver::{Endpoint, Stamps};
use dyno_engine::SpinPolicy;
use dyno_launch::network;
use dyno_model::plan::{Conditions, Isolation, Load, Plan, Priority, Step, Workload};
use dyno_model::probe::Probe;
use dyno_suite::defaults::{default_load, polling};
use dyno_suite::files::Folder;
use dyno_workload::request_values;

use crate::{limits, load};

/// Returns the load of a trial, sent to a listener.
///
/// # Errors
/// A sentence: a file that a request names cannot be read, or a request cannot be sent as it is
/// written.
pub fn trial(listener: &Listener, plan: &Plan, trial: usize) -> Result<load::LoadSpec, String> {
    trial_with(listener, plan, trial, &|point| point)
}

/// Returns the load of a trial, changed by a function.
pub(crate) fn trial_with(
    listener: &Listener,
    plan: &Plan,
    trial: usize,
    change: &dyn for<'a> Fn(LoadPoint<'a>) -> LoadPoint<'a>,
) -> Result<load::LoadSpec, String> {
    let planned = plan.trials[trial];
    let files = Folder::from_plan(plan);
    let load = plan.load_of_trial(&planned);
    let point = LoadPoint {
        workload: &plan.workloads[planned.workload],
        step: load.steps[planned.step].clone(),
        load,
        seed: planned.seed,
    };
    let has_own_cpus = plan.has_separate_generator_cpus(planned.arm);
    let placement = plan.placement(planned.launch, planned.arm);
    let conditions = Conditions { placement, ..plan.arms[planned.arm].conditions.clone() };
    change(point).load_spec(listener, &conditions, has_own_cpus, &|file| files.read(file))
}

/// One workload at one step.
pub(crate) struct LoadPoint<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) load: Load,
    pub(crate) step: Step,
    pub(crate) seed: u64,
}

impl LoadPoint<'_> {
    /// Returns the load under an arm's conditions, sent to a listener. `has_own_cpus`: whether the
    /// generator has separate CPUs. `read`: reads a file that a request names.
    pub(crate) fn load_spec(
        self,
        listener: &Listener,
        conditions: &Conditions,
        has_own_cpus: bool,
        read: &dyn Fn(&str) -> Result<Vec<u8>, String>,
    ) -> Result<load::LoadSpec, String> {
        let LoadPoint { workload, load, step, seed } = self;
        let Conditions { placement, observe, .. } = conditions;
        let workload_with_values = request_values::fill_placeholders(workload, &conditions.request);
        let requests =
            load::LoadRequests::compile(workload_with_values, &listener.host(), load.http2, read)?;
        let stamps = stamps(observe);
        let base = load::single_request(listener, requests, default_load(load.driver));
        let sources = sources(conditions, &load);
        let endpoint = Endpoint { stamps, sources, ..base.target.endpoint };
        Ok(load::LoadSpec {
            target: load::LoadTarget { endpoint, ..base.target },
            page_connections: workload.page_connections(),
            seed,
            spin: match load.priority {
                // A real-time worker wakes immediately without polling, which would block its CPU.
                Priority::Realtime => SpinPolicy::Never,
                Priority::Normal => polling(load.spin, &step.arrivals, has_own_cpus),
            },
            cpus: placement.generator.clone(),
            load,
            step,
            ..base
        })
    }
}

/// Returns the source addresses in a network namespace. Empty: the default address is used. A load
/// that replaces its connections would exhaust the ports of a single address.
fn sources(conditions: &Conditions, load: &Load) -> Vec<IpAddr> {
    let replaces_connections = load.requests_per_connection.is_some();
    match conditions.isolation {
        Isolation::Netns if replaces_connections => {
            network::client_addresses(limits::LOOPBACK_SOURCES).collect()
        }
        Isolation::Netns | Isolation::None => Vec::new(),
    }
}

/// Returns the additional timestamps that are recorded: the kernel's, or none.
fn stamps(observe: &BTreeSet<Probe>) -> Stamps {
    if observe.contains(&Probe::KernelStamps) { Stamps::Kernel } else { Stamps::None }
}

//! Conditions of the rules that need an idle server.

use serde_json::{Value, json};

use super::{Confidence, Limiter};
use crate::load::LoadResult;
use crate::server::ServerUse;
use crate::verdict::conditions::may_lack_cpu;
use crate::verdict::thresholds::SERVER_IDLE;

/// With at least this many requests in flight, too few requests cannot explain an idle server.
pub(super) const MANY_IN_FLIGHT: f64 = 64.0;

/// Returns the server's CPU utilisation if both server and generator had headroom. `None`: one of
/// them was busy, or may have lacked CPU time that other programs took. In both cases the requests
/// may wait for nothing but a CPU.
pub(super) fn utilisation_with_headroom(load: &LoadResult, server: &ServerUse) -> Option<f64> {
    let used = server.cpu_utilisation?;
    let generator_used = load.client.headroom.need;
    let has_headroom =
        used < SERVER_IDLE && generator_used < SERVER_IDLE && !may_lack_cpu(load, server);
    has_headroom.then_some(used)
}

/// Returns the CPU seconds of interrupts that are billed to no program, if they may have filled the
/// server's CPUs, or the CPU of its busiest serving thread. The seconds are known only for the
/// whole machine, so the rule assumes that all interrupts ran there.
pub(in crate::verdict) fn filling_interrupt_s(server: &ServerUse) -> Option<f64> {
    let interrupt_s = server.interrupt_s.filter(|s| *s > 0.0)?;
    let all = server.cpu_utilisation? + interrupt_s / server.cpu_allowed_s?;
    let of_thread = server.busiest_serving_utilisation.unwrap_or(0.0);
    let busiest = of_thread + interrupt_s / server.window_s;
    (all.max(busiest) >= SERVER_IDLE).then_some(interrupt_s)
}

/// Weakens a limiter that needs an idle server CPU, if interrupts may have filled it.
pub(super) fn weaken_by_interrupts(limiter: Limiter, server: &ServerUse) -> Limiter {
    let Some(interrupt_s) = filling_interrupt_s(server) else { return limiter };
    let doubt = format!(
        " In the window of {:.2} s, interrupts used {interrupt_s:.2} s of this machine's CPU time. \
         This kernel counts that time for no program, so a CPU of the server may have been full.",
        server.window_s
    );
    limiter.weaken(Confidence::Medium, &doubt)
}

/// Whether the busiest thread has little CPU time left, or its use is unknown. Threads of all roles
/// count: roles are guessed from names, so any thread may serve requests.
pub(in crate::verdict) fn has_nearly_full_thread(server: &ServerUse) -> bool {
    server.busiest_thread_utilisation.is_none_or(|busiest| busiest >= SERVER_IDLE)
}

pub(super) fn idle_evidence(load: &LoadResult, used: f64) -> Value {
    json!({
        "in_flight": load.in_flight.mean, "server_utilisation": used,
        "generator_utilisation": load.client.busiest_thread_utilisation,
    })
}

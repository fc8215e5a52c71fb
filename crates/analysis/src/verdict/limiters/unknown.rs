//! No rule names a limiter.

#[cfg(test)]
mod cases;

use serde_json::json;

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::load::LoadResult;
use crate::number_format::percent;
use crate::server::ServerUse;
use crate::verdict::conditions::is_generator_starved;
use crate::verdict::conditions::starved_seconds;
use crate::verdict::thresholds::STEAL;

pub(super) const DEFINITION: LimiterDefinition =
    LimiterDefinition { words: "unknown", refutation: "", queue: None, curve: CurveRule::Idle };

/// No rule names a limit. The sentence names what is missing.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Limiter {
    let LimiterInputs { load, server, .. } = *inputs;
    let busy = load.client.busiest_thread_utilisation;
    let sentence = match (server.cpu_utilisation, starved_seconds(server)) {
        (Some(used), Some(waited_s)) => format!(
            "Unknown: in the window of {:.2} s, the server used {} of its CPU, and its threads \
             together waited for a CPU for {waited_s:.2} s. Other programs used the server's CPUs \
             for up to {:.2} s, so these programs may be the limit. Repeat the step on an idle \
             machine.",
            server.window_s,
            percent(used),
            server.others_on_its_cpus_s.unwrap_or(0.0)
        ),
        (Some(used), None) => format!(
            "Unknown: the server used {} of its CPU, and the generator's busiest thread used {} of \
             a CPU. Neither CPU was full. {}",
            percent(used),
            percent(busy),
            missing_measurement(load, server)
        ),
        (None, _) if server.unread_counters.is_some() => {
            "Unknown: threads or processes of the server ended before their CPU time was read."
                .into()
        }
        (None, _) => "Unknown: the server's CPU could not be observed.".into(),
    };
    let evidence = json!({
        "server_utilisation": server.cpu_utilisation, "generator_utilisation": busy,
        "server_run_delay_s": server.run_delay_s, "steal_share": server.steal_share,
        "generator_starved": is_generator_starved(load),
    });
    Limiter::new(Resource::Unknown, Confidence::Low, sentence, evidence)
}

/// Returns the advice that would find the limiter.
fn missing_measurement(load: &LoadResult, server: &ServerUse) -> String {
    // While other virtual machines or programs use the CPUs, waits of threads do not show a
    // limiter.
    if let Some(share) = server.steal_share.filter(|share| *share > STEAL) {
        return format!(
            "The hypervisor gave {} of this machine's CPU time to other virtual machines, so \
             waiting threads look idle. Re-run on a dedicated host.",
            percent(share)
        );
    }
    if is_generator_starved(load) {
        return "The generator waited for a CPU that another program used, so the server got fewer \
                requests and looks idle. Re-run on a quieter machine."
            .into();
    }
    let are_states_known = server.by_thread_role.values().any(|role| role.states_s.is_some());
    if are_states_known {
        "Use more connections, or a longer step, to see whether the server or the generator \
         reaches its limit first."
            .into()
    } else {
        "Thread states were not recorded. Use `--observe states` to see what the threads wait for."
            .into()
    }
}

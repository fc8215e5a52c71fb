//! The server's limit of open files keeps it from accepting connections.

#[cfg(test)]
mod cases;

use serde_json::json;

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::caveat::{Code, Severity};
use crate::load::LoadResult;
use crate::number_format::plural;
use crate::server::ServerUse;
use crate::verdict::thresholds::SERVER_BUSY;

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "its limit of open files",
    refutation: "Refuted if as many connections wait with a higher limit of open files.",
    queue: None,
    curve: CurveRule::Kept,
};

/// Files that may be missing from the limit when the server has reached it: a file that the server
/// closed just before the files were counted.
const MISSING_FILES: u64 = 1;

/// A server spends its CPU time on connections that it cannot accept if at least this many calls to
/// accept fail per response. Event loops repeat such a call in each iteration.
const FAILED_ACCEPTS: f64 = 1.0;

/// Failures of the server that its limit of open files does not explain.
const OTHER_FAILURES: [Code; 6] = [
    Code::BACKEND_FAILED,
    Code::MACHINE_FAILED,
    Code::SUBJECT_FAILED,
    Code::NO_CORRECT_RESPONSE,
    Code::INCORRECT_RESPONSES,
    Code::UNSOLICITED,
];

/// A process of the server has as many open files as its limit allows, and connections wait to be
/// accepted. Their requests hang, which is not another failure. A full CPU is the limiter instead,
/// unless failed calls to accept fill it.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, .. } = *inputs;
    if has_other_failure(load) {
        return None;
    }
    let sockets = server.sockets.as_ref()?;
    let files = sockets.open_files.filter(|files| files.open + MISSING_FILES >= files.limit)?;
    let waiting: u64 = sockets.listeners.iter().map(|listener| listener.queued).sum();
    if waiting == 0 {
        return None;
    }
    let has_cpu_left = server.cpu_utilisation.is_some_and(|used| used < SERVER_BUSY);
    let failed_accepts = failed_accepts(server);
    let confidence = if has_cpu_left {
        Confidence::High
    } else {
        failed_accepts.filter(|failed| *failed >= FAILED_ACCEPTS).map(|_| Confidence::Medium)?
    };
    let sentence = format!(
        "The server's limit of open files: a process had {} files open (limit {}), and {} waited \
         to be accepted. Raise the limit (`files` under [limits] of a suite, or `ulimit -n`).",
        files.open,
        files.limit,
        plural(waiting, "connection"),
    );
    let evidence = json!({
        "open_files": files.open, "limit": files.limit, "waiting": waiting,
        "failed_accepts_per_response": failed_accepts,
    });
    Some(Limiter::new(Resource::OpenFiles, confidence, sentence, evidence))
}

fn has_other_failure(load: &LoadResult) -> bool {
    let mut invalid = load.caveats.iter().filter(|caveat| caveat.severity == Severity::Invalid);
    invalid.any(|caveat| OTHER_FAILURES.contains(&caveat.code))
}

/// Returns the calls to accept that failed per response, other than for lack of a connection.
/// `None`: calls were not counted, the server accepts by other means, or errors are unknown.
fn failed_accepts(server: &ServerUse) -> Option<f64> {
    let calls = server.calls.as_ref()?;
    let accepts = ["accept", "accept4"].map(|name| calls.by_name.get(name));
    if accepts.iter().all(Option::is_none) {
        return None;
    }
    accepts.iter().flatten().try_fold(0.0, |sum, call| {
        let failed = call.errors?.checked_sub(call.again?)?;
        Some(sum + failed as f64 / call.count.max(1) as f64 * call.per_response)
    })
}

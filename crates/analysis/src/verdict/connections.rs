//! Derives the caveat of connections that are missing at the end of the window.

use dyno_archive::load::Connections;
use dyno_archive::plan::LoadModel;
use serde_json::json;

use crate::caveat::{Caveat, Code, Severity};
use crate::load::LoadResult;

/// Returns the caveat that fewer connections than requested were open at the end of the window.
/// `None`: no connection was missing, or the load explains the missing ones.
pub(super) fn missing_connections(result: &LoadResult) -> Option<Caveat> {
    let Connections { asked, established, .. } = result.connections;
    (established < asked && !is_explained(result)).then(|| {
        let message = format!(
            "Only {established} of {asked} connections were open at the end of the window. At \
             times, fewer requests were in flight than planned. Check the errors, and \
             `connections.closed_by_server` in the JSON report."
        );
        let evidence = json!({"asked": asked, "established": established});
        Caveat::new(Code::Connections, Severity::Warning, message, evidence)
    })
}

/// Whether all missing connections ended by design, so that no request was missing because of them.
fn is_explained(result: &LoadResult) -> bool {
    let Connections { asked, established, opened, .. } = result.connections;
    let has_failed = result.exchanges.failed > 0 || !result.connection_failures.is_empty();
    if has_failed || opened < asked {
        return false;
    }
    let config = &result.config;
    // These loads open a connection only when a request needs one. Connections that end shortly
    // before the load ends are therefore not replaced.
    let reopens_when_needed = config.model == LoadModel::Open
        || config.requests.is_some()
        || config.page_connections.is_some();
    if reopens_when_needed {
        return true;
    }
    // Some connections are always being replaced if each ends after a number of requests, or if the
    // server closes them. The server does so if at least twice as many connections were opened as
    // requested.
    let end_by_design = config.requests_per_connection.is_some() || opened >= 2 * asked;
    if !end_by_design {
        return false;
    }
    let missing = (asked - established) as f64;
    replaced_connections(result).is_none_or(|mean_opening| missing <= bound(mean_opening))
}

/// Returns the mean number of connections that were being opened: by Little's law, the connections
/// per second times the mean time to open one. `None`: the times to open are not recorded.
fn replaced_connections(result: &LoadResult) -> Option<f64> {
    let seconds = result.duration_s + result.config.warmup_s;
    let handshake_us = result.tls_handshake_us.mean.unwrap_or(0.0);
    let open_us = result.connect_us.mean? + handshake_us;
    Some(result.connect_us.count as f64 * open_us / 1e6 / seconds)
}

/// Returns the largest number of connections that may be missing by chance at one instant. It is
/// three standard deviations of a Poisson distribution above its mean. `mean_opening`: mean number
/// of connections that were being opened.
fn bound(mean_opening: f64) -> f64 {
    // Before it is opened, a connection also waits for the generator. This wait is assumed to be as
    // long as the opening.
    let mean_missing = 2.0 * mean_opening;
    mean_missing + 3.0 * mean_missing.sqrt() + 1.0
}

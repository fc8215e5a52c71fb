//! Computes the cost of a build and the start-up times of a program, a subject or a back end.

use dyno_model::plan;
use dyno_model::start::PartStart;
use schemars::JsonSchema;
use serde::Serialize;

use crate::stats::Repeated;

/// Cost of the build that made the artefact. It may be an earlier build (`cached`).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BuildResult {
    pub wall_s: f64,
    pub cpu_s: Option<f64>,
    pub artefact_bytes: u64,
    pub cached: bool,
}

/// Start-up times in milliseconds from exec, one value per start.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Startup")]
pub struct StartupSummary {
    /// Until the kernel accepted a connection.
    pub listening: Repeated,
    /// Until the first response with the correct status was complete; empty if the subject defines
    /// readiness in another way.
    #[serde(rename = "first_answer")]
    pub first_response: Repeated,
    /// Until the subject was ready, however it defines readiness.
    pub ready: Repeated,
    /// CPU time that the subject used until it was ready, in milliseconds.
    pub cpu: Repeated,
}

/// Converts the units of a planned build.
pub(crate) fn build_result(build: &plan::Build) -> BuildResult {
    BuildResult {
        wall_s: build.wall_ns as f64 / 1e9,
        cpu_s: build.cpu_ns.map(|ns| ns as f64 / 1e9),
        artefact_bytes: build.artefact_bytes,
        cached: build.cached,
    }
}

/// Summarizes the start-up times of a subject or a back end over its starts.
pub(crate) fn summarize_startup(parts: &[&PartStart]) -> StartupSummary {
    let summarize = |pick: fn(&dyno_model::start::Startup) -> Option<u64>| {
        let values = parts.iter().filter_map(|part| pick(part.startup.as_ref()?));
        Repeated::new(values.map(|ns| ns as f64 / 1e6).collect())
    };
    StartupSummary {
        listening: summarize(|s| s.listening_ns),
        first_response: summarize(|s| s.first_response_ns),
        ready: summarize(|s| Some(s.ready_ns)),
        cpu: summarize(|s| s.cpu_ns),
    }
}

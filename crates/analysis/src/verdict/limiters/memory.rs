//! Memory has to be read from a disk again.

#[cfg(test)]
mod cases;

use dyno_model::sample::ThreadState;
use serde_json::json;

use super::{Confidence, CurveRule, Limiter, LimiterDefinition, LimiterInputs, Resource};
use crate::number_format::percent;
use crate::verdict::waits::utilisation_below_limit;

pub(super) const DEFINITION: LimiterDefinition = LimiterDefinition {
    words: "its memory",
    refutation: "Refuted if throughput stays the same with more memory.",
    queue: Some("Memory"),
    curve: CurveRule::Kept,
};

/// If page faults read from a disk, waiting for the disk is the limit if it takes at least this
/// share of the serving threads' time.
const DISK_SHARE: f64 = 0.3;

/// The server lacks memory if at least this many page faults per second read from a disk.
const MAJOR_FAULTS_PER_S: f64 = 50.0;

/// Page faults delay requests if at least this many per response read from a disk, even if thread
/// states show little. Waits for a fast disk are short, and the kernel uses CPU time for each
/// fault.
const MAJOR_FAULTS_PER_RESPONSE: f64 = 1.0;

/// Memory was not short if programs of the machine waited for memory (the kernel's memory pressure,
/// PSI) for less than this share of the time. A pressure this low shows that the kernel neither
/// evicted pages nor read evicted pages again.
const MIN_MEMORY_PRESSURE: f64 = 1e-5;

/// Threads waited for evicted pages if the memory pressure is at least this many times the share of
/// time in which the threads waited for a disk. First reads of files do not add to memory pressure.
const PRESSURE_OF_DISK: f64 = 0.5;

/// Page faults of the server read from a disk and delay requests. The server lacks memory if the
/// kernel evicted these pages. Otherwise the faults are first reads of files, which wait for the
/// disk.
pub(super) fn limiter(inputs: &LimiterInputs<'_>) -> Option<Limiter> {
    let LimiterInputs { load, server, machine, .. } = *inputs;
    utilisation_below_limit(server)?;
    let disk_share = server.serving.as_ref().map(|serving| serving.share(ThreadState::Disk));
    let large_disk_share = disk_share.filter(|share| *share >= DISK_SHARE);
    let faults_per_s = server.page_faults_major_per_s()?;
    let faults_per_response =
        Some(faults_per_s / load.throughput_rps).filter(|faults| faults.is_finite());
    let delay_requests =
        faults_per_response.is_some_and(|faults| faults >= MAJOR_FAULTS_PER_RESPONSE);
    if faults_per_s < MAJOR_FAULTS_PER_S || (large_disk_share.is_none() && !delay_requests) {
        return None;
    }
    let detail = match large_disk_share {
        Some(share) => {
            format!(
                ", and the serving threads waited for the disk for {} of their time",
                percent(share)
            )
        }
        None => faults_per_response
            .map_or(String::new(), |faults| format!(", {faults:.1} per response")),
    };
    let observation = format!("{faults_per_s:.0} page faults per second read from a disk{detail}.");
    let evidence = json!({
        "major_faults_per_s": faults_per_s,
        "major_faults_per_response": faults_per_response,
        "disk_share": disk_share,
        "memory_pressure": machine.pressure_memory,
    });
    let pressure = machine.pressure_memory;
    if pressure.is_some_and(|share| share < MIN_MEMORY_PRESSURE) {
        let sentence = format!(
            "A disk: {observation} No program waited for memory, so the server probably reads \
             these pages for the first time."
        );
        return Some(Limiter::new(Resource::Disk, Confidence::Medium, sentence, evidence));
    }
    let are_evicted_pages = large_disk_share
        .zip(pressure)
        .is_some_and(|(disk_share, pressure)| pressure >= PRESSURE_OF_DISK * disk_share);
    let confidence = if are_evicted_pages { Confidence::High } else { Confidence::Medium };
    let sentence = format!("Memory: {observation} Give the server more memory.");
    Some(Limiter::new(Resource::Memory, confidence, sentence, evidence))
}

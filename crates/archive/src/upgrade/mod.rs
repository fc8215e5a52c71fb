//! Upgrades files of older archives to the current format, before they are parsed. The types
//! therefore need no defaults for keys that older versions lack.
//!
//! Each file of a run is a JSON value. All upgrades are applied to it, the oldest change first,
//! regardless of its version, because keys were also added within versions.

mod arms;
mod gaps;
mod loads;
mod mixes;
mod parties;
mod promises;
mod times;

use serde_json::Value;

/// Upgrades the header of a run.
pub(crate) fn header(mut header: Value) -> Value {
    if let Some(plan) = header.get_mut("plan") {
        mixes::upgrade_plan(plan);
    }
    gaps::upgrade_header(&mut header);
    if let Some(plan) = header.get_mut("plan") {
        arms::upgrade_plan(plan);
        arms::add_isolation(plan);
        arms::upgrade_duet(plan);
        promises::upgrade_plan(plan);
    }
    header
}

/// Upgrades a start.
pub(crate) fn start(mut start: Value) -> Value {
    parties::upgrade_start(&mut start);
    gaps::upgrade_start(&mut start);
    promises::upgrade_start(&mut start);
    start
}

/// Upgrades a trial of a run with this version.
pub(crate) fn trial(version: u32, mut trial: Value) -> Value {
    if version < 3 {
        trial = times::upgrade_trial(trial);
    }
    loads::upgrade_trial(&mut trial);
    loads::rename_machine(&mut trial);
    parties::upgrade_trial(&mut trial);
    gaps::upgrade_trial(&mut trial);
    promises::upgrade_trial(&mut trial);
    trial
}

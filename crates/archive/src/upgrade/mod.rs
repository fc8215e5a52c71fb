//! Upgrades of older archives to the present format: value by value, before they are read.
//!
//! Each file of a run is a JSON value that is upgraded here, oldest change first, for any version:
//! keys were added within versions, too. The present types need no defaults for missing keys of
//! older versions.

mod arms;
mod gaps;
mod loads;
mod mixes;
mod parties;
mod promises;
mod times;

use serde_json::Value;

/// Returns a run's header, of any version that is read.
pub(crate) fn header(mut header: Value) -> Value {
    if let Some(plan) = header.get_mut("plan") {
        mixes::upgrade_plan(plan);
    }
    gaps::upgrade_header(&mut header);
    if let Some(plan) = header.get_mut("plan") {
        arms::upgrade_plan(plan);
        arms::conditions(plan);
        arms::duet(plan);
        promises::upgrade_plan(plan);
    }
    header
}

/// Returns one start.
pub(crate) fn start(mut start: Value) -> Value {
    parties::upgrade_start(&mut start);
    gaps::upgrade_start(&mut start);
    promises::upgrade_start(&mut start);
    start
}

/// Returns one trial of a run of this version.
pub(crate) fn trial(version: u32, mut trial: Value) -> Value {
    if version < 3 {
        trial = times::trial_of_2(trial);
    }
    loads::upgrade_trial(&mut trial);
    loads::machine(&mut trial);
    parties::upgrade_trial(&mut trial);
    gaps::upgrade_trial(&mut trial);
    promises::upgrade_trial(&mut trial);
    trial
}

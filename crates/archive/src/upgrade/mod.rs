//! What archives of before said, in today's words: value by value, before they are read.
//!
//! Each file of a run is a JSON value that is brought up to date here, oldest change first,
//! whatever version it is of: keys were added within versions, too. Today's types know nothing of
//! yesterday's gaps.

mod arms;
mod gaps;
mod loads;
mod mixes;
mod parties;
mod promises;
mod times;

use serde_json::Value;

/// A run's header, of any version that is read.
pub(crate) fn header(mut header: Value) -> Value {
    if let Some(plan) = header.get_mut("plan") {
        mixes::of_plan(plan);
    }
    gaps::of_header(&mut header);
    if let Some(plan) = header.get_mut("plan") {
        arms::of_plan(plan);
        arms::conditions(plan);
        arms::duet(plan);
        promises::of_plan(plan);
    }
    header
}

/// One start.
pub(crate) fn start(mut start: Value) -> Value {
    parties::of_start(&mut start);
    gaps::of_start(&mut start);
    promises::of_start(&mut start);
    start
}

/// One trial of a run of this version.
pub(crate) fn trial(version: u32, mut trial: Value) -> Value {
    if version < 3 {
        trial = times::trial_of_2(trial);
    }
    loads::of_trial(&mut trial);
    loads::machine(&mut trial);
    parties::of_trial(&mut trial);
    gaps::of_trial(&mut trial);
    promises::of_trial(&mut trial);
    trial
}

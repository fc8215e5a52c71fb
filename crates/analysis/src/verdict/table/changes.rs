//! Changes of worlds that cases of several files make.

use dyno_model::start::{WarmUpEnd, WarmUpSlice};

use super::world::{MS, TrialWorld};
use crate::fixture::warm_up;
use crate::turns::TurnsResult;

/// Sets a window of 10 s in intervals of a second, so that 1 % of it is shorter than an interval.
pub(in crate::verdict) fn set_long_window(world: &mut TrialWorld) {
    world.set_seconds(&[(1000, 500 * MS); 10]);
}

/// Turns of two servers. `idle_share`: CPU time that the server used in the other server's turns,
/// as a share of the CPU time in its own turns.
pub(in crate::verdict) fn turns_with_idle_use(idle_share: f64) -> Option<TurnsResult> {
    Some(TurnsResult {
        slice_s: 0.4,
        began_ns: 0,
        idle_cpus: Some(idle_share / 2.0),
        idle_share: Some(idle_share),
        carried_share: Some(idle_share),
        throughput_rps: None,
        rounds: Vec::new(),
    })
}

/// Turns of this length, in seconds. The server is idle in the other server's turns.
pub(in crate::verdict) fn turns_of_length(slice_s: f64) -> Option<TurnsResult> {
    turns_with_idle_use(0.0).map(|turns| TurnsResult { slice_s, ..turns })
}

pub(in crate::verdict) fn slices(w: &mut TrialWorld) -> &mut Vec<WarmUpSlice> {
    &mut w.start.parts[0].warmup.as_mut().expect("a warm-up").slices
}

/// Sets a warm-up that reached its limit, and changes each slice.
pub(in crate::verdict) fn set_warm_up(w: &mut TrialWorld, change: fn(&mut WarmUpSlice, u64)) {
    w.start = warm_up(WarmUpEnd::Limit, 0, Some(60 * MS));
    slices(w).iter_mut().zip(0..).for_each(|(slice, round)| change(slice, round));
}

/// Sets five seconds per rate (responses per second). The server uses half of a CPU.
pub(in crate::verdict) fn set_levels<const N: usize>(w: &mut TrialWorld, rates: [u64; N]) {
    let seconds = rates.into_iter().flat_map(|rate| [(rate, 500 * MS); 5]);
    w.set_seconds(&seconds.collect::<Vec<_>>());
}

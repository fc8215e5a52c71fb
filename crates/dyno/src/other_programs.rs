//! Reports the CPU use of other programs before a run.

use std::time::Duration;

use dyno_lab::other_programs::{
    ForeignUse, NotQuiet, QUIET_FOR, QUIET_SHARE, disturbing_use, wait_until_quiet,
};
use dyno_report::format::whole_percent;

use crate::terminal::say;

/// Describes the use: `61 % of this machine's CPUs (rustc 41 %, python3 20 %)`.
fn describe(used: &ForeignUse) -> String {
    let shares: Vec<String> = used
        .programs
        .iter()
        .map(|(name, share)| format!("{name} {}", whole_percent(*share)))
        .collect();
    let names =
        if shares.is_empty() { "dyno cannot see which programs".into() } else { shares.join(", ") };
    format!("{} of this machine's CPUs ({names})", whole_percent(used.share))
}

/// Checks other programs before a run. With a limit, waits until they are idle. Without a limit,
/// prints a warning.
///
/// # Errors
/// Other programs were not idle in time, or the user interrupted the wait.
pub fn check_or_wait(
    limit_ns: Option<u64>,
    is_interrupted: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    let Some(ns) = limit_ns else {
        warn("The results may be invalid. Stop these programs, or use `--wait-quiet 5m`.");
        return Ok(());
    };
    let limit = Duration::from_nanos(ns);
    let mut on_noise = |used: &ForeignUse| say(&waiting_text(used, limit));
    wait_until_quiet(limit, is_interrupted, &mut on_noise)
        .map_err(|reason| anyhow::anyhow!(error_text(&reason, limit)))
}

/// Warns of other programs before a calibration.
pub fn warn_before_calibration() {
    warn("The measured rates may be too low. Stop these programs, and run `dyno calibrate` again.");
}

/// Prints a warning if other programs are busy. `advice`: the consequence and the action.
fn warn(advice: &str) {
    if let Some(used) = disturbing_use() {
        say(&format!("warning: other programs use {}. {advice}", describe(&used)));
    }
}

fn waiting_text(used: &ForeignUse, limit: Duration) -> String {
    format!(
        "waiting up to {limit:?} until other programs use less than {} of the CPUs for \
         {QUIET_FOR:?}. Now they use {}",
        whole_percent(QUIET_SHARE),
        describe(used)
    )
}

fn error_text(reason: &NotQuiet, limit: Duration) -> String {
    match reason {
        NotQuiet::Interrupted => "interrupted while waiting for a quiet machine".into(),
        NotQuiet::TimeLimit(used) => format!(
            "other programs: used {} and were not idle for {QUIET_FOR:?} within {limit:?}\nhint: \
             stop these programs, or run without --wait-quiet",
            describe(used)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_programs_or_their_absence() {
        let limit = Duration::from_secs(300);
        let used = ForeignUse { share: 0.612, programs: vec![("rustc".into(), 0.6)] };
        let error = error_text(&NotQuiet::TimeLimit(used.clone()), limit);
        assert!(error.contains("used 61 % of this machine's CPUs (rustc 60 %)"), "{error}");
        assert!(error.contains("for 3s within 300s\nhint: stop these"), "{error}");
        let waiting = waiting_text(&used, limit);
        assert!(waiting.contains("up to 300s until other programs use less than 5 %"), "{waiting}");
        let unseen = describe(&ForeignUse { share: 0.1, programs: Vec::new() });
        assert!(unseen.contains("(dyno cannot see which programs)"), "{unseen}");
        assert!(error_text(&NotQuiet::Interrupted, limit).contains("interrupted"));
    }
}

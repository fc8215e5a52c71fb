//! Checks duets. With `order = "duet"`, subjects run and are loaded at the same time on the same
//! CPUs, so that a disturbance affects all of them. An arm is a subject under one configuration.

use std::collections::BTreeSet;

use dyno_config::mistake::{Mistake, mistake};
use dyno_model::plan::{Arm, ArmSharing, Arrivals, Load, Priority, Subject};

use super::{SubjectSharing, SuiteFile};

/// Returns how the arms of a suite share the CPUs.
pub(crate) fn arm_sharing(suite: &SuiteFile, arms: &[Arm], subjects: &[Subject]) -> ArmSharing {
    match suite.sharing {
        SubjectSharing::Alone => ArmSharing::Alone,
        SubjectSharing::Turns { slice_ns } => ArmSharing::Turns { slice_ns },
        SubjectSharing::Together => ArmSharing::from_duet(members(suite, arms, subjects)),
    }
}

/// Returns the indices of the arms that are loaded at the same time: none, or at least two. A
/// control would take CPU time from the other arms, so it is included only in two cases:
/// - The experiment varies the control.
/// - Without controls, fewer than two arms are left.
fn members(suite: &SuiteFile, arms: &[Arm], subjects: &[Subject]) -> BTreeSet<usize> {
    let subject = |arm: &usize| &subjects[arms[*arm].subject];
    let varied = suite.experiment.iter().flat_map(|experiment| &experiment.arms);
    let varied_subjects: BTreeSet<usize> = varied
        .filter_map(|name| arms.iter().find(|arm| arm.name == *name))
        .map(|arm| arm.subject)
        .collect();
    // A subject that refuses every connection takes no load.
    let can_take_load = |arm: &usize| subject(arm).skipped.is_none() && !subject(arm).refuses;
    let available: BTreeSet<usize> = (0..arms.len()).filter(can_take_load).collect();
    let is_compared =
        |arm: &&usize| !subject(arm).control || varied_subjects.contains(&arms[**arm].subject);
    let compared: BTreeSet<usize> = available.iter().filter(is_compared).copied().collect();
    match (compared.len(), available.len()) {
        (2.., _) => compared,
        (_, 2..) => available,
        _ => BTreeSet::new(),
    }
}

/// Checks the rates and the baseline of arms that are loaded at the same time.
///
/// # Errors
/// Together the rates of the arms exceed the shared CPUs, or the baseline is loaded alone.
pub(crate) fn check_members(
    suite: &SuiteFile,
    members: &BTreeSet<usize>,
    arms: (&[Arm], &[Subject]),
) -> Result<(), Mistake> {
    check_shares(&suite.shares, members.len())?;
    check_baseline(suite.report.baseline.as_deref(), members, arms)
}

/// Checks that the rates of arms that are loaded at the same time do not exceed their CPUs.
/// `shares`: rates as shares of the slowest arm's capacity, which is measured without the others.
///
/// # Errors
/// The rates exceed the CPUs.
fn check_shares(shares: &[f64], members: usize) -> Result<(), Mistake> {
    let max_share = 1.0 / members.max(1) as f64;
    let Some(share) = shares.iter().find(|share| members > 1 && **share >= max_share) else {
        return Ok(());
    };
    let message = format!(
        "`rate`: too high. {members} subjects are loaded at the same time on the same CPUs, each \
         at {:.0}% of the highest rate of the slowest subject. Together these loads need more CPU \
         time than the CPUs provide\nhint: use less than {:.0}%",
        share * 100.0,
        max_share * 100.0
    );
    Err(mistake("rate", message).with_parent("load"))
}

/// Checks that the baseline is one of the arms that are loaded at the same time. An arm that is
/// loaded alone cannot be compared with them.
///
/// # Errors
/// The baseline is loaded alone.
fn check_baseline(
    baseline: Option<&str>,
    members: &BTreeSet<usize>,
    (arms, subjects): (&[Arm], &[Subject]),
) -> Result<(), Mistake> {
    let is_alone = |(index, arm): &(usize, &Arm)| {
        baseline == Some(&arm.name)
            && !members.contains(index)
            && subjects[arm.subject].skipped.is_none()
    };
    let alone = arms.iter().enumerate().find(is_alone);
    match alone.filter(|_| !members.is_empty()) {
        None => Ok(()),
        Some((_, arm)) => {
            let message = format!(
                "baseline {:?}: cannot be compared with the other subjects. They are loaded at the \
                 same time and share their CPUs, but the baseline is loaded alone\nhint: use one \
                 of {}",
                arm.name,
                members.iter().map(|index| &*arms[*index].name).collect::<Vec<_>>().join(", ")
            );
            Err(mistake("baseline", message).with_parent("report"))
        }
    }
}

/// Checks that a suite has no settings that a duet does not support.
///
/// # Errors
/// The suite has an unsupported setting.
pub(super) fn check(is_duet: bool, load: &Load, has_objective: bool) -> Result<(), Mistake> {
    if !is_duet {
        return Ok(());
    }
    let has_fixed_rate = |arrivals: &Arrivals| {
        matches!(arrivals, Arrivals::Closed | Arrivals::Constant { .. } | Arrivals::Poisson { .. })
    };
    if !load.steps.iter().all(|step| has_fixed_rate(&step.arrivals)) {
        let message = "`order = \"duet\"`: cannot be used with a rate that changes or with \
                       recorded times, because in a duet the subjects share the CPUs, so a step \
                       lasts as many times longer as there are subjects\nhint: use a \
                       constant rate, or remove `order = \"duet\"`";
        return Err(mistake("order", message).with_parent("suite"));
    }
    if load.priority == Priority::Realtime {
        let message = "`priority = \"realtime\"`: cannot be used with `order = \"duet\"`, because \
                       subjects are loaded at the same time, and one load generator would block \
                       the other generators on the same CPUs\nhint: remove `priority`";
        return Err(mistake("priority", message).with_parent("load"));
    }
    if has_objective {
        let message = "`objective`: cannot be used with `order = \"duet\"`. All servers are loaded \
                       at the same time, so response times include the time that a server waits \
                       for a CPU\nhint: remove `objective`, or use `order = \"interleaved\"`";
        return Err(mistake("objective", message).with_parent("report"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::SubjectSharing;
    use super::super::tests::parse;

    #[test]
    fn duet_with_unsupported_options_is_refused() {
        let suite = |extra: &str| {
            parse(&format!("subjects = [\"a\", \"b\"]\n[suite]\norder = \"duet\"\n{extra}"))
        };
        let closed = suite("[load]\nconnections = 8\n").unwrap();
        assert_eq!(closed.sharing, SubjectSharing::Together);
        let open = suite("[load]\nrate = 1000\nconnections = 8\n").unwrap();
        assert_eq!(open.sharing, SubjectSharing::Together);
        for (extra, expected) in [
            ("slice = \"200ms\"\n", "the only order in which subjects take turns"),
            ("[load]\nconnections = 8\nrate = \"1k..5k\"\n", "longer as there are subjects"),
            ("[load]\nconnections = 8\npriority = \"realtime\"\n", "would block the other"),
            (
                "[load]\nconnections = 8\nrate = 100\n[report]\nobjective = \"p99<5ms\"\n",
                "the time that a server waits for a CPU",
            ),
        ] {
            let error = suite(extra).unwrap_err();
            assert!(error.contains(expected), "{extra}\n→ {error}");
        }
    }
}

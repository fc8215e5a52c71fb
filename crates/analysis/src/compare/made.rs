//! What became of the repeats of a cell: a server that breaks has no ratio, and is no better for it.

use std::collections::BTreeSet;

use super::Lack;
use crate::grid::Cell;
use crate::report::Report;
use crate::stats::permutation;
use crate::trial::TrialResult;

/// Repeats of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Made {
    /// Those that were made, or that their server prevented.
    all: usize,
    valid: usize,
    /// Not valid, because the server answered wrong, ended, or never came up.
    broke: usize,
    /// Not valid, because too many requests got no answer. A machine that stalls does that, too.
    lost: usize,
}

impl Made {
    pub(super) fn of(report: &Report, arm: usize, cell: &Cell<'_>) -> Made {
        let made: BTreeSet<u32> = cell.trials().iter().map(|trial| trial.block).collect();
        let failed =
            report.subjects.get(arm).map(|subject| subject.blocks_failed_by_itself(report.run.repeats));
        let prevented = failed.unwrap_or_default().difference(&made).count();
        let count =
            |is_it: &dyn Fn(&TrialResult) -> bool| cell.trials().iter().filter(|trial| is_it(trial)).count();
        Made {
            all: made.len() + prevented,
            valid: count(&|trial| trial.valid),
            broke: count(&TrialResult::is_broken) + prevented,
            lost: count(&|trial| !trial.is_broken() && trial.has_lost()),
        }
    }

    pub(super) const fn is_broken(self) -> bool {
        2 * self.broke > self.all
    }

    pub(super) const fn is_in_order(self) -> bool {
        2 * self.valid > self.all
    }
}

/// The chance that so many more repeats of the second lost requests, if the two are alike. `None`: none of it did.
pub(super) fn p_lost(lack: Lack, a: Made, b: Made) -> Option<f64> {
    let (of_a, of_b) = match lack {
        Lack::Unanswered { a: beyond_a, b: beyond_b } => {
            ((beyond_a + a.lost, a.valid + a.lost), (beyond_b + b.lost, b.valid + b.lost))
        }
        _ => ((a.lost, a.valid + a.lost), (b.lost, b.valid + b.lost)),
    };
    (of_b.0 > 0).then(|| permutation::of_counts(of_a, of_b))
}

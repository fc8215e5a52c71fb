//! Tests whether more requests, or more repeats, of B fail than of A.
//!
//! A control that both runs have may show that the machine caused failures. It explains failures
//! only up to its own share of failed requests, and never an incorrect response or the end of a
//! server.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::{CellRepeats, ComparisonRow, ServerStarts};
use crate::number_format;
use crate::stats::{self, ALPHA, permutation, rank_sum};
use crate::verdict::MAX_LOST;

/// Number of failed repeats, and of all repeats that show whether the server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failures {
    pub failed: usize,
    pub all: usize,
}

/// Returns the chance that so many more repeats of `b` fail if the two sides are alike (Fisher's
/// exact test). `None`: no repeat of either failed.
pub(super) fn p_of_failures(a: Failures, b: Failures) -> Option<f64> {
    (a.failed + b.failed > 0)
        .then(|| permutation::counts_chance((a.failed, a.all), (b.failed, b.all)))
}

/// Returns the clause on a significant difference of counts. `p`: adjusted p-value of Fisher's
/// exact test.
pub(super) fn counts_clause((a, b): (Failures, Failures), p: f64) -> String {
    format!(
        "{} of {}, compared with {} of {} (significant: {}, Fisher's exact test)",
        b.failed,
        b.all,
        a.failed,
        a.all,
        number_format::p_value(p)
    )
}

/// Requests of one repeat, or of one start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockRequests {
    /// Number of the repeat, counted from 1.
    pub block: u32,
    /// Requests that failed because of the server, and all requests of the measured windows.
    pub failed: u64,
    pub requests: u64,
    /// Whether the server was down or hung for a part of a window that makes the repeat invalid
    /// (`outage`). In a closed loop hardly any request fails meanwhile.
    pub has_outage: bool,
}

impl BlockRequests {
    /// Returns the share of failed requests: 0 to 1.
    pub(super) fn share(self) -> f64 {
        self.failed as f64 / self.requests.max(1) as f64
    }

    /// Returns the failed share without a part that a control explains (0 to 1).
    fn failed_share(self, explained: f64) -> FailedShare {
        let share = (self.share() - explained).max(0.0);
        FailedShare { share, of_request: 1.0 / self.requests.max(1) as f64 }
    }
}

/// Failed share of a repeat, without the part that a control explains.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FailedShare {
    /// 0 to 1.
    share: f64,
    /// Share of a single request: above 0, at most 1.
    of_request: f64,
}

impl FailedShare {
    /// Compares two shares. They are equal if they differ by at most half a request of the smaller
    /// repeat: one failed request of 900 is not more than one of 1,000.
    fn compare(&self, other: &FailedShare) -> Ordering {
        /// Larger than the relative rounding of a difference of shares.
        const ROUNDING: f64 = 1e-9;
        let resolution = 0.5 * self.of_request.max(other.of_request);
        match (self.share - other.share).abs() <= resolution * (1.0 + ROUNDING) {
            true => Ordering::Equal,
            false => self.share.total_cmp(&other.share),
        }
    }
}

/// Returns the chance that the repeats of `b` have so much larger failed shares than those of `a`
/// if the two sides are alike (rank-sum test). `None`: no request of either failed, or a side has
/// no repeat with a known share.
fn p_of_shares(a: &[FailedShare], b: &[FailedShare]) -> Option<f64> {
    let has_failures = a.iter().chain(b).any(|repeat| repeat.share > 0.0);
    has_failures.then(|| rank_sum::rank_sum_chance(a, b, FailedShare::compare)).flatten()
}

/// By how much the failed shares of a control are higher in B than in A.
#[derive(Clone, Debug, Default, PartialEq)]
struct ControlExcess {
    /// For each block of B, the control's failed share in this block minus the median of its shares
    /// in A, at least 0: 0 to 1.
    by_block: BTreeMap<u32, f64>,
    /// Blocks of B in which the control was down or hung as well.
    outages: BTreeSet<u32>,
    /// Upper quartile of the excess over all blocks, if significantly more requests of the control
    /// fail in B. Otherwise 0. A change of the machine affects all blocks, but its size varies.
    typical: f64,
}

impl ControlExcess {
    /// Computes the excess. `a`, `b`: requests of the control in each repeat whose failed share is
    /// known. If `a` is empty, the excess is 0, because nothing shows that the control changed.
    fn new(a: &[BlockRequests], b: &[BlockRequests]) -> ControlExcess {
        let shares = |side: &[BlockRequests]| -> Vec<FailedShare> {
            side.iter().map(|repeat| repeat.failed_share(0.0)).collect()
        };
        let shares_a: Vec<f64> = a.iter().map(|repeat| repeat.share()).collect();
        let Some(usual) = stats::median(&shares_a) else { return ControlExcess::default() };
        let excess = |repeat: &BlockRequests| (repeat.share() - usual).max(0.0);
        let mut sorted: Vec<f64> = b.iter().map(excess).collect();
        sorted.sort_by(f64::total_cmp);
        let upper_quartile = sorted.get((3 * sorted.len()).div_ceil(4).saturating_sub(1));
        let is_significant = p_of_shares(&shares(a), &shares(b)).is_some_and(|p| p < ALPHA);
        ControlExcess {
            by_block: b.iter().map(|repeat| (repeat.block, excess(repeat))).collect(),
            outages: b
                .iter()
                .filter(|repeat| repeat.has_outage)
                .map(|repeat| repeat.block)
                .collect(),
            typical: upper_quartile.copied().filter(|_| is_significant).unwrap_or(0.0),
        }
    }

    /// Returns the share of requests that the control explains in a block of B: 0 to 1. If the
    /// control's share in this block is unknown, the typical excess is returned.
    fn share_in(&self, block: u32) -> f64 {
        self.by_block.get(&block).map_or(self.typical, |excess| excess.max(self.typical))
    }
}

/// Shares of failed requests that controls explain in B.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Explained(Vec<ControlExcess>);

impl Explained {
    /// Collects the controls for a cell. If a control has the same workload and step, only controls
    /// of that step are used.
    pub(super) fn in_cell(cell: &CellRepeats, cells: &[CellRepeats]) -> Explained {
        let has_step = |control: &&CellRepeats| {
            (&control.workload, control.step) == (&cell.workload, cell.step)
        };
        let controls: Vec<&CellRepeats> = cells.iter().filter(|other| other.control).collect();
        let has_control_in_cell = controls.iter().any(has_step);
        let selected = controls.iter().filter(|control| !has_control_in_cell || has_step(control));
        let excess = |control: &&CellRepeats| {
            ControlExcess::new(&control.a.all_requests(), &control.b.all_requests())
        };
        Explained(selected.map(excess).collect())
    }

    /// Collects the controls for the starts of servers.
    pub(super) fn in_starts(starts: &[ServerStarts]) -> Explained {
        let controls = starts.iter().filter(|server| server.control);
        let excess = |control: &ServerStarts| {
            ControlExcess::new(&control.a.requests_by_start, &control.b.requests_by_start)
        };
        Explained(controls.map(excess).collect())
    }

    /// Returns the share of requests that the controls explain in a block of B: 0 to 1. The control
    /// with the largest share decides.
    fn share_in(&self, block: u32) -> f64 {
        self.0.iter().map(|control| control.share_in(block)).fold(0.0, f64::max)
    }

    /// Whether the controls explain all failed requests of a repeat or a start, and its outage.
    pub(super) fn explains_all(&self, repeat: BlockRequests) -> bool {
        repeat.failed > 0
            && repeat.share() <= self.share_in(repeat.block)
            && self.explains_outage(repeat)
    }

    /// Whether a repeat has no outage, or a control had an outage in the same block.
    fn explains_outage(&self, repeat: BlockRequests) -> bool {
        !repeat.has_outage || self.0.iter().any(|control| control.outages.contains(&repeat.block))
    }

    /// Whether the controls explain the failed requests of a repeat that is not valid. There are
    /// two cases:
    ///
    /// - More than [`MAX_LOST`] of the requests failed. Without the share that the controls
    ///   explain, it would have been at most [`MAX_LOST`], so the repeat would have been valid.
    /// - The controls explain all failed requests. A repeat with at most [`MAX_LOST`] of them is
    ///   not valid because of an outage, which a control must have had as well.
    pub(super) fn explains_invalid(&self, repeat: BlockRequests) -> bool {
        let explained = self.share_in(repeat.block);
        let is_valid_without =
            repeat.share() > MAX_LOST && explained > 0.0 && repeat.share() - explained <= MAX_LOST;
        is_valid_without && self.explains_outage(repeat) || self.explains_all(repeat)
    }
}

/// Failures of a cell, for the tests of a gate. Failures of B that controls explain are removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellFailures<'a> {
    pub cell: &'a CellRepeats,
    /// Failed repeats of A and of B.
    pub repeats: (Failures, Failures),
    /// p-value of the test of failed requests; `None`: no request failed, or no share is known.
    p_of_requests: Option<f64>,
}

impl<'a> CellFailures<'a> {
    /// Collects the failures of a cell for the metric of a row.
    pub(super) fn new(
        cell: &'a CellRepeats,
        row: &ComparisonRow,
        cells: &[CellRepeats],
    ) -> CellFailures<'a> {
        let explained = Explained::in_cell(cell, cells);
        let shares_a: Vec<FailedShare> =
            cell.a.used_requests().map(|repeat| repeat.failed_share(0.0)).collect();
        let remaining =
            |repeat: BlockRequests| repeat.failed_share(explained.share_in(repeat.block));
        let shares_b: Vec<FailedShare> = cell.b.used_requests().map(remaining).collect();
        CellFailures {
            cell,
            repeats: cell.failures_in(row.no_ratio_reason, &explained),
            p_of_requests: p_of_shares(&shares_a, &shares_b),
        }
    }

    /// Returns the p-value of the test of failed repeats; `None`: no repeat failed.
    pub(super) fn p_of_repeats(&self) -> Option<f64> {
        p_of_failures(self.repeats.0, self.repeats.1)
    }

    /// Returns the p-value of the test of failed requests in the repeats that remain valid, or that
    /// only the generator limited; `None`: no request failed.
    pub(super) const fn p_of_requests(&self) -> Option<f64> {
        self.p_of_requests
    }

    /// Returns a sentence on a significant difference in failed repeats. `p`: adjusted p-value.
    pub(super) fn repeats_sentence(&self, p: f64) -> String {
        format!("more repeats of B fail than of A: {}", counts_clause(self.repeats, p))
    }

    /// Returns a sentence on a significant difference in failed requests. `p`: adjusted p-value.
    pub(super) fn requests_sentence(&self, p: f64) -> String {
        let (a, b) = (&self.cell.a, &self.cell.b);
        format!(
            "the shares of failed requests are larger in repeats of B than in repeats of A: {} of \
             {} requests of B failed, in {} of {} repeats, compared with {} of {} requests of A, \
             in {} of {} repeats (significant: {}, rank-sum test)",
            b.failed_requests,
            b.requests,
            b.with_failures,
            b.losses().all,
            a.failed_requests,
            a.requests,
            a.with_failures,
            a.losses().all,
            number_format::p_value(p)
        )
    }
}

//! What loads that take turns tell each other's records.

use std::collections::BTreeSet;

use dyno_archive::sample::{BesideUse, PartyUse};
use dyno_archive::{LoadRecord, Party, Sample};

/// Adds to the samples of each load what the servers of the others used, read at about the same
/// instant: else theirs would look like a stranger's. One load alone stays as it is.
pub fn see_each_other(records: &mut [LoadRecord]) {
    let all: Vec<Vec<(u64, BesideUse)>> = records
        .iter()
        .map(|record| record.samples.iter().map(|s| (s.at_ns, used(s))).collect())
        .collect();
    for (own, record) in records.iter_mut().enumerate() {
        let others: Vec<&Vec<(u64, BesideUse)>> = all
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != own)
            .map(|(_, samples)| samples)
            .collect();
        if !others.is_empty() {
            record
                .samples
                .iter_mut()
                .for_each(|sample| sample.beside = Some(sum(&others, sample.at_ns)));
        }
    }
}

/// The sum of what each used at the sample nearest to an instant.
fn sum(of: &[&Vec<(u64, BesideUse)>], at_ns: u64) -> BesideUse {
    let nearest =
        of.iter().map(|samples| samples.iter().min_by_key(|(own_ns, _)| own_ns.abs_diff(at_ns)));
    let none = BesideUse { cpu_ns: Some(0), pids: BTreeSet::new() };
    nearest.fold(none, |sum, used| BesideUse {
        cpu_ns: sum.cpu_ns.zip(used.and_then(|(_, used)| used.cpu_ns)).map(|(a, b)| a + b),
        pids: sum
            .pids
            .into_iter()
            .chain(used.into_iter().flat_map(|(_, used)| used.pids.clone()))
            .collect(),
    })
}

/// What all parties of a start but the generator used.
fn used(sample: &Sample) -> BesideUse {
    let parties =
        || sample.parties.iter().filter(|used| !matches!(used.party, Party::Generator(_)));
    BesideUse {
        cpu_ns: parties().map(PartyUse::cpu_ns).sum(),
        pids: parties().flat_map(|used| &used.threads).map(|thread| thread.pid).collect(),
    }
}

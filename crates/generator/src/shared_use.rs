//! Exchanges the servers' resource use between the records of loads that run at the same time. Each
//! record then shows which part of the machine's use belongs to the other servers.

use std::collections::BTreeSet;

use dyno_model::sample::{OtherPartiesUse, PartyUse};
use dyno_model::{LoadRecord, Party, Sample};

/// Adds to the samples of each load the resource use of the other loads' servers at about the same
/// instant. Otherwise the CPU time of these servers would be attributed to unrelated processes. A
/// single load is unchanged.
pub fn exchange_server_use(records: &mut [LoadRecord]) {
    let uses: Vec<Vec<(u64, OtherPartiesUse)>> = records
        .iter()
        .map(|record| record.samples.iter().map(|s| (s.at_ns, other_parties_use(s))).collect())
        .collect();
    for (index, record) in records.iter_mut().enumerate() {
        let others: Vec<&Vec<(u64, OtherPartiesUse)>> = uses
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
            .map(|(_, samples)| samples)
            .collect();
        if !others.is_empty() {
            record
                .samples
                .iter_mut()
                .for_each(|sample| sample.co_runners = Some(total_use_at(&others, sample.at_ns)));
        }
    }
}

/// Returns the sum of the servers' resource use at an instant, from the nearest sample of each
/// server. The CPU time is unknown if it is unknown for one server.
fn total_use_at(servers: &[&Vec<(u64, OtherPartiesUse)>], at_ns: u64) -> OtherPartiesUse {
    let nearest = servers
        .iter()
        .map(|samples| samples.iter().min_by_key(|(sample_ns, _)| sample_ns.abs_diff(at_ns)));
    let no_use = OtherPartiesUse { cpu_ns: Some(0), pids: BTreeSet::new() };
    nearest.fold(no_use, |mut sum, sample| {
        let cpu_ns = sample.and_then(|(_, used)| used.cpu_ns);
        sum.cpu_ns = sum.cpu_ns.zip(cpu_ns).map(|(a, b)| a + b);
        if let Some((_, used)) = sample {
            sum.pids.extend(used.pids.iter().copied());
        }
        sum
    })
}

/// Returns the resource use of all parties of a start except the generator.
fn other_parties_use(sample: &Sample) -> OtherPartiesUse {
    let parties =
        || sample.parties.iter().filter(|used| !matches!(used.party, Party::Generator(_)));
    OtherPartiesUse {
        cpu_ns: parties().map(PartyUse::cpu_ns).sum(),
        pids: parties().flat_map(|used| &used.threads).map(|thread| thread.pid).collect(),
    }
}

//! Exchanges the servers' resource use between the records of loads that run together. Each record
//! then shows which part of the machine's use belongs to the other servers.

use std::collections::BTreeSet;

use dyno_archive::sample::{OtherPartiesUse, PartyUse};
use dyno_archive::{LoadRecord, Party, Sample};

/// Adds to the samples of each load the resource use of the other loads' servers, read at about the
/// same instant. Without it their CPU time would be attributed to unrelated processes. A single
/// load is unchanged.
pub fn exchange_server_use(records: &mut [LoadRecord]) {
    let histories: Vec<ServersUse> = records.iter().map(ServersUse::new).collect();
    for (own, record) in records.iter_mut().enumerate() {
        let others: Vec<&ServersUse> = histories
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != own)
            .map(|(_, history)| history)
            .collect();
        if !others.is_empty() {
            record
                .samples
                .iter_mut()
                .for_each(|sample| sample.beside = Some(total_use_at(&others, sample.at_ns)));
        }
    }
}

/// The use of all parties of a start but the generator, over the time of a load.
struct ServersUse {
    /// CPU time so far, nanoseconds, by instant; `None`: that of one of them could not be read.
    cpu_ns: Vec<(u64, Option<u64>)>,
    /// Processes, by instant.
    pids: Vec<(u64, BTreeSet<u32>)>,
}

impl ServersUse {
    fn new(record: &LoadRecord) -> ServersUse {
        let of_samples = record.samples.iter().map(|sample| {
            let cpu_ns = server_uses(sample).map(PartyUse::cpu_ns).sum();
            (sample.at_ns, cpu_ns)
        });
        let of_readings = record.cpu_readings.iter().map(|reading| {
            let cpu_ns = reading.parties.iter().map(|(_, cpu_ns)| *cpu_ns).sum();
            (reading.at_ns, cpu_ns)
        });
        let pids = record.samples.iter().map(|sample| {
            let threads = server_uses(sample).flat_map(|used| &used.threads);
            (sample.at_ns, threads.map(|thread| thread.pid).collect())
        });
        ServersUse { cpu_ns: of_samples.chain(of_readings).collect(), pids: pids.collect() }
    }
}

/// Adds up the resource use of each at the sample or reading nearest to an instant.
fn total_use_at(all: &[&ServersUse], at_ns: u64) -> OtherPartiesUse {
    let cpu_ns = all.iter().map(|used| nearest(&used.cpu_ns, at_ns).copied().flatten());
    let pids = all.iter().filter_map(|used| nearest(&used.pids, at_ns)).flatten();
    OtherPartiesUse { cpu_ns: cpu_ns.sum(), pids: pids.copied().collect() }
}

/// Returns the value whose instant is nearest; `None`: there is no value.
fn nearest<T>(all: &[(u64, T)], at_ns: u64) -> Option<&T> {
    let nearest = all.iter().min_by_key(|(own_ns, _)| own_ns.abs_diff(at_ns));
    nearest.map(|(_, value)| value)
}

/// The readings of all parties of a start but the generator.
fn server_uses(sample: &Sample) -> impl Iterator<Item = &PartyUse> {
    sample.parties.iter().filter(|used| !matches!(used.party, Party::Generator(_)))
}

//! Removes the turns of other loads from the samples of a load. Loads that take turns run in short
//! slices of time, one after the other. Shared counters are reduced by their growth in the slices
//! of other loads.

use std::collections::BTreeMap;

use dyno_model::host::{HostUse, PressureUse};
use dyno_model::sample::{StateTimes, ThreadState, ThreadUse};
use dyno_model::{LoadRecord, Party, Sample};

use super::Turns;
use crate::server::UseBetweenSamples;

/// Returns the samples without the growth of counters in other loads' turns: waits of threads, and
/// use by the machine, dyno and the other starts. Counters of the network are removed, because all
/// loads that take turns share them.
///
/// A server's own CPU time in other loads' turns remains, because the server finishes the work of
/// its own turn in these turns. Values per unit of time exclude it
/// ([`with_own_rates`](super::with_own_rates)).
///
/// The same time also remains in the machine's CPU time, so that the
/// difference of the two is the same as in own turns.
pub(super) fn samples_without_others_turns(record: &LoadRecord, turns: &Turns<'_>) -> Vec<Sample> {
    let since = |sample: &Sample| sample.at_ns.saturating_sub(record.began_ns);
    let mut samples = record.samples.clone();
    let mut others_turns = OthersTurnsGrowth::default();
    for (pair, sample) in record.samples.windows(2).zip(samples.iter_mut().skip(1)) {
        let [from, to] = pair else { continue };
        let middle = since(from).midpoint(since(to));
        let is_others_turn = !turns.is_own(middle);
        let is_known = others_turns
            .add_machine(from, to, turns.others_share(since(from), since(to)))
            .is_some();
        // Unknown counters before the window do not matter.
        others_turns.is_unknown |= is_others_turn && !is_known && middle > record.window_ns.0;
        if is_others_turn {
            others_turns.add_waits(from, to);
        }
        others_turns.subtract_from(sample);
    }
    samples.iter_mut().flat_map(|sample| &mut sample.parties).for_each(|used| used.network = None);
    samples
}

/// Growth of counters in other loads' turns, since the first sample.
#[derive(Default)]
struct OthersTurnsGrowth {
    threads: BTreeMap<(u32, u32), ThreadGrowth>,
    host: HostUse,
    /// CPU time of the monitored servers, which is a part of the machine's CPU time.
    servers_ns: u64,
    /// CPU time of the other starts that take turns.
    others_ns: u64,
    /// Whether a counter of the machine, of a server or of another start could not be read.
    is_unknown: bool,
}

/// Growth of one thread's counters in other loads' turns.
#[derive(Default)]
struct ThreadGrowth {
    states: StateTimes,
    /// Run time; 0 for threads of servers, whose run time is not reduced.
    run_ns: u64,
    run_delay_ns: u64,
}

impl OthersTurnsGrowth {
    /// Adds the waits of threads between two samples in other loads' turns.
    fn add_waits(&mut self, from: &Sample, to: &Sample) {
        for (thread, before) in threads(from, to, |_| true) {
            let growth = self.threads.entry(key(thread)).or_default();
            let delay_ns = |thread: &ThreadUse| thread.run_delay_ns.unwrap_or(0);
            growth.run_delay_ns += delay_ns(thread).saturating_sub(before.map_or(0, delay_ns));
            let records = thread.seen.zip(before.and_then(|before| before.seen));
            let Some((now, then)) = records else { continue };
            for state in ThreadState::ALL {
                let added_ns = now.states.get(state).saturating_sub(then.states.get(state));
                growth.states.add(state, added_ns);
            }
        }
    }

    /// Adds a share of the use between two samples. A long load has few samples, so other loads'
    /// turns may cover only a part of the time between two samples. `None`: a counter could not be
    /// read.
    fn add_machine(&mut self, from: &Sample, to: &Sample, share: f64) -> Option<()> {
        let part = |now: u64, then: u64| (now.saturating_sub(then) as f64 * share).round() as u64;
        for (thread, before) in threads(from, to, is_generator) {
            let run_ns = part(thread.run_ns, before.map_or(0, |before| before.run_ns));
            self.threads.entry(key(thread)).or_default().run_ns += run_ns;
        }
        let (now, then) = (to.host.as_ref()?, from.host.as_ref()?);
        // Without co-runners (the other starts), their CPU time is 0.
        let others_ns =
            |sample: &Sample| sample.co_runners.as_ref().map_or(Some(0), |others| others.cpu_ns);
        let (others_now, others_then) = (others_ns(to)?, others_ns(from)?);
        let servers =
            to.parties.iter().map(|used| used.party).filter(|party| !is_generator(*party));
        let servers_s: f64 = servers
            .map(|party| UseBetweenSamples::from_samples(party, from, to)?.cpu_s)
            .sum::<Option<f64>>()?;
        self.servers_ns += (servers_s * share * 1e9).round() as u64;
        self.others_ns += part(others_now, others_then);
        let host = &mut self.host;
        host.busy_ns = host.busy_ns.saturating_add(part(now.busy_ns, then.busy_ns));
        host.idle_ns = host.idle_ns.saturating_add(part(now.idle_ns, then.idle_ns));
        host.steal_ns = host.steal_ns.saturating_add(part(now.steal_ns, then.steal_ns));
        host.context_switches += part(now.context_switches, then.context_switches);
        let no_pressure = PressureUse::default();
        let (now_pressure, then_pressure) =
            (now.pressure.unwrap_or(no_pressure), then.pressure.unwrap_or(no_pressure));
        let pressure = host.pressure.get_or_insert_default();
        for (sum, now, then) in [
            (&mut host.births, now.births, then.births),
            (&mut host.interrupts, now.interrupts, then.interrupts),
            (&mut host.interrupt_ns, now.interrupt_ns, then.interrupt_ns),
            (&mut pressure.cpu_ns, now_pressure.cpu_ns, then_pressure.cpu_ns),
            (&mut pressure.memory_ns, now_pressure.memory_ns, then_pressure.memory_ns),
            (&mut pressure.io_ns, now_pressure.io_ns, then_pressure.io_ns),
        ] {
            *sum = Some(sum.unwrap_or(0) + now.zip(then).map_or(0, |(now, then)| part(now, then)));
        }
        Some(())
    }

    /// Subtracts the growth so far from the counters of a sample.
    fn subtract_from(&self, sample: &mut Sample) {
        for used in &mut sample.parties {
            for thread in &mut used.threads {
                let Some(growth) = self.threads.get(&key(thread)) else { continue };
                thread.run_ns = thread.run_ns.saturating_sub(growth.run_ns);
                thread.run_delay_ns =
                    subtract_growth(thread.run_delay_ns, Some(growth.run_delay_ns));
                if let Some(seen) = &mut thread.seen {
                    ThreadState::ALL
                        .into_iter()
                        .for_each(|state| seen.states.take(state, growth.states.get(state)));
                }
            }
        }
        if let Some(others) = &mut sample.co_runners {
            others.cpu_ns = subtract_growth(others.cpu_ns, Some(self.others_ns));
        }
        sample.host =
            sample.host.take().filter(|_| !self.is_unknown).map(|host| self.own_host(&host));
    }

    /// Returns the machine's counters without their growth in other loads' turns.
    fn own_host(&self, host: &HostUse) -> HostUse {
        let growth = &self.host;
        let pressure_growth = growth.pressure.unwrap_or_default();
        HostUse {
            busy_ns: host.busy_ns.saturating_sub(growth.busy_ns.saturating_sub(self.servers_ns)),
            idle_ns: host.idle_ns.saturating_sub(growth.idle_ns),
            steal_ns: host.steal_ns.saturating_sub(growth.steal_ns),
            interrupt_ns: subtract_growth(host.interrupt_ns, growth.interrupt_ns),
            context_switches: host.context_switches.saturating_sub(growth.context_switches),
            births: subtract_growth(host.births, growth.births),
            interrupts: subtract_growth(host.interrupts, growth.interrupts),
            pressure: host.pressure.map(|all| PressureUse {
                cpu_ns: subtract_growth(all.cpu_ns, pressure_growth.cpu_ns),
                memory_ns: subtract_growth(all.memory_ns, pressure_growth.memory_ns),
                io_ns: subtract_growth(all.io_ns, pressure_growth.io_ns),
            }),
            runnable: host.runnable,
            frequency_khz: host.frequency_khz,
            // Disks are shared by all loads that take turns, like the counters of the network.
            disks: None,
            links: None,
            backlog: None,
            neighbour_overflows: None,
            tcp_memory: None,
        }
    }
}

/// Whether a party is the generator, whose threads serve all loads.
fn is_generator(party: Party) -> bool {
    matches!(party, Party::Generator(_))
}

/// Returns the threads of some parties in a sample, each with its counters in an earlier sample.
fn threads<'a>(
    from: &'a Sample,
    to: &'a Sample,
    is_selected: impl Fn(Party) -> bool,
) -> impl Iterator<Item = (&'a ThreadUse, Option<&'a ThreadUse>)> {
    to.parties.iter().filter(move |used| is_selected(used.party)).flat_map(|used| {
        let before = from.party_use(used.party).map_or(&[][..], |before| &before.threads);
        used.threads
            .iter()
            .map(|thread| (thread, before.iter().find(|before| key(before) == key(thread))))
    })
}

/// Returns a counter without its growth in other loads' turns.
fn subtract_growth(n: Option<u64>, growth: Option<u64>) -> Option<u64> {
    Some(n?.saturating_sub(growth.unwrap_or(0)))
}

/// Returns the process and thread ids, which identify a thread.
fn key(thread: &ThreadUse) -> (u32, u32) {
    (thread.pid, thread.tid)
}

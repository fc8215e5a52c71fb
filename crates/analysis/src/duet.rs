//! Loads that ran at the same time against servers on the same CPUs: whatever the machine did meanwhile, it did to all of them.
//!
//! The procedure is that of Bulej et al., "Duet Benchmarking: Improving Measurement Accuracy in the Cloud" (ICPE 2020).

use dyno_archive::{LoadRecord, Party};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::caveat::{Caveat, Code, Severity};
use crate::turns::{RoundResult, cpu_us_per_request, measured};
use crate::verdict::{Confidence, Limiter, Resource};

/// A trial whose load ran at the same time as those of other subjects.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DuetResult {
    /// How many loads ran at the same time, this one among them.
    pub loads: u32,
    /// How many were to.
    pub planned: u32,
    /// When the load began, on the machine's monotonic clock: loads that began at the same instant ran together.
    pub began_ns: u64,
    /// Pieces of the measured window in order of time: those of one number are compared with each other.
    pub rounds: Vec<RoundResult>,
}

/// The shortest piece: CPU time is accounted when a thread leaves its CPU, and at the kernel's ticks, which are up to 10 ms apart.
const PIECE_NS: u64 = 500_000_000;

impl DuetResult {
    /// `None`: the load was alone on its server's CPUs, or took turns.
    #[must_use]
    pub fn new(record: &LoadRecord, party: Party, planned: u32) -> Option<DuetResult> {
        let round = |piece| RoundResult {
            throughput_rps: None,
            cpu_us_per_request: cpu_us_per_request(record, party, piece),
        };
        let rounds = pieces(record).into_iter().map(round).collect();
        Some(DuetResult { loads: record.at_once?, planned, began_ns: record.began_ns, rounds })
    }
}

/// The measured window in pieces of whole intervals; what is left at its end is none.
fn pieces(record: &LoadRecord) -> Vec<(u64, u64)> {
    let mut from_ns = record.window_ns.0;
    let piece = |end_ns: u64| {
        (end_ns.saturating_sub(from_ns) >= PIECE_NS)
            .then(|| (std::mem::replace(&mut from_ns, end_ns), end_ns))
    };
    measured(record, record.window_ns).map(|interval| interval.end_ns).filter_map(piece).collect()
}

/// What is said of waiting: for the CPUs of the servers, and for those of the generators.
const OF_WAITING: [Code; 12] = [
    Code::GeneratorBusy,
    Code::GeneratorCrowded,
    Code::GeneratorStarved,
    Code::GeneratorLate,
    Code::SharedGenerator,
    Code::Queueing,
    Code::Clumped,
    Code::Ceiling,
    Code::ServerStarved,
    Code::MoreThreadsThanCpus,
    Code::Slowdown,
    Code::Cyclic,
];

/// The caveats of a trial that was one of several at the same time: nobody is told to trust its times, so that no caveat warns of what they hold.
pub(crate) fn caveats(duet: &DuetResult, mut all: Vec<Caveat>) -> Vec<Caveat> {
    all.retain(|caveat| !OF_WAITING.contains(&caveat.code));
    let (severity, message) = if duet.loads < duet.planned {
        (
            Severity::Invalid,
            format!(
                "{} of the {} servers that were to be loaded at the same time were there: what a request costs beside fewer others is no repeat of what it costs beside all.",
                duet.loads, duet.planned
            ),
        )
    } else {
        (
            Severity::Info,
            format!(
                "This server was loaded at the same time as {} on the same CPUs: CPU time per request and other costs are compared, and throughput and times are not, for they hold the wait for each other. `order = \"interleaved\"` compares those.",
                others(duet.loads)
            ),
        )
    };
    all.retain(|caveat| caveat.code != Code::AtOnce);
    all.push(Caveat::new(Code::AtOnce, severity, message, json!({"loads": duet.loads})));
    all
}

fn others(loads: u32) -> String {
    let others = loads.saturating_sub(1);
    format!("{others} other{}", if others == 1 { "" } else { "s" })
}

/// What limited a trial: of several at the same time each other, unless it failed.
pub(crate) fn limiter(duet: Option<&DuetResult>, alone: Limiter) -> Limiter {
    let can_tell = matches!(alone.resource, Resource::Failure | Resource::Refusal);
    let Some(duet) = duet.filter(|duet| !can_tell && duet.loads > 1) else { return alone };
    let sentence = format!(
        "Not asked: it was loaded at the same time as {} on the same CPUs, and they limited each other.",
        others(duet.loads)
    );
    Limiter {
        resource: Resource::Unknown,
        confidence: Confidence::Low,
        sentence,
        evidence: json!({"loads": duet.loads}),
    }
}

#[cfg(test)]
mod tests {
    use dyno_archive::sample::{CgroupUse, PartyUse};
    use dyno_archive::{Interval, Phase, Sample};

    use super::*;
    use crate::caveat::info;
    use crate::fixture;

    const MS: u64 = 1_000_000;

    /// A second of warm-up and two measured ones in intervals of 200 ms, with 10 answers and `cpu_ns` of CPU time in each, sampled at each edge.
    fn record(cpu_ns: u64) -> LoadRecord {
        let interval = |k: u64| {
            let phase = if k < 5 { Phase::Warmup } else { Phase::Measured };
            let mut interval = Interval::new(phase, k * 200 * MS, (k + 1) * 200 * MS);
            (0..10).for_each(|_| interval.outcomes.count(dyno_archive::outcome::Outcome::Ok));
            interval
        };
        let sample = |k: u64| {
            let group = CgroupUse { cpu_ns: Some(k * cpu_ns), ..CgroupUse::default() };
            let used = PartyUse { cgroup: Some(group), ..PartyUse::nothing(Party::SUBJECT) };
            Sample { at_ns: 7 + k * 200 * MS, parties: vec![used], ..Sample::default() }
        };
        LoadRecord {
            began_ns: 7,
            window_ns: (1000 * MS, 3000 * MS),
            at_once: Some(2),
            intervals: (0..15).map(interval).collect(),
            samples: (0..16).map(sample).collect(),
            ..fixture::record(0)
        }
    }

    #[test]
    fn a_window_is_compared_piece_by_piece() {
        let duet = DuetResult::new(&record(50_000), Party::SUBJECT, 2).unwrap();
        // Three intervals are the fewest that last half a second, and one is left over.
        let costs: Vec<_> = duet.rounds.iter().map(|round| round.cpu_us_per_request).collect();
        assert_eq!((duet.loads, duet.began_ns, costs), (2, 7, vec![Some(5.0); 3]));
        assert!(duet.rounds.iter().all(|round| round.throughput_rps.is_none()));
        let alone = LoadRecord { at_once: None, ..record(50_000) };
        assert_eq!(DuetResult::new(&alone, Party::SUBJECT, 2), None);
    }

    #[test]
    fn what_is_not_told_is_not_warned_of() {
        let duet = DuetResult::new(&record(1), Party::SUBJECT, 2).unwrap();
        let all = vec![info(Code::GeneratorStarved, "x"), info(Code::WrongAnswers, "y")];
        let codes: Vec<Code> = caveats(&duet, all).iter().map(|caveat| caveat.code).collect();
        assert_eq!(codes, [Code::WrongAnswers, Code::AtOnce]);
        let left = DuetResult { loads: 1, ..duet };
        assert_eq!(caveats(&left, Vec::new())[0].severity, Severity::Invalid);
    }
}

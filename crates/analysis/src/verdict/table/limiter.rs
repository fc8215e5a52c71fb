//! Cases of limiters.

use dyno_model::host::PressureUse;
use dyno_model::machine::OtherUse;
use dyno_model::sample::ThreadState;

use super::world::{MS, S, TrialWorld};
use crate::backend_use::BackendUse;
use crate::server::{CallRates, ServerUse};
use crate::snapshot;
use crate::verdict::{Confidence, Limiter, Resource};

/// One bound of a rule, with a world on either side of it.
pub(in crate::verdict) struct LimiterCase {
    confidence: Confidence,
    /// Changes the default world, before `trigger` or `near_miss`.
    given: fn(&mut TrialWorld),
    /// Changes the world so that it has this limiter, just past the bound.
    trigger: fn(&mut TrialWorld),
    /// Changes the world so that it stays just within the bound.
    near_miss: fn(&mut TrialWorld),
    /// The limiter and its confidence in the world of `near_miss`.
    near_miss_verdict: (Resource, Confidence),
}

impl LimiterCase {
    const fn new(
        confidence: Confidence,
        trigger: fn(&mut TrialWorld),
        near_miss: fn(&mut TrialWorld),
    ) -> LimiterCase {
        let near_miss_verdict = (Resource::Concurrency, Confidence::High);
        LimiterCase { confidence, given: |_| {}, trigger, near_miss, near_miss_verdict }
    }

    /// Sets the change that both worlds have in common. It is made first.
    pub(in crate::verdict) const fn given(mut self, given: fn(&mut TrialWorld)) -> LimiterCase {
        self.given = given;
        self
    }

    /// Sets the limiter and its confidence in the world of `near_miss`.
    pub(in crate::verdict) const fn near_miss_is(
        mut self,
        resource: Resource,
        confidence: Confidence,
    ) -> LimiterCase {
        self.near_miss_verdict = (resource, confidence);
        self
    }
}

/// Returns a case with high confidence, whose near miss has the limiter of the default world.
pub(in crate::verdict) const fn high(
    trigger: fn(&mut TrialWorld),
    near_miss: fn(&mut TrialWorld),
) -> LimiterCase {
    LimiterCase::new(Confidence::High, trigger, near_miss)
}

/// Returns a case with medium confidence, whose near miss has the limiter of the default world.
pub(in crate::verdict) const fn medium(
    trigger: fn(&mut TrialWorld),
    near_miss: fn(&mut TrialWorld),
) -> LimiterCase {
    LimiterCase::new(Confidence::Medium, trigger, near_miss)
}

/// Returns a case with low confidence, whose near miss has the limiter of the default world.
pub(in crate::verdict) const fn low(
    trigger: fn(&mut TrialWorld),
    near_miss: fn(&mut TrialWorld),
) -> LimiterCase {
    LimiterCase::new(Confidence::Low, trigger, near_miss)
}

fn limiter_after(changes: [fn(&mut TrialWorld); 2]) -> Limiter {
    let mut world = TrialWorld::default();
    changes.into_iter().for_each(|change| change(&mut world));
    world.limiter()
}

/// Checks all cases of a limiter, and panics with a list of the failed ones. Compares the limiters
/// with the limiter's snapshot.
pub(in crate::verdict) fn check_limiter_cases(resource: Resource, cases: &[LimiterCase]) {
    let named_fault = |(number, case): (usize, &LimiterCase)| {
        find_fault(resource, case).map(|fault| format!("case {number}: {fault}"))
    };
    let faults: Vec<String> = cases.iter().enumerate().filter_map(named_fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    let texts: Vec<String> = cases.iter().map(limiter_text).collect();
    snapshot::check(&format!("limiters/{}", resource.name()), &texts.join("\n"));
}

fn find_fault(resource: Resource, case: &LimiterCase) -> Option<String> {
    let limiter = limiter_after([case.given, case.trigger]);
    let near_miss = limiter_after([case.given, case.near_miss]);
    if (limiter.resource, limiter.confidence) != (resource, case.confidence) {
        Some(format!("the limiter is {limiter:#?}"))
    } else if (near_miss.resource, near_miss.confidence) != case.near_miss_verdict {
        Some(format!("the near miss gives {near_miss:#?}"))
    } else {
        None
    }
}

/// Formats the limiter of a case for its snapshot.
fn limiter_text(case: &LimiterCase) -> String {
    let limiter = limiter_after([case.given, case.trigger]);
    let evidence = snapshot::evidence_text(&limiter.evidence);
    let title = case_title(limiter.resource, limiter.confidence);
    format!("{title}\n{}\n{evidence}\n", limiter.sentence)
}

fn case_title(resource: Resource, confidence: Confidence) -> String {
    format!("## {}, {confidence:?}", resource.name())
}

#[test]
fn each_limiter_has_case() {
    let lines = snapshot::lines("limiters");
    for resource in Resource::ALL {
        let confidences = [Confidence::High, Confidence::Medium, Confidence::Low];
        let has_case = |confidence| lines.contains(&case_title(*resource, confidence));
        assert!(confidences.into_iter().any(has_case), "{resource:?} has no case");
    }
}

/// Sets in how many of 1,000 periods the quota throttled the server.
pub(in crate::verdict) fn set_throttled_periods(w: &mut TrialWorld, periods: u64) {
    w.server_cgroup().throttled_periods = Some(periods);
    w.server_cgroup().throttled_ns = Some(1600 * MS);
}

/// Sets the use of the CPUs that the server and its back end share. `server_ms`: milliseconds of
/// the window's second.
pub(in crate::verdict) fn set_shared_cpus(w: &mut TrialWorld, server_ms: u64, backend_share: f64) {
    w.set_server_cpu(server_ms * MS);
    w.backends = vec![backend_use("db", backend_share, true)];
}

/// A back end with this CPU utilisation.
pub(in crate::verdict) fn backend_use(
    name: &str,
    utilisation: f64,
    shares_cpus: bool,
) -> BackendUse {
    let server = ServerUse {
        cpu_utilisation: Some(utilisation),
        calls: Some(CallRates::default()),
        ..ServerUse::default()
    };
    BackendUse { name: name.into(), cpu_share: None, shares_cpus, server }
}

/// Sets the run time of one of the server's two threads, on two CPUs.
pub(in crate::verdict) fn set_thread(w: &mut TrialWorld, run_ns: u64) {
    w.allowed_cpus = 2.0;
    w.set_server_threads(&[(run_ns, 0), (0, 0)], 0);
}

/// Sets how much of four CPU seconds the hypervisor took.
pub(in crate::verdict) fn set_steal(w: &mut TrialWorld, steal_ns: u64) {
    let host = w.last_sample().host.as_mut().expect("a machine");
    host.steal_ns = steal_ns;
    host.idle_ns = 4 * S - host.busy_ns - steal_ns;
}

/// Programs by CPU time, the highest first. One name occurs twice.
pub(in crate::verdict) fn programs() -> Vec<OtherUse> {
    let program = |pid, name: &str| OtherUse { pid, name: name.into(), run_ns: 200 * MS };
    vec![program(77, "rustc"), program(78, "rustc"), program(79, "python3")]
}

/// Adds CPU time of other programs on the generator's CPU.
pub(in crate::verdict) fn add_others(w: &mut TrialWorld, others_ns: u64) {
    let cpu = &mut w.machine().cpus[0];
    cpu.busy_ns += others_ns;
    cpu.idle_ns = cpu.idle_ns.saturating_sub(others_ns);
}

/// Sets the page faults that read from a disk, for 300 ms of the second, and the time in which a
/// program waited for memory; `None`: unknown.
pub(in crate::verdict) fn read_pages(w: &mut TrialWorld, faults: u64, waited_ns: Option<u64>) {
    w.set_thread_states(1, ThreadState::Disk, 300);
    w.all_server_counters().for_each(|u| u.threads[0].faults_major = Some(0));
    w.server_counters().threads[0].faults_major = Some(faults);
    for (sample, ns) in w.record.samples.iter_mut().zip([Some(0), waited_ns]) {
        let pressure = PressureUse { memory_ns: ns, ..PressureUse::default() };
        sample.host.as_mut().expect("a machine").pressure = Some(pressure);
    }
}

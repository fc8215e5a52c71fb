//! Derives caveats about the generator's CPUs: whether they had headroom, and which programs used
//! them. A generator without headroom limits the throughput that it measures.
//!
//! The doc comment of each rule states the condition under which its caveat applies.

use dyno_model::LoadRecord;
use dyno_model::plan::Priority;
use serde_json::{Value, json};

use super::Context;
use super::thresholds::GENERATOR_BUSY;
use crate::caveat::{Caveat, Code, Severity};
use crate::load::LoadResult;
use crate::number_format::percent;

/// The generator's CPUs are full if at least this share of their time is used. Polling does not
/// count.
const CPUS_FULL: f64 = 0.95;

/// Largest share of the window for which a thread waits for a CPU without a caveat.
pub(super) const MAX_WAITING: f64 = 0.05;

/// Largest share of a quota's periods in which the generator is throttled without a caveat. It is
/// small, because a throttled generator can pause for a whole period.
const MAX_THROTTLED: f64 = 0.02;

/// Largest share of the generator's CPUs that other programs use without a caveat.
const MAX_OTHERS: f64 = 0.05;

/// Reason why the generator may have been the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GeneratorBound {
    /// The quota of dyno's own control group throttled the generator.
    Quota { cpus: f64, throttled: f64 },
    /// A thread worked nearly all of the time.
    Thread { work: f64 },
    /// A thread worked, or waited for a CPU, nearly all of the time.
    Waiting { work: f64, waiting: f64 },
    /// Threads that share a CPU used nearly all of it together.
    Cpu { work: f64 },
    /// Threads and interrupts, which the kernel bills to no program, used nearly all of a CPU.
    Interrupts { work: f64, interrupts: f64 },
    /// The generator's CPUs were full, and it waited for them. `waiting` is `None` if unknown.
    Crowded { busy: f64, others: f64, stolen: f64, waiting: Option<f64> },
}

impl GeneratorBound {
    /// Returns the first reason that applies. `None`: the generator had headroom.
    #[must_use]
    pub fn from_result(result: &LoadResult) -> Option<GeneratorBound> {
        let headroom = &result.client.headroom;
        if let Some(throttled) = headroom.throttled.filter(|share| *share > MAX_THROTTLED) {
            return Some(GeneratorBound::Quota {
                cpus: headroom.quota_cpus.unwrap_or(0.0),
                throttled,
            });
        }
        let busiest_thread = result.client.busiest_thread_utilisation;
        if busiest_thread > GENERATOR_BUSY {
            return Some(GeneratorBound::Thread { work: busiest_thread });
        }
        // The thread or CPU with least headroom: the sum of its work, interrupts and waiting.
        let used = headroom.need;
        if used > GENERATOR_BUSY {
            let waiting = used - headroom.need_work;
            return Some(match headroom.need_interrupts {
                _ if waiting > 0.0 => GeneratorBound::Waiting { work: headroom.need_work, waiting },
                Some(interrupts) => {
                    GeneratorBound::Interrupts { work: used - interrupts, interrupts }
                }
                None => GeneratorBound::Cpu { work: used },
            });
        }
        crowded_cpus(result)
    }

    /// Returns the reason as the second half of a sentence about the generator.
    #[must_use]
    pub fn clause(self) -> String {
        match self {
            GeneratorBound::Quota { cpus, throttled } => format!(
                "the CPU quota of dyno's own control group ({cpus:.2} CPUs) throttled the \
                 generator in {} of the quota's periods",
                percent(throttled)
            ),
            GeneratorBound::Thread { work } => {
                format!("its busiest thread was busy for {} of the time", percent(work))
            }
            GeneratorBound::Waiting { work, waiting } => format!(
                "one of its threads was busy for {} of the time, and waited for a CPU for another \
                 {}",
                percent(work),
                percent(waiting)
            ),
            GeneratorBound::Cpu { work } => {
                format!("its threads share a CPU and together used {} of it", percent(work))
            }
            GeneratorBound::Interrupts { work, interrupts } => format!(
                "its threads used {} of a CPU, and interrupts used another {}",
                percent(work),
                percent(interrupts)
            ),
            GeneratorBound::Crowded { busy, others, stolen, waiting } => format!(
                "its CPUs were {} busy (other programs {}, hypervisor {}), and its threads waited \
                 for a CPU for {} of the time",
                percent(busy),
                percent(others),
                percent(stolen),
                waiting.map_or("an unknown part".into(), percent)
            ),
        }
    }

    /// Returns the code of the caveat about this reason.
    const fn code(self) -> Code {
        match self {
            GeneratorBound::Quota { .. } => Code::GENERATOR_THROTTLED,
            GeneratorBound::Thread { .. }
            | GeneratorBound::Waiting { .. }
            | GeneratorBound::Cpu { .. }
            | GeneratorBound::Interrupts { .. } => Code::GENERATOR_BUSY,
            GeneratorBound::Crowded { .. } => Code::GENERATOR_CROWDED,
        }
    }

    /// Returns the action that gives the generator headroom, as a sentence.
    fn hint(self, result: &LoadResult, context: &Context<'_>) -> String {
        let more = result.config.threads + 1;
        match self {
            GeneratorBound::Quota { .. } => {
                "Raise the quota of dyno's group, or run dyno outside of that group.".to_string()
            }
            GeneratorBound::Thread { .. } | GeneratorBound::Interrupts { .. } => {
                format!(
                    "Give the generator another CPU: {}.",
                    context.threads_setting(more as usize)
                )
            }
            GeneratorBound::Crowded { others, stolen, .. } if stolen > others => {
                "The hypervisor took more CPU time than other programs. Re-run on a dedicated host."
                    .into()
            }
            GeneratorBound::Waiting { .. }
            | GeneratorBound::Cpu { .. }
            | GeneratorBound::Crowded { .. } => {
                let programs = result.client.headroom.processes_text();
                let begin = match programs.is_empty() {
                    true => "Give".to_string(),
                    false => format!("Stop the other programs{programs}, or give"),
                };
                let setting = context.cpus_setting();
                format!("{begin} the generator separate CPUs ({setting}), with one thread on each.")
            }
        }
    }
}

/// Returns [`GeneratorBound::Crowded`] if the generator waited for its full CPUs and did not keep
/// its schedule. If it kept the schedule, separate caveats report its late requests.
fn crowded_cpus(result: &LoadResult) -> Option<GeneratorBound> {
    let headroom = &result.client.headroom;
    let busy = headroom.busy.filter(|busy| *busy >= CPUS_FULL)?;
    let (others, stolen) = (headroom.others.unwrap_or(0.0), headroom.stolen.unwrap_or(0.0));
    // If the kernel reports no waiting times, the use of full CPUs by others implies a wait.
    let has_waited = headroom.waiting.map_or(others > MAX_OTHERS, |waiting| waiting > MAX_WAITING);
    // Requests that timed out do not show that the generator sent its requests in time.
    let keeps_schedule = result.pace().is_some_and(|pace| pace.has_responded());
    (has_waited && !keeps_schedule).then_some(GeneratorBound::Crowded {
        busy,
        others,
        stolen,
        waiting: headroom.waiting,
    })
}

/// The generator may have been the limit. The step is invalid only if the server may have had
/// headroom, because a server that used all of its CPU was at its own limit. A control shows the
/// generator's limit on purpose, so its step stays valid too.
pub(super) fn generator_bound(result: &LoadResult, context: &Context<'_>) -> Option<Caveat> {
    let bound = GeneratorBound::from_result(result)?;
    let clause = bound.clause();
    let message = if context.shows_generator_maximum() {
        format!(
            "The generator was the limit: {clause}. This subject is a control, which shows the \
             generator's maximum on this machine."
        )
    } else if let Some(used) = context.full_server_utilisation(result) {
        format!(
            "The generator may have been the limit too: {clause}. The step is valid, because the \
             server used {} of its CPU and was at its own limit. {}",
            percent(used),
            bound.hint(result, context)
        )
    } else {
        format!(
            "The generator may have been the limit: {clause}. Throughput is a lower bound. {}",
            bound.hint(result, context)
        )
    };
    let severity = context.generator_bound_severity(result);
    Some(Caveat::new(bound.code(), severity, message, evidence(result)))
}

/// Returns the generator's headroom as evidence, with the use of its busiest thread.
fn evidence(result: &LoadResult) -> Value {
    let mut headroom =
        serde_json::to_value(&result.client.headroom).expect("numbers and names should serialize");
    headroom["busiest_thread_utilisation"] = json!(result.client.busiest_thread_utilisation);
    headroom
}

/// The generator has more threads than CPUs, so its threads wait for each other.
pub(super) fn too_many_threads(result: &LoadResult, context: &Context<'_>) -> Option<Caveat> {
    let cpus = result.client.headroom.cpus.as_ref()?.len();
    let threads = result.client.threads;
    (cpus > 0 && threads > cpus).then(|| {
        let message = format!(
            "The generator has {threads} threads on {cpus} CPU{}. The threads delay each other by \
             up to one scheduler time slice. Use at most one thread per CPU: {}.",
            if cpus == 1 { "" } else { "s" },
            context.threads_setting(cpus)
        );
        let severity = match GeneratorBound::from_result(result) {
            Some(_) => context.generator_bound_severity(result),
            None => Severity::Warning,
        };
        Caveat::new(
            Code::OVERSUBSCRIBED,
            severity,
            message,
            json!({"threads": threads, "cpus": cpus}),
        )
    })
}

/// The kernel refused the real-time priority that the load asks for.
pub(super) fn refused_priority(record: &LoadRecord, result: &LoadResult) -> Option<Caveat> {
    let is_refused =
        result.config.priority == Priority::Realtime && record.client.priority == Priority::Normal;
    is_refused.then(|| {
        let message = "The kernel refused real-time priority for the generator. Other programs on \
                       the generator's CPUs can therefore delay it. Run dyno as root, or with \
                       CAP_SYS_NICE.";
        Caveat::new(
            Code::PRIORITY_REFUSED,
            Severity::Warning,
            message.into(),
            json!({"asked": "realtime", "given": "normal"}),
        )
    })
}

/// Other programs used the generator's CPUs. Usually one of them is the server.
pub(super) fn shared_cpus(result: &LoadResult, context: &Context<'_>) -> Option<Caveat> {
    let headroom = &result.client.headroom;
    let share = headroom.others.filter(|share| *share > MAX_OTHERS)?;
    let message = format!(
        "Other programs{} used {} of the generator's CPUs. If the server is one of these programs, \
         server and generator slow each other. Give the generator separate CPUs ({}).",
        headroom.processes_text(),
        percent(share),
        context.cpus_setting()
    );
    Some(Caveat::new(Code::SHARED_GENERATOR, Severity::Info, message, evidence(result)))
}

/// The generator has a quota that did not throttle it here, but may do so at a higher load.
pub(super) fn generator_quota(result: &LoadResult) -> Option<Caveat> {
    let headroom = &result.client.headroom;
    let cpus = headroom
        .quota_cpus
        .filter(|_| headroom.throttled.is_none_or(|share| share <= MAX_THROTTLED))?;
    let throttled = headroom.throttled.map_or(String::new(), |share| {
        format!(", which throttled the generator in {} of the quota's periods", percent(share))
    });
    let message = format!(
        "dyno's own control group has a quota of {cpus:.2} CPUs{throttled}. A larger load may \
         reach the quota. Raise the quota, or run dyno outside of that group."
    );
    let evidence = json!({"cpus": cpus, "throttled": headroom.throttled});
    Some(Caveat::new(Code::GENERATOR_QUOTA, Severity::Info, message, evidence))
}

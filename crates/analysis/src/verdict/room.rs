//! Caveats about the generator's CPUs: whether they had room, and the programs that used it.

use dyno_archive::LoadRecord;
use dyno_archive::plan::Priority;
use serde_json::{Value, json};

use super::Context;
use super::thresholds::GENERATOR_BUSY;
use crate::caveat::{Caveat, Code, Severity};
use crate::load::LoadResult;
use crate::number_format::percent;

/// Share of the generator's CPUs in use, polling left out, from which on there is no room.
const CPUS_FULL: f64 = 0.95;

/// Share of the window that a thread may wait for a CPU.
pub(super) const MAX_WAITING: f64 = 0.05;

/// Share of a quota's periods in which it may hold the generator back. Small, because such a pause
/// may last a whole period.
const MAX_THROTTLED: f64 = 0.02;

/// Share of the generator's CPUs, used by others, above which a caveat is given.
const OTHERS_WORTH_TELLING: f64 = 0.05;

/// Why the generator may have been the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Its own control group has a quota that held it back.
    Quota { cpus: f64, throttled: f64 },
    /// A thread worked nearly all of the time.
    Thread { work: f64 },
    /// A thread worked, or waited for a CPU, nearly all of the time.
    Waiting { work: f64, waiting: f64 },
    /// Threads of one CPU used nearly all of it together.
    Cpu { work: f64 },
    /// Its CPUs had no time left, and it waited for them.
    Crowded { busy: f64, others: f64, waiting: f64 },
}

impl Bound {
    /// The first reason that holds; `None`: none does.
    #[must_use]
    pub fn from_result(result: &LoadResult) -> Option<Bound> {
        let (client, room) = (&result.client, &result.client.room);
        let work = client.busiest_thread_utilisation;
        if let Some(throttled) = room.throttled.filter(|share| *share > MAX_THROTTLED) {
            return Some(Bound::Quota { cpus: room.quota_cpus.unwrap_or(0.0), throttled });
        }
        if work > GENERATOR_BUSY {
            return Some(Bound::Thread { work });
        }
        if room.need > GENERATOR_BUSY {
            let waiting = room.need - room.need_work;
            return Some(if waiting > 0.0 {
                Bound::Waiting { work: room.need_work, waiting }
            } else {
                Bound::Cpu { work: room.need }
            });
        }
        crowded(result)
    }

    /// The reason, as the second half of a sentence about the generator.
    #[must_use]
    pub fn clause(self) -> String {
        match self {
            Bound::Quota { cpus, throttled } => format!(
                "the CPU quota of dyno's own control group, {cpus:.2} CPUs, throttled it in {} of \
                 the quota's periods",
                percent(throttled)
            ),
            Bound::Thread { work } => {
                format!("its busiest thread was busy for {} of the time", percent(work))
            }
            Bound::Waiting { work, waiting } => format!(
                "one of its threads was busy for {} of the time, and waited for a CPU for {}",
                percent(work),
                percent(waiting)
            ),
            Bound::Cpu { work } => {
                format!("its threads used {} of a CPU that they share", percent(work))
            }
            Bound::Crowded { busy, others, waiting } => format!(
                "its CPUs were busy for {} of the time, for {} with other programs, and its \
                 threads waited for a CPU for {}",
                percent(busy),
                percent(others),
                percent(waiting)
            ),
        }
    }

    const fn code(self) -> Code {
        match self {
            Bound::Quota { .. } => Code::GeneratorThrottled,
            Bound::Thread { .. } | Bound::Waiting { .. } | Bound::Cpu { .. } => Code::GeneratorBusy,
            Bound::Crowded { .. } => Code::GeneratorCrowded,
        }
    }

    /// The action against the bound, as a sentence.
    fn hint(self, result: &LoadResult, context: &Context<'_>) -> String {
        let more = result.config.threads + 1;
        match self {
            Bound::Quota { .. } => {
                "Raise the quota of dyno's group, or run dyno outside of that group.".to_string()
            }
            Bound::Thread { .. } => {
                format!(
                    "Give the generator another CPU: {}.",
                    context.threads_setting(more as usize)
                )
            }
            Bound::Waiting { .. } | Bound::Cpu { .. } | Bound::Crowded { .. } => format!(
                "Give the generator CPUs that no other program uses{} ({}), and no more threads \
                 than CPUs.",
                result.client.room.processes_text(),
                context.cpus_setting()
            ),
        }
    }
}

/// Full CPUs, for which the generator waited. They do no harm to a schedule that was kept: late
/// requests show in response times, and have caveats of their own.
fn crowded(result: &LoadResult) -> Option<Bound> {
    let room = &result.client.room;
    let busy = room.busy.filter(|busy| *busy >= CPUS_FULL)?;
    let others = room.others.unwrap_or(0.0);
    let has_waited = room.waiting.map_or(others > MAX_WAITING, |waiting| waiting > MAX_WAITING);
    let may_be_less = result.keeps_up() != Some(true);
    (has_waited && may_be_less).then_some(Bound::Crowded {
        busy,
        others,
        waiting: room.waiting.unwrap_or(0.0),
    })
}

/// The generator may have been the limit. That refuses a step only if the server may have had room:
/// a server that used all of its CPU was the limit, whatever the generator did; and a control is
/// there to show the generator's limit.
pub(super) fn bound(result: &LoadResult, context: &Context<'_>) -> Option<Caveat> {
    let bound = Bound::from_result(result)?;
    let clause = bound.clause();
    let message = match context.full_server(result) {
        _ if context.control => format!(
            "The generator was the limit: {clause}. This control shows the generator's maximum on \
             this machine."
        ),
        Some(used) => format!(
            "The generator may have been the limit too: {clause}. The server used {} of its CPU, \
             so it was at its own limit. Give the generator more CPUs to be certain.",
            percent(used)
        ),
        None => format!(
            "The generator may have been the limit: {clause}. Throughput is a lower bound. {}",
            bound.hint(result, context)
        ),
    };
    Some(Caveat::new(bound.code(), context.weight_of_room(result), message, evidence(result)))
}

fn evidence(result: &LoadResult) -> Value {
    let mut room = serde_json::to_value(&result.client.room).expect("numbers and names only");
    room["busiest_thread_utilisation"] = json!(result.client.busiest_thread_utilisation);
    room
}

/// More threads than CPUs: they take turns, and each waits for the others.
pub(super) fn oversubscribed(result: &LoadResult, context: &Context<'_>) -> Option<Caveat> {
    let cpus = result.client.room.cpus.as_ref()?.len();
    let threads = result.client.threads;
    (cpus > 0 && threads > cpus).then(|| {
        let message = format!(
            "The generator has {threads} threads on {cpus} CPU{}. Each may wait for another, each \
             time for up to a time slice of the scheduler. Use no more threads than CPUs: {}.",
            if cpus == 1 { "" } else { "s" },
            context.threads_setting(cpus)
        );
        let severity = match Bound::from_result(result) {
            Some(_) => context.weight_of_room(result),
            None => Severity::Warning,
        };
        Caveat::new(
            Code::Oversubscribed,
            severity,
            message,
            json!({"threads": threads, "cpus": cpus}),
        )
    })
}

/// The generator was set to run before other programs, and takes turns with them.
pub(super) fn priority_refused(record: &LoadRecord, result: &LoadResult) -> Option<Caveat> {
    let is_refused =
        result.config.priority == Priority::Realtime && record.client.priority == Priority::Normal;
    is_refused.then(|| {
        let message = "The kernel refused real-time priority for the generator. The generator \
                       takes turns with other programs on its CPUs. Run dyno as root, or with \
                       CAP_SYS_NICE.";
        Caveat::new(
            Code::PriorityRefused,
            Severity::Warning,
            message.into(),
            json!({"asked": "realtime", "given": "normal"}),
        )
    })
}

/// Other programs on the generator's CPUs: usually a server.
pub(super) fn others(result: &LoadResult, context: &Context<'_>) -> Option<Caveat> {
    let room = &result.client.room;
    let share = room.others.filter(|share| *share > OTHERS_WORTH_TELLING)?;
    let message = format!(
        "Another program used {} of the generator's CPUs{}. If it is the server, each slows the \
         other. Give the generator CPUs of its own ({}).",
        percent(share),
        room.processes_text(),
        context.cpus_setting()
    );
    Some(Caveat::new(Code::SharedGenerator, Severity::Info, message, evidence(result)))
}

/// A quota that has not held the generator back may do so at the next step.
pub(super) fn quota(result: &LoadResult) -> Option<Caveat> {
    let room = &result.client.room;
    let cpus =
        room.quota_cpus.filter(|_| room.throttled.is_none_or(|share| share <= MAX_THROTTLED))?;
    let message = format!(
        "dyno's own control group has a quota of {cpus:.2} CPUs, which throttled it in {} of the \
         periods. A larger load may reach the quota. Raise it, or run dyno outside of that group.",
        percent(room.throttled.unwrap_or(0.0))
    );
    Some(Caveat::new(
        Code::GeneratorQuota,
        Severity::Info,
        message,
        json!({"cpus": cpus, "throttled": room.throttled}),
    ))
}

/// The processes that made the generator wait, as text for caveats about that.
pub(super) fn process_names(result: &LoadResult) -> String {
    result.client.room.processes_text()
}

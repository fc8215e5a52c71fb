//! The caveats. Each is an item of one of these files, with its rules and their cases next to it.
//! The doc comment of each rule states the condition under which its caveat applies.

/// Defines the codes of a file, and the list of its items. Each item has:
///
/// - its meaning, as the doc comment, the name in reports, and the group of the reference page
/// - `reason`: a short reason why a step is not valid, of codes that can make it invalid
/// - `more`: the section of the methodology with more
/// - `properties`: what follows from the caveat
/// - `rules`: the functions that find it. Without rules, a rule of another item finds it.
macro_rules! caveats {
    (@optional) => { None };
    (@optional $text:literal) => { Some($text) };
    ($(
        $(#[doc = $doc:literal])+
        $code:ident = $name:literal in $group:ident {
            $(reason: $reason:literal,)?
            $(more: $more:literal,)?
            $(properties: [$($property:ident),+ $(,)?],)?
            $(rules: [$($kind:ident($rule:expr)),+ $(,)?] $(,)?)?
        }
    )+) => {
        impl $crate::caveat::Code {
            $(
                $(#[doc = $doc])+
                pub const $code: $crate::caveat::Code =
                    $crate::caveat::Code::new(&$crate::caveat::CaveatDefinition {
                        name: $name,
                        group: $crate::caveat::CaveatGroup::$group,
                        meaning: concat!($($doc,)+).trim_ascii_start(),
                        explanation: include_str!(
                            concat!("../../../explain/caveats/", $name, ".md")
                        ),
                        reason: caveats!(@optional $($reason)?),
                        more: caveats!(@optional $($more)?),
                        properties: &[$($($crate::caveat::CodeProperty::$property,)+)?],
                    });
            )+
        }

        pub(super) const ITEMS: &[$crate::verdict::caveats::CaveatItem] = &[
            $($crate::verdict::caveats::CaveatItem {
                code: $crate::caveat::Code::$code,
                rules: &[$($($crate::verdict::caveats::CaveatRule::$kind($rule),)+)?],
            },)+
        ];
    };
}

mod comparisons;
mod connections;
mod generator;
mod levels;
mod load;
mod machine;
mod pauses;
mod responses;
mod server;
mod warming;

pub(super) use load::is_about_edges;

use dyno_model::plan::Plan;
use dyno_model::run::Run;
use dyno_model::start::WarmUp;
use dyno_model::{LoadRecord, Party};

use super::{Context, TrialContext};
use crate::caveat::{Caveat, Code};
use crate::design::Design;
use crate::load::LoadResult;
use crate::peak::OpenStep;
use crate::server::ServerUse;
use crate::server::group_memory::MemorySource;

/// The items of each file, in the order in which reports and reference pages list them.
const FILES: &[&[CaveatItem]] = &[
    responses::ITEMS,
    load::ITEMS,
    generator::ITEMS,
    connections::ITEMS,
    warming::ITEMS,
    levels::ITEMS,
    server::ITEMS,
    machine::ITEMS,
    comparisons::ITEMS,
];

/// A code with the rules that find its caveat.
struct CaveatItem {
    code: Code,
    rules: &'static [CaveatRule],
}

/// A rule, by what it reads. It returns `None` if its condition does not hold.
#[derive(Clone, Copy)]
enum CaveatRule {
    Load(fn(&LoadInputs<'_>) -> Option<Caveat>),
    Trial(fn(&TrialInputs<'_>) -> Option<Caveat>),
    /// The rule needs samples of the server.
    Server(fn(&ServerInputs<'_>) -> Option<Caveat>),
    Run(fn(&RunInputs<'_>) -> Option<Caveat>),
}

/// Inputs of rules about a load.
pub(super) struct LoadInputs<'a> {
    pub(super) result: &'a LoadResult,
    pub(super) record: &'a LoadRecord,
    pub(super) context: &'a Context<'a>,
}

/// Inputs of rules about a trial.
pub(super) struct TrialInputs<'a> {
    pub(super) load: &'a LoadResult,
    /// Resource use of the server. `None`: the server was not monitored.
    pub(super) server: Option<&'a ServerUse>,
    pub(super) context: &'a TrialContext<'a>,
}

/// Inputs of rules about a server that was sampled.
struct ServerInputs<'a> {
    load: &'a LoadResult,
    server: &'a ServerUse,
    record: &'a LoadRecord,
    party: Party,
    memory: MemorySource,
}

/// The best throughput of a subject with a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peak<'a> {
    pub(crate) workload: &'a str,
    /// Name of the subject's arm.
    pub(crate) subject: &'a str,
    /// Name of the server, without the variant and the arm's conditions.
    pub(crate) server: &'a str,
    /// Correct responses per second, median over the repeats; `None`: no repeat is valid.
    pub(crate) rps: Option<f64>,
    /// Correct responses per second of each valid repeat, in the order of the blocks.
    pub(crate) repeats: &'a [f64],
    pub(crate) control: bool,
    /// Highest known throughput of the server at any step.
    pub(crate) max_rps: Option<f64>,
    /// Steps at which the server may have reached more. Empty: the peak is exact.
    pub(crate) open: &'a [OpenStep],
    /// Whether all repeats that ran of the peak's step show the server's throughput.
    pub(crate) is_complete: bool,
}

/// Inputs of rules about a whole run.
pub(super) struct RunInputs<'a> {
    pub(super) run: &'a Run,
    /// Sorted by workload.
    pub(super) peaks: &'a [Peak<'a>],
    pub(super) design: Design,
}

impl Code {
    /// Returns all codes, in the order in which reports and reference pages list them.
    pub fn all() -> impl Iterator<Item = Code> {
        items().map(|item| item.code)
    }
}

impl TrialInputs<'_> {
    /// Returns the warm-up of a monitored server before its first step.
    fn warm_up(&self) -> Option<&WarmUp> {
        self.server?;
        self.context.part?.warmup.as_ref()
    }

    /// Whether a sample has counters of the server.
    fn is_sampled(&self) -> bool {
        let mut samples = self.context.record.samples.iter();
        samples.any(|sample| {
            sample
                .party_use(self.context.party)
                .is_some_and(|used| !used.threads.is_empty() || used.cgroup.is_some())
        })
    }

    /// Returns the inputs of rules about the server. `None`: the server was not sampled.
    fn server_inputs(&self) -> Option<ServerInputs<'_>> {
        let server = self.server.filter(|_| self.is_sampled())?;
        let TrialContext { record, party, memory, .. } = *self.context;
        Some(ServerInputs { load: self.load, server, record, party, memory })
    }
}

impl RunInputs<'_> {
    fn plan(&self) -> &Plan {
        &self.run.header.plan
    }
}

fn items() -> impl Iterator<Item = &'static CaveatItem> {
    FILES.iter().copied().flatten()
}

fn rules() -> impl Iterator<Item = CaveatRule> {
    items().flat_map(|item| item.rules.iter().copied())
}

/// Returns the caveats of a load, in the order of the codes.
pub(super) fn load_caveats(inputs: &LoadInputs<'_>) -> Vec<Caveat> {
    let caveat = |rule| match rule {
        CaveatRule::Load(rule) => rule(inputs),
        _ => None,
    };
    rules().filter_map(caveat).collect()
}

/// Returns the caveats of a trial without those of its load, in the order of the codes.
pub(super) fn trial_caveats(inputs: &TrialInputs<'_>) -> Vec<Caveat> {
    let server_inputs = inputs.server_inputs();
    let caveat = |rule| match rule {
        CaveatRule::Trial(rule) => rule(inputs),
        CaveatRule::Server(rule) => rule(server_inputs.as_ref()?),
        _ => None,
    };
    rules().filter_map(caveat).collect()
}

/// Returns the caveats of a whole run, in the order of the codes.
pub(super) fn run_caveats(inputs: &RunInputs<'_>) -> Vec<Caveat> {
    let caveat = |rule| match rule {
        CaveatRule::Run(rule) => rule(inputs),
        _ => None,
    };
    rules().filter_map(caveat).collect()
}

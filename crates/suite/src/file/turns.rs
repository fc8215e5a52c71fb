//! Checks turns. With `order = "interleaved"`, subjects run at the same time and are loaded one
//! after the other, in short slices. Thus a slow change of the machine affects all subjects
//! equally.

use dyno_config::mistake::{Mistake, mistake};
use dyno_config::units;
use dyno_model::interval::{INTERVALS_PER_SLICE, MAX_INTERVALS};
use dyno_model::plan::{Load, Order, Plan, Workload};
use serde::Deserialize;

use super::load::{check_pages, locate_in_load};
use super::overrides::SuiteWorkload;
use super::{SubjectSharing, SuiteFile};
use crate::limits::{MAX_TURN_NS, MIN_QUOTA_TURN_NS, MIN_TURN_NS, TURNS_NS};
use crate::settings::LoadSettings;

/// The order of subjects, as suites write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawOrder {
    #[default]
    Random,
    Fixed,
    Interleaved,
    /// At the same time.
    Duet,
}

impl RawOrder {
    /// Returns the order in which a block's subjects are started.
    pub(super) fn start_order(self) -> Order {
        match self {
            RawOrder::Fixed => Order::Fixed,
            RawOrder::Random | RawOrder::Interleaved | RawOrder::Duet => Order::Random,
        }
    }
}

/// Setting of turns in a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turns {
    /// No turns.
    None,
    /// Not set: an experiment takes turns if possible.
    IfPossible,
    /// Turns with slices of this length, nanoseconds. `None`: the length is chosen to fit the load.
    Required(Option<u64>),
}

/// Reads a suite's setting of turns. `order`: as the suite writes it. `is_experiment`: whether the
/// suite has an experiment.
fn read_turns(
    order: Option<RawOrder>,
    slice: Option<&str>,
    load: &LoadSettings,
    is_experiment: bool,
) -> Result<Turns, Mistake> {
    let suite_mistake = |key, message: String| mistake(key, message).with_parent("suite");
    if order != Some(RawOrder::Interleaved) {
        if slice.is_some() {
            let message = "`slice`: needs `order = \"interleaved\"`, the only order in which \
                           subjects take turns\nhint: remove `slice`, or set `order = \
                           \"interleaved\"` in [suite]";
            return Err(suite_mistake("slice", message.into()));
        }
        let allows_turns = is_experiment && order.is_none() && !load.has("interval");
        return Ok(if allows_turns { Turns::IfPossible } else { Turns::None });
    }
    if load.has("interval") {
        let message = "`interval`: cannot be set with `order = \"interleaved\"`. With this order, \
                       the interval is always a quarter of `slice`\nhint: remove `interval`. To \
                       change the interval, set `slice` in [suite]";
        return Err(locate_in_load(mistake("interval", message)));
    }
    let Some(slice) = slice else { return Ok(Turns::Required(None)) };
    let ns = units::span(slice).map_err(|message| suite_mistake("slice", message))?;
    let is_in_range = (MIN_TURN_NS..=MAX_TURN_NS).contains(&ns);
    if is_in_range && ns.is_multiple_of(INTERVALS_PER_SLICE) {
        return Ok(Turns::Required(Some(ns)));
    }
    let message = if is_in_range {
        "`slice`: must be a multiple of 4ns, because dyno divides each slice into 4 equal \
         intervals\nhint: use whole milliseconds, such as \"200ms\""
    } else {
        "`slice`: must be 100ms to 2s. In a shorter slice, the start and the end of the load would \
         take most of the time. During a longer slice, the speed of the machine could change"
    };
    Err(suite_mistake("slice", message.into()))
}

/// Settings that determine when the subjects of a suite are loaded.
pub(super) struct LoadTiming<'a> {
    pub order: Option<RawOrder>,
    pub slice: Option<&'a str>,
    pub load: LoadSettings,
    pub is_experiment: bool,
    pub has_quota: bool,
    pub subjects: usize,
}

impl LoadTiming<'_> {
    /// Returns the load, the indices of each workload's steps, and how subjects share the CPUs.
    pub(super) fn check(
        self,
        workloads: &[SuiteWorkload],
    ) -> Result<(LoadSettings, Vec<Vec<usize>>, SubjectSharing), Mistake> {
        let has_pages = workloads.iter().any(|s| s.workload.page.is_some());
        let visit = workloads.iter().find_map(|s| Visit::of_workload(&s.workload));
        if has_pages && self.load.has("in_flight") {
            return Err(locate_in_load(mistake("in_flight", PAGES_HAVE_VISITORS)));
        }
        let turns = read_turns(self.order, self.slice, &self.load, self.is_experiment)?;
        let turns = if self.has_quota { turns.with_quota() } else { turns };
        let (load, workload_steps) =
            self.load.check(workloads, self.order.unwrap_or_default().start_order())?;
        let slice_ns = turns.slice_ns(&load.load, self.subjects, visit);
        check_quota(slice_ns, self.has_quota)?;
        let load = with_turns(load, slice_ns, visit)?;
        for (workload, steps) in workloads.iter().zip(&workload_steps) {
            if workload.workload.page.is_some() {
                check_pages(&load.load, steps).map_err(locate_in_load)?;
            }
        }
        let sharing = match slice_ns {
            Some(slice_ns) => SubjectSharing::Turns { slice_ns },
            None if self.order == Some(RawOrder::Duet) => SubjectSharing::Together,
            None => SubjectSharing::Alone,
        };
        Ok((load, workload_steps, sharing))
    }
}

/// Requests of a visitor that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visit {
    Page,
    Sequence,
}

impl Visit {
    /// Returns the kind of a workload's visits; `None`: its requests are independent.
    fn of_workload(workload: &Workload) -> Option<Visit> {
        let page = workload.page.map(|_| Visit::Page);
        page.or_else(|| workload.sequence.map(|_| Visit::Sequence))
    }

    const fn name(self) -> &'static str {
        match self {
            Visit::Page => "page",
            Visit::Sequence => "sequence",
        }
    }
}

const PAGES_HAVE_VISITORS: &str = "`in_flight`: cannot be used with pages, because the number of \
                                   requests in flight changes while a page loads\nhint: use \
                                   `connections` to set the number of visitors";

/// Maximum number of subjects that take turns by default.
const MAX_SUBJECTS_IN_TURNS: usize = 3;

impl Turns {
    /// Returns the setting for subjects with CPU quotas, which take no turns by default. The kernel
    /// refills a quota every 100 ms. In a turn of about that length, the CPU time that the quota
    /// allows is random.
    fn with_quota(self) -> Turns {
        if self == Turns::IfPossible { Turns::None } else { self }
    }

    /// Returns the length of the slices for this many subjects, nanoseconds; `None`: the subjects
    /// take no turns.
    fn slice_ns(self, load: &Load, subjects: usize, visit: Option<Visit>) -> Option<u64> {
        let (shortest_ns, longest_ns) = (TURNS_NS[0], TURNS_NS[TURNS_NS.len() - 1]);
        // The generator reads the counters of the subjects at both ends of every turn. With many
        // subjects, reading takes too large a part of the shortest turn.
        let are_few = subjects <= MAX_SUBJECTS_IN_TURNS;
        let fitting = TURNS_NS
            .into_iter()
            .filter(|ns| are_few || *ns > shortest_ns)
            .find(|ns| check_time(load, subjects, *ns).is_ok());
        match self {
            Turns::None => None,
            Turns::IfPossible => fitting.filter(|_| are_few && check_steps(load, visit).is_ok()),
            Turns::Required(Some(ns)) => Some(ns),
            // If no length of turns fits the load, `check_length` refuses the load.
            Turns::Required(None) => fitting.or(Some(longest_ns)),
        }
    }
}

/// Returns whether a plan would take turns of the same length with loads of another duration. The
/// turns stay the same if their intervals can still be recorded separately, and if the other
/// duration does not allow shorter turns.
pub(crate) fn has_same_turns(plan: &Plan, duration_ns: u64) -> bool {
    let Some(slice_ns) = plan.sharing.slice_ns() else { return true };
    let other = Load { duration_ns, ..plan.load.clone() };
    let arms = plan.arms.len();
    let shortest =
        |load: &Load| TURNS_NS.into_iter().find(|ns| check_time(load, arms, *ns).is_ok());
    check_time(&other, arms, slice_ns).is_ok() && shortest(&other) == shortest(&plan.load)
}

/// Checks that turns are long enough for CPU quotas.
///
/// # Errors
/// A quota would be refilled only a few times per turn.
fn check_quota(slice_ns: Option<u64>, has_quota: bool) -> Result<(), Mistake> {
    match slice_ns.filter(|ns| has_quota && *ns < MIN_QUOTA_TURN_NS) {
        None => Ok(()),
        Some(_) => Err(mistake(
            "order",
            "`order`: the turns of the subjects are too short to measure a CPU quota (`cpus`). The \
             kernel refills a quota every 100 ms, so a server begins each turn with a full quota \
             and seems to have more CPU time\nhint: use `slice = \"1s\"` or more, or remove `order \
             = \"interleaved\"`",
        )
        .with_parent("suite")),
    }
}

/// Returns the load in turns of this length, or the load unchanged without turns.
///
/// # Errors
/// The load cannot take turns.
fn with_turns(
    mut load: LoadSettings,
    slice_ns: Option<u64>,
    visit: Option<Visit>,
) -> Result<LoadSettings, Mistake> {
    let Some(slice_ns) = slice_ns else { return Ok(load) };
    check_steps(&load.load, visit)?;
    load.load.interval_ns = slice_ns / INTERVALS_PER_SLICE;
    Ok(load)
}

/// Checks that all steps are closed loops of requests, which turns need.
fn check_steps(load: &Load, visit: Option<Visit>) -> Result<(), Mistake> {
    let refusal = |reason: String, cause: &str| {
        let message = format!(
            "`order = \"interleaved\"`: needs closed loops of requests, but {reason}\nhint: remove \
             `order = \"interleaved\"`, or remove {cause}"
        );
        mistake("order", message).with_parent("suite")
    };
    if let Some(visit) = visit {
        let name = visit.name();
        let reason = format!(
            "a workload is a {name}, whose requests could continue when the turn of the next \
             subject begins"
        );
        return Err(refusal(reason, &format!("the workload with the {name}")));
    }
    let Some(step) = load.steps.iter().find(|step| !step.arrivals.is_closed()) else {
        return Ok(());
    };
    let schedule = match step.arrivals.rate() {
        Some(rate) => format!("{rate} requests per second"),
        None => "recorded times".into(),
    };
    let reason = format!(
        "the step of {schedule} is an open loop, which would also send requests during the turns \
         of other subjects"
    );
    Err(refusal(reason, "the `rate` of the step"))
}

/// Checks that the intervals of every trial can be recorded separately. With too many intervals,
/// neighbours would be joined, and a joined interval could extend over the edge of a slice.
///
/// # Errors
/// There are too many intervals.
pub(crate) fn check_length(suite: &SuiteFile, subjects: usize) -> Result<(), Mistake> {
    let Some(slice_ns) = suite.sharing.slice_ns().filter(|_| subjects > 1) else { return Ok(()) };
    check_time(&suite.load.load, subjects, slice_ns)
}

/// Checks that a trial in turns has at most as many intervals as can be recorded.
fn check_time(load: &Load, subjects: usize, slice_ns: u64) -> Result<(), Mistake> {
    // Each subject has two slices per round.
    let round_ns = 2 * slice_ns * subjects as u64;
    let in_rounds = |ns: u64| ns.saturating_mul(subjects as u64).next_multiple_of(round_ns);
    let total_ns = in_rounds(load.warmup_ns) + in_rounds(load.duration_ns);
    let max_ns = MAX_INTERVALS as u64 * (slice_ns / INTERVALS_PER_SLICE) - 2 * round_ns;
    if total_ns <= max_ns {
        return Ok(());
    }
    Err(mistake(
        "duration",
        format!(
            "`duration`: too long. {subjects} subjects that take turns need {:.0} s per step, but \
             dyno can record at most {:.0} s per step with this `slice`\nhint: use a shorter \
             `duration` and more `repeats`, or a longer `slice`",
            total_ns as f64 / 1e9,
            max_ns as f64 / 1e9
        ),
    )
    .with_parent("load"))
}

#[cfg(test)]
mod tests {
    use super::super::{SuiteFile, tests::parse};
    use super::*;

    fn suite(suite_keys: &str, load_keys: &str) -> Result<SuiteFile, String> {
        parse(&format!("subjects = [\"null\"]\n[suite]\n{suite_keys}\n[load]\n{load_keys}\n"))
    }

    #[test]
    fn interleaved_interval_is_quarter_of_slice() {
        let suite = |suite_keys| suite(suite_keys, "connections = [1, 2]").unwrap();
        let default = suite("order = \"interleaved\"");
        assert_eq!((default.order, default.sharing.slice_ns()), (Order::Random, Some(100_000_000)));
        assert_eq!(default.load.load.interval_ns, 25_000_000);
        assert_eq!(default.load.load.order, Order::Random);
        let custom = suite("order = \"interleaved\"\nslice = \"200ms\"");
        assert_eq!(
            (custom.sharing.slice_ns(), custom.load.load.interval_ns),
            (Some(200_000_000), 50_000_000)
        );
        assert_eq!(suite("order = \"fixed\"").sharing.slice_ns(), None);
    }

    #[test]
    fn suite_that_cannot_take_turns_is_refused() {
        let closed = "connections = [1]";
        let turns = "order = \"interleaved\"";
        for (suite_keys, load_keys, expected) in [
            ("slice = \"400ms\"", closed, "`slice`: needs"),
            ("order = \"interleaved\"\nslice = \"50ms\"", closed, "100ms to 2s"),
            ("order = \"interleaved\"\nslice = \"3s\"", closed, "100ms to 2s"),
            ("order = \"interleaved\"\nslice = \"150000001ns\"", closed, "a multiple of 4ns"),
            (turns, "connections = [1]\ninterval = \"1s\"", "remove `interval`"),
            (
                "order = \"interleaved\"\n[limits]\ncpus = 0.5",
                closed,
                "The kernel refills a quota every 100 ms",
            ),
            (turns, "connections = [1]\nrate = [100]", "100 requests per second is an open loop"),
        ] {
            let error = suite(suite_keys, load_keys).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn default_slice_is_shortest_that_can_be_recorded() {
        let slice_ns = |duration: &str| {
            let load = format!("connections = [1]\nwarmup = \"1s\"\nduration = \"{duration}\"");
            suite("order = \"interleaved\"", &load).unwrap().sharing.slice_ns()
        };
        assert_eq!(
            (slice_ns("10s"), slice_ns("30s"), slice_ns("60s")),
            (Some(100_000_000), Some(200_000_000), Some(400_000_000))
        );
    }

    #[test]
    fn many_subjects_take_longer_turns() {
        let slice_ns = |subjects| {
            let load = suite("", "connections = [1]\nduration = \"1s\"").unwrap().load;
            Turns::Required(None).slice_ns(&load.load, subjects, None)
        };
        assert_eq!(
            (slice_ns(3), slice_ns(4), slice_ns(7)),
            (Some(100_000_000), Some(200_000_000), Some(200_000_000))
        );
    }

    #[test]
    fn has_same_turns_fails_if_length_changes_slice() {
        let plan = |duration: &str| {
            let load = format!("connections = [1]\nwarmup = \"1s\"\nduration = \"{duration}\"");
            let suite = suite("order = \"interleaved\"", &load).unwrap();
            let folders = dyno_subject::definition::find::Folders::default();
            crate::plan::resolve(
                suite,
                &folders,
                &crate::plan::Overrides::default(),
                &crate::machine::RunMachine::with_two_cpus(),
                &|_| None,
            )
            .unwrap()
            .plan
        };
        let ten = plan("10s");
        assert_eq!(ten.sharing.slice_ns(), Some(100_000_000));
        assert!(
            has_same_turns(&ten, 5_000_000_000)
                && !has_same_turns(&ten, 30_000_000_000)
                && !has_same_turns(&ten, 1_000_000_000_000)
        );
        assert!(!has_same_turns(&plan("30s"), 10_000_000_000), "shorter slices become possible");
    }

    #[test]
    fn check_length_refuses_too_many_intervals() {
        let check = |duration: &str, subjects| {
            let load = format!("connections = [1]\nwarmup = \"1s\"\nduration = \"{duration}\"");
            let turns = "order = \"interleaved\"\nslice = \"400ms\"";
            check_length(&suite(turns, &load).unwrap(), subjects)
        };
        assert!(check("40s", 2).is_ok() && check("50s", 1).is_ok() && check("1h", 1).is_ok());
        assert!(check("60s", 2).is_err());
    }
}

//! Finds trials that are invalid because other programs used the CPUs of a run. Such trials need a
//! quieter machine, and say nothing about the server.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::caveat::{Caveat, Code, CodeProperty, Severity};
use crate::stats::median;
use crate::trial::TrialResult;
use crate::verdict::Resource;

/// Maximum number of programs that a result names.
const MAX_NAMES: usize = 3;

/// Steps that are invalid because other programs used the CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DisturbedSteps {
    pub trials_invalid: usize,
    /// Share of this machine's CPUs that other programs used: 0 to 1, the median of those steps.
    /// `None`: unknown.
    pub cpu_share: Option<f64>,
    /// Names of the programs that used most CPU time. Empty: the names are not visible from here.
    pub names: Vec<String>,
}

impl DisturbedSteps {
    /// Summarizes the disturbed trials. `cpus` returns the number of CPUs of a trial's machine.
    /// `None`: no trial was disturbed.
    #[must_use]
    pub(crate) fn new(
        trials: &[TrialResult],
        cpus: impl Fn(&TrialResult) -> u32,
    ) -> Option<DisturbedSteps> {
        let disturbed: Vec<&TrialResult> =
            trials.iter().filter(|trial| trial.is_disturbed()).collect();
        let shares: Vec<f64> =
            disturbed.iter().filter_map(|trial| other_programs_share(trial, cpus(trial))).collect();
        let mut by_name: BTreeMap<&str, f64> = BTreeMap::new();
        for other in disturbed.iter().flat_map(|trial| trial.machine.others.iter().flatten()) {
            *by_name.entry(&other.name).or_default() += other.cpus;
        }
        let mut names: Vec<(&str, f64)> = by_name.into_iter().collect();
        names.sort_by(|a, b| b.1.total_cmp(&a.1));
        (!disturbed.is_empty()).then(|| DisturbedSteps {
            trials_invalid: disturbed.len(),
            cpu_share: median(&shares),
            names: names.into_iter().take(MAX_NAMES).map(|(name, _)| name.into()).collect(),
        })
    }
}

/// Returns the share of the machine's CPUs that other programs used; `None`: the server was not
/// observed.
fn other_programs_share(trial: &TrialResult, cpus: u32) -> Option<f64> {
    let all_s = trial.server.window_s * f64::from(cpus);
    (all_s > 0.0).then_some(trial.server.others_cpu_s? / all_s)
}

impl TrialResult {
    /// Whether the trial is invalid because other programs used the CPUs.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        let limiter = &self.limiter;
        // Without other programs, a wait of the generator has no known cause.
        let has_other_programs =
            self.caveats.iter().any(|caveat| caveat.code == Code::CONTAMINATED);
        let is_doubtful = has_other_programs && self.is_doubtful_generator();
        let mut invalid_caveats =
            self.caveats.iter().filter(|caveat| caveat.severity == Severity::Invalid);
        self.is_unexpectedly_invalid()
            && (limiter.resource == Resource::OtherPrograms || is_doubtful)
            && invalid_caveats.all(|caveat| caveat.code.has(CodeProperty::CausedByPrograms))
    }

    /// Returns the reason why the trial is not valid, as the code of one of its caveats. Faults of
    /// the server come first. `Contaminated`: other programs used the CPUs. This code is returned
    /// even if only other caveats, such as a limit of the generator, make the trial invalid.
    /// `None`: the trial is valid, or its connections were refused as expected.
    #[must_use]
    pub fn invalid_reason(&self) -> Option<Code> {
        if !self.is_unexpectedly_invalid() {
            return None;
        }
        if self.is_disturbed() {
            return Some(Code::CONTAMINATED);
        }
        let is_servers = self.is_servers_fault();
        let is_invalid = |caveat: &&Caveat| caveat.severity == Severity::Invalid;
        let is_relevant =
            |caveat: &&Caveat| !is_servers || TrialResult::is_server_code(caveat.code);
        self.caveats.iter().filter(is_invalid).find(is_relevant).map(|caveat| caveat.code)
    }
}

/// Returns the reason of a code in words. `Contaminated` means that other programs used the CPUs.
#[must_use]
pub fn reason(code: Code) -> &'static str {
    match code {
        Code::CONTAMINATED => "other programs used the CPUs",
        code => code.reason().unwrap_or(code.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::five_block_report;
    use crate::machine::OtherCpu;
    use crate::verdict::Confidence;

    /// Returns the trials of a run, of which other programs disturbed the first `disturbed`.
    fn trials(disturbed: usize) -> Vec<TrialResult> {
        let mut trials = five_block_report().trials;
        trials.retain(|trial| trial.valid);
        let busy = crate::Caveat {
            code: Code::GENERATOR_BUSY,
            severity: Severity::Invalid,
            message: String::new(),
            evidence: serde_json::json!({}),
        };
        for (index, trial) in trials.iter_mut().take(disturbed).enumerate() {
            trial.valid = false;
            trial.caveats = vec![busy.clone()];
            (trial.limiter.resource, trial.limiter.confidence) =
                (Resource::OtherPrograms, Confidence::Medium);
            trial.server.window_s = 2.0;
            trial.server.others_cpu_s = Some(2.44);
            let other = |name: &str, cpus| OtherCpu { pid: 7, name: name.into(), cpus };
            trial.machine.others = Some(vec![
                other("rustc", 0.5),
                other("rustc", 0.4),
                other("python3", 0.8 + index as f64 / 1e3),
            ]);
        }
        trials
    }

    #[test]
    fn disturbed_steps_name_programs() {
        let steps = DisturbedSteps::new(&trials(5), |_| 2).unwrap();
        assert_eq!((steps.trials_invalid, steps.cpu_share), (5, Some(0.61)));
        assert_eq!(steps.names, ["rustc", "python3"]);
        assert_eq!(DisturbedSteps::new(&trials(0), |_| 2), None);
    }

    /// The run was resumed on a machine with more CPUs.
    #[test]
    fn share_is_of_cpus_of_own_machine() {
        let mut run = crate::fixture::five_blocks();
        run.header.facts.cpus = 2;
        let mut part = crate::fixture::resumption(&run, 0, Vec::new());
        part.facts.cpus = 8;
        run.header.resumptions = vec![part];
        for trial in &mut run.trials {
            trial.start = 0;
        }
        let report_of = |run: &dyno_model::run::Run| {
            let trials = trials(5);
            let results =
                crate::results::Results { trials: &trials, subjects: &[], answered_after: None };
            crate::report::run_facts(run, results).other_programs.unwrap().cpu_share
        };
        assert_eq!(report_of(&run), Some(2.44 / 16.0));
        run.header.resumptions[0].from_start = 1;
        assert_eq!(report_of(&run), Some(2.44 / 4.0));
    }

    #[test]
    fn incorrect_responses_are_not_attributed_to_programs() {
        let mut all = trials(1);
        all[0].caveats[0].code = Code::INCORRECT_RESPONSES;
        assert!(!all[0].is_disturbed());
        all[0].caveats[0].code = Code::GENERATOR_CROWDED;
        assert!(all[0].is_disturbed());
        (all[0].limiter.resource, all[0].limiter.confidence) =
            (Resource::Generator, Confidence::High);
        assert!(!all[0].is_disturbed());
        all[0].limiter.confidence = Confidence::Low;
        let headroom = &mut all[0].load.client.headroom;
        (headroom.need, headroom.need_work) = (0.9, 0.5);
        (headroom.others, headroom.cpus) = (Some(0.4), Some(vec![0]));
        assert!(!all[0].is_disturbed(), "the use of its CPUs may be the server's");
        let contaminated = crate::Caveat {
            code: Code::CONTAMINATED,
            severity: Severity::Warning,
            ..all[0].caveats[0].clone()
        };
        all[0].caveats.push(contaminated);
        assert!(all[0].is_disturbed());
        // A full thread of the server also makes the generator a guess.
        all[0].load.client.headroom.others = Some(0.0);
        assert!(!all[0].is_disturbed());
    }

    #[test]
    fn invalid_reason_prefers_server_faults_then_programs() {
        let mut all = trials(1);
        assert_eq!(
            (all[0].invalid_reason(), all[1].invalid_reason()),
            (Some(Code::CONTAMINATED), None)
        );
        assert_eq!(reason(Code::CONTAMINATED), "other programs used the CPUs");
        // Without other programs, the generator was the limit.
        all[0].limiter.resource = Resource::ServerCpu;
        assert_eq!(all[0].invalid_reason(), Some(Code::GENERATOR_BUSY));
        let wrong = crate::Caveat { code: Code::INCORRECT_RESPONSES, ..all[0].caveats[0].clone() };
        all[0].caveats.push(wrong);
        assert_eq!(all[0].invalid_reason(), Some(Code::INCORRECT_RESPONSES));
        all[0].refused = true;
        assert_eq!(all[0].invalid_reason(), None);
    }
}

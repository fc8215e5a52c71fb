//! The result of one trial (one repeat of a step): its load, the server's use of resources, its
//! caveats and its limiter.

mod assemble;

use dyno_model::plan::Step;
use schemars::JsonSchema;
use serde::Serialize;

pub use assemble::RecordedTrial;
pub(crate) use assemble::{OtherRecords, cpus_of, trial};

use crate::backend_use::BackendUse;
use crate::caveat::{Caveat, Code, CodeProperty, Severity};
use crate::cell::{CellKey, Shape};
use crate::duet::DuetResult;
use crate::faults::excuses_losses;
use crate::load::LoadResult;
use crate::machine::MachineResult;
use crate::server::ServerUse;
use crate::turns::TurnsResult;
use crate::verdict::limiters::{Limiter, Resource};
use crate::verdict::may_have_contended;
use crate::verdict::thresholds::MAX_LOST;
use crate::window_levels::Steadiness;

/// The result of one trial: one repeat of an arm, workload and step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TrialResult {
    pub cell: CellKey,
    pub subject: String,
    pub variant: Option<String>,
    /// Name of the arm. If the subject has one arm: the subject's id, `name` or `name/variant`.
    pub subject_id: String,
    pub workload: String,
    /// Planned place of the trial in order of time, counted from 1 over the whole plan. A resumed
    /// run measures missing trials later.
    pub place: usize,
    /// Number of the repeat, counted from 1.
    pub repeat: u32,
    /// Number of the block, counted from 1. A block has one repeat of each arm, so the number is
    /// equal to `repeat`.
    pub block: u32,
    /// Number of the part of the run, 0 before the first resumption. Trials of a block that were
    /// measured in different parts are not close in time, so they are not a pair.
    #[serde(skip)]
    pub part: usize,
    pub step: StepResult,
    pub valid: bool,
    /// Whether every connection was refused by a control that is expected to refuse. If so, the
    /// trial has no responses, as intended.
    pub refused: bool,
    pub caveats: Vec<Caveat>,
    /// Share of the window's requests without a correct response: 0 to 1. `None`: the window had no
    /// request, for example because the server failed in the warm-up.
    pub error_share: Option<f64>,
    pub load: LoadResult,
    /// Resources that the subject used. Empty: the subject was not monitored.
    pub server: ServerUse,
    /// Resources that the subject's back ends used. `per_request` is per response of the subject.
    pub backends: Vec<BackendUse>,
    pub machine: MachineResult,
    /// `None`: the load did not take turns.
    pub turns: Option<TurnsResult>,
    /// `None`: no other server was loaded at the same time.
    pub duet: Option<DuetResult>,
    /// Levels of throughput within the measured window; `None`: too few intervals, or other servers
    /// were loaded at the same time.
    pub steadiness: Option<Steadiness>,
    pub limiter: Limiter,
}

impl TrialResult {
    /// Whether the trial is not valid, although its connections were not refused as intended.
    #[must_use]
    pub const fn is_unexpectedly_invalid(&self) -> bool {
        !self.valid && !self.refused
    }

    /// Whether the generator's limit is the only reason why the trial is not valid, and no other
    /// program caused this limit. If so, the CPU time per response is known.
    pub(crate) fn has_known_cost(&self) -> bool {
        self.is_limited_by_generator() && !self.is_disturbed() && !self.may_be_disturbed()
    }

    /// Whether the generator waited for its CPUs, and the CPU time of other programs is unknown.
    fn may_be_disturbed(&self) -> bool {
        self.server.others_cpu_s.is_none() && self.is_doubtful_generator()
    }

    /// Whether the generator is named as the limit, although other programs may have been it.
    pub(crate) fn is_doubtful_generator(&self) -> bool {
        self.limiter.resource == Resource::Generator && may_have_contended(&self.load, &self.server)
    }

    /// Returns the codes of the caveats that make the trial invalid.
    pub(crate) fn invalid_codes(&self) -> impl Iterator<Item = Code> {
        let invalid = self.caveats.iter().filter(|caveat| caveat.severity == Severity::Invalid);
        invalid.map(|caveat| caveat.code)
    }

    /// Whether the generator's capacity is the only reason why the trial is not valid. If so, the
    /// server can respond at least as fast as measured, and its CPU time per response is valid.
    pub(crate) fn is_limited_by_generator(&self) -> bool {
        self.is_invalid_only_for(Code::is_generator_limit)
    }

    /// Whether the trial is not valid, and all of its reasons are of one kind.
    fn is_invalid_only_for(&self, is_of_kind: impl Fn(Code) -> bool) -> bool {
        !self.valid && self.invalid_codes().next().is_some() && self.invalid_codes().all(is_of_kind)
    }
}

/// The step that a trial measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepResult {
    /// Index among the plan's steps.
    pub index: usize,
    #[serde(flatten)]
    pub shape: Shape,
    /// Requests in flight: connections × streams × pipeline.
    pub in_flight: u64,
    /// Length of the measured window.
    pub duration_s: f64,
}

impl StepResult {
    fn new(index: usize, step: &Step, duration_s: f64) -> StepResult {
        StepResult { index, shape: Shape::from_step(step), in_flight: step.in_flight(), duration_s }
    }
}

impl TrialResult {
    /// Whether the trial is not valid because of its server: it responded incorrectly, failed, or
    /// violated its contract.
    #[must_use]
    pub fn is_servers_fault(&self) -> bool {
        self.is_broken() || self.has_lost_requests()
    }

    /// Whether a repetition of the trial would hide failures of its server: the trial is not valid
    /// because of its server, or requests failed because of it, also in the warm-up. If a back end
    /// or the machine failed, the server is not the cause.
    #[must_use]
    pub fn shows_server_failures(&self) -> bool {
        let has_failed = self.server_losses() > 0 || self.has_failed_warmup();
        let is_excused = self.has_invalid(CodeProperty::OtherProgramFailed);
        self.is_servers_fault() || has_failed && !is_excused
    }

    /// Whether the trial is not valid because of its server, although its load was cut short. A cut
    /// leaves requests without a response, so only responses and ended requests count.
    #[must_use]
    pub fn shows_fault_if_cut_short(&self) -> bool {
        let ended = self.load.outcomes.total() as f64;
        let has_ended_many = self.load.ended_by_server() as f64 > MAX_LOST * ended;
        self.is_broken() || self.has_lost_requests() && has_ended_many
    }

    /// Whether requests of the warm-up failed. A repetition has a separate warm-up, which may hide
    /// the failure.
    pub(crate) fn has_failed_warmup(&self) -> bool {
        self.caveats.iter().any(|caveat| caveat.code == Code::WARMUP_FAILURES)
    }

    /// Whether the missing final check of the contract is the only reason why the trial is not
    /// valid.
    pub(crate) fn is_only_unchecked(&self) -> bool {
        self.is_invalid_only_for(|code| code == Code::UNCHECKED)
    }

    /// Whether the trial is not valid because its server responded incorrectly or violated its
    /// contract. Noise does not cause these faults. The end of a server alone is none of them.
    #[must_use]
    pub fn has_wrong_responses(&self) -> bool {
        let is_wrong =
            |code: Code| code != Code::SUBJECT_FAILED && code.has(CodeProperty::ServerFault);
        self.is_broken() && self.invalid_codes().any(is_wrong)
    }

    /// Whether the trial is not valid because its server responded incorrectly, ended, or violated
    /// its contract. Noise does not cause these faults. A failed back end or machine excuses it.
    pub(crate) fn is_broken(&self) -> bool {
        self.has_invalid(CodeProperty::ServerFault)
            && !self.has_invalid(CodeProperty::OtherProgramFailed)
    }

    /// Whether the trial is not valid because too many requests got no response, and no caveat
    /// explains them by a cause outside of the server. Unlike the faults of
    /// [`TrialResult::is_broken`], lost responses may be noise, such as a stall of the machine.
    pub(crate) fn has_lost_requests(&self) -> bool {
        self.has_invalid(CodeProperty::MissingResponses)
            && !self.is_excused_by(CodeProperty::ExcusesLosses)
    }

    /// Whether a caveat with this property makes the trial invalid, and explains its missing
    /// responses.
    fn is_excused_by(&self, property: CodeProperty) -> bool {
        let is_excuse = |caveat: &Caveat| {
            caveat.severity == Severity::Invalid
                && caveat.code.has(property)
                && excuses_losses(caveat, &self.load)
        };
        self.caveats.iter().any(is_excuse)
    }

    /// Whether the machine may have dropped the packets of requests that failed.
    pub(crate) fn has_doubtful_losses(&self) -> bool {
        let failed = self.load.failed_requests();
        let may_drop = |c: &Caveat| c.code == Code::DROPPED_PACKETS && c.explains_losses(failed);
        !self.refused && failed > 0 && self.caveats.iter().any(may_drop)
    }

    /// Returns the number of requests that failed because of the server, plus those that were sent
    /// again because the server closed a connection. If the generator was the limit, only incorrect
    /// responses and requests that the server ended count, because the generator may have lost the
    /// others. It is 0 if the generator stopped, if the machine may have dropped packets, or if the
    /// server is a control that refuses connections.
    pub(crate) fn server_losses(&self) -> u64 {
        let load = &self.load;
        let failed = match self.invalid_codes().any(Code::is_generator_limit) {
            true => load.ended_by_server() + load.outcomes.incorrect_count(),
            false => load.failed_requests_with_ports(),
        };
        let is_excused = self.refused
            || self.has_doubtful_losses()
            || self.is_excused_by(CodeProperty::OutsideCause);
        if is_excused { 0 } else { load.with_repeated(failed) }
    }

    /// Whether the trial is not valid because the generator stopped, packets were dropped, or a
    /// back end or the machine failed, and this explains all missing responses.
    pub(crate) fn has_outside_cause(&self) -> bool {
        self.has_invalid(CodeProperty::OutsideCause) && !self.has_lost_requests()
    }

    /// Whether any request got an incorrect response or none, or the server violated its contract,
    /// for any reason.
    pub(crate) fn has_failure(&self) -> bool {
        let is_fault = self.caveats.iter().any(|caveat| TrialResult::is_server_code(caveat.code));
        let load = &self.load;
        let has_loss = load.outcomes.not_ok().next().is_some() || load.exchanges.unanswered() > 0;
        !self.refused && (is_fault || has_loss)
    }

    /// Whether a caveat is about the server's behaviour.
    pub(crate) fn is_server_code(code: Code) -> bool {
        code.has(CodeProperty::ServerFault) || code.has(CodeProperty::MissingResponses)
    }

    /// Whether the trial is not valid for a reason other than its server. Such a trial is not
    /// evidence of a low capacity.
    #[must_use]
    pub fn is_inconclusive(&self) -> bool {
        // Requests that take longer than the window show a slow server, unless another cause, such
        // as dropped packets or a failed back end, delayed them.
        let is_slow =
            self.is_invalid_because_of(Code::LONGER_THAN_WINDOW) && !self.has_outside_cause();
        // The server chose another protocol than requested.
        let has_fallen_back = self.is_invalid_because_of(Code::FELL_BACK);
        self.is_unexpectedly_invalid() && !self.is_servers_fault() && !has_fallen_back && !is_slow
    }

    /// Whether the trial is not valid because its server was down or hung for a part of the window.
    pub(crate) fn has_outage(&self) -> bool {
        self.is_invalid_because_of(Code::OUTAGE)
    }

    /// Whether this code makes the trial invalid.
    fn is_invalid_because_of(&self, code: Code) -> bool {
        self.invalid_codes().any(|invalid| invalid == code)
    }

    /// Whether a code with this property makes the trial invalid.
    fn has_invalid(&self, property: CodeProperty) -> bool {
        self.invalid_codes().any(|code| code.has(property))
    }
}

#[cfg(test)]
mod tests {
    use dyno_model::outcome::Outcome;
    use dyno_model::plan::{self, Limits};
    use dyno_model::start::{LimitKind, LimitReadBack, PartStart};
    use dyno_model::{Facts, Party, StartRecord};
    use serde_json::json;

    use super::*;
    use crate::fixture::{self, five_block_report};
    use crate::metric::MetricId;

    #[test]
    fn trials_and_repeats_count_from_one() {
        let trials = five_block_report().trials;
        assert!(trials.iter().all(|t| t.repeat == t.block && (1..=5).contains(&t.block)));
        let mut places: Vec<usize> = trials.iter().map(|t| t.place).collect();
        places.sort_unstable();
        assert_eq!(places, (1..=60).collect::<Vec<_>>());
        let shape = trials[0].step.shape;
        assert_eq!(
            (shape.connections, shape.streams, shape.pipeline, shape.rate),
            (64, 1, 1, None)
        );
    }

    #[test]
    fn slow_requests_with_excuse_are_inconclusive() {
        let mut trial = five_block_report().trials.remove(0);
        trial.valid = false;
        let invalid = |code| Caveat::new(code, Severity::Invalid, String::new(), json!({}));
        trial.caveats = vec![invalid(Code::LONGER_THAN_WINDOW)];
        assert!(!trial.is_inconclusive(), "a slow server");
        trial.caveats.push(invalid(Code::DROPPED_PACKETS));
        assert!(trial.is_inconclusive(), "the machine dropped its packets");
        trial.caveats.push(invalid(Code::FELL_BACK));
        assert!(!trial.is_inconclusive(), "another protocol");
    }

    /// A stall of the machine also causes missing responses, and a failed start ends them.
    #[test]
    fn missing_responses_are_no_wrong_responses() {
        let mut trial = five_block_report().trials.remove(0);
        trial.valid = false;
        let mut has_wrong_responses = |codes: &[Code]| {
            let invalid = |code| Caveat::new(code, Severity::Invalid, String::new(), json!({}));
            trial.caveats = codes.iter().copied().map(invalid).collect();
            trial.has_wrong_responses()
        };
        assert!(has_wrong_responses(&[Code::INCORRECT_RESPONSES, Code::ERRORS]));
        assert!(has_wrong_responses(&[Code::SUBJECT_FAILED, Code::INCORRECT_RESPONSES]));
        let missing: Vec<Code> =
            Code::all().filter(|code| code.has(CodeProperty::MissingResponses)).collect();
        for codes in [&missing[..], &[Code::SUBJECT_FAILED, Code::ERRORS]] {
            assert!(!has_wrong_responses(codes), "{codes:?}");
        }
    }

    #[test]
    fn generator_limits_excuse_missing_responses() {
        let mut trial = five_block_report().trials.remove(0);
        trial.valid = false;
        let caveat = |code, severity| Caveat::new(code, severity, String::new(), json!({}));
        trial.caveats = vec![caveat(Code::ERRORS, Severity::Invalid)];
        assert!(trial.has_lost_requests());
        for code in [
            Code::GENERATOR_BUSY,
            Code::GENERATOR_CROWDED,
            Code::GENERATOR_THROTTLED,
            Code::NO_LOCAL_PORT,
            Code::DROPPED_PACKETS,
        ] {
            trial.caveats.truncate(1);
            trial.caveats.push(caveat(code, Severity::Warning));
            assert!(trial.has_lost_requests(), "{code}: the server was at its limit, too");
            trial.caveats[1].severity = Severity::Invalid;
            assert!(!trial.has_lost_requests() && trial.is_inconclusive(), "{code}");
            // Incorrect responses are the server's in any case.
            trial.caveats.push(caveat(Code::INCORRECT_RESPONSES, Severity::Invalid));
            assert!(
                trial.is_servers_fault() != code.has(CodeProperty::OtherProgramFailed),
                "{code}"
            );
        }
    }

    #[test]
    fn unstored_bodies_are_neither_fault_nor_excuse() {
        let mut trial = five_block_report().trials.remove(0);
        trial.valid = false;
        let caveat = |code| Caveat::new(code, Severity::Invalid, String::new(), json!({}));
        trial.caveats = vec![caveat(Code::UNSTORED_BODIES)];
        assert!(trial.is_inconclusive() && !trial.is_servers_fault() && !trial.has_failure());
        assert!(!trial.is_limited_by_generator(), "its responses are not known to be correct");
        assert_eq!(trial.server_losses(), 0);
        trial.caveats.push(caveat(Code::ERRORS));
        assert!(trial.has_lost_requests(), "the server lost the requests");
    }

    /// Time-outs may be the generator's, closed connections are the server's.
    #[test]
    fn generator_at_its_limit_excuses_no_act_of_server() {
        let lost_to = |outcome: Outcome, requests: usize| {
            let mut record = fixture::record(1000);
            let books = &mut record.books;
            (books.scheduled, books.started, books.failed) =
                (1000 + requests as u64, 1000 + requests as u64, requests as u64);
            (0..requests).for_each(|_| record.intervals[0].outcomes.count(outcome));
            let mut trial = five_block_report().trials.remove(0);
            (trial.valid, trial.load) = (false, fixture::result(&record, None));
            trial.caveats = [Code::GENERATOR_CROWDED, Code::ERRORS]
                .map(|code| Caveat::new(code, Severity::Invalid, String::new(), json!({})))
                .into();
            let reason = trial.invalid_reason().unwrap();
            (trial.has_lost_requests(), reason, trial.server_losses())
        };
        let excused = |failures| (false, Code::GENERATOR_CROWDED, failures);
        assert_eq!(lost_to(Outcome::ClosedEarly, 40), (true, Code::ERRORS, 40));
        assert_eq!(lost_to(Outcome::ClosedEarly, 10), excused(10));
        assert_eq!(lost_to(Outcome::Timeout, 40), excused(0));
    }

    #[test]
    fn short_pause_and_few_drops_excuse_few_losses() {
        let mut trial = five_block_report().trials.remove(0);
        trial.valid = false;
        trial.load.exchanges.failed = 300;
        let failed = trial.load.failed_requests();
        let caveat = |code| Caveat::new(code, Severity::Invalid, String::new(), json!({}));
        for code in [Code::GENERATOR_STOPPED, Code::DROPPED_PACKETS] {
            let mut is_excused = |explained| {
                let excuse = caveat(code).with_explained_losses(explained);
                trial.caveats = vec![caveat(Code::ERRORS), excuse];
                assert_eq!(trial.has_outside_cause(), !trial.has_lost_requests());
                !trial.has_lost_requests()
            };
            assert!(is_excused(None) && is_excused(Some(failed)), "{code}");
            assert!(!is_excused(Some(failed - 1)), "{code}");
        }
    }

    #[test]
    fn error_share_is_relative_to_requests_of_window() {
        let mut load = fixture::result(&fixture::record(0), None);
        (load.exchanges.scheduled, load.exchanges.failed) = (40, 7);
        (0..3).for_each(|_| load.outcomes.count(Outcome::UnexpectedBody));
        assert_eq!(load.error_share(), 0.25);
    }

    /// Returns a trial of a control that refuses connections, with these `refusals` and `resets`.
    fn trial_of_refusing_control(refusals: u64, resets: u64) -> TrialResult {
        let mut plan =
            fixture::plan(vec![plan::Subject { refuses: true, ..plan::Subject::default() }]);
        plan.trials = vec![plan::Trial { launch: 0, arm: 0, workload: 0, step: 0, seed: 0 }];
        plan.load.steps = vec![fixture::step(plan::Arrivals::Closed)];
        let mut load = fixture::record(0);
        load.connections.opened = 0;
        let failed = refusals + resets;
        (load.books.scheduled, load.books.started, load.books.failed) = (failed, failed, failed);
        let outcomes = &mut load.intervals[0].outcomes;
        (0..refusals).for_each(|_| outcomes.count(Outcome::ConnectRefused));
        (0..resets).for_each(|_| outcomes.count(Outcome::Reset));
        let facts = &Facts::default();
        let record = &fixture::trial_record(0, load);
        RecordedTrial { plan: &plan, facts, start: None, record }.result()
    }

    #[test]
    fn refusals_of_refusing_control_are_expected() {
        let refused = trial_of_refusing_control(5, 0);
        assert_eq!(
            (refused.valid, refused.refused, refused.is_unexpectedly_invalid()),
            (false, true, false),
            "{refused:#?}"
        );
        for not_refused in [trial_of_refusing_control(5, 1), trial_of_refusing_control(0, 0)] {
            assert!(
                !not_refused.refused && not_refused.is_unexpectedly_invalid(),
                "{not_refused:#?}"
            );
        }
    }

    /// The server of one repeat failed before its window began.
    #[test]
    fn window_without_requests_has_no_share_of_errors() {
        let mut run = fixture::blocks_of(vec![plan::Subject::default()], 3, |_, _| 100);
        run.trials[1].load = fixture::record(0);
        let report = crate::report::report(&run);
        let shares: Vec<Option<f64>> = report.trials.iter().map(|t| t.error_share).collect();
        assert_eq!(shares, [Some(0.0), None, Some(0.0)]);
        let summary = &report.summaries[0];
        assert_eq!(summary.values(MetricId::ErrorShare).median, None);
        assert_eq!(report.overview[0].errors, None);
    }

    #[test]
    fn backend_has_own_allowed_cpus() {
        let mut plan = fixture::plan(vec![plan::Subject::default()]);
        plan.arms[0].conditions.placement.subject = vec![0, 1, 2];
        plan.backends = vec![plan::Backend {
            name: "db".into(),
            definition: None,
            limits: Limits { cpus: Some(1.5), ..Limits::default() },
            cpus: vec![3, 4],
            ..plan::Backend::default()
        }];
        plan.trials = vec![plan::Trial { launch: 0, arm: 0, workload: 0, step: 0, seed: 0 }];
        plan.load.steps = vec![fixture::step(plan::Arrivals::Closed)];
        let mut backend = PartStart::new(Party::Backend(0), "db".into());
        assert_eq!(cpus_of(&plan.arms[0].conditions, None).count, 3.0);
        backend.limits = vec![LimitReadBack {
            kind: LimitKind::CpuQuota,
            asked: "1.5".into(),
            read_back: Some("150000 100000".into()),
            reason: None,
        }];
        let parts = vec![PartStart::new(Party::SUBJECT, "s".into()), backend];
        let start = StartRecord { parts, ..StartRecord::default() };
        let mut load = fixture::record_with_threads(&[(500, 0)]);
        for sample in &mut load.samples {
            let server = sample.parties[0].clone();
            sample
                .parties
                .push(dyno_model::sample::PartyUse { party: Party::Backend(0), ..server });
        }
        let facts = &Facts::default();
        let record = &fixture::trial_record(0, load);
        let result = RecordedTrial { plan: &plan, facts, start: Some(&start), record }.result();
        let [db] = result.backends.as_slice() else { panic!("{:?}", result.backends) };
        assert_eq!(
            (db.name.as_str(), db.server.cpu_allowed_s, db.shares_cpus),
            ("db", Some(1.5), false)
        );
        // Both used the same CPU time, so each has half of the cost of a request.
        assert_eq!(db.cpu_share, Some(0.5));
        assert_eq!(result.server.cpu_allowed_s, Some(3.0));
    }
}

//! Reads a suite with changes that the command line requires: revisions of a subject, or rates for
//! measured capacities.

use dyno_config::mistake::{Mistake, mistake};
use dyno_model::plan::{Capacity, Experiment, SearchOptions};
use dyno_workload::rates::Rate;

use super::experiment::{self, RawExperiment};
use super::load::locate_in_load;
use super::overrides::SuiteWorkload;
use super::revisions::AcrossRevisions;
use super::subjects::{self, SuiteSubject};
use crate::settings::LoadSettings;

/// Way to read a suite.
#[derive(Clone, Copy, Debug)]
pub(super) enum SuiteReading<'a> {
    /// As it is written. If its rates are shares of a capacity, the load is the closed loop that
    /// measures the capacity.
    AsWritten,
    /// With revisions of one of its subjects.
    Across(&'a AcrossRevisions),
    /// With rates that are shares of these capacities.
    At(&'a [Capacity]),
}

impl SuiteReading<'_> {
    /// Returns the subjects to run, and the experiment.
    pub(super) fn arms(
        self,
        original: Vec<SuiteSubject>,
        experiment: Option<RawExperiment>,
        twin: Option<&str>,
    ) -> Result<(Vec<SuiteSubject>, Option<Experiment>), Mistake> {
        let SuiteReading::Across(revisions) = self else {
            let (subjects, experiment) = experiment::arms(original, experiment)?;
            return Ok((subjects::with_twin(subjects, twin)?, experiment));
        };
        if experiment.is_some() {
            let message = "[experiment]: cannot be used with `--rev`\nhint: use a suite without an \
                           experiment";
            return Err(mistake("experiment", message));
        }
        let (subjects, experiment) = revisions.arms(original);
        Ok((subjects, Some(experiment)))
    }

    /// Returns the suite's search for a rate. `Err`: a search cannot compare revisions.
    pub(super) fn search(
        self,
        original: Option<SearchOptions>,
    ) -> Result<Option<SearchOptions>, Mistake> {
        match (self, original) {
            (SuiteReading::Across(_), Some(_)) => Err(locate_in_load(mistake(
                "rate",
                "`rate = \"find\"`: cannot be used with `--rev`\nhint: use a fixed rate, or remove \
                 `rate`",
            ))),
            (_, original) => Ok(original),
        }
    }

    /// Returns the suite's baseline, unless its subjects are replaced.
    pub(super) fn baseline(self, original: Option<String>) -> Option<String> {
        original.filter(|_| !matches!(self, SuiteReading::Across(_)))
    }

    /// Replaces shares of a capacity by rates. Returns the shares of capacities that are still to
    /// be measured.
    pub(super) fn rates(
        self,
        load: &mut LoadSettings,
        workloads: &mut [SuiteWorkload],
    ) -> Result<Vec<f64>, Mistake> {
        let shares = shares(load)?;
        if shares.is_empty() {
            return Ok(shares);
        }
        load.rates.clear();
        match self {
            SuiteReading::AsWritten => {
                load.make_closed();
                Ok(shares)
            }
            SuiteReading::Across(_) => Err(locate_in_load(mistake(
                "rate",
                "`rate`: percentages of the capacity (the highest rate) cannot be used with `--rev`\
                 \nhint: write the rates as numbers, or remove `rate` for a closed loop",
            ))),
            SuiteReading::At(capacities) => {
                for workload in workloads.iter_mut().filter(|workload| !workload.has_rate()) {
                    let capacity = capacities
                        .iter()
                        .find(|capacity| capacity.workload == workload.workload.name);
                    if let Some(capacity) = capacity {
                        let rate = |share| Rate::Number(round_rate(share * capacity.rps));
                        workload.overrides.set_rates(shares.iter().map(rate).collect());
                    }
                }
                // A workload that no subject serves has no capacity, so it uses this rate. Any
                // valid rate will do, because the workload has no trials.
                load.rates = vec![Rate::Number(1.0)];
                Ok(Vec::new())
            }
        }
    }
}

/// Returns the rates that are shares of a capacity, such as `25%`; empty: no rate is a share.
fn shares(load: &LoadSettings) -> Result<Vec<f64>, Mistake> {
    let rates = &load.rates;
    let mut shares = Vec::new();
    for (index, rate) in rates.iter().enumerate() {
        let Rate::Text(text) = rate else { continue };
        if !text.trim().ends_with('%') {
            continue;
        }
        let percent = text.trim().trim_end_matches('%').trim().parse::<f64>().ok();
        let is_valid = |percent: &f64| percent.is_finite() && *percent > 0.0 && *percent <= 1000.0;
        let Some(percent) = percent.filter(is_valid) else {
            let message = format!(
                "{text:?}: must be a percentage of the capacity (the highest rate), above 0% and \
                 at most 1000%\nhint: write a percentage such as 50%"
            );
            return Err(locate_in_load(mistake("rate", message).with_child(index)));
        };
        shares.push(percent / 100.0);
    }
    if !shares.is_empty() && shares.len() < rates.len() {
        let message = "`rate`: percentages of the capacity and numbers cannot be combined\nhint: \
                       use only percentages, or only numbers";
        return Err(locate_in_load(mistake("rate", message)));
    }
    Ok(shares)
}

/// Rounds a rate to three significant digits.
fn round_rate(rate: f64) -> f64 {
    // Decimal digits are used, because a product with a power of ten is not exact.
    format!("{rate:.2e}").parse().expect("a formatted number should be valid")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dyno_model::plan::Arrivals;

    use super::super::{SuiteFile, tests::parse};
    use super::*;

    fn capacity(workload: &str, rps: f64) -> Capacity {
        Capacity { workload: workload.into(), rps, subject: "a".into() }
    }

    fn rates(suite: &SuiteFile) -> Vec<Option<f64>> {
        suite.load.load.steps.iter().map(|step| step.arrivals.rate()).collect()
    }

    #[test]
    fn rates_as_shares_are_replaced_after_capacity_run() {
        let suite = parse(
            "subjects = [\"a\", \"b\"]\n[load]\nrate = [\"25%\", \"50%\"]\narrival = \"poisson\"\n\
             [[workloads]]\npath = \"/x\"\n[[workloads]]\nname = \"own\"\npath = \"/y\"\nrate = 7\n\
             [[workloads]]\nname = \"z\"\npath = \"/z\"\n",
        );
        // The workload with its own rate is not a closed loop, and needs no capacity.
        let suite = suite.unwrap();
        assert_eq!(suite.shares, [0.25, 0.5]);
        assert_eq!(rates(&suite), [None, Some(7.0)]);
        let at = suite.with_capacities(&[capacity("x", 12_345.0), capacity("z", 333.0)]).unwrap();
        assert_eq!(at.shares, [0.0; 0]);
        assert_eq!(rates(&at), [Some(3090.0), Some(6170.0), Some(7.0), Some(83.2), Some(166.0)]);
        assert!(matches!(at.load.load.steps[0].arrivals, Arrivals::Poisson { .. }));
        assert_eq!((round_rate(0.2), round_rate(17.912)), (0.2, 17.9));
        assert_eq!(round_rate(1_234_567.0), 1_230_000.0);
    }

    #[test]
    fn rate_find_makes_search_after_closed_loops() {
        let suite = |load_keys: &str, extra: &str| {
            parse(&format!(
                "subjects = [\"a\"]\n[load]\nconnections = [8, 16]\n{load_keys}\n{extra}"
            ))
        };
        let objective = "[report]\nobjective = \"p99<5ms\"\n";
        let plan = suite("rate = \"find\"\narrival = \"poisson\"\nfind_width = \"2%\"", objective)
            .unwrap();
        let search = plan.search.unwrap();
        assert_eq!((search.width, search.arrival), (0.02, dyno_model::plan::Arrival::Poisson));
        assert!(matches!(search.arrivals(7.0), Arrivals::Poisson { rate: 7.0 }));
        // Each search follows a closed loop.
        assert_eq!(rates(&plan), [None, None]);
        assert_eq!(suite("rate = \"find\"", objective).unwrap().search.unwrap().width, 0.05);
        let open = suite("rate = \"find\"\nmodel = \"open\"", objective).unwrap();
        assert!(open.search.is_some() && rates(&open) == [None, None]);
        assert!(suite("rate = 100", objective).unwrap().search.is_none());
        let suite_with_rates = format!(
            "{objective}[[workloads]]\npath = \"/x\"\n[[workloads]]\nname = \"y\"\npath = \
             \"/y\"\nrate = 7\n"
        );
        let mixed = suite("rate = \"find\"\narrival = \"poisson\"", &suite_with_rates).unwrap();
        let steps = &mixed.load.load.steps;
        assert!(matches!(steps[2].arrivals, Arrivals::Poisson { rate: 7.0 }), "{steps:?}");
        let rates = format!("{objective}[[workloads]]\npath = \"/x\"\nrate = 7\n");
        let page =
            format!("{objective}[[workloads]]\npath = \"/\"\npage = {{ resources = [\"/a\"] }}\n");
        for (load_keys, extra, expected) in [
            ("rate = \"find\"", "", "such as `objective"),
            ("rate = [\"find\", 100]", objective, "cannot be combined with other rates"),
            ("rate = \"find\"\nmodel = \"closed\"", objective, "must be \"open\""),
            ("rate = \"find\"\nfind_width = \"0%\"", objective, "is not a percentage from"),
            ("find_width = \"5%\"", objective, "without a search for a rate"),
            ("rate = \"find\"", &page, "no rate to find"),
            ("rate = \"find\"", &rates, "its own `rate`"),
            (
                "rate = \"find\"",
                &format!("{objective}[suite]\norder = \"duet\"\n"),
                "the time that a server waits for a CPU",
            ),
        ] {
            let error = suite(load_keys, extra).unwrap_err();
            assert!(
                error.contains(expected) && error.contains("s.toml:"),
                "{load_keys}\n→ {error}"
            );
        }
    }

    #[test]
    fn invalid_capacity_share_is_refused_with_position() {
        for (load_keys, expected) in [
            ("rate = [\"25%\", 100]", "only percentages, or only numbers"),
            ("rate = \"0%\"", "must be a percentage of the capacity"),
            ("rate = [\"x%\"]", "must be a percentage of the capacity"),
            ("rate = \"25%\"\nmodel = \"closed\"", "cannot be used in a closed loop"),
            ("rate = \"25%\"\n[suite]\norder = \"interleaved\"", "closed loops of requests"),
        ] {
            let error = parse(&format!("subjects = [\"a\"]\n[load]\n{load_keys}\n")).unwrap_err();
            assert!(
                error.contains(expected) && error.contains("s.toml:"),
                "{load_keys}\n→ {error}"
            );
        }
        let revised = AcrossRevisions { index: 0, revised: Vec::new() };
        let across = |text: &str| {
            let suite = SuiteFile::parse(Path::new("s.toml"), text, &[]).unwrap();
            suite.across(&revised).unwrap_err().to_string()
        };
        assert!(across("subjects = [\"a\"]\n[load]\nrate = \"25%\"").contains("as numbers"));
        let find = "subjects = [\"a\"]\n[load]\nrate = \"find\"\n[report]\nobjective = \"p99<5ms\"";
        assert!(across(find).contains("remove `rate`"));
        let experiment =
            "subjects = [\"a\"]\n[experiment]\nkind = \"dose\"\nvary = { files = [64, 128] }";
        assert!(across(experiment).contains("cannot be used with `--rev`"));
    }
}

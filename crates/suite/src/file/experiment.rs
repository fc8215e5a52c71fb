//! Makes the arms of `[experiment]`. An arm is a subject under one configuration. There is one arm
//! for each value, or combination of values, of the factors that the suite varies.

use std::collections::{BTreeMap, BTreeSet};

use dyno_config::mistake::{Mistake, mistake};
use dyno_config::secret::{holds_secret, may_be_secret};
use dyno_config::text::nearest;
use dyno_config::units;
use dyno_launch::environment::check_name;
use dyno_model::plan::{Experiment, ExperimentKind};
use dyno_subject::limits_keys::{self, RawLimits};
use dyno_subject::placeholders::PlaceholderScope;
use dyno_workload::request_values;
use serde::Deserialize;

use super::SuiteFile;
use super::subjects::{SuiteSubject, check_requests};
use super::values::NumberOrText;

/// `[experiment]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawExperiment {
    kind: ExperimentKind,
    factor: Option<String>,
    #[serde(default)]
    vary: BTreeMap<String, Vec<NumberOrText>>,
}

/// Factors that can be varied by name, besides environment variables.
const FACTORS: [&str; 5] = ["cpus", "memory", "files", "requests_per_connection", "variant"];

/// Prefix of an environment variable as a factor.
const ENV: &str = "env.";

/// Prefix of a request value as a factor.
const REQUEST: &str = "request.";

/// Returns the arms of a suite, and its experiment. The arms of the experiment replace the suite's
/// first subject if the experiment varies a factor.
pub(super) fn arms(
    subjects: Vec<SuiteSubject>,
    raw: Option<RawExperiment>,
) -> Result<(Vec<SuiteSubject>, Option<Experiment>), Mistake> {
    let Some(raw) = raw else { return Ok((subjects, None)) };
    let locate = |mistake: Mistake| mistake.with_parent("experiment");
    let (subjects, arms) = if raw.vary.is_empty() {
        (raw.listed_arms(subjects).map_err(locate)?, Vec::new())
    } else {
        let (varied_arms, others) = raw.varied_arms(subjects).map_err(locate)?;
        let names = varied_arms.iter().map(SuiteSubject::id).collect();
        (varied_arms.into_iter().chain(others).collect(), names)
    };
    Ok((subjects, Some(Experiment { kind: raw.kind, factor: raw.factor, arms })))
}

impl RawExperiment {
    /// Returns arms that the suite lists one by one.
    fn listed_arms(&self, subjects: Vec<SuiteSubject>) -> Result<Vec<SuiteSubject>, Mistake> {
        let wrong = |message: &str| Err(mistake("kind", message));
        match self.kind {
            ExperimentKind::Dose | ExperimentKind::Matrix => {
                let kind = self.kind.name();
                wrong(&format!(
                    "kind {kind:?}: needs a factor (a setting to vary)\nhint: add a factor, such \
                     as `vary = {{ cpus = [0.25, 0.5, 1] }}`"
                ))
            }
            ExperimentKind::Toggle if subjects.len() < 2 => wrong(
                "kind \"toggle\": needs two arms (subjects to compare)\nhint: list the subject \
                 twice, each with its own `name`, or use `vary`",
            ),
            _ if subjects.len() < 2 => wrong(
                "an experiment must have at least two arms (subjects to compare)\nhint: list at \
                 least two subjects under `[[subjects]]`, in the order of the experiment",
            ),
            _ => Ok(subjects),
        }
    }

    /// Returns the arms of the first subject, one for each value or combination of the factors, and
    /// the further subjects, unchanged.
    fn varied_arms(
        &self,
        subjects: Vec<SuiteSubject>,
    ) -> Result<(Vec<SuiteSubject>, Vec<SuiteSubject>), Mistake> {
        self.check_factors()?;
        let mut subjects = subjects.into_iter();
        let first = subjects
            .next()
            .ok_or_else(|| mistake("vary", "`vary`: the suite has no subject to vary"))?;
        // Each factor multiplies the arms by its number of levels.
        let mut arms: Vec<(SuiteSubject, Vec<String>)> = vec![(first.clone(), Vec::new())];
        for (factor, levels) in &self.vary {
            let mut next = Vec::new();
            for (arm, labels) in &arms {
                for (index, level) in levels.iter().enumerate() {
                    let arm_at_level =
                        subject_at_level(arm.clone(), factor, level).map_err(|mistake| {
                            mistake
                                .with_child(index)
                                .with_parent(factor.clone())
                                .with_parent("vary")
                        })?;
                    let mut labels = labels.clone();
                    labels.push(level_label(factor, index, level));
                    next.push((arm_at_level, labels));
                }
            }
            arms = next;
        }
        // A dose has a single factor, so it has one arm per level.
        let scale_values: Vec<Option<f64>> = match self.vary.iter().next() {
            Some((factor, levels)) if self.kind == ExperimentKind::Dose => {
                levels.iter().map(|level| scale_value(factor, level)).collect()
            }
            _ => vec![None; arms.len()],
        };
        let mut varied = Vec::new();
        for ((arm, labels), level) in arms.into_iter().zip(scale_values) {
            let label = Some(format!("{}, {}", first.id(), labels.join(", ")));
            varied.push(SuiteSubject { label, level, ..arm });
        }
        Ok((varied, subjects.collect()))
    }

    /// Checks the factors and their levels, and that they fit the kind of the experiment.
    fn check_factors(&self) -> Result<(), Mistake> {
        for (factor, levels) in &self.vary {
            let is_named = [ENV, REQUEST].iter().any(|kind| factor.starts_with(kind));
            if !is_named && !FACTORS.contains(&&**factor) {
                let near = nearest(factor, FACTORS.into_iter())
                    .map(|near| format!("did you mean {near:?}? Otherwise "));
                let message = format!(
                    "{factor:?}: cannot be varied\nhint: {}use {}, \"env.NAME\" for an environment \
                     variable, or \"request.NAME\" for the placeholder {{request.NAME}} in \
                     requests. For other differences, list each subject under `[[subjects]]`",
                    near.unwrap_or_default(),
                    FACTORS.join(", ")
                );
                return Err(mistake("vary", message).with_child(factor.clone()));
            }
            if levels.len() < 2 {
                return Err(mistake("vary", "`vary`: a factor must have at least two values")
                    .with_child(factor.clone()));
            }
            let is_twice = |i: usize| levels[..i].contains(&levels[i]);
            if let Some(twice) = (0..levels.len()).find(|i| is_twice(*i)) {
                let message = format!(
                    "{} is listed twice\nhint: to measure a subject twice, use `twin` in [suite]",
                    levels[twice]
                );
                return Err(mistake("vary", message).with_child(factor.clone()));
            }
        }
        let count: usize = self.vary.values().map(Vec::len).product();
        let wrong = |message: String| Err(mistake("vary", message));
        let (first, values) = self.vary.iter().next().expect("`vary` should have a factor");
        match self.kind {
            ExperimentKind::Toggle if count != 2 => wrong(format!(
                "kind \"toggle\": compares two subjects, but `vary` makes {count}\nhint: use kind \
                 \"dose\" for numbers, \"ablation\" for texts, or \"matrix\" for combinations"
            )),
            ExperimentKind::Dose if self.vary.len() > 1 => wrong(
                "kind \"dose\": must vary one factor\nhint: to vary several, use kind \"matrix\""
                    .into(),
            ),
            ExperimentKind::Dose
                if !values.iter().all(|v| scale_value(first, v).is_some_and(|n| n > 0.0)) =>
            {
                Err(mistake(
                    "vary",
                    "kind \"dose\": the values of its factor must be numbers above 0\nhint: use \
                     `kind = \"ablation\"` for other values",
                )
                .with_child(first.clone()))
            }
            ExperimentKind::Dose if has_equal_levels(first, values) => {
                Err(mistake("vary", "kind \"dose\": two values are the same number")
                    .with_child(first.clone()))
            }
            ExperimentKind::Matrix if self.vary.len() < 2 => wrong(
                "kind \"matrix\": must vary at least two factors\nhint: use `kind = \"dose\"` or \
                 `kind = \"toggle\"` to vary one factor"
                    .into(),
            ),
            _ => Ok(()),
        }
    }
}

/// Returns whether two levels are the same number.
fn has_equal_levels(factor: &str, levels: &[NumberOrText]) -> bool {
    let mut values: Vec<f64> =
        levels.iter().filter_map(|level| scale_value(factor, level)).collect();
    values.sort_by(f64::total_cmp);
    values.windows(2).any(|pair| pair[0] == pair[1])
}

/// Returns the number of a level on the scale of its factor. `None`: the factor has no scale, or
/// the level is not a number.
fn scale_value(factor: &str, level: &NumberOrText) -> Option<f64> {
    match (factor, level) {
        ("variant", _) => None,
        ("memory", NumberOrText::Text(text)) => units::bytes(text).ok().map(|bytes| bytes as f64),
        (factor, NumberOrText::Text(text)) if factor.starts_with(REQUEST) => {
            level.number().or_else(|| units::bytes(text).ok().map(|bytes| bytes as f64))
        }
        _ => level.number(),
    }
}

/// Returns the label of a level. A value that may be secret is replaced by its position in the list
/// of values, such as `#1`.
fn level_label(factor: &str, index: usize, level: &NumberOrText) -> String {
    let named = [ENV, REQUEST].iter().find_map(|kind| factor.strip_prefix(kind));
    let name = named.unwrap_or(factor);
    let text = level.to_string();
    // An address or a list of flags may contain a password.
    let has_secret = text.contains("://") || factor.starts_with(ENV) && holds_secret(&text);
    let is_hidden = named.is_some() && (may_be_secret(name) || has_secret);
    if is_hidden { format!("{name} #{}", index + 1) } else { format!("{name} {level}") }
}

/// Returns a subject with a factor at a level.
fn subject_at_level(
    mut subject: SuiteSubject,
    factor: &str,
    level: &NumberOrText,
) -> Result<SuiteSubject, Mistake> {
    let whole_number = || {
        let n = level.number().filter(|n| *n >= 1.0 && n.fract() == 0.0);
        n.map(|n| n as u64).ok_or_else(|| {
            mistake(
                "level",
                format!("{level}: must be a whole number above 0\nhint: write a number such as 2"),
            )
        })
    };
    if let Some(variable) = factor.strip_prefix(ENV) {
        let value = level.text(variable)?;
        let checked = check_name(variable).and_then(|()| PlaceholderScope::Start.check(&value));
        checked.map_err(|message| mistake("level", message))?;
        subject.env.insert(variable.into(), value);
        return Ok(subject);
    }
    if let Some(name) = factor.strip_prefix(REQUEST) {
        subject.request.insert(name.into(), level.text(name)?);
        return Ok(subject);
    }
    match factor {
        "variant" => subject.variant = Some(level.to_string()).filter(|name| !name.is_empty()),
        "requests_per_connection" => {
            subject.requests_per_connection = check_requests(Some(whole_number()?))?;
        }
        _ => {
            let mut raw = RawLimits::default();
            match factor {
                "cpus" => {
                    let wrong = || {
                        mistake(
                            "level",
                            format!(
                                "{level}: must be a number of CPUs\nhint: write a number such as \
                                 0.5 or 2"
                            ),
                        )
                    };
                    raw.cpus = Some(level.number().ok_or_else(wrong)?);
                }
                "memory" => raw.memory = Some(level.to_string()),
                _ => raw.files = Some(whole_number()?),
            }
            subject.limits = limits_keys::override_limits(&raw.check()?, &subject.limits);
        }
    }
    Ok(subject)
}

/// Checks that every workload uses the varied request values. A value has no effect in a workload
/// without its placeholder. `is_control`: whether the entry at an index is a control.
pub(crate) fn check_varied(
    suite: &SuiteFile,
    entries: &[SuiteSubject],
    is_control: &dyn Fn(usize) -> bool,
) -> Result<(), Mistake> {
    let Some(experiment) = &suite.experiment else { return Ok(()) };
    let is_arm = |(index, entry): &(usize, &SuiteSubject)| match experiment.arms.is_empty() {
        true => !is_control(*index),
        false => experiment.arms.contains(&entry.id()),
    };
    let arms: Vec<&SuiteSubject> =
        entries.iter().enumerate().filter(is_arm).map(|(_, entry)| entry).collect();
    for name in arms.iter().flat_map(|arm| arm.request.keys()) {
        let values: BTreeSet<Option<&String>> =
            arms.iter().map(|arm| arm.request.get(name)).collect();
        let is_varied = values.len() > 1;
        let unaffected = suite
            .workloads
            .iter()
            .position(|workload| !request_values::required_names(workload).contains(name));
        if let Some(index) = unaffected.filter(|_| is_varied) {
            let message = format!(
                "workload {:?}: does not use {{request.{name}}}, which the experiment \
                 varies\nhint: move the workload to another suite",
                suite.workloads[index].name
            );
            return Err(mistake("workloads", message).with_child(index));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::SuiteFile;
    use super::super::tests::parse;
    use super::*;

    fn suite(experiment: &str) -> Result<SuiteFile, String> {
        parse(&format!(
            "subjects = [\"a\", \"null\"]\n[experiment]\n{experiment}\n[load]\nduration = \"2s\"\n"
        ))
    }

    fn ids(suite: &SuiteFile) -> Vec<String> {
        suite.subjects.iter().map(SuiteSubject::id).collect()
    }

    #[test]
    fn dose_has_arm_per_level_and_turns_if_few() {
        let dose = suite("kind = \"dose\"\nvary = { cpus = [0.5, 1] }").unwrap();
        assert_eq!(ids(&dose), ["a, cpus 0.5", "a, cpus 1", "null"]);
        let levels: Vec<_> =
            dose.subjects.iter().map(|s| (s.level, s.limits.limits.cpus)).collect();
        assert_eq!(levels, [(Some(0.5), Some(0.5)), (Some(1.0), Some(1.0)), (None, None)]);
        // The quota's period is as long as a turn.
        assert_eq!(dose.sharing.slice_ns(), None);
        let files = suite("kind = \"dose\"\nvary = { files = [64, 128] }").unwrap();
        assert_eq!(files.sharing.slice_ns(), Some(100_000_000));
        let three_levels = suite("kind = \"dose\"\nvary = { files = [64, 128, 256] }").unwrap();
        assert_eq!((three_levels.subjects.len(), three_levels.sharing.slice_ns()), (4, None));
        let interleaved = parse(
            "subjects = [\"a\"]\n[suite]\norder = \"random\"\n[experiment]\nkind = \
             \"toggle\"\nvary = { \"env.X\" = [\"0\", \"1\"] }",
        )
        .unwrap();
        assert_eq!(
            (interleaved.sharing.slice_ns(), &*interleaved.subjects[1].env["X"]),
            (None, "1")
        );
        assert_eq!(
            suite("kind = \"toggle\"\nvary = { \"env.X\" = [\"0\", \"1\"] }")
                .unwrap()
                .experiment
                .unwrap()
                .kind,
            ExperimentKind::Toggle
        );
    }

    #[test]
    fn dose_of_memory_is_allowed_and_secrets_are_hidden() {
        let dose = suite("kind = \"dose\"\nvary = { memory = [\"64MiB\", \"128MiB\"] }").unwrap();
        assert_eq!(dose.subjects[1].level, Some(f64::from(128 << 20)));
        assert_eq!(dose.experiment.unwrap().arms, ["a, memory 64MiB", "a, memory 128MiB"]);
        let secret =
            suite("kind = \"toggle\"\nvary = { \"env.API_TOKEN\" = [\"x1\", \"x2\"] }").unwrap();
        assert_eq!(ids(&secret), ["a, API_TOKEN #1", "a, API_TOKEN #2", "null"]);
    }

    /// A dose of the size of a request's body.
    const SIZES: &str =
        "[experiment]\nkind = \"dose\"\nvary = { \"request.size\" = [64, \"4KiB\"] }\n";

    /// A workload with a body of that size.
    const SENT: &str =
        "[[workloads]]\nmethod = \"POST\"\npath = \"/in\"\nbody = \"{fill:{request.size}}\"\n";

    #[test]
    fn request_values_in_subject_entries_are_checked() {
        let (vary, sent) = (SIZES, SENT);
        let suite = |value: &str| {
            parse(&format!(
                "[[subjects]]\nuse = \"b\"\nrequest = {{ token = {value} }}\n{}",
                sent.replace("size", "token")
            ))
        };
        assert!(suite("7").unwrap_err().contains("put the value into quotes"), "{:?}", suite("7"));
        assert!(suite("\"7\"").is_ok());
        let control = parse(&format!("subjects = [\"a\", \"null\"]\n{vary}{sent}")).unwrap_err();
        assert!(control.contains("null: "), "{control}");
        let suite = format!(
            "[[subjects]]\nuse = \"a\"\n[[subjects]]\nuse = \"null\"\nrequest = {{ size = 64 \
             }}\n{vary}{sent}"
        );
        assert_eq!(parse(&suite).unwrap().subjects[2].request["size"], "64");
    }

    #[test]
    fn dose_of_request_value_is_checked() {
        let with = |keys: &str| parse(&format!("subjects = [\"a\"]\n{keys}"));
        let (vary, sent) = (SIZES, SENT);
        let dose = with(&format!("{vary}{sent}")).unwrap();
        assert_eq!(ids(&dose), ["a, size 64", "a, size 4KiB"]);
        let levels: Vec<_> = dose.subjects.iter().map(|s| (s.level, &*s.request["size"])).collect();
        assert_eq!(levels, [(Some(64.0), "64"), (Some(4096.0), "4KiB")]);
        // A missing value, a name without a value, a value that a path cannot hold, and a value for
        // other subjects only.
        let path = "[[workloads]]\npath = \"/{request.size}\"\n";
        let expected = "[[workloads]]\npath = \"/\"\nexpect = { body = \"{request.size}\" }\n";
        for (keys, expected) in [
            (vary.to_string(), "{request.size}: has a value for"),
            (sent.into(), "{request.size}: has no value here"),
            (path.into(), "{request.size}: has no value here"),
            (expected.into(), "{request.size}: has no value for a"),
            (
                format!("{}{path}", vary.replace("64", "\"a b\"").replace("dose", "toggle")),
                "a, size a b: ",
            ),
        ] {
            let error = with(&keys).unwrap_err();
            assert!(error.contains(expected), "{keys}: {error}");
        }
        let hidden = format!(
            "{vary}[[workloads]]\npath = \"/\"\nheaders = {{ Authorization = \"{{request.size}}\" \
             }}\n"
        );
        assert!(
            with(&hidden).unwrap_err().contains("rename the placeholder to {request.size_token}")
        );
        assert!(
            with(&format!("{}{sent}", vary.replace("64", "1.10")))
                .unwrap_err()
                .contains("put the value into quotes")
        );
        assert!(
            with(&format!("{}{sent}", vary.replace("4KiB", "64B")))
                .unwrap_err()
                .contains("the same number")
        );
        let shares =
            with(&format!("{}{sent}", vary.replace("64, \"4KiB\"", "\"0.5\", \"1.5\""))).unwrap();
        assert_eq!(
            shares.subjects.iter().map(|s| s.level).collect::<Vec<_>>(),
            [Some(0.5), Some(1.5)]
        );
        let bare =
            format!("{}{}", vary.replace("size", "pin_token"), sent.replace("size", "pin_token"));
        assert!(with(&bare).unwrap_err().contains("put the value into quotes"));
        let vary = vary.replace("64", "\"64\"");
        let secret = vary.replace("size", "token");
        let secret = with(&format!("{secret}{}", sent.replace("size", "token"))).unwrap();
        assert_eq!(ids(&secret), ["a, token #1", "a, token #2"]);
    }

    #[test]
    fn experiment_with_quota_takes_no_turns_by_default() {
        let with_limits = |extra: &str| {
            let text = format!(
                "subjects = [\"a\"]\n{extra}[experiment]\nkind = \"toggle\"\n\
                 vary = {{ files = [64, 128] }}"
            );
            parse(&text).unwrap().sharing.slice_ns()
        };
        assert_eq!(
            (with_limits(""), with_limits("[limits]\ncpus = 0.5\n")),
            (Some(100_000_000), None)
        );
    }

    #[test]
    fn matrix_has_arm_per_combination() {
        let matrix = suite(
            "kind = \"matrix\"\nfactor = \"both\"\nvary = { variant = [\"\", \"b\"], \
             requests_per_connection = [1, 100], memory = [\"64MiB\", \"1GiB\"], \
             files = [64, 128] }",
        )
        .unwrap();
        assert_eq!(matrix.subjects.len(), 17);
        assert_eq!(
            ids(&matrix)[0],
            "a, files 64, memory 64MiB, requests_per_connection 1, variant "
        );
        let last = &matrix.subjects[15];
        assert_eq!((last.variant.as_deref(), last.requests_per_connection), (Some("b"), Some(100)));
        assert_eq!(
            (last.limits.limits.memory_bytes, last.limits.limits.open_files),
            (Some(1 << 30), Some(128))
        );
        assert_eq!(matrix.experiment.unwrap().factor.as_deref(), Some("both"));
    }

    #[test]
    fn ladder_accepts_arms_listed_as_subjects() {
        let text = "[experiment]\nkind = \"ladder\"\n[[subjects]]\nuse = \"a\"\nname = \
                    \"bare\"\n[[subjects]]\nuse = \"a\"\nname = \"routed\"\nvariant = \
                    \"router\"\ncpus = 0.5\nrequests_per_connection = 7\n";
        let ladder = parse(text).unwrap();
        assert_eq!(ids(&ladder), ["bare", "routed"]);
        let second = &ladder.subjects[1];
        assert_eq!(
            (second.server().as_str(), second.limits.limits.cpus, second.requests_per_connection),
            ("a/router", Some(0.5), Some(7))
        );
    }

    #[test]
    fn twin_repeats_subject_under_another_name() {
        let with =
            |twin| parse(&format!("subjects = [\"a\", \"b/c\"]\n[suite]\ntwin = {twin:?}\n"));
        let suite = with("b/c").unwrap();
        assert_eq!(ids(&suite), ["a", "b/c", "twin of b/c"]);
        let (subject, twin) = (&suite.subjects[1], &suite.subjects[2]);
        assert_eq!(SuiteSubject { label: None, ..twin.clone() }, *subject);
        assert!(with("d").unwrap_err().contains("hint: use one of a, b/c"));
    }

    #[test]
    fn invalid_experiment_is_refused() {
        for (experiment, expected) in [
            ("kind = \"doze\"", "did you mean `dose`?"),
            ("kind = \"dose\"", "needs a factor"),
            ("kind = \"dose\"\nvary = { cpu = [1, 2] }", "did you mean \"cpus\"?"),
            ("kind = \"dose\"\nvary = { cpus = [1] }", "at least two values"),
            ("kind = \"dose\"\nvary = { cpus = [1, 1] }", "listed twice"),
            ("kind = \"dose\"\nvary = { cpus = [1, \"x\"] }", "numbers above 0"),
            ("kind = \"dose\"\nvary = { cpus = [1, 2], files = [70, 80] }", "must vary one factor"),
            ("kind = \"matrix\"\nvary = { cpus = [1, 2] }", "at least two factors"),
            ("kind = \"toggle\"\nvary = { cpus = [1, 2, 3] }", "`vary` makes 3"),
            ("kind = \"toggle\"\nvary = { files = [64, 1.5] }", "must be a whole number"),
            ("kind = \"toggle\"\nvary = { cpus = [1, \"x\"] }", "must be a number of CPUs"),
            (
                "kind = \"toggle\"\nvary = { memory = [\"1KiB\", \"1GiB\"] }",
                "must be at least 1MiB",
            ),
            ("kind = \"toggle\"\nvary = { \"env.X\" = [\"{nope}\", \"1\"] }", "nope"),
        ] {
            let error = suite(experiment).unwrap_err();
            assert!(error.contains(expected), "{experiment}: {error}");
        }
        let alone = parse("subjects = [\"a\"]\n[experiment]\nkind = \"ladder\"").unwrap_err();
        assert!(alone.contains("at least two arms"), "{alone}");
        let unnamed = parse("[[subjects]]\nuse = \"a\"\nname = \" \"").unwrap_err();
        assert!(unnamed.contains("hint: add letters"), "{unnamed}");
    }
}

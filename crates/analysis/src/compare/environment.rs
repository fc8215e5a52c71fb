//! Compares the environment variables that the servers of two runs inherited from dyno, and those
//! of their definitions whose values archives withhold.
//!
//! The suite does not set these variables, so two runs may differ in them without notice.

use std::collections::{BTreeMap, BTreeSet};

use dyno_config::secret::{holds_secret, may_be_secret, without_userinfo};
use dyno_model::run::Run;
use dyno_model::start::{KeyedHashes, PartStart};
use dyno_model::{Party, StartRecord};

use super::RunDifference;

/// Longest value that is reported, bytes.
const MAX_LENGTH: usize = 100;

/// A run, and the index of one of its arms.
type RunArm<'a> = (&'a Run, usize);

/// Returns the variables that differ between two arms of two runs, or between their back ends of
/// the same name.
pub(super) fn differences(owner: &str, a: RunArm<'_>, b: RunArm<'_>) -> Vec<RunDifference> {
    let mut all = environment_differences(
        owner,
        &ProgramEnvironment::from_arm(a),
        &ProgramEnvironment::from_arm(b),
    );
    let ((run_a, arm_a), (run_b, arm_b)) = (a, b);
    let (plan_a, plan_b) = (&run_a.header.plan, &run_b.header.plan);
    for backend_a in &plan_a.arms[arm_a].backends {
        let name = &plan_a.backends[*backend_a].name;
        let mut others = plan_b.arms[arm_b].backends.iter();
        if let Some(other) = others.find(|other| plan_b.backends[**other].name == *name) {
            let owner = format!("{owner}: back end {name}");
            all.extend(environment_differences(
                &owner,
                &ProgramEnvironment::from_backend(a, *backend_a),
                &ProgramEnvironment::from_backend(b, *other),
            ));
        }
    }
    all
}

/// Inherited variables of one program of a run, over all of its starts.
struct ProgramEnvironment<'a> {
    /// Values of each variable. Several values mean that parts of the run differ, which is reported
    /// elsewhere.
    values: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Keyed hashes of withheld values, by the id of the key and the variable.
    hashes: BTreeMap<(&'a str, &'a str), BTreeSet<&'a str>>,
    /// Hash of the definition of the program.
    definition: Option<&'a str>,
}

impl<'a> ProgramEnvironment<'a> {
    /// Returns the inherited variables of an arm's server.
    fn from_arm((run, arm): RunArm<'a>) -> ProgramEnvironment<'a> {
        let plan = &run.header.plan;
        let part = |start: &'a StartRecord| {
            let party = plan.launches[start.launch].party_of(arm)?;
            start.part(party)
        };
        let parts = run.starts.iter().filter_map(part);
        let mut all = ProgramEnvironment::new(parts, plan.subject_of(arm).definition.as_deref());
        // Variables of the suite are compared with the other conditions.
        let env = &plan.arms[arm].conditions.env;
        all.hashes.retain(|(_, name), _| !env.contains_key(*name));
        all
    }

    /// Returns the inherited variables of a back end.
    fn from_backend((run, arm): RunArm<'a>, backend: usize) -> ProgramEnvironment<'a> {
        let plan = &run.header.plan;
        let starts =
            run.starts.iter().filter(|start| plan.launches[start.launch].arms.contains(&arm));
        let parts = starts.filter_map(|start| start.part(Party::Backend(backend)));
        ProgramEnvironment::new(parts, plan.backends[backend].definition.as_deref())
    }

    /// Collects the inherited variables of a program's starts.
    fn new(
        parts: impl Iterator<Item = &'a PartStart>,
        definition: Option<&'a str>,
    ) -> ProgramEnvironment<'a> {
        let mut all =
            ProgramEnvironment { values: BTreeMap::new(), hashes: BTreeMap::new(), definition };
        for part in parts {
            for (name, value) in &part.inherited {
                all.values.entry(name).or_default().insert(value);
            }
            if let Some(KeyedHashes { key, hashes }) = &part.withheld {
                for (name, hash) in hashes {
                    all.hashes.entry((key, name)).or_default().insert(hash);
                }
            }
        }
        all
    }

    /// Whether all starts have the same value of a variable, or none has it.
    fn is_constant(&self, name: &str) -> bool {
        self.values.get(name).is_none_or(|values| values.len() == 1)
    }

    /// Returns the value of a variable; `None`: not set.
    fn value(&self, name: &str) -> Option<&'a str> {
        self.values.get(name)?.first().copied()
    }
}

/// Returns the differences between the comparable variables of two environments.
fn environment_differences(
    owner: &str,
    a: &ProgramEnvironment<'_>,
    b: &ProgramEnvironment<'_>,
) -> Vec<RunDifference> {
    // Programs that were never started have no variables.
    if a.values.is_empty() || b.values.is_empty() {
        return Vec::new();
    }
    // A variable that only one server has is an unintended difference only if both servers have the
    // same definition.
    let are_comparable = a.definition.is_some() && a.definition == b.definition;
    let is_compared = |name: &&str| {
        let has_both = a.values.contains_key(name) && b.values.contains_key(name);
        (are_comparable || has_both) && a.is_constant(name) && b.is_constant(name)
    };
    let names: BTreeSet<&str> =
        a.values.keys().chain(b.values.keys()).copied().filter(is_compared).collect();
    let difference_of = |name: &str| difference(owner, name, a.value(name), b.value(name));
    let recorded = names.into_iter().filter_map(difference_of);
    // Without the same key the hashes are not comparable. Other definitions set other values, which
    // are no unintended differences.
    let is_withheld_difference = |(id, hashes): &(&(&str, &str), &BTreeSet<&str>)| {
        let (value_a, value_b) = (a.value(id.1), b.value(id.1));
        let other = b.hashes.get(*id).filter(|other| (hashes.len(), other.len()) == (1, 1));
        (are_comparable || value_a.is_some())
            && value_a == value_b
            && other.is_some_and(|other| other != *hashes)
    };
    let withheld = a.hashes.iter().filter(is_withheld_difference).map(|((_, name), _)| {
        RunDifference { name: format!("{owner}: environment variable {name}"), a: None, b: None }
    });
    recorded.chain(withheld).collect()
}

/// Returns the difference of one variable, without values that may be secret; `None`: equal values.
fn difference(owner: &str, name: &str, a: Option<&str>, b: Option<&str>) -> Option<RunDifference> {
    let is_withheld = |value: &str| {
        value.len() > MAX_LENGTH || holds_secret(value) || without_userinfo(value) != value
    };
    let is_visible = !may_be_secret(name) && ![a, b].into_iter().flatten().any(is_withheld);
    let text = |value: Option<&str>| is_visible.then(|| value.unwrap_or("not set").to_string());
    (a != b).then(|| RunDifference {
        name: format!("{owner}: environment variable {name}"),
        a: text(a),
        b: text(b),
    })
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::{Backend, Subject};

    use super::*;
    use crate::compare::{ComparisonOptions, Side, compare};
    use crate::fixture;
    use crate::report::report;

    type Variables<'a> = &'a [(&'a str, &'a str)];

    fn map(variables: Variables<'_>) -> BTreeMap<String, String> {
        variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    /// Returns a run of one server. Each start has its own folder and port.
    fn run(
        id: &str,
        definition: &str,
        inherited: &[&str],
        part: impl Fn(PartStart) -> PartStart,
    ) -> Run {
        let subject = Subject {
            name: "x".into(),
            title: "x".into(),
            definition: Some(definition.into()),
            ..Subject::default()
        };
        let mut run = fixture::blocks_of(vec![subject], 5, |_, block| 200 + u64::from(block));
        run.header.id = id.into();
        run.header.plan.arms[0].conditions.inherit =
            inherited.iter().map(|name| (*name).into()).collect();
        let start = |start: usize| {
            let folder = format!("/tmp/dyno-{id}-{start}");
            let mut subject = part(PartStart::new(Party::SUBJECT, "x".into()));
            let each = [
                ("TMPDIR", folder.clone()),
                ("LOG", format!("{folder}/log")),
                ("PORT", format!("{}", 8000 + id.len())),
                ("PATH", "/bin".into()),
            ];
            subject.environment.extend(each.map(|(name, value)| (name.into(), value)));
            StartRecord { start, launch: start, parts: vec![subject], ..StartRecord::default() }
        };
        run.starts = (0..5).map(start).collect();
        run
    }

    /// Returns a run whose archive records which variables were inherited.
    fn inheriting(id: &str, definition: &str, inherited: Variables<'_>) -> Run {
        run(id, definition, &[], |part| PartStart {
            environment: map(inherited),
            inherited: map(&[inherited, &[("PATH", "/bin")]].concat()),
            ..part
        })
    }

    fn variable_differences(a: &Run, b: &Run) -> Vec<String> {
        let (report_a, report_b) = (report(a), report(b));
        fn side<'a>(run: &'a Run, report: &'a crate::report::Report) -> Side<'a> {
            Side { run, results: report.results(), arm: None }
        }
        let comparison =
            compare(side(a, &report_a), side(b, &report_b), &ComparisonOptions::default());
        let text = |d: RunDifference| match (d.a, d.b) {
            (Some(a), Some(b)) => format!("{}: {a} and {b}", d.name),
            _ => d.name,
        };
        let all = comparison.differences.into_iter().map(text);
        all.filter(|text| text.contains("environment variable")).collect()
    }

    #[test]
    fn inherited_variables_are_compared() {
        let with_delay = |id, us| inheriting(id, "d", &[("DELAY_US", us)]);
        assert_eq!(
            variable_differences(&with_delay("a", "500"), &with_delay("bb", "900")),
            ["x: environment variable DELAY_US: 500 and 900"]
        );
        // Folders and ports of starts are not compared.
        assert!(variable_differences(&with_delay("a", "500"), &with_delay("bb", "500")).is_empty());
        let without = inheriting("bb", "d", &[]);
        assert_eq!(
            variable_differences(&with_delay("a", "500"), &without),
            ["x: environment variable DELAY_US: 500 and not set"]
        );
        // Another definition may inherit other variables. Only variables of both are compared.
        assert!(
            variable_differences(&with_delay("a", "500"), &inheriting("bb", "e", &[])).is_empty()
        );
        let other = inheriting("bb", "e", &[("DELAY_US", "900"), ("SIZE", "1")]);
        assert_eq!(
            variable_differences(&with_delay("a", "500"), &other),
            ["x: environment variable DELAY_US: 500 and 900"]
        );
    }

    #[test]
    fn secret_and_long_values_are_withheld() {
        let long = "x".repeat(MAX_LENGTH + 1);
        let a =
            inheriting("a", "d", &[("API_TOKEN", "one"), ("LIST", &long), ("DB", "pg://u:p@h/d")]);
        let b =
            inheriting("bb", "d", &[("API_TOKEN", "two"), ("LIST", "x"), ("DB", "pg://u:q@h/d")]);
        let names =
            ["API_TOKEN", "DB", "LIST"].map(|name| format!("x: environment variable {name}"));
        assert_eq!(variable_differences(&a, &b), names);
    }

    /// Returns a run in which a withheld variable has the given hash.
    fn withholding(id: &str, definition: &str, key: &str, hash: &str) -> Run {
        run(id, definition, &[], |part| PartStart {
            inherited: map(&[("PATH", "/bin")]),
            withheld: Some(KeyedHashes { key: key.into(), hashes: map(&[("API_KEY", hash)]) }),
            ..part
        })
    }

    #[test]
    fn withheld_values_are_compared_by_hashes_of_one_key() {
        let first = withholding("a", "d", "k", "1");
        let difference = ["x: environment variable API_KEY"];
        assert_eq!(variable_differences(&first, &withholding("bb", "d", "k", "2")), difference);
        for other in [
            withholding("bb", "d", "k", "1"),
            withholding("bb", "d", "another key", "2"),
            withholding("bb", "another definition", "k", "2"),
        ] {
            assert!(variable_differences(&first, &other).is_empty());
        }
        // Inherited variables are compared for other definitions, too.
        let inherited = |definition, hash| {
            let mut run = withholding("bb", definition, "k", hash);
            let parts = run.starts.iter_mut().flat_map(|start| &mut start.parts);
            parts.for_each(|part| part.inherited.extend(map(&[("API_KEY", "(not recorded)")])));
            run
        };
        let (one, two) = (inherited("d", "1"), inherited("e", "2"));
        assert_eq!(variable_differences(&one, &two), difference);
        // The suite sets the variable.
        let suite = |value: &str, hash| {
            let mut run = withholding("bb", "d", "k", hash);
            run.header.plan.arms[0].conditions.env = map(&[("API_KEY", value)]);
            run
        };
        assert!(variable_differences(&suite("v", "1"), &suite("w", "2")).is_empty());
    }

    #[test]
    fn back_ends_with_equal_names_are_compared() {
        let with_backend = |id: &str, size: &str| {
            let mut run = inheriting(id, "d", &[]);
            run.header.plan.backends = vec![Backend {
                name: "db".into(),
                definition: Some("p".into()),
                ..Backend::default()
            }];
            run.header.plan.arms[0].backends = vec![0];
            for start in &mut run.starts {
                let part = PartStart::new(Party::Backend(0), "db".into());
                start.parts.push(PartStart { inherited: map(&[("DB_SIZE", size)]), ..part });
            }
            run
        };
        let (a, b) = (with_backend("a", "1"), with_backend("bb", "2"));
        assert_eq!(
            variable_differences(&a, &b),
            ["x: back end db: environment variable DB_SIZE: 1 and 2"]
        );
        assert!(variable_differences(&a, &with_backend("bb", "1")).is_empty());
    }
}

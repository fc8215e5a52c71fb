//! Variables that the servers of two runs got from dyno's own environment.

use std::collections::{BTreeMap, BTreeSet};

use dyno_archive::run::Run;
use dyno_archive::secret::{holds_secret, may_be_secret, without_userinfo};
use dyno_archive::start::PartStart;
use dyno_archive::{Party, StartRecord};

use super::RunDifference;

/// Variables that every server gets: from dyno's own environment, or a constant in its place.
const OF_EACH: [&str; 3] = ["PATH", "HOME", "LANG"];

/// Longer values are not shown.
const LONGEST: usize = 100;

/// An arm of a run.
type ArmOf<'a> = (&'a Run, usize);

/// Returns the variables that differ between two arms of two runs, or between their back ends of
/// the same name.
pub(super) fn differences(whose: &str, a: ArmOf<'_>, b: ArmOf<'_>) -> Vec<RunDifference> {
    let mut all = differing(whose, &ProgramEnvironment::to_arm(a), &ProgramEnvironment::to_arm(b));
    let (plan_a, plan_b) = (&a.0.header.plan, &b.0.header.plan);
    for own in &plan_a.arms[a.1].backends {
        let name = &plan_a.backends[*own].name;
        let mut others = plan_b.arms[b.1].backends.iter();
        if let Some(other) = others.find(|other| plan_b.backends[**other].name == *name) {
            let whose = format!("{whose}: back end {name}");
            all.extend(differing(
                &whose,
                &ProgramEnvironment::to_backend(a, *own),
                &ProgramEnvironment::to_backend(b, *other),
            ));
        }
    }
    all
}

/// Environment of one program of a run, over all of its starts.
struct ProgramEnvironment<'a> {
    /// By name of the variable. More than one value: parts of the run differ, which is reported of
    /// the run itself.
    values: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Hash of what it is started by.
    definition: Option<&'a str>,
    /// Whether the archive says which variables were inherited. If not, those that every server
    /// gets and those that the suite lets in are known to be.
    is_recorded: bool,
}

impl<'a> ProgramEnvironment<'a> {
    fn to_arm((run, arm): ArmOf<'a>) -> ProgramEnvironment<'a> {
        let plan = &run.header.plan;
        let part = |start: &'a StartRecord| {
            let party = plan.launches[start.launch].party_of(arm)?;
            start.part(party)
        };
        let parts = run.starts.iter().filter_map(part);
        ProgramEnvironment::new(
            parts,
            plan.subject_of(arm).definition.as_deref(),
            &plan.arms[arm].conditions.inherit,
        )
    }

    fn to_backend((run, arm): ArmOf<'a>, backend: usize) -> ProgramEnvironment<'a> {
        let plan = &run.header.plan;
        let starts =
            run.starts.iter().filter(|start| plan.launches[start.launch].arms.contains(&arm));
        let parts = starts.filter_map(|start| start.part(Party::Backend(backend)));
        ProgramEnvironment::new(parts, plan.backends[backend].definition.as_deref(), &[])
    }

    fn new(
        parts: impl Iterator<Item = &'a PartStart>,
        definition: Option<&'a str>,
        let_in: &[String],
    ) -> ProgramEnvironment<'a> {
        let is_inherited = |name: &str| {
            OF_EACH.contains(&name) || let_in.iter().any(|pattern| covers(pattern, name))
        };
        let mut given =
            ProgramEnvironment { values: BTreeMap::new(), definition, is_recorded: false };
        for part in parts {
            given.is_recorded |= !part.inherited.is_empty();
            for (name, value) in part.inherited_variables(is_inherited) {
                given.values.entry(name).or_default().insert(value);
            }
        }
        given
    }

    fn is_steady(&self, name: &str) -> bool {
        self.values.get(name).is_none_or(|values| values.len() == 1)
    }

    fn value(&self, name: &str) -> Option<&'a str> {
        self.values.get(name)?.first().copied()
    }
}

/// Whether an entry of `inherit` lets in a variable.
fn covers(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

fn differing(
    whose: &str,
    a: &ProgramEnvironment<'_>,
    b: &ProgramEnvironment<'_>,
) -> Vec<RunDifference> {
    // Archives of loads without a suite have no starts, and very old ones no environment.
    if a.values.is_empty() || b.values.is_empty() {
        return Vec::new();
    }
    // A variable that one of two servers does not ask for is a difference of the servers.
    let are_one =
        a.definition.is_some() && (a.definition, a.is_recorded) == (b.definition, b.is_recorded);
    let is_compared = |name: &&str| {
        let has_both = a.values.contains_key(name) && b.values.contains_key(name);
        (are_one || has_both) && a.is_steady(name) && b.is_steady(name)
    };
    let names: BTreeSet<&str> =
        a.values.keys().chain(b.values.keys()).copied().filter(is_compared).collect();
    let of_name = |name: &str| difference(whose, name, a.value(name), b.value(name));
    names.into_iter().filter_map(of_name).collect()
}

fn difference(whose: &str, name: &str, a: Option<&str>, b: Option<&str>) -> Option<RunDifference> {
    let is_withheld = |value: &str| {
        value.len() > LONGEST || holds_secret(value) || without_userinfo(value) != value
    };
    let is_shown = !may_be_secret(name) && ![a, b].into_iter().flatten().any(is_withheld);
    let shown = |value: Option<&str>| is_shown.then(|| value.unwrap_or("not set").to_string());
    (a != b).then(|| RunDifference {
        what: format!("{whose}: environment variable {name}"),
        a: shown(a),
        b: shown(b),
    })
}

#[cfg(test)]
mod tests {
    use dyno_archive::plan::{Backend, Subject};

    use super::*;
    use crate::compare::{ComparisonOptions, Side, compare};
    use crate::fixture;
    use crate::report::report;

    type Variables<'a> = &'a [(&'a str, &'a str)];

    fn map(variables: Variables<'_>) -> BTreeMap<String, String> {
        variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    /// A run of one server whose starts have a folder and a port of their own.
    fn run(
        id: &str,
        definition: &str,
        let_in: &[&str],
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
            let_in.iter().map(|name| (*name).into()).collect();
        let start = |start: usize| {
            let folder = format!("/tmp/dyno-{id}-{start}");
            let mut own = part(PartStart::new(Party::SUBJECT, "x".into()));
            let each = [
                ("TMPDIR", folder.clone()),
                ("LOG", format!("{folder}/log")),
                ("PORT", format!("{}", 8000 + id.len())),
                ("PATH", "/bin".into()),
            ];
            own.environment.extend(each.map(|(name, value)| (name.into(), value)));
            StartRecord { start, launch: start, parts: vec![own], ..StartRecord::default() }
        };
        run.starts = (0..5).map(start).collect();
        run
    }

    /// A run by a dyno that keeps apart what was inherited.
    fn inheriting(id: &str, definition: &str, inherited: Variables<'_>) -> Run {
        run(id, definition, &[], |part| PartStart {
            environment: map(inherited),
            inherited: map(&[inherited, &[("PATH", "/bin")]].concat()),
            ..part
        })
    }

    fn variable_differences(a: &Run, b: &Run) -> Vec<String> {
        let (of_a, of_b) = (report(a), report(b));
        let side = |run, report| Side { run, report, arm: None };
        let compared = compare(side(a, &of_a), side(b, &of_b), &ComparisonOptions::default());
        let shown = |d: RunDifference| match (d.a, d.b) {
            (Some(a), Some(b)) => format!("{}: {a} and {b}", d.what),
            _ => d.what,
        };
        let all = compared.differences.into_iter().map(shown);
        all.filter(|what| what.contains("environment variable")).collect()
    }

    #[test]
    fn inherited_variables_of_two_runs_are_compared() {
        let delay = |id, us| inheriting(id, "d", &[("DELAY_US", us)]);
        assert_eq!(
            variable_differences(&delay("a", "500"), &delay("bb", "900")),
            ["x: environment variable DELAY_US: 500 and 900"]
        );
        // Folders and ports of starts are no difference.
        assert!(variable_differences(&delay("a", "500"), &delay("bb", "500")).is_empty());
        let without = inheriting("bb", "d", &[]);
        assert_eq!(
            variable_differences(&delay("a", "500"), &without),
            ["x: environment variable DELAY_US: 500 and not set"]
        );
        // Another definition asks for other variables. What both ask for is compared.
        assert!(variable_differences(&delay("a", "500"), &inheriting("bb", "e", &[])).is_empty());
        let other = inheriting("bb", "e", &[("DELAY_US", "900"), ("SIZE", "1")]);
        assert_eq!(
            variable_differences(&delay("a", "500"), &other),
            ["x: environment variable DELAY_US: 500 and 900"]
        );
    }

    #[test]
    fn older_archives_compare_what_the_suite_lets_in() {
        let of = |id, variables: Variables<'_>| {
            run(id, "d", &["DELAY_US", "APP_*"], |part| PartStart {
                environment: map(variables),
                ..part
            })
        };
        let a = of("a", &[("DELAY_US", "500"), ("APP_MODE", "x"), ("HOME", "/root"), ("OWN", "1")]);
        let b =
            of("bb", &[("DELAY_US", "900"), ("APP_MODE", "y"), ("HOME", "/home/u"), ("OWN", "2")]);
        assert_eq!(
            variable_differences(&a, &b),
            [
                "x: environment variable APP_MODE: x and y",
                "x: environment variable DELAY_US: 500 and 900",
                "x: environment variable HOME: /root and /home/u",
            ]
        );
        // An archive that says what was inherited, and one that does not: what both have.
        let newer = inheriting("ccc", "d", &[("DELAY_US", "500"), ("OWN", "3"), ("HOME", "/root")]);
        assert!(variable_differences(&a, &newer).is_empty());
    }

    #[test]
    fn values_that_may_be_secret_or_are_long_are_withheld() {
        let long = "x".repeat(LONGEST + 1);
        let a =
            inheriting("a", "d", &[("API_TOKEN", "one"), ("LIST", &long), ("DB", "pg://u:p@h/d")]);
        let b =
            inheriting("bb", "d", &[("API_TOKEN", "two"), ("LIST", "x"), ("DB", "pg://u:q@h/d")]);
        let names =
            ["API_TOKEN", "DB", "LIST"].map(|name| format!("x: environment variable {name}"));
        assert_eq!(variable_differences(&a, &b), names);
    }

    #[test]
    fn back_ends_of_one_name_are_compared() {
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

//! Differences between the environment variables of a run's servers and those of its resumption.

use std::collections::BTreeSet;

use dyno_launch::keyed_hashes::KeyFile;
use dyno_model::run::Run;
use dyno_model::start::PartStart;
use dyno_model::{Party, ResumptionDifference, StartRecord};
use dyno_subject::definition::Definition;
use dyno_suite::plan::Planned;

use super::{InputComparison, difference};

impl InputComparison {
    /// Compares the variables of all arms and back ends with those of the run's first part.
    pub(super) fn add_environments(&mut self, run: &Run, planned: &Planned, key: &KeyFile) {
        let plan = &run.header.plan;
        for (arm, definition) in planned.arms.iter().enumerate() {
            let has_arm = |start: &StartRecord| plan.launches[start.launch].arms.contains(&arm);
            let parts = run.starts.iter().filter(|s| has_arm(s)).filter_map(StartRecord::subject);
            self.add_environment(&plan.arms[arm].name, parts, definition, key);
        }
        for (i, definition) in planned.backends.iter().enumerate() {
            let parts = run.starts.iter().filter_map(|start| start.part(Party::Backend(i)));
            let owner = format!("back end {}", plan.backends[i].name);
            self.add_environment(&owner, parts, definition, key);
        }
    }

    /// Compares the variables of an arm or a back end. `owner`: its name.
    fn add_environment<'a>(
        &mut self,
        owner: &str,
        mut parts: impl Iterator<Item = &'a PartStart>,
        definition: &Definition,
        key: &KeyFile,
    ) {
        if let Some(part) = parts.find(|part| !part.environment.is_empty()) {
            self.differences.extend(compare_inherited(owner, part, definition));
            self.add_withheld(owner, part, definition, key);
        }
    }

    /// Compares the values that archives withhold, by their hashes. A variable that only one of the
    /// parts has is another difference, in the definition or in the inherited variables.
    fn add_withheld(
        &mut self,
        owner: &str,
        part: &PartStart,
        definition: &Definition,
        key: &KeyFile,
    ) {
        let mut variables = definition.withheld_variables();
        variables.retain(|name, _| part.environment.contains_key(name));
        let hashes = key.hashes(&variables);
        let before = part.withheld.as_ref();
        let comparable = before.zip(hashes).filter(|(before, now)| before.key == now.key);
        let Some((before, now)) = comparable else {
            self.uncompared.extend(variables.keys().map(|name| format!("{owner}: {name}")));
            return;
        };
        for (name, hash) in &now.hashes {
            if before.hashes.get(name).is_some_and(|before| before != hash) {
                let name = format!("{owner}, environment variable {name}");
                self.differences.push(difference(name, "a withheld value", "another value"));
            }
        }
    }
}

/// Returns the differences in the variables that an arm or a back end inherits from dyno's own
/// environment, as records show them. `owner`: name of the arm or back end.
fn compare_inherited(
    owner: &str,
    part: &PartStart,
    definition: &Definition,
) -> Vec<ResumptionDifference> {
    let now = definition.inherited_variables();
    let before = &part.inherited;
    let names: BTreeSet<&str> = before.keys().chain(now.keys()).map(String::as_str).collect();
    let text = |value: Option<&str>| value.unwrap_or("not set").to_string();
    let variable_difference = |name: &str| {
        let (before, now) = [before, &now].map(|all| all.get(name).map(String::as_str)).into();
        let description = || format!("{owner}, environment variable {name}");
        (before != now).then(|| difference(description(), text(before), text(now)))
    };
    names.into_iter().filter_map(variable_difference).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns a definition that sets a variable.
    fn definition(folder: &Path, name: &str, value: &str) -> Definition {
        let text = format!(
            "language = \"C\"\nprotocols = [\"h1\"]\n[start]\ncommand = [\"x\", \"{{port}}\"]\n\
             env = {{ {name} = \"{value}\" }}\n"
        );
        std::fs::write(folder.join("subject.toml"), text).unwrap();
        Definition::read(folder).unwrap()
    }

    /// Returns the record of a start.
    fn part(definition: &Definition, key: &KeyFile) -> PartStart {
        let mut part = PartStart::new(Party::SUBJECT, "x".into());
        let names = definition.start.env.keys();
        part.environment = names.map(|name| (name.clone(), "(not recorded)".into())).collect();
        part.inherited = definition.inherited_variables();
        part.withheld = key.hashes(&definition.withheld_variables());
        part
    }

    /// Both definitions have the same fingerprint.
    #[test]
    fn changed_value_is_difference_although_it_is_withheld() {
        let root = tempfile::tempdir().unwrap();
        let key = |folder: &str| KeyFile::in_folder(&root.path().join(folder));
        let compare = |before: (&str, &str), now: (&str, &str), keys: [&str; 2]| {
            let [then, now_key] = keys.map(key);
            let first = definition(root.path(), before.0, before.1);
            let part = part(&first, &then);
            let second = definition(root.path(), now.0, now.1);
            let mut comparison = InputComparison::default();
            comparison.add_environment("x", std::iter::once(&part), &second, &now_key);
            let names: Vec<String> =
                comparison.differences.iter().map(|difference| difference.name.clone()).collect();
            let text = format!("{comparison:?}");
            assert!(!text.contains("hunter"), "{text}");
            (names.join(", "), comparison.uncompared.join(", "))
        };
        let changed = |name: &str| (format!("x, environment variable {name}"), String::new());
        let equal = (String::new(), String::new());
        let uncompared = |name: &str| (String::new(), format!("x: {name}"));
        let cache = |value| ("BYPASS_CACHE", value);
        assert_eq!(compare(cache("0"), cache("1"), ["a", "a"]), changed("BYPASS_CACHE"));
        assert_eq!(compare(cache("1"), cache("1"), ["a", "a"]), equal);
        let address = |password| ("DB", password);
        let (one, two) = (address("http://me:hunter1@db/"), address("http://me:hunter2@db/"));
        assert_eq!(compare(one, two, ["a", "a"]), changed("DB"));
        // Another user, a state folder that cannot be written, or an archive without hashes.
        std::fs::write(root.path().join("file"), "").unwrap();
        for keys in [["a", "b"], ["a", "file/x"], ["file/x", "a"]] {
            assert_eq!(compare(cache("1"), cache("1"), keys), uncompared("BYPASS_CACHE"));
        }
        // The other comparisons show new variables, and values that are recorded.
        assert_eq!(compare(("LEVEL", "1"), cache("1"), ["a", "a"]), equal);
        assert_eq!(compare(("LEVEL", "1"), ("LEVEL", "2"), ["a", "b"]), equal);
    }
}

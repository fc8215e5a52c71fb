//! Checks whether this machine meets the requirements of definitions (`[[requires]]`). Subjects
//! with unmet requirements are skipped.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

use dyno_launch::environment::Environment;
use dyno_launch::supervision::Supervision;
use dyno_launch::tool::ToolOutput;

use super::{Definition, Require};
use crate::build;

/// Runs the tests of requirements, each once. Variants share the tests of their subject, and some
/// tests take a second.
#[derive(Debug)]
pub struct Prerequisites<'a> {
    supervision: &'a Supervision<'a>,
    results: RefCell<HashMap<RequirementTest, ToolOutput>>,
}

/// All inputs that decide the result of a test.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RequirementTest {
    command: String,
    folder: PathBuf,
    environment: Environment,
}

impl<'a> Prerequisites<'a> {
    #[must_use]
    pub fn new(supervision: &'a Supervision<'a>) -> Prerequisites<'a> {
        Prerequisites { supervision, results: RefCell::default() }
    }

    /// Returns a sentence on the first unmet requirement of a definition. `None`: all are met.
    #[must_use]
    pub fn unmet_need(&self, definition: &Definition) -> Option<String> {
        self.unmet_needs(definition).next().map(|(_, sentence)| sentence)
    }

    /// Returns the unmet requirements of a definition, each with a sentence for the user.
    pub fn unmet_needs<'b>(
        &'b self,
        definition: &'b Definition,
    ) -> impl Iterator<Item = (&'b Require, String)> + use<'a, 'b> {
        definition.requires.iter().filter_map(move |require| {
            let sentence = match self.run_test(definition, require) {
                ToolOutput::Ended { status, .. } if status.success() => return None,
                ToolOutput::Ended { .. } => {
                    format!("{} is missing. {}", require.name, require.hint)
                }
                ToolOutput::Unfinished(reason) => format!(
                    "{} may be missing. The test `{}` {reason}. {}",
                    require.name, require.test, require.hint
                ),
            };
            Some((require, sentence))
        })
    }

    /// Runs the test of a requirement, or returns its earlier result.
    fn run_test(&self, definition: &Definition, require: &Require) -> ToolOutput {
        let command = match build::requirement_test(definition, require) {
            Ok(command) => command,
            Err(reason) => return ToolOutput::Unfinished(format!("cannot be run: {reason}")),
        };
        let test = RequirementTest {
            command,
            folder: definition.folder.clone(),
            environment: definition.tool_environment(),
        };
        if let Some(result) = self.results.borrow().get(&test) {
            return result.clone();
        }
        let result = definition.query_tool(&test.command, require.deadline, self.supervision);
        self.results.borrow_mut().insert(test, result.clone());
        result
    }
}

#[cfg(test)]
mod tests {
    use dyno_launch::guard::Guard;
    use dyno_launch::supervision::Interrupts;

    use super::*;

    #[test]
    fn placeholders_of_test_are_filled() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        std::fs::create_dir(&folder).unwrap();
        let read = |test: &str| {
            let file = format!(
                "language = \"C\"\nprotocols = [\"h1\"]\n[[requires]]\nname = \"tool\"\ntest = \
                 {test:?}\nhint = \"Get it.\"\n[start]\ncommand = [\"x\", \"{{port}}\"]\n"
            );
            std::fs::write(folder.join("subject.toml"), file).unwrap();
            Definition::read(&folder)
        };
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let definition = read("test -f {dir}/subject.toml && test {{dir}} = '{'dir'}'").unwrap();
        assert_eq!(Prerequisites::new(&supervision).unmet_need(&definition), None);
        for (test, problem) in [("ls {dri}", "{dri}"), ("{out}/server -v", "before the build")] {
            assert!(read(test).unwrap_err().to_string().contains(problem), "{test}");
        }
    }

    #[test]
    fn shared_test_of_variants_runs_once() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        std::fs::create_dir(&folder).unwrap();
        let file = "language = \"C\"\nprotocols = [\"h1\"]\n[[requires]]\nname = \"tool\"\ntest = \
                    \"echo >>asked\"\nhint = \"Get it.\"\n[start]\ncommand = [\"x\", \
                    \"{port}\"]\n[variants.a]\ntitle = \"A\"\n[variants.b]\nbuild = { command = \
                    \"true\", inputs = [], env = { CHOOSES = \"another\" } }\n";
        std::fs::write(folder.join("subject.toml"), file).unwrap();
        let plain = Definition::read(&folder).unwrap();
        // The guard of a test is this test program, which ends immediately with the unknown
        // argument.
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let prerequisites = Prerequisites::new(&supervision);
        let run_count = || std::fs::read_to_string(folder.join("asked")).unwrap().lines().count();
        for definition in [&plain, &plain.with_variant("a").unwrap(), &plain] {
            assert_eq!(prerequisites.unmet_need(definition), None);
        }
        assert_eq!(run_count(), 1);
        // Another build environment may give another result.
        assert_eq!(prerequisites.unmet_need(&plain.with_variant("b").unwrap()), None);
        assert_eq!(run_count(), 2);
    }
}

//! Checks of the requirements of definitions on this machine.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

use dyno_launch::environment::Environment;
use dyno_launch::supervision::Supervision;
use dyno_launch::tool::ToolAnswer;

use super::{Definition, Require};

/// Tests of needs. Each is run once even if several definitions have it: variants share those of
/// their subject, and some take a second.
#[derive(Debug)]
pub struct Prerequisites<'a> {
    supervision: &'a Supervision<'a>,
    answers: RefCell<HashMap<Test, ToolAnswer>>,
}

/// All inputs that decide the result of a test.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Test {
    command: String,
    folder: PathBuf,
    environment: Environment,
}

impl<'a> Prerequisites<'a> {
    #[must_use]
    pub fn new(supervision: &'a Supervision<'a>) -> Prerequisites<'a> {
        Prerequisites { supervision, answers: RefCell::default() }
    }

    /// Returns the first unmet need of a definition, as a sentence with a hint.
    #[must_use]
    pub fn unmet_need(&self, definition: &Definition) -> Option<String> {
        self.all_unmet(definition).next().map(|(_, sentence)| sentence)
    }

    /// Returns the unmet needs of a definition, each with its sentence.
    pub fn all_unmet<'b>(
        &'b self,
        definition: &'b Definition,
    ) -> impl Iterator<Item = (&'b Require, String)> + use<'a, 'b> {
        definition.requires.iter().filter_map(move |require| {
            let sentence = match self.answer(definition, require) {
                ToolAnswer::Ended { status, .. } if status.success() => return None,
                ToolAnswer::Ended { .. } => {
                    format!("{} is missing. {}", require.name, require.hint)
                }
                ToolAnswer::None(why) => format!(
                    "{} may be missing, because its test `{}` {why}. {}",
                    require.name, require.test, require.hint
                ),
            };
            Some((require, sentence))
        })
    }

    fn answer(&self, definition: &Definition, require: &Require) -> ToolAnswer {
        let test = Test {
            command: require.test.clone(),
            folder: definition.folder.clone(),
            environment: definition.environment_of_tools(),
        };
        if let Some(known) = self.answers.borrow().get(&test) {
            return known.clone();
        }
        let answer = definition.ask(&require.test, require.deadline, self.supervision);
        self.answers.borrow_mut().insert(test, answer.clone());
        answer
    }
}

#[cfg(test)]
mod tests {
    use dyno_launch::guard::Guard;
    use dyno_launch::supervision::Interrupts;

    use super::*;

    #[test]
    fn test_that_variants_share_is_run_once() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        std::fs::create_dir(&folder).unwrap();
        let file = "language = \"C\"\nprotocols = [\"h1\"]\n[[requires]]\nname = \"tool\"\ntest = \
                    \"echo >>asked\"\nhint = \"Get it.\"\n[start]\ncommand = [\"x\", \
                    \"{port}\"]\n[variants.a]\ntitle = \"A\"\n[variants.b]\nbuild = { command = \
                    \"true\", inputs = [], env = { CHOOSES = \"another\" } }\n";
        std::fs::write(folder.join("subject.toml"), file).unwrap();
        let plain = Definition::read(&folder).unwrap();
        // The guard of a test is this test program, which ends at once with the unknown argument.
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let here = Prerequisites::new(&supervision);
        let asked = || std::fs::read_to_string(folder.join("asked")).unwrap().lines().count();
        for definition in [&plain, &plain.with_variant("a").unwrap(), &plain] {
            assert_eq!(here.unmet_need(definition), None);
        }
        assert_eq!(asked(), 1);
        // Another build environment may give another result.
        assert_eq!(here.unmet_need(&plain.with_variant("b").unwrap()), None);
        assert_eq!(asked(), 2);
    }
}

//! Checks out revisions of a server, each into a temporary work tree, so that a run can compare
//! them.

use std::io;
use std::path::{Path, PathBuf};

use dyno_launch::environment::{DynoVariables, Environment};
use dyno_launch::folder;
use dyno_launch::guard::Guard;
use dyno_launch::supervision::{Interrupts, Supervision};
use dyno_launch::tool::{ToolCommand, ToolOutput};
use dyno_model::plan::{Revision, Subject};
use dyno_subject::definition::Role;
use dyno_subject::definition::find::Folders;

use crate::limits::CHECKOUT_TIMEOUT;
use dyno_suite::revision_folders::{RevisionFolders, WORK_TREE};

/// Reason why a revision is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevisionError {
    /// The repository has no such revision, or the revision lacks the server.
    InvalidRequest(String),
    /// Git is missing, was interrupted, or failed.
    Failed(String),
}

impl RevisionError {
    /// Returns the error of an invalid request with another message. Other errors are unchanged.
    fn with_message(self, message: impl Fn(&str) -> String) -> RevisionError {
        match self {
            RevisionError::InvalidRequest(reason) => {
                RevisionError::InvalidRequest(message(&reason))
            }
            failed @ RevisionError::Failed(_) => failed,
        }
    }

    /// Returns the error as a failure of git, with this message. For git commands on revisions that
    /// were found to exist: an error of such a command is not a mistake of the user.
    fn into_git_failure(self, message: impl Fn(&str) -> String) -> RevisionError {
        let (RevisionError::InvalidRequest(reason) | RevisionError::Failed(reason)) = self;
        RevisionError::Failed(message(&reason))
    }
}

/// The repository with the definition of a server.
#[derive(Debug)]
pub struct Repository {
    name: String,
    root: PathBuf,
    /// Path of the server's definition in the repository.
    subject: PathBuf,
}

impl Repository {
    /// Returns the repository with the definition of a subject.
    ///
    /// # Errors
    /// There is no such definition, or the definition is not in a repository.
    pub fn from_subject(
        name: &str,
        folders: &Folders,
        supervision: &Supervision<'_>,
    ) -> Result<Repository, RevisionError> {
        let mut candidates = folders.0.iter().map(|folder| folder.join(name));
        let Some(folder) = candidates.find(|folder| folder.join(Role::Subject.file()).is_file())
        else {
            return Err(RevisionError::InvalidRequest(format!(
                "{name}: no subject with this name found, so there are no revisions to compare\
                 \nhint: use the name of a subject's folder, or set the folder of all subjects \
                 with --subjects"
            )));
        };
        let io_error =
            |error: io::Error| RevisionError::Failed(format!("{}: {error}", folder.display()));
        let folder = folder.canonicalize().map_err(io_error)?;
        let root =
            git(&folder, "rev-parse --show-toplevel", &[], supervision).map_err(|error| {
                error.with_message(|reason| {
                    format!(
                        "{name}: cannot be compared by revision, because git failed in {}: \
                         {reason}\nhint: --rev needs the server's folder in a Git repository",
                        folder.display()
                    )
                })
            })?;
        let root = Path::new(&root).canonicalize().map_err(io_error)?;
        let subject = folder.strip_prefix(&root);
        let subject = subject.map_err(|_| {
            RevisionError::InvalidRequest(format!(
                "{}: not in the repository {}",
                folder.display(),
                root.display()
            ))
        })?;
        Ok(Repository { name: name.into(), subject: subject.into(), root })
    }

    /// Returns the commits of one or two names, which are compared with each other, or with the
    /// work tree.
    ///
    /// # Errors
    /// There is no such commit, or the names cannot be compared.
    pub fn commits(
        &self,
        names: &[String],
        supervision: &Supervision<'_>,
    ) -> Result<Vec<String>, RevisionError> {
        if names.len() > 2 {
            return Err(RevisionError::InvalidRequest(format!(
                "--rev: given {} times, but at most two revisions can be compared\nhint: keep one \
                 or two of the --rev options",
                names.len()
            )));
        }
        let commits = names.iter().map(|name| self.commit(name, supervision));
        let commits = commits.collect::<Result<Vec<String>, _>>()?;
        if let [a, b] = &commits[..]
            && a == b
        {
            return Err(RevisionError::InvalidRequest(format!(
                "--rev {} and --rev {}: are the same commit, {a:.12}\nhint: remove one --rev to \
                 compare the other with the work tree",
                names[0], names[1]
            )));
        }
        if let Some(index) = names.iter().position(|name| name == WORK_TREE) {
            return Err(RevisionError::InvalidRequest(format!(
                "--rev {WORK_TREE}: this name is reserved for uncommitted files\nhint: write the \
                 revision as {:.12}",
                commits[index]
            )));
        }
        Ok(commits)
    }

    /// Returns the commit of a name.
    fn commit(&self, name: &str, supervision: &Supervision<'_>) -> Result<String, RevisionError> {
        // A name that begins with a dash is not read as an option. A tag or a branch is resolved to
        // its commit.
        const COMMAND: &str = "rev-parse --verify --quiet --end-of-options \"$REVISION^{commit}\"";
        let commit = git(&self.root, COMMAND, &[("REVISION", name)], supervision);
        commit.map_err(|error| {
            error.with_message(|_| {
                format!(
                    "{name:?}: not a commit of the repository {}\nhint: list commits with `git \
                     log`, and branches with `git branch`",
                    self.root.display()
                )
            })
        })
    }

    /// Returns whether the work tree has uncommitted changes, according to git.
    #[must_use]
    pub fn is_changed(&self, supervision: &Supervision<'_>) -> bool {
        // Without this option, `status` would write to the repository.
        const COMMAND: &str = "--no-optional-locks status --porcelain";
        git(&self.root, COMMAND, &[], supervision).is_ok_and(|changes| !changes.is_empty())
    }

    /// Returns whether files of the server's folder that Git tracks differ between two commits, or
    /// between one commit and the work tree. Files such as `*.lock` and `*.db` are included, which
    /// dyno otherwise ignores because servers write them.
    ///
    /// # Errors
    /// Git failed.
    pub fn has_changed_folder(
        &self,
        commits: &[String],
        supervision: &Supervision<'_>,
    ) -> Result<bool, RevisionError> {
        // Without this option, `diff` would write to the repository.
        const COMMAND: &str = "--no-optional-locks diff --no-ext-diff --name-only";
        let command = format!("{COMMAND} {} -- \":(literal)$FOLDER\"", commits.join(" "));
        let folder = self.subject.to_str().filter(|folder| !folder.is_empty()).unwrap_or(".");
        let changes = git(&self.root, &command, &[("FOLDER", folder)], supervision)?;
        Ok(!changes.is_empty())
    }
}

/// Work trees in addition to the user's own. Dropping the value removes these work trees from disk
/// and from Git's list.
#[derive(Debug)]
pub struct WorkTrees<'a> {
    repository: &'a Repository,
    folder: PathBuf,
    trees: Vec<PathBuf>,
    guard: &'a Guard,
}

impl<'a> WorkTrees<'a> {
    /// # Errors
    /// The folder for the work trees cannot be created.
    pub fn new(repository: &'a Repository, guard: &'a Guard) -> io::Result<WorkTrees<'a>> {
        let trees =
            WorkTrees { folder: guard.make_folder(KIND)?, repository, trees: Vec::new(), guard };
        trees.sweep();
        Ok(trees)
    }

    /// Removes the work trees of killed dyno processes from Git's list. The folders of these work
    /// trees no longer exist.
    fn sweep(&self) {
        let interrupts = Interrupts::new();
        let supervision = Supervision { guard: self.guard, interrupts: &interrupts };
        let listed = git(&self.repository.root, "worktree list --porcelain", &[], &supervision);
        let listed = listed.unwrap_or_default();
        let trees = listed.lines().filter_map(|line| line.strip_prefix("worktree "));
        trees
            .filter(|tree| is_stale(Path::new(tree)))
            .for_each(|tree| self.remove(tree, &supervision));
    }

    fn remove(&self, tree: &str, supervision: &Supervision<'_>) {
        // The second `--force` also removes a locked work tree. If git is killed while it creates a
        // work tree, the work tree stays locked.
        const COMMAND: &str = "worktree remove --force --force \"$TREE\"";
        // An error is ignored, because remaining files are harmless, and the next run removes them.
        let _ = git(&self.repository.root, COMMAND, &[("TREE", tree)], supervision);
    }

    /// Checks out a commit into a new work tree.
    ///
    /// # Errors
    /// Git refuses, or the commit lacks the subject.
    pub fn add(
        &mut self,
        revision: Revision,
        folders: &Folders,
        supervision: &Supervision<'_>,
    ) -> Result<RevisionFolders, RevisionError> {
        let Revision { name, commit } = &revision;
        let tree = self.folder.join(self.trees.len().to_string());
        let path = tree.to_string_lossy().into_owned();
        let commit = commit.as_deref().unwrap_or(name);
        self.trees.push(tree.clone());
        const COMMAND: &str = "worktree add --quiet --detach \"$TREE\" \"$COMMIT\"";
        let variables = [("TREE", path.as_str()), ("COMMIT", commit)];
        git(&self.repository.root, COMMAND, &variables, supervision).map_err(|error| {
            error.into_git_failure(|reason| {
                format!("revision {name}: cannot be checked out: {reason}")
            })
        })?;
        let definition = self.repository.subject.join(Role::Subject.file());
        if !tree.join(&definition).is_file() {
            return Err(RevisionError::InvalidRequest(format!(
                "revision {name}: has no {}, so this revision of the server cannot be started",
                definition.display()
            )));
        }
        let contracts = folders.clone();
        let folders = Folders(self.folders_in_tree(&tree, folders));
        self.check_is_in_tree(&tree, &folders)?;
        Ok(RevisionFolders { revision, folders, contracts })
    }

    /// Returns the folders of subjects within a work tree. Folders outside of the repository are
    /// unchanged.
    fn folders_in_tree(&self, tree: &Path, folders: &Folders) -> Vec<PathBuf> {
        let in_tree = folders.0.iter().map(|folder| {
            let path_in_tree = folder
                .canonicalize()
                .ok()
                .and_then(|f| Some(tree.join(f.strip_prefix(&self.repository.root).ok()?)));
            path_in_tree.unwrap_or_else(|| folder.clone())
        });
        in_tree.collect()
    }

    /// Checks that the server is in the work tree. Otherwise the present state of its files would
    /// be measured. A server is outside of the work tree if its folder is the root of its
    /// repository, or a link that leads out of the repository.
    fn check_is_in_tree(&self, tree: &Path, folders: &Folders) -> Result<(), RevisionError> {
        let name = &self.repository.name;
        let mut candidates = folders.0.iter().map(|folder| folder.join(name));
        let server = candidates.find(|folder| folder.join(Role::Subject.file()).is_file());
        let server = server.and_then(|folder| folder.canonicalize().ok());
        if let Some(server) = server
            && tree.canonicalize().is_ok_and(|tree| server.starts_with(tree))
        {
            return Ok(());
        }
        Err(RevisionError::InvalidRequest(format!(
            "{name}: is outside of the repository {}, because its folder is a link or the root of \
             another repository\nhint: move the folder of the server into a folder of subjects \
             within the repository",
            self.repository.root.display()
        )))
    }
}

impl Drop for WorkTrees<'_> {
    fn drop(&mut self) {
        // A new counter of interrupts, because the work trees are removed even after an interrupt.
        let interrupts = Interrupts::new();
        let supervision = Supervision { guard: self.guard, interrupts: &interrupts };
        // If a folder is still mounted in a work tree, Git would remove the files of that folder.
        if self.folder.exists() && folder::unmount_below(&self.folder).is_err() {
            return;
        }
        for tree in &self.trees {
            self.remove(&tree.to_string_lossy(), &supervision);
        }
        if folder::remove(&self.folder).is_ok() {
            self.guard.forget_folder(&self.folder);
        }
    }
}

/// Checks that both revisions were built and can run on this machine. Also checks that their
/// definitions or build inputs differ, if `may_be_equal` is false.
///
/// # Errors
/// A revision cannot be measured, or both are equal.
pub fn check_subjects(
    subjects: &[Subject],
    names: &[String],
    may_be_equal: bool,
) -> Result<(), RevisionError> {
    let [a, b] = subjects else { return Ok(()) };
    for (subject, name) in [a, b].into_iter().zip(names) {
        if let Some(reason) = subject.build_failed.as_ref().or(subject.skipped.as_ref()) {
            return Err(RevisionError::Failed(format!("{name}: cannot be measured: {reason}")));
        }
    }
    let inputs = |subject: &Subject| subject.build.as_ref().map(|build| build.inputs.clone());
    if may_be_equal || (&a.definition, inputs(a)) != (&b.definition, inputs(b)) {
        return Ok(());
    }
    Err(RevisionError::InvalidRequest(format!(
        "{}: the server's folder and definition are the same in {} and {}\nhint: if the server \
         uses changed files outside of the folder, measure both revisions with --anyway",
        a.name, names[0], names[1]
    )))
}

/// Kind of the temporary folder.
const KIND: &str = "revisions";

/// Returns whether a work tree was created by dyno and its folder no longer exists.
fn is_stale(tree: &Path) -> bool {
    let folder =
        tree.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let is_ours = |name: &String| name.starts_with("dyno-") && name.contains(&format!("-{KIND}-"));
    folder.as_ref().is_some_and(is_ours) && !tree.exists()
}

/// Git without the repository's hooks and file system monitor, which are programs of the user and
/// may have any effect.
const GIT: &str = "git -c core.hooksPath=/dev/null -c core.fsmonitor=false";

/// Returns the output of git. `Err`: its error message.
fn git(
    folder: &Path,
    command: &str,
    variables: &[(&str, &str)],
    supervision: &Supervision<'_>,
) -> Result<String, RevisionError> {
    let mut environment = Environment::for_tool(&DynoVariables::read(), &[], &std::env::temp_dir());
    variables.iter().for_each(|(name, value)| environment.set(name, value));
    let command = format!("{GIT} {command} 2>&1");
    let tool = ToolCommand {
        command: &command,
        folder,
        environment: &environment,
        deadline: CHECKOUT_TIMEOUT,
    };
    // The raw output is read, because paths and revisions are used as they are. Secrets are erased
    // only from errors, which are quoted.
    match tool.read_raw_output(supervision) {
        ToolOutput::Ended { status, output } if status.success() => Ok(output.trim_end().into()),
        // Exit status of the shell for a missing program (POSIX, 2.8.2).
        ToolOutput::Ended { status, .. } if status.code() == Some(127) => Err(
            RevisionError::Failed("git: not found\nhint: install git to compare revisions".into()),
        ),
        ToolOutput::Ended { output, .. } => {
            let error = environment.secret_values().erase(output.as_bytes(), &[output.len()]);
            let last_line = error.trim().lines().last().unwrap_or("git failed");
            Err(RevisionError::InvalidRequest(last_line.into()))
        }
        ToolOutput::Unfinished(reason) => Err(RevisionError::Failed(format!("git {reason}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    #[test]
    fn tracked_files_of_any_kind_change_folder() {
        let root = tempfile::tempdir().unwrap();
        let run = |command: &str| {
            let status = std::process::Command::new("sh")
                .args(["-c", command])
                .current_dir(root.path())
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .stdout(std::process::Stdio::null())
                .status();
            assert!(status.unwrap().success(), "{command}");
        };
        const COMMIT: &str =
            "git add -A; git -c user.name=a -c user.email=a@example.org commit -qm x";
        run("git init -q; mkdir -p 's [x]' other; echo 1 > 's [x]/yarn.lock'; echo 1 > other/a");
        run(COMMIT);
        run(&format!("echo 2 > other/a; {COMMIT}; git tag equal; git tag old HEAD^"));
        let repository =
            Repository { name: "s".into(), root: root.path().into(), subject: "s [x]".into() };
        let guard = Guard::start().unwrap();
        let interrupts = Interrupts::default();
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let differs = |commits: &[&str]| {
            let commits: Vec<String> = commits.iter().map(|name| (*name).to_string()).collect();
            repository.has_changed_folder(&commits, &supervision).unwrap()
        };
        assert!(!differs(&["old", "equal"]) && !differs(&["old"]), "outside of the folder");
        run("echo 2 > 's [x]/yarn.lock'; echo 1 > 's [x]/server.log'");
        assert!(differs(&["equal"]) && !differs(&["old", "equal"]), "in the work tree");
        run(COMMIT);
        assert!(differs(&["equal", "HEAD"]) && !differs(&["HEAD"]));
        run("git tag worktree old");
        for (names, expected) in [
            (&["old", "equal", "HEAD"][..], "--rev: given 3 times, but at most two"),
            (&["HEAD", "HEAD"], "--rev HEAD and --rev HEAD: are the same commit, "),
            (&["HEAD", "worktree"], "--rev worktree: this name is reserved"),
            (&["gone"], "\"gone\": not a commit of the repository"),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_string()).collect();
            let Err(RevisionError::InvalidRequest(error)) =
                repository.commits(&names, &supervision)
            else {
                panic!("{names:?}")
            };
            assert!(error.starts_with(expected) && error.contains("\nhint: "), "{error}");
        }
    }

    #[test]
    fn only_equal_revisions_are_measured_anyway() {
        let names = ["main".to_string(), "HEAD".to_string()];
        let check = |b: Subject, may_be_equal| {
            check_subjects(&[Subject::default(), b], &names, may_be_equal).err()
        };
        assert_eq!(check(Subject::default(), true), None);
        let Some(RevisionError::InvalidRequest(equal)) = check(Subject::default(), false) else {
            panic!("equal revisions are compared")
        };
        assert!(equal.contains("are the same in main and HEAD"), "{equal}");
        let broken = Subject { build_failed: Some("exit 2".into()), ..Subject::default() };
        let skipped = Subject { skipped: Some("no go".into()), ..Subject::default() };
        for may_be_equal in [false, true] {
            for (subject, reason) in [(&broken, "exit 2"), (&skipped, "no go")] {
                let expected = format!("HEAD: cannot be measured: {reason}");
                let error = Some(RevisionError::Failed(expected));
                assert_eq!(check(subject.clone(), may_be_equal), error);
            }
        }
    }

    #[test]
    fn revision_is_held_to_contracts_of_work_tree() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let check = |name: &str| format!("[[checks]]\nname = {name:?}\npath = \"/\"\n");
        for tree in ["old", "new"] {
            write(
                &format!("{tree}/subjects/x/subject.toml"),
                "language = \"C\"\nprotocols = [\"h1\"]\nchecks = [\"c\", \"gone\"]\n\
                 waive = [\"old\"]\n[start]\ncommand = [\"x\"]\n",
            );
        }
        write("old/contracts/c.toml", &check("old"));
        write("old/contracts/gone.toml", &check("gone"));
        write("new/contracts/c.toml", &(check("new") + &check("added")));
        let [folders, contracts] =
            ["old", "new"].map(|tree| Folders(vec![root.path().join(tree).join("subjects")]));
        let revision = Revision { name: "old".into(), commit: Some("abc".into()) };
        let revised = RevisionFolders { revision, folders, contracts };
        let definition = revised.subject("x").unwrap();
        assert!(definition.folder.starts_with(root.path().join("old")));
        let checks = definition.contracts.iter().flat_map(|contract| &contract.checks);
        let names: Vec<&str> = checks.map(|check| check.name.as_str()).collect();
        assert_eq!(names, ["new", "added", "gone"]);

        let definition_path = root.path().join("old/subjects/x/subject.toml");
        let text = fs::read_to_string(&definition_path).unwrap();
        fs::write(&definition_path, text.replace("[\"old\"]", "[\"olt\"]")).unwrap();
        let error = format!("{:?}", revised.subject("x").unwrap_err());
        assert!(error.contains("olt") && error.contains("not in the contracts"), "{error}");
    }

    #[test]
    fn is_stale_only_for_missing_trees_of_dyno() {
        assert!(is_stale(Path::new("/tmp/dyno-17-revisions-abcdefghijkl/0")));
        for other in ["/tmp", "/tmp/gone/0", "/nowhere/revisions/0", "/nowhere/dyno/0"] {
            assert!(!is_stale(Path::new(other)), "{other}");
        }
        let root = tempfile::tempdir().unwrap();
        let existing = root.path().join("dyno-17-revisions-abcdefghijkl/0");
        fs::create_dir_all(&existing).unwrap();
        assert!(!is_stale(&existing));
    }
}

//! Servers as they are in revisions of their repository, each in a work tree of its own that is
//! gone afterwards.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dyno_archive::plan::Revision;
use dyno_launch::environment::{Environment, Ours};
use dyno_launch::folder;
use dyno_launch::guard::Guard;
use dyno_launch::supervision::{Interrupts, Supervision};
use dyno_launch::tool::{Answer, Tool};
use dyno_subject::definition::Role;
use dyno_subject::definition::find::Folders;

use crate::limits::CHECK_OUT;

/// Where the definitions of a revision lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revised {
    pub revision: Revision,
    pub folders: Folders,
}

/// What the files of the work tree itself are called.
pub const WORK_TREE: &str = "worktree";

/// Why there is no revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRevision {
    /// There is none by that name, or of that server: what was asked is wrong.
    Wrong(String),
    /// It could not be had: git is not there, was ended, or failed.
    Failed(String),
}

impl NoRevision {
    fn says(self, sentence: impl Fn(&str) -> String) -> NoRevision {
        match self {
            NoRevision::Wrong(why) => NoRevision::Wrong(sentence(&why)),
            failed @ NoRevision::Failed(_) => failed,
        }
    }

    /// Of what was right to ask.
    fn failed(self, sentence: impl Fn(&str) -> String) -> NoRevision {
        let (NoRevision::Wrong(why) | NoRevision::Failed(why)) = self;
        NoRevision::Failed(sentence(&why))
    }
}

/// The repository that holds a server.
#[derive(Debug)]
pub struct Repository {
    name: String,
    root: PathBuf,
    /// Where the server's definition lies in it.
    subject: PathBuf,
}

impl Repository {
    /// The repository in which the definition of a subject lies.
    ///
    /// # Errors
    /// A sentence: there is no such definition, or it lies in no repository.
    pub fn of(
        name: &str,
        folders: &Folders,
        supervision: &Supervision<'_>,
    ) -> Result<Repository, NoRevision> {
        let own = folders.0.iter().map(|folder| folder.join(name));
        let Some(own) = own.into_iter().find(|own| own.join(Role::Subject.file()).is_file()) else {
            return Err(NoRevision::Wrong(format!(
                "{name} lies in none of the folders of subjects, so that it has no revisions"
            )));
        };
        let of_machine =
            |error: io::Error| NoRevision::Failed(format!("{}: {error}", own.display()));
        let own = own.canonicalize().map_err(of_machine)?;
        let root = git(&own, "rev-parse --show-toplevel", &[], supervision).map_err(|why| {
            why.says(|why| {
                format!(
                    "{name} has no revisions: {} is in no Git repository ({why})",
                    own.display()
                )
            })
        })?;
        let root = Path::new(&root).canonicalize().map_err(of_machine)?;
        let subject = own.strip_prefix(&root);
        let subject = subject.map_err(|_| {
            NoRevision::Wrong(format!("{} is not below {}", own.display(), root.display()))
        })?;
        Ok(Repository { name: name.into(), subject: subject.into(), root })
    }

    /// The commit that a name stands for.
    ///
    /// # Errors
    /// A sentence: there is none.
    pub fn commit(&self, name: &str, supervision: &Supervision<'_>) -> Result<String, NoRevision> {
        // A name that begins with a dash is no option; one that stands for a tag or a branch is of
        // its commit.
        const COMMAND: &str = "rev-parse --verify --quiet --end-of-options \"$REVISION^{commit}\"";
        let found = git(&self.root, COMMAND, &[("REVISION", name)], supervision);
        found.map_err(|why| {
            why.says(|_| {
                format!(
                    "{name:?} is no commit of the repository {}; `git log` and `git branch` show \
                     which there are",
                    self.root.display()
                )
            })
        })
    }

    /// Whether something in the work tree is in no commit, as far as git says.
    #[must_use]
    pub fn is_changed(&self, supervision: &Supervision<'_>) -> bool {
        // Without that a look would write to the repository.
        const COMMAND: &str = "--no-optional-locks status --porcelain";
        git(&self.root, COMMAND, &[], supervision).is_ok_and(|changes| !changes.is_empty())
    }

    /// The work tree as it is.
    #[must_use]
    pub fn as_it_lies(folders: &Folders) -> Revised {
        Revised {
            revision: Revision { name: WORK_TREE.into(), commit: None },
            folders: folders.clone(),
        }
    }
}

/// Work trees beside the user's own. Git forgets them, and they are removed, when this is dropped.
#[derive(Debug)]
pub struct WorkTrees<'a> {
    repository: &'a Repository,
    folder: PathBuf,
    trees: Vec<PathBuf>,
    guard: &'a Guard,
}

impl<'a> WorkTrees<'a> {
    /// # Errors
    /// There can be no folder for them.
    pub fn new(repository: &'a Repository, guard: &'a Guard) -> io::Result<WorkTrees<'a>> {
        let trees =
            WorkTrees { folder: folder::make(KIND, guard)?, repository, trees: Vec::new(), guard };
        trees.sweep();
        Ok(trees)
    }

    /// Has git forget work trees of dynos that were killed: their folders are gone.
    fn sweep(&self) {
        let interrupts = Interrupts::new();
        let supervision = Supervision { guard: self.guard, interrupts: &interrupts };
        let listed = git(&self.repository.root, "worktree list --porcelain", &[], &supervision);
        let listed = listed.unwrap_or_default();
        let trees = listed.lines().filter_map(|line| line.strip_prefix("worktree "));
        trees
            .filter(|tree| is_left(Path::new(tree)))
            .for_each(|tree| self.remove(tree, &supervision));
    }

    fn remove(&self, tree: &str, supervision: &Supervision<'_>) {
        // Twice: one that git was ended in the middle of is locked.
        const COMMAND: &str = "worktree remove --force --force \"$TREE\"";
        // What is left even so is in nobody's way, and swept the next time.
        let _ = git(&self.repository.root, COMMAND, &[("TREE", tree)], supervision);
    }

    /// Checks a commit out.
    ///
    /// # Errors
    /// A sentence: git refuses, or the subject is not in it.
    pub fn add(
        &mut self,
        revision: Revision,
        folders: &Folders,
        supervision: &Supervision<'_>,
    ) -> Result<Revised, NoRevision> {
        let Revision { name, commit } = &revision;
        let tree = self.folder.join(self.trees.len().to_string());
        let path = tree.to_string_lossy().into_owned();
        let commit = commit.as_deref().unwrap_or(name);
        self.trees.push(tree.clone());
        const COMMAND: &str = "worktree add --quiet --detach \"$TREE\" \"$COMMIT\"";
        let variables = [("TREE", path.as_str()), ("COMMIT", commit)];
        git(&self.repository.root, COMMAND, &variables, supervision).map_err(|why| {
            why.failed(|why| format!("revision {name} cannot be checked out: {why}"))
        })?;
        let definition = self.repository.subject.join(Role::Subject.file());
        if !tree.join(&definition).is_file() {
            return Err(NoRevision::Wrong(format!(
                "revision {name} has no {}: there is nothing to compare with",
                definition.display()
            )));
        }
        let folders = Folders(self.moved(&tree, folders));
        self.check(&tree, &folders)?;
        Ok(Revised { folders, revision })
    }

    /// The folders of subjects as they are in a work tree; those that lie elsewhere stay where they
    /// are.
    fn moved(&self, tree: &Path, folders: &Folders) -> Vec<PathBuf> {
        let moved = folders.0.iter().map(|folder| {
            let inside = folder
                .canonicalize()
                .ok()
                .and_then(|f| Some(tree.join(f.strip_prefix(&self.repository.root).ok()?)));
            inside.unwrap_or_else(|| folder.clone())
        });
        moved.collect()
    }

    /// Checks that the server is found in the work tree: one whose own folder is the root of its
    /// repository, or a link out of it, would be found as it lies here, whatever its revision.
    fn check(&self, tree: &Path, folders: &Folders) -> Result<(), NoRevision> {
        let name = &self.repository.name;
        let of_name = folders.0.iter().map(|folder| folder.join(name));
        let found = of_name.into_iter().find(|own| own.join(Role::Subject.file()).is_file());
        let found = found.and_then(|own| own.canonicalize().ok());
        if found.zip(tree.canonicalize().ok()).is_some_and(|(found, tree)| found.starts_with(tree))
        {
            return Ok(());
        }
        Err(NoRevision::Wrong(format!(
            "{name} is found outside of the repository {}: its folder is the root of a repository \
             of its own, or a link; a server has revisions in a folder of subjects that lies in \
             the repository itself",
            self.repository.root.display()
        )))
    }
}

impl Drop for WorkTrees<'_> {
    fn drop(&mut self) {
        // Whoever was interrupted still wants them gone.
        let interrupts = Interrupts::new();
        let supervision = Supervision { guard: self.guard, interrupts: &interrupts };
        for tree in &self.trees {
            self.remove(&tree.to_string_lossy(), &supervision);
        }
        if fs::remove_dir_all(&self.folder).is_ok() {
            self.guard.forget_folder(&self.folder);
        }
    }
}

/// The kind of our folder among temporary ones.
const KIND: &str = "revisions";

/// Whether a work tree is one of ours whose folder is gone.
fn is_left(tree: &Path) -> bool {
    let folder =
        tree.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let is_ours = |name: &String| name.starts_with("dyno-") && name.contains(&format!("-{KIND}-"));
    folder.as_ref().is_some_and(is_ours) && !tree.exists()
}

/// Git, without programs of the repository: hooks and a file system monitor are part of the user's
/// own work, and may do anything.
const GIT: &str = "git -c core.hooksPath=/dev/null -c core.fsmonitor=false";

/// What git prints. `Err`: why it failed, in its words.
fn git(
    folder: &Path,
    command: &str,
    variables: &[(&str, &str)],
    supervision: &Supervision<'_>,
) -> Result<String, NoRevision> {
    let mut environment = Environment::of_tool(&Ours::read(), &[], &std::env::temp_dir());
    variables.iter().for_each(|(name, value)| environment.set(name, value));
    let command = format!("{GIT} {command} 2>&1");
    let tool = Tool { command: &command, folder, environment: &environment, deadline: CHECK_OUT };
    match tool.ask(supervision) {
        Answer::Ended { status, output } if status.success() => Ok(output.trim_end().into()),
        // The shell's word for a program that is not there (POSIX, 2.8.2).
        Answer::Ended { status, .. } if status.code() == Some(127) => Err(NoRevision::Failed(
            "git is not there, by which revisions are had; install it".into(),
        )),
        Answer::Ended { output, .. } => {
            Err(NoRevision::Wrong(output.trim().lines().last().unwrap_or("git failed").into()))
        }
        Answer::None(why) => Err(NoRevision::Failed(format!("git {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trees_of_ours_that_are_gone_are_swept() {
        assert!(is_left(Path::new("/tmp/dyno-17-revisions-abcdefghijkl/0")));
        for other in ["/tmp", "/tmp/gone/0", "/nowhere/revisions/0", "/nowhere/dyno/0"] {
            assert!(!is_left(Path::new(other)), "{other}");
        }
        let root = tempfile::tempdir().unwrap();
        let there = root.path().join("dyno-17-revisions-abcdefghijkl/0");
        fs::create_dir_all(&there).unwrap();
        assert!(!is_left(&there));
    }
}

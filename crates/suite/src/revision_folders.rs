//! The folders of a revision of a server, from which a suite reads definitions.

use dyno_model::plan::Revision;
use dyno_subject::definition::Definition;
use dyno_subject::definition::find::{DefinitionError, Folders};

/// Location of the definitions of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionFolders {
    pub revision: Revision,
    pub folders: Folders,
    /// Folders of the work tree. All revisions are held to the contracts next to these folders.
    pub contracts: Folders,
}

impl RevisionFolders {
    /// Returns the work tree in its present state as a revision.
    #[must_use]
    pub fn from_work_tree(folders: &Folders) -> RevisionFolders {
        RevisionFolders {
            revision: Revision { name: WORK_TREE.into(), commit: None },
            folders: folders.clone(),
            contracts: folders.clone(),
        }
    }

    /// Returns the subject with a name, held to the contracts of the work tree. A contract that the
    /// work tree does not have comes from the revision.
    ///
    /// # Errors
    /// There is no such subject, or it has mistakes.
    pub fn subject(&self, name: &str) -> Result<Definition, DefinitionError> {
        self.folders.subject_with_contracts(name, &self.contracts)
    }
}

/// Name of the revision that stands for the present state of the work tree, with uncommitted
/// changes.
pub const WORK_TREE: &str = "worktree";

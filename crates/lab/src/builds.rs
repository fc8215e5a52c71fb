//! Built servers: the result of the preparation of a run, and an input of the run.

use dyno_subject::build::Built;
use dyno_subject::definition::Definition;

/// The built servers and back ends that a run starts.
#[derive(Clone, Debug, Default)]
pub struct Builds {
    /// Folder of each subject's artefacts, in the plan's order. `None`: the subject does not take
    /// part.
    pub subjects: Vec<Option<Built>>,
    /// Back ends in the plan's order. `None`: the back end is unavailable, and subjects that need
    /// the back end do not take part.
    pub backends: Vec<Option<BuiltBackend>>,
}

/// A service that subjects need, ready to be started.
#[derive(Clone, Debug)]
pub struct BuiltBackend {
    pub definition: Definition,
    pub built: Built,
}

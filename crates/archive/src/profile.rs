//! A profile: the stacks of a server's threads, sampled after a trial's window while a load like
//! the trial's went on.

use serde::{Deserialize, Serialize};

/// Samples that were taken after one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileRecord {
    pub trial: usize,
    /// How long stacks were taken.
    pub length_ns: u64,
    /// Complete answers meanwhile, correct or not.
    pub answers: u64,
    /// CPU time that the server used meanwhile; `None`: not known.
    pub cpu_ns: Option<u64>,
    /// Frames that stacks are made of, each once.
    pub frames: Vec<Frame>,
    /// Stacks of running threads, sampled by the CPUs' clocks.
    pub running: Stacks,
    /// Stacks of all other threads, sampled once per period.
    pub waiting: Stacks,
    /// Why just-in-time compiled code may lack names, as a sentence; `None`: no error.
    pub unnamed: Option<String>,
    /// Why there is no profile, as a sentence; `None`: there is.
    pub failure: Option<String>,
}

/// Stacks that were taken alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stacks {
    /// Time per sample, nanoseconds: CPU time, or waiting time of a thread.
    pub period_ns: u64,
    /// Samples for which there was no room.
    pub lost: u64,
    pub stacks: Vec<Stack>,
}

/// A stack, as often as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stack {
    /// Name of the threads that had it.
    pub thread: String,
    /// Name of their process's first thread.
    pub process: String,
    /// They are that one.
    pub first: bool,
    /// They waited for a CPU.
    pub runnable: bool,
    /// It begins where its thread began. Else its outermost frames are not known.
    pub whole: bool,
    /// Places in [`ProfileRecord::frames`], the outermost first.
    pub frames: Vec<u32>,
    pub samples: u64,
}

/// A function, or what is known of the place of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// `None`: its name is unknown.
    pub name: Option<String>,
    /// Name of the file that it was loaded from; `None`: no file.
    pub module: Option<String>,
    pub kind: FrameKind,
}

impl Frame {
    /// Returns a function without a name, which is identified by its offset in a file.
    #[must_use]
    pub fn from_offset(module: &str, begins: u64) -> Frame {
        Frame {
            name: Some(format!("{module}+{begins:#x}")),
            module: Some(module.into()),
            kind: FrameKind::Native,
        }
    }

    /// Returns whether its name is a function's name, not an address in a file.
    #[must_use]
    pub fn is_named(&self) -> bool {
        let place =
            |name: &str| name.strip_prefix(self.module.as_deref()?)?.strip_prefix("+0x").map(drop);
        self.name.as_deref().is_some_and(|name| place(name).is_none())
    }
}

/// Where code comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameKind {
    Kernel,
    /// A file: the program, or a library.
    Native,
    /// Memory that the program wrote: a just-in-time compiler's.
    Jit,
    /// It was inlined into the frame that it lies in.
    Inlined,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_in_a_file_is_no_name() {
        assert!(!Frame::from_offset("h2o", 0x5f470).is_named());
        let frame = |name: Option<&str>| Frame {
            name: name.map(String::from),
            module: Some("h2o".into()),
            kind: FrameKind::Native,
        };
        assert!(frame(Some("h2o_evloop_run")).is_named() && !frame(None).is_named());
    }
}

//! Records of profiles: stacks of a server's threads, sampled after a trial's window. During the
//! sampling a load like the trial's continues. Sampling therefore does not disturb the measurement
//! itself.

use serde::{Deserialize, Serialize};

/// Samples that were taken after one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileRecord {
    pub trial: usize,
    /// Length of the sampling.
    pub length_ns: u64,
    /// Complete responses during the sampling, correct or not.
    #[serde(rename = "answers")]
    pub responses: u64,
    /// CPU time that the server used during the sampling. `None`: unknown.
    pub cpu_ns: Option<u64>,
    /// Distinct frames of the stacks.
    pub frames: Vec<Frame>,
    /// Stacks of running threads, sampled by the CPUs' clocks.
    pub running: Stacks,
    /// Stacks of all other threads, sampled once per period.
    pub waiting: Stacks,
    /// Reason why JIT-compiled functions may have no names, as a sentence. `None`: no error.
    pub unnamed: Option<String>,
    /// Reason why the profile is missing, as a sentence. `None`: the profile exists.
    pub failure: Option<String>,
}

/// Stacks that were sampled in the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stacks {
    /// Time per sample, nanoseconds: CPU time, or waiting time of a thread.
    pub period_ns: u64,
    /// Number of samples that were lost because the buffer was full.
    pub lost: u64,
    pub stacks: Vec<Stack>,
}

/// A stack and its number of samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stack {
    /// Name of the threads with this stack.
    pub thread: String,
    /// Name of their process's first thread.
    pub process: String,
    /// Whether the thread is the first one of its process.
    pub first: bool,
    /// Whether the threads waited for a CPU.
    pub runnable: bool,
    /// Whether the stack reaches the start of its thread. Otherwise its outermost frames are
    /// unknown.
    #[serde(rename = "whole")]
    pub is_complete: bool,
    /// Indices in [`ProfileRecord::frames`], the outermost frame first.
    pub frames: Vec<u32>,
    pub samples: u64,
}

/// A function, or the known part of its location.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// `None`: its name is unknown.
    pub name: Option<String>,
    /// Name of the file with the code. `None`: the code is not in a file.
    pub module: Option<String>,
    pub kind: FrameKind,
}

impl Frame {
    /// Returns a function without a name, which is identified by its offset in a file.
    #[must_use]
    pub fn from_offset(module: &str, offset: u64) -> Frame {
        Frame {
            name: Some(format!("{module}+{offset:#x}")),
            module: Some(module.into()),
            kind: FrameKind::Native,
        }
    }

    /// Returns whether the name is a function's name, and not an offset in a file.
    #[must_use]
    pub fn is_named(&self) -> bool {
        let offset = |name: &str| -> Option<()> {
            name.strip_prefix(self.module.as_deref()?)?.strip_prefix("+0x").map(drop)
        };
        self.name.as_deref().is_some_and(|name| offset(name).is_none())
    }
}

/// Origin of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameKind {
    Kernel,
    /// A file: the program, or a library.
    Native,
    /// Memory that the program wrote, such as the output of a just-in-time compiler.
    Jit,
    /// A function that was inlined into the frame before it.
    Inlined,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_with_file_offset_is_not_named() {
        assert!(!Frame::from_offset("h2o", 0x5f470).is_named());
        let frame = |name: Option<&str>| Frame {
            name: name.map(String::from),
            module: Some("h2o".into()),
            kind: FrameKind::Native,
        };
        assert!(frame(Some("h2o_evloop_run")).is_named() && !frame(None).is_named());
    }
}

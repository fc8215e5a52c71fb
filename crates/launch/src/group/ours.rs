//! Groups of dyno's, this one's and others': by their names they tell whose they are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dyno_observer::proc::Stat;

/// The owner of the processes in a group that a dyno has made, with the process number of that dyno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// A subject's: `dyno-PID-START-…`. They are dyno's to end.
    Subject(u32),
    /// The user's: `dyno-PID-self`. They are nobody's to end.
    Neighbours(u32),
}

impl Whose {
    pub(super) fn of(name: &str) -> Option<Whose> {
        let (owner, rest) = name.strip_prefix("dyno-")?.split_once('-')?;
        let owner = owner.parse().ok()?;
        if rest == "self" {
            return Some(Whose::Neighbours(owner));
        }
        let start = rest.split('-').next()?;
        start.parse::<usize>().ok().map(|_| Whose::Subject(owner))
    }

    const fn owner(self) -> u32 {
        match self {
            Whose::Subject(owner) | Whose::Neighbours(owner) => owner,
        }
    }
}

/// The groups of any dyno in a folder.
pub(super) fn ours_below(folder: &Path) -> Vec<(Whose, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|e| Some((Whose::of(&e.file_name().to_string_lossy())?, e.path()))).collect()
}

pub(super) fn is_gone(pid: u32) -> bool {
    Stat::of(pid).is_none_or(|stat| stat.is_dead())
}

/// Whether a dyno that runs, other than `owner`, has groups in a folder.
pub(super) fn others_live(folder: &Path, owner: u32) -> bool {
    ours_below(folder).iter().any(|(whose, _)| whose.owner() != owner && !is_gone(whose.owner()))
}

/// Makes a group's folder, and names it if it cannot be made.
pub(super) fn make_dir(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_read_from_names() {
        assert_eq!(Whose::of("dyno-17-3"), Some(Whose::Subject(17)));
        assert_eq!(Whose::of("dyno-17-3-x7Yz"), Some(Whose::Subject(17)));
        assert_eq!(Whose::of("dyno-17-self"), Some(Whose::Neighbours(17)));
        for other in ["dynamo-17-3", "dyno-17", "dyno-x-3", "dyno-17-probe", "dyno-probe-17", "dyno-17-"] {
            assert_eq!(Whose::of(other), None, "{other}");
        }
    }
}

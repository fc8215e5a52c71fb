//! `dyno subjects import`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use dyno_subject::definition::{Definition, Role};
use dyno_subject::import::{self, Folder, Imported};

use crate::cli::{Collection, ImportArgs};
use crate::exit::{Exit, bad};
use crate::terminal::{print, quoted};

/// Longer files are no sources.
const SOURCE_BYTES: u64 = 1 << 20;

/// Writes the subject.toml of a server of another collection, and says what is left to do.
pub(super) fn run(args: &ImportArgs) -> anyhow::Result<Exit> {
    let folder =
        args.server.canonicalize().map_err(|error| bad(format!("{}: {error}", args.server.display())))?;
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Collection::Techempower = args.collection;
    let Imported { toml, left } = import::techempower(&name, &OnDisk(folder.clone()), Some(&args.test))
        .map_err(|why| bad(format!("{}: {why}", folder.display())))?;
    let path = folder.join(Role::Subject.file());
    // A link is something that is there, wherever it leads; and what is replaced is the link.
    if path.symlink_metadata().is_ok() {
        if !args.force {
            return Err(bad(format!("{} is there already; --force replaces it", path.display())));
        }
        fs::remove_file(&path).with_context(|| format!("{} cannot be replaced", path.display()))?;
    }
    fs::write(&path, toml).with_context(|| format!("{} cannot be written", path.display()))?;
    // What was made of somebody's Dockerfile may hold anything.
    let mistakes = Definition::read(&folder).err();
    let mut told = format!("{}\n", path.display());
    let left: Vec<String> =
        left.into_iter().chain(mistakes.map(|error| format!("It has mistakes: {error}"))).collect();
    if left.is_empty() {
        told.push_str("Nothing is left to do.\n");
    } else {
        told.push_str("Left to do:\n");
        left.iter().for_each(|what| told.push_str(&format!("  - {what}\n")));
    }
    let parent = quoted(&folder.parent().unwrap_or(Path::new("/")).display().to_string());
    told.push_str(&format!("Then: dyno subjects check {} --subjects {parent}\n", quoted(&name)));
    print(&dyno_report::terminal::shown(&told))?;
    Ok(Exit::Valid)
}

/// A server's folder.
struct OnDisk(PathBuf);

impl Folder for OnDisk {
    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.0.join(name)).ok()
    }

    fn naming(&self, text: &str) -> Vec<String> {
        let mut all = Vec::new();
        search(&self.0, Path::new(""), text, &mut all);
        all.sort();
        all
    }
}

/// Finds the files that hold a text, below a folder. What is built or hidden is left out.
fn search(root: &Path, below: &Path, text: &str, all: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(below)).into_iter().flatten().flatten() {
        let name = below.join(entry.file_name());
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir()
            && !is_hidden
            && !["node_modules", "target"].iter().any(|built| name.ends_with(built))
        {
            search(root, &name, text, all);
        } else if kind.is_file() && entry.metadata().is_ok_and(|m| m.len() < SOURCE_BYTES) {
            let holds = fs::read_to_string(root.join(&name)).is_ok_and(|own| own.contains(text));
            all.extend(holds.then(|| name.display().to_string()));
        }
    }
}

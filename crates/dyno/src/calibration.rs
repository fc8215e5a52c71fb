//! Stores the ceilings (the generator's highest rates) that `dyno calibrate` measured, for
//! comparison with later loads.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use dyno_analysis::ceiling::{self, KindCeiling};
use dyno_analysis::load::{Ceiling, LoadConfig};
use dyno_archive::dir::write_atomically;
use dyno_model::LoadRecord;
use dyno_observer::facts::read_facts;
use serde::{Deserialize, Serialize};

use crate::exit::usage_error;
use crate::terminal;
use crate::this_machine::{self, default_cache_folder};

const FILE: &str = "calibration.json";

/// Maximum number of other machines whose ceilings stay in the file. A new kernel makes another
/// machine.
const MAX_OTHER_MACHINES: usize = 15;

/// The ceilings of one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineCeilings {
    /// The machine on which the ceilings were measured: its CPUs and kernel.
    pub machine: String,
    pub ceilings: Vec<KindCeiling>,
}

/// The contents of `calibration.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CalibrationFile {
    /// Ceilings of the machine that was calibrated last.
    #[serde(flatten)]
    latest: MachineCeilings,
    /// Ceilings of other machines that share the folder, and of other kernels. The latest is first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    other_machines: Vec<MachineCeilings>,
}

impl CalibrationFile {
    /// Path of the ceilings in a cache folder.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// Reads the file. Without a file, there are no ceilings.
    ///
    /// # Errors
    /// The file cannot be read, or has other contents. Writing would erase them.
    pub fn read(folder: &Path) -> anyhow::Result<CalibrationFile> {
        let path = CalibrationFile::path(folder);
        let problem = |problem: String| {
            usage_error(format!(
                "{}: {problem}\nhint: remove the file, and run `dyno calibrate` again",
                path.display()
            ))
        };
        match std::fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text)
                .map_err(|error| problem(format!("is not a file of ceilings: {error}"))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(CalibrationFile::default()),
            Err(error) => Err(problem(format!("cannot be read: {error}"))),
        }
    }

    /// Adds the ceilings of a machine. Its earlier ceilings for other kinds of load stay, as do the
    /// ceilings of other machines.
    #[must_use]
    fn with(self, mut new: MachineCeilings) -> CalibrationFile {
        let (earlier, mut other_machines): (Vec<_>, Vec<_>) = std::iter::once(self.latest)
            .chain(self.other_machines)
            .filter(|each| !each.ceilings.is_empty())
            .partition(|each| each.machine == new.machine);
        let kind = |c: &KindCeiling| (c.driver, c.protocol, c.pipelined);
        let new_kinds: Vec<_> = new.ceilings.iter().map(kind).collect();
        let earlier = earlier.into_iter().flat_map(|each| each.ceilings);
        new.ceilings.extend(earlier.filter(|c| !new_kinds.contains(&kind(c))));
        other_machines.truncate(MAX_OTHER_MACHINES);
        CalibrationFile { latest: new, other_machines }
    }

    /// Returns the ceilings of a machine. Empty: it was not calibrated.
    fn ceilings(&self, machine: &str) -> &[KindCeiling] {
        let mut all = std::iter::once(&self.latest).chain(&self.other_machines);
        all.find(|each| each.machine == machine).map_or(&[], |each| &each.ceilings)
    }
}

/// Stores the ceilings of a machine in a cache folder, and returns the path of the file. `None`:
/// there are no ceilings to store, so the file is unchanged.
pub fn store(new: MachineCeilings, folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    if new.ceilings.is_empty() {
        return Ok(None);
    }
    let path = CalibrationFile::path(folder);
    let file = CalibrationFile::read(folder)?.with(new);
    write_atomically(&path, serde_json::to_string_pretty(&file)?.as_bytes())
        .with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(Some(path))
}

/// Name of this machine, for calibrations.
pub fn machine() -> String {
    let facts = read_facts(this_machine::VERSION, this_machine::COMMIT);
    this_machine::machine_name(&facts)
}

/// Returns the stored ceiling for the kind of load, if there is one. A file that cannot be read is
/// reported, because the load is valid without a ceiling.
pub fn ceiling_for(config: &LoadConfig, record: &LoadRecord) -> Option<Ceiling> {
    let file = CalibrationFile::read(&cache_folder())
        .inspect_err(|error| terminal::say(&format!("ceilings are unknown: {error:#}")))
        .ok()?;
    ceiling::find_for_load(file.ceilings(&machine()), config, record).cloned()
}

/// Path of the stored ceilings.
pub fn ceilings_file() -> PathBuf {
    CalibrationFile::path(&cache_folder())
}

fn cache_folder() -> PathBuf {
    let folder = std::env::var_os("DYNO_CACHE").filter(|folder| !folder.is_empty());
    folder.map_or_else(default_cache_folder, PathBuf::from)
}

#[cfg(test)]
mod tests {
    use dyno_model::Protocol;
    use dyno_model::plan::DriverKind;

    use super::*;

    fn ceilings(machine: &str, kinds: &[(bool, f64)]) -> MachineCeilings {
        let kind = |(pipelined, throughput_rps): &(bool, f64)| KindCeiling {
            driver: DriverKind::Epoll,
            protocol: Protocol::H1,
            pipelined: *pipelined,
            in_flight_each: Some(1),
            ceiling: Ceiling { throughput_rps: *throughput_rps, measured: "2026-01-02".into() },
        };
        MachineCeilings { machine: machine.into(), ceilings: kinds.iter().map(kind).collect() }
    }

    fn rates(folder: &Path, machine: &str) -> Vec<f64> {
        let file = CalibrationFile::read(folder).unwrap();
        file.ceilings(machine).iter().map(|kind| kind.ceiling.throughput_rps).collect()
    }

    #[test]
    fn ceilings_of_other_machines_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path();
        assert!(rates(folder, "a").is_empty());
        store(ceilings("a", &[(false, 1.0), (true, 2.0)]), folder).unwrap();
        store(ceilings("b", &[(false, 3.0)]), folder).unwrap();
        assert_eq!((rates(folder, "a"), rates(folder, "b")), (vec![1.0, 2.0], vec![3.0]));
        // Only one kind of load was valid this time.
        store(ceilings("a", &[(false, 4.0)]), folder).unwrap();
        assert_eq!((rates(folder, "a"), rates(folder, "b")), (vec![4.0, 2.0], vec![3.0]));
        let before = std::fs::read(CalibrationFile::path(folder)).unwrap();
        assert_eq!(store(ceilings("c", &[]), folder).unwrap(), None, "no valid ceiling");
        assert_eq!(std::fs::read(CalibrationFile::path(folder)).unwrap(), before);
        (0..50).for_each(|n| {
            store(ceilings(&format!("kernel {n}"), &[(false, 1.0)]), folder).unwrap();
        });
        let file = CalibrationFile::read(folder).unwrap();
        assert_eq!(file.other_machines.len(), MAX_OTHER_MACHINES);
    }

    #[test]
    fn file_of_one_machine_is_read() {
        let text = r#"{"machine": "a", "ceilings": [{"driver": "epoll", "pipelined": false,
            "ceiling": {"throughput_rps": 7.0, "measured": "2026-01-02"}}]}"#;
        let root = tempfile::tempdir().unwrap();
        std::fs::write(CalibrationFile::path(root.path()), text).unwrap();
        assert_eq!(rates(root.path(), "a"), [7.0]);
        assert!(rates(root.path(), "b").is_empty());
    }

    #[test]
    fn unreadable_file_of_ceilings_is_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let path = CalibrationFile::path(root.path());
        for text in ["", "{}", r#"{"machine": "a"}"#, "my notes"] {
            std::fs::write(&path, text).unwrap();
            let error = store(ceilings("a", &[(false, 1.0)]), root.path()).unwrap_err();
            assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}

//! Control groups of subjects: making them, limiting them, reading the limits back, removing them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dyno_archive::plan::Limits;
use dyno_archive::start::{CPU_QUOTA, LimitReadBack};
use dyno_observer::cgroup::{Group, Layout, V2, Version};

use super::sys;
use crate::units::cpu_list_text;

/// Length of the period of a CPU quota, the kernel's default.
const PERIOD_US: u64 = 100_000;

/// v1 controllers that a subject's group uses, as far as they exist.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "pids"];

/// Makes groups for the subjects of one run.
#[derive(Debug)]
pub struct Groups {
    layout: Layout,
    /// `Err`: why no group can be made here.
    usable: Result<(), String>,
    /// In version 2, where dyno and its neighbours were moved to; undone on drop.
    _moved: Option<Moved>,
}

impl Groups {
    /// Looks at what this machine and this user allow. In version 2 it moves dyno itself out of the way, into a
    /// group below its own, because a group with processes hands no controllers down.
    #[must_use]
    pub fn prepare(layout: Layout) -> Groups {
        let mut moved = None;
        let usable = match (layout.version(), &layout.v2) {
            (Version::V2, Some(v2)) => {
                prepare_v2(v2, &mut moved).map_err(|e| format!("control groups cannot be made: {e}"))
            }
            (Version::V1, _) if dyno_observer::facts::may_make_groups(&layout) => Ok(()),
            (Version::V1, _) => Err("this user may not make control groups".into()),
            _ => Err("no control group with the cpu and memory controllers is mounted".into()),
        };
        Groups { layout, usable, _moved: moved }
    }

    /// Why there are no groups here.
    #[must_use]
    pub fn unusable(&self) -> Option<&str> {
        self.usable.as_ref().err().map(String::as_str)
    }

    /// The folders that a group of this name will have.
    #[must_use]
    pub fn folders(&self, name: &str) -> Vec<PathBuf> {
        let v2 = self.layout.v2.iter().map(|v2| &v2.folder);
        let bases: Vec<&PathBuf> = match self.layout.version() {
            _ if self.usable.is_err() => Vec::new(),
            Version::V2 => v2.collect(),
            _ => CONTROLLERS.iter().filter_map(|c| self.layout.v1.get(*c)).collect(),
        };
        bases.into_iter().map(|base| base.join(name)).collect()
    }

    /// Makes a group; an empty one where none can be made.
    pub fn make(&self, name: &str) -> io::Result<Group> {
        let mut group = Group::default();
        if self.usable.is_err() {
            return Ok(group);
        }
        if self.layout.version() == Version::V2 {
            let v2 = self.layout.v2.as_ref().expect("the version says so");
            let folder = v2.folder.join(name);
            make_dir(&folder)?;
            group.v2 = Some(folder);
            return Ok(group);
        }
        for controller in CONTROLLERS {
            if let Some(base) = self.layout.v1.get(controller) {
                let folder = base.join(name);
                make_dir(&folder)?;
                if controller == "cpuset" {
                    inherit_cpuset(base, &folder)?;
                }
                group.v1.insert(controller.into(), folder);
            }
        }
        Ok(group)
    }

    /// Removes groups that an earlier dyno, which no longer runs, has left behind.
    pub fn sweep(&self) {
        let bases = self.layout.v1.values().chain(self.layout.v2.iter().map(|v2| &v2.folder));
        for base in bases {
            let entries = fs::read_dir(base).into_iter().flatten().filter_map(Result::ok);
            for entry in entries {
                let name = entry.file_name();
                if owner_of(&name.to_string_lossy())
                    .is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
                {
                    destroy(&of_folder(entry.path()));
                }
            }
        }
    }
}

/// A group known by one folder only.
pub(super) fn of_folder(folder: PathBuf) -> Group {
    Group { v1: [("any".to_string(), folder)].into(), v2: None }
}

/// Name of the group of a start. It tells whose it is, for [`Groups::sweep`].
#[must_use]
pub fn name_of(start: usize) -> String {
    format!("dyno-{}-{start}", std::process::id())
}

fn owner_of(name: &str) -> Option<u32> {
    name.strip_prefix("dyno-")?.split('-').next()?.parse().ok()
}

fn make_dir(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", folder.display())))
}

/// A new v1 cpuset is empty and takes no process until it has CPUs and memory nodes.
fn inherit_cpuset(base: &Path, folder: &Path) -> io::Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        fs::write(folder.join(file), fs::read(base.join(file))?)?;
    }
    Ok(())
}

/// Hands the controllers down. A group that holds processes may not (the root aside): then they are moved into a
/// group of their own below it first.
fn prepare_v2(v2: &V2, moved: &mut Option<Moved>) -> io::Result<()> {
    match hand_down(v2, '+') {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
        result => return result,
    }
    *moved = Some(Moved::out_of_the_way(v2)?);
    hand_down(v2, '+')
}

fn hand_down(v2: &V2, sign: char) -> io::Result<()> {
    let wanted = ["cpu", "cpuset", "memory", "pids"];
    let offered = wanted.iter().filter(|c| v2.controllers.iter().any(|o| o == *c));
    let list: Vec<String> = offered.map(|c| format!("{sign}{c}")).collect();
    fs::write(v2.folder.join("cgroup.subtree_control"), list.join(" "))
}

/// Processes that were moved out of a v2 group so that it can hand its controllers down. Dropping moves them back.
#[derive(Debug)]
struct Moved {
    v2: V2,
    own: PathBuf,
}

impl Moved {
    fn out_of_the_way(v2: &V2) -> io::Result<Moved> {
        let own = v2.folder.join(format!("dyno-{}-self", std::process::id()));
        make_dir(&own)?;
        let moved = Moved { v2: v2.clone(), own };
        move_all(&v2.folder, &moved.own);
        Ok(moved)
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        let _ = hand_down(&self.v2, '-');
        move_all(&self.own, &self.v2.folder);
        let _ = fs::remove_dir(&self.own);
    }
}

/// Moves processes one by one. One that has ended meanwhile, or that the kernel keeps where it is, is passed over.
fn move_all(from: &Path, to: &Path) {
    let pids = fs::read_to_string(from.join("cgroup.procs")).unwrap_or_default();
    pids.lines().for_each(|pid| drop(fs::write(to.join("cgroup.procs"), pid)));
}

/// Sets the limits of a group and reads each back. `why_not` says why where there is no group.
#[must_use]
pub fn limit(group: &Group, limits: &Limits, cpus: &[u32], why_not: Option<&str>) -> Vec<LimitReadBack> {
    let mut all = Vec::new();
    if let Some(quota) = limits.cpus {
        all.push(set(CPU_QUOTA, &format!("{quota} CPUs"), why_not, || set_quota(group, quota)));
    }
    if let Some(bytes) = limits.memory_bytes {
        all.push(set("memory", &format!("{bytes} bytes"), why_not, || set_memory(group, bytes)));
    }
    if !cpus.is_empty() && !group.is_empty() {
        let asked = cpu_list_text(cpus);
        all.push(set("CPUs", &asked, None, || set_cpuset(group, &asked)));
    }
    all
}

fn set(
    name: &str,
    asked: &str,
    why_not: Option<&str>,
    set: impl FnOnce() -> io::Result<String>,
) -> LimitReadBack {
    let result = why_not.map_or_else(|| set().map_err(|e| e.to_string()), |why| Err(why.to_string()));
    let (read_back, reason) = match result {
        Ok(text) => (Some(text), None),
        Err(why) => (None, Some(why)),
    };
    LimitReadBack { name: name.into(), asked: asked.into(), read_back, reason }
}

fn set_quota(group: &Group, cpus: f64) -> io::Result<String> {
    let quota_us = (cpus * PERIOD_US as f64).round() as u64;
    if let Some(folder) = &group.v2 {
        let read = write_read(&folder.join("cpu.max"), &format!("{quota_us} {PERIOD_US}"))?;
        return Ok(format!("{read} µs per period"));
    }
    let folder = v1(group, "cpu")?;
    write_read(&folder.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
    let quota = write_read(&folder.join("cpu.cfs_quota_us"), &quota_us.to_string())?;
    Ok(format!("{quota} µs per {PERIOD_US} µs"))
}

fn set_memory(group: &Group, bytes: u64) -> io::Result<String> {
    if let Some(folder) = &group.v2 {
        let read = write_read(&folder.join("memory.max"), &bytes.to_string())?;
        // No swap, or the limit would only move pages. The file is missing where there is no swap accounting.
        let _ = fs::write(folder.join("memory.swap.max"), "0");
        return Ok(format!("{read} bytes"));
    }
    let folder = v1(group, "memory")?;
    let read = write_read(&folder.join("memory.limit_in_bytes"), &bytes.to_string())?;
    let _ = fs::write(folder.join("memory.memsw.limit_in_bytes"), bytes.to_string());
    Ok(format!("{read} bytes"))
}

fn set_cpuset(group: &Group, cpus: &str) -> io::Result<String> {
    if let Some(folder) = &group.v2 {
        return write_read(&folder.join("cpuset.cpus"), cpus);
    }
    write_read(&v1(group, "cpuset")?.join("cpuset.cpus"), cpus)
}

fn v1(group: &Group, controller: &str) -> io::Result<PathBuf> {
    let missing =
        || io::Error::new(io::ErrorKind::NotFound, format!("there is no {controller} controller here"));
    group.v1.get(controller).cloned().ok_or_else(missing)
}

fn write_read(path: &Path, value: &str) -> io::Result<String> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    fs::write(path, value).map_err(named)?;
    Ok(fs::read_to_string(path).map_err(named)?.trim().to_string())
}

/// Kills every process of a group and removes it. Returns whether nothing is left.
pub fn destroy(group: &Group) -> bool {
    // The longest a killed process takes to leave its group, in practice milliseconds.
    for _ in 0..500 {
        let pids = group.pids();
        if pids.is_empty() && group.folders().all(|f| fs::remove_dir(f).is_ok() || !f.exists()) {
            return true;
        }
        pids.iter().for_each(|&pid| sys::kill(pid, libc::SIGKILL));
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[cfg(test)]
#[path = "../../../../tests/support/not_run.rs"]
mod reasons;

#[cfg(test)]
mod tests {
    use super::reasons::not_run;
    use super::*;

    #[test]
    fn a_group_is_made_limited_read_back_and_removed() {
        let groups = Groups::prepare(Layout::read());
        let group = groups.make(&format!("dyno-{}-test", std::process::id())).unwrap();
        if let Some(why) = groups.unusable() {
            // An ordinary user: the limits say why they are not there.
            let limits = Limits { cpus: Some(0.5), ..Limits::default() };
            let set = limit(&group, &limits, &[0], Some(why));
            assert_eq!(set[0].reason.as_deref(), Some(why));
            not_run(&format!("limits of a control group: {why}"));
            return;
        }
        let limits = Limits { cpus: Some(0.5), memory_bytes: Some(64 << 20), open_files: None };
        let set = limit(&group, &limits, &[0], None);
        let read: Vec<_> = set.iter().map(|l| l.read_back.as_deref().unwrap_or("?")).collect();
        assert!(read[0].starts_with("50000"), "{set:?}");
        assert_eq!(&read[1..], ["67108864 bytes", "0"]);
        assert!(destroy(&group));
        assert!(group.folders().all(|f| !f.exists()));
    }

    /// The kernel counts CPU time in every v2 group, whichever controllers it hands down, so this runs wherever v2 is
    /// mounted and this user may make a group.
    #[test]
    fn a_v2_group_holds_counts_and_is_destroyed() {
        let Some(v2) = Layout::read().v2 else {
            not_run("no cgroup v2 is mounted here");
            return;
        };
        let folder = v2.folder.join(format!("dyno-{}-v2test", std::process::id()));
        if let Err(error) = fs::create_dir(&folder) {
            not_run(&format!("this user may not make groups in {}: {error}", v2.folder.display()));
            return;
        }
        let group = Group { v1: Default::default(), v2: Some(folder.clone()) };
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 1000"]);
        let procs_files = vec![sys::ChildSetup::procs_file(&folder.join("cgroup.procs"))];
        let (mut child, _) =
            sys::spawn(&mut command, sys::ChildSetup { procs_files, ..Default::default() }).unwrap();
        assert!(group.pids().contains(&child.id()));
        while group.counters().cpu_ns.unwrap() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(group.counters().cpu_user_ns.is_some());
        let waiter = std::thread::spawn(move || child.wait());
        assert!(destroy(&group));
        assert!(!waiter.join().unwrap().unwrap().success());
        assert!(!folder.exists());
    }

    #[test]
    fn owners_are_read_from_names() {
        assert_eq!(owner_of("dyno-17-3"), Some(17));
        assert_eq!(owner_of("dynamo-17-3"), None);
    }
}

//! Control groups of subjects: making them, limiting them, reading the limits back, removing them.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dyno_archive::facts::CgroupVersion;
use dyno_archive::plan::Limits;
use dyno_archive::start::{LimitKind, LimitReadBack};
use dyno_observer::cgroup::{Group, Layout, V2};
use dyno_observer::proc::Stat;
use dyno_workload::units::cpu_list_text;

use super::guard::Guard;
use super::sys;
use crate::limits::{GROUP_GLANCE, MOVES, SWEEP};

/// Length of the period of a CPU quota, the kernel's default.
const PERIOD_US: u64 = 100_000;

/// v1 controllers that a subject's group uses, as far as they exist.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "pids"];

/// v2 controllers that a subject's group uses, as far as they exist.
const CONTROLLERS_V2: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// Makes groups for the subjects of one run.
#[derive(Debug)]
pub struct Groups {
    layout: Layout,
    /// `Err`: why no group can be made here.
    usable: Result<(), String>,
    /// In version 2, what was changed so that groups can be made; undone on drop.
    _changed: Changed,
}

impl Groups {
    /// Looks at what this machine and this user allow. In version 2 it moves dyno itself out of the way, into a
    /// group below its own, because a group with processes hands no controllers down.
    #[must_use]
    pub fn prepare(mut layout: Layout, guard: &Guard) -> Groups {
        let mut changed = Changed::default();
        let usable = match (layout.version(), layout.v2.as_mut()) {
            (CgroupVersion::V2, Some(v2)) => prepare_v2(v2, &CONTROLLERS_V2, &mut changed, guard)
                .map_err(|e| format!("control groups cannot be made: {e}")),
            (CgroupVersion::V1, None | Some(_)) => may_make(&layout),
            _ => Err("no control group with the cpu and memory controllers is mounted".into()),
        };
        Groups { layout, usable, _changed: changed }
    }

    /// Why there are no groups here.
    #[must_use]
    pub fn unusable(&self) -> Option<&str> {
        self.usable.as_ref().err().map(String::as_str)
    }

    /// The folders that a group of this name will have.
    #[must_use]
    pub fn folders(&self, name: &str) -> Vec<PathBuf> {
        self.bases().into_iter().map(|base| base.join(name)).collect()
    }

    /// The folders in which groups are made.
    fn bases(&self) -> Vec<&PathBuf> {
        match self.layout.version() {
            _ if self.usable.is_err() => Vec::new(),
            CgroupVersion::V2 => self.layout.v2.iter().map(|v2| &v2.folder).collect(),
            _ => CONTROLLERS.iter().filter_map(|c| self.layout.v1.get(*c)).collect(),
        }
    }

    /// What is left of the groups of a start that has ended, as a sentence. `None`: nothing, as it should be.
    #[must_use]
    pub fn left_of(&self, start: usize) -> Option<String> {
        let name = format!("dyno-{}-{start}-", std::process::id());
        let is_its =
            |folder: &PathBuf| folder.file_name().is_some_and(|own| own.to_string_lossy().starts_with(&name));
        let ours = self.bases().into_iter().flat_map(|base| ours_below(base)).map(|(_, folder)| folder);
        let left = of_folders(ours.filter(is_its));
        let list = |words: Vec<String>| words.join(", ");
        let folders = list(left.folders().map(|folder| folder.display().to_string()).collect());
        let pids = list(left.pids().iter().map(u32::to_string).collect());
        match (left.is_empty(), pids.as_str()) {
            (true, _) => None,
            (_, "") => Some(format!("its control groups cannot be removed; `rmdir` them: {folders}")),
            _ => Some(format!(
                "it left processes that cannot be ended and disturb what is measured from now on ({pids}); end them, or restart the machine, before you measure again; they are in {folders}"
            )),
        }
    }

    /// Makes a group; an empty one where none can be made.
    pub fn make(&self, name: &str) -> io::Result<Group> {
        let mut group = Group::default();
        if self.usable.is_err() {
            return Ok(group);
        }
        if self.layout.version() == CgroupVersion::V2 {
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

    /// Removes what an earlier dyno, which no longer runs, has left behind: its subjects' groups with what is in them, and
    /// the group into which it moved others, who go back where they were. Called before we make any group of our own.
    pub fn sweep(&self) {
        let bases = self.layout.v1.values().chain(self.layout.v2.iter().map(|v2| &v2.folder));
        sweep(bases.map(PathBuf::as_path));
    }
}

fn sweep<'a>(bases: impl Iterator<Item = &'a Path>) {
    let (mut subjects, mut neighbours) = (Vec::new(), Vec::new());
    for (whose, folder) in bases.flat_map(ours_below) {
        match whose {
            // One of our own number is of an earlier process that had it.
            Whose::Subject(owner) if owner == std::process::id() || is_gone(owner) => subjects.push(folder),
            Whose::Neighbours(owner) if is_gone(owner) => neighbours.push(folder),
            Whose::Subject(_) | Whose::Neighbours(_) => {}
        }
    }
    // All at once: what cannot be removed is waited for once, and not once per controller.
    destroy(&of_folders(subjects), SWEEP);
    neighbours.iter().for_each(|folder| put_back(folder));
}

fn may_make(layout: &Layout) -> Result<(), String> {
    let may = dyno_observer::facts::may_make_groups(layout);
    may.then_some(()).ok_or_else(|| "this user may not make control groups".into())
}

/// Whose processes a group of dyno's holds, with the number of that dyno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// A subject's: `dyno-PID-START-…`. They are dyno's to end.
    Subject(u32),
    /// The user's: `dyno-PID-self`. They are nobody's to end.
    Neighbours(u32),
}

impl Whose {
    fn of(name: &str) -> Option<Whose> {
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
fn ours_below(folder: &Path) -> Vec<(Whose, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|e| Some((Whose::of(&e.file_name().to_string_lossy())?, e.path()))).collect()
}

fn is_gone(pid: u32) -> bool {
    Stat::of(pid).is_none_or(|stat| stat.is_dead())
}

/// Whether a dyno that runs, other than `owner`, has groups in a folder.
fn others_live(folder: &Path, owner: u32) -> bool {
    ours_below(folder).iter().any(|(whose, _)| whose.owner() != owner && !is_gone(whose.owner()))
}

/// A group known by its folders only, of whatever controllers.
pub(super) fn of_folders(folders: impl IntoIterator<Item = PathBuf>) -> Group {
    let named = folders.into_iter().map(|folder| (folder.display().to_string(), folder));
    Group { v1: named.collect(), v2: None }
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

/// What is changed in the v2 group that dyno runs in, for as long as it runs. First the controllers are taken back, because a
/// group that hands them down takes no processes, then the processes move back.
#[derive(Debug, Default)]
struct Changed {
    handed: Option<Handed>,
    moved: Option<Moved>,
}

/// Hands the controllers down. A group that holds processes may not (the root aside): then they are moved into a
/// group of their own below it first.
fn prepare_v2(v2: &mut V2, wanted: &[&str], changed: &mut Changed, guard: &Guard) -> io::Result<()> {
    leave_what_is_left(v2);
    let is_down = controllers(&v2.folder, "cgroup.subtree_control");
    let offered = wanted.iter().map(ToString::to_string).filter(|c| v2.controllers.contains(c));
    let missing: Vec<String> = offered.filter(|c| !is_down.contains(c)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let handed = changed.handed.insert(Handed::announce(&v2.folder, missing, guard));
    match handed.down() {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
        result => return result,
    }
    changed.moved = Some(Moved::out_of_the_way(v2, guard)?);
    handed.down()
}

/// Who started us may stand in the group of an earlier dyno that was killed, guard and all. Then they go back first.
fn leave_what_is_left(v2: &mut V2) {
    while let Some(Whose::Neighbours(owner)) =
        v2.folder.file_name().and_then(|n| Whose::of(&n.to_string_lossy()))
        && is_gone(owner)
        && let Some(above) = v2.folder.parent().map(PathBuf::from)
    {
        put_back(&v2.folder);
        if v2.folder.exists() {
            return;
        }
        v2.controllers = controllers(&above, "cgroup.controllers");
        v2.folder = above;
    }
}

fn controllers(folder: &Path, file: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.split_ascii_whitespace().map(String::from).collect()
}

fn hand_down(folder: &Path, sign: char, controllers: &[String]) -> io::Result<()> {
    let list: Vec<String> = controllers.iter().map(|c| format!("{sign}{c}")).collect();
    fs::write(folder.join("cgroup.subtree_control"), list.join(" "))
}

/// Controllers that a group did not hand down before us. Dropping takes them back.
#[derive(Debug)]
struct Handed {
    folder: PathBuf,
    controllers: Vec<String>,
    guard: Guard,
}

impl Handed {
    /// From here on the guard knows what is to be undone.
    fn announce(folder: &Path, controllers: Vec<String>, guard: &Guard) -> Handed {
        guard.watch_controllers(folder, &controllers);
        Handed { folder: folder.into(), controllers, guard: guard.clone() }
    }

    fn down(&self) -> io::Result<()> {
        hand_down(&self.folder, '+', &self.controllers)
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        take_back(&self.folder, &self.controllers, std::process::id());
        self.guard.forget_controllers(&self.folder, &self.controllers);
    }
}

/// Takes controllers back that a dyno has handed down, unless another dyno's subjects are limited by them meanwhile.
pub(super) fn take_back(folder: &Path, controllers: &[String], owner: u32) {
    if !others_live(folder, owner) {
        let _ = hand_down(folder, '-', controllers);
    }
}

/// Processes that were moved out of a v2 group so that it can hand its controllers down. Dropping moves them back.
#[derive(Debug)]
struct Moved {
    own: PathBuf,
    guard: Guard,
}

impl Moved {
    fn out_of_the_way(v2: &V2, guard: &Guard) -> io::Result<Moved> {
        let own = v2.folder.join(format!("dyno-{}-self", std::process::id()));
        if own.exists() {
            // Of an earlier process of our number.
            put_back(&own);
        }
        guard.watch_moved(&own);
        let moved = Moved { own, guard: guard.clone() };
        make_dir(&moved.own)?;
        move_all(&v2.folder, &moved.own);
        Ok(moved)
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        put_back(&self.own);
        // What is left even so stays in the guard's mind, which tries again when we end.
        if !self.own.exists() {
            self.guard.forget_moved(&self.own);
        }
    }
}

/// Moves the processes of a group `dyno-PID-self` to where that dyno took them from, and removes it.
pub(super) fn put_back(own: &Path) {
    let (Some(above), Some(name)) = (own.parent(), own.file_name()) else { return };
    let Some(Whose::Neighbours(owner)) = Whose::of(&name.to_string_lossy()) else { return };
    // A group that hands controllers down takes no processes. It held some, so that whatever it hands down is dyno's doing.
    let handed = controllers(above, "cgroup.subtree_control");
    if !handed.is_empty() {
        take_back(above, &handed, owner);
    }
    move_all(own, above);
    let _ = fs::remove_dir(own);
}

/// Moves processes until none is left that can be: those that are moved may just have started others.
fn move_all(from: &Path, to: &Path) {
    for _ in 0..MOVES {
        if move_once(from, to) == 0 {
            return;
        }
    }
}

/// Moves processes one by one, and returns how many. One that has ended meanwhile, or that the kernel keeps where it is, is
/// passed over.
fn move_once(from: &Path, to: &Path) -> usize {
    let pids = fs::read_to_string(from.join("cgroup.procs")).unwrap_or_default();
    // 0 is a process of another name space, and as input it is we ourselves.
    let pids = pids.lines().filter(|pid| *pid != "0");
    pids.filter(|pid| fs::write(to.join("cgroup.procs"), pid).is_ok()).count()
}

/// Sets the limits of a group and reads each back. `why_not` says why where there is no group.
#[must_use]
pub fn limit(group: &Group, limits: &Limits, cpus: &[u32], why_not: Option<&str>) -> Vec<LimitReadBack> {
    let mut all = Vec::new();
    if let Some(quota) = limits.cpus {
        all.push(set(LimitKind::CpuQuota, &format!("{quota} CPUs"), why_not, || set_quota(group, quota)));
    }
    if let Some(bytes) = limits.memory_bytes {
        all.push(set(LimitKind::Memory, &format!("{bytes} bytes"), why_not, || set_memory(group, bytes)));
    }
    if !cpus.is_empty() && !group.is_empty() {
        let asked = cpu_list_text(cpus);
        all.push(set(LimitKind::Cpus, &asked, None, || set_cpuset(group, &asked)));
    }
    all
}

fn set(
    kind: LimitKind,
    asked: &str,
    why_not: Option<&str>,
    set: impl FnOnce() -> io::Result<String>,
) -> LimitReadBack {
    let result = why_not.map_or_else(|| set().map_err(|e| e.to_string()), |why| Err(why.to_string()));
    let (read_back, reason) = match result {
        Ok(text) => (Some(text), None),
        Err(why) => (None, Some(why)),
    };
    LimitReadBack { kind, asked: asked.into(), read_back, reason }
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

/// What was written may name CPUs that are not there; the kernel tells apart which of them count.
fn set_cpuset(group: &Group, cpus: &str) -> io::Result<String> {
    let (folder, effective) = match &group.v2 {
        Some(folder) => (folder.clone(), "cpuset.cpus.effective"),
        None => (v1(group, "cpuset")?, "cpuset.effective_cpus"),
    };
    let written = write_read(&folder.join("cpuset.cpus"), cpus)?;
    let effective = fs::read_to_string(folder.join(effective)).unwrap_or_default();
    Ok(Some(effective.trim()).filter(|list| !list.is_empty()).map_or(written, String::from))
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

/// Kills every process of a group and of those below it, and removes them all. Returns whether nothing is left.
pub fn destroy(group: &Group, patience: Duration) -> bool {
    let tries = patience.as_millis() / GROUP_GLANCE.as_millis();
    for _ in 0..tries {
        kill_all(group);
        if remove(group) {
            return true;
        }
        std::thread::sleep(GROUP_GLANCE);
    }
    false
}

fn kill_all(group: &Group) {
    for folder in group.folders() {
        // In version 2 the kernel does it (Linux 5.14), and nobody escapes by starting another. Elsewhere there is no such file,
        // and none is to be made.
        let file = fs::OpenOptions::new().write(true).open(folder.join("cgroup.kill"));
        let _ = file.and_then(|mut file| file.write_all(b"1"));
    }
    group.pids().into_iter().for_each(|pid| sys::kill(pid, libc::SIGKILL));
}

/// Removes all folders that can be: those that hold no process. Returns whether these were all.
fn remove(group: &Group) -> bool {
    group.tree().iter().filter(|folder| fs::remove_dir(folder).is_err() && folder.exists()).count() == 0
}

#[cfg(test)]
#[path = "../../../../tests/support/not_run.rs"]
mod reasons;

#[cfg(test)]
mod tests {
    use super::reasons::not_run;
    use super::*;

    use crate::limits::GROUP;

    use std::sync::{Mutex, MutexGuard, PoisonError};

    #[test]
    fn a_group_is_made_limited_read_back_and_removed() {
        // The guard of a test is this test program, which ends at once with the unknown argument.
        let groups = Groups::prepare(Layout::read(), &Guard::start().unwrap());
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
        assert!(destroy(&group, GROUP));
        assert!(group.folders().all(|f| !f.exists()));
    }

    /// A subject may be a service manager, a container runtime or a sandbox: these make groups of their own.
    #[test]
    fn groups_that_a_subject_makes_below_its_own_go_with_it() {
        let groups = Groups::prepare(Layout::read(), &Guard::start().unwrap());
        if let Some(why) = groups.unusable() {
            not_run(&format!("control groups below a subject's: {why}"));
            return;
        }
        let name = format!("dyno-{}-7-below", std::process::id());
        let group = groups.make(&name).unwrap();
        let procs_files =
            group.folders().map(|f| sys::ChildSetup::procs_file(&f.join("cgroup.procs"))).collect();
        let setup = sys::ChildSetup { procs_files, ..Default::default() };
        let mut command = std::process::Command::new("sleep");
        let (mut child, _) = sys::spawn(command.arg("1000"), setup).unwrap();
        for folder in group.folders() {
            let (below, deep) = (folder.join("below"), folder.join("below/deep"));
            for (above, folder) in [(folder, &below), (&below, &deep)] {
                fs::create_dir(folder).unwrap();
                // Only a cpuset has these files.
                let _ = inherit_cpuset(above, folder);
            }
            fs::write(deep.join("cgroup.procs"), child.id().to_string()).unwrap();
        }
        let mut own = group.folders().map(|f| fs::read_to_string(f.join("cgroup.procs")).unwrap());
        assert!(own.all(|pids| pids.is_empty()), "it is in none of its first groups any more");
        assert_eq!(group.pids(), [child.id()]);
        assert!(groups.left_of(7).is_some_and(|left| left.contains(&format!("({})", child.id()))));
        let waiter = std::thread::spawn(move || child.wait());
        assert!(destroy(&group, GROUP));
        assert!(!waiter.join().unwrap().unwrap().success());
        assert!(group.folders().all(|f| !f.exists()));
        assert_eq!(groups.left_of(7), None);
    }

    #[test]
    fn what_cannot_be_removed_is_told_of() {
        let base = tempfile::tempdir().unwrap();
        let v2 = V2 { folder: base.path().into(), controllers: vec!["cpu".into()] };
        let layout = Layout { v2: Some(v2), ..Layout::default() };
        let groups = Groups { layout, usable: Ok(()), _changed: Changed::default() };
        let group = groups.make(&format!("dyno-{}-3-abc", std::process::id())).unwrap();
        let below = group.v2.as_ref().unwrap().join("below");
        fs::create_dir(&below).unwrap();
        // Not what the kernel has there, but like it in that the folder cannot be removed.
        fs::write(below.join("file"), "").unwrap();
        assert!(!destroy(&group, 2 * GROUP_GLANCE));
        let left = groups.left_of(3).unwrap();
        assert!(left.contains("`rmdir` them: ") && left.contains("-3-abc"), "{left}");
        assert_eq!(groups.left_of(33), None);
        fs::remove_file(below.join("file")).unwrap();
        assert!(destroy(&group, GROUP));
        assert_eq!(groups.left_of(3), None);
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
        assert!(destroy(&group, GROUP));
        assert!(!waiter.join().unwrap().unwrap().success());
        assert!(!folder.exists());
    }

    #[test]
    fn owners_are_read_from_names() {
        assert_eq!(Whose::of("dyno-17-3"), Some(Whose::Subject(17)));
        assert_eq!(Whose::of("dyno-17-3-x7Yz"), Some(Whose::Subject(17)));
        assert_eq!(Whose::of("dyno-17-self"), Some(Whose::Neighbours(17)));
        for other in ["dynamo-17-3", "dyno-17", "dyno-x-3", "dyno-17-probe", "dyno-probe-17", "dyno-17-"] {
            assert_eq!(Whose::of(other), None, "{other}");
        }
    }

    /// A v2 group of the kernel's with a `sleep` in it, that may hand down what this machine's v2 has (here often nothing but
    /// hugetlb). All it holds is killed at the end.
    struct Scope {
        v2: V2,
        wanted: String,
        child: std::process::Child,
        /// The group above, if it did not hand its controllers down before.
        handed: Option<PathBuf>,
        _turn: MutexGuard<'static, ()>,
    }

    /// What one takes back at its end, another may need: one scope at a time.
    static TURN: Mutex<()> = Mutex::new(());

    impl Scope {
        fn make(name: &str) -> Option<Scope> {
            let above = Layout::read().v2?;
            let Some(wanted) = above.controllers.first().cloned() else {
                not_run("cgroup v2 has no controller here");
                return None;
            };
            let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
            let mut handed = None;
            if !controllers(&above.folder, "cgroup.subtree_control").contains(&wanted) {
                if let Err(error) = hand_down(&above.folder, '+', std::slice::from_ref(&wanted)) {
                    not_run(&format!("this group may not hand its controllers down: {error}"));
                    return None;
                }
                handed = Some(above.folder.clone());
            }
            let folder = above.folder.join(format!("test-{}-{name}", std::process::id()));
            if let Err(error) = fs::create_dir(&folder) {
                not_run(&format!("this user may not make groups: {error}"));
                return None;
            }
            let child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
            fs::write(folder.join("cgroup.procs"), child.id().to_string()).unwrap();
            let v2 = V2 { controllers: controllers(&folder, "cgroup.controllers"), folder };
            Some(Scope { v2, wanted, child, handed, _turn: turn })
        }

        /// Where the `sleep` is.
        fn home(&self) -> String {
            let text = fs::read_to_string(format!("/proc/{}/cgroup", self.child.id())).unwrap();
            text.lines().find_map(|l| l.strip_prefix("0::")).unwrap().rsplit('/').next().unwrap().into()
        }

        fn name(&self) -> String {
            self.v2.folder.file_name().unwrap().to_string_lossy().into_owned()
        }

        fn is_as_before(&self) {
            assert_eq!(self.home(), self.name());
            assert!(controllers(&self.v2.folder, "cgroup.subtree_control").is_empty());
            assert!(ours_below(&self.v2.folder).is_empty(), "{:?}", ours_below(&self.v2.folder));
        }
    }

    impl Drop for Scope {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            for (_, folder) in ours_below(&self.v2.folder) {
                let _ = fs::remove_dir(folder);
            }
            let _ = fs::remove_dir(&self.v2.folder);
            if let Some(above) = &self.handed {
                let _ = hand_down(above, '-', std::slice::from_ref(&self.wanted));
            }
        }
    }

    #[test]
    fn neighbours_are_moved_away_and_back_and_the_guard_knows_it_first() {
        let Some(mut scope) = Scope::make("moved") else { return };
        let (guard, told) = Guard::that_writes_down();
        let mut changed = Changed::default();
        let wanted = scope.wanted.clone();
        prepare_v2(&mut scope.v2, &[&wanted], &mut changed, &guard).unwrap();
        let own = format!("dyno-{}-self", std::process::id());
        assert_eq!(scope.home(), own);
        assert_eq!(controllers(&scope.v2.folder, "cgroup.subtree_control"), [wanted.as_str()]);
        // What the guard was told is enough to undo it all, had we been killed here.
        let watched = told.watched();
        assert_eq!(watched.len(), 2, "{watched:?}");
        super::super::guard::end_all(&watched);
        scope.is_as_before();
        drop(changed);
        scope.is_as_before();
        assert!(told.watched().is_empty());

        let mut changed = Changed::default();
        prepare_v2(&mut scope.v2, &[&wanted], &mut changed, &guard).unwrap();
        assert_eq!(scope.home(), own);
        drop(changed);
        scope.is_as_before();
    }

    #[test]
    fn a_sweep_puts_strays_back_and_ends_subjects_only() {
        let Some(mut scope) = Scope::make("swept") else { return };
        // Nobody has this number: it is above what any kernel gives.
        let own = scope.v2.folder.join("dyno-4194999-self");
        fs::create_dir(&own).unwrap();
        move_all(&scope.v2.folder, &own);
        hand_down(&scope.v2.folder, '+', std::slice::from_ref(&scope.wanted)).unwrap();
        let subject = scope.v2.folder.join("dyno-4194999-0-abc");
        // One that had made a group of its own.
        let below = subject.join("below");
        fs::create_dir_all(&below).unwrap();
        let mut server = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(below.join("cgroup.procs"), server.id().to_string()).unwrap();
        let waiter = std::thread::spawn(move || server.wait());
        sweep([scope.v2.folder.as_path()].into_iter());
        assert!(!waiter.join().unwrap().unwrap().success(), "the subject of a dead dyno is ended");
        assert!(scope.child.try_wait().unwrap().is_none(), "a neighbour is not");
        scope.is_as_before();

        // And so does a dyno that is started among the strays.
        fs::create_dir(&own).unwrap();
        move_all(&scope.v2.folder, &own);
        hand_down(&scope.v2.folder, '+', std::slice::from_ref(&scope.wanted)).unwrap();
        let mut v2 = V2 { folder: own.clone(), controllers: Vec::new() };
        leave_what_is_left(&mut v2);
        assert_eq!((&v2.folder, &v2.controllers), (&scope.v2.folder, &scope.v2.controllers));
        scope.is_as_before();
    }

    #[test]
    fn what_another_dyno_uses_is_left_to_it() {
        let Some(mut scope) = Scope::make("shared") else { return };
        let mut changed = Changed::default();
        let (guard, wanted) = (Guard::that_writes_down().0, scope.wanted.clone());
        prepare_v2(&mut scope.v2, &[&wanted], &mut changed, &guard).unwrap();
        // Somebody who lives: the first process.
        let other = scope.v2.folder.join("dyno-1-0-abc");
        fs::create_dir(&other).unwrap();
        drop(changed);
        assert_eq!(controllers(&scope.v2.folder, "cgroup.subtree_control"), [wanted.as_str()]);
        sweep([scope.v2.folder.as_path()].into_iter());
        assert!(other.exists(), "a living dyno's group is not swept");
        fs::remove_dir(&other).unwrap();
        put_back(&scope.v2.folder.join(format!("dyno-{}-self", std::process::id())));
        scope.is_as_before();
    }
}

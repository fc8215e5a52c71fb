use std::os::unix::process::ExitStatusExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dyno_archive::plan::Limits;
use dyno_observer::cgroup::V2;

use super::v2::{controllers, hand_down, leave_stale_group, move_all, prepare};
use super::*;
use crate::guard_process::end_all;
use crate::limits::GROUP;
use crate::minder::{self, Descendants};
use crate::reasons::not_run;

#[test]
fn group_is_made_limited_read_back_and_removed() {
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

/// A subject may be a service manager, a container runtime or a sandbox: these make groups of their
/// own.
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
    let child = minder::spawn(command.arg("1000"), setup, Descendants::Stay).unwrap();
    for folder in group.folders() {
        let (below, deep) = (folder.join("below"), folder.join("below/deep"));
        for (above, folder) in [(folder, &below), (&below, &deep)] {
            fs::create_dir(folder).unwrap();
            // Only a cpuset has these files.
            let _ = inherit_cpuset(above, folder);
        }
        fs::write(deep.join("cgroup.procs"), child.first.to_string()).unwrap();
    }
    let mut own = group.folders().map(|f| fs::read_to_string(f.join("cgroup.procs")).unwrap());
    assert!(own.all(|pids| pids.is_empty()), "it is in none of its first groups any more");
    assert_eq!(group.pids(), [child.first]);
    assert!(
        groups
            .remaining_groups_text(7)
            .is_some_and(|left| left.contains(&format!(": {} in ", child.first)))
    );
    assert!(destroy(&group, GROUP));
    assert!(group.folders().all(|f| !f.exists()));
    assert_eq!(groups.remaining_groups_text(7), None);
}

#[test]
fn removal_failure_is_reported() {
    let base = tempfile::tempdir().unwrap();
    let v2 = V2 { folder: base.path().into(), controllers: vec!["cpu".into()] };
    let layout = Layout { v2: Some(v2), ..Layout::default() };
    let groups = Groups { layout, usable: Ok(()), _changed: GroupChanges::default() };
    let group = groups.make(&format!("dyno-{}-3-abc", std::process::id())).unwrap();
    let below = group.v2.as_ref().unwrap().join("below");
    fs::create_dir(&below).unwrap();
    // Not what the kernel has there, but like it in that the folder cannot be removed.
    fs::write(below.join("file"), "").unwrap();
    assert!(!destroy(&group, 2 * GROUP_GLANCE));
    let left = groups.remaining_groups_text(3).unwrap();
    assert!(left.contains("cannot be removed: ") && left.contains("-3-abc"), "{left}");
    assert_eq!(groups.remaining_groups_text(33), None);
    fs::remove_file(below.join("file")).unwrap();
    assert!(destroy(&group, GROUP));
    assert_eq!(groups.remaining_groups_text(3), None);
}

/// The kernel counts CPU time in every v2 group, whichever controllers it hands down, so this runs
/// wherever v2 is mounted and this user may make a group.
#[test]
fn v2_group_holds_counts_and_is_destroyed() {
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
    let setup = sys::ChildSetup { procs_files, ..Default::default() };
    let mut child = minder::spawn(&mut command, setup, Descendants::Stay).unwrap();
    assert!(group.pids().contains(&child.first));
    while group.counters().cpu_ns.unwrap() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(group.counters().cpu_user_ns.is_some());
    assert!(destroy(&group, GROUP));
    let status = loop {
        if let Some(status) = child.command_status() {
            break status;
        }
        std::thread::sleep(GROUP_GLANCE);
    };
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    assert!(!folder.exists());
}

/// A v2 group of the kernel's with a `sleep` in it, that may hand down what this machine's v2 has
/// (here often nothing but hugetlb). All it holds is killed at the end.
struct Scope {
    v2: V2,
    wanted: String,
    child: std::process::Child,
    /// The group above, if it did not hand its controllers down before.
    handed: Option<PathBuf>,
    _turn: MutexGuard<'static, ()>,
}

/// Lock for one scope at a time: the controllers that one disables at its end, another may need.
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
        assert!(owned_groups(&self.v2.folder).is_empty(), "{:?}", owned_groups(&self.v2.folder));
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for (_, folder) in owned_groups(&self.v2.folder) {
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
    let (guard, record) = Guard::with_record();
    let mut changed = GroupChanges::default();
    let wanted = scope.wanted.clone();
    prepare(&mut scope.v2, &[&wanted], &mut changed, &guard).unwrap();
    let own = format!("dyno-{}-self-", std::process::id());
    assert!(scope.home().starts_with(&own));
    assert_eq!(controllers(&scope.v2.folder, "cgroup.subtree_control"), [wanted.as_str()]);
    // The guard's record suffices to undo everything if this process were killed here, which would
    // free the locks.
    let watched = record.watched_entries();
    lock::release(&scope.v2.folder.join(scope.home()));
    assert_eq!(watched.len(), 2, "{watched:?}");
    end_all(&watched);
    scope.is_as_before();
    drop(changed);
    scope.is_as_before();
    assert!(record.watched_entries().is_empty());

    let mut changed = GroupChanges::default();
    prepare(&mut scope.v2, &[&wanted], &mut changed, &guard).unwrap();
    assert!(scope.home().starts_with(&own));
    drop(changed);
    scope.is_as_before();
}

#[test]
fn sweep_puts_strays_back_and_ends_subjects_only() {
    let Some(mut scope) = Scope::make("swept") else { return };
    // No process has this number: it is above the highest PID of any kernel.
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
    leave_stale_group(&mut v2);
    assert_eq!((&v2.folder, &v2.controllers), (&scope.v2.folder, &scope.v2.controllers));
    scope.is_as_before();
}

#[test]
fn what_another_dyno_uses_is_left_to_it() {
    let Some(mut scope) = Scope::make("shared") else { return };
    let mut changed = GroupChanges::default();
    let (guard, wanted) = (Guard::with_record().0, scope.wanted.clone());
    prepare(&mut scope.v2, &[&wanted], &mut changed, &guard).unwrap();
    // A dyno in another PID namespace: no process here has its number, and its lock, which is
    // another process's there, is held.
    let other = scope.v2.folder.join("dyno-4194999-0-abc");
    fs::create_dir(&other).unwrap();
    let lock = fs::File::open(&other).unwrap();
    lock.lock().unwrap();
    let home = scope.home();
    drop(changed);
    assert_eq!(controllers(&scope.v2.folder, "cgroup.subtree_control"), [wanted.as_str()]);
    sweep([scope.v2.folder.as_path()].into_iter());
    assert!(other.exists(), "a living dyno's group is not swept");
    fs::remove_dir(&other).unwrap();
    move_processes_back(&scope.v2.folder.join(home));
    scope.is_as_before();
}

use std::os::unix::process::ExitStatusExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dyno_model::plan::Limits;
use dyno_observer::cgroup::V2;

use super::v2::{controllers, leave_groups_of_dyno, move_all, prepare, write_controllers};
use super::*;
use crate::guard_process::end_all;
use crate::limits::GROUP_REMOVAL;
use crate::minder::{self, Descendants};
use crate::reasons::not_run;

#[test]
fn group_is_created_limited_and_removed() {
    // The guard of a test is this test program, which ends at once with the unknown argument.
    let groups = Groups::prepare(Layout::read(), &Guard::start().unwrap());
    let group = groups.make(&format!("dyno-{}-test", std::process::id())).unwrap();
    if let Some(reason) = groups.unavailable_reason() {
        // For an ordinary user, the result has the reason why a limit is missing.
        let limits = Limits { cpus: Some(0.5), ..Limits::default() };
        let set = limit(&group, &limits, &[0], Some(reason));
        assert_eq!(set[0].reason.as_deref(), Some(reason));
        not_run(&format!("limits of a control group: {reason}"));
        return;
    }
    let limits = Limits { cpus: Some(0.5), memory_bytes: Some(64 << 20), open_files: None };
    let set = limit(&group, &limits, &[0], None);
    let read: Vec<_> = set.iter().map(|l| l.read_back.as_deref().unwrap_or("?")).collect();
    assert!(read[0].starts_with("50000"), "{set:?}");
    assert_eq!(&read[1..], ["67108864 bytes", "0"]);
    assert!(destroy(&group, GROUP_REMOVAL));
    assert!(group.folders().all(|f| !f.exists()));
}

/// Groups in a folder with one hierarchy for `cpu` and `cpuacct`, and one for `cpuset`.
fn groups_in(root: &Path) -> Groups {
    let base = |name: &str| {
        fs::create_dir_all(root.join(name)).unwrap();
        root.join(name)
    };
    let together = base("cpu,cpuacct");
    let v1 = [("cpu", together.clone()), ("cpuacct", together), ("cpuset", base("cpuset"))];
    let v1 = v1.map(|(controller, folder)| (controller.to_string(), folder)).into();
    let layout = Layout { v1, v2: None };
    Groups { layout, availability: Ok(()), changes: GroupChanges::default() }
}

#[test]
fn controllers_mounted_together_share_one_folder() {
    let root = tempfile::tempdir().unwrap();
    let groups = groups_in(root.path());
    for file in ["cpuset.cpus", "cpuset.mems"] {
        fs::write(root.path().join("cpuset").join(file), "0").unwrap();
    }
    let name = format!("dyno-{}-9-abcdefgh9tog", std::process::id());
    let group = groups.make(&name).unwrap();
    let controllers: Vec<&str> = group.v1.keys().map(String::as_str).collect();
    assert_eq!(controllers, ["cpu", "cpuacct", "cpuset"]);
    assert_eq!(group.v1["cpu"], group.v1["cpuacct"]);
    let mut folders = groups.folders(&name);
    folders.sort();
    assert_eq!(group.folders().collect::<Vec<_>>(), folders);
    assert!(folders.len() == 2 && folders.iter().all(|folder| folder.is_dir()));
    folders.iter().for_each(|folder| lock::release(folder));
}

#[test]
fn failed_creation_removes_earlier_folders() {
    let root = tempfile::tempdir().unwrap();
    // The parent has no `cpuset.cpus` to copy, so the last controller fails.
    let groups = groups_in(root.path());
    let name = format!("dyno-{}-9-abcdefghfail", std::process::id());
    groups.make(&name).unwrap_err();
    assert!(groups.folders(&name).iter().all(|folder| !folder.exists()));
}

/// A subject may be a service manager, a container runtime or a sandbox, which create groups.
#[test]
fn groups_that_subject_creates_are_removed_with_it() {
    let groups = Groups::prepare(Layout::read(), &Guard::start().unwrap());
    if let Some(reason) = groups.unavailable_reason() {
        not_run(&format!("control groups below a subject's: {reason}"));
        return;
    }
    let name = format!("dyno-{}-7-abcdefgbelow", std::process::id());
    let group = groups.make(&name).unwrap();
    let procs_files =
        group.folders().map(|f| sys::ChildSetup::procs_file(&f.join("cgroup.procs"))).collect();
    let setup = sys::ChildSetup { procs_files, ..Default::default() };
    let mut command = std::process::Command::new("sleep");
    let child = minder::spawn(command.arg("1000"), setup, Descendants::Stay).unwrap();
    for folder in group.folders() {
        let (below, deep) = (folder.join("below"), folder.join("below/deep"));
        for (parent, folder) in [(folder, &below), (&below, &deep)] {
            fs::create_dir(folder).unwrap();
            // Fails for other controllers, which do not have these files.
            let _ = inherit_cpuset(parent, folder);
        }
        fs::write(deep.join("cgroup.procs"), child.first.to_string()).unwrap();
    }
    let mut memberships =
        group.folders().map(|f| fs::read_to_string(f.join("cgroup.procs")).unwrap());
    assert!(memberships.all(|pids| pids.is_empty()), "the process is still in its first groups");
    assert_eq!(group.pids(), [child.first]);
    assert!(
        groups
            .remaining_groups_text(7)
            .is_some_and(|text| text.contains(&format!(": {} in ", child.first)))
    );
    assert!(destroy(&group, GROUP_REMOVAL));
    assert!(group.folders().all(|f| !f.exists()));
    assert_eq!(groups.remaining_groups_text(7), None);
}

#[test]
fn removal_failure_is_reported() {
    let base = tempfile::tempdir().unwrap();
    let v2 = V2 { folder: base.path().into(), controllers: vec!["cpu".into()] };
    let layout = Layout { v2: Some(v2), ..Layout::default() };
    let groups = Groups { layout, availability: Ok(()), changes: GroupChanges::default() };
    let group = groups.make(&format!("dyno-{}-3-abcdefghijkl", std::process::id())).unwrap();
    let below = group.v2.as_ref().unwrap().join("below");
    fs::create_dir(&below).unwrap();
    // Makes the removal of the folder fail, as a process would in a real group.
    fs::write(below.join("file"), "").unwrap();
    assert!(!destroy(&group, 2 * GROUP_CHECK_INTERVAL));
    let text = groups.remaining_groups_text(3).unwrap();
    assert!(text.contains("cannot be removed: ") && text.contains("-3-abcdefghijkl"), "{text}");
    assert_eq!(groups.remaining_groups_text(33), None);
    fs::remove_file(below.join("file")).unwrap();
    assert!(destroy(&group, GROUP_REMOVAL));
    assert_eq!(groups.remaining_groups_text(3), None);
}

/// The kernel measures CPU time in every v2 group, independently of the enabled controllers. The
/// test runs if v2 is mounted and this user may create a group.
#[test]
fn v2_group_counts_cpu_time_and_is_destroyed() {
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
    assert!(destroy(&group, GROUP_REMOVAL));
    let status = loop {
        if let Some(status) = child.command_status() {
            break status;
        }
        std::thread::sleep(GROUP_CHECK_INTERVAL);
    };
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    assert!(!folder.exists());
}

/// A real v2 group with a `sleep` process. It can enable one controller of this machine's v2
/// hierarchy, often hugetlb. Dropping it kills its process and removes it.
struct TestGroup {
    v2: V2,
    controller: String,
    child: std::process::Child,
    /// Folder of the parent group, if the controller had to be enabled there.
    enabled_in: Option<PathBuf>,
    _lock: MutexGuard<'static, ()>,
}

/// Lock for one test group at a time, because a test disables controllers at its end.
static LOCK: Mutex<()> = Mutex::new(());

impl TestGroup {
    fn make(name: &str) -> Option<TestGroup> {
        let parent = Layout::read().v2?;
        let Some(controller) = parent.controllers.first().cloned() else {
            not_run("cgroup v2 has no controller here");
            return None;
        };
        let lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let mut enabled_in = None;
        if !controllers(&parent.folder, "cgroup.subtree_control").contains(&controller) {
            let list = std::slice::from_ref(&controller);
            if let Err(error) = write_controllers(&parent.folder, '+', list) {
                not_run(&format!("this group may not enable controllers: {error}"));
                return None;
            }
            enabled_in = Some(parent.folder.clone());
        }
        let folder = parent.folder.join(format!("test-{}-{name}", std::process::id()));
        if let Err(error) = fs::create_dir(&folder) {
            not_run(&format!("this user may not make groups: {error}"));
            return None;
        }
        let child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(folder.join("cgroup.procs"), child.id().to_string()).unwrap();
        let v2 = V2 { controllers: controllers(&folder, "cgroup.controllers"), folder };
        Some(TestGroup { v2, controller, child, enabled_in, _lock: lock })
    }

    /// Name of the group that the `sleep` process is in.
    fn group_of_child(&self) -> String {
        let text = fs::read_to_string(format!("/proc/{}/cgroup", self.child.id())).unwrap();
        text.lines().find_map(|l| l.strip_prefix("0::")).unwrap().rsplit('/').next().unwrap().into()
    }

    fn name(&self) -> String {
        self.v2.folder.file_name().unwrap().to_string_lossy().into_owned()
    }

    fn assert_unchanged(&self) {
        assert_eq!(self.group_of_child(), self.name());
        assert!(controllers(&self.v2.folder, "cgroup.subtree_control").is_empty());
        assert!(owned_groups(&self.v2.folder).is_empty(), "{:?}", owned_groups(&self.v2.folder));
    }
}

impl Drop for TestGroup {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for (_, folder) in owned_groups(&self.v2.folder) {
            let _ = fs::remove_dir(folder);
        }
        let _ = fs::remove_dir(&self.v2.folder);
        if let Some(parent) = &self.enabled_in {
            let _ = write_controllers(parent, '-', std::slice::from_ref(&self.controller));
        }
    }
}

#[test]
fn moved_neighbours_return_on_drop_or_by_guard() {
    let Some(mut group) = TestGroup::make("moved") else { return };
    let (guard, record) = Guard::with_record();
    let mut changes = GroupChanges::default();
    let controller = group.controller.clone();
    prepare(&mut group.v2, &[&controller], &mut changes, &guard).unwrap();
    let prefix = format!("dyno-{}-self-", std::process::id());
    assert!(group.group_of_child().starts_with(&prefix));
    assert_eq!(controllers(&group.v2.folder, "cgroup.subtree_control"), [controller.as_str()]);
    // If this process were killed here, its locks would be freed, and the guard's record would
    // suffice to undo everything.
    let watched = record.watched_entries();
    lock::release(&group.v2.folder.join(group.group_of_child()));
    assert_eq!(watched.len(), 3, "{watched:?}");
    end_all(&watched);
    group.assert_unchanged();
    drop(changes);
    group.assert_unchanged();
    assert!(record.watched_entries().is_empty());

    let mut changes = GroupChanges::default();
    prepare(&mut group.v2, &[&controller], &mut changes, &guard).unwrap();
    assert!(group.group_of_child().starts_with(&prefix));
    drop(changes);
    group.assert_unchanged();
}

#[test]
fn sweep_ends_subjects_and_moves_neighbours_back() {
    let Some(mut group) = TestGroup::make("swept") else { return };
    // No process has this number: it is above the highest PID of any kernel.
    let moved = group.v2.folder.join("dyno-4194999-self");
    fs::create_dir(&moved).unwrap();
    move_all(&group.v2.folder, &moved);
    write_controllers(&group.v2.folder, '+', std::slice::from_ref(&group.controller)).unwrap();
    let subject = group.v2.folder.join("dyno-4194999-0-abcdefghijkl");
    // The subject had created a group below its group.
    let below = subject.join("below");
    fs::create_dir_all(&below).unwrap();
    let mut server = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    fs::write(below.join("cgroup.procs"), server.id().to_string()).unwrap();
    let waiter = std::thread::spawn(move || server.wait());
    sweep([group.v2.folder.as_path()].into_iter());
    assert!(!waiter.join().unwrap().unwrap().success(), "the subject was not killed");
    assert!(group.child.try_wait().unwrap().is_none(), "a neighbour was killed");
    group.assert_unchanged();

    // A dyno process that is started in the stale group moves its processes back as well.
    fs::create_dir(&moved).unwrap();
    move_all(&group.v2.folder, &moved);
    write_controllers(&group.v2.folder, '+', std::slice::from_ref(&group.controller)).unwrap();
    let mut v2 = V2 { folder: moved.clone(), controllers: Vec::new() };
    leave_groups_of_dyno(&mut v2);
    assert_eq!((&v2.folder, &v2.controllers), (&group.v2.folder, &group.v2.controllers));
    group.assert_unchanged();
}

#[test]
fn groups_of_running_dyno_are_not_removed() {
    let Some(mut group) = TestGroup::make("shared") else { return };
    let mut changes = GroupChanges::default();
    let (guard, controller) = (Guard::with_record().0, group.controller.clone());
    prepare(&mut group.v2, &[&controller], &mut changes, &guard).unwrap();
    // The other dyno process is in another PID namespace. No process here has its PID, but its
    // group is locked.
    let other = group.v2.folder.join("dyno-4194999-0-abcdefghijkl");
    fs::create_dir(&other).unwrap();
    let lock = fs::File::open(&other).unwrap();
    lock.lock().unwrap();
    let moved = group.group_of_child();
    drop(changes);
    assert_eq!(controllers(&group.v2.folder, "cgroup.subtree_control"), [controller.as_str()]);
    sweep([group.v2.folder.as_path()].into_iter());
    assert!(other.exists(), "the group of a running dyno was removed");
    fs::remove_dir(&other).unwrap();
    move_processes_back(&group.v2.folder.join(moved));
    group.assert_unchanged();
}

/// A plain folder with the same files replaces the kernel's group.
#[test]
fn last_dyno_disables_controllers() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("cgroup.subtree_control");
    let guard = Guard::with_record().0;
    let mut v2 = V2 { folder: root.path().into(), controllers: vec!["cpu".into(), "pids".into()] };
    let mut join = || {
        let mut changes = GroupChanges::default();
        prepare(&mut v2, &["cpu", "pids"], &mut changes, &guard).unwrap();
        changes
    };
    // The system has enabled `pids`.
    fs::write(&file, "pids").unwrap();
    let first = join();
    assert_eq!(fs::read_to_string(&file).unwrap(), "+cpu");
    fs::write(&file, "pids cpu").unwrap();
    // The second changes stand for another dyno process, which finds the controllers enabled. Its
    // marker is locked by another descriptor than the locks of this process.
    let second = join();
    let marker = |changes: &GroupChanges| changes.marker().unwrap().to_path_buf();
    let marker = marker(&second);
    lock::release(&marker);
    let lock = fs::File::open(&marker).unwrap();
    lock.lock().unwrap();
    fs::write(&file, "pids cpu").unwrap();
    drop(first);
    assert_eq!(fs::read_to_string(&file).unwrap(), "pids cpu", "the other process needs them");
    assert!(second.lost_controllers().is_empty());
    fs::write(&file, "pids").unwrap();
    assert_eq!(second.lost_controllers(), ["cpu"]);
    drop(lock);
    drop(second);
    assert_eq!(fs::read_to_string(&file).unwrap(), "-cpu");
    assert!(owned_groups(root.path()).is_empty());
}

/// Two dyno processes are started from one shell. The second one is started in the group to which
/// the first one has moved the shell. Plain folders with the same files replace the groups of the
/// kernel.
#[test]
fn second_dyno_of_shell_shares_base_of_first() {
    let root = tempfile::tempdir().unwrap();
    // No process here has this PID. The lock shows that the first dyno process is running.
    let own = root.path().join("dyno-4194999-self-1f");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("cgroup.procs"), "123\n").unwrap();
    fs::write(root.path().join("cgroup.controllers"), "cpu pids").unwrap();
    let lock = fs::File::open(&own).unwrap();
    lock.lock().unwrap();
    let (guard, record) = Guard::with_record();
    let start = || {
        let mut v2 = V2 { folder: own.clone(), controllers: Vec::new() };
        let mut changes = GroupChanges::default();
        prepare(&mut v2, &["cpu"], &mut changes, &guard).unwrap();
        (v2, changes)
    };
    let moved_back = || fs::read_to_string(root.path().join("cgroup.procs")).ok();

    let (v2, changes) = start();
    assert_eq!(v2.folder, root.path());
    assert_eq!(v2.controllers, ["cpu", "pids"]);
    assert_eq!(changes.marker().unwrap().parent(), Some(root.path()));
    assert!(owned_groups(&own).is_empty(), "a group in the group of the first dyno process");
    drop(changes);
    assert_eq!(moved_back(), None, "the first dyno process still runs");

    // The first dyno process ends before the second one, which then moves the shell back.
    let (_, changes) = start();
    let watched = record.watched_entries();
    // Closing is not enough: a child that is being started may have a copy of the descriptor.
    lock.unlock().unwrap();
    drop(changes);
    assert_eq!(moved_back().as_deref(), Some("123"));
    // If the second one was killed, its guard does the same.
    fs::remove_file(root.path().join("cgroup.procs")).unwrap();
    end_all(&watched);
    assert_eq!(moved_back().as_deref(), Some("123"));
}

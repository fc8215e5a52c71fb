//! Finds the mounts of control groups, and reads the counters in their files. Callers need not
//! distinguish version 1 from version 2.

mod oom;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dyno_model::facts::CgroupVersion;
use dyno_model::machine::QuotaUse;
use dyno_model::sample::CgroupUse;

use crate::files::Files;
use crate::{read, read_number};

pub use oom::OomKills;

/// Folders of this process's control groups. The process may create other groups below them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Folder of this process's group, by v1 controller.
    pub v1: BTreeMap<String, PathBuf>,
    pub v2: Option<V2>,
}

/// This process's v2 group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct V2 {
    pub folder: PathBuf,
    /// Controllers that the group may enable for groups below it.
    pub controllers: Vec<String>,
}

impl Layout {
    /// Reads the layout of this machine.
    #[must_use]
    pub fn read() -> Layout {
        let mounts = read("/proc/self/mountinfo").unwrap_or_default();
        let member = read("/proc/self/cgroup").unwrap_or_default();
        let mut layout = Layout::parse(&mounts, &member);
        if let Some(v2) = &mut layout.v2 {
            let available = read(v2.folder.join("cgroup.controllers")).unwrap_or_default();
            v2.controllers = available.split_ascii_whitespace().map(String::from).collect();
        }
        layout
    }

    /// Parses the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`. These texts do not have
    /// the controllers of v2.
    #[must_use]
    pub fn parse(mountinfo: &str, membership: &str) -> Layout {
        let mut layout = Layout::default();
        for mount in mountinfo.lines().filter_map(Mount::parse) {
            if mount.kind == "cgroup2" {
                let member = membership.lines().find_map(|l| l.strip_prefix("0::")).unwrap_or("/");
                layout.v2 =
                    Some(V2 { folder: mount.group_folder(member), controllers: Vec::new() });
                continue;
            }
            for controller in mount.options.split(',') {
                if let Some(member) = v1_member(membership, controller) {
                    layout.v1.insert(controller.to_string(), mount.group_folder(member));
                }
            }
        }
        layout
    }

    /// Returns the version whose controllers limit CPU and memory on this machine.
    #[must_use]
    pub fn version(&self) -> CgroupVersion {
        let v2_limits = |v2: &V2| v2.controllers.iter().any(|c| c == "cpu");
        if self.v2.as_ref().is_some_and(v2_limits) {
            CgroupVersion::V2
        } else if self.v1.contains_key("cpu") || self.v1.contains_key("memory") {
            CgroupVersion::V1
        } else {
            CgroupVersion::None
        }
    }
}

/// A CPU quota that applies to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Folder of the group that has the quota.
    folder: PathBuf,
}

impl Layout {
    /// Returns the lowest CPU quota of this process's group and the groups above it. Invisible
    /// groups, such as groups outside of a container, are not included.
    #[must_use]
    pub fn own_quota(&self) -> Option<Quota> {
        let own_folders =
            self.v1.get("cpu").into_iter().chain(self.v2.as_ref().map(|v2| &v2.folder));
        let groups = own_folders
            .flat_map(|folder| folder.ancestors())
            .map(|folder| Quota { folder: folder.into() });
        let quotas = groups.filter_map(|quota| Some((quota.cpus()?, quota)));
        quotas.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, quota)| quota)
    }
}

impl Quota {
    /// Returns the quota in CPUs: CPU time per elapsed time. `None`: the group has no quota.
    #[must_use]
    pub fn cpus(&self) -> Option<f64> {
        let (quota_us, period_us) = match read(self.folder.join("cpu.max")) {
            // Unlimited: `max 100000`.
            Some(text) => {
                let mut numbers =
                    text.split_ascii_whitespace().map_while(|n| n.parse::<u64>().ok());
                (numbers.next()?, numbers.next()?)
            }
            // Unlimited: −1.
            None => (
                read_number(self.folder.join("cpu.cfs_quota_us"))?,
                read_number(self.folder.join("cpu.cfs_period_us"))?,
            ),
        };
        (period_us > 0).then(|| quota_us as f64 / period_us as f64)
    }

    /// Reads the quota and its counters since the group was created.
    #[must_use]
    pub fn read(&self) -> Option<QuotaUse> {
        let stat = Keyed::read(self.folder.join("cpu.stat"));
        Some(QuotaUse {
            cpus: self.cpus()?,
            periods: stat.get("nr_periods")?,
            throttled_periods: stat.get("nr_throttled")?,
        })
    }
}

struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// Parses a line of mountinfo (proc(5)):
    /// `id parent dev root point options… - kind source super-options`.
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        kind.starts_with("cgroup").then_some(Mount { root, point, kind, options })
    }

    /// Returns the folder of a group. `member`: the group's path in the hierarchy. In a container,
    /// the mount may show only a part of the hierarchy.
    fn group_folder(&self, member: &str) -> PathBuf {
        let below = member.strip_prefix(self.root.trim_end_matches('/')).unwrap_or(member);
        let below = below.trim_start_matches('/');
        let folder = Path::new(self.point).join(below);
        if !below.is_empty() && folder.is_dir() { folder } else { PathBuf::from(self.point) }
    }
}

/// Returns the path of this process's group in the hierarchy of a v1 controller. A line of
/// `/proc/self/cgroup` is `id:controller,controller:path`.
fn v1_member<'a>(membership: &'a str, controller: &str) -> Option<&'a str> {
    membership.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        controllers.split(',').any(|c| c == controller).then_some(path)
    })
}

/// Folders of a subject's control group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Folder of the group, by v1 controller.
    pub v1: BTreeMap<String, PathBuf>,
    pub v2: Option<PathBuf>,
}

/// Lists these folders and all folders below them, children before their parents.
fn list_tree(mut folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut next = 0;
    while let Some(folder) = folders.get(next) {
        let children = subfolders(folder);
        folders.extend(children);
        next += 1;
    }
    folders.reverse();
    folders
}

/// Returns the processes in these groups.
fn pids_in(folders: &[PathBuf]) -> Vec<u32> {
    ids_in(folders, "cgroup.procs")
}

/// Returns the IDs in one file of each of these folders.
fn ids_in(folders: &[PathBuf], file: &str) -> Vec<u32> {
    let mut ids: Vec<u32> = folders
        .iter()
        // The file is opened each time, because an open file returns its first list again
        // (kernel/cgroup/cgroup-v1.c, cgroup_pidlist_start).
        .filter_map(|folder| read(folder.join(file)))
        .flat_map(|text| text.lines().filter_map(|l| l.parse().ok()).collect::<Vec<_>>())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl Group {
    /// Returns the group of a folder. In version 1 it includes the folders of other controllers for
    /// the same group.
    ///
    /// # Errors
    /// The folder belongs to no group.
    pub fn from_folder(folder: &Path, mountinfo: &str) -> Result<Group, String> {
        let not_a_group = || format!("{}: must be the folder of a control group", folder.display());
        let folder =
            folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        if !folder.join("cgroup.procs").exists() {
            return Err(not_a_group());
        }
        let mounts: Vec<Mount<'_>> = mountinfo.lines().filter_map(Mount::parse).collect();
        let containing = mounts.iter().filter(|mount| folder.starts_with(mount.point));
        // The innermost mount is used, because version 2 may be mounted within a folder of version
        // 1.
        let own_mount = containing.max_by_key(|mount| mount.point.len()).ok_or_else(not_a_group)?;
        let path = folder.strip_prefix(own_mount.point).map_err(|_| not_a_group())?;
        if own_mount.kind == "cgroup2" {
            return Ok(Group { v2: Some(folder), ..Group::default() });
        }
        let mut v1 = BTreeMap::new();
        for mount in mounts.iter().filter(|mount| mount.kind == "cgroup") {
            let candidate = Path::new(mount.point).join(path);
            if !candidate.join("cgroup.procs").exists() || !are_same_group(&folder, &candidate) {
                continue;
            }
            // The mount options name the controllers. `rw` is not one.
            for controller in mount.options.split(',').filter(|option| *option != "rw") {
                v1.insert(controller.to_string(), candidate.clone());
            }
        }
        Ok(Group { v1, v2: None })
    }

    /// Whether the group has no folder.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.v1.is_empty() && self.v2.is_none()
    }

    /// Returns the folders of the group, each once.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        // Several v1 controllers may be mounted together and share one folder.
        let mut distinct: Vec<&Path> = Vec::new();
        for folder in self.v1.values().chain(&self.v2) {
            if !distinct.contains(&folder.as_path()) {
                distinct.push(folder);
            }
        }
        distinct.into_iter()
    }

    /// Returns the folders of the group and of the groups below it, which the subject may have
    /// created. Children come before their parents, because groups can be removed only in this
    /// order.
    #[must_use]
    pub fn tree(&self) -> Vec<PathBuf> {
        list_tree(self.folders().map(PathBuf::from).collect())
    }

    /// Returns the processes in the group and in the groups below it.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        pids_in(&self.tree())
    }

    /// Returns the processes that are missing from the group of at least one controller. The
    /// group's counters and limits do not include them.
    #[must_use]
    pub fn strays(&self, pids: &[u32]) -> Vec<u32> {
        let members: Vec<Vec<u32>> =
            self.folders().map(|folder| pids_in(&list_tree(vec![folder.into()]))).collect();
        let is_everywhere = |pid: &u32| members.iter().all(|members| members.contains(pid));
        pids.iter().copied().filter(|pid| !is_everywhere(pid)).collect()
    }

    /// Returns the threads that are missing from the group of at least one controller of version 1.
    /// There a single thread can leave the group of its process. In version 2 it can only move to a
    /// group below that group.
    #[must_use]
    pub fn stray_threads(&self, tids: impl Iterator<Item = u32>) -> Vec<u32> {
        let folders = self.v1.values().collect::<BTreeSet<_>>();
        let members: Vec<Vec<u32>> = folders
            .into_iter()
            .map(|folder| ids_in(&list_tree(vec![folder.clone()]), "tasks"))
            .collect();
        let is_everywhere = |tid: &u32| members.iter().all(|ids| ids.binary_search(tid).is_ok());
        tids.filter(|tid| !is_everywhere(tid)).collect()
    }

    /// Resets the peak of memory use. Returns whether the kernel allows it.
    pub fn reset_peak(&self) -> bool {
        match self.v1.get("memory") {
            Some(folder) => std::fs::write(folder.join("memory.max_usage_in_bytes"), "0").is_ok(),
            // In version 2 a reset applies only to one open file (Linux 6.12). The peak of the
            // samples is used instead.
            None => false,
        }
    }

    /// Returns the CPU time of all processes so far, nanoseconds. `None`: the group has no such
    /// counter.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        let v1 = || read_number(self.v1.get("cpuacct")?.join("cpuacct.usage"));
        let v2 = || Some(Keyed::read(self.v2.as_ref()?.join("cpu.stat")).get("usage_usec")? * 1000);
        v1().or_else(v2)
    }

    /// Reads all counters. A counter that a version or a kernel lacks is `None`.
    #[must_use]
    pub fn counters(&self) -> CgroupUse {
        self.cached_counters(&Files::default())
    }

    /// Reads all counters through a cache of open files.
    pub(crate) fn cached_counters(&self, files: &Files) -> CgroupUse {
        let mut counters = CgroupUse::default();
        if let Some(folder) = &self.v2 {
            read_v2(folder, files, &mut counters);
        }
        read_v1(&self.v1, files, &mut counters);
        counters
    }
}

/// Whether two v1 folders belong to the same group. Hierarchies of version 1 are independent, so
/// equal paths may contain different processes. A single common process is enough, because
/// processes start and end while the lists are read.
fn are_same_group(a: &Path, b: &Path) -> bool {
    let pids = |folder: &Path| Group { v2: Some(folder.into()), ..Group::default() }.pids();
    let (pids_a, pids_b) = (pids(a), pids(b));
    pids_a.iter().any(|pid| pids_b.contains(pid)) || pids_a == pids_b
}

/// Returns the folders in a folder, without links.
fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()).collect()
}

fn read_v1(folders: &BTreeMap<String, PathBuf>, files: &Files, counters: &mut CgroupUse) {
    if let Some(folder) = folders.get("cpuacct") {
        counters.cpu_ns = files.number(folder.join("cpuacct.usage"));
        counters.cpu_user_ns = files.number(folder.join("cpuacct.usage_user"));
        counters.cpu_sys_ns = files.number(folder.join("cpuacct.usage_sys"));
    }
    if let Some(folder) = folders.get("cpu") {
        let stat = Keyed::read_in(files, folder.join("cpu.stat"));
        counters.periods = stat.get("nr_periods");
        counters.throttled_periods = stat.get("nr_throttled");
        counters.throttled_ns = stat.get("throttled_time");
    }
    if let Some(folder) = folders.get("memory") {
        counters.memory_bytes = files.number(folder.join("memory.usage_in_bytes"));
        counters.memory_peak_bytes = files.number(folder.join("memory.max_usage_in_bytes"));
        let stat = Keyed::read_in(files, folder.join("memory.stat"));
        // `total_` includes the groups below, which a server may have created.
        counters.memory_anon_bytes = stat.get("total_rss");
        counters.memory_file_bytes = stat.get("total_cache");
        counters.memory_shmem_bytes = stat.get("total_shmem");
        let kernel = |name: &str| files.number(folder.join(name));
        counters.memory_kernel_bytes = kernel("memory.kmem.usage_in_bytes")
            .map(|bytes| bytes + kernel("memory.kmem.tcp.usage_in_bytes").unwrap_or(0));
        counters.oom_kills =
            Keyed::read_in(files, folder.join("memory.oom_control")).get("oom_kill");
    }
    if let Some(folder) = folders.get("pids") {
        counters.pids = files.number(folder.join("pids.current"));
    }
}

fn read_v2(folder: &Path, files: &Files, counters: &mut CgroupUse) {
    let stat = Keyed::read_in(files, folder.join("cpu.stat"));
    let us = |key: &str| stat.get(key).map(|us| us * 1000);
    counters.cpu_ns = us("usage_usec");
    counters.cpu_user_ns = us("user_usec");
    counters.cpu_sys_ns = us("system_usec");
    counters.periods = stat.get("nr_periods");
    counters.throttled_periods = stat.get("nr_throttled");
    counters.throttled_ns = us("throttled_usec");
    counters.memory_bytes = files.number(folder.join("memory.current"));
    counters.memory_peak_bytes = files.number(folder.join("memory.peak"));
    let stat = Keyed::read_in(files, folder.join("memory.stat"));
    counters.memory_anon_bytes = stat.get("anon");
    counters.memory_file_bytes = stat.get("file");
    counters.memory_shmem_bytes = stat.get("shmem");
    // `kernel` includes all kernel memory since Linux 5.18, except for socket buffers.
    counters.memory_kernel_bytes =
        stat.get("kernel").map(|bytes| bytes + stat.get("sock").unwrap_or(0));
    counters.oom_kills = Keyed::read_in(files, folder.join("memory.events")).get("oom_kill");
    counters.pids = files.number(folder.join("pids.current"));
}

/// Text of a file whose lines are `key number`.
struct Keyed(String);

impl Keyed {
    fn read(path: PathBuf) -> Keyed {
        Keyed(read(path).unwrap_or_default())
    }

    fn read_in(files: &Files, path: PathBuf) -> Keyed {
        Keyed(files.read(path).unwrap_or_default())
    }

    fn get(&self, key: &str) -> Option<u64> {
        self.0
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_MOUNTS: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
36 31 0:33 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw";

    #[test]
    fn hybrid_layout_has_v1_folders_and_version_v1() {
        let layout = Layout::parse(
            V1_MOUNTS,
            "9:name=systemd:/\n4:memory:/docker/abc\n2:cpu,cpuacct:/\n0::/x",
        );
        let folder = |controller: &str| layout.v1.get(controller).map(|p| p.to_str().unwrap());
        assert_eq!(folder("cpu"), Some("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(folder("cpuacct"), Some("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(folder("memory"), Some("/sys/fs/cgroup/memory"));
        assert_eq!(folder("rw"), None);
        assert_eq!(layout.version(), CgroupVersion::V1);
    }

    /// A folder with two hierarchies of version 1 and one of version 2. Each has a group `web/app`.
    fn hierarchies() -> (tempfile::TempDir, String) {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().canonicalize().unwrap();
        for hierarchy in ["cpu,cpuacct", "memory", "unified"] {
            let group = at.join(hierarchy).join("web/app");
            std::fs::create_dir_all(&group).unwrap();
            std::fs::write(group.join("cgroup.procs"), "7\n").unwrap();
        }
        let at = at.display();
        let mounts = format!(
            "1 0 0:1 / {at}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             2 0 0:2 / {at}/memory rw - cgroup cgroup rw,memory\n\
             3 0 0:3 / {at}/unified rw - cgroup2 cgroup2 rw\n"
        );
        (root, mounts)
    }

    #[test]
    fn group_from_any_v1_folder_includes_all_controllers() {
        let (root, mounts) = hierarchies();
        let at = |hierarchy: &str| {
            Group::from_folder(&root.path().join(hierarchy).join("web/app"), &mounts)
        };
        let v2 = at("unified").unwrap();
        assert!(
            v2.v1.is_empty()
                && v2.v2.as_ref().is_some_and(|folder| folder.ends_with("unified/web/app"))
        );
        for hierarchy in ["cpu,cpuacct", "memory"] {
            let group = at(hierarchy).unwrap();
            let controllers: Vec<&str> = group.v1.keys().map(String::as_str).collect();
            assert_eq!(
                controllers,
                ["cpu", "cpuacct", "memory"],
                "controllers of both hierarchies"
            );
            assert!(group.v1["memory"].ends_with("memory/web/app") && group.v2.is_none());
            assert_eq!(group.pids(), [7]);
        }
        // One of two hierarchies has another group at the same path.
        std::fs::write(root.path().join("memory/web/app/cgroup.procs"), "8\n").unwrap();
        assert_eq!(at("cpu,cpuacct").unwrap().v1.keys().collect::<Vec<_>>(), ["cpu", "cpuacct"]);
        assert_eq!(at("memory").unwrap().pids(), [8]);
        assert!(
            Group::from_folder(root.path(), &mounts)
                .unwrap_err()
                .contains("must be the folder of a control group")
        );
        assert!(Group::from_folder(&root.path().join("unified/none"), &mounts).is_err());
    }

    #[test]
    fn v2_layout_without_cpu_controller_has_no_version() {
        let mounts = "26 24 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate";
        let mut layout = Layout::parse(mounts, "0::/user.slice");
        assert_eq!(layout.version(), CgroupVersion::None);
        layout.v2.as_mut().unwrap().controllers = vec!["cpu".into(), "memory".into()];
        assert_eq!(layout.version(), CgroupVersion::V2);
    }

    #[test]
    fn group_folder_is_found_in_partially_mounted_hierarchy() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("inner")).unwrap();
        let mounts = format!("26 24 0:25 /outer {} rw - cgroup2 cgroup2 rw", root.path().display());
        let layout = Layout::parse(&mounts, "0::/outer/inner");
        assert_eq!(layout.v2.unwrap().folder, root.path().join("inner"));
    }

    fn files(contents: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in contents {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn v2_counters_are_read() {
        let folder = files(&[
            ("cgroup.procs", "17\n4\n"),
            (
                "cpu.stat",
                "usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\nnr_periods \
                 50\nnr_throttled 7\nthrottled_usec 90000\nnr_bursts 0\nburst_usec 0\n",
            ),
            ("memory.current", "5242880\n"),
            ("memory.peak", "6291456\n"),
            (
                "memory.stat",
                "anon 4194304\nfile 1048576\nkernel 90000\nkernel_stack 16384\nsock 6000\nanon_thp \
                 0\nfile_mapped 4096\nshmem 8192\n",
            ),
            ("memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\noom_group_kill 0\n"),
            ("pids.current", "12\n"),
        ]);
        let group = Group { v1: BTreeMap::new(), v2: Some(folder.path().into()) };
        let counters = group.counters();
        assert_eq!(
            counters,
            CgroupUse {
                cpu_ns: Some(1_234_567_000),
                cpu_user_ns: Some(1_000_000_000),
                cpu_sys_ns: Some(234_567_000),
                periods: Some(50),
                throttled_periods: Some(7),
                throttled_ns: Some(90_000_000),
                memory_bytes: Some(5_242_880),
                memory_peak_bytes: Some(6_291_456),
                memory_anon_bytes: Some(4_194_304),
                memory_file_bytes: Some(1_048_576),
                memory_shmem_bytes: Some(8192),
                memory_kernel_bytes: Some(96_000),
                oom_kills: Some(1),
                pids: Some(12),
            }
        );
        assert_eq!(group.pids(), [4, 17]);
        assert!(!group.reset_peak());
    }

    #[test]
    fn v1_counters_are_read() {
        let cpu = files(&[("cpu.stat", "nr_periods 10\nnr_throttled 2\nthrottled_time 30000\n")]);
        let acct = files(&[
            ("cpuacct.usage", "1000\n"),
            ("cpuacct.usage_user", "600\n"),
            ("cpuacct.usage_sys", "400\n"),
        ]);
        let memory = files(&[
            ("memory.usage_in_bytes", "300\n"),
            ("memory.max_usage_in_bytes", "400\n"),
            ("memory.kmem.usage_in_bytes", "50\n"),
            ("memory.kmem.tcp.usage_in_bytes", "7\n"),
            (
                "memory.stat",
                "cache 1\nrss 2\ntotal_cache 100\ntotal_rss 200\ntotal_rss_huge 7\n\
                 total_shmem 30\n",
            ),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
        ]);
        let v1 = [("cpu", &cpu), ("cpuacct", &acct), ("memory", &memory)]
            .map(|(name, folder)| (name.to_string(), folder.path().to_path_buf()));
        let group = Group { v1: v1.into(), v2: None };
        let counters = group.counters();
        assert_eq!(
            (counters.cpu_ns, counters.cpu_user_ns, counters.cpu_sys_ns),
            (Some(1000), Some(600), Some(400))
        );
        assert_eq!((counters.throttled_periods, counters.throttled_ns), (Some(2), Some(30_000)));
        assert_eq!(
            (counters.memory_anon_bytes, counters.memory_file_bytes),
            (Some(200), Some(100))
        );
        assert_eq!(counters.memory_shmem_bytes, Some(30));
        assert_eq!((counters.memory_peak_bytes, counters.oom_kills), (Some(400), Some(3)));
        assert_eq!(counters.memory_kernel_bytes, Some(57));
        assert_eq!(counters.pids, None);
        assert!(group.reset_peak());
        assert_eq!(group.counters().memory_peak_bytes, Some(0));
    }

    #[test]
    fn tree_lists_child_groups_before_their_parents() {
        let group = files(&[("cgroup.procs", "4\n")]);
        let deep = group.path().join("below/deep");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(group.path().join("below/cgroup.procs"), "17\n").unwrap();
        std::fs::write(deep.join("cgroup.procs"), "9\n4\n").unwrap();
        // A link must not be followed, or folders elsewhere would be removed.
        std::os::unix::fs::symlink("/", group.path().join("link")).unwrap();
        let v1 = [("memory".to_string(), group.path().to_path_buf())].into();
        let group = Group { v1, v2: None };
        assert_eq!(group.pids(), [4, 9, 17]);
        let top = group.v1["memory"].clone();
        assert_eq!(group.tree(), [deep, top.join("below"), top]);
    }

    #[test]
    fn process_missing_from_one_controller_is_stray() {
        let (cpu, memory) =
            (files(&[("cgroup.procs", "4\n")]), files(&[("cgroup.procs", "4\n9\n")]));
        std::fs::create_dir(cpu.path().join("below")).unwrap();
        std::fs::write(cpu.path().join("below/cgroup.procs"), "5\n").unwrap();
        std::fs::write(memory.path().join("cgroup.procs"), "4\n5\n9\n").unwrap();
        let v1 = [("cpuacct", &cpu), ("memory", &memory)];
        let v1 = v1.map(|(name, folder)| (name.to_string(), folder.path().to_path_buf())).into();
        let group = Group { v1, v2: None };
        assert_eq!(group.strays(&[4, 5]), [0; 0]);
        assert_eq!(group.strays(&[4, 5, 9, 17]), [9, 17]);
        // `cgroup.procs` still lists the process of a thread that left.
        std::fs::write(cpu.path().join("tasks"), "4\n6\n").unwrap();
        std::fs::write(memory.path().join("tasks"), "4\n5\n6\n").unwrap();
        assert_eq!(group.stray_threads([4, 5, 6].into_iter()), [5]);
        let v2 = Group { v2: Some(memory.path().into()), ..Group::default() };
        assert_eq!(v2.strays(&[4, 5, 9, 17]), [17]);
        assert_eq!(v2.stray_threads([4, 5, 6].into_iter()), [0; 0]);
    }

    #[test]
    fn own_quota_is_lowest_of_all_ancestors() {
        let outer = files(&[
            ("cpu.max", "150000 100000\n"),
            ("cpu.stat", "nr_periods 9\nnr_throttled 4\n"),
        ]);
        let inner = outer.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("cpu.max"), "max 100000\n").unwrap();
        let v2 = |folder: &Path| Layout {
            v2: Some(V2 { folder: folder.into(), controllers: Vec::new() }),
            ..Layout::default()
        };
        let expected = QuotaUse { cpus: 1.5, periods: 9, throttled_periods: 4 };
        assert_eq!(v2(&inner).own_quota().unwrap().read(), Some(expected));
        std::fs::write(inner.join("cpu.max"), "50000 100000\n").unwrap();
        assert_eq!(v2(&inner).own_quota().unwrap().folder, inner);
        let v1 = |quota: &str| {
            let folder = files(&[
                ("cpu.cfs_quota_us", quota),
                ("cpu.cfs_period_us", "100000\n"),
                ("cpu.stat", "nr_periods 10\nnr_throttled 2\nthrottled_time 30000\n"),
            ]);
            let layout = Layout {
                v1: [("cpu".to_string(), folder.path().into())].into(),
                ..Layout::default()
            };
            layout.own_quota().and_then(|quota| quota.read())
        };
        assert_eq!(v1("25000\n"), Some(QuotaUse { cpus: 0.25, periods: 10, throttled_periods: 2 }));
        assert_eq!(v1("-1\n"), None);
    }

    #[test]
    fn missing_counters_are_none_instead_of_zero() {
        let empty = tempfile::tempdir().unwrap();
        let group = Group { v1: BTreeMap::new(), v2: Some(empty.path().into()) };
        assert_eq!(group.counters(), CgroupUse::default());
    }
}

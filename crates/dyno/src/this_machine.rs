//! Describes this build of dyno and the machine on which it runs.

use std::path::PathBuf;

use dyno_launch::folder;
use dyno_observer::cgroup::Layout;

/// Returns the default folder of builds and calibrations.
pub fn default_cache_folder() -> PathBuf {
    let own_temporary = || std::env::temp_dir().join(format!("dyno-of-{}", folder::user()));
    folder::base_folder("XDG_CACHE_HOME", ".cache").unwrap_or_else(own_temporary).join("dyno")
}

/// Returns the number of CPUs that dyno may use, given its affinity and the quota of its own
/// control group.
pub fn usable_cpus() -> usize {
    let allowed = dyno_launch::allowed_cpus().len();
    let quota = Layout::read().own_quota().and_then(|quota| quota.cpus());
    quota.map_or(allowed, |cpus| (cpus.ceil() as usize).clamp(1, allowed))
}

/// Version of dyno.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commit from which dyno was built. `None`: `DYNO_COMMIT` was unset in the build.
pub const COMMIT: Option<&str> = option_env!("DYNO_COMMIT");

/// Describes a machine in one line.
pub fn machine_name(facts: &dyno_model::Facts) -> String {
    let cpu = facts.cpu_model.as_deref().unwrap_or("an unknown CPU");
    let kernel = facts.kernel.as_deref().unwrap_or("of unknown version");
    format!("{} × {cpu}, Linux {kernel}", facts.cpus)
}

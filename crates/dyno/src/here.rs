//! This dyno, and the machine that it runs on.

use std::path::PathBuf;

/// Where builds and calibrations are kept unless the user says.
pub fn default_cache_folder() -> PathBuf {
    // One that is empty or relative counts as not set (XDG Base Directory Specification).
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = folder("XDG_CACHE_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(|| std::env::temp_dir().join(format!("dyno-of-{}", dyno_launch::folder::user())));
    base.join("dyno")
}

/// dyno's own version, and the commit it was built from.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
pub const COMMIT: Option<&str> = option_env!("DYNO_COMMIT");

/// The machine in one line.
pub fn machine_name(facts: &dyno_archive::Facts) -> String {
    let cpu = facts.cpu_model.as_deref().unwrap_or("an unknown CPU");
    let kernel = facts.kernel.as_deref().unwrap_or("of unknown version");
    format!("{} × {cpu}, Linux {kernel}", facts.cpus)
}

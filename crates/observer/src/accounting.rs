//! Reads how the kernel accounts for CPU time, from its build configuration.

use std::io::Read as _;
use std::sync::LazyLock;

use crate::read;

/// Whether the kernel samples user and system time at ticks, instead of measuring them exactly.
/// `None`: its configuration is not visible.
pub(crate) fn tick_accounting() -> Option<bool> {
    let nohz_full = read("/sys/devices/system/cpu/nohz_full").unwrap_or_default();
    uses_tick_accounting(CONFIG.as_deref()?, nohz_full.trim())
}

fn uses_tick_accounting(config: &str, nohz_full: &str) -> Option<bool> {
    let has = |option: &str| config.lines().any(|l| l.strip_suffix("=y") == Some(option));
    if has("CONFIG_VIRT_CPU_ACCOUNTING_NATIVE") {
        Some(false)
    } else if has("CONFIG_VIRT_CPU_ACCOUNTING_GEN") {
        // Exact accounting is enabled only if some CPUs run without ticks (`nohz_full`).
        Some(matches!(nohz_full, "" | "(null)"))
    } else {
        has("CONFIG_TICK_CPU_ACCOUNTING").then_some(true)
    }
}

/// Whether the kernel excludes interrupts from the CPU time of the programs that they interrupt.
/// `None`: its configuration is not visible.
pub(crate) fn irq_time_accounting() -> Option<bool> {
    let parameters = read("/proc/cmdline").unwrap_or_default();
    uses_irq_time_accounting(CONFIG.as_deref()?, &parameters)
}

/// Whether CPU time of programs is known to exclude interrupts. Read once.
pub(crate) fn excludes_interrupts() -> bool {
    static IS_EXCLUDED: LazyLock<bool> = LazyLock::new(|| irq_time_accounting() == Some(true));
    *IS_EXCLUDED
}

/// `parameters`: the kernel's command line, which may switch the accounting off
/// (Documentation/admin-guide/kernel-parameters.txt).
fn uses_irq_time_accounting(config: &str, parameters: &str) -> Option<bool> {
    let is_built = config.lines().any(|line| line == "CONFIG_IRQ_TIME_ACCOUNTING=y");
    let is_off = parameters.split_ascii_whitespace().any(|word| word == "tsc=noirqtime");
    config.contains("CONFIG_").then_some(is_built && !is_off)
}

/// Build configuration of the kernel, unpacked once. `None`: the configuration is not visible.
static CONFIG: LazyLock<Option<String>> = LazyLock::new(kernel_config);

fn kernel_config() -> Option<String> {
    let mut text = String::new();
    if let Ok(packed) = std::fs::File::open("/proc/config.gz") {
        flate2::read::GzDecoder::new(packed).read_to_string(&mut text).ok()?;
        return Some(text);
    }
    let release = read("/proc/sys/kernel/osrelease")?;
    let release = release.trim();
    read(format!("/boot/config-{release}"))
        .or_else(|| read(format!("/lib/modules/{release}/config")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_accounting_is_read_from_kernel_configuration() {
        assert_eq!(
            uses_tick_accounting(
                "CONFIG_TICK_CPU_ACCOUNTING=y\n# CONFIG_VIRT_CPU_ACCOUNTING_GEN is not set",
                ""
            ),
            Some(true)
        );
        assert_eq!(uses_tick_accounting("CONFIG_VIRT_CPU_ACCOUNTING_GEN=y", "(null)"), Some(true));
        assert_eq!(uses_tick_accounting("CONFIG_VIRT_CPU_ACCOUNTING_GEN=y", "1-3"), Some(false));
        assert_eq!(uses_tick_accounting("CONFIG_VIRT_CPU_ACCOUNTING_NATIVE=y", ""), Some(false));
        assert_eq!(uses_tick_accounting("", ""), None);
    }

    #[test]
    fn irq_time_accounting_is_read_from_configuration() {
        let on = "CONFIG_TICK_CPU_ACCOUNTING=y\nCONFIG_IRQ_TIME_ACCOUNTING=y\n";
        assert_eq!(uses_irq_time_accounting(on, "quiet ro"), Some(true));
        assert_eq!(uses_irq_time_accounting(on, "quiet tsc=noirqtime"), Some(false));
        let off = "# CONFIG_IRQ_TIME_ACCOUNTING is not set\n";
        assert_eq!(uses_irq_time_accounting(off, ""), Some(false));
        assert_eq!(uses_irq_time_accounting("", ""), None);
    }
}

//! Copies the TCP settings of the machine's network namespace (`/proc/sys/net`) to a new namespace.
//! Servers must not behave differently there. Without the copy, a new namespace has the kernel's
//! defaults.

use std::fs;

/// Settings that affect a server or its clients. A new network namespace inherits some of them,
/// depending on the kernel.
const SETTINGS: [&str; 31] = [
    "core/somaxconn",
    "ipv4/ip_local_port_range",
    "ipv4/ip_unprivileged_port_start",
    "ipv4/tcp_abort_on_overflow",
    "ipv4/tcp_autocorking",
    "ipv4/tcp_base_mss",
    "ipv4/tcp_congestion_control",
    "ipv4/tcp_early_retrans",
    "ipv4/tcp_ecn",
    "ipv4/tcp_fastopen",
    "ipv4/tcp_fin_timeout",
    "ipv4/tcp_limit_output_bytes",
    "ipv4/tcp_max_syn_backlog",
    "ipv4/tcp_max_tw_buckets",
    "ipv4/tcp_min_tso_segs",
    "ipv4/tcp_moderate_rcvbuf",
    "ipv4/tcp_mtu_probing",
    "ipv4/tcp_no_metrics_save",
    "ipv4/tcp_notsent_lowat",
    "ipv4/tcp_rmem",
    "ipv4/tcp_sack",
    "ipv4/tcp_slow_start_after_idle",
    "ipv4/tcp_syn_retries",
    "ipv4/tcp_synack_retries",
    "ipv4/tcp_syncookies",
    "ipv4/tcp_timestamps",
    "ipv4/tcp_tw_reuse",
    "ipv4/tcp_window_scaling",
    "ipv4/tcp_wmem",
    "ipv6/bindv6only",
    "ipv6/conf/all/disable_ipv6",
];

/// Reads the settings of this thread's network namespace: name and value. Settings that this kernel
/// lacks are omitted.
pub(super) fn read_current() -> Vec<(&'static str, String)> {
    SETTINGS.into_iter().filter_map(|name| Some((name, read(name)?))).collect()
}

/// Applies settings to this thread's network namespace.
pub(super) fn apply(settings: &[(&'static str, String)]) -> Result<(), String> {
    let differs = |(name, value): &&(&str, String)| {
        read(name).is_some_and(|current_value| current_value != *value)
    };
    settings.iter().filter(differs).try_for_each(|(name, value)| write(name, value))
}

/// Writes one setting.
pub(super) fn write(name: &str, value: &str) -> Result<(), String> {
    fs::write(path(name), value).map_err(|error| format!("{}: cannot be set: {error}", path(name)))
}

fn read(name: &str) -> Option<String> {
    fs::read_to_string(path(name)).ok().map(|text| text.trim().to_string())
}

fn path(name: &str) -> String {
    format!("/proc/sys/net/{name}")
}

//! Records the counters of the whole machine.

use serde::{Deserialize, Serialize};

/// Counters of the whole machine. CPU times begin at dyno's first reading; in archives of earlier
/// versions, at the start of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostUse {
    pub busy_ns: u64,
    pub idle_ns: u64,
    /// Time that the hypervisor gave to other guests.
    pub steal_ns: u64,
    /// CPU time of interrupts, a part of `busy_ns`. `None`: the kernel adds this time to the CPU
    /// time of the interrupted program, or it is unknown whether the kernel does so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_ns: Option<u64>,
    pub context_switches: u64,
    /// Threads that ran or were ready to run at that instant, on all CPUs.
    pub runnable: Option<u64>,
    /// Number of threads and processes created since the machine started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub births: Option<u64>,
    pub interrupts: Option<u64>,
    /// Time in which at least one thread waited for a CPU, for memory, or for a disk (PSI).
    pub pressure: Option<PressureUse>,
    pub disks: Option<Vec<DiskUse>>,
    /// All network devices except loopback.
    pub links: Option<Vec<LinkUse>>,
    /// Frequency of the first CPU; `None`: the kernel does not report it.
    pub frequency_khz: Option<u64>,
    /// Queues of received packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<BacklogUse>,
    /// Neighbours (ARP, NDP) that were dropped because the table was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour_overflows: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_memory: Option<TcpMemoryUse>,
}

/// Time in which at least one thread waited for a resource, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PressureUse {
    pub cpu_ns: Option<u64>,
    pub memory_ns: Option<u64>,
    pub io_ns: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUse {
    pub name: String,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Time in which the disk was busy.
    pub disk_busy_ns: Option<u64>,
}

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkUse {
    pub name: String,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Capacity in each direction; `None`: not reported, as for links between virtual machines.
    pub bits_per_s: Option<u64>,
}

/// Queues of received packets, all CPUs together (`/proc/net/softnet_stat`). Loopback uses them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BacklogUse {
    pub processed: u64,
    /// Packets dropped because the queue of their CPU was full (`net.core.netdev_max_backlog`).
    pub dropped: u64,
    /// Number of times that work remained in the queue when its time budget was used up.
    pub squeezed: u64,
}

/// Memory of all TCP sockets at one instant, and its limits (`net.ipv4.tcp_mem`), in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpMemoryUse {
    pub pages: u64,
    /// Size above which the kernel shrinks the buffers of sockets.
    pub pressure_pages: u64,
    /// Size above which the kernel drops packets and aborts connections.
    #[serde(rename = "most_pages")]
    pub max_pages: u64,
}

impl BacklogUse {
    /// Returns the growth of the counters since an earlier reading.
    #[must_use]
    pub const fn growth_since(self, earlier: BacklogUse) -> BacklogUse {
        BacklogUse {
            processed: self.processed.saturating_sub(earlier.processed),
            dropped: self.dropped.saturating_sub(earlier.dropped),
            squeezed: self.squeezed.saturating_sub(earlier.squeezed),
        }
    }
}

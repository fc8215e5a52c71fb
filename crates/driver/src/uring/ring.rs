//! The ring: its options, and the results of its system call.

use std::io;

use io_uring::IoUring;

use crate::limits;

/// The ring, whose debug form is only its name.
pub(super) struct Ring(pub(super) IoUring);

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

/// `IORING_ENTER_GETEVENTS`: runs deferred work of the ring, and collects completions.
pub(super) const GETEVENTS: u32 = 1;

/// Panics if `io_uring_enter` failed with an unexpected error.
pub(super) fn check_enter(result: io::Result<usize>) {
    match result {
        Ok(_) => {}
        Err(error) if is_transient(&error) || error.raw_os_error() == Some(libc::ETIME) => {}
        Err(error) => panic!("io_uring_enter: {error}"),
    }
}

/// Whether the call can be repeated after completions were taken off the ring.
pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN))
}

/// Creates a ring for a driver of up to `connections` connections.
pub(super) fn build_ring(connections: u32) -> io::Result<IoUring> {
    // In one turn a connection can complete a send and several receives, one per buffer. The kernel
    // keeps completions that find the queue full.
    let completions = (connections.saturating_mul(4)).clamp(limits::SUBMISSIONS * 2, 1 << 16);
    let mut builder = IoUring::builder();
    builder.setup_cqsize(completions).setup_clamp().setup_submit_all();
    let mut preferred = builder.clone();
    // One thread submits and reaps. With deferred work, the kernel completes operations only during
    // system calls of this thread, and does not interrupt its other code. Kernels before Linux 6.1
    // refuse these options.
    match preferred.setup_single_issuer().setup_defer_taskrun().build(limits::SUBMISSIONS) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            builder.build(limits::SUBMISSIONS)
        }
        result => result,
    }
}

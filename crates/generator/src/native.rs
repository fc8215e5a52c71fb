//! Runs the workers of a load on this machine. Each worker is a thread with a separate driver. It
//! obeys orders and sends events.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use dyno_driver::{Epoll, Uring, stamps_refusal};
use dyno_engine::{Instant, Stop, StreamDriver, Worker, WorkerConfig};
use dyno_launch::{set_affinity, set_realtime};
use dyno_model::plan::{DriverKind, Priority};

use super::instrument::{Capabilities, GeneratorReadings, Instrument, StartedLoad, Support};
use super::mailbox::Mailbox;
use super::messages::{GeneratorOrder, WorkerEvent, WorkerResult};
use super::sink::Sink;
use super::spec::LoadSpec;
use super::worker_share::{config, endpoint};
use crate::machine::MachineWatch;

/// The load generator of this program, with one of its drivers.
#[derive(Clone, Copy, Debug)]
pub struct Native {
    pub driver: DriverKind,
}

impl Instrument for Native {
    fn capabilities(&self) -> Capabilities {
        let kernel_stamps =
            stamps_refusal(self.driver).map_or(Support::Supported, Support::Unsupported);
        Capabilities { tls: Support::Supported, open_end: Support::Supported, kernel_stamps }
    }

    fn start(&self, spec: &LoadSpec, sink: Sink) -> Result<Box<dyn StartedLoad>, String> {
        NativeLoad::start(spec, &sink).map(|load| Box::new(load) as Box<dyn StartedLoad>)
    }
}

/// A load whose workers run on this machine.
#[derive(Debug)]
struct NativeLoad {
    workers: Vec<NativeWorker>,
    machine: MachineWatch,
}

#[derive(Debug)]
struct NativeWorker {
    orders: mpsc::Sender<GeneratorOrder>,
    /// `None`: the thread does not answer.
    thread: Option<JoinHandle<()>>,
}

impl NativeLoad {
    fn start(spec: &LoadSpec, sink: &Sink) -> Result<NativeLoad, String> {
        let spec = Arc::new(spec.clone());
        let mut load = NativeLoad { workers: Vec::new(), machine: MachineWatch::new(&spec.cpus) };
        for worker in 0..spec.threads() {
            let (orders, mailbox) = mpsc::channel();
            let (spec, sink) = (Arc::clone(&spec), sink.clone());
            let thread = thread::Builder::new()
                .name(format!("worker-{worker}"))
                .spawn(move || run_worker(&spec, worker, Mailbox::new(mailbox), &sink));
            match thread {
                Ok(thread) => load.workers.push(NativeWorker { orders, thread: Some(thread) }),
                Err(error) => {
                    load.join();
                    return Err(format!("worker thread: cannot be started: {error}"));
                }
            }
        }
        Ok(load)
    }

    /// Waits for the end of all workers, which end without further orders.
    fn join(&mut self) {
        for NativeWorker { orders, thread } in self.workers.drain(..) {
            drop(orders);
            let joined = thread.map_or(Ok(()), JoinHandle::join);
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
}

impl StartedLoad for NativeLoad {
    fn obey(&mut self, order: GeneratorOrder) {
        match order {
            GeneratorOrder::OpenWindow => self.machine.open(),
            GeneratorOrder::CloseWindow => self.machine.close(),
            GeneratorOrder::GiveUp { worker } => self.workers[worker as usize].thread = None,
            GeneratorOrder::Begin(_) | GeneratorOrder::End(_) | GeneratorOrder::Close => {
                for worker in &self.workers {
                    // A worker that has ended needs no orders.
                    let _ = worker.orders.send(order);
                }
            }
        }
    }

    fn finish(mut self: Box<Self>) -> GeneratorReadings {
        self.join();
        GeneratorReadings::Read {
            rss_peak_bytes: dyno_observer::proc::own_rss_peak_bytes(),
            machine: self.machine.finish().map(Box::new),
        }
    }
}

/// Runs a worker from its first connection to its end.
fn run_worker(spec: &LoadSpec, worker: u32, mailbox: Mailbox, sink: &Sink) {
    let mut guard = FailureGuard { sink, worker, is_armed: true };
    let last = match start_worker(spec, worker, mailbox, sink) {
        Ok(result) => WorkerEvent::Closed(Box::new(result)),
        Err(reason) => WorkerEvent::Failed(reason),
    };
    guard.is_armed = false;
    sink.send(worker, last);
}

/// Reports the failure of a worker that panics. Otherwise the other workers would wait for it.
struct FailureGuard<'a> {
    sink: &'a Sink,
    worker: u32,
    is_armed: bool,
}

impl Drop for FailureGuard<'_> {
    fn drop(&mut self) {
        if self.is_armed {
            self.sink.send(self.worker, WorkerEvent::Failed("worker thread: panicked".into()));
        }
    }
}

/// Binds this thread to its CPU, creates the driver, and runs the worker's share of the load.
fn start_worker(
    spec: &LoadSpec,
    k: u32,
    mailbox: Mailbox,
    sink: &Sink,
) -> Result<WorkerResult, String> {
    // Workers are distributed over the CPUs in turn. With more workers than CPUs, some share one.
    let cpu = spec.cpus.get(k as usize % spec.cpus.len().max(1));
    if let Some(&cpu) = cpu {
        set_affinity(&[cpu]).map_err(|error| {
            format!("CPU {cpu}: no thread of the load generator can be bound to this CPU: {error}")
        })?;
    }
    let config = config(spec, k)?;
    let endpoint = endpoint(spec, k);
    let no_driver = |error: io::Error| {
        format!(
            "driver {}: cannot be used on this machine: {error}\nhint: use `--driver epoll`",
            spec.load.driver.name()
        )
    };
    match spec.load.driver {
        DriverKind::Uring => {
            let driver = Uring::new(&endpoint, config.connections).map_err(no_driver)?;
            Ok(drive(driver, config, mailbox, sink, priority(spec)))
        }
        DriverKind::Epoll => {
            let driver = Epoll::new(&endpoint, config.connections).map_err(no_driver)?;
            Ok(drive(driver, config, mailbox, sink, priority(spec)))
        }
    }
}

/// Returns the priority that workers request. Real time is refused if two workers share a CPU,
/// because they would block each other.
fn priority(spec: &LoadSpec) -> Priority {
    let share_cpus = !spec.cpus.is_empty() && spec.threads() as usize > spec.cpus.len();
    if share_cpus { Priority::Normal } else { spec.load.priority }
}

/// Runs a worker with a driver until it is told to close its connections, and returns its result.
fn drive<D: StreamDriver>(
    mut driver: D,
    config: WorkerConfig,
    mailbox: Mailbox,
    sink: &Sink,
    mut priority: Priority,
) -> WorkerResult {
    let k = config.worker;
    let mut worker = Worker::new(config);
    let mailbox = RefCell::new(mailbox);
    let mut is_announced = false;
    let begin = || -> Option<Instant> {
        if !std::mem::replace(&mut is_announced, true) {
            sink.send(k, WorkerEvent::Ready);
        }
        // The priority is requested only after all workers are ready, because a waiting real-time
        // thread could block others on its CPU.
        mailbox.borrow_mut().begin().inspect(|_| {
            if priority == Priority::Realtime && set_realtime().is_err() {
                priority = Priority::Normal;
            }
        })
    };
    let stop = |responses| -> Stop {
        sink.count(k, responses);
        mailbox.borrow_mut().stop()
    };
    dyno_engine::run_until_drained(&mut worker, &mut driver, begin, stop, |interval| {
        sink.send(k, WorkerEvent::Interval(Box::new(interval)));
    });
    sink.send(k, WorkerEvent::Drained);
    // The closing sample must be taken first, because a thread of the server may end with its
    // connection.
    mailbox.into_inner().wait_until_closable();
    worker.close(&mut driver);
    WorkerResult { report: worker.report(), priority }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_stamps_are_unsupported_by_uring_only() {
        let stamps = |driver| Native { driver }.capabilities().kernel_stamps;
        assert_eq!(stamps(DriverKind::Epoll), Support::Supported);
        assert!(stamps(DriverKind::Uring).refusal().is_some());
    }
}

//! Runs a test server with one of the threading models: a thread per connection or request, a pool
//! of workers, or an event loop.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use dyno_testkit::{RequestWork, ThreadModel};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use crate::http::ServerConnection;
use crate::task::Task;

const LISTENER: u64 = u64::MAX;
const BACKLOG: i32 = 1024;

/// Serves until the process ends.
pub fn serve(listener: &TcpListener, model: ThreadModel, task: &Arc<Task>) -> io::Result<()> {
    // The standard library listens with an accept queue of its own length. A second `listen`
    // changes this length.
    let backlog =
        if let ThreadModel::SlowAccept { backlog, .. } = model { backlog } else { BACKLOG };
    rustix::net::listen(listener, backlog)?;
    if matches!(task.work, RequestWork::BurnWithIdlers(_)) {
        for _ in 0..3 {
            let task = Arc::clone(task);
            thread::spawn(move || task.idle());
        }
    }
    match model {
        ThreadModel::ThreadPerConnection => accept_all(listener, task, Duration::ZERO),
        ThreadModel::SlowAccept { every_us, .. } => {
            accept_all(listener, task, Duration::from_micros(every_us.into()))
        }
        ThreadModel::EventLoop => EventLoop::new(listener)?.run(listener, task, false),
        ThreadModel::BusyLoop => EventLoop::new(listener)?.run(listener, task, true),
        ThreadModel::Pool(workers) => dispatch(listener, task, Some(workers)),
        ThreadModel::ThreadPerRequest => dispatch(listener, task, None),
    }
}

/// Accepts connections forever, one after each `pause`, and serves each in its own thread.
fn accept_all(listener: &TcpListener, task: &Arc<Task>, pause: Duration) -> io::Result<()> {
    loop {
        thread::sleep(pause);
        let Ok((stream, _)) = listener.accept() else { continue };
        let task = Arc::clone(task);
        thread::spawn(move || {
            let mut connection = ServerConnection::new(stream);
            set_nodelay(&connection.stream, &task);
            while serve_once(&mut connection, &task) {}
        });
    }
}

/// Disables Nagle's algorithm, except for work that needs it.
fn set_nodelay(stream: &TcpStream, task: &Task) {
    // Fails only if the peer has closed the connection, which the next read reports.
    let _ = stream.set_nodelay(!matches!(task.work, RequestWork::TwoWrites));
}

/// Reads once, and responds to all complete requests. Returns whether the connection continues.
fn serve_once(connection: &mut ServerConnection, task: &Task) -> bool {
    let Some(requests) = connection.receive() else { return false };
    (0..requests).all(|_| {
        let result = task.perform();
        result.and_then(|()| respond(connection, task)).inspect_err(report).is_ok()
    })
}

/// Prints an error. A client that closes its connection is not an error.
fn report(error: &io::Error) {
    if !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
        eprintln!("testkit: {error}");
    }
}

/// Sends a response in the way that the work requires.
fn respond(connection: &mut ServerConnection, task: &Task) -> io::Result<()> {
    match task.work {
        RequestWork::TwoWrites => connection.respond_in_two_writes(),
        _ => connection.respond(),
    }
}

/// One thread that waits for events of all connections.
struct EventLoop {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    connections: HashMap<u64, ServerConnection>,
    /// Times of scheduled responses with their connections, in order of time.
    timers: VecDeque<(Instant, u64)>,
}

impl EventLoop {
    fn new(listener: &TcpListener) -> io::Result<EventLoop> {
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let (connections, timers) = (HashMap::new(), VecDeque::new());
        Ok(EventLoop { epoll, events: Vec::with_capacity(256), connections, timers })
    }

    fn run(&mut self, listener: &TcpListener, task: &Task, is_busy: bool) -> io::Result<()> {
        loop {
            let timeout = if is_busy { Some(Duration::ZERO) } else { self.timeout() };
            wait(&self.epoll, &mut self.events, timeout)?;
            for event in std::mem::take(&mut self.events) {
                match event.data.u64() {
                    LISTENER => self.accept(listener, task)?,
                    id => self.receive(id, task),
                }
            }
            self.events.reserve(256);
            self.send_scheduled();
        }
    }

    fn accept(&mut self, listener: &TcpListener, task: &Task) -> io::Result<()> {
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true)?;
            set_nodelay(&stream, task);
            let id = stream.as_raw_fd() as u64;
            epoll::add(&self.epoll, &stream, EventData::new_u64(id), EventFlags::IN)?;
            self.connections.insert(id, ServerConnection::new(stream));
        }
        Ok(())
    }

    fn receive(&mut self, id: u64, task: &Task) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let continues = match task.work {
            RequestWork::Timer(us) => connection.receive().map(|requests| {
                let respond_at = Instant::now() + Duration::from_micros(us.into());
                self.timers.extend((0..requests).map(|_| (respond_at, id)));
            }),
            _ => serve_once(connection, task).then_some(()),
        };
        if continues.is_none() {
            self.connections.remove(&id);
        }
    }

    /// Returns the time until the first scheduled response. `None`: no response is scheduled.
    fn timeout(&self) -> Option<Duration> {
        self.timers.front().map(|(at, _)| at.saturating_duration_since(Instant::now()))
    }

    /// Sends the responses whose time has come.
    fn send_scheduled(&mut self) {
        while self.timeout() == Some(Duration::ZERO) {
            let Some((_, id)) = self.timers.pop_front() else { return };
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            if connection.respond().is_err() {
                self.connections.remove(&id);
            }
        }
    }
}

/// Waits for events. A signal ends the wait without events.
fn wait(
    epoll: &OwnedFd,
    events: &mut Vec<epoll::Event>,
    timeout: Option<Duration>,
) -> io::Result<()> {
    let timeout = timeout.map(|time| Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    });
    match epoll::wait(epoll, spare_capacity(events), timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Queue of connections with received data, for the workers.
#[derive(Default)]
struct Queue {
    connections: Mutex<VecDeque<ServerConnection>>,
    connection_added: Condvar,
}

impl Queue {
    fn push(&self, connection: ServerConnection) {
        self.connections.lock().expect("no thread should panic").push_back(connection);
        self.connection_added.notify_one();
    }

    /// Removes the first connection. Waits while the queue is empty.
    fn take(&self) -> ServerConnection {
        let queue = self.connections.lock().expect("no thread should panic");
        let is_empty = |queue: &mut VecDeque<ServerConnection>| queue.is_empty();
        let mut queue =
            self.connection_added.wait_while(queue, is_empty).expect("no thread should panic");
        queue.pop_front().expect("the wait should end only when the queue has a connection")
    }
}

/// Connections that wait for a request. The kernel reports one event for each, and then no further
/// event until the connection is inserted again.
struct WaitingConnections {
    epoll: OwnedFd,
    connections: Mutex<HashMap<u64, ServerConnection>>,
}

impl WaitingConnections {
    /// Stores a connection, and waits for its next request.
    fn insert(&self, connection: ServerConnection, is_new: bool) -> io::Result<()> {
        let id = connection.stream.as_raw_fd() as u64;
        let armed = EventFlags::IN | EventFlags::ONESHOT;
        // The lock is held until the event is registered, so that `dispatch` finds the connection.
        let mut connections = self.connections.lock().expect("no thread should panic");
        let stream = &connections.entry(id).insert_entry(connection).into_mut().stream;
        match is_new {
            true => epoll::add(&self.epoll, stream, EventData::new_u64(id), armed)?,
            false => epoll::modify(&self.epoll, stream, EventData::new_u64(id), armed)?,
        }
        Ok(())
    }

    /// Serves the requests of a connection, which then waits again.
    fn serve(&self, mut connection: ServerConnection, task: &Task) {
        if serve_once(&mut connection, task) {
            // This fails only if the kernel has no memory, and closes the connection.
            let _ = self.insert(connection, false);
        }
    }
}

/// Waits for requests, and passes each to a worker or, without workers, to a new thread.
fn dispatch(listener: &TcpListener, task: &Arc<Task>, workers: Option<u32>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let waiting = Arc::new(WaitingConnections { epoll, connections: Mutex::default() });
    let queue = Arc::new(Queue::default());
    for _ in 0..workers.unwrap_or(0) {
        let (queue, waiting, task) = (Arc::clone(&queue), Arc::clone(&waiting), Arc::clone(task));
        thread::spawn(move || {
            loop {
                waiting.serve(queue.take(), &task);
            }
        });
    }
    let mut events = Vec::with_capacity(256);
    loop {
        wait(&waiting.epoll, &mut events, None)?;
        for event in events.drain(..) {
            if event.data.u64() == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    set_nodelay(&stream, task);
                    waiting.insert(ServerConnection::new(stream), true)?;
                }
                continue;
            }
            let mut connections = waiting.connections.lock().expect("no thread should panic");
            let Some(connection) = connections.remove(&event.data.u64()) else { continue };
            drop(connections);
            if workers.is_some() {
                queue.push(connection);
            } else {
                let (waiting, task) = (Arc::clone(&waiting), Arc::clone(task));
                thread::spawn(move || waiting.serve(connection, &task));
            }
        }
    }
}

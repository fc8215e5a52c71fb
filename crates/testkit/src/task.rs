//! Performs the work of a request in a test server. Each kind of work causes a known bottleneck.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, mpsc};
use std::thread::sleep;
use std::time::{Duration, Instant};

use dyno_testkit::RequestWork;
use rustix::fs::OFlags;

use crate::burn::Burner;
use crate::http::request;

const PAGE: usize = 4096;

/// Size of the file that is read, bypassing the page cache.
const FILE_BYTES: u64 = 64 << 20;

/// Successive reads per request. With fewer reads, a fast disk would not take most of the time.
const READS_PER_REQUEST: u64 = 8;

/// Bytes that a request writes, bypassing the page cache. With smaller writes to a fast disk, the
/// CPU time of system calls was the limit instead of the disk.
const WRITE_BYTES: usize = 1 << 20;

/// CPU time of a request before its call of the back end, microseconds.
const BEFORE_CALL_US: u32 = 20;

/// Work of requests, and the state that all requests share.
#[derive(Debug)]
pub struct Task {
    pub work: RequestWork,
    burner: Burner,
    /// Port of the back end.
    back_end: Option<u16>,
    /// Number of requests so far.
    requests: AtomicU32,
    /// Mutex of [`RequestWork::Lock`].
    lock: Mutex<()>,
    /// Whether a request has the turn of [`RequestWork::Turn`].
    is_turn_taken: Mutex<bool>,
    turn_passed: Condvar,
    /// Whether a request holds the lock of [`RequestWork::Spinlock`].
    is_spinlock_held: AtomicBool,
    leaked: Mutex<Vec<Vec<u8>>>,
    /// Free connections of the pool of [`RequestWork::CallPooled`].
    pool: Mutex<Vec<TcpStream>>,
    connection_returned: Condvar,
    /// File of [`RequestWork::ReadDisk`].
    file: Option<File>,
    /// End of the last stall, or start of the server.
    last_stall: Mutex<Instant>,
}

thread_local! {
    /// This thread's connection to the back end.
    static BACK_END: RefCell<Option<TcpStream>> = const { RefCell::new(None) };
    /// This thread's file. Threads that write to the same file would wait for its lock.
    static SYNC_FILE: RefCell<Option<File>> = const { RefCell::new(None) };
    /// Aligned data for this thread's writes and reads.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Task {
    pub fn new(work: RequestWork, back_end: Option<u16>) -> io::Result<Task> {
        let file = match work {
            RequestWork::ReadDisk => Some(open_direct_file()?),
            _ => None,
        };
        let pooled = if let RequestWork::CallPooled(n) = work { n } else { 0 };
        let pool = (0..pooled).map(|_| connect(back_end)).collect::<io::Result<_>>()?;
        Ok(Task {
            work,
            burner: Burner::new(),
            back_end,
            requests: AtomicU32::new(0),
            lock: Mutex::default(),
            is_turn_taken: Mutex::default(),
            turn_passed: Condvar::new(),
            is_spinlock_held: AtomicBool::new(false),
            leaked: Mutex::default(),
            pool: Mutex::new(pool),
            connection_returned: Condvar::new(),
            file,
            last_stall: Mutex::new(Instant::now()),
        })
    }

    /// Does the work of one request.
    pub fn perform(&self) -> io::Result<()> {
        let before = self.requests.fetch_add(1, Ordering::Relaxed);
        match self.work {
            RequestWork::Nothing | RequestWork::TwoWrites | RequestWork::Timer(_) => {}
            RequestWork::Burn(us) | RequestWork::BurnWithIdlers(us) => self.burner.burn(us),
            RequestWork::Cache { requests, cold, warm } => {
                self.burner.burn(if before < requests { cold } else { warm });
            }
            RequestWork::GrowingBurn(us) => self.burner.burn(us + us / 100 * (before / 10)),
            RequestWork::Leak(us) => {
                self.leaked.lock().expect("no thread should panic").push(vec![1; PAGE]);
                self.burner.burn(us);
            }
            RequestWork::Sleep(us) => sleep(micros(us)),
            RequestWork::ConditionWait(us) => wait_on_condition(micros(us)),
            RequestWork::ChannelWait(us) => wait_on_channel(micros(us)),
            RequestWork::Lock { burn, sleep: us } => {
                let _held = self.lock.lock().expect("no thread should panic");
                self.burner.burn(burn);
                sleep(micros(us));
            }
            RequestWork::Turn(us) => self.take_turn(micros(us)),
            RequestWork::Spinlock(us) => self.hold_spinlock(micros(us)),
            RequestWork::CallBackEnd => self.call()?,
            RequestWork::CallPooled(_) => self.call_pooled()?,
            RequestWork::Sync => self.sync()?,
            RequestWork::ReadDisk => self.read(before)?,
            RequestWork::Process(us) => start_process(self.burner.rounds(us))?,
            RequestWork::Stall { every_ms, stop_ms } => self.stall(every_ms, stop_ms),
        }
        Ok(())
    }

    /// Does a little work from time to time, forever, in parallel with the serving threads.
    pub fn idle(&self) {
        loop {
            self.burner.burn(50);
            sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the turn, sleeps, and passes the turn on.
    fn take_turn(&self, time: Duration) {
        let is_taken = self.is_turn_taken.lock().expect("no thread should panic");
        let mut is_taken = self
            .turn_passed
            .wait_while(is_taken, |is_taken| *is_taken)
            .expect("no thread should panic");
        *is_taken = true;
        drop(is_taken);
        sleep(time);
        *self.is_turn_taken.lock().expect("no thread should panic") = false;
        self.turn_passed.notify_one();
    }

    /// Takes the spinlock, sleeps, and releases the spinlock.
    fn hold_spinlock(&self, time: Duration) {
        while self.is_spinlock_held.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        sleep(time);
        self.is_spinlock_held.store(false, Ordering::Release);
    }

    /// Calls the back end over this thread's connection.
    fn call(&self) -> io::Result<()> {
        self.burner.burn(BEFORE_CALL_US);
        BACK_END.with_borrow_mut(|stream| {
            let stream = match stream {
                Some(stream) => stream,
                none => none.insert(connect(self.back_end)?),
            };
            request(stream)
        })
    }

    /// Calls the back end over a connection of the pool. Waits until a connection is free.
    fn call_pooled(&self) -> io::Result<()> {
        self.burner.burn(BEFORE_CALL_US);
        let pool = self.pool.lock().expect("no thread should panic");
        let is_empty = |pool: &mut Vec<TcpStream>| pool.is_empty();
        let mut pool =
            self.connection_returned.wait_while(pool, is_empty).expect("no thread should panic");
        let mut stream = pool.pop().expect("the wait should end only with a free connection");
        drop(pool);
        let result = request(&mut stream);
        self.pool.lock().expect("no thread should panic").push(stream);
        self.connection_returned.notify_one();
        result
    }

    /// Writes to this thread's file, and waits until the data is on the disk.
    fn sync(&self) -> io::Result<()> {
        SYNC_FILE.with_borrow_mut(|file| {
            let file = match file {
                Some(file) => file,
                none => none.insert(file_of_thread()?),
            };
            with_aligned_buffer(WRITE_BYTES, |buffer| file.write_all_at(buffer, 0))?;
            file.sync_data()
        })
    }

    /// Reads from the file at places that depend on the number of the request.
    fn read(&self, request: u32) -> io::Result<()> {
        let file = self.file.as_ref().expect("the task should have its file");
        let pages = FILE_BYTES / PAGE as u64;
        (0..READS_PER_REQUEST).try_for_each(|n| {
            // The factor is a prime, so successive reads are far apart, and reach all pages.
            let page = (u64::from(request) * READS_PER_REQUEST + n).wrapping_mul(7919) % pages;
            with_aligned_buffer(PAGE, |buffer| file.read_exact_at(buffer, page * PAGE as u64))
        })
    }

    /// Sleeps for `stop_ms` if the last stall ended at least `every_ms` ago, and computes a little.
    fn stall(&self, every_ms: u32, stop_ms: u32) {
        let mut last_stall = self.last_stall.lock().expect("no thread should panic");
        if last_stall.elapsed() >= Duration::from_millis(every_ms.into()) {
            sleep(Duration::from_millis(stop_ms.into()));
            *last_stall = Instant::now();
        }
        self.burner.burn(50);
    }
}

fn micros(us: u32) -> Duration {
    Duration::from_micros(us.into())
}

/// Waits for this time on a condition that is never met.
fn wait_on_condition(time: Duration) {
    let (never, condition) = (Mutex::new(()), Condvar::new());
    let held = never.lock().expect("no thread should panic");
    let _ended =
        condition.wait_timeout_while(held, time, |()| true).expect("no thread should panic");
}

/// Waits for this time on a channel that gets no message.
fn wait_on_channel(time: Duration) {
    let (_sender, receiver) = mpsc::channel::<()>();
    let _timeout = receiver.recv_timeout(time);
}

/// Starts a process that computes this number of rounds, and waits for its end.
fn start_process(rounds: u64) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--rounds", &rounds.to_string()]).status().map(drop)
}

/// Connects to the back end.
fn connect(back_end: Option<u16>) -> io::Result<TcpStream> {
    let port = back_end.ok_or_else(|| io::Error::other("--backend: missing"))?;
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Creates a file for this thread, for writes that bypass the page cache.
fn file_of_thread() -> io::Result<File> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("written-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    OpenOptions::new().write(true).create(true).truncate(true).custom_flags(OPEN_DIRECT).open(name)
}

/// Flag `O_DIRECT`: reads and writes bypass the page cache.
const OPEN_DIRECT: i32 = OFlags::DIRECT.bits() as i32;

/// Calls `act` with a buffer that is aligned to blocks, as reads and writes that bypass the page
/// cache need.
fn with_aligned_buffer<T>(
    bytes: usize,
    act: impl FnOnce(&mut [u8]) -> io::Result<T>,
) -> io::Result<T> {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(bytes + PAGE, 1);
        let begin = buffer.as_ptr().align_offset(PAGE);
        act(&mut buffer[begin..begin + bytes])
    })
}

/// Creates the file to read from, and opens it for reads that bypass the page cache.
fn open_direct_file() -> io::Result<File> {
    let block = vec![1; 1 << 20];
    let file = File::create("read")?;
    for at in (0..FILE_BYTES).step_by(block.len()) {
        file.write_all_at(&block, at)?;
    }
    file.sync_all()?;
    OpenOptions::new().read(true).custom_flags(OPEN_DIRECT).open("read")
}

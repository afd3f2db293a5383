//! One thread that writes and syncs for one log, in order, off the engine's thread and off its shared pool.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::abort;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use napi::bindgen_prelude::{FnArgs, Function, ObjectFinalize, Uint8Array};
use napi::threadsafe_function::{
    ThreadsafeCallContext, ThreadsafeFunction, ThreadsafeFunctionCallMode, UnknownReturnValue,
};
use napi::{CleanupEnvHook, Env, Error, Result, Status};
use napi_derive::napi;

use crate::arguments::{MAX_SAFE_INTEGER, descriptor, invalid, whole};
use crate::file::{BorrowedFile, number};

/// Jobs that may wait behind the running one.
const MAX_QUEUED: usize = 64;
const NOTHING: f64 = -1.0;

/// The step at which a job failed; 0 for a job that did not.
mod step {
    pub const NONE: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const TRUNCATE: u32 = 2;
    /// Not 3: that is the reservation, whose failure is no failure.
    pub const SYNC: u32 = 4;
}

struct Write {
    /// Holds a reference to the JavaScript buffer: it is neither freed nor moved while the job is on its way.
    buffer: Uint8Array,
    offset: usize,
    length: usize,
    position: u64,
}

#[derive(Clone, Copy)]
enum Barrier {
    None,
    Data,
    Full,
    /// No barrier: the kernel begins to write the job's bytes, and nobody waits.
    Begin,
}

struct Job {
    id: f64,
    fd: i32,
    write: Option<Write>,
    truncate_to: Option<u64>,
    allocate_to: Option<u64>,
    barrier: Barrier,
}

impl Job {
    fn run(&self) -> std::result::Result<(), (u32, std::io::Error)> {
        let file = BorrowedFile::new(self.fd);
        if let Some(write) = &self.write {
            let bytes = &write.buffer[write.offset..write.offset + write.length];
            file.write_all_at(bytes, write.position).map_err(|error| (step::WRITE, error))?;
        }
        if let Some(length) = self.truncate_to {
            file.truncate(length).map_err(|error| (step::TRUNCATE, error))?;
        }
        if let Some(length) = self.allocate_to {
            // Reserving is an optimisation: without it the next write finds out (storage.md 14.4).
            let _ = file.allocate(length);
        }
        match self.barrier {
            Barrier::None => Ok(()),
            Barrier::Begin => {
                if let Some(write) = &self.write {
                    file.begin_writeback(write.position, write.length as u64);
                }
                Ok(())
            }
            Barrier::Data => file.sync_data(),
            Barrier::Full => file.sync_all(),
        }
        .map_err(|error| (step::SYNC, error))
    }
}

/// A finished job on its way back; the buffer goes with it, so that its reference is released on the engine's thread.
struct Completion {
    job: Job,
    errno: i32,
    step: u32,
}

/// Weak: a waiting callback does not keep the process alive.
type Callback = ThreadsafeFunction<Completion, UnknownReturnValue, FnArgs<(f64, i32, u32)>, Status, false, true>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Set by the thread as its last act: it touches no buffer any more.
    ended: AtomicBool,
    /// Set once the engine's shutdown has taken the cleanup hook, which is not there to be removed any more.
    torn_down: AtomicBool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) -> MutexGuard<'_, Queue> {
        let mut queue = self.queue();
        queue.closed = true;
        self.changed.notify_one();
        queue
    }

    /// The next job; `None` once the queue is closed and empty.
    fn take(&self) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, callback: &Callback) {
        while let Some(job) = self.take() {
            let (step, errno) = match job.run() {
                Ok(()) => (step::NONE, 0),
                Err((step, error)) => (step, number(&error)),
            };
            // Fails only while the engine shuts down, when nobody waits for it any more.
            callback.call(Completion { job, errno, step }, ThreadsafeFunctionCallMode::NonBlocking);
        }
    }
}

/// What the engine's shutdown needs: the thread must not touch a buffer after the engine freed it.
struct Teardown {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Teardown {
    /// Drops the waiting jobs, as a crash would, and waits for the running one.
    fn run(self) {
        self.shared.close().jobs.clear();
        let _ = self.thread.join();
        self.shared.torn_down.store(true, Ordering::Release);
    }
}

/// A thread of the addon's own that runs jobs in order: `node:fs` shares one small pool among all files, so that one
/// stalled disk would stall every log, and its callbacks come later than these.
#[napi(custom_finalize)]
pub struct IoThread {
    shared: Arc<Shared>,
    teardown: CleanupEnvHook<Teardown>,
}

#[napi]
impl IoThread {
    /// Starts the thread. `callback(id, errno, step)` is called once per job, in order, on the engine's thread; errno 0
    /// is success, step 1 the write, 2 the truncation, 4 the barrier.
    #[napi(constructor, catch_unwind)]
    pub fn new(env: Env, callback: Function<'_, FnArgs<(f64, i32, u32)>, UnknownReturnValue>) -> Result<Self> {
        let callback: Callback = callback
            .build_threadsafe_function::<Completion>()
            .weak::<true>()
            .callee_handled::<false>()
            .build_callback(|context: ThreadsafeCallContext<Completion>| {
                let Completion { job, errno, step } = context.value;
                Ok(FnArgs::from((job.id, errno, step)))
            })?;
        let shared = Arc::new(Shared::default());
        let running = Arc::clone(&shared);
        let thread = Builder::new()
            .name("ironbus-io".into())
            .spawn(move || {
                // A thread that dies would never call back, and nothing else would notice.
                if catch_unwind(AssertUnwindSafe(|| running.run(&callback))).is_err() {
                    abort();
                }
                running.ended.store(true, Ordering::Release);
            })
            .map_err(|error| Error::from_reason(format!("cannot start an I/O thread: {error}")))?;
        let teardown = Teardown { shared: Arc::clone(&shared), thread };
        let teardown = env.add_env_cleanup_hook(teardown, Teardown::run)?;
        Ok(Self { shared, teardown })
    }

    /// Queues a job: write buffer[offset, offset + length) at `position` (unless `buffer` is null), set the file's
    /// length (unless -1), reserve and extend (unless -1), then no barrier (0), fdatasync (1), fsync (2), or the
    /// beginning of the write to the disk without waiting for it (3). Fails when closed, when 64 jobs wait, and for
    /// arguments out of range.
    #[allow(clippy::too_many_arguments, reason = "scalars cross much faster than an object of them")]
    #[napi(catch_unwind)]
    pub fn submit(
        &self,
        id: f64,
        fd: f64,
        buffer: Option<Uint8Array>,
        offset: f64,
        length: f64,
        position: f64,
        truncate_to: f64,
        allocate_to: f64,
        barrier: u32,
    ) -> Result<()> {
        let write = match buffer {
            None => None,
            Some(buffer) => {
                let offset = whole(offset, buffer.len() as u64, "offset")? as usize;
                let length = whole(length, (buffer.len() - offset) as u64, "length")? as usize;
                let position = whole(position, MAX_SAFE_INTEGER as u64 - length as u64, "position")?;
                Some(Write { buffer, offset, length, position })
            }
        };
        let job = Job {
            id,
            fd: descriptor(fd)?,
            write,
            truncate_to: optional_length(truncate_to, "truncateTo")?,
            allocate_to: optional_length(allocate_to, "allocateTo")?,
            barrier: match barrier {
                0 => Barrier::None,
                1 => Barrier::Data,
                2 => Barrier::Full,
                3 => Barrier::Begin,
                _ => return Err(invalid(format!("barrier must be 0 to 3, not {barrier}"))),
            },
        };
        let mut queue = self.shared.queue();
        if queue.closed {
            return Err(Error::new(Status::Closing, "the I/O thread is closed"));
        }
        if queue.jobs.len() >= MAX_QUEUED {
            return Err(Error::new(Status::QueueFull, format!("{MAX_QUEUED} jobs wait already")));
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Refuses further jobs; the queued ones run and call back, then the thread ends. Idempotent, returns at once.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        drop(self.shared.close());
    }
}

impl ObjectFinalize for IoThread {
    fn finalize(self, env: Env) -> Result<()> {
        drop(self.shared.close());
        // Of a thread that still has jobs the hook stays: the engine may shut down before they are done.
        if self.shared.ended.load(Ordering::Acquire) && !self.shared.torn_down.load(Ordering::Acquire) {
            env.remove_env_cleanup_hook(self.teardown)?;
        }
        Ok(())
    }
}

fn optional_length(value: f64, name: &str) -> Result<Option<u64>> {
    if value == NOTHING { Ok(None) } else { whole(value, MAX_SAFE_INTEGER as u64, name).map(Some) }
}

//! File operations that `node:fs` does not have, and the steps of an I/O job. Errors are errno numbers.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::FileExt;

use napi::Result;
use napi_derive::napi;

use crate::arguments::{MAX_SAFE_INTEGER, descriptor, whole};

/// Takes an exclusive lock without waiting: neither Bun nor Node has flock. Returns 0, or the errno (EWOULDBLOCK when
/// another holder has it).
#[napi(catch_unwind)]
pub fn flock(fd: f64) -> Result<i32> {
    let fd = descriptor(fd)?;
    loop {
        // SAFETY: flock takes no memory of ours; a wrong descriptor is EBADF.
        if unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(0);
        }
        let error = Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Ok(number(&error));
        }
    }
}

/// Reserves blocks up to `length` and extends the file to it, never shrinking: neither Bun nor Node has fallocate.
/// Returns 0, or the errno. A file system that cannot reserve only extends.
#[napi(catch_unwind)]
pub fn fallocate(fd: f64, length: f64) -> Result<i32> {
    let file = BorrowedFile::new(descriptor(fd)?);
    let length = whole(length, MAX_SAFE_INTEGER as u64, "length")?;
    Ok(file.allocate(length).err().as_ref().map_or(0, number))
}

/// The errno of an error; EIO for what has none, such as a write that makes no progress.
pub fn number(error: &Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// A file of somebody else's: used, never closed.
pub struct BorrowedFile(ManuallyDrop<File>);

impl BorrowedFile {
    /// `fd` must not be negative; whether it is open shows in each operation's result.
    pub fn new(fd: RawFd) -> Self {
        // SAFETY: ManuallyDrop keeps the descriptor from being closed here. That it stays open for the time of the
        // operation is the caller's promise; when broken, the operation fails or hits the number's next file, as it
        // would in `node:fs`.
        Self(ManuallyDrop::new(unsafe { File::from_raw_fd(fd) }))
    }

    /// Writes all of `bytes`: continues short writes and interrupted ones.
    pub fn write_all_at(&self, bytes: &[u8], position: u64) -> std::io::Result<()> {
        self.0.write_all_at(bytes, position)
    }

    pub fn truncate(&self, length: u64) -> std::io::Result<()> {
        self.0.set_len(length)
    }

    /// fdatasync; F_FULLFSYNC on Apple targets.
    pub fn sync_data(&self) -> std::io::Result<()> {
        self.0.sync_data()?;
        self.require_writable()
    }

    /// fsync; F_FULLFSYNC on Apple targets.
    pub fn sync_all(&self) -> std::io::Result<()> {
        self.0.sync_all()?;
        self.require_writable()
    }

    /// A file system that an error has made read-only (ext4 with errors=remount-ro) may answer a sync with success
    /// although nothing is written any more: such a success is none.
    fn require_writable(&self) -> std::io::Result<()> {
        // SAFETY: zeros are a valid value of this structure of numbers.
        let mut status: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: the structure lives across the call; a wrong descriptor is EBADF.
        let read_only =
            unsafe { libc::fstatvfs(self.0.as_raw_fd(), &mut status) } == 0 && status.f_flag & libc::ST_RDONLY != 0;
        if read_only { Err(Error::from_raw_os_error(libc::EROFS)) } else { Ok(()) }
    }

    /// Has the kernel begin to write these bytes to the disk: a later barrier waits for less. A hint, and only on Linux.
    pub fn begin_writeback(&self, position: u64, length: u64) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        // SAFETY: a system call on a descriptor that is open while the job runs; it touches no memory of ours.
        unsafe {
            libc::sync_file_range(
                self.0.as_raw_fd(),
                position as libc::off64_t,
                length as libc::off64_t,
                libc::SYNC_FILE_RANGE_WRITE,
            );
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let _ = (position, length);
    }

    pub fn allocate(&self, length: u64) -> std::io::Result<()> {
        let now = self.0.metadata()?.len();
        match reserve(self.0.as_raw_fd(), now, length) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                // What a failed reservation got before the disk was full would be missing to everybody else.
                let _ = self.truncate(now);
                return Err(error);
            }
            _ => {}
        }
        if now < length { self.truncate(length) } else { Ok(()) }
    }
}

/// Reserves blocks for [0, length) without changing the file's length.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn reserve(fd: RawFd, _now: u64, length: u64) -> std::io::Result<()> {
    if length == 0 {
        return Ok(());
    }
    loop {
        // SAFETY: fallocate takes no memory of ours.
        if unsafe { libc::fallocate64(fd, libc::FALLOC_FL_KEEP_SIZE, 0, length as i64) } == 0 {
            return Ok(());
        }
        let error = Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Reserves blocks for what lies between the file's end and `length`, in one piece if there is one, else in any.
#[cfg(target_vendor = "apple")]
fn reserve(fd: RawFd, now: u64, length: u64) -> std::io::Result<()> {
    if length <= now {
        return Ok(());
    }
    let mut store = libc::fstore_t {
        fst_flags: libc::F_ALLOCATECONTIG,
        fst_posmode: libc::F_PEOFPOSMODE,
        fst_offset: 0,
        fst_length: (length - now) as i64,
        fst_bytesalloc: 0,
    };
    // SAFETY: the structure lives across both calls.
    let mut failed = unsafe { libc::fcntl(fd, libc::F_PREALLOCATE, &mut store) } == -1;
    if failed {
        store.fst_flags = libc::F_ALLOCATEALL;
        // SAFETY: as above.
        failed = unsafe { libc::fcntl(fd, libc::F_PREALLOCATE, &mut store) } == -1;
    }
    if failed { Err(Error::last_os_error()) } else { Ok(()) }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn reserve(_fd: RawFd, _now: u64, _length: u64) -> std::io::Result<()> {
    Ok(())
}

//! Memory for positioned and direct writes.

use std::ptr::{self, NonNull};

use libc::c_void;
use napi::bindgen_prelude::BufferSlice;
use napi::{Env, Error, Result};
use napi_derive::napi;

use crate::arguments::{invalid, whole};

/// Largest buffer that every target's Node can hold.
const MAX_BYTES: u64 = (1 << 30) - 1;

/// A zeroed buffer at an address that is a multiple of 4096, as direct writes need; Node aligns to 16 at most. The
/// engine counts the memory towards its garbage and frees it with the buffer.
#[napi(catch_unwind)]
pub fn aligned_buffer(env: Env, length: f64) -> Result<BufferSlice<'static>> {
    let length = whole(length, MAX_BYTES, "length")? as usize;
    if length == 0 {
        return Err(invalid("length must be at least 1"));
    }
    let pages = Pages::map(length)?;
    let address = pages.address.as_ptr().cast();
    // SAFETY: the pages are mapped, zeroed and ours alone until `Pages` is dropped by the buffer's finalizer.
    unsafe { BufferSlice::from_external(&env, address, length, pages, |_, pages| drop(pages)) }
}

/// Pages of our own instead of the allocator's: zeroed on first touch, and back with the system once freed.
struct Pages {
    address: NonNull<c_void>,
    length: usize,
}

impl Pages {
    fn map(length: usize) -> Result<Self> {
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        match NonNull::new(address) {
            Some(address) if address.as_ptr() != libc::MAP_FAILED => Ok(Self { address, length }),
            _ => Err(Error::from_reason(format!("cannot map {length} bytes: {}", std::io::Error::last_os_error()))),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` mapped, and nothing refers to it any more.
        unsafe { libc::munmap(self.address.as_ptr(), self.length) };
    }
}

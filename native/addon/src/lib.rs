//! The native half of IronBus's runtime: checksums, sealing and scanning of records, and the file operations that
//! JavaScript lacks. Every export has a TypeScript twin or a fallback; `src/runtime/native/addon.ts` names their types.

mod aligned_buffer;
mod arguments;
mod checksum;
mod file;
mod frame;
mod io_thread;
mod lz4;
mod lz4_encoder;
mod record;

use napi_derive::napi;

/// The loader refuses an addon of another version: a stale file must not be called with other arguments.
#[napi]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

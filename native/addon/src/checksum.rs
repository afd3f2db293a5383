//! CRC-32C and XXH3-64.

use napi::Result;
use napi::bindgen_prelude::BigInt;
use napi_derive::napi;

use twox_hash::XxHash3_64;

use crate::arguments::{Elements, range};

/// Up to here one chain of CRC instructions is as fast as three side by side, and needs no set-up.
#[cfg(target_arch = "x86_64")]
const SHORT_BYTES: usize = 768;

/// CRC-32C of a buffer: a checksum that is cheap only with the processor's own instruction.
#[napi(js_name = "crc32c", catch_unwind)]
pub fn crc32c_of_buffer(buffer: Elements<u8>, start: f64, end: f64) -> Result<u32> {
    let bytes = range(start, end, buffer.len())?;
    Ok(crc32c(&buffer.as_slice()[bytes]))
}

/// XXH3-64 of a buffer: Node has none.
#[napi(js_name = "xxh3", catch_unwind)]
pub fn xxh3_of_buffer(buffer: Elements<u8>, start: f64, end: f64) -> Result<BigInt> {
    let bytes = range(start, end, buffer.len())?;
    Ok(BigInt::from(xxh3_64(&buffer.as_slice()[bytes])))
}

/// XXH3-64 with seed 0.
pub fn xxh3_64(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// CRC-32C of what `crc` covers and `bytes` behind it.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    if bytes.is_empty() {
        return crc;
    }
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < SHORT_BYTES && is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE 4.2.
        return unsafe { short::crc32c_append(crc, bytes) };
    }
    crc32c::crc32c_append(crc, bytes)
}

/// CRC-32C of the 32 little-endian bytes of `words`.
#[inline]
pub fn crc32c_of_words(words: &[u64; 4]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE 4.2.
        return unsafe { short::crc32c_of_words(words) };
    }
    let mut bytes = [0; 32];
    for (target, word) in bytes.chunks_exact_mut(8).zip(words) {
        target.copy_from_slice(&word.to_le_bytes());
    }
    crc32c::crc32c(&bytes)
}

/// The crate walks up to an aligned address byte by byte; a record's body starts anywhere, and for 128 bytes those
/// steps cost as much as the rest.
#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe, reason = "the intrinsics are unsafe before Rust 1.87")]
mod short {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};

    #[target_feature(enable = "sse4.2")]
    pub unsafe fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
        let mut crc = u64::from(!crc);
        let mut rest = bytes;
        while let Some((eight, after)) = rest.split_first_chunk() {
            // SAFETY: here and below: the caller has checked for SSE 4.2.
            crc = unsafe { _mm_crc32_u64(crc, u64::from_le_bytes(*eight)) };
            rest = after;
        }
        let mut crc = crc as u32;
        if let Some((four, after)) = rest.split_first_chunk() {
            crc = unsafe { _mm_crc32_u32(crc, u32::from_le_bytes(*four)) };
            rest = after;
        }
        if let Some((two, after)) = rest.split_first_chunk() {
            crc = unsafe { _mm_crc32_u16(crc, u16::from_le_bytes(*two)) };
            rest = after;
        }
        if let Some(one) = rest.first() {
            crc = unsafe { _mm_crc32_u8(crc, *one) };
        }
        !crc
    }

    #[target_feature(enable = "sse4.2")]
    pub unsafe fn crc32c_of_words(words: &[u64; 4]) -> u32 {
        let mut crc = u64::from(u32::MAX);
        for word in words {
            // SAFETY: as above.
            crc = unsafe { _mm_crc32_u64(crc, *word) };
        }
        !(crc as u32)
    }
}

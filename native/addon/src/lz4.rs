//! LZ4 blocks (wire.md 16).

use napi::Result;
use napi_derive::napi;

use crate::arguments::{Elements, disjoint, range, whole};

/// Decodes one raw LZ4 block into a given range: neither Bun nor Node has LZ4, and packages bound no output.
#[napi(js_name = "lz4Decompress", catch_unwind)]
pub fn lz4_decompress(
    source: Elements<u8>,
    start: f64,
    end: f64,
    mut target: Elements<u8>,
    at: f64,
    length: f64,
) -> Result<bool> {
    disjoint(&source, &target)?;
    let source_range = range(start, end, source.len())?;
    let at = whole(at, target.len() as u64, "at")? as usize;
    let length = whole(length, (target.len() - at) as u64, "length")? as usize;
    let target = &mut target.as_mut_slice()[at..at + length];
    Ok(lz4_flex::block::decompress_into(&source.as_slice()[source_range], target)
        .is_ok_and(|decoded| decoded == length))
}

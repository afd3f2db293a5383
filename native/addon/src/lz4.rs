//! Compressed payloads (storage.md 4): codec u8, dictionary u32, uncompressed length u32, then for LZ4 one raw block.

use napi::Result;
use napi_derive::napi;

use crate::arguments::{Elements, disjoint, range, whole};
use crate::lz4_encoder::Encoder;

const NONE: u8 = 0;
const LZ4: u8 = 1;
const DESCRIPTOR_BYTES: usize = 9;
/// Shorter payloads are stored as they are.
const MIN_COMPRESSIBLE_BYTES: usize = 64;
/// What readers expand at most.
const MAX_EXPANDED_BYTES: usize = 8 << 20;

/// Writes the compressed form of `payload` to the start of `target`, which has the payload's length. Returns its length;
/// `None` when the payload is to be stored as it is.
#[inline]
pub fn store(payload: &[u8], target: &mut [u8], encoder: &mut Encoder) -> Option<usize> {
    if !(MIN_COMPRESSIBLE_BYTES..=MAX_EXPANDED_BYTES).contains(&payload.len()) {
        return None;
    }
    // Strictly shorter, or not worth it.
    let shorter = payload.len() - 1;
    let (descriptor, stream) = target[..shorter].split_at_mut(DESCRIPTOR_BYTES);
    let length = encoder.compress(payload, stream)?;
    descriptor[0] = LZ4;
    descriptor[1..5].fill(0);
    descriptor[5..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    Some(DESCRIPTOR_BYTES + length)
}

/// Where expanded payloads go.
pub struct Room<'a> {
    bytes: &'a mut [u8],
    used: usize,
}

impl<'a> Room<'a> {
    /// At most 2 GiB: positions are 32 bits wide.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        let end = bytes.len().min(i32::MAX as usize);
        Self { bytes: &mut bytes[..end], used: 0 }
    }
}

pub enum Expanded {
    /// Position and length in the room.
    At(usize, usize),
    /// It is damaged, or needs what is not here.
    Not,
    NoRoom,
}

/// Expands one stored payload. Room that a damaged one claimed stays unused: it bounds the work as well.
pub fn expand(stored: &[u8], room: &mut Room) -> Expanded {
    let Some((descriptor, stream)) = stored.split_first_chunk::<DESCRIPTOR_BYTES>() else {
        return Expanded::Not;
    };
    let [codec, dictionary @ .., l0, l1, l2, l3] = *descriptor;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if codec > LZ4 || dictionary != [0; 4] || length > MAX_EXPANDED_BYTES {
        return Expanded::Not;
    }
    let at = room.used;
    let Some(target) = room.bytes[at..].get_mut(..length) else {
        return Expanded::NoRoom;
    };
    room.used += length;
    let whole = if codec == NONE {
        let equal = stream.len() == length;
        if equal {
            target.copy_from_slice(stream);
        }
        equal
    } else {
        decode(stream, target)
    };
    if whole { Expanded::At(at, length) } else { Expanded::Not }
}

fn decode(stream: &[u8], target: &mut [u8]) -> bool {
    lz4_flex::block::decompress_into(stream, target).is_ok_and(|decoded| decoded == target.len())
}

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
    Ok(decode(&source.as_slice()[source_range], target))
}

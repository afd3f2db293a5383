//! Runs of records: a table of positions sealed into frames, and frames walked into a table.

use std::cell::RefCell;

use napi::Result;
use napi_derive::napi;

use crate::arguments::{Elements, MAX_SAFE_INTEGER, disjoint, invalid, range, whole};
use crate::frame::{COMPRESSED, FIELDS, Fault, Frame, Parts, part};
use crate::lz4::{self, Room};
use crate::lz4_encoder::Encoder;

const END: u8 = 0;
const SEQUENCE_MISMATCH: u8 = 12;

thread_local! {
    /// One for all calls: a fresh hash table for each record would cost as much as compressing it.
    static ENCODER: RefCell<Encoder> = RefCell::new(Encoder::new());
}

/// Rows of a table of `entries` numbers.
fn rows(entries: usize) -> u64 {
    (entries / FIELDS) as u64
}

/// Seals records [first, count) of a chunk into `out` in one call: no call into the engine per record. Returns how many
/// were written, or -1 - row for a row that does not fit; result[0] = end position.
#[allow(clippy::too_many_arguments, reason = "scalars cross much faster than an object of them")]
#[napi(catch_unwind)]
pub fn seal(
    chunk: Elements<u8>,
    table: Elements<i32>,
    first: f64,
    count: f64,
    mut out: Elements<u8>,
    out_start: f64,
    out_limit: f64,
    stop_at: f64,
    sequence: f64,
    mut result: Elements<f64>,
    compression: f64,
) -> Result<i32> {
    disjoint(&out, &chunk)?;
    disjoint(&out, &table)?;
    disjoint(&result, &out)?;
    disjoint(&result, &chunk)?;
    disjoint(&result, &table)?;
    let count = whole(count, rows(table.len()).min(i32::MAX as u64), "count")?;
    let first = whole(first, count, "first")?;
    let sequence = whole(sequence, MAX_SAFE_INTEGER as u64 + 1 - (count - first), "sequence")?;
    let out_range = range(out_start, out_limit, out.len())?;
    let result = result.as_mut_slice();
    if result.is_empty() {
        return Err(invalid("result must have an entry"));
    }
    let compression = whole(compression, 1, "compression")?;
    let rows = &table.as_slice()[first as usize * FIELDS..count as usize * FIELDS];
    let mut run = Run {
        chunk: chunk.as_slice(),
        rows,
        out: &mut out.as_mut_slice()[..out_range.end],
        position: out_range.start,
        // The cast saturates and takes NaN for 0, which stops before the first record.
        stop_at: stop_at.ceil() as usize,
        sequence,
    };
    let sealed = if compression == 0 {
        run.seal(|parts, frame, sequence| {
            parts.write(frame, sequence);
            parts.frame_bytes
        })
    } else {
        ENCODER.with_borrow_mut(|encoder| {
            run.seal(|parts, frame, sequence| parts.write_compressed(frame, sequence, encoder))
        })
    };
    match sealed {
        Ok(written) => {
            result[0] = run.position as f64;
            Ok(written)
        }
        Err(bad) => Ok(-1 - (first as i32 + bad)),
    }
}

/// Records that are to be sealed, and where to.
struct Run<'a> {
    chunk: &'a [u8],
    rows: &'a [i32],
    out: &'a mut [u8],
    position: usize,
    stop_at: usize,
    sequence: u64,
}

impl Run<'_> {
    /// Seals records until one does not fit; `write` gives the length of a frame. The number of records, or the index of
    /// a bad row as the error.
    #[inline(always)]
    fn seal(&mut self, mut write: impl FnMut(&Parts, &mut [u8], u64) -> usize) -> std::result::Result<i32, i32> {
        let mut written = 0;
        for row in self.rows.chunks_exact(FIELDS) {
            if self.position >= self.stop_at {
                break;
            }
            let Some(parts) = row.first_chunk().and_then(|row| Parts::from_row(row, self.chunk)) else {
                return Err(written);
            };
            let Some(frame) = self.out[self.position..].get_mut(..parts.frame_bytes) else {
                break;
            };
            self.position += write(&parts, frame, self.sequence + written as u64);
            written += 1;
        }
        Ok(written)
    }
}

/// Decodes the compressed payloads of records [first, count) into `out`, one behind the other, in one call. Results as
/// `Codec.expand`; -1 - row for a row that does not fit.
#[napi(catch_unwind)]
pub fn expand(
    buffer: Elements<u8>,
    table: Elements<i32>,
    first: f64,
    count: f64,
    mut out: Elements<u8>,
    mut spots: Elements<i32>,
) -> Result<i32> {
    disjoint(&out, &buffer)?;
    disjoint(&out, &table)?;
    disjoint(&spots, &buffer)?;
    disjoint(&spots, &table)?;
    disjoint(&spots, &out)?;
    let count = whole(count, rows(table.len()).min(i32::MAX as u64), "count")?;
    let first = whole(first, count, "first")?;
    whole((count - first) as f64, spots.len() as u64 / 2, "count - first")?;
    let buffer = buffer.as_slice();
    let rows = &table.as_slice()[first as usize * FIELDS..count as usize * FIELDS];
    let mut room = Room::new(out.as_mut_slice());
    let mut row_number = first as i32;
    for (row, spot) in rows.chunks_exact(FIELDS).zip(spots.as_mut_slice().chunks_exact_mut(2)) {
        let Some(stored) = part(buffer, row[6], row[7], i32::MAX as usize) else {
            return Ok(-1 - row_number);
        };
        let compressed = row[0] & i32::from(COMPRESSED) != 0;
        let found = if compressed { lz4::expand(stored, &mut room) } else { lz4::Expanded::Not };
        match found {
            lz4::Expanded::At(at, length) => spot.copy_from_slice(&[at as i32, length as i32]),
            lz4::Expanded::Not => spot.copy_from_slice(&[-1, 0]),
            lz4::Expanded::NoRoom => break,
        }
        row_number += 1;
    }
    Ok(row_number)
}

/// Checks stored frames and finds their parts in one call: no call into the engine per record. Results as `Codec.scan`.
#[napi(catch_unwind)]
pub fn scan(
    buffer: Elements<u8>,
    start: f64,
    end: f64,
    mut table: Elements<i32>,
    max_records: f64,
    sequence: f64,
    mut result: Elements<f64>,
) -> Result<i32> {
    disjoint(&table, &buffer)?;
    disjoint(&result, &buffer)?;
    disjoint(&result, &table)?;
    // Positions in a table are 32 bits wide.
    let range = range(start, end, buffer.len().min(i32::MAX as usize))?;
    let max_records = whole(max_records, rows(table.len()).min(i32::MAX as u64), "maxRecords")?;
    let mut expected = match sequence {
        -1.0 => None,
        _ => Some(whole(sequence, MAX_SAFE_INTEGER as u64, "sequence")?),
    };
    let result = result.as_mut_slice();
    if result.len() < 4 {
        return Err(invalid("result must have 4 entries"));
    }

    let bytes = &buffer.as_slice()[..range.end];
    let mut position = range.start;
    let mut found = 0;
    let mut stop = (END, 0.0, 0.0);
    for row in table.as_mut_slice().chunks_exact_mut(FIELDS).take(max_records as usize) {
        if position == range.end {
            break;
        }
        let frame = match Frame::check(&bytes[position..]) {
            Ok(frame) => frame,
            Err(fault) => {
                let needed = if let Fault::Truncated { needed } = fault { needed as f64 } else { 0.0 };
                stop = (fault.number(), needed, 0.0);
                break;
            }
        };
        if let Some(expected) = &mut expected {
            let exact = frame.sequence <= MAX_SAFE_INTEGER as u64;
            if frame.sequence != *expected || !exact {
                stop = (SEQUENCE_MISMATCH, 0.0, if exact { frame.sequence as f64 } else { -1.0 });
                break;
            }
            *expected += 1;
        }
        let key = position + frame.body;
        let headers = key + frame.key_length;
        let payload = headers + frame.headers_length;
        row.copy_from_slice(&[
            i32::from(frame.flags),
            position as i32 + 12,
            key as i32,
            frame.key_length as i32,
            headers as i32,
            frame.headers_length as i32,
            payload as i32,
            frame.payload_length as i32,
        ]);
        position += frame.frame_bytes;
        found += 1;
    }
    result[0] = position as f64;
    result[1] = f64::from(stop.0);
    result[2] = stop.1;
    result[3] = stop.2;
    Ok(found)
}

//! Reads the segments and checkpoints that an `ironbus-interop <directory>` run left behind, as upstream does, with
//! upstream's codecs: `ironbus-segments <directory>`. One line per check, then the count.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ironbus_core::attempt::decode_attempt_snapshot;
use ironbus_core::codec::{decode, DecodeError, RecordView};
use ironbus_core::compress::{
    compress_payload, decompress_payload, CompressConfig, NoDictionaries, CODEC_ID_NONE, DEFAULT_MAX_DECOMPRESSED_BYTES,
};
use ironbus_core::crc::crc32c;
use ironbus_core::cursor::AckCursor;
use ironbus_core::format::{SEGMENT_FOOTER_LEN, SEGMENT_HEADER_LEN};
use ironbus_core::segment::{SegmentFooter, SegmentHeader};
use ironbus_core::types::RecordFlags;
use ironbus_interop::ledger::Ledger;
use ironbus_interop::record::digest;
use ironbus_interop::report::Report;

/// How many segments were sealed, and how many payloads stored compressed.
#[derive(Default)]
struct Seen {
    sealed: usize,
    compressed: usize,
}

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: ironbus-segments <directory>");
        return ExitCode::from(2);
    };
    let mut report = Report::new();
    let mut seen = Seen::default();
    for data_dir in sorted(&directory).into_iter().filter(|path| path.is_dir()) {
        let name = file_name(&data_dir);
        report.check(&format!("{name}: every segment decodes, and holds what was acknowledged"), || {
            check_log(&data_dir, &mut seen);
        });
        report.check(&format!("{name}: cursors and attempt counts decode"), || check_checkpoints(&data_dir));
    }
    report.check("there were sealed segments among them", || assert!(seen.sealed > 0));
    report.check("there were compressed payloads among them", || assert!(seen.compressed > 1_000));
    report.finish()
}

/// Reads all segments of one log in order of their ids.
fn check_log(data_dir: &Path, seen: &mut Seen) {
    let (ledger, head) = Ledger::load(data_dir).expect("the run saved its ledger");
    let segments: Vec<PathBuf> = sorted(data_dir).into_iter().filter(|path| segment_id(path).is_some()).collect();
    let last = segments.len().checked_sub(1).expect("there is a segment");
    let mut next = 0;
    let mut matched = 0;
    for (index, path) in segments.iter().enumerate() {
        let bytes = fs::read(path).expect("the segment can be read");
        let name = file_name(path);
        // An ordinary segment is readable by the first version of the format.
        let header = SegmentHeader::decode_v1_only(&bytes).unwrap_or_else(|error| panic!("{name}: header: {error}"));
        assert_eq!(Some(header.segment_id), segment_id(path), "{name}: id");
        assert_eq!((header.base_seq.get(), header.base_offset.get()), (next, next), "{name}: base");
        assert_eq!((header.flags, header.is_encrypted()), (0, false), "{name}: flags");
        let (end, count) = walk(&name, &bytes, next, |offset, view| {
            if let Some(expected) = ledger.get(offset) {
                let payload =
                    decompress_payload(view.flags, view.payload, &NoDictionaries, DEFAULT_MAX_DECOMPRESSED_BYTES)
                        .unwrap_or_else(|error| panic!("{name}: payload at offset {offset}: {error}"));
                let found = digest(view.timestamp_ms, view.key, view.headers, &payload);
                assert_eq!(found, expected, "{name}: record at offset {offset}");
                check_stored_form(view, &payload).unwrap_or_else(|error| panic!("{name}: offset {offset}: {error}"));
                seen.compressed += usize::from(view.flags.contains(RecordFlags::COMPRESSED));
                matched += 1;
            }
        });
        next += count;
        if bytes.len() == end + SEGMENT_FOOTER_LEN && bytes[end..].iter().any(|byte| *byte != 0) {
            let footer = SegmentFooter::decode(&bytes[end..]).unwrap_or_else(|error| panic!("{name}: footer: {error}"));
            assert_eq!(footer.segment_id, header.segment_id, "{name}: id in the footer");
            assert_eq!(u64::from(footer.record_count), count, "{name}: count in the footer");
            assert_eq!(footer.last_seq.get() + 1, next, "{name}: last sequence in the footer");
            seen.sealed += 1;
        } else {
            assert_eq!(index, last, "{name}: only the last segment may be without a footer");
            assert!(bytes[end..].iter().all(|byte| *byte == 0), "{name}: neither record nor zeros from {end} on");
        }
    }
    assert_eq!(next, head, "first offset not in the log");
    assert_eq!(matched, ledger.len(), "acknowledged records found");
}

/// The stored form of `payload` is one that upstream's writer could have given it (storage.md 4), and not much longer than
/// the one it would have given.
fn check_stored_form(view: &RecordView<'_>, payload: &[u8]) -> Result<(), String> {
    let compressed = view.flags.contains(RecordFlags::COMPRESSED);
    // What a producer packed is stored as it came, and above what readers expand there is nothing to compare.
    let packed = compressed && view.payload.first() == Some(&CODEC_ID_NONE);
    if packed || payload.len() > DEFAULT_MAX_DECOMPRESSED_BYTES as usize {
        return Ok(());
    }
    if compressed && (payload.len() < 64 || view.payload.len() >= payload.len()) {
        return Err(format!("{} bytes, compressed to {}", payload.len(), view.payload.len()));
    }
    let upstream = compress_payload(payload, &CompressConfig::default()).map_err(|error| error.to_string())?;
    let most = upstream.stored.len() + upstream.stored.len() / 10 + 16;
    if view.payload.len() > most {
        return Err(format!(
            "{} bytes, stored as {}, upstream: {}",
            payload.len(),
            view.payload.len(),
            upstream.stored.len()
        ));
    }
    Ok(())
}

/// Decodes records until a footer, zeros or the end: the position after the last one, and how many there were.
fn walk(name: &str, bytes: &[u8], base: u64, mut each: impl FnMut(u64, &RecordView<'_>)) -> (usize, u64) {
    let mut at = SEGMENT_HEADER_LEN;
    let mut count = 0;
    while at < bytes.len() {
        match decode(&bytes[at..]) {
            Ok((view, length)) => {
                assert_eq!(view.seq.get(), base + count, "{name}: sequence at byte {at}");
                each(base + count, &view);
                at += length;
                count += 1;
            }
            // A footer, or the zeros of a segment that is not full: the caller judges which.
            Err(DecodeError::BadMagic | DecodeError::Truncated) => break,
            Err(error) => panic!("{name}: record at byte {at}: {error}"),
        }
    }
    (at, count)
}

/// Every cursor and attempts checkpoint: two slots, the newer valid one decodes; cursors are within the log.
fn check_checkpoints(data_dir: &Path) {
    let (_, head) = Ledger::load(data_dir).expect("the run saved its ledger");
    let mut cursors = 0;
    for path in sorted(data_dir) {
        let name = file_name(&path);
        if name.starts_with("cursor") && name.ends_with(".ckpt") {
            if let Some(payload) = newest_slot(&path, 64) {
                let cursor = AckCursor::decode_snapshot(&payload).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(cursor.committed().get() <= head, "{name}: beyond the log");
                assert!(cursor.ahead_ranges().iter().all(|(_, end)| *end <= head), "{name}: a run beyond the log");
                cursors += 1;
            }
        } else if name.starts_with("attempts") && name.ends_with(".ckpt") {
            if let Some(payload) = newest_slot(&path, 32_768) {
                decode_attempt_snapshot(&payload).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            }
        }
    }
    assert!(cursors > 0, "no cursor was ever written");
}

/// Payload of the newest valid slot of a checkpoint file; `None` if nothing was written yet. A slot is its sequence,
/// the payload's length, `capacity` bytes and a CRC-32C over what is used of it.
fn newest_slot(path: &Path, capacity: usize) -> Option<Vec<u8>> {
    let bytes = fs::read(path).expect("the checkpoint can be read");
    let slot_length = capacity + 14;
    assert!(bytes.len() >= 2 * slot_length, "{}: shorter than two slots", path.display());
    let mut slots = BTreeMap::new();
    for slot in bytes.chunks(slot_length).take(2) {
        let sequence = u64::from_le_bytes(slot[..8].try_into().expect("eight bytes"));
        let length = usize::from(u16::from_le_bytes([slot[8], slot[9]]));
        let crc = u32::from_le_bytes(slot[slot_length - 4..].try_into().expect("four bytes"));
        if sequence != 0 {
            assert!(length <= capacity && crc == crc32c(&slot[..10 + length]), "{}: a damaged slot", path.display());
            slots.insert(sequence, slot[10..10 + length].to_vec());
        }
    }
    slots.pop_last().map(|(_, payload)| payload)
}

fn sorted(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("the directory can be read").path()).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The id in `seg-<16 hexadecimal digits>.log`.
fn segment_id(path: &Path) -> Option<u64> {
    let name = file_name(path);
    let digits = name.strip_prefix("seg-")?.strip_suffix(".log")?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

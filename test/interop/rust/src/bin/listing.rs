//! Lists every record of the logs below a directory as upstream's codecs read them: `ironbus-listing <directory>`, one
//! log in each of its directories. What upstream would not open is `refused` with a reason, instead of the log's lines.
//!
//! log <directory>
//! segment <id> base <offset> <sequence>
//! <offset> <timestamp> <flags> <stored length> <crc of key> <crc of headers> <length and crc of the payload, decompressed>
//! sealed | open

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ironbus_core::codec::{decode, RecordView};
use ironbus_core::compress::{decompress_payload, NoDictionaries, DEFAULT_MAX_DECOMPRESSED_BYTES};
use ironbus_core::crc::crc32c;
use ironbus_core::format::{SEGMENT_FOOTER_LEN, SEGMENT_HEADER_LEN};
use ironbus_core::segment::{SegmentFooter, SegmentHeader};

/// Where the next segment has to begin: offset and sequence.
type Place = (u64, u64);

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: ironbus-listing <directory>");
        return ExitCode::from(2);
    };
    for log in sorted(&directory).into_iter().filter(|path| path.is_dir()) {
        println!("log {}", name_of(&log));
        match list(&log) {
            Ok(lines) => print!("{lines}"),
            Err(reason) => println!("refused: {reason}"),
        }
    }
    ExitCode::SUCCESS
}

/// The lines of a log, or why upstream does not open it.
fn list(log: &Path) -> Result<String, String> {
    let segments: Vec<(u64, PathBuf)> =
        sorted(log).into_iter().filter_map(|path| segment_id(&path).map(|id| (id, path))).collect();
    let mut lines = String::new();
    let mut next = None;
    for (index, (id, path)) in segments.iter().enumerate() {
        let bytes = fs::read(path).map_err(|error| format!("segment {id}: {error}"))?;
        let is_last = index + 1 == segments.len();
        next = Some(
            list_segment(&mut lines, *id, &bytes, next, is_last).map_err(|reason| format!("segment {id}: {reason}"))?,
        );
    }
    Ok(lines)
}

fn list_segment(
    lines: &mut String,
    id: u64,
    bytes: &[u8],
    expected: Option<Place>,
    is_last: bool,
) -> Result<Place, String> {
    // An ordinary segment is readable by the first version of the format.
    let header = SegmentHeader::decode_v1_only(bytes).map_err(|error| format!("header: {error}"))?;
    if header.segment_id != id {
        return Err(format!("holds a header for segment {}", header.segment_id));
    }
    if header.flags != 0 || header.is_encrypted() {
        return Err(format!("flags {}", header.flags));
    }
    let base = (header.base_offset.get(), header.base_seq.get());
    if expected.is_some_and(|place| place != base) {
        return Err(format!("base {base:?} does not continue from {expected:?}"));
    }
    let footer = bytes.len().checked_sub(SEGMENT_FOOTER_LEN).filter(|at| *at >= SEGMENT_HEADER_LEN);
    let footer = footer.and_then(|at| SegmentFooter::decode(&bytes[at..]).ok().map(|footer| (at, footer)));
    let _ = writeln!(lines, "segment {id} base {} {}", base.0, base.1);

    let limit = footer.as_ref().map_or(bytes.len(), |(at, _)| *at);
    let mut at = SEGMENT_HEADER_LEN;
    let mut count = 0;
    let stop = loop {
        match decode(&bytes[at..limit]) {
            Ok((record, length)) => {
                if record.seq.get() != base.1 + count {
                    return Err(format!("record {count} has sequence {}", record.seq.get()));
                }
                list_record(lines, base.0 + count, &record);
                at += length;
                count += 1;
            }
            Err(error) => break error,
        }
    };
    if let Some((footer_at, footer)) = footer {
        let agrees = at == footer_at && u64::from(footer.record_count) == count;
        if agrees && (count == 0 || footer.last_seq.get() + 1 == base.1 + count) {
            if footer.segment_id != id {
                return Err(format!("footer of segment {}", footer.segment_id));
            }
            lines.push_str("sealed\n");
            return Ok((base.0 + count, base.1 + count));
        }
    }
    if !is_last {
        return Err(format!("not sealed: {stop} at byte {at}"));
    }
    if bytes[at..].iter().any(|byte| *byte != 0) {
        return Err(format!("neither record nor zeros from byte {at} on: {stop}"));
    }
    lines.push_str("open\n");
    Ok((base.0 + count, base.1 + count))
}

fn list_record(lines: &mut String, offset: u64, record: &RecordView<'_>) {
    let payload = decompress_payload(record.flags, record.payload, &NoDictionaries, DEFAULT_MAX_DECOMPRESSED_BYTES)
        .map_or_else(|_| "undecodable".into(), |payload| format!("{} {}", payload.len(), crc32c(&payload)));
    let _ = writeln!(
        lines,
        "{offset} {} {} {} {} {} {payload}",
        record.timestamp_ms,
        record.flags.bits(),
        record.payload.len(),
        crc32c(record.key),
        crc32c(record.headers),
    );
}

fn sorted(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("the directory can be read").path()).collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The id in `seg-<16 lowercase hexadecimal digits>.log` of a regular file.
fn segment_id(path: &Path) -> Option<u64> {
    let name = name_of(path);
    let digits = name.strip_prefix("seg-")?.strip_suffix(".log")?;
    let is_hex = digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_file = fs::symlink_metadata(path).is_ok_and(|status| status.is_file());
    (is_hex && is_file).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

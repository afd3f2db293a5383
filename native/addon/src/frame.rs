//! The bytes of a stored record (storage.md 3): one frame written, one frame checked.

use crate::checksum::{crc32c, crc32c_append, crc32c_of_words, xxh3_64};
use crate::lz4;
use crate::lz4_encoder::Encoder;

/// Entries per record in a table; the order of the entries is that of `src/runtime/codec.ts`.
pub const FIELDS: usize = 8;

pub const HEADER_BYTES: usize = 36;
const TRAILER_BYTES: usize = 8;
const XXH3_BYTES: usize = 8;
/// Bodies of this length and more carry an xxh3.
const XXH3_FROM_BYTES: u64 = 65_536;
/// Format ceiling of a frame, in bytes.
pub const MAX_FRAME_BYTES: u64 = 1 << 30;
const MAX_FIELD_BYTES: usize = 65_535;

pub const COMPRESSED: u8 = 0x01;
const HAS_KEY: u8 = 0x02;
const HAS_XXH3: u8 = 0x04;
const HAS_SUBJECT: u8 = 0x08;
const HAS_STREAM_TAG: u8 = 0x10;
const ENCRYPTED: u8 = 0x20;

/// Magic and version, as the low three bytes of the header's first word.
const START: u64 = 0x01_4942;

/// A record to be stored, its parts still in the chunk that brought them.
pub struct Parts<'a> {
    flags: u8,
    timestamp: u64,
    key: &'a [u8],
    headers: &'a [u8],
    payload: &'a [u8],
    /// Length of the frame when the payload is stored as it is.
    pub frame_bytes: usize,
}

/// Length of a frame around a body of `body` bytes, and of the xxh3 in it.
#[inline]
fn frame_and_xxh3_bytes(body: usize) -> (usize, usize) {
    let xxh3 = if body as u64 >= XXH3_FROM_BYTES { XXH3_BYTES } else { 0 };
    (HEADER_BYTES + body + xxh3 + TRAILER_BYTES, xxh3)
}

/// The part of `chunk` that a row names. The position of an empty part means nothing.
#[inline]
pub fn part(chunk: &[u8], position: i32, length: i32, limit: usize) -> Option<&[u8]> {
    let length = usize::try_from(length).ok().filter(|length| *length <= limit)?;
    if length == 0 {
        return Some(&[]);
    }
    let position = usize::try_from(position).ok()?;
    chunk.get(position..position + length)
}

impl<'a> Parts<'a> {
    /// Looks a table row up in `chunk`; `None` when a position or length does not fit it or exceeds a record's limits.
    #[inline]
    pub fn from_row(row: &[i32; FIELDS], chunk: &'a [u8]) -> Option<Self> {
        let [flags, timestamp, key, key_length, headers, headers_length, payload, payload_length] = *row;
        let timestamp = usize::try_from(timestamp).ok()?;
        let timestamp = u64::from_le_bytes(*chunk.get(timestamp..)?.first_chunk()?);
        let key = part(chunk, key, key_length, MAX_FIELD_BYTES)?;
        let headers = part(chunk, headers, headers_length, MAX_FIELD_BYTES)?;
        let payload = part(chunk, payload, payload_length, MAX_FRAME_BYTES as usize - 1)?;
        let (frame_bytes, _) = frame_and_xxh3_bytes(key.len() + headers.len() + payload.len());
        if frame_bytes as u64 > MAX_FRAME_BYTES {
            return None;
        }
        let flags = (flags as u8 & COMPRESSED) | if key.is_empty() { 0 } else { HAS_KEY };
        Some(Self { flags, timestamp, key, headers, payload, frame_bytes })
    }

    /// Writes the frame to the start of `frame`, which has `frame_bytes` bytes.
    #[inline]
    pub fn write(&self, frame: &mut [u8], sequence: u64) {
        let at = HEADER_BYTES + self.key.len() + self.headers.len();
        frame[at..at + self.payload.len()].copy_from_slice(self.payload);
        // Of the part, not of its copy: bytes just stored come back late, and a bad copy would go unnoticed.
        self.enclose(frame, sequence, self.flags, self.payload.len(), |crc, _| crc32c_append(crc, self.payload));
    }

    /// As `write`, with the payload compressed where the contract wants it (storage.md 4): from 64 bytes on, unless it is
    /// compressed already, above what readers expand, or not made shorter. Returns the length of the frame; what lies
    /// behind it in `frame` is undefined.
    pub fn write_compressed(&self, frame: &mut [u8], sequence: u64, encoder: &mut Encoder) -> usize {
        let at = HEADER_BYTES + self.key.len() + self.headers.len();
        let payload = &mut frame[at..at + self.payload.len()];
        let stored = if self.flags & COMPRESSED == 0 { lz4::store(self.payload, payload, encoder) } else { None };
        let Some(stored) = stored else {
            self.write(frame, sequence);
            return self.frame_bytes;
        };
        self.enclose(frame, sequence, self.flags | COMPRESSED, stored, crc32c_append)
    }

    /// Everything around a payload of `payload_length` bytes that is in its place already. Returns the frame's length.
    #[inline]
    fn enclose(
        &self,
        frame: &mut [u8],
        sequence: u64,
        flags: u8,
        payload_length: usize,
        append_payload_crc: impl FnOnce(u32, &[u8]) -> u32,
    ) -> usize {
        let body_bytes = self.key.len() + self.headers.len() + payload_length;
        let (frame_bytes, xxh3_bytes) = frame_and_xxh3_bytes(body_bytes);
        let flags = flags | if xxh3_bytes > 0 { HAS_XXH3 } else { 0 };
        // As words, so that the checksum takes them from registers instead of waiting for partial stores.
        let words = [
            START | u64::from(flags) << 24 | sequence << 32,
            sequence >> 32 | self.timestamp << 32,
            self.timestamp >> 32 | (self.key.len() as u64) << 32,
            self.headers.len() as u64 | (payload_length as u64) << 32,
        ];
        let (header, rest) = frame[..frame_bytes].split_at_mut(HEADER_BYTES);
        for (target, word) in header.chunks_exact_mut(8).zip(words) {
            target.copy_from_slice(&word.to_le_bytes());
        }
        header[32..].copy_from_slice(&crc32c_of_words(&words).to_le_bytes());

        let (body, end) = rest.split_at_mut(body_bytes);
        let (fields, payload) = body.split_at_mut(body_bytes - payload_length);
        if !fields.is_empty() {
            let (key, headers) = fields.split_at_mut(self.key.len());
            key.copy_from_slice(self.key);
            headers.copy_from_slice(self.headers);
        }
        let fields_crc = crc32c_append(crc32c_append(0, self.key), self.headers);
        let body_crc = append_payload_crc(fields_crc, payload);

        let (xxh3, trailer) = end.split_at_mut(xxh3_bytes);
        if !xxh3.is_empty() {
            xxh3.copy_from_slice(&xxh3_64(body).to_le_bytes());
        }
        let trailer_word = u64::from(body_crc) | (frame_bytes as u64) << 32;
        trailer.copy_from_slice(&trailer_word.to_le_bytes());
        frame_bytes
    }
}

/// Why a frame is not intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Truncated { needed: u64 },
    BadMagic,
    UnsupportedVersion,
    BadHeaderCrc,
    BadLength,
    Encrypted,
    TooLarge,
    BadStreamTagCrc,
    BadSubjectCrc,
    BadBodyCrc,
    BadXxh3,
}

impl Fault {
    /// The number of the fault in `ScanStop` (`src/runtime/codec.ts`).
    pub fn number(self) -> u8 {
        match self {
            Self::Truncated { .. } => 1,
            Self::BadMagic => 2,
            Self::UnsupportedVersion => 3,
            Self::BadHeaderCrc => 4,
            Self::BadLength => 5,
            Self::Encrypted => 6,
            Self::TooLarge => 7,
            Self::BadStreamTagCrc => 8,
            Self::BadSubjectCrc => 9,
            Self::BadBodyCrc => 10,
            Self::BadXxh3 => 11,
        }
    }
}

/// An intact frame at the start of a buffer; positions count from the frame's first byte.
pub struct Frame {
    pub flags: u8,
    pub sequence: u64,
    pub key_length: usize,
    pub headers_length: usize,
    pub payload_length: usize,
    /// Position of the key: after the header and the subject or stream tag.
    pub body: usize,
    pub frame_bytes: usize,
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[inline]
fn half_word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

impl Frame {
    /// Checks the frame at the start of `bytes` completely, in the order of storage.md 3.5.
    #[inline]
    pub fn check(bytes: &[u8]) -> Result<Self, Fault> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(Fault::Truncated { needed: HEADER_BYTES as u64 });
        };
        let words = [word(header, 0), word(header, 8), word(header, 16), word(header, 24)];
        if words[0] as u16 != START as u16 {
            return Err(Fault::BadMagic);
        }
        if header[2] != (START >> 16) as u8 {
            return Err(Fault::UnsupportedVersion);
        }
        if crc32c_of_words(&words) != half_word(header, 32) {
            return Err(Fault::BadHeaderCrc);
        }

        let flags = header[3];
        let tagged = flags & (HAS_SUBJECT | HAS_STREAM_TAG);
        if tagged == HAS_SUBJECT | HAS_STREAM_TAG || (flags & ENCRYPTED != 0 && tagged != 0) {
            return Err(Fault::BadLength);
        }
        if flags & ENCRYPTED != 0 {
            return Err(Fault::Encrypted);
        }

        let (key, headers, payload) = (words[2] >> 32, words[3] & 0xFFFF_FFFF, words[3] >> 32);
        let body = key + headers + payload;
        let mut tag_length = 0;
        if tagged != 0 {
            let Some(length) = bytes.get(HEADER_BYTES..HEADER_BYTES + 2) else {
                return Err(Fault::Truncated { needed: HEADER_BYTES as u64 + 2 });
            };
            tag_length = u64::from(length[0]) | u64::from(length[1]) << 8;
        }
        let tag_bytes = if tagged != 0 { 2 + tag_length + 4 } else { 0 };
        let xxh3_bytes = if flags & HAS_XXH3 != 0 { XXH3_BYTES as u64 } else { 0 };
        let total = HEADER_BYTES as u64 + tag_bytes + body + xxh3_bytes + TRAILER_BYTES as u64;
        if total > MAX_FRAME_BYTES {
            return Err(Fault::TooLarge);
        }
        let Some(frame) = bytes.get(..total as usize) else {
            return Err(Fault::Truncated { needed: total });
        };

        let end = frame.len() - TRAILER_BYTES;
        if (flags & HAS_KEY != 0) != (key != 0)
            || (flags & HAS_XXH3 != 0) != (body >= XXH3_FROM_BYTES)
            || (tagged != 0) != (tag_length != 0)
        {
            return Err(Fault::BadLength);
        }
        // Before the trailer's length, as the contract's vectors have it: a damaged subject length moves the trailer.
        let body_start = HEADER_BYTES + tag_bytes as usize;
        if tagged != 0 && crc32c(&frame[HEADER_BYTES..body_start - 4]) != half_word(frame, body_start - 4) {
            return Err(if tagged == HAS_SUBJECT { Fault::BadSubjectCrc } else { Fault::BadStreamTagCrc });
        }
        if u64::from(half_word(frame, end + 4)) != total {
            return Err(Fault::BadLength);
        }
        let body_bytes = &frame[body_start..body_start + body as usize];
        if crc32c(body_bytes) != half_word(frame, end) {
            return Err(Fault::BadBodyCrc);
        }
        if flags & HAS_XXH3 != 0 && xxh3_64(body_bytes) != word(frame, end - XXH3_BYTES) {
            return Err(Fault::BadXxh3);
        }
        Ok(Self {
            flags,
            sequence: words[0] >> 32 | words[1] << 32,
            key_length: key as usize,
            headers_length: headers as usize,
            payload_length: payload as usize,
            body: body_start,
            frame_bytes: frame.len(),
        })
    }
}

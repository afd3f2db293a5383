//! The records that the checks publish and expect back.

use ironbus_client::proto::PubBody;
use ironbus_client::Message;
use ironbus_core::compress::{compress_payload, CompressConfig, DEFAULT_MAX_DECOMPRESSED_BYTES};
use ironbus_core::crc::crc32c;

/// Flag bits of a stored record that its codec derives.
const HAS_KEY: u8 = 0x02;
const HAS_XXH3: u8 = 0x04;
const XXH3_FROM_BYTES: usize = 65_536;

/// What a producer publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub timestamp_ms: u64,
    pub key: Vec<u8>,
    pub headers: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Record {
    /// A record with nothing but a payload.
    pub fn of(payload: impl Into<Vec<u8>>) -> Record {
        Record { payload: payload.into(), ..Record::default() }
    }

    /// The `number`-th record of a series: every one differs; some have keys, headers or no payload.
    pub fn numbered(series: &str, number: u64) -> Record {
        let label = format!("{series}/{number}");
        let filler = (number.wrapping_mul(7919) % 180) as usize;
        let mut payload = if number % 11 == 5 { Vec::new() } else { label.clone().into_bytes() };
        if !payload.is_empty() {
            payload.extend((0..filler).map(|at| (number as u8).wrapping_add(at as u8)));
        }
        Record {
            timestamp_ms: 1_700_000_000_000 + number,
            // Without a payload the key is what tells the record from others.
            key: if payload.is_empty() || number % 3 == 0 { label.clone().into_bytes() } else { Vec::new() },
            headers: if number % 5 == 0 { format!("n: {label}").into_bytes() } else { Vec::new() },
            payload,
        }
    }

    /// Incompressible bytes without a meaning, `length` of them, the same for the same `seed`.
    pub fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed | 1;
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// The publish body: default level, no dedup.
    pub fn body(&self) -> PubBody<'_> {
        PubBody {
            flags: 0,
            timestamp_ms: self.timestamp_ms,
            key: &self.key,
            headers: &self.headers,
            dedup: None,
            fire_and_forget: false,
            payload: &self.payload,
        }
    }

    /// Fails unless `message` is this record as the broker must deliver it.
    pub fn assert_is(&self, message: &Message) {
        let at = message.offset;
        assert_eq!(message.timestamp_ms, self.timestamp_ms, "timestamp at offset {at}");
        assert!(message.key == self.key, "key at offset {at} differs");
        assert!(message.headers == self.headers, "headers at offset {at} differ");
        assert_eq!(message.payload.len(), self.payload.len(), "payload length at offset {at}");
        assert!(message.payload == self.payload, "payload at offset {at} differs");
        assert_eq!(message.flags, self.flags(), "flags at offset {at}");
        assert_ne!(message.generation, 0, "generation at offset {at}");
    }

    /// The second checksum is that of the stored body, in which the payload may be compressed.
    fn flags(&self) -> u8 {
        let fields = self.key.len() + self.headers.len();
        let mut body = fields + self.payload.len();
        if body >= XXH3_FROM_BYTES && self.payload.len() <= DEFAULT_MAX_DECOMPRESSED_BYTES as usize {
            let stored = compress_payload(&self.payload, &CompressConfig::default()).expect("it is compressed");
            body = fields + stored.stored.len();
        }
        (if self.key.is_empty() { 0 } else { HAS_KEY }) | (if body < XXH3_FROM_BYTES { 0 } else { HAS_XXH3 })
    }

    /// CRC-32C over all fields, each with its length.
    pub fn digest(&self) -> u32 {
        digest(self.timestamp_ms, &self.key, &self.headers, &self.payload)
    }
}

/// [`Record::digest`] of borrowed fields; `payload` as the producer published it.
pub fn digest(timestamp_ms: u64, key: &[u8], headers: &[u8], payload: &[u8]) -> u32 {
    let mut bytes = timestamp_ms.to_le_bytes().to_vec();
    for field in [key, headers, payload] {
        bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
        bytes.extend_from_slice(field);
    }
    crc32c(&bytes)
}

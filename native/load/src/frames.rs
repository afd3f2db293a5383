//! The few frames of the wire protocol that the load needs (wire.md 1, 4, 8, 9).

pub const CONNECT: u8 = 1;
pub const INFO: u8 = 2;
pub const PUB: u8 = 5;
pub const ACK: u8 = 8;
pub const ERR: u8 = 12;
pub const DELIVER: u8 = 13;
pub const PUB_ACK: u8 = 14;
pub const ACK_STATUS: u8 = 15;
pub const FLOW_END: u8 = 16;
pub const FETCH: u8 = 23;

pub const HEADER: usize = 5;
pub const PUB_ACK_BYTES: usize = HEADER + 8;

pub fn begin(out: &mut Vec<u8>, tag: u8, body: usize) {
    out.extend_from_slice(&(body as u32 + 1).to_le_bytes());
    out.push(tag);
}

/// The empty Connect asks for nothing: the server's defaults.
pub fn connect(out: &mut Vec<u8>) {
    begin(out, CONNECT, 0);
}

pub fn publish(out: &mut Vec<u8>, timestamp_ms: u64, payload: &[u8]) {
    begin(out, PUB, 13 + payload.len());
    out.push(0);
    out.extend_from_slice(&timestamp_ms.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
}

/// Length of a `Pub` frame around a payload of `size` bytes.
pub fn publish_bytes(size: usize) -> usize {
    HEADER + 13 + size
}

pub fn fetch(out: &mut Vec<u8>, max_records: u32) {
    begin(out, FETCH, 3 + 21);
    out.push(1);
    out.extend_from_slice(&21u16.to_le_bytes());
    out.push(0);
    out.extend_from_slice(&max_records.to_le_bytes());
    out.extend_from_slice(&[0; 16]);
}

pub fn ack(out: &mut Vec<u8>, offset_and_generation: &[u8]) {
    begin(out, ACK, 25);
    out.push(0);
    out.extend_from_slice(offset_and_generation);
    out.extend_from_slice(&[0; 8]);
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The frame at the front of `bytes`: its tag and whole length, if it is there.
pub fn front(bytes: &[u8]) -> Option<(u8, usize)> {
    if bytes.len() < HEADER {
        return None;
    }
    let total = 4 + u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    (bytes.len() >= total).then(|| (bytes[4], total))
}

/// What an unexpected frame says, for an error message.
pub fn describe(tag: u8, body: &[u8]) -> String {
    if tag == ERR {
        format!("the broker answered: {}", String::from_utf8_lossy(body))
    } else {
        format!("unexpected frame {tag}")
    }
}

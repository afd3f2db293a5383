use crate::frames;
use crate::options::Options;
use crate::payload::Payloads;
use crate::socket::{Socket, wait};
use crate::stats::latency_json;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes of one write: enough to make the call cheap, small enough to keep the pipe moving.
const WRITE_BYTES: usize = 128 * 1024;

struct Publisher {
    socket: Socket,
    /// Frames sent in whole or in part, and acknowledged.
    sent_bytes: usize,
    acked: usize,
    last_offset: Option<u64>,
}

/// Publishes `count` records over all connections with at most `window` unacknowledged on each. With a window of 1 the
/// latencies of the round trips are measured too.
pub fn run(options: &Options) -> Result<String, String> {
    let (size, count) = (options.number("size")?, options.number("count")?);
    let window = options.number("window")?.max(1);
    let connections = options.number_or("connections", 1)?.max(1);
    let mut publishers = Vec::new();
    for _ in 0..connections {
        let socket = Socket::connect(options.text("addr")?)?;
        if window == 1 && connections == 1 {
            socket.block()?;
        }
        publishers.push(Publisher { socket, sent_bytes: 0, acked: 0, last_offset: None });
    }
    let share = count.div_ceil(connections);
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let mut cycle = Vec::new();
    for payload in Payloads::of(options)?.cycle(size) {
        frames::publish(&mut cycle, now_ms, &payload);
    }
    // The same frames over and over, so that sending costs no encoding.
    let frame = frames::publish_bytes(size);
    let template = cycle.repeat((WRITE_BYTES / cycle.len()).clamp(1, window) + 1);

    let mut samples = Vec::with_capacity(if window == 1 { count } else { 0 });
    let mut sent_at = Instant::now();
    let started = Instant::now();
    let mut unfinished = connections;
    while unfinished > 0 {
        let mut moved = false;
        for publisher in &mut publishers {
            if publisher.acked == share {
                continue;
            }
            if window == 1 && publisher.sent_bytes == publisher.acked * frame {
                sent_at = Instant::now();
            }
            moved |= send(publisher, &template, cycle.len(), frame, share, window)?;
            let acked = publisher.acked;
            moved |= receive(publisher, connections == 1)?;
            if window == 1 && publisher.acked > acked {
                samples.push(sent_at.elapsed());
            }
            if publisher.acked == share {
                unfinished -= 1;
            }
        }
        if !moved && unfinished > 0 {
            let interests: Vec<(i32, i16)> = publishers
                .iter()
                .filter(|publisher| publisher.acked < share)
                .map(|publisher| {
                    let limit = share.min(publisher.acked + window) * frame;
                    let writes = if publisher.sent_bytes < limit { libc::POLLOUT } else { 0 };
                    (publisher.socket.stream.as_raw_fd(), libc::POLLIN | writes)
                })
                .collect();
            wait(&interests)?;
        }
    }
    Ok(report(started.elapsed(), share * connections, size, &mut samples))
}

/// Sends as much as the window and the socket take.
fn send(
    publisher: &mut Publisher,
    template: &[u8],
    cycle: usize,
    frame: usize,
    share: usize,
    window: usize,
) -> Result<bool, String> {
    let limit = share.min(publisher.acked + window) * frame;
    let mut moved = false;
    while publisher.sent_bytes < limit {
        let phase = publisher.sent_bytes % cycle;
        let bytes = (limit - publisher.sent_bytes).min(template.len() - phase);
        let sent = publisher.socket.send(&template[phase..phase + bytes])?;
        if sent == 0 {
            break;
        }
        publisher.sent_bytes += sent;
        moved = true;
        if sent < bytes {
            break;
        }
        // Take the acknowledgements that have arrived before writing more.
        if bytes == template.len() - phase {
            break;
        }
    }
    Ok(moved)
}

/// Checks the acknowledgements that have arrived: one for each publish, offsets rising; by one each if nobody else writes.
fn receive(publisher: &mut Publisher, alone: bool) -> Result<bool, String> {
    if publisher.socket.receive()? == 0 {
        return Ok(false);
    }
    let mut used = 0;
    let unread = publisher.socket.unread();
    while let Some((tag, total)) = frames::front(&unread[used..]) {
        let body = &unread[used + frames::HEADER..used + total];
        if tag != frames::PUB_ACK || total != frames::PUB_ACK_BYTES {
            return Err(frames::describe(tag, body));
        }
        let offset = frames::u64_at(body, 0);
        if let Some(last) = publisher.last_offset {
            if if alone { offset != last + 1 } else { offset <= last } {
                return Err(format!("offset {offset} acknowledged after {last}"));
            }
        }
        publisher.last_offset = Some(offset);
        publisher.acked += 1;
        used += total;
    }
    publisher.socket.consume(used);
    Ok(true)
}

fn report(elapsed: Duration, count: usize, size: usize, samples: &mut [Duration]) -> String {
    let seconds = elapsed.as_secs_f64();
    let latency = if samples.is_empty() { String::new() } else { format!(",{}", latency_json(samples)) };
    format!(
        "{{\"records\":{count},\"size\":{size},\"seconds\":{seconds:.4},\"records_per_second\":{:.0}{latency}}}",
        count as f64 / seconds
    )
}

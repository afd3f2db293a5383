use crate::frames;
use crate::options::Options;
use crate::payload::Payloads;
use crate::socket::{Socket, wait};
use std::os::fd::AsRawFd;
use std::time::Instant;

/// Records asked for at a time; the broker's credit window decides.
const BATCH: u32 = 2048;

/// Drains `count` records with fetch and ack: the acks of a batch and the next fetch go out in one write.
pub fn run(options: &Options) -> Result<String, String> {
    let (size, count) = (options.number("size")?, options.number("count")?);
    let expected = Payloads::of(options)?.cycle(size);
    let mut socket = Socket::connect(options.text("addr")?)?;
    let mut out = Vec::with_capacity(1 << 17);
    let mut sent = 0;
    frames::fetch(&mut out, BATCH);
    let (mut delivered, mut settled) = (0usize, 0usize);
    let mut next_offset = None;
    let started = Instant::now();
    while settled < count {
        let mut moved = false;
        if sent < out.len() {
            let bytes = socket.send(&out[sent..])?;
            sent += bytes;
            moved |= bytes > 0;
            if sent == out.len() {
                out.clear();
                sent = 0;
            }
        }
        if socket.receive()? > 0 {
            moved = true;
            let mut used = 0;
            let unread = socket.unread();
            while let Some((tag, total)) = frames::front(&unread[used..]) {
                let body = &unread[used + frames::HEADER..used + total];
                match tag {
                    frames::DELIVER => {
                        let offset = frames::u64_at(body, 0);
                        if next_offset.is_some_and(|next| next != offset) {
                            return Err(format!("offset {offset} delivered where {next_offset:?} was due"));
                        }
                        if body[29..] != expected[offset as usize % expected.len()][..] {
                            return Err(format!("payload of offset {offset} is not what was published"));
                        }
                        next_offset = Some(offset + 1);
                        delivered += 1;
                        frames::ack(&mut out, &body[..16]);
                    }
                    frames::FLOW_END => {
                        if delivered < count {
                            if body[..4] == [0; 4] && settled == delivered {
                                return Err(format!("the log ended after {delivered} records"));
                            }
                            frames::fetch(&mut out, BATCH);
                        }
                    }
                    frames::ACK_STATUS if body == [1] => settled += 1,
                    frames::ACK_STATUS => return Err("an ack was fenced".into()),
                    _ => return Err(frames::describe(tag, body)),
                }
                used += total;
            }
            socket.consume(used);
        }
        if !moved && settled < count {
            let writes = if sent < out.len() { libc::POLLOUT } else { 0 };
            wait(&[(socket.stream.as_raw_fd(), libc::POLLIN | writes)])?;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(format!(
        "{{\"records\":{settled},\"size\":{size},\"seconds\":{seconds:.4},\"records_per_second\":{:.0}}}",
        settled as f64 / seconds
    ))
}

use crate::frames;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// A connection after its handshake, not blocking, with what was received and not used yet.
pub struct Socket {
    pub stream: TcpStream,
    input: Vec<u8>,
    start: usize,
    end: usize,
}

impl Socket {
    pub fn connect(address: &str) -> Result<Self, String> {
        let mut stream = TcpStream::connect(address).map_err(|error| format!("connecting to {address}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut hello = Vec::new();
        frames::connect(&mut hello);
        stream.write_all(&hello).map_err(|error| error.to_string())?;
        let mut socket = Self { stream, input: vec![0; 1 << 20], start: 0, end: 0 };
        let (tag, body) = socket.frame()?;
        if tag != frames::INFO {
            return Err(frames::describe(tag, &body));
        }
        socket.stream.set_nonblocking(true).map_err(|error| error.to_string())?;
        Ok(socket)
    }

    /// For one request at a time: a read waits for the reply by itself, as a plain client's would.
    pub fn block(&self) -> Result<(), String> {
        self.stream.set_nonblocking(false).map_err(|error| error.to_string())
    }

    /// Reads until one whole frame is there and returns it; for a blocking socket.
    fn frame(&mut self) -> Result<(u8, Vec<u8>), String> {
        loop {
            if let Some((tag, total)) = frames::front(self.unread()) {
                let body = self.unread()[frames::HEADER..total].to_vec();
                self.consume(total);
                return Ok((tag, body));
            }
            if self.receive()? == 0 {
                wait(&[(self.stream.as_raw_fd(), libc::POLLIN)])?;
            }
        }
    }

    pub fn unread(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    pub fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Reads what is there; 0 when nothing is. The end of the stream is an error.
    pub fn receive(&mut self) -> Result<usize, String> {
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.input.len() {
            self.input.resize(self.end * 2, 0);
        }
        match self.stream.read(&mut self.input[self.end..]) {
            Ok(0) => Err("the broker closed the connection".into()),
            Ok(bytes) => {
                self.end += bytes;
                Ok(bytes)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock || error.kind() == ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Writes what the kernel takes; 0 when it takes nothing.
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize, String> {
        match self.stream.write(bytes) {
            Ok(sent) => Ok(sent),
            Err(error) if error.kind() == ErrorKind::WouldBlock || error.kind() == ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Blocks until one of the descriptors is ready for its events.
pub fn wait(descriptors: &[(i32, i16)]) -> Result<(), String> {
    let mut polled: Vec<libc::pollfd> =
        descriptors.iter().map(|&(fd, events)| libc::pollfd { fd, events, revents: 0 }).collect();
    // SAFETY: the pointer and length describe `polled`, which outlives the call.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 60_000) };
    match ready {
        0 => Err("nothing happened for 60 s".into()),
        -1 if std::io::Error::last_os_error().kind() != ErrorKind::Interrupted => {
            Err(std::io::Error::last_os_error().to_string())
        }
        _ => Ok(()),
    }
}

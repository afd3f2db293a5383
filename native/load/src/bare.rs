//! What the machine can do without a broker: the yardstick of every other row.

use crate::options::Options;
use crate::stats::latency_json;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const BLOCK: usize = 4096;
const FILE_BYTES: usize = 64 << 20;

/// Round trips over loopback: `size` bytes there, `reply` bytes back, between two processes as with a broker; the
/// other one runs on CPU `server-cpu`.
pub fn echo(options: &Options) -> Result<String, String> {
    let (size, reply, count) = (options.number("size")?, options.number("reply")?, options.number("count")?);
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let cpu = options.number("server-cpu")?.to_string();
    let mut server = Command::new("taskset")
        .args(["-c", &cpu])
        .arg(own)
        .args(["echo-server", "--size", &size.to_string(), "--reply", &reply.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let measure = |server: &mut Child| -> std::io::Result<Vec<_>> {
        let mut address = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut address)?;
        let mut stream = TcpStream::connect(address.trim())?;
        stream.set_nodelay(true)?;
        let (request, mut answer) = (vec![1u8; size], vec![0u8; reply]);
        let mut samples = Vec::with_capacity(count);
        for _ in 0..count {
            let started = Instant::now();
            stream.write_all(&request)?;
            stream.read_exact(&mut answer)?;
            samples.push(started.elapsed());
        }
        Ok(samples)
    };
    let measured = measure(&mut server);
    let _ = server.kill();
    let _ = server.wait();
    let mut samples = measured.map_err(|error| error.to_string())?;
    Ok(format!("{{\"size\":{size},{}}}", latency_json(&mut samples)))
}

/// The other end of echo(): prints its address, then answers one connection until it ends.
pub fn echo_server(options: &Options) -> Result<String, String> {
    let (size, reply) = (options.number("size")?, options.number("reply")?);
    let serve = || -> std::io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        println!("{}", listener.local_addr()?);
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let (mut request, answer) = (vec![0u8; size], vec![0u8; reply]);
        loop {
            stream.read_exact(&mut request)?;
            stream.write_all(&answer)?;
        }
    };
    match serve() {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(String::new()),
        Err(error) => Err(error.to_string()),
        Ok(()) => Ok(String::new()),
    }
}

/// Appends of `size` bytes to a preallocated file, each followed by fdatasync. Direct writes are whole blocks.
pub fn sync(options: &Options) -> Result<String, String> {
    let (size, count) = (options.number("size")?, options.number("count")?);
    let direct = options.has("direct");
    let path = Path::new(options.text("dir")?).join("ironbus-load.tmp");
    let result = measure_sync(&path, size, count, direct);
    let _ = std::fs::remove_file(&path);
    let mut samples = result.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(format!("{{\"size\":{size},\"direct\":{direct},{}}}", latency_json(&mut samples)))
}

fn measure_sync(path: &Path, size: usize, count: usize, direct: bool) -> std::io::Result<Vec<std::time::Duration>> {
    let bytes = if direct { size.div_ceil(BLOCK) * BLOCK } else { size };
    let mut open = OpenOptions::new();
    open.write(true).create(true).truncate(true);
    if direct {
        open.custom_flags(libc::O_DIRECT);
    }
    let file = open.open(path)?;
    let fd = file.as_raw_fd();
    let length = (bytes * count).max(FILE_BYTES);
    // SAFETY: plain system calls on a descriptor that `file` keeps open.
    if unsafe { libc::fallocate(fd, 0, 0, length as libc::off_t) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    file.sync_all()?;
    let layout = Layout::from_size_align(bytes, BLOCK).unwrap();
    // SAFETY: the layout is not empty; the memory is freed with the same layout below.
    let memory = unsafe { alloc_zeroed(layout) };
    let mut samples = Vec::with_capacity(count);
    let mut failure = None;
    for index in 0..count {
        let started = Instant::now();
        // SAFETY: `memory` holds `bytes` bytes.
        let written = unsafe { libc::pwrite(fd, memory.cast(), bytes, (index * bytes) as libc::off_t) };
        if written != bytes as isize || unsafe { libc::fdatasync(fd) } != 0 {
            failure = Some(std::io::Error::last_os_error());
            break;
        }
        samples.push(started.elapsed());
    }
    // SAFETY: allocated above with this layout, not used any more.
    unsafe { dealloc(memory, layout) };
    failure.map_or(Ok(samples), Err)
}

//! Drives a broker as fast as one core can, and measures what this machine can do without one.
//!
//!     ironbus-load publish --addr H:P --size BYTES --count N --window W [--connections C] [--payload KIND]
//!     ironbus-load consume --addr H:P --size BYTES --count N [--payload KIND]
//!     ironbus-load echo    --size BYTES --reply BYTES --count N --server-cpu CPU
//!     ironbus-load sync    --dir DIR --size BYTES --count N [--direct]
//!
//! KIND: text (the same line in each record), json (telemetry), random. Each prints one line of JSON. Every acknowledgement and delivery is checked, not just counted: a wrong offset, a lost or
//! changed payload ends the run with an error.

mod bare;
mod consume;
mod frames;
mod options;
mod payload;
mod publish;
mod socket;
mod stats;

use options::Options;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let verb = arguments.next().unwrap_or_default();
    let result = Options::parse(arguments).and_then(|options| match verb.as_str() {
        "publish" => publish::run(&options),
        "consume" => consume::run(&options),
        "echo" => bare::echo(&options),
        "echo-server" => bare::echo_server(&options),
        "sync" => bare::sync(&options),
        _ => Err(format!("unknown verb {verb:?}: publish, consume, echo, sync")),
    });
    match result {
        // The other end of an echo has nothing to say, and nobody to say it to.
        Ok(line) if line.is_empty() => {}
        Ok(line) => println!("{line}"),
        Err(message) => {
            eprintln!("ironbus-load: {message}");
            std::process::exit(1);
        }
    }
}

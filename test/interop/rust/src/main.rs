//! Drives a broker with upstream's published client: `ironbus-interop <directory>`, a directory that is empty or not there
//! yet. The broker's command is the JSON array in IRONBUS_COMMAND, `["dist/ironbus"]` if it is not set. One line per
//! check, then the count. What is left in the directory is for `ironbus-segments <directory>`.

mod broker;
mod checks;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use ironbus_interop::report::Report;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: ironbus-interop <directory>");
        return ExitCode::from(2);
    };
    let is_fresh =
        fs::create_dir_all(&directory).and_then(|()| fs::read_dir(&directory)).map(|mut left| left.next().is_none());
    if !matches!(is_fresh, Ok(true)) {
        eprintln!("ironbus-interop: {} must be an empty directory", directory.display());
        return ExitCode::from(2);
    }
    let mut report = Report::new();
    checks::session::run(&mut report, &directory);
    checks::publish::run(&mut report, &directory);
    checks::sizes::run(&mut report, &directory);
    checks::compressed::run(&mut report, &directory);
    checks::consume::run(&mut report, &directory);
    checks::settle::run(&mut report, &directory);
    checks::refused::run(&mut report, &directory);
    checks::volume::run(&mut report, &directory);
    checks::crash::run(&mut report, &directory);
    report.finish()
}

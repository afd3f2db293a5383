//! Checks, one printed line each, and their count.

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What panicked in the running check, in whatever thread, in that order.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn panics() -> MutexGuard<'static, Vec<String>> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs named checks; a check fails by panicking.
#[derive(Default)]
pub struct Report {
    passed: usize,
    failed: usize,
}

impl Report {
    /// A report; panics of this process are from now on lines of it instead of traces on stderr.
    pub fn new() -> Report {
        panic::set_hook(Box::new(|info| {
            panics().push(info.to_string().replace('\n', " "));
        }));
        Report::default()
    }

    /// Runs one check and prints `ok   <name>` or `FAIL <name>: <why>`. Returns what the check gave, if it passed.
    pub fn check<T>(&mut self, name: &str, body: impl FnOnce() -> T) -> Option<T> {
        panics().clear();
        match panic::catch_unwind(AssertUnwindSafe(body)) {
            Ok(value) => {
                self.passed += 1;
                println!("ok   {name}");
                Some(value)
            }
            Err(_) => {
                self.failed += 1;
                println!("FAIL {name}: {}", panics().join("; then "));
                None
            }
        }
    }

    /// Prints the count; success only if something passed and nothing failed.
    pub fn finish(self) -> ExitCode {
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 && self.passed > 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

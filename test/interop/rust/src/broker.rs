//! The broker under test, as a child process.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use ironbus_client::{Client, ClientConfig};

const COMMAND_VARIABLE: &str = "IRONBUS_COMMAND";
const DEFAULT_COMMAND: &str = "[\"dist/ironbus\"]";

/// A running `serve`; killed when dropped.
pub struct Broker {
    child: Child,
    address: String,
    data_dir: PathBuf,
    flags: Vec<String>,
}

impl Broker {
    /// Starts `serve` on `data_dir` at a free port of 127.0.0.1 and waits for its listening line.
    pub fn start(data_dir: &Path, flags: &[&str]) -> Broker {
        Broker::start_owned(data_dir.to_path_buf(), flags.iter().map(|flag| (*flag).to_string()).collect())
    }

    fn start_owned(data_dir: PathBuf, flags: Vec<String>) -> Broker {
        let command = command();
        let mut serve = Command::new(&command[0]);
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("IRONBUS_")) {
            // They would configure the broker.
            serve.env_remove(name);
        }
        let mut child = serve
            .args(&command[1..])
            .arg("serve")
            .arg("--data-dir")
            .arg(&data_dir)
            .args(["--addr", "127.0.0.1:0"])
            .args(&flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", command[0]));
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("the listening line can be read");
        let address = line
            .split_once("listening on ")
            .and_then(|(_, rest)| rest.split_once(','))
            .map(|(address, _)| address.to_string())
            .unwrap_or_else(|| panic!("{} did not say where it listens: {line:?}", command[0]));
        // A full pipe must not stop the broker.
        thread::spawn(move || stdout.read_to_end(&mut Vec::new()));
        Broker { child, address, data_dir, flags }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// A client with the default configuration.
    pub fn client(&self) -> Client {
        Client::connect(self.address.as_str()).expect("a default client connects")
    }

    pub fn client_with(&self, config: &ClientConfig) -> Client {
        Client::connect_with(self.address.as_str(), config).expect("the client connects")
    }

    /// kill -9, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().expect("the broker can be killed");
        self.child.wait().expect("the broker ends");
    }

    /// SIGTERM, and waits for its end.
    pub fn stop(&mut self) -> ExitStatus {
        let sent = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status();
        assert!(sent.expect("kill runs").success(), "SIGTERM was not sent");
        self.child.wait().expect("the broker ends")
    }

    /// A new broker with the same flags on the same directory, after this one is gone.
    pub fn restart(&mut self) {
        *self = Broker::start_owned(self.data_dir.clone(), self.flags.clone());
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Both fail if it is gone already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command() -> Vec<String> {
    let text = env::var(COMMAND_VARIABLE).unwrap_or_else(|_| DEFAULT_COMMAND.to_string());
    let value: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{COMMAND_VARIABLE} is no JSON: {error}"));
    let parts: Option<Vec<String>> = value
        .as_array()
        .filter(|parts| !parts.is_empty())
        .and_then(|parts| parts.iter().map(|part| part.as_str().map(str::to_string)).collect());
    parts.unwrap_or_else(|| panic!("{COMMAND_VARIABLE} must be an array of strings that is not empty"))
}

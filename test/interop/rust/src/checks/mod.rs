//! The checks, by what they are about; each module runs on a broker and a data directory of its own.

pub mod compressed;
pub mod consume;
pub mod crash;
pub mod publish;
pub mod refused;
pub mod session;
pub mod settle;
pub mod sizes;
pub mod volume;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ironbus_client::{Client, ClientError, Message, ServerError};
use ironbus_interop::ledger::Ledger;
use ironbus_interop::record::Record;
use ironbus_interop::report::Report;

use crate::broker::Broker;

/// Only against waiting for ever; no check measures time with it.
const SAFETY_NET: Duration = Duration::from_secs(120);

const SEGMENT_FLAG: &str = "--max-segment-bytes";
/// Each stage preallocates a segment, so not the default 64 MiB.
const SMALL_SEGMENT: &str = "8388608";

/// A broker, and what it acknowledged.
pub struct Stage {
    pub broker: Broker,
    pub ledger: Ledger,
    data_dir: PathBuf,
}

impl Stage {
    /// First check of a stage: the broker starts on a new directory. None if it does not.
    pub fn start(report: &mut Report, directory: &Path, name: &str, flags: &[&str]) -> Option<Stage> {
        let data_dir = directory.join(name);
        let mut all = flags.to_vec();
        if !flags.contains(&SEGMENT_FLAG) {
            all.extend([SEGMENT_FLAG, SMALL_SEGMENT]);
        }
        let broker = report.check(&format!("{name}: the broker starts"), || Broker::start(&data_dir, &all))?;
        Some(Stage { broker, ledger: Ledger::default(), data_dir })
    }

    /// Publishes one record, awaited.
    pub fn produce(&mut self, client: &mut Client, record: &Record) -> u64 {
        let offset = client.produce(&record.body()).expect("the publish is acknowledged");
        self.ledger.acknowledged(offset, record);
        offset
    }

    /// Publishes `count` numbered records in one window; returns the offset of the first.
    pub fn produce_numbered(&mut self, client: &mut Client, series: &str, count: u64) -> u64 {
        let records: Vec<Record> = (0..count).map(|number| Record::numbered(series, number)).collect();
        let bodies: Vec<_> = records.iter().map(Record::body).collect();
        let acks = client.produce_window(&bodies).expect("the window is acknowledged");
        assert_eq!(acks.len(), records.len());
        for (ack, record) in acks.iter().zip(&records) {
            self.ledger.acknowledged(ack.offset, record);
        }
        acks.first().expect("the window is not empty").offset
    }

    /// Last check of a stage: a fresh group sees the whole log in order, once, and as acknowledged; then the broker stops
    /// at SIGTERM with status 0 and the ledger is saved.
    pub fn finish(self, report: &mut Report, name: &str) {
        report.check(&format!("{name}: a fresh group reads everything, in order, once; SIGTERM ends with 0"), || {
            let mut client = self.broker.client();
            client.subscribe("audit").expect("the audit group is bound");
            let messages = drain(&mut client);
            let mut acknowledged = 0;
            for (expected, message) in (0..).zip(&messages) {
                assert_eq!(message.offset, expected, "offsets have no gap");
                if let Some(digest) = self.ledger.get(expected) {
                    assert_eq!(as_record(message).digest(), digest, "record at offset {expected}");
                    acknowledged += 1;
                }
            }
            assert_eq!(acknowledged, self.ledger.len(), "every acknowledged offset is there");
            self.stop(messages.len() as u64);
        });
    }

    /// SIGTERM, status 0, and the ledger for the reader of the segments; `head` is the first offset not in the log.
    pub fn stop(mut self, head: u64) {
        let status = self.broker.stop();
        assert!(status.success(), "the broker ended with {status}");
        self.ledger.save(&self.data_dir, head).expect("the ledger is saved");
    }
}

/// What was published, seen from its delivery.
pub fn as_record(message: &Message) -> Record {
    Record {
        timestamp_ms: message.timestamp_ms,
        key: message.key.clone(),
        headers: message.headers.clone(),
        payload: message.payload.clone(),
    }
}

/// The next messages of the bound group, each acknowledged with success.
pub fn take(client: &mut Client, max: u32) -> Vec<Message> {
    let fetched = client.fetch(max).expect("the fetch is answered");
    assert!(fetched.dead_letters.is_empty() && fetched.truncations.is_empty() && fetched.gaps.is_empty());
    ack_all(client, &fetched.messages);
    fetched.messages
}

pub fn ack_all(client: &mut Client, messages: &[Message]) {
    let tokens: Vec<(u64, u64)> = messages.iter().map(|message| (message.offset, message.generation)).collect();
    let statuses = client.ack_many(&tokens).expect("the acks are answered");
    assert!(statuses.len() == tokens.len() && statuses.iter().all(|done| *done), "an ack was fenced: {statuses:?}");
}

/// Everything the bound group has, acknowledged.
pub fn drain(client: &mut Client) -> Vec<Message> {
    let mut all = Vec::new();
    loop {
        let mut messages = take(client, 2048);
        if messages.is_empty() {
            return all;
        }
        all.append(&mut messages);
    }
}

/// Fetches until a message comes; for deliveries that time has to pass for.
pub fn await_message(client: &mut Client) -> Message {
    let started = Instant::now();
    loop {
        let mut fetched = client.fetch(1).expect("the fetch is answered");
        if let Some(message) = fetched.messages.pop() {
            return message;
        }
        assert!(started.elapsed() < SAFETY_NET, "nothing was delivered");
        thread::sleep(Duration::from_millis(20));
    }
}

pub fn assert_nothing(client: &mut Client) {
    let fetched = client.fetch(100).expect("the fetch is answered");
    let offsets: Vec<u64> = fetched.messages.iter().map(|message| message.offset).collect();
    assert!(offsets.is_empty(), "delivered {offsets:?}, expected nothing");
}

pub fn offsets(messages: &[Message]) -> Vec<u64> {
    messages.iter().map(|message| message.offset).collect()
}

/// Messages by offset; fails if an offset came twice.
pub fn by_offset(messages: Vec<Message>) -> BTreeMap<u64, Message> {
    let count = messages.len();
    let map: BTreeMap<u64, Message> = messages.into_iter().map(|message| (message.offset, message)).collect();
    assert_eq!(map.len(), count, "an offset was delivered twice");
    map
}

/// The error that the server sent; fails for success and for any other error.
pub fn server_error<T: std::fmt::Debug>(result: Result<T, ClientError>) -> ServerError {
    match result {
        Err(ClientError::Server(error)) => error,
        other => panic!("expected an error of the server, got {other:?}"),
    }
}

/// The connection still does everything.
pub fn assert_usable(client: &mut Client) {
    client.ping().expect("a ping is answered");
}

/// The connection has ended, in one of the ways in which that shows.
pub fn assert_connection_lost<T: std::fmt::Debug>(result: Result<T, ClientError>) {
    match result {
        Err(ClientError::Io(error)) => {
            let kind = error.kind();
            let timed_out = matches!(kind, std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
            assert!(!timed_out, "the client waited in vain instead of seeing the end: {error}");
        }
        Err(ClientError::Closed) => {}
        other => panic!("expected a lost connection, got {other:?}"),
    }
}

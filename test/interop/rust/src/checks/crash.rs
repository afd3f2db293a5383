//! kill -9 in the middle of publishing and consuming, and the reconnects after it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ironbus_client::Client;
use ironbus_interop::record::Record;
use ironbus_interop::report::Report;

use super::{as_record, assert_connection_lost, drain, Stage};

const ROUNDS: usize = 5;
const SERIES: &str = "crash";
/// More than a broker takes before it is killed.
const MOST_STREAMED: u64 = 300_000;

/// What was seen over all rounds.
#[derive(Default)]
struct Seen {
    /// Records whose window was never answered: each is in the log once or not at all.
    unanswered: Vec<u64>,
    /// Number of the next record; a number is published once, also after a crash.
    next: u64,
    /// Offsets that the steady consumer was given, with what they held.
    consumed: BTreeMap<u64, Record>,
    /// Of those, the ones whose ack was answered with "done".
    settled: BTreeSet<u64>,
}

pub fn run(report: &mut Report, directory: &Path) {
    let flags = ["--max-segment-bytes", "262144", "--visibility-timeout-ms", "1000"];
    let Some(mut stage) = Stage::start(report, directory, "crash", &flags) else { return };
    let mut seen = Seen::default();
    for round in 1..=ROUNDS {
        report.check(&format!("kill -9, round {round}: client calls end with an error, a new client goes on"), || {
            let progressed = AtomicUsize::new(0);
            let mut producer = stage.broker.client();
            let mut consumer = stage.broker.client();
            let mut idle = stage.broker.client();
            consumer.subscribe("steady").expect("the group is bound");
            let (acknowledged, unanswered, consumed, settled) = thread::scope(|scope| {
                let next = seen.next;
                let counter = &progressed;
                let publishing = scope.spawn(move || publish_until_lost(&mut producer, next, counter));
                let consuming = scope.spawn(move || consume_until_lost(&mut consumer));
                while progressed.load(Ordering::Relaxed) < round * 400 && !publishing.is_finished() {
                    thread::sleep(Duration::from_millis(1));
                }
                // At another point of its work each time.
                thread::sleep(Duration::from_micros(700 * round as u64));
                stage.broker.kill();
                let (acknowledged, unanswered) = publishing.join().expect("the producer saw the end");
                let (consumed, settled) = consuming.join().expect("the consumer saw the end");
                (acknowledged, unanswered, consumed, settled)
            });
            assert_connection_lost(idle.ping());
            assert_connection_lost(idle.produce(&Record::of("too late").body()));
            assert_connection_lost(Client::connect(stage.broker.address()));

            seen.next += (acknowledged.len() + unanswered.len()) as u64;
            for (offset, record) in &acknowledged {
                stage.ledger.acknowledged(*offset, record);
            }
            seen.unanswered.extend(unanswered);
            seen.consume(consumed, settled);
            stage.broker.restart();
            let mut client = stage.broker.client();
            let after = Record::numbered(SERIES, seen.next);
            seen.next += 1;
            let offset = stage.produce(&mut client, &after);
            let last = acknowledged.last().map(|(offset, _)| *offset);
            assert!(last < Some(offset), "offsets go on above {last:?}, not at {offset}");
        });
    }
    report.check("kill -9 during produce_stream: an error instead of a tally; a new client goes on", || {
        let mut client = stage.broker.client();
        let taken = AtomicUsize::new(0);
        let first = seen.next;
        thread::scope(|scope| {
            let counter = &taken;
            let streaming = scope.spawn(move || {
                let records: Vec<Record> =
                    (first..first + MOST_STREAMED).map(|number| Record::numbered(SERIES, number)).collect();
                let bodies = records.iter().map(|record| {
                    counter.fetch_add(1, Ordering::Relaxed);
                    record.body()
                });
                assert_connection_lost(client.produce_stream(bodies, 64));
            });
            while taken.load(Ordering::Relaxed) < 2_000 && !streaming.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
            stage.broker.kill();
            streaming.join().expect("the stream saw the end");
        });
        seen.next += taken.into_inner() as u64;
        seen.unanswered.extend(first..seen.next);
        stage.broker.restart();
        let after = Record::numbered(SERIES, seen.next);
        seen.next += 1;
        let mut client = stage.broker.client();
        stage.produce(&mut client, &after);
    });
    report.check(
        "after all rounds: every acknowledged offset is there, in order, once; nothing else but unanswered ones",
        || {
            let mut client = stage.broker.client();
            client.subscribe("after").expect("the group is bound");
            let messages = drain(&mut client);
            let mut numbers: BTreeMap<u32, u64> =
                (0..seen.next).map(|number| (Record::numbered(SERIES, number).digest(), number)).collect();
            let unanswered: BTreeSet<u64> = seen.unanswered.iter().copied().collect();
            let mut last = None;
            for (expected, message) in (0..).zip(&messages) {
                assert_eq!(message.offset, expected, "offsets have no gap");
                let digest = as_record(message).digest();
                let number =
                    numbers.remove(&digest).unwrap_or_else(|| panic!("offset {expected}: not published, or twice"));
                Record::numbered(SERIES, number).assert_is(message);
                assert!(last < Some(number), "the producer's order");
                last = Some(number);
                match stage.ledger.get(expected) {
                    Some(acknowledged) => assert_eq!(acknowledged, digest, "the record acknowledged at {expected}"),
                    None => {
                        assert!(unanswered.contains(&number), "offset {expected} holds a record with another offset")
                    }
                }
            }
            assert!(stage.ledger.entries().all(|(offset, _)| offset < messages.len() as u64), "acknowledged and lost");
        },
    );
    report.check("after all rounds: the steady consumer was given everything, each offset with one record", || {
        let mut client = stage.broker.client();
        client.subscribe("steady").expect("the group is bound");
        let head = stage.ledger.entries().map(|(offset, _)| offset).max().expect("something was acknowledged") + 1;
        let rest = drain(&mut client);
        seen.consume(rest.iter().map(|message| (message.offset, as_record(message))).collect(), BTreeSet::new());
        assert_eq!(seen.consumed.keys().copied().collect::<Vec<u64>>(), (0..head).collect::<Vec<u64>>());
        assert!(!seen.settled.is_empty(), "the consumer settled something in between");
    });
    stage.finish(report, "crash");
}

impl Seen {
    /// A record may come again after a crash, but never another one under its offset.
    fn consume(&mut self, consumed: Vec<(u64, Record)>, settled: BTreeSet<u64>) {
        for (offset, record) in consumed {
            let before = self.consumed.entry(offset).or_insert_with(|| record.clone());
            assert_eq!(*before, record, "another record at offset {offset} than before the crash");
        }
        self.settled.extend(settled);
    }
}

/// Publishes windows until the connection is lost: acknowledged records by offset, and those of the unanswered window.
fn publish_until_lost(client: &mut Client, mut next: u64, progressed: &AtomicUsize) -> (Vec<(u64, Record)>, Vec<u64>) {
    let mut acknowledged = Vec::new();
    loop {
        let window = 1 + next % 97;
        let records: Vec<Record> = (next..next + window).map(|number| Record::numbered(SERIES, number)).collect();
        let bodies: Vec<_> = records.iter().map(Record::body).collect();
        match client.produce_window(&bodies) {
            Ok(acks) => {
                acknowledged.extend(acks.iter().map(|ack| ack.offset).zip(records));
                progressed.fetch_add(acks.len(), Ordering::Relaxed);
                next += window;
            }
            lost => {
                assert_connection_lost(lost);
                return (acknowledged, (next..next + window).collect());
            }
        }
    }
}

fn consume_until_lost(client: &mut Client) -> (Vec<(u64, Record)>, BTreeSet<u64>) {
    let mut consumed = Vec::new();
    let mut settled = BTreeSet::new();
    loop {
        let messages = match client.fetch(50) {
            Ok(fetched) => fetched.messages,
            lost => {
                assert_connection_lost(lost);
                return (consumed, settled);
            }
        };
        consumed.extend(messages.iter().map(|message| (message.offset, as_record(message))));
        let tokens: Vec<(u64, u64)> = messages.iter().map(|message| (message.offset, message.generation)).collect();
        match client.ack_many(&tokens) {
            Ok(statuses) => {
                let done = tokens.iter().zip(statuses).filter(|(_, done)| *done);
                settled.extend(done.map(|((offset, _), _)| *offset));
            }
            lost => {
                assert_connection_lost(lost);
                return (consumed, settled);
            }
        }
    }
}

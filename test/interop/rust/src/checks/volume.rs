//! Many records, through one connection and through several at once, over many segments.

use std::path::Path;
use std::thread;

use ironbus_interop::record::Record;
use ironbus_interop::report::Report;

use super::{by_offset, drain, Stage};

const RECORDS: u64 = 100_000;
const TEXTS: u64 = 5_000;
const PRODUCERS: u64 = 4;
const RECORDS_EACH: u64 = 5_000;

pub fn run(report: &mut Report, directory: &Path) {
    let Some(mut stage) = Stage::start(report, directory, "volume", &["--max-segment-bytes", "1048576"]) else {
        return;
    };
    report.check("volume: 100,000 records pipelined, then drained with fetch and ack, in order, once", || {
        let mut client = stage.broker.client();
        let records: Vec<Record> = (0..RECORDS).map(|number| Record::numbered("volume", number)).collect();
        let summary = client.produce_stream(records.iter().map(Record::body), 1_024).expect("the stream drains");
        assert_eq!((summary.acked, summary.duplicates, summary.server_errors), (RECORDS, 0, 0));
        assert_eq!(summary.last_offset, Some(RECORDS - 1));
        for (offset, record) in (0..).zip(&records) {
            stage.ledger.acknowledged(offset, record);
        }
        client.subscribe("drain").expect("the group is bound");
        let messages = drain(&mut client);
        assert_eq!(messages.len() as u64, RECORDS);
        for (record, (expected, message)) in records.iter().zip((0..).zip(&messages)) {
            assert_eq!(message.offset, expected);
            record.assert_is(message);
        }
    });
    report.check("volume: 5,000 records of text, which the broker compresses, come back as they were", || {
        let mut client = stage.broker.client();
        let records: Vec<Record> = (0..TEXTS)
            .map(|number| {
                let line = format!("ts={number:06} sensor=edge temp={}.5 occ=1 batt=98; ", number % 40);
                Record::of(line.repeat(1 + number as usize % 20))
            })
            .collect();
        client.produce_stream(records.iter().map(Record::body), 1_024).expect("the stream drains");
        client.subscribe("drain").expect("the group is bound");
        let messages = drain(&mut client);
        assert_eq!(messages.len(), records.len());
        for (record, message) in records.iter().zip(&messages) {
            record.assert_is(message);
            stage.ledger.acknowledged(message.offset, record);
        }
    });
    report.check("volume: several producers at once each keep their order; offsets are given out once", || {
        let broker = &stage.broker;
        let acknowledged: Vec<Vec<u64>> = thread::scope(|scope| {
            let producers: Vec<_> = (0..PRODUCERS)
                .map(|producer| {
                    scope.spawn(move || {
                        let mut client = broker.client();
                        let mut offsets = Vec::new();
                        for start in (0..RECORDS_EACH).step_by(50) {
                            let records: Vec<Record> = (start..start + 50)
                                .map(|number| Record::numbered(&format!("producer {producer}"), number))
                                .collect();
                            let bodies: Vec<_> = records.iter().map(Record::body).collect();
                            let acks = client.produce_window(&bodies).expect("the window is acknowledged");
                            offsets.extend(acks.iter().map(|ack| ack.offset));
                        }
                        offsets
                    })
                })
                .collect();
            producers.into_iter().map(|producer| producer.join().expect("the producer ends well")).collect()
        });
        let mut client = stage.broker.client();
        client.subscribe("drain").expect("the group is bound");
        let delivered = by_offset(drain(&mut client));
        assert_eq!(delivered.len() as u64, PRODUCERS * RECORDS_EACH);
        for (producer, offsets) in acknowledged.iter().enumerate() {
            assert!(offsets.windows(2).all(|pair| pair[0] < pair[1]), "the order of a producer");
            for (number, offset) in (0..).zip(offsets) {
                let record = Record::numbered(&format!("producer {producer}"), number);
                record.assert_is(&delivered[offset]);
                stage.ledger.acknowledged(*offset, &record);
            }
        }
    });
    stage.finish(report, "volume");
}

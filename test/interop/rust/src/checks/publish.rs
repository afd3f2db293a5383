//! Every way in which the client publishes to the default stream.

use std::collections::HashMap;
use std::path::Path;

use ironbus_client::proto::{AckLevel, PubBody, PubDedup};
use ironbus_client::{ClientConfig, ClientError};
use ironbus_interop::record::Record;
use ironbus_interop::report::Report;

use super::{assert_usable, by_offset, drain, server_error, Stage};

pub fn run(report: &mut Report, directory: &Path) {
    let Some(mut stage) = Stage::start(report, directory, "publish", &[]) else { return };
    report.check("produce: awaited, offsets 0, 1, 2 on an empty log", || {
        let mut client = stage.broker.client();
        for number in 0..3 {
            assert_eq!(stage.produce(&mut client, &Record::numbered("awaited", number)), number);
        }
    });
    report.check("produce_dedup without a dedup block: a fresh record, not a duplicate", || {
        let mut client = stage.broker.client();
        let record = Record::numbered("plain", 0);
        for _ in 0..2 {
            let ack = client.produce_dedup(&record.body()).expect("the publish is acknowledged");
            assert!(!ack.duplicate);
            stage.ledger.acknowledged(ack.offset, &record);
        }
        assert_eq!(stage.ledger.len(), 5);
    });
    report.check("produce_to_leader: a single node is its own leader", || {
        let mut client = stage.broker.client();
        let record = Record::numbered("leader", 0);
        let offset = client.produce_to_leader(&record.body(), &ClientConfig::default(), 3).expect("it is acknowledged");
        stage.ledger.acknowledged(offset, &record);
    });
    report.check("produce_with_ack_level: level 1 gives the offset, level 0 gives none and is stored", || {
        let mut client = stage.broker.client();
        let acknowledged = Record::numbered("level", 1);
        let offset =
            client.produce_with_ack_level(&acknowledged.body(), AckLevel::ServerAck).expect("it is acknowledged");
        stage.ledger.acknowledged(offset.expect("level 1 has an offset"), &acknowledged);
        let silent = Record::numbered("level", 0);
        assert_eq!(client.produce_with_ack_level(&silent.body(), AckLevel::NoAck).expect("it is sent"), None);
        client.ping().expect("the pong comes first, without an ack before it");
        assert_next(&mut stage, &silent);
    });
    report.check("default ack level 2 in Connect changes nothing for a plain publish", || {
        let config = ClientConfig { default_ack_level: Some(AckLevel::ServerAndClientAck), ..ClientConfig::default() };
        let mut client = stage.broker.client_with(&config);
        stage.produce(&mut client, &Record::numbered("default level", 0));
        assert_usable(&mut client);
    });
    report.check("produce_window: 1, 100 and 5,000 records, consecutive offsets; an empty window", || {
        let mut client = stage.broker.client();
        for count in [1, 100, 5_000] {
            let head = stage.ledger.len() as u64;
            assert_eq!(stage.produce_numbered(&mut client, &format!("window of {count}"), count), head);
            assert_eq!(stage.ledger.len() as u64, head + count);
        }
        assert!(client.produce_window(&[]).expect("nothing to do").is_empty());
    });
    report.check("produce_window: a refused slot is that slot's error, the others are stored in order", || {
        let mut client = stage.broker.client();
        let records: Vec<Record> = (0..20).map(|number| Record::numbered("holey window", number)).collect();
        let error = server_error(client.produce_window(&with_refused_slots(&records)));
        assert!(!error.message().is_empty());
        assert_usable(&mut client);
        for record in records.iter().enumerate().filter(|(slot, _)| !is_refused(*slot)).map(|(_, record)| record) {
            assert_next(&mut stage, record);
        }
        stage.produce(&mut client, &Record::of("after the holey window"));
    });
    report.check("produce_stream: 10,000 records through windows of 1, 256 and 4,096", || {
        let mut client = stage.broker.client();
        for (window, count) in [(1, 200), (256, 10_000), (4_096, 10_000)] {
            let records: Vec<Record> =
                (0..count).map(|number| Record::numbered(&format!("stream through {window}"), number)).collect();
            let head = stage.ledger.len() as u64;
            let summary = client.produce_stream(records.iter().map(Record::body), window).expect("the stream drains");
            assert_eq!((summary.acked, summary.duplicates, summary.server_errors), (count, 0, 0));
            assert_eq!(summary.last_offset, Some(head + count - 1));
            for (offset, record) in (head..).zip(&records) {
                stage.ledger.acknowledged(offset, record);
            }
        }
        stage.produce(&mut client, &Record::of("after the streams"));
    });
    report.check("produce_stream: refused slots are counted, the first one is kept", || {
        let mut client = stage.broker.client();
        let records: Vec<Record> = (0..20).map(|number| Record::numbered("holey stream", number)).collect();
        let summary = client.produce_stream(with_refused_slots(&records), 8).expect("the stream drains");
        assert_eq!((summary.acked, summary.server_errors), (17, 3));
        assert!(!summary.first_server_error.expect("the first refusal is kept").message().is_empty());
        for record in records.iter().enumerate().filter(|(slot, _)| !is_refused(*slot)).map(|(_, record)| record) {
            assert_next(&mut stage, record);
        }
    });
    report.check("pipelined_producer: the default window and windows of 0 and 1,000", || {
        let mut client = stage.broker.client();
        for window in [None, Some(0), Some(1_000)] {
            let series = format!("pipelined {window:?}");
            let head = stage.ledger.len() as u64;
            let mut producer = match window {
                None => client.pipelined_producer(),
                Some(window) => client.pipelined_producer_with_window(window),
            };
            let mut acked = 0;
            for number in 0..1_500 {
                acked += producer.produce(&Record::numbered(&series, number).body()).expect("it is buffered").acked;
            }
            let last = producer.finish().expect("the rest is acknowledged");
            assert_eq!(acked + last.acked, 1_500);
            assert_eq!(last.last_offset, if last.acked == 0 { None } else { Some(head + 1_499) });
            for number in 0..1_500 {
                stage.ledger.acknowledged(head + number, &Record::numbered(&series, number));
            }
        }
    });
    report.check("fire and forget: one by one and coalesced; no answer, all stored in order", || {
        let mut client = stage.broker.client();
        let single: Vec<Record> = (0..20).map(|number| Record::numbered("forgotten singly", number)).collect();
        for record in &single {
            client.produce_fire_and_forget(&record.body()).expect("it is sent");
        }
        let coalesced: Vec<Record> = (0..2_000).map(|number| Record::numbered("forgotten together", number)).collect();
        let mut producer = client.fire_and_forget_producer();
        for record in &coalesced {
            producer.send(&record.body()).expect("it is sent");
        }
        producer.flush().expect("the rest is sent");
        client.ping().expect("the pong comes, and nothing before it");
        for record in single.iter().chain(&coalesced) {
            assert_next(&mut stage, record);
        }
        stage.produce(&mut client, &Record::of("after what was forgotten"));
    });
    report.check("flags: what a producer claims of key, checksum or reserved bits is not believed", || {
        let mut client = stage.broker.client();
        let record = Record::of("flagged");
        // HAS_KEY without a key and HAS_XXH3 on a small body.
        let body = PubBody { flags: 0x06, ..record.body() };
        let offset = client.produce(&body).expect("the publish is acknowledged");
        stage.ledger.acknowledged(offset, &record);
        client.subscribe("flags").expect("the group is bound");
        let delivered = by_offset(drain(&mut client));
        record.assert_is(&delivered[&offset]);
    });
    report.check("all of it is delivered with every field as published", || {
        let mut client = stage.broker.client();
        client.subscribe("fields").expect("the group is bound");
        let delivered = by_offset(drain(&mut client));
        assert_eq!(delivered.len(), stage.ledger.len());
        let offsets: HashMap<u32, u64> = stage.ledger.entries().map(|(offset, digest)| (digest, offset)).collect();
        for number in 0..5_000 {
            let record = Record::numbered("window of 5000", number);
            record.assert_is(&delivered[&offsets[&record.digest()]]);
        }
    });
    report.check("a key or headers over 65,535 bytes fail in the client and leave the connection as it was", || {
        let mut client = stage.broker.client();
        for record in [
            Record { key: vec![b'k'; 65_536], ..Record::default() },
            Record { headers: vec![b'h'; 65_536], ..Record::default() },
        ] {
            assert!(matches!(client.produce(&record.body()), Err(ClientError::Body(_))));
        }
        assert_usable(&mut client);
    });
    stage.finish(report, "publish");
}

/// The next offset holds `record`; the log is read by the closing check of the stage.
fn assert_next(stage: &mut Stage, record: &Record) {
    let next = stage.ledger.len() as u64;
    stage.ledger.acknowledged(next, record);
}

fn is_refused(slot: usize) -> bool {
    matches!(slot, 0 | 3 | 19)
}

/// The records' bodies, some with a dedup block, which this version refuses.
fn with_refused_slots(records: &[Record]) -> Vec<PubBody<'_>> {
    let dedup = Some(PubDedup { producer_id: b"producer", epoch: 1, msg_id: b"id", seq: None });
    let refused = |slot, body| if is_refused(slot) { PubBody { dedup, ..body } } else { body };
    records.iter().enumerate().map(|(slot, record)| refused(slot, record.body())).collect()
}

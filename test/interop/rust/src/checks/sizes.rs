//! Payloads from nothing to the largest record, and what is over it.

use std::path::Path;

use ironbus_client::{ClientConfig, ClientError};
use ironbus_interop::record::Record;
use ironbus_interop::report::Report;

use super::{assert_usable, server_error, take, Stage};

const MIB: usize = 1024 * 1024;
/// Header, xxh3 and trailer of a stored record.
const RECORD_OVERHEAD: usize = 36 + 8 + 8;
/// A stored record is at most 16 MiB.
const LARGEST_PAYLOAD: usize = 16 * MIB - RECORD_OVERHEAD;
/// Of a Pub frame: the tag, flags, timestamp and the lengths of key and headers.
const PUB_OVERHEAD: usize = 1 + 1 + 8 + 2 + 2;
const LARGEST_FRAME: usize = 16 * MIB + 64 * 1024;

pub fn run(report: &mut Report, directory: &Path) {
    let Some(mut stage) = Stage::start(report, directory, "sizes", &["--max-segment-bytes", "33554432"]) else {
        return;
    };
    report.check("sizes: an entirely empty record; only a key; only headers; 65,535 bytes of each", || {
        let mut client = stage.broker.client();
        let records = [
            Record::default(),
            Record { key: b"key".to_vec(), ..Record::default() },
            Record { headers: b"a: b".to_vec(), ..Record::default() },
            Record { timestamp_ms: u64::MAX, ..Record::of(vec![0; 3]) },
            Record { key: vec![0xff; 65_535], headers: vec![0; 65_535], ..Record::of("between") },
        ];
        for record in &records {
            stage.produce(&mut client, record);
        }
        client.subscribe("small").expect("the group is bound");
        let messages = take(&mut client, 100);
        assert_eq!(messages.len(), records.len());
        records.iter().zip(&messages).for_each(|(record, message)| record.assert_is(message));
    });
    report.check("sizes: around 64 KiB, where a stored record gets a second checksum", || {
        let mut client = stage.broker.client();
        let records: Vec<Record> = (65_533..=65_538)
            .map(|length| Record { key: b"k".to_vec(), ..Record::of(Record::noise(7, length)) })
            .collect();
        for record in &records {
            stage.produce(&mut client, record);
        }
        client.subscribe("middle").expect("the group is bound");
        take(&mut client, 5);
        let messages = take(&mut client, 100);
        assert_eq!(messages.len(), records.len());
        records.iter().zip(&messages).for_each(|(record, message)| record.assert_is(message));
    });
    report.check("sizes: payloads of 1 MiB, 8 MiB and the largest there is, with noise and with zeros", || {
        let mut client = stage.broker.client();
        client.subscribe("large").expect("the group is bound");
        super::drain(&mut client);
        for length in [MIB, 8 * MIB, LARGEST_PAYLOAD] {
            for payload in [Record::noise(length as u64, length), vec![0; length]] {
                let record = Record::of(payload);
                stage.produce(&mut client, &record);
                // A byte budget never keeps back the only record.
                let messages = take(&mut client, 10);
                assert_eq!(messages.len(), 1);
                record.assert_is(&messages[0]);
            }
        }
    });
    report.check("sizes: several large records in one window, delivered within the byte budget", || {
        let config = ClientConfig { requested_consumer_credit_bytes: Some(3 << 20), ..ClientConfig::default() };
        let mut client = stage.broker.client_with(&config);
        client.subscribe("budget").expect("the group is bound");
        super::drain(&mut client);
        let records: Vec<Record> = (1..=8).map(|seed| Record::of(Record::noise(seed, MIB))).collect();
        let bodies: Vec<_> = records.iter().map(Record::body).collect();
        for (ack, record) in client.produce_window(&bodies).expect("the window is acknowledged").iter().zip(&records) {
            stage.ledger.acknowledged(ack.offset, record);
        }
        let mut seen = 0;
        while seen < records.len() {
            let messages = take(&mut client, 100);
            assert!((1..=3).contains(&messages.len()), "{} MiB at once for a budget of 3", messages.len());
            for message in &messages {
                records[seen].assert_is(message);
                seen += 1;
            }
        }
    });
    report.check("sizes: a record over the cap inside a legal frame is refused and nothing is stored", || {
        let mut client = stage.broker.client();
        let longest = LARGEST_FRAME - PUB_OVERHEAD;
        for length in [LARGEST_PAYLOAD + 1, 16 * MIB, longest] {
            let error = server_error(client.produce(&Record::of(vec![1; length]).body()));
            assert_eq!((error.message(), error.code()), ("produce failed", None), "{length} bytes");
            assert_usable(&mut client);
        }
        let next = stage.ledger.len() as u64;
        assert_eq!(stage.produce(&mut client, &Record::of("after the refusals")), next);
    });
    report.check("sizes: over the frame cap the client refuses by itself", || {
        let mut client = stage.broker.client();
        let too_long = Record::of(vec![1; LARGEST_FRAME - PUB_OVERHEAD + 1]);
        assert!(matches!(client.produce(&too_long.body()), Err(ClientError::Frame(_))));
        assert_usable(&mut client);
    });
    stage.finish(report, "sizes");
}

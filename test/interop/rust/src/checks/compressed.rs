//! Payloads that the producer compressed, with upstream's own codec.

use std::path::Path;

use ironbus_client::proto::PubBody;
use ironbus_client::{Client, ClientConfig, ClientError};
use ironbus_core::compress::{compress_payload, CompressConfig, CODEC_ID_LZ4, CODEC_ID_NONE};
use ironbus_interop::record::Record;
use ironbus_interop::report::Report;

use super::{assert_nothing, assert_usable, server_error, take, Stage};

const COMPRESSED: u8 = 0x01;
const MAX_UNCOMPRESSED: usize = 8 * 1024 * 1024;

pub fn run(report: &mut Report, directory: &Path) {
    let Some(mut stage) = Stage::start(report, directory, "compressed", &[]) else { return };
    report.check(
        "compressed: what upstream's codec packed is delivered plain, whether the client unpacks or the broker",
        || {
            let mut client = stage.broker.client();
            let mut plain_client = stage.broker.client_with(&without_compression());
            client.subscribe("unpacks").expect("the group is bound");
            plain_client.subscribe("plain").expect("the group is bound");
            for length in [64, 1_000, 100_000, MAX_UNCOMPRESSED] {
                let record = Record {
                    key: b"key".to_vec(),
                    headers: b"h: 1".to_vec(),
                    ..Record::of(b"edge ".iter().copied().cycle().take(length).collect::<Vec<u8>>())
                };
                let packed = compress_payload(&record.payload, &CompressConfig::default()).expect("it is compressed");
                assert!(packed.compressed && packed.stored.len() < length);
                let body = PubBody { flags: COMPRESSED, payload: &packed.stored, ..record.body() };
                let offset = client.produce(&body).expect("the publish is acknowledged");
                stage.ledger.acknowledged(offset, &record);
                for reader in [&mut client, &mut plain_client] {
                    let messages = take(reader, 10);
                    assert_eq!(messages.len(), 1);
                    assert_eq!(messages[0].offset, offset);
                    // Its checksum flag is that of the stored body, which is the packed one.
                    assert!(messages[0].payload == record.payload, "the payload of {length} bytes differs");
                    assert_eq!((&messages[0].key, &messages[0].headers), (&record.key, &record.headers));
                    assert_eq!(messages[0].flags & COMPRESSED, 0);
                }
            }
        },
    );
    report.check("compressed: codec 0 is its raw bytes", || {
        let mut client = stage.broker.client();
        let record = Record::of(Record::noise(3, 300));
        let stored = descriptor(CODEC_ID_NONE, 300, &record.payload);
        let body = PubBody { flags: COMPRESSED, payload: &stored, ..record.body() };
        let offset = client.produce(&body).expect("the publish is acknowledged");
        stage.ledger.acknowledged(offset, &record);
    });
    report.check("compressed: five malformed descriptors, five texts, nothing stored", || {
        let mut client = stage.broker.client();
        let rest = Record::default();
        let huge = MAX_UNCOMPRESSED as u32 + 1;
        let malformed: [(Vec<u8>, &str); 5] = [
            (vec![CODEC_ID_LZ4; 8], "compressed payload is shorter than the codec descriptor"),
            (descriptor(9, 4, b"abcd"), "unknown compression codec id 9 (poison)"),
            (
                descriptor(CODEC_ID_LZ4, huge, b"abcd"),
                "claimed uncompressed length 8388609 exceeds the decompressed cap 8388608",
            ),
            (descriptor(CODEC_ID_NONE, 5, b"abcd"), "stored raw length disagrees with the descriptor"),
            (descriptor(CODEC_ID_LZ4, 4, b""), "compressed stream is corrupt"),
        ];
        for (stored, reason) in &malformed {
            let body = PubBody { flags: COMPRESSED, payload: stored, ..rest.body() };
            let error = server_error(client.produce(&body));
            assert_eq!(error.message(), format!("malformed compressed descriptor: {reason}"));
            assert_eq!(error.code(), None);
            assert_usable(&mut client);
        }
        let next = stage.ledger.len() as u64;
        assert_eq!(stage.produce(&mut client, &Record::of("after the malformed ones")), next);
    });
    stage.finish(report, "compressed");

    poison(report, directory);
}

/// On a log of its own: no ledger has the record that nobody can read.
fn poison(report: &mut Report, directory: &Path) {
    let Some(mut stage) = Stage::start(report, directory, "poison", &[]) else { return };
    report.check("compressed: a corrupt stream is the client's typed error with a token that skips it", || {
        let mut client = stage.broker.client();
        stage.produce(&mut client, &Record::of("before"));
        let corrupt = Record::of(descriptor(CODEC_ID_LZ4, 1_000, &[0xf0; 40]));
        let body = PubBody { flags: COMPRESSED, ..corrupt.body() };
        assert_eq!(client.produce(&body).expect("its shape is well formed"), 1);
        stage.produce(&mut client, &Record::of("behind"));

        let mut plain_client = stage.broker.client_with(&without_compression());
        plain_client.subscribe("plain").expect("the group is bound");
        let fetched = plain_client.fetch(10).expect("the fetch is answered");
        assert_eq!(super::offsets(&fetched.messages), [0, 2], "what the broker cannot unpack is skipped");
        let told: Vec<_> = fetched.truncations.iter().map(|told| (told.earliest_retained, told.skipped)).collect();
        assert_eq!(told, [(2, 1)], "the client is told of it");
        super::ack_all(&mut plain_client, &fetched.messages);
        assert_nothing(&mut plain_client);
        assert_usable(&mut plain_client);

        client.subscribe("unpacks").expect("the group is bound");
        take(&mut client, 1);
        skip_poison(&mut client);
        assert_eq!(super::offsets(&take(&mut client, 10)), [2]);
    });
    report.check("compressed: SIGTERM ends the broker of the poison record with 0", || {
        stage.stop(3);
    });
}

fn skip_poison(client: &mut Client) {
    match client.fetch(1) {
        Err(ClientError::Decompress { offset: 1, generation, .. }) => {
            assert!(client.ack(1, generation).expect("the ack is answered"), "the token of the error skips the record");
        }
        other => panic!("expected the decompression error of offset 1, got {other:?}"),
    }
}

fn without_compression() -> ClientConfig {
    ClientConfig { understands_compressed_delivery: false, ..ClientConfig::default() }
}

fn descriptor(codec: u8, uncompressed_length: u32, stream: &[u8]) -> Vec<u8> {
    let mut stored = vec![codec, 0, 0, 0, 0];
    stored.extend_from_slice(&uncompressed_length.to_le_bytes());
    stored.extend_from_slice(stream);
    stored
}

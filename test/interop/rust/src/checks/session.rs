//! Handshake, keepalive, and what a connection gets before and without its handshake.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use ironbus_client::proto::{AckLevel, ConsumeTier};
use ironbus_client::{AuthCredential, AuthMechanism, Client, ClientConfig, ServerError};
use ironbus_interop::record::Record;
use ironbus_interop::report::Report;
use ironbus_proto::frame::{decode_frame, encode_frame, FrameDecode, FrameType};
use ironbus_proto::message::{encode_ack, encode_pub, AckBody, AckOp};

use super::{assert_connection_lost, assert_usable, server_error, Stage};

pub fn run(report: &mut Report, directory: &Path) {
    // The default group counts among the groups.
    let flags = ["--max-groups", "3"];
    let Some(mut stage) = Stage::start(report, directory, "session", &flags) else { return };
    report.check("connect: the default client adopts the default credits and no capability", || {
        let mut client = stage.broker.client();
        assert_eq!(client.negotiated_credit(), Some(2048));
        assert_eq!(client.negotiated_credit_bytes(), Some(8 * 1024 * 1024));
        assert!(!client.gap_marker_enabled());
        assert_eq!(client.negotiated_default_tier(), None);
        assert_usable(&mut client);
    });
    report.check("connect: credits are tightened, never widened; 0 is the cap", || {
        for (asked, given) in [(10, 10), (0, 2048), (1_000_000, 2048)] {
            let config = ClientConfig { requested_consumer_credit: Some(asked), ..ClientConfig::default() };
            assert_eq!(stage.broker.client_with(&config).negotiated_credit(), Some(given), "asked for {asked}");
        }
        for (asked, given) in [(0, 8 << 20), (1 << 20, 1 << 20), (u64::MAX, 8 << 20)] {
            let config = ClientConfig { requested_consumer_credit_bytes: Some(asked), ..ClientConfig::default() };
            assert_eq!(stage.broker.client_with(&config).negotiated_credit_bytes(), Some(given), "asked for {asked}");
        }
    });
    report.check(
        "connect: of all capabilities asked for, gap markers are confirmed and later versions' are not",
        || {
            let mut client = stage.broker.client_with(&everything());
            assert!(client.gap_marker_enabled());
            assert!(!client.streaming_enabled() && !client.deliver_batch_enabled());
            assert!(!client.streams_enabled() && !client.ephemeral_groups_enabled());
            assert_eq!(client.negotiated_default_tier(), None);
            assert_usable(&mut client);
        },
    );
    report.check("connect: a credential is ignored by a broker without identities", || {
        for mechanism in [AuthMechanism::Bearer, AuthMechanism::Mtls] {
            let credential = Some(AuthCredential { mechanism, material: b"token".to_vec() });
            assert_usable(&mut stage.broker.client_with(&ClientConfig { credential, ..ClientConfig::default() }));
        }
    });
    report.check("connect: nobody listens there: an I/O error", || {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
        assert_connection_lost(Client::connect(free));
    });
    report.check(
        "not connected: verbs before Connect are refused with a text, a ping is answered, Connect still works",
        || {
            let mut raw = Raw::connect(stage.broker.address());
            let mut publish = Vec::new();
            encode_pub(&Record::of("early").body(), &mut publish).expect("the body is encoded");
            let mut ack = Vec::new();
            encode_ack(&AckBody { op: AckOp::Ack, offset: 0, generation: 1, delay_ms: 0 }, &mut ack);
            let early: [(FrameType, &[u8]); 5] = [
                (FrameType::Pub, &publish),
                (FrameType::Sub, b"group"),
                (FrameType::Unsub, b""),
                (FrameType::Flow, &[10, 0, 0, 0]),
                (FrameType::Ack, &ack),
            ];
            for (verb, body) in early {
                let (answer, text) = raw.request(verb, body);
                assert_eq!(answer, FrameType::Err, "{verb:?}");
                let error = ServerError::from_wire(&text);
                assert_eq!((error.message(), error.code()), ("not connected", None), "{verb:?}");
            }
            assert_eq!(raw.request(FrameType::Ping, b"").0, FrameType::Pong);
            assert_eq!(raw.request(FrameType::Connect, b"").0, FrameType::Info);
            assert_eq!(raw.request(FrameType::Pub, &publish), (FrameType::PubAck, 0u64.to_le_bytes().to_vec()));
            stage.ledger.acknowledged(0, &Record::of("early"));
        },
    );
    report.check(
        "groups: over the cap of groups a fetch is refused, the connection and the other groups go on",
        || {
            let mut client = stage.broker.client();
            for group in ["first", "audit"] {
                client.subscribe(group).expect("the group is bound");
                client.fetch(0).expect("a fetch of nothing is answered");
            }
            client.subscribe("third").expect("a name is judged at the first fetch");
            let error = server_error(client.fetch(1));
            assert_eq!((error.message(), error.code()), ("fetch failed", None));
            client.subscribe("first").expect("the first group is still there");
            assert_eq!(super::take(&mut client, 10).len(), 1);
        },
    );
    stage.finish(report, "session");

    connection_cap(report, directory);
}

/// On a broker of its own: a place is free a little after its connection went.
fn connection_cap(report: &mut Report, directory: &Path) {
    let Some(stage) = Stage::start(report, directory, "cap", &["--max-connections", "3"]) else { return };
    report.check("connect: over the connection cap it is closed, and a freed place is taken again", || {
        let mut kept: Vec<Client> = (0..3).map(|_| stage.broker.client()).collect();
        assert_connection_lost(Client::connect(stage.broker.address()));
        kept.iter_mut().for_each(assert_usable);
        kept.pop();
        let mut again = Client::connect(stage.broker.address());
        for _ in 0..500 {
            if again.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
            again = Client::connect(stage.broker.address());
        }
        assert_usable(&mut again.expect("the place of a connection that went is free"));
    });
    report.check("cap: SIGTERM ends the broker with 0", || {
        stage.stop(0);
    });
}

/// A client that asks for all there is.
pub fn everything() -> ClientConfig {
    ClientConfig {
        request_gap_marker: true,
        default_ack_level: Some(AckLevel::ServerAndClientAck),
        understands_streaming: true,
        default_consume_tier: Some(ConsumeTier::Streaming),
        understands_deliver_batch: true,
        understands_streams: true,
        request_subject_filter: true,
        request_ephemeral_groups: true,
        ..ClientConfig::default()
    }
}

/// A connection whose frames are upstream's, but whose order is ours.
struct Raw {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Raw {
    fn connect(address: &str) -> Raw {
        let stream = TcpStream::connect(address).expect("the broker accepts");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
        Raw { stream, received: Vec::new() }
    }

    fn request(&mut self, verb: FrameType, body: &[u8]) -> (FrameType, Vec<u8>) {
        let mut frame = Vec::new();
        encode_frame(verb, body, &mut frame).expect("the frame is encoded");
        self.stream.write_all(&frame).expect("the frame is sent");
        loop {
            if let FrameDecode::Frame { type_tag, body, consumed } = decode_frame(&self.received).expect("a frame") {
                let answer = (FrameType::from_u8(type_tag).expect("a known tag"), body.to_vec());
                self.received.drain(..consumed);
                return answer;
            }
            let mut chunk = [0; 4096];
            let length = self.stream.read(&mut chunk).expect("the answer is read");
            assert_ne!(length, 0, "the broker closed after {verb:?}");
            self.received.extend_from_slice(&chunk[..length]);
        }
    }
}

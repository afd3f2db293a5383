//! What the client can ask for and this version of the broker does not have: a typed error each, and nothing broken.

use std::path::Path;
use std::time::Duration;

use ironbus_client::proto::{AckLevel, PubBody, PubDedup};
use ironbus_client::{Client, ClientError, ServerErrorCode, TxnDecision, TxnId};
use ironbus_interop::record::Record;
use ironbus_interop::report::Report;

use super::session::everything;
use super::{assert_usable, server_error, take, Stage};

const NO_STREAMS: &str = "stream addressing not negotiated (set understands_streams)";
const NOT_SUPPORTED: &str = "verb not supported on this connection";

/// What a refusal must say: text and code, or `None` where the text is the broker's choice.
type Expected = Option<(&'static str, Option<ServerErrorCode>)>;
type Request = Box<dyn Fn(&mut Client) -> Result<String, ClientError>>;

pub fn run(report: &mut Report, directory: &Path) {
    let Some(mut stage) = Stage::start(report, directory, "refused", &[]) else { return };
    report.check("refused: 5 records to begin with", || {
        let mut client = stage.broker.client();
        stage.produce_numbered(&mut client, "refused", 5);
    });
    for (name, request, expected) in requests() {
        report.check(&format!("refused: {name}; the connection publishes and consumes as before"), || {
            // Also a client that asks for every capability is told, not misled.
            for mut client in [stage.broker.client(), stage.broker.client_with(&everything())] {
                client.subscribe("steady").expect("the group is bound");
                let error = server_error(request(&mut client));
                match expected {
                    Some(expected) => assert_eq!((error.message(), error.code()), expected),
                    None => assert!(!error.message().is_empty()),
                }
                assert_usable(&mut client);
                let next = stage.ledger.len() as u64;
                assert_eq!(stage.produce(&mut client, &Record::numbered("between", next)), next);
                assert_eq!(take(&mut client, 1).len(), 1, "still bound to its group");
            }
        });
    }
    report.check("refused: what needs an unconfirmed capability fails in the client", || {
        for mut client in [stage.broker.client(), stage.broker.client_with(&everything())] {
            let short = Duration::from_millis(10);
            assert!(matches!(client.subscribe_ephemeral("", "group"), Err(ClientError::CapabilityNotNegotiated(_))));
            assert!(matches!(client.request("a.b", b"?", short), Err(ClientError::CapabilityNotNegotiated(_))));
            assert!(matches!(client.request_many("a.b", b"?", 2, short), Err(ClientError::CapabilityNotNegotiated(_))));
            assert!(matches!(client.register_responder("a.b", "g"), Err(ClientError::CapabilityNotNegotiated(_))));
            assert_eq!(client.run_transaction_listener(|_| TxnDecision::Commit, short).expect("pings are answered"), 0);
            assert_usable(&mut client);
        }
    });
    report.check("refused: a transaction's local work does not run when the broker cannot prepare it", || {
        let mut client = stage.broker.client();
        let result = client.transact(&TxnId::new(*b"id"), "", &Record::of("half").body(), || -> Result<(), String> {
            panic!("the local work must not run")
        });
        assert_eq!(server_error(result).message(), NOT_SUPPORTED);
        assert_usable(&mut client);
    });
    stage.finish(report, "refused");
}

fn requests() -> Vec<(&'static str, Request, Expected)> {
    let competing = Some((
        "cumulative ack is not allowed on a competing work-group (broadcast consumers only)",
        Some(ServerErrorCode::CumulativeAckNotAllowed),
    ));
    let no_streams = Some((NO_STREAMS, None));
    let not_supported = Some((NOT_SUPPORTED, None));
    vec![
        ("publish at level 2", ask(|c| c.produce_with_ack_level(&plain(), AckLevel::ServerAndClientAck)), None),
        ("confirmed publish", ask(|c| c.produce_confirmed(&plain(), Duration::from_secs(20))), None),
        ("publish with a message id", ask(|c| c.produce_dedup(&deduplicated(b"producer", b"id", None))), None),
        ("publish with a sequence", ask(|c| c.produce_dedup(&deduplicated(b"producer", b"", Some(1)))), None),
        (
            "publish with a sequence of nobody",
            ask(|c| c.produce_dedup(&deduplicated(b"", b"", Some(1)))),
            Some(("idempotent sequence requires a non-empty producer_id", None)),
        ),
        (
            "publish with a producer id of 257 bytes",
            ask(|c| c.produce_dedup(&deduplicated(&[b'p'; 257], b"", None))),
            Some(("producer_id too long", None)),
        ),
        (
            "publish with a message id of 257 bytes",
            ask(|c| c.produce_dedup(&deduplicated(b"", &[b'm'; 257], None))),
            Some(("msg_id too long", None)),
        ),
        ("cumulative ack", ask(|c| c.cumulative_ack("steady", 1)), competing),
        ("cumulative ack of the default group", ask(|c| c.cumulative_ack("", 0)), competing),
        ("stream fetch", ask(|c| c.stream_fetch(0, 10, 0)), competing),
        ("stream fetch by time", ask(|c| c.stream_fetch_by_time(1, Some(2), 10, 0)), competing),
        ("stream commit", ask(|c| c.stream_commit("steady", 1)), competing),
        ("streaming consumer", ask(|c| c.streaming_consumer("steady").next_batch()), competing),
        ("declare a stream", ask(|c| c.declare_stream("orders")), no_streams),
        ("declare a stream with priorities", ask(|c| c.declare_priority_stream("orders", 3)), no_streams),
        ("stream info", ask(|c| c.stream_info("orders")), no_streams),
        ("publish to a stream", ask(|c| c.publish_to("orders", &plain())), no_streams),
        ("publish with a priority", ask(|c| c.publish_to_with_priority("orders", 1, &plain())), no_streams),
        ("subscribe to a stream", ask(|c| c.subscribe_to("orders", "steady")), no_streams),
        ("bind a subject", ask(|c| c.bind_subject("orders", "order.>")), no_streams),
        ("publish to a subject", ask(|c| c.publish_subject("order.new", &plain())), no_streams),
        ("subscribe to a subject", ask(|c| c.subscribe_subject("order.new", "steady")), no_streams),
        ("subscribe with a filter", ask(|c| c.subscribe_subject_filtered("order.*", "steady")), no_streams),
        ("pause a group", ask(|c| c.pause_group("", "steady", 1)), not_supported),
        ("resume a group", ask(|c| c.resume_group("", "steady")), not_supported),
        ("prepare a transaction", ask(|c| c.prepare("", &plain())), not_supported),
        ("commit a transaction", ask(|c| c.commit(&TxnId::new(*b"id"))), not_supported),
        ("roll a transaction back", ask(|c| c.rollback(&TxnId::new(*b"id"))), not_supported),
        ("listen for transactions", ask(|c| c.register_transaction_listener(b"listeners")), not_supported),
    ]
}

fn ask<T: std::fmt::Debug>(request: impl Fn(&mut Client) -> Result<T, ClientError> + 'static) -> Request {
    Box::new(move |client| request(client).map(|answer| format!("{answer:?}")))
}

fn plain() -> PubBody<'static> {
    PubBody {
        flags: 0,
        timestamp_ms: 0,
        key: b"",
        headers: b"",
        dedup: None,
        fire_and_forget: false,
        payload: b"plain",
    }
}

fn deduplicated<'a>(producer_id: &'a [u8], msg_id: &'a [u8], seq: Option<u64>) -> PubBody<'a> {
    PubBody { dedup: Some(PubDedup { producer_id, epoch: 1, msg_id, seq }), ..plain() }
}

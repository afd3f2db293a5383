//! Fetching: windows, budgets, groups, and what survives a restart.

use std::path::Path;
use std::time::Duration;

use ironbus_client::{Client, ClientConfig};
use ironbus_interop::record::Record;
use ironbus_interop::report::Report;

use super::{
    ack_all, assert_nothing, assert_usable, await_message, by_offset, drain, offsets, server_error, take, Stage,
};

pub fn run(report: &mut Report, directory: &Path) {
    let Some(mut stage) = Stage::start(report, directory, "consume", &[]) else { return };
    report.check("fetch: an empty log answers at once, whatever way is asked", || {
        let mut client = stage.broker.client();
        assert_nothing(&mut client);
        client.subscribe("nobody").expect("the group is bound");
        assert_nothing(&mut client);
        for no_wait in [true, false] {
            let fetched = client.fetch_batch(10, 0, Duration::from_secs(20), no_wait).expect("the fetch is answered");
            assert!(fetched.messages.is_empty());
        }
        assert!(client.fetch(0).expect("a fetch of nothing is answered").messages.is_empty());
        assert!(client.fetch_batch(0, 0, Duration::ZERO, true).expect("it is answered").messages.is_empty());
    });
    report.check("fetch: in order, as published, with tokens; not again while leased", || {
        let mut client = stage.broker.client();
        stage.produce_numbered(&mut client, "consume", 500);
        client.subscribe("order").expect("the group is bound");
        let messages = client.fetch(10).expect("the fetch is answered").messages;
        assert_eq!(offsets(&messages), (0..10).collect::<Vec<u64>>());
        for message in &messages {
            Record::numbered("consume", message.offset).assert_is(message);
        }
        assert_eq!(offsets(&client.fetch(5).expect("the fetch is answered").messages), [10, 11, 12, 13, 14]);
        ack_all(&mut client, &messages);
    });
    report.check("fetch: the first window is 64, each one used up is followed by one that is 64 larger", || {
        let mut client = stage.broker.client();
        client.subscribe("window").expect("the group is bound");
        let sizes: Vec<usize> = (0..4).map(|_| take(&mut client, 1_000).len()).collect();
        assert_eq!(sizes, [64, 128, 192, 116]);
        assert_nothing(&mut client);
    });
    report.check("fetch: never more than the negotiated credit; acks give credit back", || {
        let config = ClientConfig { requested_consumer_credit: Some(7), ..ClientConfig::default() };
        let mut client = stage.broker.client_with(&config);
        client.subscribe("credit").expect("the group is bound");
        let held = client.fetch(1_000).expect("the fetch is answered").messages;
        assert_eq!(held.len(), 7);
        assert_nothing(&mut client);
        ack_all(&mut client, &held[..3]);
        assert_eq!(offsets(&client.fetch(1_000).expect("the fetch is answered").messages), [7, 8, 9]);
    });
    report.check("fetch_batch: records, bytes, deadline and no_wait bound it, with at least one record", || {
        let mut client = stage.broker.client();
        client.subscribe("batch").expect("the group is bound");
        let first = client.fetch_batch(5, 0, Duration::ZERO, true).expect("the fetch is answered").messages;
        assert_eq!(offsets(&first), [0, 1, 2, 3, 4]);
        ack_all(&mut client, &first);
        let one = client.fetch_batch(5, 1, Duration::from_secs(5), false).expect("the fetch is answered").messages;
        assert_eq!(offsets(&one), [5]);
        let none = client.fetch_batch(5, 1, Duration::from_secs(5), false).expect("the fetch is answered").messages;
        assert!(none.is_empty(), "bytes that are held count");
        ack_all(&mut client, &one);
        assert_eq!(
            client.fetch_batch(50, 0, Duration::from_secs(20), false).expect("it is answered").messages.len(),
            50
        );
    });
    report.check("groups: each one sees everything; the default group is the one without a name", || {
        let mut first = stage.broker.client();
        let mut second = stage.broker.client();
        assert_eq!(take(&mut first, 10).len(), 10);
        second.subscribe("").expect("the group is bound");
        assert_eq!(offsets(&take(&mut second, 1)), [10]);
        second.subscribe("other").expect("the group is bound");
        assert_eq!(offsets(&take(&mut second, 1)), [0]);
        second.unsubscribe().expect("back to the default group");
        assert_eq!(offsets(&take(&mut second, 1)), [11]);
    });
    report.check("groups: members compete, no record goes to two of them, none is left", || {
        let mut members: Vec<Client> = (0..3).map(|_| stage.broker.client()).collect();
        let mut all = Vec::new();
        for member in &mut members {
            member.subscribe("competing").expect("the group is bound");
        }
        loop {
            let before = all.len();
            for member in &mut members {
                all.append(&mut take(member, 17));
            }
            if all.len() == before {
                break;
            }
        }
        assert_eq!(by_offset(all).len(), 500);
    });
    report.check("groups: a bad name is bound, and the first fetch says so; the connection goes on", || {
        let mut client = stage.broker.client();
        for name in ["two words", "tab\t", "\u{e9}", &"x".repeat(129), "\u{7f}"] {
            client.subscribe(name).expect("a name is judged at the first fetch");
            let error = server_error(client.fetch(1));
            assert_eq!((error.message(), error.code()), ("fetch failed", None), "{name:?}");
            let error = server_error(client.fetch_batch(1, 0, Duration::ZERO, true));
            assert_eq!(error.message(), "fetch failed", "{name:?}");
            assert_usable(&mut client);
        }
        client.subscribe("good!").expect("the group is bound");
        assert_eq!(take(&mut client, 1).len(), 1);
    });
    report.check("groups: 120 characters are a name like any other", || {
        let mut client = stage.broker.client();
        client.subscribe(&"g".repeat(120)).expect("the group is bound");
        assert_eq!(drain(&mut client).len(), 500);
    });
    report.check("switching the group gives up its leases: tokens of before are fenced", || {
        let mut client = stage.broker.client();
        client.subscribe("left").expect("the group is bound");
        let held = client.fetch(2).expect("the fetch is answered").messages;
        client.subscribe("entered").expect("the group is bound");
        for message in &held {
            assert!(!client.ack(message.offset, message.generation).expect("the ack is answered"));
        }
        assert_eq!(offsets(&take(&mut client, 1)), [0]);
    });
    report.check("a consumer that waits sees what is published later, on the same and on another connection", || {
        let mut consumer = stage.broker.client();
        let mut producer = stage.broker.client();
        consumer.subscribe("waiting").expect("the group is bound");
        drain(&mut consumer);
        for number in 0..20 {
            let record = Record::numbered("later", number);
            let offset = stage.produce(if number % 2 == 0 { &mut consumer } else { &mut producer }, &record);
            let message = await_message(&mut consumer);
            assert_eq!(message.offset, offset);
            record.assert_is(&message);
            ack_all(&mut consumer, &[message]);
        }
    });
    report.check(
        "SIGTERM and restart: groups go on where they were, records acknowledged out of order included",
        || {
            let mut client = stage.broker.client();
            client.subscribe("resumed").expect("the group is bound");
            take(&mut client, 50);
            let held = client.fetch(10).expect("the fetch is answered").messages;
            ack_all(&mut client, &held[4..6]);
            assert!(stage.broker.stop().success());
            super::assert_connection_lost(client.ping());
            stage.broker.restart();
            let mut client = stage.broker.client();
            client.subscribe("resumed").expect("the group is bound");
            assert_eq!(offsets(&take(&mut client, 8)), [50, 51, 52, 53, 56, 57, 58, 59]);
            client.subscribe("newcomer").expect("the group is bound");
            assert_eq!(offsets(&take(&mut client, 1)), [0]);
        },
    );
    stage.finish(report, "consume");
}

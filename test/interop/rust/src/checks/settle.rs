//! Ack, nack, term and progress, fencing, and what time does to a lease.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ironbus_client::{Client, Message, ProgressOutcome};
use ironbus_interop::record::Record;
use ironbus_interop::report::Report;

use super::{ack_all, assert_nothing, await_message, offsets, take, Stage};

const FAR: u64 = 3_600_000;

pub fn run(report: &mut Report, directory: &Path) {
    let Some(mut stage) = Stage::start(report, directory, "settle", &["--backoff-ms", "50,3600000"]) else { return };
    report.check("settle: 40 records to begin with", || {
        let mut client = stage.broker.client();
        stage.produce_numbered(&mut client, "settle", 40);
    });
    report.check("ack: true once, false from then on and for a token that never was", || {
        let mut client = bound(&stage, "ack");
        let message = next(&mut client);
        assert!(!client.ack(message.offset, message.generation + 1).expect("it is answered"));
        assert!(client.ack(message.offset, message.generation).expect("it is answered"));
        assert!(!client.ack(message.offset, message.generation).expect("it is answered"));
        assert!(!client.ack(39, 1).expect("it is answered"));
        assert!(!client.ack(u64::MAX, u64::MAX).expect("it is answered"));
    });
    report.check("ack_many: one answer each, in order, with fenced ones among them; none for none", || {
        let mut client = bound(&stage, "many");
        let held = client.fetch(4).expect("the fetch is answered").messages;
        let token = |index: usize| (held[index].offset, held[index].generation);
        let tokens = [token(3), token(0), (99, 7), token(0), token(1), token(2)];
        assert_eq!(client.ack_many(&tokens).expect("they are answered"), [true, true, false, false, true, true]);
        assert!(client.ack_many(&[]).expect("nothing to do").is_empty());
        assert_eq!(offsets(&take(&mut client, 1)), [4]);
    });
    report.check("fencing: a token belongs to the connection that it was delivered to", || {
        let mut owner = bound(&stage, "owner");
        let mut other = bound(&stage, "owner");
        let message = next(&mut owner);
        let (offset, generation) = (message.offset, message.generation);
        assert!(!other.ack(offset, generation).expect("it is answered"));
        assert!(!other.nack(offset, generation, Some(0)).expect("it is answered"));
        assert!(!other.term(offset, generation).expect("it is answered"));
        assert_eq!(other.progress(offset, generation).expect("it is answered"), ProgressOutcome::Fenced);
        assert!(owner.ack(offset, generation).expect("it is answered"), "the owner's lease is untouched");
    });
    report.check("nack with delay 0: delivered again at once, under a new token; the old one is fenced", || {
        let mut client = bound(&stage, "nack");
        let first = next(&mut client);
        assert!(client.nack(first.offset, first.generation, Some(0)).expect("it is answered"));
        assert!(!client.nack(first.offset, first.generation, Some(0)).expect("it is answered"));
        let second = next(&mut client);
        assert_eq!(second.offset, first.offset);
        assert_ne!(second.generation, first.generation);
        Record::numbered("settle", 0).assert_is(&second);
        assert!(!client.ack(first.offset, first.generation).expect("it is answered"));
        assert!(client.ack(second.offset, second.generation).expect("it is answered"));
        assert_eq!(next(&mut client).offset, 1);
    });
    report.check("nack with a delay: others pass, it comes back when the delay is over", || {
        let mut client = bound(&stage, "delay");
        let far = next(&mut client);
        assert!(client.nack(far.offset, far.generation, Some(FAR)).expect("it is answered"));
        let near = next(&mut client);
        assert_eq!(near.offset, 1);
        assert!(client.nack(near.offset, near.generation, Some(300)).expect("it is answered"));
        let mut rest = Vec::new();
        while rest.len() < 39 {
            let message = await_message(&mut client);
            ack_all(&mut client, std::slice::from_ref(&message));
            rest.push(message.offset);
        }
        rest.sort_unstable();
        assert_eq!(rest, (1..40).collect::<Vec<u64>>());
        assert_nothing(&mut client);
    });
    report.check("nack without a delay: the broker's backoff, first the short step, then the long one", || {
        let mut client = bound(&stage, "backoff");
        take(&mut client, 39);
        let first = next(&mut client);
        assert!(client.nack(first.offset, first.generation, None).expect("it is answered"));
        let second = await_message(&mut client);
        assert_eq!(second.offset, first.offset);
        assert!(client.nack(second.offset, second.generation, None).expect("it is answered"));
        thread::sleep(Duration::from_millis(200));
        assert_nothing(&mut client);
    });
    report.check("term: settled without redelivery", || {
        let mut client = bound(&stage, "term");
        let message = next(&mut client);
        assert!(client.term(message.offset, message.generation).expect("it is answered"));
        assert!(!client.term(message.offset, message.generation).expect("it is answered"));
        assert!(!client.ack(message.offset, message.generation).expect("it is answered"));
        let rest = super::drain(&mut client);
        assert_eq!(offsets(&rest), (1..40).collect::<Vec<u64>>());
        assert_nothing(&mut bound(&stage, "term"));
    });
    report.check("progress: extends a lease that is held, and only that", || {
        let mut client = bound(&stage, "progress");
        let message = next(&mut client);
        let (offset, generation) = (message.offset, message.generation);
        for _ in 0..3 {
            assert_eq!(client.progress(offset, generation).expect("it is answered"), ProgressOutcome::Extended);
        }
        assert!(client.ack(offset, generation).expect("it is answered"));
        assert_eq!(client.progress(offset, generation).expect("it is answered"), ProgressOutcome::Fenced);
    });
    stage.finish(report, "settle");

    leases(report, directory);
}

fn leases(report: &mut Report, directory: &Path) {
    let visibility = Duration::from_millis(1_500);
    let Some(mut stage) = Stage::start(report, directory, "leases", &["--visibility-timeout-ms", "1500"]) else {
        return;
    };
    report.check("leases: 40 records to begin with", || {
        let mut client = stage.broker.client();
        stage.produce_numbered(&mut client, "settle", 40);
    });
    report.check("lease: not settled in time it is delivered to another member; the late ack is fenced", || {
        let mut slow = bound(&stage, "slow");
        let mut quick = bound(&stage, "slow");
        let late = next(&mut slow);
        take(&mut quick, 39);
        let again = await_message(&mut quick);
        assert_eq!(again.offset, late.offset);
        assert_ne!(again.generation, late.generation);
        assert!(!slow.ack(late.offset, late.generation).expect("it is answered"));
        assert_eq!(slow.progress(late.offset, late.generation).expect("it is answered"), ProgressOutcome::Fenced);
        assert!(quick.ack(again.offset, again.generation).expect("it is answered"));
    });
    report.check("lease: of a consumer that went away it is delivered again", || {
        let mut gone = bound(&stage, "gone");
        let held = gone.fetch(3).expect("the fetch is answered").messages;
        assert_eq!(held.len(), 3);
        drop(gone);
        let mut client = bound(&stage, "gone");
        let mut seen = Vec::new();
        while seen.len() < 40 {
            let message = await_message(&mut client);
            ack_all(&mut client, std::slice::from_ref(&message));
            seen.push(message.offset);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..40).collect::<Vec<u64>>());
    });
    report.check("lease: progress keeps it for three times its length", || {
        let mut worker = bound(&stage, "long-work");
        let mut other = bound(&stage, "long-work");
        take(&mut other, 39);
        loop {
            let message = next(&mut worker);
            if works_long(&mut worker, &mut other, &message, visibility) {
                assert!(worker.ack(message.offset, message.generation).expect("it is answered"));
                break;
            }
            // This process stood still for longer than the lease: that proves nothing either way.
            let again = await_message(&mut other);
            assert!(other.nack(again.offset, again.generation, Some(0)).expect("it is answered"));
        }
        assert_nothing(&mut other);
    });
    stage.finish(report, "leases");
}

/// Reports progress for three times `visibility` while `other` looks for the record. False if this process was held up
/// for so long that the lease may have ended.
fn works_long(worker: &mut Client, other: &mut Client, message: &Message, visibility: Duration) -> bool {
    let started = Instant::now();
    let mut extended = started;
    while started.elapsed() < visibility * 3 {
        let seen = other.fetch(1).expect("the fetch is answered").messages;
        let outcome = worker.progress(message.offset, message.generation).expect("it is answered");
        if extended.elapsed() >= visibility {
            for stolen in seen {
                assert!(other.nack(stolen.offset, stolen.generation, Some(0)).expect("it is answered"));
            }
            return false;
        }
        assert!(seen.is_empty(), "delivered to another while it is worked on");
        assert_eq!(outcome, ProgressOutcome::Extended);
        extended = Instant::now();
        thread::sleep(visibility / 10);
    }
    true
}

fn bound(stage: &Stage, group: &str) -> Client {
    let mut client = stage.broker.client();
    client.subscribe(group).expect("the group is bound");
    client
}

fn next(client: &mut Client) -> Message {
    let mut messages = client.fetch(1).expect("the fetch is answered").messages;
    assert_eq!(messages.len(), 1);
    messages.remove(0)
}

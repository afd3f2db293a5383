/** Run under Node by node-runtime.test.ts: every call once, against the broker whose port is the argument. */
import assert from "node:assert/strict";
import {
  BrokerError,
  ConnectError,
  ConnectionClosedError,
  connect,
  ProduceError,
  type Producible,
} from "../../src/client/index.ts";

const port = Number(process.argv[2]);
assert.equal(process.versions.bun, undefined);

const count = 50_000;
let first: number;
{
  await using client = await connect(`127.0.0.1:${port}`);
  first = await client.produce("hello", { key: "k", headers: Uint8Array.of(1), timestampMs: 7 });
  const source = (async function* (): AsyncGenerator<Producible | Producible[]> {
    yield "first";
    yield Array.from({ length: count - 2 }, (_, index) => `record ${index}`);
    yield { payload: new Uint8Array(1_000_000), key: "large" };
  })();
  const done = await client.produceAll(source, { window: 1_000 });
  assert.deepEqual(done, { acknowledged: count, rejected: 0, lastOffset: first + count });
}

const client = await connect({ port });
await client.subscribe("node");
let received = 0;
let bytes = 0;
while (received < count + 1) {
  const { messages } = await client.fetch({ max: 2_000 });
  for (const message of messages) {
    assert.equal(message.offset, first + received++);
    assert.equal(message.payload.constructor, Uint8Array);
    bytes += message.payload.length;
  }
  const settled = await client.ackAll(messages);
  assert.equal(settled.done, messages.length);
}
assert.ok(bytes > 1_000_000);

await client.produceAll(["a", "b"]);
const control = new AbortController();
const seen: string[] = [];
for await (const message of client.consume({ group: "node", signal: control.signal })) {
  seen.push(message.text());
  if (seen.length === 1) {
    assert.equal(await client.extend(message), "done");
    assert.equal(await client.nack(message, { delayMs: 0 }), "done");
  } else if (message.text() === "a") {
    assert.equal(await client.term(message), "done");
    control.abort();
  } else {
    assert.equal(await client.ack(message), "done");
  }
}
assert.deepEqual(seen.toSorted(), ["a", "a", "b"]);

await client.subscribe("no such name");
await assert.rejects(client.fetch(), BrokerError);
const lost = client.produce("x", { signal: AbortSignal.abort("no") });
await assert.rejects(lost, (reason) => reason === "no");
await client.close();
await assert.rejects(client.produce("x"), ConnectionClosedError);
await assert.rejects(client.produceAll(["x"]), ProduceError);
await client.reconnect();
await client.ping();
await client.close();
await assert.rejects(connect({ port: 1 }), ConnectError);
process.stdout.write(`node ${process.versions.node} ok\n`);

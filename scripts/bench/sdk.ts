/* The load of the lean client, driven through the SDK: `sdk.ts publish|consume <addr> <size> <count> <window>`. */
import { connect } from "../../src/client/index.ts";

const [verb, address, sizeText, countText, windowText] = process.argv.slice(2);
const [size, count, window] = [sizeText, countText, windowText].map(Number);
const pattern = "ts=000000 sensor=edge temp=21.5 occ=1 batt=98 rssi=-67; ";
const payload = new TextEncoder().encode(pattern.repeat(Math.ceil(size / pattern.length)).slice(0, size));

const client = await connect(address);
const started = performance.now();
if (verb === "publish") {
  const batch = Array.from({ length: Math.min(count, 4096) }, () => payload);
  async function* source() {
    for (let left = count; left > 0; left -= batch.length) yield left >= batch.length ? batch : batch.slice(0, left);
  }
  let expected = -1;
  await client.produceAll(source(), {
    window,
    onAck: (_index, offset) => {
      if (expected >= 0 && offset !== expected)
        throw new Error(`offset ${offset} acknowledged where ${expected} was due`);
      expected = offset + 1;
    },
  });
} else {
  let settling: Promise<unknown> = Promise.resolve();
  for (let taken = 0; taken < count; ) {
    const { messages } = await client.fetch({ max: 2048 });
    if (messages.length === 0) throw new Error(`the log ended after ${taken} records`);
    for (const message of messages)
      if (message.payload.length !== size) throw new Error("a payload changed its length");
    await settling;
    // The acks of this batch and the next fetch are under way together.
    settling = client.ackAll(messages);
    taken += messages.length;
  }
  await settling;
}
const seconds = (performance.now() - started) / 1000;
await client.close();
process.stdout.write(`${JSON.stringify({ records: count, seconds, records_per_second: count / seconds })}\n`);

/* The load of the lean client, driven through the SDK: `sdk.ts publish|single|consume <addr> <size> <count> <window>`. */
import { connect } from "../../src/client/index.ts";

const [verb, address, sizeText, countText, windowText] = process.argv.slice(2);
const [size, count, window] = [sizeText, countText, windowText].map(Number);
const pattern = "ts=000000 sensor=edge temp=21.5 occ=1 batt=98 rssi=-67; ";
const payload = new TextEncoder().encode(pattern.repeat(Math.ceil(size / pattern.length)).slice(0, size));

const client = await connect(address);
const samplesUs: number[] = [];
const started = performance.now();
if (verb === "single") {
  for (let index = 0; index < count; index++) {
    const sentMs = performance.now();
    await client.produce(payload);
    samplesUs.push((performance.now() - sentMs) * 1000);
  }
} else if (verb === "publish") {
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
const result: Record<string, number> = { records: count, seconds, records_per_second: count / seconds };
if (samplesUs.length > 0) {
  samplesUs.sort((a, b) => a - b);
  result.p50_us = samplesUs[Math.floor(count * 0.5)];
  result.p99_us = samplesUs[Math.floor(count * 0.99)];
}
process.stdout.write(`${JSON.stringify(result)}\n`);

import { describe, expect, it } from "vitest";
import { installDictionary } from "../../src/log/dictionaries.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { zstd } from "../../src/runtime/zstd.ts";
import { startTestBroker } from "./broker-fixture.ts";
import { connect, flow, sub, TAG, u8, u32 } from "./messages.ts";
import { offsetsOf, type RawClient } from "./raw-client.ts";

describe("compressed payloads", () => {
  it("wire.md 22.47: delivered as stored to who can decode them, plain to who cannot", async () => {
    const broker = await startTestBroker();
    // One literal run: token 0xF0 with an extension of 5, then 20 bytes (wire.md 16).
    const text = "twenty bytes of text";
    const lz4 = Buffer.concat([Buffer.from([0xf0, 5]), Buffer.from(text)]);
    const stored = Buffer.concat([u8(1), u32(0), u32(text.length), lz4]);
    const raw = Buffer.concat([u8(0), u32(0), u32(3), Buffer.from("raw")]);
    const producer = await broker.open();
    await producer.publish({ flags: 0x01, payload: stored, key: "k" }, { flags: 0x01, payload: raw });

    const plain = await broker.open(connect());
    const [one, two] = await plain.poll(flow(2));
    expect([one.payload.toString(), two.payload.toString()]).toEqual([text, "raw"]);
    expect([one.flags & 0x01, two.flags & 0x01]).toEqual([0, 0]);
    expect(one.key.toString()).toBe("k");

    const able = await broker.open(connect({ rest: u8(0x01) }));
    able.send(sub("able"));
    await able.expectFrame(TAG.ok);
    const [first, second] = await able.poll(flow(2));
    expect([first.payload.equals(stored), second.payload.equals(raw)]).toEqual([true, true]);
    expect([first.flags & 0x01, second.flags & 0x01]).toEqual([1, 1]);
  });

  it("storage.md 26.10: what cannot be decompressed is skipped and reported, the next record is delivered", async () => {
    const broker = await startTestBroker();
    const described = (codecId: number, dictionary: number, claim: number) =>
      Buffer.concat([u8(codecId), u32(dictionary), u32(claim), Buffer.from("no lz4")]);
    const corrupt = described(1, 0, 1000);
    const client = await broker.open();
    await client.publish(
      { payload: "before" },
      { flags: 0x01, payload: corrupt },
      { payload: "between" },
      { flags: 0x01, payload: described(2, 9, 6) },
      { payload: "after" },
    );

    client.send(flow(10));
    expect(await response(client)).toEqual([
      "deliver 0",
      "truncated to 2, 1 skipped",
      "deliver 2",
      "truncated to 4, 1 skipped",
      "deliver 4",
      "end 3",
    ]);
    // A record of no key, no headers and n payload bytes takes 44 + n; the first begins behind the segment's header.
    const [before, frame] = [64 + 44 + 6, 44 + 15];
    expect(broker.events).toEqual([
      `record 1 is intact and cannot be decompressed (corrupt-stream), so consumers of plain payloads go on without it: ` +
        `segment 0 bytes [${before}, ${before + frame}), reason=corrupt_record_body`,
      `record 3 is intact and cannot be decompressed (missing-dict:9), so consumers of plain payloads go on without it: ` +
        `segment 0 bytes [${before + frame + 51}, ${before + 2 * frame + 51}), reason=unresolved_dict_id`,
    ]);

    // Another group meets the same records; they are not reported again.
    const marked = await broker.open(connect({ flags: 0x04 }));
    marked.send(sub("marked"));
    await marked.expectFrame(TAG.ok);
    marked.send(flow(10));
    expect(await response(marked)).toEqual([
      "deliver 0",
      "gap 1-2 reason 200",
      "deliver 2",
      "gap 3-4 reason 200",
      "deliver 4",
      "end 3",
    ]);
    expect(broker.events.length).toBe(2);

    // Who decodes for himself gets them as they are.
    const able = await broker.open(connect({ rest: u8(0x01) }));
    able.send(sub("able"));
    await able.expectFrame(TAG.ok);
    const records = await able.poll(flow(10));
    expect(offsetsOf(records)).toEqual([0, 1, 2, 3, 4]);
    expect(records[1].payload.equals(corrupt)).toBe(true);
  });

  it("storage.md 26.10: a skipped record is settled: the position goes over it and it does not come again", async () => {
    const broker = await startTestBroker();
    const client = await broker.open();
    const corrupt = Buffer.concat([u8(1), u32(0), u32(3), Buffer.from("abc")]);
    await client.publish({ flags: 0x01, payload: corrupt }, { payload: "after" });
    client.send(flow(10));
    expect(await response(client)).toEqual(["truncated to 1, 1 skipped", "deliver 1", "end 1"]);
    await client.close();
    const again = await broker.open();
    again.send(flow(10));
    expect(await response(again)).toEqual(["end 0"]);
  });

  it.each(["none", "lz4", ...(zstd === undefined ? [] : ["zstd" as const])] as const)(
    "wire.md 16: payloads come back as they were; stored with %s",
    async (compression) => {
      const broker = await startTestBroker({ compression });
      const payloads = [63, 64, 65, 1000, 100_000].map((length) => Buffer.alloc(length, "abcdefgh"));
      const client = await broker.open();
      await client.publish(...payloads.map((payload) => ({ payload })));
      const records = await client.poll(flow(10));
      expect(records.map((record, index) => record.payload.equals(payloads[index]))).toEqual(payloads.map(() => true));
      expect(records.map((record) => record.flags & 0x01)).toEqual(payloads.map(() => 0));
    },
  );
  it("wire.md 22.47: what the broker compressed is delivered as stored to who can decode it", async () => {
    const broker = await startTestBroker({ compression: "lz4" });
    const payload = Buffer.alloc(100, "abcdefgh");
    const client = await broker.open(connect({ rest: u8(0x01) }));
    await client.publish({ payload, key: "k" }, { payload: payload.subarray(0, 63) });
    const [long, short] = await client.poll(flow(2));
    expect([long.flags & 0x01, short.flags & 0x01]).toEqual([1, 0]);
    expect([long.payload[0], long.payload.readUInt32LE(1), long.payload.readUInt32LE(5)]).toEqual([1, 0, 100]);
    // 8 literals, then one match 8 back up to the last literals.
    expect(long.payload.length).toBeLessThan(40);
    expect(short.payload.equals(payload.subarray(0, 63))).toBe(true);
  });

  it.skipIf(zstd === undefined)(
    "storage.md 13: a zstd payload whose dictionary is in dicts/ reaches plain consumers",
    async () => {
      const files = new SimulatedFileSystem();
      files.makeDirectory("/data");
      const content = Buffer.from("temperature=21;humidity=40;pressure=1013;".repeat(4));
      const id = installDictionary(files, "/data", content);
      const broker = await startTestBroker({}, files);
      const text = "temperature=22;humidity=41;";
      const stream = zstd!.compress(Buffer.from(text), 3, content);
      const client = await broker.open();
      await client.publish({ flags: 0x01, payload: Buffer.concat([u8(2), u32(id), u32(text.length), stream]) });
      const [record] = await client.poll(flow(1));
      expect([record.flags & 1, record.payload.toString()]).toEqual([0, text]);
    },
  );

  it.skipIf(zstd === undefined)(
    "config.md 16.4: a broker stores with the dictionary that it is told, and does not start without",
    async () => {
      const files = new SimulatedFileSystem();
      files.makeDirectory("/data");
      const payload = Buffer.alloc(70, "temperature=22;humidity=41;");
      const zstdDictionaryId = installDictionary(files, "/data", Buffer.from("temperature=21;humidity=40;".repeat(4)));
      const broker = await startTestBroker({ compression: "zstd", zstdDictionaryId }, files);
      const client = await broker.open(connect({ rest: u8(0x01) }));
      await client.publish({ payload });
      const [stored] = await client.poll(flow(1));
      expect([stored.flags & 1, stored.payload[0], stored.payload.readUInt32LE(1)]).toEqual([1, 2, zstdDictionaryId]);
      const plain = await broker.open();
      plain.send(sub("plain"));
      await plain.expectFrame(TAG.ok);
      expect((await plain.poll(flow(1)))[0].payload.equals(payload)).toBe(true);
      await expect(startTestBroker({ compression: "zstd", zstdDictionaryId: 1 })).rejects.toThrow(
        "no intact dictionary 1",
      );
    },
  );

  it("a plain consumer gets thousands of compressed records in order, from several segments and small polls", async () => {
    const broker = await startTestBroker({ compression: "lz4", maxSegmentBytes: 4 * 1024 * 1024 });
    const payloads = Array.from({ length: 3000 }, (_, i) => Buffer.alloc(64 + ((i * 37) % 9000), `record ${i} `));
    payloads[1500] = Buffer.alloc(3_000_000, "large");
    const producer = await broker.open();
    for (let at = 0; at < payloads.length; at += 500) {
      await producer.publish(...payloads.slice(at, at + 500).map((payload) => ({ payload })));
    }
    const client = await broker.open();
    let next = 0;
    for (let size = 1; next < payloads.length; size = (size % 200) + 7) {
      const records = await client.poll(flow(size));
      for (const record of records) {
        expect(record.offset).toBe(next);
        expect(record.payload.equals(payloads[next])).toBe(true);
        next++;
      }
      await client.ackAll(records);
    }
  });
});

/** The frames of the response to one poll, in words. */
async function response(client: RawClient): Promise<string[]> {
  const words: string[] = [];
  for (;;) {
    const { tag, body } = await client.frame();
    switch (tag) {
      case TAG.deliver:
        words.push(`deliver ${body.readBigUInt64LE(0)}`);
        break;
      case 18:
        words.push(`truncated to ${body.readBigUInt64LE(0)}, ${body.readBigUInt64LE(8)} skipped`);
        break;
      case 21:
        words.push(`gap ${body.readBigUInt64LE(0)}-${body.readBigUInt64LE(8)} reason ${body[24]}`);
        break;
      case TAG.flowEnd:
        words.push(`end ${body.readUInt32LE(0)}`);
        return words;
      default:
        words.push(`tag ${tag}`);
    }
  }
}

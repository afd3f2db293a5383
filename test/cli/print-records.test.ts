import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliError } from "../../src/cli/errors.ts";
import { Output } from "../../src/cli/output.ts";
import { printRecords } from "../../src/cli/print-records.ts";
import { installDictionary } from "../../src/log/dictionaries.ts";
import { segmentName } from "../../src/log/names.ts";
import { encodeRecord, RecordFlag } from "../../src/log/record.ts";
import { encodeSegmentHeader } from "../../src/log/segment.ts";
import { createRuntime } from "../../src/runtime/runtime.ts";
import { zstd } from "../../src/runtime/zstd.ts";

const { runtime } = createRuntime();
const { codec } = runtime;
const none = new Uint8Array(0);

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "ironbus-print-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

/** One unsealed segment with these stored payloads. */
function writeLog(payloads: readonly Uint8Array[], flags: number): void {
  const header = encodeSegmentHeader({ segmentId: 0, baseSequence: 0, baseOffset: 0, createdUnixMs: 1n }, codec);
  const records = payloads.map((payload, index) =>
    encodeRecord(
      { sequence: BigInt(index), timestampMs: 18_446_744_073_709_551_615n, flags, key: none, headers: none, payload },
      codec,
    ),
  );
  writeFileSync(join(directory, segmentName(0)), Buffer.concat([header, ...records]));
}

async function print(options: { json?: boolean; raw?: boolean; requireDictionary?: boolean } = {}): Promise<string[]> {
  const written: Buffer[] = [];
  const sink = new Writable({
    write(chunk, _encoding, done) {
      written.push(chunk);
      done();
    },
  });
  const output = new Output(sink, sink, false);
  const { json = false, raw = false, requireDictionary = false } = options;
  const selection = { fromOffset: 0n, limit: undefined, json, raw, requireDictionary, recovery: "salvage" } as const;
  expect(await printRecords(directory, selection, { output, environment: {} })).toBe(0);
  return Buffer.concat(written).toString().split("\n").slice(0, -1);
}

function compressed(codecId: number, dictionaryId: number, lengthBytes: number, stream: Uint8Array): Uint8Array {
  const descriptor = Buffer.alloc(9);
  descriptor[0] = codecId;
  descriptor.writeUInt32LE(dictionaryId, 1);
  descriptor.writeUInt32LE(lengthBytes, 5);
  return Buffer.concat([descriptor, stream]);
}

/** 4096 times `x` as an LZ4 block: one literal, a match of 4090 at distance 1, five literals. */
const LZ4_BLOCK = Buffer.concat([
  Buffer.from([0x1f, 0x78, 0x01, 0x00]),
  Buffer.alloc(15, 0xff),
  Buffer.from([0xf6, 0x50]),
  Buffer.from("xxxxx"),
]);

describe("print records", () => {
  it("cli.md 13.47: a compressed record shows its original length, raw its stored one", async () => {
    const stored = compressed(1, 0, 4096, LZ4_BLOCK);
    writeLog([stored], RecordFlag.Compressed);
    const head = "offset=0 ts_ms=18446744073709551615";
    expect(await print()).toEqual([`${head} bytes=4096 key_bytes=0 crc=ok codec=lz4 decoded=true`]);
    expect(await print({ raw: true })).toEqual([`${head} bytes=${stored.length} key_bytes=0 crc=ok codec=lz4`]);
    expect(await print({ json: true })).toEqual([
      '{"offset":0,"ts_ms":18446744073709551615,"bytes":4096,"key_bytes":0,"crc":"ok","codec":"lz4","decoded":true}',
    ]);
  });

  it("cli.md 5.2: what cannot be decoded says why, and is no failure", async () => {
    const stored = [
      compressed(1, 7, 4096, LZ4_BLOCK),
      compressed(9, 0, 4096, LZ4_BLOCK),
      compressed(1, 0, 8_388_609, LZ4_BLOCK),
      Uint8Array.of(1, 2, 3),
      compressed(1, 0, 4095, LZ4_BLOCK),
      compressed(0, 0, 3, Buffer.from("ab")),
    ];
    writeLog(stored, RecordFlag.Compressed);
    const expected = [
      ["lz4", "missing-dict:7"],
      ["9", "unknown-codec:9"],
      ["lz4", "decompressed-too-large:8388609"],
      ["?", "truncated-descriptor"],
      ["lz4", "corrupt-stream"],
      ["none", "bad-raw-length"],
    ];
    const lines = await print();
    expect(lines.map((line) => line.replace(/^.* bytes=/, ""))).toEqual(
      expected.map(
        ([name, reason], index) =>
          `${stored[index].length} key_bytes=0 crc=ok codec=${name} decoded=false reason=${reason}`,
      ),
    );
    expect(JSON.parse((await print({ json: true }))[0])).toMatchObject({
      codec: "lz4",
      decoded: false,
      reason: "missing-dict:7",
    });
    const raw = await print({ raw: true });
    expect(raw.map((line) => / codec=(\S+)$/.exec(line)?.[1])).toEqual(expected.map(([name]) => name));
  });

  it("cli.md 5.2: --require-dict stops at a dictionary that is not there, also with --raw", async () => {
    const dictionary = Buffer.from("x".repeat(200));
    const id = installDictionary(runtime.files, directory, dictionary);
    const withDictionary = compressed(2, id, 5, Buffer.from(zstd?.compress(Buffer.from("xxxxx"), 3, dictionary) ?? []));
    writeLog([withDictionary], RecordFlag.Compressed);
    expect((await print({ requireDictionary: true }))[0]).toMatch(/ codec=zstd decoded=true$/);
    writeLog([compressed(1, 0, 4096, LZ4_BLOCK), compressed(2, 7, 5, Buffer.alloc(9))], RecordFlag.Compressed);
    for (const raw of [false, true]) {
      expect((await print({ raw })).length).toBe(2);
      await expect(print({ raw, requireDictionary: true })).rejects.toEqual(
        new CliError("handled_corruption", "record 1 needs dictionary 7, which is not there"),
      );
    }
  });

  it("gives each failure its exit kind", async () => {
    const missing = join(directory, "missing");
    const output = new Output(new Writable(), new Writable(), false);
    const selection = {
      fromOffset: 0n,
      limit: undefined,
      json: false,
      raw: false,
      requireDictionary: false,
      recovery: "strict",
    } as const;
    await expect(printRecords(missing, selection, { output, environment: {} })).rejects.toEqual(
      new CliError("not_found", `no data directory at ${missing}`),
    );
    writeFileSync(join(directory, segmentName(0)), Buffer.alloc(4096, 1));
    const corrupt = printRecords(directory, selection, { output, environment: {} });
    await expect(corrupt).rejects.toMatchObject({ kind: "corrupt" });
    await expect(corrupt).rejects.toThrow(`corrupt data directory at ${directory}: `);
  });
});

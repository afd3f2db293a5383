import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CompressionError, decompressPayload, readCompressionDescriptor } from "../../src/log/compressed-payload.ts";
import { typescriptCodec } from "../../src/runtime/native/codec-typescript.ts";
import { type Zstd, zstd } from "../../src/runtime/zstd.ts";
import vectors from "../vectors/record_vectors.json" with { type: "json" };
import { ascii, codec, hex, join, thrown, unhex } from "./fixtures.ts";

function descriptor(codecId: number, dictionaryId: number, claimed: number): Uint8Array {
  const bytes = new Uint8Array(9);
  const view = new DataView(bytes.buffer);
  bytes[0] = codecId;
  view.setUint32(1, dictionaryId, true);
  view.setUint32(5, claimed, true);
  return bytes;
}

function failure(stored: Uint8Array): CompressionError {
  const error = thrown(() => decompressPayload(stored, codec));
  expect(error).toBeInstanceOf(CompressionError);
  return error as CompressionError;
}

describe("compressed payloads", () => {
  const compressed = vectors.lz4.filter((vector) => vector.compressed);

  it.each(compressed.map((vector) => [vector.name, vector] as const))("lz4 vector %s", (_name, vector) => {
    for (const each of [codec, typescriptCodec()]) {
      const payload = decompressPayload(unhex(vector.stored_hex!), each);
      expect(payload.length).toBe(vector.payload_len);
      expect(each.crc32c(payload, 0, payload.length).toString(16).padStart(8, "0")).toBe(vector.payload_crc32c);
    }
  });

  it("storage.md 4: codec none is the bytes as they are", () => {
    const stored = join(descriptor(0, 0, 3), ascii("abc"));
    expect(decompressPayload(stored, codec)).toEqual(ascii("abc"));
    expect(readCompressionDescriptor(stored)).toEqual({ codecId: 0, dictionaryId: 0, uncompressedLengthBytes: 3 });
    expect(failure(join(descriptor(0, 0, 4), ascii("abc"))).message).toBe("bad-raw-length");
  });

  it("storage.md 26.10: a claim above 8 MiB is refused before anything is allocated", () => {
    const error = failure(join(descriptor(1, 0, 8_388_609), ascii("x")));
    expect(error.message).toBe("decompressed-too-large:8388609");
    expect([error.poison, error.reason]).toEqual([false, "CorruptRecordBody"]);
    const zeros = decompressPayload(join(descriptor(0, 0, 8_388_608), new Uint8Array(8_388_608)), codec);
    expect(zeros.length).toBe(8_388_608);
  });

  it("storage.md 26.10: an unknown codec and a missing dictionary are poison, under codes 3 and 7", () => {
    for (const id of [3, 255]) {
      const error = failure(join(descriptor(id, 0, 5), ascii("abcde")));
      expect(error.message).toBe(`unknown-codec:${id}`);
      expect([error.poison, error.reason]).toEqual([true, "CorruptRecordBody"]);
    }
    for (const id of [1, 2]) {
      const error = failure(join(descriptor(id, 9, 5), ascii("abcde")));
      expect(error.message).toBe("missing-dict:9");
      expect([error.poison, error.reason]).toEqual([true, "UnresolvedDictId"]);
    }
  });

  describe.skipIf(zstd === undefined)("zstd (skipped only where the runtime has none)", () => {
    const text = ascii("temperature=22.5;humidity=41;".repeat(4));
    const dictionary = ascii("humidity=40;temperature=21.5;pressure=1013;".repeat(5));
    const compress = zstd?.compress as Zstd["compress"];
    const dictionaries = { get: (id: number) => (id === 9 ? dictionary : undefined) };

    it("storage.md 4: a frame decodes, with the dictionary that it names if it names one", () => {
      const plain = compress(text, 3);
      expect([...decompressPayload(join(descriptor(2, 0, text.length), plain), codec)]).toEqual([...text]);
      const short = compress(text, 3, dictionary);
      expect(short.length).toBeLessThan(plain.length);
      const stored = join(descriptor(2, 9, text.length), short);
      expect([...decompressPayload(stored, codec, dictionaries)]).toEqual([...text]);
      expect(failure(stored).message).toBe("missing-dict:9");
      expect(failure(join(descriptor(2, 0, text.length), short)).message).toBe("corrupt-stream");
    });

    it("storage.md 4: LZ4 has no dictionaries, whatever there is", () => {
      const stored = join(descriptor(1, 9, 3), unhex("30616263"));
      expect(() => decompressPayload(stored, codec, dictionaries)).toThrow("missing-dict:9");
    });

    it("storage.md 26.10: content longer or shorter than the claim, and a frame that is cut off, are corrupt", () => {
      const stream = compress(new Uint8Array(100_000), 3);
      for (const claim of [0, 1, 99_999, 100_001, 8_388_608]) {
        expect(failure(join(descriptor(2, 0, claim), stream)).message).toBe("corrupt-stream");
      }
      for (let cut = 0; cut < stream.length; cut++) {
        expect(failure(join(descriptor(2, 0, 100_000), stream.subarray(0, cut))).message).toBe("corrupt-stream");
      }
      expect(failure(join(descriptor(2, 0, 8_388_609), stream)).message).toBe("decompressed-too-large:8388609");
    });

    it("a frame that wants a window of 128 MiB is refused", () => {
      // Magic, no content size, window log 27, then an empty last block.
      const stream = unhex("28b52ffd0088010000");
      expect(failure(join(descriptor(2, 0, 1), stream)).message).toBe("corrupt-stream");
    });

    it("any content of up to 8 MiB comes back", () => {
      const large = new Uint8Array(8_388_608).fill(7);
      for (const content of [new Uint8Array(0), new Uint8Array(1), large]) {
        const stored = join(descriptor(2, 0, content.length), compress(content, 3));
        expect(Buffer.compare(decompressPayload(stored, codec), content)).toBe(0);
      }
    });
  });

  it("a short descriptor and a bad stream are corrupt", () => {
    expect(failure(new Uint8Array(8)).message).toBe("truncated-descriptor");
    expect(readCompressionDescriptor(new Uint8Array(8))).toBeUndefined();
    const text = unhex(compressed.find((vector) => vector.name === "text_300")!.stored_hex!);
    expect(failure(text.subarray(0, text.length - 1)).message).toBe("corrupt-stream");
    const longer = text.slice();
    longer[5]++;
    expect(failure(longer).message).toBe("corrupt-stream");
  });

  it("any bytes give a payload of the claimed length or a CompressionError", () => {
    const claims = fc.integer({ min: 0, max: 300 });
    fc.assert(
      fc.property(
        fc.constantFrom(0, 1, 1, 1, 2, 7),
        fc.constantFrom(0, 0, 0, 5),
        claims,
        fc.uint8Array(),
        (...parts) => {
          const [codecId, dictionaryId, claimed, stream] = parts;
          const stored = join(descriptor(codecId, dictionaryId, claimed), stream);
          for (const each of [codec, typescriptCodec()]) {
            try {
              expect(decompressPayload(stored, each).length).toBe(claimed);
            } catch (error) {
              expect(error, hex(stored)).toBeInstanceOf(CompressionError);
            }
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});

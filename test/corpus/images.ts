import {
  ATTEMPTS_CAPACITY,
  CURSOR_CAPACITY,
  encodeAttempts,
  LAYOUT_CAPACITY,
} from "../../src/log/checkpoint-payloads.ts";
import { segmentName } from "../../src/log/names.ts";
import { encodeRecord } from "../../src/log/record.ts";
import { encodeSegmentFooter } from "../../src/log/segment.ts";
import { backUp } from "../../src/offline/backup.ts";
import { Compression } from "../../src/runtime/codec.ts";
import { MemoryFileSystem } from "../../src/runtime/file-system-memory.ts";
import { ascii, codec, EMPTY, join, lcg } from "../log/fixtures.ts";
import { checkpoint, cursor, type Published, small, smallRecord, written } from "./healthy.ts";
import { captureImage, type Image, loadImage } from "./image.ts";

/**
 * The damaged directories of the corpus. Most are the small image (test/corpus/healthy.ts) with one thing wrong; its
 * segments of three records have them at [64, 135), [135, 203) and [203, 287), the footer at [287, 319). The active one has
 * [64, 135) and [135, 204), zeros up to 260.
 */
export const IMAGES: Readonly<Record<string, () => Image>> = {
  healthy: small,

  // The end of the log
  "torn-tail": () => cut(small(), 3, 204 - 3),
  "torn-record-before-zeros": () => fill(small(), 3, 0, 170, 204),
  "tail-above-a-cap": () =>
    put(sole(), 0, join(segment(sole(), 0).subarray(0, at(2)), new Uint8Array(5000).fill(0xee))),
  "footer-not-yet-cut": sealedButNotCut,
  "unborn-segment": () => put(small(), 4, EMPTY),
  "unborn-segment-of-zeros": () => put(small(), 4, new Uint8Array(260)),
  "byte-behind-no-header": () => fill(put(small(), 4, new Uint8Array(260)), 4, 1, 100, 101),

  // Records
  "poison-records": poison,
  "bad-body": () => flip(small(), 1, 135 + 50),
  "bad-record-header": () => flip(small(), 1, 135 + 21),
  "destroyed-record-header": () => fill(small(), 1, 0x5a, 135, 135 + 36),
  "two-destroyed-headers": () => fill(fill(nineRecords(), 0, 0x5a, at(2), at(2) + 36), 0, 0x5a, at(6), at(6) + 36),
  "zeroed-page": () => fill(pages(), 0, 0, 8192, 12_288),
  "planted-frames": () => fill(planted(), 0, 0, at(2), at(2) + 36),
  "doubled-bytes": doubledBytes,
  "wrong-sequence": wrongSequence,

  // Segments
  "bad-segment-header": () => flip(small(), 1, 30),
  "zeroed-segment-header": () => fill(small(), 1, 0, 0, 64),
  "broken-footer": () => flip(small(), 1, 287 + 20),
  "foreign-footer": () => footer(small(), 1, { segmentId: 9, lastSequence: 5, recordCount: 3 }),
  "empty-segment": () => put(small(), 1, EMPTY),
  "cut-segment": () => cut(small(), 1, 150),
  "noise-for-a-segment": () => put(small(), 1, lcg(7, 319)),
  "missing-middle-segment": () => remove(small(), segmentName(1)),
  "missing-first-segment": () => remove(small(), segmentName(0)),
  "swapped-segments": swapped,
  "duplicate-segment": () => put(small(), 7, segment(small(), 1)),
  "sole-segment-without-header": () => fill(sole(), 0, 0, 0, 64),
  "above-a-cap": () => fill(pages(), 0, 0xee, 4000, 4000 + 9000),

  // Checkpoints and the layout marker
  "cut-checkpoint": () => put(small(), "cursor.ckpt", (small().get("cursor.ckpt") as Uint8Array).subarray(0, 100)),
  "zeroed-checkpoint": () => put(small(), "cursor.ckpt", new Uint8Array(156)),
  "one-damaged-slot": () => flip(small(), "cursor.ckpt", 12),
  "damaged-slots": damagedSlots,
  "cursor-behind-the-end": () => put(small(), "cursor-67.ckpt", checkpoint(CURSOR_CAPACITY, [cursor(0), cursor(99)])),
  "future-layout": () => put(small(), "layout.meta", checkpoint(LAYOUT_CAPACITY, [ascii("IBDD\x02\0\0\0")])),
  "foreign-layout": () => put(small(), "layout.meta", checkpoint(LAYOUT_CAPACITY, [ascii("XBDD\x02\0\0\0")])),

  // What does not belong there
  "foreign-files": foreignFiles,
  links: () =>
    new Map([
      ...small(),
      ["seg-0000000000000004.log", { link: "seg-0000000000000000.log" }],
      ["seg-0000000000000005.log", { link: "../healthy/seg-0000000000000001.log" }],
      ["cursor-6c.ckpt", { link: "cursor.ckpt" }],
    ]),

  // Backups
  "backup-with-a-flipped-bit": () => flip(backup(), "data/seg-0000000000000001.log", 200),
};

/** Manifests that are none, by what is wrong with them; `restore` refuses each in place of the backup's own. */
export const MANIFESTS: Readonly<Record<string, string>> = {
  "no magic": "IBBKQ 1\nrange 0 11 cursors 1 dlq 0\nfiles 0\n",
  "version 2": "IBBKP 2\nrange 0 11 cursors 1 dlq 0\nfiles 0\n",
  "no range": "IBBKP 1\nrange 0 cursors 1 dlq 0\nfiles 0\n",
  "range that ends before it begins": "IBBKP 1\nrange 12 11 cursors 1 dlq 0\nfiles 0\n",
  "file that is not listed": "IBBKP 1\nrange 0 11 cursors 1 dlq 0\nfiles 1\n",
  "last line without its end": "IBBKP 1\nrange 0 11 cursors 1 dlq 0\nfiles 1\n0 0 a",
  "path that leads out": "IBBKP 1\nrange 0 11 cursors 1 dlq 0\nfiles 1\n0 0 ../a\n",
  "absolute path": "IBBKP 1\nrange 0 11 cursors 1 dlq 0\nfiles 1\n0 0 /a\n",
  "path twice": "IBBKP 1\nrange 0 11 cursors 1 dlq 0\nfiles 2\n0 0 a\n0 0 a\n",
  "number with a leading zero": "IBBKP 1\nrange 0 11 cursors 1 dlq 0\nfiles 1\n00 0 a\n",
  "checksum of 33 bits": "IBBKP 1\nrange 0 11 cursors 1 dlq 0\nfiles 1\n4294967296 0 a\n",
};

/** Position of record `i` in a segment of which each record has a payload of two bytes. */
function at(i: number): number {
  return 64 + i * 46;
}

function segment(image: Image, id: number): Uint8Array {
  return (image.get(segmentName(id)) as Uint8Array).slice();
}

function put(image: Image, name: string | number, bytes: Uint8Array): Image {
  return image.set(typeof name === "number" ? segmentName(name) : name, bytes);
}

function remove(image: Image, name: string): Image {
  image.delete(name);
  return image;
}

function cut(image: Image, id: number, length: number): Image {
  return put(image, id, segment(image, id).subarray(0, length));
}

function fill(image: Image, id: number, byte: number, start: number, end: number): Image {
  return put(image, id, segment(image, id).fill(byte, start, end));
}

function flip(image: Image, name: string | number, position: number): Image {
  const bytes = (image.get(typeof name === "number" ? segmentName(name) : name) as Uint8Array).slice();
  bytes[position] ^= 0x10;
  return put(image, name, bytes);
}

function footer(image: Image, id: number, fields: Parameters<typeof encodeSegmentFooter>[0]): Image {
  const bytes = segment(image, id);
  bytes.set(encodeSegmentFooter(fields, codec), bytes.length - 32);
  return put(image, id, bytes);
}

/** The power went between a seal's write and its cut to length: the footer is there, zeros behind it. */
function sealedButNotCut(): Image {
  const image = remove(small(), segmentName(3));
  return put(image, 2, join(segment(image, 2), new Uint8Array(100)));
}

function poison(): Image {
  const object = (codecId: number, dictionaryId: number, length: number, stream: Uint8Array): Uint8Array => {
    const descriptor = new Uint8Array(9);
    const view = new DataView(descriptor.buffer);
    view.setUint8(0, codecId);
    view.setUint32(1, dictionaryId, true);
    view.setUint32(5, length, true);
    return join(descriptor, stream);
  };
  const records: Published[] = [
    { payload: "before" },
    { payload: object(9, 0, 20, ascii("unknown codec")), compressed: true },
    { payload: object(2, 9, 20, ascii("no such dictionary")), compressed: true },
    { payload: object(1, 0, 20, ascii("not an LZ4 block")), compressed: true },
    { payload: object(1, 0, 8 * 1024 * 1024 + 1, ascii("a bomb")), compressed: true },
    { payload: object(0, 0, 4, ascii("kept")), compressed: true },
    { payload: "behind" },
  ];
  return written(records, 260, 0);
}

/** Records of nothing but a payload, stored as it is. */
function plain(payloads: readonly (string | Uint8Array)[], maxSegmentBytes: number): Image {
  return written(
    payloads.map((payload) => ({ payload })),
    maxSegmentBytes,
    0,
    Compression.None,
  );
}

/** A sealed segment of nine records, and one of one. */
function nineRecords(): Image {
  return plain(
    Array.from({ length: 10 }, (_, i) => `p${i}`),
    at(9),
  );
}

/** A sealed segment of 20 KiB whose records have 200 bytes of payload that do not compress, and a short active one. */
function pages(): Image {
  return plain(
    Array.from({ length: 85 }, (_, i) => lcg(i, 200)),
    64 + 84 * 244,
  );
}

/** A sealed segment whose third record holds frames that could be the next ones. */
function planted(): Image {
  const inner = [2, 3, 4, 5].map((sequence) =>
    encodeRecord(
      {
        sequence: BigInt(sequence),
        timestampMs: 0n,
        flags: 0,
        key: EMPTY,
        headers: EMPTY,
        payload: ascii(`planted ${sequence}`),
      },
      codec,
    ),
  );
  // Its own last bytes say that it begins where the second planted frame does.
  const trailer = new Uint8Array(8);
  new DataView(trailer.buffer).setUint32(4, 3 * 53 + 8, true);
  return plain(["p0", "p1", join(...inner, trailer), "p3", "p4", "p5"], 64 + 2 * 46 + 264 + 2 * 46);
}

/** Bytes [10, 100) of segment 1 are there twice: everything from byte 100 on is 90 bytes too far behind. */
function doubledBytes(): Image {
  const image = small();
  const bytes = segment(image, 1);
  return put(image, 1, join(bytes.subarray(0, 100), bytes.subarray(10)));
}

/** The last frame of the log is intact and five sequences ahead (storage.md 26.40). */
function wrongSequence(): Image {
  const image = sole();
  const frame = encodeRecord(
    { sequence: 6n, timestampMs: 0n, flags: 0, key: EMPTY, headers: EMPTY, payload: ascii("p1") },
    codec,
  );
  const bytes = segment(image, 0);
  bytes.set(frame, at(1));
  return put(image, 0, bytes);
}

function swapped(): Image {
  const image = small();
  const [first, third] = [segment(image, 0), segment(image, 2)];
  return put(put(image, 0, third), 2, first);
}

/** One segment of two records, the second at 110, zeros up to 260. */
function sole(): Image {
  return plain(["p0", "p1"], 260);
}

/** Both slots of every checkpoint say something and neither says what was written. */
function damagedSlots(): Image {
  const image = put(
    small(),
    "attempts.ckpt",
    checkpoint(ATTEMPTS_CAPACITY, [encodeAttempts([], codec), encodeAttempts([{ offset: 5, deliveries: 2 }], codec)]),
  );
  flip(flip(image, "attempts.ckpt", 12), "attempts.ckpt", ATTEMPTS_CAPACITY + 14 + 12);
  return flip(flip(image, "cursor.ckpt", 12), "cursor.ckpt", CURSOR_CAPACITY + 14 + 12);
}

function foreignFiles(): Image {
  const image = small();
  const bytes = segment(image, 1);
  for (const name of [
    "SEG-0000000000000004.log",
    "seg-000000000000004.log",
    "seg-00000000000000004.log",
    "seg-000000000000000A.log",
    "seg-0000000000000004.log.bak",
    "seg-0000000000000099.log/inside.txt",
    "notes/segment-5.log",
    "cursor-6.ckpt",
    "quarantine/q-unknown.bin",
    "lost+found/#12",
  ]) {
    image.set(name, bytes);
  }
  return image.set("README", ascii("Not a file of ours.\n"));
}

/** A backup of the small image, as `backup` makes it. */
export function backup(): Image {
  const files = new MemoryFileSystem();
  loadImage(files, "/data", small());
  backUp(files, codec, { dataDirectory: "/data", out: "/backup" });
  return captureImage(files, "/backup");
}

/** What the small image holds under an offset, as text. */
export function smallText(offset: number): string {
  return `${offset}:${smallRecord(offset).payload}`;
}

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  groupCheckpointName,
  parseGroupCheckpointName,
  parseQuarantineName,
  parseSegmentName,
  quarantineName,
  segmentName,
} from "../../src/log/names.ts";
import { thrown } from "./fixtures.ts";

describe("file names", () => {
  it("segments", () => {
    expect(segmentName(0)).toBe("seg-0000000000000000.log");
    expect(segmentName(255)).toBe("seg-00000000000000ff.log");
    expect(parseSegmentName("seg-00000000000000ff.log")).toBe(255n);
    expect(parseSegmentName("seg-ffffffffffffffff.log")).toBe(0xffff_ffff_ffff_ffffn);
  });

  it("storage.md 26.16: anything else is foreign", () => {
    const foreign = [
      "SEG-0000000000000001.log",
      "seg-000000000000001.log",
      "seg-00000000000000001.log",
      "seg-00000000000000FF.log",
      "seg-0000000000000001.LOG",
      "seg-0000000000000001.log.tmp",
      " seg-0000000000000001.log",
      "seg-0000000000000001.log\n",
      "seg-0000000000000001.tindex",
      "seg-.log",
      "",
    ];
    for (const name of foreign) expect(parseSegmentName(name), name).toBeUndefined();
  });

  it("group checkpoints", () => {
    expect(groupCheckpointName("cursor", "")).toBe("cursor.ckpt");
    expect(groupCheckpointName("attempts", "orders")).toBe("attempts-6f7264657273.ckpt");
    expect(parseGroupCheckpointName("cursor-6f7264657273.ckpt")).toEqual({ kind: "cursor", group: "orders" });
    expect(parseGroupCheckpointName("attempts.ckpt")).toEqual({ kind: "attempts", group: "" });
    const foreign = [
      "cursor-.ckpt",
      "cursor-6F.ckpt",
      "cursor-6.ckpt",
      "cursor-20.ckpt",
      "counters.ckpt",
      "xcursor.ckpt",
    ];
    for (const name of foreign) expect(parseGroupCheckpointName(name), name).toBeUndefined();
    expect(parseGroupCheckpointName(`cursor-${"61".repeat(129)}.ckpt`)).toBeUndefined();
    for (const group of ["a b", "ä", "x".repeat(129), "\n"]) {
      expect(thrown(() => groupCheckpointName("cursor", group))).toBeInstanceOf(RangeError);
    }
  });

  it("every legal group name comes back", () => {
    const names = fc.string({
      unit: fc.integer({ min: 0x21, max: 0x7e }).map((c) => String.fromCharCode(c)),
      maxLength: 128,
    });
    fc.assert(
      fc.property(names, fc.constantFrom("cursor" as const, "attempts" as const), (group, kind) => {
        expect(parseGroupCheckpointName(groupCheckpointName(kind, group))).toEqual({ kind, group });
      }),
    );
  });

  it("quarantine blobs", () => {
    const name = quarantineName(2, "corrupt_record_body", 65536, 131072);
    expect(name).toBe("q-0000000000000002-corrupt_record_body-65536-131072.bin");
    expect(parseQuarantineName(name)).toEqual({
      segmentId: 2n,
      label: "corrupt_record_body",
      start: 65536,
      end: 131072,
    });
    const foreign = [
      "q-2-corrupt_record_body-0-1.bin",
      "q-0000000000000002-corrupt_record_body-00-1.bin",
      "q-0000000000000002-corrupt_record_body-2-1.bin",
      "q-0000000000000002--0-1.bin",
      "q-0000000000000002-corrupt_record_body-0-9999999999999999.bin",
    ];
    for (const each of foreign) expect(parseQuarantineName(each), each).toBeUndefined();
  });

  it("a parsed name is exactly what the formatter writes", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const id = parseSegmentName(text);
        if (id !== undefined) expect(segmentName(Number(id))).toBe(text);
        const checkpoint = parseGroupCheckpointName(text);
        if (checkpoint !== undefined) expect(groupCheckpointName(checkpoint.kind, checkpoint.group)).toBe(text);
        expect(parseQuarantineName(text)).toBeUndefined();
      }),
    );
  });
});

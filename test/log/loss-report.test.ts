import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  formatLossReport,
  type LossEvent,
  LossReportError,
  lossTotals,
  parseLossReport,
  writeLossReport,
} from "../../src/log/loss-report.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { get, newFiles, ROOT, thrown } from "./fixtures.ts";

const EVENTS: LossEvent[] = [
  { segmentId: 2, start: 65536, end: 131072, recordsLostEstimate: 7, reason: "CorruptRecordBody" },
  { segmentId: 3, start: 10, end: 15, recordsLostEstimate: 1, reason: "TornTail" },
];

const TEXT =
  '{"schema_version":1,"events":[{"segment_id":2,"byte_offset_start":65536,"byte_offset_end":131072,' +
  '"bytes_skipped":65536,"records_lost_estimate":7,"reason_code":"CorruptRecordBody"},' +
  '{"segment_id":3,"byte_offset_start":10,"byte_offset_end":15,' +
  '"bytes_skipped":5,"records_lost_estimate":1,"reason_code":"TornTail"}]}';

describe("loss report", () => {
  it("storage.md 26.45: two events in exactly the given order of fields", () => {
    expect(formatLossReport(EVENTS)).toBe(TEXT);
    expect(parseLossReport(TEXT)).toEqual(EVENTS);
    expect(formatLossReport([])).toBe('{"schema_version":1,"events":[]}');
  });

  it("storage.md 26.45: unknown reasons and fields are accepted", () => {
    const text = TEXT.replace("TornTail", "MeteoriteImpact").replace('"segment_id":3', '"new":{},"segment_id":3');
    expect(parseLossReport(text)[1]).toEqual({ ...EVENTS[1], reason: "MeteoriteImpact" });
  });

  it("storage.md 19: torn tails are no data loss", () => {
    expect(lossTotals(EVENTS)).toEqual({ bytes: 65541, dataLossBytes: 65536, records: 8 });
    expect(lossTotals([{ ...EVENTS[0], start: 9, end: 3 }]).bytes).toBe(0);
  });

  it("anything else is a LossReportError", () => {
    const bad = [
      "",
      "null",
      "[]",
      '{"schema_version":2,"events":[]}',
      '{"schema_version":1}',
      '{"schema_version":1,"events":[null]}',
      TEXT.replace("65536", "-1"),
      TEXT.replace("65536", "0.5"),
      TEXT.replace('"reason_code":"TornTail"', '"reason_code":1'),
    ];
    for (const text of bad)
      expect(
        thrown(() => parseLossReport(text)),
        text,
      ).toBeInstanceOf(LossReportError);
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        expect(thrown(() => parseLossReport(text))).toBeInstanceOf(LossReportError);
      }),
    );
  });

  it("storage.md 19: the file is replaced whole and is durable", () => {
    const files = new SimulatedFileSystem({ seed: 3 });
    files.makeDirectory(ROOT);
    files.syncDirectory("/");
    writeLossReport(files, ROOT, EVENTS);
    const read = (from: typeof files): string => new TextDecoder().decode(get(from, `${ROOT}/recovery-report.json`));
    expect(read(files.imageAfterPowerCut({ style: "lost" }))).toBe(`${TEXT}\n`);
    const images: SimulatedFileSystem[] = [];
    files.onOperation = () => void images.push(files.imageAfterPowerCut());
    writeLossReport(files, ROOT, EVENTS.slice(0, 1));
    for (const image of images) expect([1, 2]).toContain(parseLossReport(read(image)).length);
    expect(images.length).toBeGreaterThan(3);
  });

  it("a leftover of an earlier attempt does not end up in it", () => {
    const files = newFiles();
    writeLossReport(files, ROOT, EVENTS);
    files.rename(`${ROOT}/recovery-report.json`, `${ROOT}/recovery-report.json.tmp`);
    writeLossReport(files, ROOT, []);
    expect(new TextDecoder().decode(get(files, `${ROOT}/recovery-report.json`))).toBe(`${formatLossReport([])}\n`);
  });
});

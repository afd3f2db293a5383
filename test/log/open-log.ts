import { Log } from "../../src/log/log.ts";
import type { WriterOptions } from "../../src/log/writer-options.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { FIELD_PAYLOAD, FIELD_PAYLOAD_LENGTH, FIELDS } from "../../src/runtime/codec.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { readPubRow } from "../../src/wire/pub-table.ts";
import { codec, ROOT } from "./fixtures.ts";

/** A log on a simulated disk whose queued jobs only move when the test says so. */
export class TestLog {
  readonly files: SimulatedFileSystem;
  readonly clock: SimulatedClock;
  readonly log: Log;
  /** What the log told, in order. */
  readonly told: string[] = [];

  constructor(options: Partial<WriterOptions> = {}, files?: SimulatedFileSystem, clock = new SimulatedClock()) {
    this.files = files ?? newDisk();
    this.clock = clock;
    this.log = Log.open(
      {
        root: ROOT,
        maxSegmentBytes: 64 * 1024 * 1024,
        maxPendingBytes: 4 * 1024 * 1024,
        durability: { level: "sync", flushIntervalMs: 1000, flushMaxBytes: 1024 * 1024 },
        ...options,
      },
      { files: this.files, codec, clock: this.clock },
      {
        advanced: () => this.told.push(`advanced ${this.log.visibleHead}`),
        rejected: (from, refusal) =>
          this.told.push(`rejected ${from}${refusal === undefined ? "" : ` ${refusal.kind}`}`),
        froze: (error) => this.told.push(`froze ${error.message}`),
      },
    );
  }

  /** Appends without starting a barrier; returns how many were taken. */
  append(payloads: readonly (string | Uint8Array)[]): number {
    const { chunk, table } = publishes(payloads);
    return this.log.append(chunk, table, 0, payloads.length);
  }

  /** Appends and lets everything reach the disk, until a freeze or a refusal. */
  commit(payloads: readonly (string | Uint8Array)[]): void {
    for (let at = 0; at < payloads.length; ) {
      at += this.append(payloads.slice(at));
      this.log.pump();
      this.files.runAll();
      if (this.log.frozen !== undefined || this.log.refusal !== undefined) return;
    }
  }

  /** The payloads from the earliest retained offset to the visible head. */
  payloads(): string[] {
    const found: string[] = [];
    for (let offset = this.log.earliestOffset; offset < this.log.visibleHead; offset++)
      found.push(this.payload(offset));
    return found;
  }

  payload(offset: number): string {
    return new TextDecoder().decode(this.payloadBytes(offset));
  }

  payloadBytes(offset: number): Uint8Array {
    const window = this.log.read(offset, this.log.visibleHead);
    if (window === undefined) throw new Error(`offset ${offset} is lost`);
    const row = (offset - window.firstOffset) * FIELDS;
    const start = window.rows[row + FIELD_PAYLOAD];
    return window.buffer.slice(start, start + window.rows[row + FIELD_PAYLOAD_LENGTH]);
  }

  async close(): Promise<void> {
    const closed = this.log.close();
    this.files.runAll();
    await closed;
  }
}

export function newDisk(seed = 1): SimulatedFileSystem {
  const files = new SimulatedFileSystem({ turns: "manual", seed });
  files.makeDirectory(ROOT);
  files.syncDirectory("/");
  return files;
}

/** Pub bodies back to back, with their table. */
export function publishes(payloads: readonly (string | Uint8Array)[]): { chunk: Uint8Array; table: Int32Array } {
  const bodies = payloads.map((payload) => {
    const bytes = typeof payload === "string" ? new TextEncoder().encode(payload) : payload;
    const body = new Uint8Array(13 + bytes.length);
    body.set(bytes, 13);
    return body;
  });
  const chunk = new Uint8Array(Buffer.concat(bodies));
  const table = new Int32Array(payloads.length * FIELDS);
  let at = 0;
  for (const [row, body] of bodies.entries()) {
    readPubRow(chunk, at, at + body.length, table, row);
    at += body.length;
  }
  return { chunk, table };
}

export function numbered(count: number, from = 0): string[] {
  return Array.from({ length: count }, (_, index) => `m${from + index}`);
}

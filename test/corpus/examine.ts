import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { expect, onTestFinished } from "vitest";
import { EXIT_CODES, toFailure } from "../../src/cli/errors.ts";
import { Output } from "../../src/cli/output.ts";
import type { Verb } from "../../src/cli/verb.ts";
import { scrubVerb } from "../../src/cli/verbs/scrub.ts";
import { verifyVerb } from "../../src/cli/verbs/verify.ts";
import { parseFlags } from "../../src/config/flags.ts";
import { CompressionError, decompressPayload } from "../../src/log/compressed-payload.ts";
import type { Gap } from "../../src/log/gap.ts";
import { Log } from "../../src/log/log.ts";
import { segmentName } from "../../src/log/names.ts";
import { readLog } from "../../src/log/offline-reader.ts";
import { RecordFlag } from "../../src/log/record.ts";
import { type RecoveredLog, recoverLog } from "../../src/log/recovery.ts";
import { StorageError } from "../../src/log/storage-error.ts";
import { SimulatedClock } from "../../src/runtime/clock-simulated.ts";
import { FIELD_FLAGS, FIELD_PAYLOAD, FIELD_PAYLOAD_LENGTH, FIELDS } from "../../src/runtime/codec.ts";
import type { FileSystem } from "../../src/runtime/file-system.ts";
import { SimulatedFileSystem } from "../../src/runtime/file-system-simulated.ts";
import { createRuntime } from "../../src/runtime/runtime.ts";
import { Tag } from "../../src/wire/tags.ts";
import { ackOf, flow, frame, offsetOf, World } from "../broker/world.ts";
import { codec } from "../log/fixtures.ts";
import { costs, damageJson, isDataLoss, type LossText, lossText, outcomeJson, reportOf } from "./expected-output.ts";
import { publish } from "./healthy.ts";
import { captureImage, DIRECTORIES, type Image, loadImage, readImage, shown } from "./image.ts";

const { files: disk } = createRuntime().runtime;
const ROOT = "/data";
/** Roll size of the openings: also what one loss may be (storage.md 19). */
const MAX_SEGMENT_BYTES = 1024 * 1024;

export interface Expected {
  /** Offsets and payloads that are read, `offset:text`; an undecodable payload is `offset!why`. */
  readonly served: readonly string[];
  readonly losses?: readonly LossText[];
  readonly gaps?: readonly (readonly [start: number, end: number])[];
  /** First offset, next offset and next segment id. Default 0, 11 and 4, as the small image has them. */
  readonly earliest?: number;
  readonly next?: number;
  readonly nextSegment?: number;
  /** Whether the log goes on in its last segment. Default true. */
  readonly resumed?: boolean;
  readonly maxSegmentBytes?: number;
  /** The text of the cap that the loss is above: then nothing on the disk changes. */
  readonly readOnly?: string;
  /** Lengths that files are cut to. Default: the preallocated last segment of the small image. */
  readonly cut?: Readonly<Record<string, number>>;
  readonly removed?: readonly string[];
  readonly rewritten?: Readonly<Record<string, Uint8Array>>;
  /** Copies by name: the file that they are of, and the span. */
  readonly quarantine?: Readonly<Record<string, readonly [file: string, start: number, end: number]>>;
  /** What the next start finds. Default: the same losses, none of which was cut off. */
  readonly again?: { readonly losses: readonly LossText[] };
  /** Fields of `scrub --json`; the losses' part follows from them. Default: 4 segments. */
  readonly segments?: number;
  /** Group, committed offset and whether it lies within the log. Default: the default group at 5. */
  readonly cursors?: readonly (readonly [group: string, committed: number, inRange: boolean])[];
  /** Where the default group goes on. Default 5. */
  readonly resumesAt?: number;
  readonly layoutVersion?: number | null;
  /** Quarantined bytes that are there before. */
  readonly quarantineBytes?: number;
  /** What mode `strict` does instead: the error that it refuses with. Default: the same as `salvage`. */
  readonly strict?: { readonly kind: StorageError["kind"]; readonly message: string };
}

/** Everything that the contract says of one damaged directory; each opening has a copy of its own. */
export async function examine(name: string, expected: Expected): Promise<void> {
  const image = readImage(join(DIRECTORIES, name));
  const hasLinks = [...image.values()].some((entry) => !(entry instanceof Uint8Array));
  await examineOffline(name, image, expected);
  const onDisk = copyOf(name);
  const recovered = examineOpening(disk, onDisk, image, expected);
  examineNextOpening(disk, onDisk, expected);
  if (!hasLinks) {
    // The same directory elsewhere gives the same (storage.md 26.43).
    const again = examineOpening(inMemory(image), ROOT, image, expected);
    expect(again).toEqual(recovered);
    examineStrictly(inMemory(image), image, expected);
  }
  await examineRunning(hasLinks ? copyOf(name) : image, expected);
  if (!hasLinks) await examineBroker(image, expected);
}

/** A copy of a directory of the corpus on the real disk. */
export function copyOf(name: string): string {
  const directory = mkdtempSync(join(tmpdir(), "ironbus-corpus-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  cpSync(join(DIRECTORIES, name), directory, { recursive: true, verbatimSymlinks: true });
  return directory;
}

export function inMemory(image: Image, files = new SimulatedFileSystem({ turns: "manual" })): SimulatedFileSystem {
  loadImage(files, ROOT, image);
  return files;
}

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a verb as the command line does. */
export async function runVerb(verb: Verb, args: readonly string[]): Promise<Run> {
  let stdout = "";
  let stderr = "";
  const into = (take: (text: string) => void) =>
    new Writable({
      write(chunk, _, done) {
        take(String(chunk));
        done();
      },
    });
  const output = new Output(
    into((text) => (stdout += text)),
    into((text) => (stderr += text)),
    false,
  );
  try {
    const code = await verb.run(parseFlags(verb.grammar, args), { output, environment: {} });
    await output.flush();
    return { code, stdout, stderr };
  } catch (error) {
    await output.flush();
    const failure = toFailure(error);
    return { code: EXIT_CODES[failure.kind], stdout, stderr: failure.message };
  }
}

/** `scrub`, `verify` and the offline reader, which change nothing: they look at the checked-in directory itself. */
async function examineOffline(name: string, image: Image, expected: Expected): Promise<void> {
  const directory = join(DIRECTORIES, name);
  const { strict } = expected;
  const damage = damageJson(directory, expected);
  const exitCode = expected.losses?.some((loss) => isDataLoss(loss) && costs(loss)) || expected.gaps ? 3 : 0;
  const { cursors = [["", 5, true]], layoutVersion = 1, quarantineBytes = 0 } = expected;
  const mismatches = cursors.filter(([, , inRange]) => !inRange).length;
  const verifyCode = mismatches > 0 ? 3 : exitCode;

  const scrubbed = await runVerb(scrubVerb, ["--data-dir", directory, "--json"]);
  expect(scrubbed.stdout).toBe(`{"schema":"ironbus.cli.scrub.v1",${damage},${outcomeJson(exitCode, expected)}}\n`);
  expect(scrubbed.code).toBe(exitCode);
  const verified = await runVerb(verifyVerb, ["--data-dir", directory, "--json"]);
  const cursorsJson = cursors.map(
    ([group, committed, inRange]) => `{"group":"${group}","committed":${committed},"in_range":${inRange}}`,
  );
  expect(verified.stdout).toBe(
    `{"schema":"ironbus.cli.verify.v1",${damage},"cursors":[${cursorsJson}],"cursor_mismatches":${mismatches},` +
      `"dlq_records":0,"quarantine_bytes":${quarantineBytes},"layout_version":${layoutVersion},` +
      `${outcomeJson(verifyCode, expected)}}\n`,
  );
  expect(verified.code).toBe(verifyCode);

  const strictly = await runVerb(scrubVerb, ["--data-dir", directory, "--json", "--recovery", "strict"]);
  if (strict === undefined || strict.kind === "ExcessiveRecoveryLoss") {
    expect(strictly).toEqual(scrubbed);
  } else {
    expect(strictly).toEqual({
      code: 4,
      stdout: "",
      stderr: `corrupt data directory at ${directory}: ${strict.message}`,
    });
  }
  expect(served(disk, directory)).toEqual(expected.served);
  expect(shown(readImage(directory))).toEqual(shown(image));
}

/** What recovery makes of the directory, and of its files. */
function examineOpening(files: FileSystem, root: string, image: Image, expected: Expected): object {
  const { earliest = 0, next = 11, nextSegment = 4, resumed = true } = expected;
  const recovered = open(files, root, expected);
  expect(recovered.losses.map(lossText)).toEqual(expected.losses ?? []);
  expect(gapsOf(recovered)).toEqual(expected.gaps ?? []);
  expect(recovered).toMatchObject({
    earliestOffset: earliest,
    nextOffset: next,
    nextSegmentId: nextSegment,
    resumable: resumed,
    problems: [],
  });
  if (expected.readOnly === undefined) {
    expect(recovered.readOnly).toBeUndefined();
  } else {
    expect(recovered.readOnly).toMatchObject({ kind: "ExcessiveRecoveryLoss", message: expected.readOnly });
  }
  expect(shown(imageOf(files, root))).toEqual(shown(imageAfter(image, expected)));
  expect(served(files, root)).toEqual(expected.served);
  const { segments, ...rest } = recovered;
  return { ...rest, segments: segments.map(({ path, ...segment }) => ({ ...segment, path: path.slice(root.length) })) };
}

/** A second start finds what the first one left, and leaves it so. */
function examineNextOpening(files: FileSystem, root: string, expected: Expected): void {
  const { losses = [], next = 11 } = expected;
  const { again = { losses } } = expected;
  const before = shown(readImage(root));
  const recovered = open(files, root, expected);
  expect(recovered.losses.map(lossText)).toEqual(again.losses);
  expect(gapsOf(recovered)).toEqual(expected.gaps ?? []);
  expect(recovered.nextOffset).toBe(next);
  // The report stays that of the last opening which had something to say.
  expect(shown(readImage(root))).toEqual(before);
  expect(served(files, root)).toEqual(expected.served);
}

/** Mode `strict`: upstream's errors, and then nothing is changed. */
function examineStrictly(files: FileSystem, image: Image, expected: Expected): void {
  const { strict, maxSegmentBytes = MAX_SEGMENT_BYTES } = expected;
  const openStrictly = () => recoverLog(files, codec, ROOT, { maxSegmentBytes, fullScan: true, recovery: "strict" });
  if (strict === undefined) {
    const recovered = openStrictly();
    expect(recovered.losses.map(lossText)).toEqual(expected.losses ?? []);
    expect(recovered.gaps).toEqual([]);
    expect(shown(imageOf(files, ROOT))).toEqual(shown(imageAfter(image, expected)));
    return;
  }
  let refusal: unknown;
  try {
    openStrictly();
  } catch (error) {
    refusal = error;
  }
  expect(refusal).toBeInstanceOf(StorageError);
  expect(refusal).toMatchObject(strict);
  expect(shown(imageOf(files, ROOT))).toEqual(shown(image));
}

/**
 * The log as a broker has it, which reads bodies when they are asked for only (unless the cap is what this is about), and what
 * is written to it from then on.
 */
async function examineRunning(from: Image | string, expected: Expected): Promise<void> {
  const files = typeof from === "string" ? disk : inMemory(from);
  const root = typeof from === "string" ? from : ROOT;
  const { next = 11, maxSegmentBytes = MAX_SEGMENT_BYTES } = expected;
  const readOnly = expected.readOnly !== undefined;
  const log = Log.open(
    {
      root,
      fullScan: readOnly,
      maxSegmentBytes,
      maxPendingBytes: 1024 * 1024,
      durability: { level: "sync", flushIntervalMs: 1000, flushMaxBytes: 1024 * 1024 },
    },
    { files, codec, clock: new SimulatedClock() },
    { advanced() {}, rejected() {}, froze() {} },
  );
  const texts: string[] = [];
  for (let offset = log.earliestOffset; offset < next; offset++) {
    const window = log.read(offset, log.visibleHead);
    if (window === undefined) {
      expect(log.gapAt(offset), `offset ${offset}`).toBeDefined();
      continue;
    }
    const row = (offset - window.firstOffset) * FIELDS;
    const start = window.rows[row + FIELD_PAYLOAD];
    const payload = window.buffer.subarray(start, start + window.rows[row + FIELD_PAYLOAD_LENGTH]);
    texts.push(recordText(offset, window.rows[row + FIELD_FLAGS], payload));
  }
  expect(texts).toEqual(expected.served);
  expect(log.gaps.map(({ start, end }) => [start, end])).toEqual(expected.gaps ?? []);

  const { chunk, table } = publish({ payload: "written later" }, next);
  expect(log.append(chunk, table, 0, 1)).toBe(readOnly ? 0 : 1);
  const closed = log.close();
  if (files instanceof SimulatedFileSystem) files.runAll();
  await closed;
  expect(served(files, root)).toEqual(readOnly ? expected.served : [...expected.served, `${next}:written later`]);
}

/** A broker on the directory: a new group is given all that is served, the default group goes on where it was. */
async function examineBroker(image: Image, expected: Expected): Promise<void> {
  const { resumesAt = 5, maxSegmentBytes = MAX_SEGMENT_BYTES } = expected;
  const readOnly = expected.readOnly !== undefined;
  const options = { maxSegmentBytes, checkpointInterval: 1, fullScan: readOnly };
  const world = await World.start({ files: inMemory(image), options });
  const decodable = expected.served.filter((text) => !/^\d+!/.test(text)).map((text) => Number.parseInt(text, 10));
  expect(consume(world, "fresh")).toEqual(decodable);
  expect(consume(world, "")).toEqual(decodable.filter((offset) => offset >= resumesAt));
  expect(world.broker.readOnly).toBe(readOnly);
  await world.stop();
}

/** Offsets that a group is given until nothing comes any more, each settled. */
export function consume(world: World, group: string): number[] {
  const peer = world.client();
  peer.send(frame(Tag.Sub, new TextEncoder().encode(group)));
  peer.expectTags(Tag.Ok);
  const offsets: number[] = [];
  for (;;) {
    peer.send(flow(64));
    const frames = peer.received();
    if (frames.length === 1 && frames[0].tag === Tag.FlowEnd) return offsets;
    const delivered = frames.filter(({ tag }) => tag === Tag.Deliver);
    offsets.push(...delivered.map(offsetOf));
    peer.send(...delivered.map((deliver) => ackOf(deliver)));
    peer.received();
  }
}

function open(files: FileSystem, root: string, { maxSegmentBytes = MAX_SEGMENT_BYTES }: Expected): RecoveredLog {
  return recoverLog(files, codec, root, { maxSegmentBytes, fullScan: true });
}

/** What the offline reader gives, in order. */
export function served(files: FileSystem, root: string): string[] {
  const texts: string[] = [];
  for (const { offset, flags, payload } of readLog(files, codec, root)) texts.push(recordText(offset, flags, payload));
  return texts;
}

function recordText(offset: number, flags: number, payload: Uint8Array): string {
  try {
    const plain = (flags & RecordFlag.Compressed) === 0 ? payload : decompressPayload(payload, codec);
    const bytes = Buffer.from(plain);
    // Noise as digits, so that a failure can be looked at.
    return `${offset}:${bytes.every((byte) => byte >= 0x20 && byte < 0x7f) ? bytes : bytes.toString("hex")}`;
  } catch (error) {
    if (!(error instanceof CompressionError)) throw error;
    return `${offset}!${error.message}`;
  }
}

function gapsOf({ gaps }: { readonly gaps: readonly Gap[] }): number[][] {
  return gaps.map(({ start, end }) => [start, end]);
}

function imageAfter(before: Image, expected: Expected): Image {
  const after = new Map(before);
  if (expected.readOnly !== undefined) return after;
  for (const path of expected.removed ?? []) after.delete(path);
  for (const [path, length] of Object.entries(expected.cut ?? { [segmentName(3)]: 204 })) {
    after.set(path, (before.get(path) as Uint8Array).subarray(0, length));
  }
  for (const [path, bytes] of Object.entries(expected.rewritten ?? {})) after.set(path, bytes);
  for (const [blob, [path, start, end]] of Object.entries(expected.quarantine ?? {})) {
    after.set(`quarantine/${blob}`, (before.get(path) as Uint8Array).subarray(start, end));
  }
  if (expected.losses !== undefined) after.set("recovery-report.json", reportOf(expected.losses));
  return after;
}

function imageOf(files: FileSystem, root: string): Image {
  return files === disk ? readImage(root) : captureImage(files, root);
}

import type { Codec } from "../runtime/codec.ts";
import type { ReadableFile } from "./byte-window.ts";
import type { FrameScanner } from "./frame-scanner.ts";
import type { LossEvent } from "./loss-report.ts";
import { MIN_FRAME_LENGTH } from "./record.ts";
import { type ForwardWalk, type LostSpan, type Place, Salvage } from "./salvage.ts";
import { SEGMENT_FOOTER_LENGTH, type SegmentHeader } from "./segment.ts";
import { plausibleFooter, SegmentWalk } from "./segment-walk.ts";

/** The most bytes that one write without a barrier may hold (storage.md 14.2), unless it holds one record. */
const ONE_WRITE_BYTES = 1024 * 1024;
/** The same when the bad frame may be that one record: the largest record, and what stands around it. */
const ONE_RECORD_BYTES = 17 * 1024 * 1024;

/** What is kept of a log's last segment. */
export interface LastSegment {
  readonly recordCount: number;
  readonly endPosition: number;
  readonly sealed: boolean;
  /** Damage below a completed barrier, with intact records behind it. The file is left as it is then. */
  readonly lost: readonly LostSpan[];
  /** The torn or corrupt end behind everything that is kept. */
  readonly tail: LossEvent | undefined;
  /** Length the file may be cut to. */
  readonly keepLength: number;
}

/**
 * Storage.md 18.1 step 8 for a segment of known header: the end is cut at the first frame that is not intact. A bad frame
 * stays in the log as a hole only if no torn write can have left it: intact frames that are provably behind it reach
 * further than one write could, so a barrier was completed in between (docs/decisions/0021). Throws FileSystemError, and
 * StorageError OutOfRange and UnsupportedFeature.
 */
export function inspectLastSegment(
  codec: Codec,
  scanner: FrameScanner,
  file: ReadableFile,
  header: SegmentHeader,
  size: number,
): LastSegment {
  const walk = new SegmentWalk(codec, scanner, file, header, size, true);
  while (walk.next() > 0);
  const { loss, ...outcome } = walk.outcome();
  if (loss === undefined) return { ...outcome, lost: [], tail: undefined };

  const footer = plausibleFooter(codec, file, header, size);
  const from = { position: outcome.endPosition, sequence: header.baseSequence + outcome.recordCount };
  const sealEnd =
    footer === undefined
      ? undefined
      : { position: size - SEGMENT_FOOTER_LENGTH, sequence: header.baseSequence + footer.recordCount };
  const kept = behindBarrier(new Salvage(codec, file, scanner), from, size, loss.end, sealEnd);
  if (kept === undefined) return { ...outcome, lost: [], tail: loss };
  const { lost, end, reason } = kept;
  const sealed = sealEnd !== undefined && end.position === sealEnd.position;
  const writtenEnd = sealed ? end.position : loss.end;
  const tail: LossEvent | undefined =
    writtenEnd > end.position
      ? { segmentId: loss.segmentId, start: end.position, end: writtenEnd, recordsLostEstimate: 1, reason }
      : undefined;
  const recordCount = end.sequence - header.baseSequence;
  return { recordCount, endPosition: end.position, sealed, lost, tail, keepLength: size };
}

/** The holes from `from` on that are no torn write, and the end of what is kept; undefined when there are none. */
function behindBarrier(
  salvage: Salvage,
  from: Place,
  size: number,
  writtenEnd: number,
  sealEnd: Place | undefined,
): { lost: readonly LostSpan[]; end: Place; reason: LostSpan["reason"] } | undefined {
  const limit = sealEnd?.position ?? size;
  const walk = salvage.forward(from, limit, sealEnd?.sequence);
  const whole = beyondLostFraming(salvage, walk, size, writtenEnd, sealEnd) ?? {
    lost: walk.lost,
    end: walk.stop,
    intactEnd: walk.intactEnd,
  };
  const proven = whole.lost.filter(({ start }) => whole.intactEnd - start.position > ONE_WRITE_BYTES);
  if (proven.length === 0) return undefined;
  const doubtful = whole.lost.at(proven.length);
  return {
    lost: proven,
    end: doubtful?.start ?? whole.end,
    reason: doubtful?.reason ?? walk.reason,
  };
}

/** What the end of the file tells of the frames behind a place where the framing is lost, if that is enough. */
function beyondLostFraming(
  salvage: Salvage,
  walk: ForwardWalk,
  size: number,
  writtenEnd: number,
  sealEnd: Place | undefined,
): { lost: readonly LostSpan[]; end: Place; intactEnd: number } | undefined {
  const { stop } = walk;
  const leastBytes = sealEnd === undefined ? ONE_RECORD_BYTES : ONE_WRITE_BYTES;
  if (writtenEnd - stop.position <= Math.max(leastBytes, MIN_FRAME_LENGTH)) return undefined;
  const found =
    sealEnd === undefined
      ? salvage.towards(stop, size, writtenEnd, undefined)
      : { lost: salvage.between(stop, sealEnd), end: sealEnd };
  const last = found.lost.at(-1);
  if (found.end.position === stop.position || last === undefined) return undefined;
  const intactEnd = last.end.position === found.end.position ? last.start.position : found.end.position;
  if (intactEnd - stop.position <= leastBytes) return undefined;
  return { lost: [...walk.lost, ...found.lost], end: found.end, intactEnd };
}

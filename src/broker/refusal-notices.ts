import { isDiskFull } from "../log/disk-full.ts";
import type { Refusal } from "../log/refusal.ts";
import type { FileSystemError } from "../runtime/file-system.ts";

/** A cause that comes and goes is not told more often than this. */
const AGAIN_AFTER_MS = 60_000;
const MAX_REMEMBERED = 1024;
const UNTIL_ROOM = "until there is room; reading and acknowledging go on, positions are kept in memory until they fit";
/** What ends a refusal that is not the disk's. */
const LIFTED_BY = {
  "at-capacity": "until retention removes a segment or --max-total-bytes is raised",
  "daily-budget": "until the next UTC day or a higher --daily-write-budget-bytes",
} as const;

/**
 * Tells the operator in one line when publishing begins to be refused and in one when it goes on. What else does not fit
 * while the disk is full is part of that and not told one by one.
 */
export class RefusalNotices {
  readonly #warned: (message: string) => void;
  readonly #noted: (message: string) => void;
  /** By kind of refusal, `position`, or text. */
  readonly #toldMs = new Map<string, number>();
  #current: Refusal["kind"] | undefined;
  #told = false;

  constructor(warned: (message: string) => void, noted: (message: string) => void) {
    this.#warned = warned;
    this.#noted = noted;
  }

  /** The write probe of the data directory found the disk full (README ruling 11). */
  startedFull(error: FileSystemError, nowMs: number): void {
    this.#toldMs.set("disk-full", nowMs);
    this.#toldMs.set("position", nowMs);
    this.#warned(`the disk is full (${error.message}): publishing may be refused ${UNTIL_ROOM}`);
  }

  /** To be told a few times a second what the log refuses. */
  observe(refusal: Refusal | undefined, nowMs: number): void {
    if (refusal?.kind === this.#current) return;
    if (this.#told && refusal === undefined) this.#noted("publishing goes on");
    this.#current = refusal?.kind;
    this.#told = refusal !== undefined && this.#isDue(refusal.kind, nowMs);
    if (refusal === undefined || !this.#told) return;
    const cause = refusal.message.replace(/; produce rejected$/, "");
    const rest =
      refusal.kind === "disk-full" ? UNTIL_ROOM : `${LIFTED_BY[refusal.kind]}; reading and acknowledging go on`;
    this.#warned(`publishing is refused (${cause}) ${rest}`);
  }

  /** A step of recovery that could not be done without harm, or a position that could not be written and is kept. */
  failed(what: string, error: FileSystemError, nowMs: number): void {
    const message = `${what}: ${error.message}`;
    if (isDiskFull(error) && this.#current === "disk-full") return;
    // A dead disk fails every save of every group.
    if (this.#isDue(isDiskFull(error) ? "position" : message, nowMs)) this.#warned(message);
  }

  #isDue(what: string, nowMs: number): boolean {
    const toldMs = this.#toldMs.get(what);
    if (toldMs !== undefined && nowMs - toldMs < AGAIN_AFTER_MS) return false;
    if (this.#toldMs.size >= MAX_REMEMBERED) this.#toldMs.clear();
    this.#toldMs.set(what, nowMs);
    return true;
  }
}

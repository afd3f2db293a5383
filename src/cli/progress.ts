import { writeSync } from "node:fs";
import { isatty } from "node:tty";
import type { Progress } from "../offline/progress.ts";

const STDERR = 2;
/** At most five lines a second. */
const INTERVAL_MS = 200;
const MEBIBYTE = 1024 * 1024;

/** How far slow work is, on one line of a terminal that is written over and wiped at the end. */
export class ProgressLine {
  readonly #verb: string;
  readonly #write: (text: string) => void;
  readonly #nowMs: () => number;
  readonly #startMs: number;
  #shownMs: number;
  #shown = false;

  constructor(verb: string, write: (text: string) => void, nowMs: () => number) {
    this.#verb = verb;
    this.#write = write;
    this.#nowMs = nowMs;
    this.#startMs = nowMs();
    this.#shownMs = this.#startMs;
  }

  /** Shows the line anew, unless that was done a moment ago. */
  update(doneBytes: number, totalBytes: number): void {
    const now = this.#nowMs();
    if (now - this.#shownMs < INTERVAL_MS) return;
    this.#shownMs = now;
    this.#shown = true;
    const share = totalBytes === 0 ? 100 : Math.floor((100 * doneBytes) / totalBytes);
    const rate = (doneBytes / MEBIBYTE / (now - this.#startMs)) * 1000;
    this.#write(
      `\r\u001b[K${this.#verb}: ${mebibytes(doneBytes)} of ${mebibytes(totalBytes)} MiB (${share} %), ${rate.toFixed(0)} MiB/s`,
    );
  }

  /** Takes the line away, so that what is printed next begins at the margin. */
  clear(): void {
    if (this.#shown) this.#write("\r\u001b[K");
    this.#shown = false;
  }
}

function mebibytes(bytes: number): string {
  return (bytes / MEBIBYTE).toFixed(1);
}

/**
 * Runs `work` with a progress line on standard error where that is a terminal, with none otherwise and when `wanted` is
 * false. The work does not return to the event loop, so the line is written past the output's queue.
 */
export function withProgress<T>(verb: string, wanted: boolean, work: (progress: Progress | undefined) => T): T {
  if (!wanted || !isatty(STDERR)) return work(undefined);
  const line = new ProgressLine(verb, writeToTerminal, () => performance.now());
  try {
    return work((done, total) => line.update(done, total));
  } finally {
    line.clear();
  }
}

function writeToTerminal(text: string): void {
  try {
    writeSync(STDERR, text);
  } catch {
    // A terminal that is gone or busy: the line is a courtesy.
  }
}

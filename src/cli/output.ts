import type { Writable } from "node:stream";
import { CliError } from "./errors.ts";

/** Buffered bytes from which a verb should flush(). */
const FLUSH_BYTES = 65_536;
/** Most output that one envelope holds; what is larger has forms of its own to be had in. */
const MAX_CAPTURED_BYTES = 67_108_864;
/** How long the end of the process waits for a stderr that nobody reads. */
const STDERR_GRACE_MS = 1000;

/** Standard output cannot be written any more. `code` is `EPIPE` when its reader went away. */
export class OutputError extends CliError {
  readonly code: string;

  constructor(code: string) {
    super("internal", `io error: stdout: ${code}`);
    this.code = code;
  }
}

/**
 * The only writer of stdout and stderr. write() buffers; flush() resolves when the kernel has taken everything, and
 * rejects with OutputError when it cannot: what a verb prints and then acts upon is on its way by then.
 */
export class Output {
  readonly #stdout: Writable;
  readonly #stderr: Writable;
  readonly #capture: boolean;
  #buffered: Uint8Array[] = [];
  #bufferedBytes = 0;
  #captured: Uint8Array[] = [];
  #capturedBytes = 0;
  #stderrPending = 0;
  #onStderrIdle: (() => void) | undefined;

  /** With `capture` nothing reaches stdout before the envelope, which needs all of it. */
  constructor(stdout: Writable, stderr: Writable, capture: boolean) {
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.#capture = capture;
    // Without a listener an EPIPE ends the process; failures reach flush() through its own callback.
    stdout.on("error", () => {});
    stderr.on("error", () => {});
  }

  get captures(): boolean {
    return this.#capture;
  }

  /** Enough is buffered that the next thing to do is flush(). */
  get full(): boolean {
    return this.#bufferedBytes >= FLUSH_BYTES;
  }

  write(data: string | Uint8Array): void {
    const bytes = typeof data === "string" ? Buffer.from(data) : data;
    this.#buffered.push(bytes);
    this.#bufferedBytes += bytes.length;
  }

  line(text: string): void {
    this.write(`${text}\n`);
  }

  async flush(): Promise<void> {
    if (this.#bufferedBytes === 0) {
      return;
    }
    const buffered = this.#buffered;
    const bytes = this.#bufferedBytes;
    this.#buffered = [];
    this.#bufferedBytes = 0;
    if (this.#capture) {
      this.#capturedBytes += bytes;
      if (this.#capturedBytes > MAX_CAPTURED_BYTES) {
        this.#captured = [];
        throw new CliError("internal", `io error: more than ${MAX_CAPTURED_BYTES} bytes of output for one envelope`);
      }
      // Payload views may belong to buffers that are used again.
      this.#captured.push(Buffer.concat(buffered));
      return;
    }
    await this.#send(buffered.length === 1 ? buffered[0] : Buffer.concat(buffered));
  }

  /** What was printed so far, for the envelope. */
  captured(): Uint8Array {
    return Buffer.concat(this.#captured);
  }

  /** Writes the envelope line itself, past the capture. */
  async envelope(line: string): Promise<void> {
    await this.#send(Buffer.from(line));
  }

  /** One line (or several) on stderr; its loss stops nothing. */
  note(text: string): void {
    this.#stderrPending++;
    this.#stderr.write(`${text}\n`, () => {
      this.#stderrPending--;
      if (this.#stderrPending === 0) {
        this.#onStderrIdle?.();
      }
    });
  }

  /** Resolves when stderr took everything, or nobody reads it. */
  async settleNotes(): Promise<void> {
    if (this.#stderrPending === 0) {
      return;
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, STDERR_GRACE_MS);
      this.#onStderrIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #send(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#stdout.write(bytes, (error) => {
        if (error == null) {
          resolve();
        } else {
          reject(new OutputError((error as NodeJS.ErrnoException).code ?? error.message));
        }
      });
    });
  }
}

/** Reports what nothing caught, and ends the process: a broker that went on would be in an unknown state. */
export function endOnUncaught(exitCode: number): void {
  const end = (error: unknown) => {
    const detail = error instanceof Error ? (error.stack ?? error.message) : String(error);
    process.stderr.on("error", () => {});
    process.stderr.write(`error: internal: ${detail}\n`, () => process.exit(exitCode));
  };
  process.on("uncaughtException", end);
  process.on("unhandledRejection", end);
}

import { CliError } from "./errors.ts";

/** After an interruption: how long a pause of the input means that it holds nothing more for now. */
const QUIET_MS = 500;
/** After an interruption: most bytes read on; the largest pipe that an unprivileged writer can have filled. */
const INTERRUPTED_BYTES = 1_048_576;

/** How the reading ended: at the end of the input, or before it because of a signal. */
export type InputEnd = "end" | "interrupted";

/**
 * The chunks of stdin up to its end. Nothing is read ahead of the consumer but what the runtime buffers. Once `signal`
 * is aborted, what the pipe still holds is read on, until the input ends, pauses or 1 MiB came: a writer that was
 * interrupted together with this process loses nothing. Throws CliError when stdin cannot be read.
 */
export async function* readStandardInput(signal: AbortSignal): AsyncGenerator<Uint8Array, InputEnd> {
  const chunks = process.stdin[Symbol.asyncIterator]() as AsyncIterator<Uint8Array, undefined>;
  let bytesLeft = INTERRUPTED_BYTES;
  for (;;) {
    const chunk = await nextChunk(chunks, signal);
    if (chunk === "end") {
      return "end";
    }
    if (chunk === "quiet") {
      return "interrupted";
    }
    yield chunk;
    if (signal.aborted) {
      bytesLeft -= chunk.length;
      if (bytesLeft <= 0) {
        return "interrupted";
      }
    }
  }
}

function nextChunk(
  chunks: AsyncIterator<Uint8Array, undefined>,
  signal: AbortSignal,
): Promise<Uint8Array | "end" | "quiet"> {
  return new Promise((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const expectQuiet = () => {
      timer = setTimeout(() => resolve("quiet"), QUIET_MS);
    };
    if (signal.aborted) {
      expectQuiet();
    } else {
      signal.addEventListener("abort", expectQuiet, { once: true });
    }
    const settle = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", expectQuiet);
    };
    chunks.next().then(
      (result) => {
        settle();
        resolve(result.done ? "end" : result.value);
      },
      (error: unknown) => {
        settle();
        const code = (error as NodeJS.ErrnoException).code ?? String(error);
        reject(new CliError("internal", `io error: stdin: ${code}`));
      },
    );
  });
}

/**
 * All of stdin, or undefined when it is longer than `maxBytes`; no more than that is kept. Throws CliError when stdin
 * cannot be read.
 */
export async function readAllInput(maxBytes: number): Promise<Uint8Array | undefined> {
  const never = new AbortController().signal;
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of readStandardInput(never)) {
    bytes += chunk.length;
    if (bytes > maxBytes) {
      return undefined;
    }
    parts.push(chunk);
  }
  return Buffer.concat(parts);
}

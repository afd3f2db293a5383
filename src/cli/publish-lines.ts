import { BrokerError, ProduceError, type ProduceProgress, type ProduceRecord } from "../client/index.ts";
import type { Address } from "../config/address.ts";
import { clientFailure, withClient } from "./broker-connection.ts";
import { CliError } from "./errors.ts";
import { LineSplitter, LineTooLongError } from "./line-splitter.ts";
import { maxPayloadBytes } from "./payload-limit.ts";
import { Interruption } from "./signals.ts";
import { type InputEnd, readStandardInput } from "./standard-input.ts";
import type { Context } from "./verb.ts";

/** The lines of stdin as batches of records; remembers how the input ended. */
class LineSource {
  readonly splitter: LineSplitter;
  inputEnd: InputEnd | undefined;
  endedWithNewline = true;
  readonly #key: Uint8Array;
  readonly #signal: AbortSignal;

  constructor(key: Uint8Array, signal: AbortSignal) {
    this.splitter = new LineSplitter(maxPayloadBytes(key.length));
    this.#key = key;
    this.#signal = signal;
  }

  async *batches(): AsyncGenerator<readonly (Uint8Array | ProduceRecord)[]> {
    const chunks = readStandardInput(this.#signal);
    for (;;) {
      const chunk = await chunks.next();
      if (chunk.done) {
        this.inputEnd = chunk.value;
        break;
      }
      for (const lines of this.splitter.split(chunk.value)) {
        yield this.#records(lines);
      }
    }
    this.endedWithNewline = this.splitter.endedWithNewline;
    // Only at the end of the input is an unfinished line known to be whole.
    if (this.inputEnd === "end") {
      const last = this.splitter.finish();
      if (last !== undefined) {
        yield this.#records([last]);
      }
    }
  }

  #records(lines: Uint8Array[]): readonly (Uint8Array | ProduceRecord)[] {
    const key = this.#key;
    return key.length === 0 ? lines : lines.map((payload) => ({ key, payload }));
  }
}

function summary(progress: ProduceProgress, source: LineSource): string {
  const last = progress.lastOffset === undefined ? "" : `, last durable offset ${progress.lastOffset}`;
  const newline = source.inputEnd === "end" && !source.endedWithNewline ? ", no newline at end of input" : "";
  return `published ${progress.acknowledged} record(s)${last}${newline}`;
}

/** What became of the lines that were read, for the error after which nothing more is sent. */
function account(progress: ProduceProgress, lines: number, refusedLine: number | undefined): string {
  const last = progress.lastOffset === undefined ? "" : ` (last offset ${progress.lastOffset})`;
  const rest = lines - progress.acknowledged - progress.rejected;
  const refused = refusedLine === undefined ? "" : `, line ${refusedLine} was refused`;
  const more = progress.rejected > 1 ? `, ${progress.rejected - 1} more too` : "";
  const unknown = rest > 0 ? `, ${rest} were not acknowledged` : "";
  return `; of ${lines} line(s) read ${progress.acknowledged} are durable${last}${refused}${more}${unknown}`;
}

function produceFailure(address: Address, { cause, progress }: ProduceError, source: LineSource): unknown {
  if (cause instanceof LineTooLongError) {
    return new CliError("internal", cause.message);
  }
  const refusedLine = cause instanceof BrokerError && cause.index !== undefined ? cause.index + 1 : undefined;
  return clientFailure("publishing to", address, cause, account(progress, source.splitter.lines, refusedLine));
}

/**
 * Publishes each line of stdin as one record, pipelined; what is read ahead is bounded by the window, so memory does not
 * grow with the input. Prints the count and the last durable offset at the end, on a signal, and before any failure.
 */
export function publishLines(address: Address, key: Uint8Array, { output }: Context): Promise<number> {
  return withClient(address, async (client) => {
    const interruption = new Interruption();
    const source = new LineSource(key, interruption.signal);
    try {
      output.line(summary(await client.produceAll(source.batches()), source));
    } catch (error) {
      if (!(error instanceof ProduceError)) {
        throw error;
      }
      output.line(summary(error.progress, source));
      throw produceFailure(address, error, source);
    } finally {
      interruption.dispose();
    }
    if (source.inputEnd !== "interrupted") {
      return 0;
    }
    const rest = source.splitter.unfinishedBytes;
    const unfinished = rest > 0 ? `, ${rest} byte(s) of an unfinished line were dropped` : "";
    output.note(
      `interrupted: the input was read up to line ${source.splitter.lines}${unfinished}; the rest was not read`,
    );
    return interruption.exitCode;
  });
}

import type { Advisory, Client, Message, Settlement } from "../client/index.ts";
import type { Address } from "../config/address.ts";
import { clientFailure, type Doing, withClient } from "./broker-connection.ts";
import { type Output, OutputError } from "./output.ts";
import { Interruption } from "./signals.ts";
import type { Disposition, Subscription } from "./subscription.ts";
import type { Context } from "./verb.ts";

/** Pause before asking an empty queue again; doubles up to the longest. */
const FIRST_POLL_MS = 10;
const LONGEST_POLL_MS = 200;
const MAX_FETCH = 0xffff_ffff;

const SETTLING: Readonly<Record<Disposition, Doing>> = {
  peek: "fetching from",
  ack: "acking to",
  nack: "nacking to",
  term: "terminating on",
};
const DONE: Readonly<Record<Disposition, string>> = {
  peek: "",
  ack: "ack committed",
  nack: "nack requeued",
  term: "term dropped",
};

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

function messageLine(message: Message): string {
  const key = decoder.decode(message.key);
  const payload = decoder.decode(message.payload);
  return `#${message.offset} gen=${message.generation} key=${key} payload=${payload}`;
}

function advisoryLines(advisories: readonly Advisory[]): string[] {
  const deadLetters: string[] = [];
  const truncations: string[] = [];
  for (const advisory of advisories) {
    if (advisory.kind === "dead-letter") {
      const reason = advisory.reason === 0 ? "max-deliver" : "reserved";
      deadLetters.push(`dead-letter offset=${advisory.offset} reason=${reason}`);
    } else {
      const resumed = advisory.kind === "truncated" ? advisory.earliestRetained : advisory.to;
      const skipped = advisory.kind === "truncated" ? advisory.skipped : advisory.to - advisory.from;
      truncations.push(`truncated: resumed at offset ${resumed}, skipped ${skipped} record(s)`);
    }
  }
  return [...deadLetters, ...truncations];
}

/** One run of `sub`: fetches, prints, settles, in that order for each message (ruling 14: an ack follows the output). */
class Consumption {
  readonly #client: Client;
  readonly #address: Address;
  readonly #wanted: Subscription;
  readonly #output: Output;
  readonly #interruption: Interruption;
  #printed = 0;
  #fenced = 0;

  constructor(client: Client, address: Address, wanted: Subscription, output: Output, interruption: Interruption) {
    this.#client = client;
    this.#address = address;
    this.#wanted = wanted;
    this.#output = output;
    this.#interruption = interruption;
  }

  async run(): Promise<number> {
    const { group, max, disposition, follow, idleTimeoutMs } = this.#wanted;
    if (group !== "") {
      await this.#call("subscribing to", this.#client.subscribe(group));
    }
    const loops = follow || disposition === "ack" || disposition === "term";
    let pollMs = FIRST_POLL_MS;
    let idleSince = performance.now();
    while (!this.#interruption.interrupted && (max === undefined || this.#printed < max)) {
      const remaining = max === undefined ? MAX_FETCH : max - this.#printed;
      const batch = await this.#call("fetching from", this.#client.fetch({ max: remaining }));
      await this.#take(batch.messages);
      this.#report(advisoryLines(batch.advisories));
      await this.#output.flush();
      if (batch.messages.length + batch.advisories.length > 0) {
        idleSince = performance.now();
        pollMs = FIRST_POLL_MS;
      } else if (!follow || (idleTimeoutMs !== undefined && performance.now() - idleSince >= idleTimeoutMs)) {
        break;
      } else {
        const left = idleTimeoutMs === undefined ? pollMs : idleTimeoutMs - (performance.now() - idleSince);
        await this.#pause(Math.max(1, Math.min(pollMs, left)));
        pollMs = Math.min(pollMs * 2, LONGEST_POLL_MS);
      }
      if (!loops) {
        break;
      }
    }
    this.#finish();
    return follow ? 0 : this.#interruption.exitCode;
  }

  async #take(messages: readonly Message[]): Promise<void> {
    if (this.#wanted.output === "raw") {
      await this.#takeRaw(messages);
    } else {
      await this.#takeText(messages);
    }
  }

  async #takeText(messages: readonly Message[]): Promise<void> {
    const { disposition } = this.#wanted;
    for (const message of messages) {
      if (this.#interruption.interrupted) {
        return;
      }
      this.#output.line(messageLine(message));
      this.#printed++;
      if (disposition === "peek") {
        if (this.#output.full) {
          await this.#output.flush();
        }
        continue;
      }
      await this.#output.flush();
      const settlement = await this.#call(SETTLING[disposition], this.#settle(message));
      this.#output.line(`  ${settlement === "done" ? DONE[disposition] : `${disposition} fenced`}`);
    }
  }

  async #takeRaw(messages: readonly Message[]): Promise<void> {
    if (messages.length === 0) {
      return;
    }
    for (const message of messages) {
      this.#output.write(message.payload);
      this.#output.write("\n");
    }
    this.#printed += messages.length;
    await this.#output.flush();
    const { disposition, delayMs } = this.#wanted;
    const client = this.#client;
    const settled =
      disposition === "ack"
        ? client.ackAll(messages)
        : disposition === "term"
          ? client.termAll(messages)
          : disposition === "nack"
            ? client.nackAll(messages, { delayMs })
            : undefined;
    if (settled !== undefined) {
      this.#fenced += (await this.#call(SETTLING[disposition], settled)).fenced.length;
    }
  }

  #settle(message: Message): Promise<Settlement> {
    switch (this.#wanted.disposition) {
      case "nack":
        return this.#client.nack(message, { delayMs: this.#wanted.delayMs });
      case "term":
        return this.#client.term(message);
      default:
        return this.#client.ack(message);
    }
  }

  /** What is not a payload: to stdout as text, to stderr when stdout is for payloads alone. */
  #report(lines: readonly string[]): void {
    for (const line of lines) {
      if (this.#wanted.output === "raw") {
        this.#output.note(line);
      } else {
        this.#output.line(line);
      }
    }
  }

  #finish(): void {
    if (this.#fenced > 0) {
      this.#output.note(`${this.#fenced} message(s) were fenced: their lease had run out, they come again`);
    }
    this.#report([`fetched ${this.#printed} message(s)`]);
  }

  async #call<Value>(doing: Doing, call: Promise<Value>): Promise<Value> {
    try {
      return await call;
    } catch (error) {
      throw clientFailure(doing, this.#address, error);
    }
  }

  #pause(delayMs: number): Promise<void> {
    const { signal } = this.#interruption;
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, delayMs);
      signal.addEventListener("abort", end);
    });
  }
}

/**
 * Takes messages as `wanted` says and prints them (cli.md 3.2, 12.2). A reader of stdout that goes away ends it quietly,
 * with exit code 0: what was written is settled, the rest stays leased until it is delivered again.
 */
export async function consume(address: Address, wanted: Subscription, { output }: Context): Promise<number> {
  try {
    return await withClient(address, async (client) => {
      const interruption = new Interruption();
      try {
        const exitCode = await new Consumption(client, address, wanted, output, interruption).run();
        await output.flush();
        return exitCode;
      } finally {
        interruption.dispose();
      }
    });
  } catch (error) {
    if (error instanceof OutputError && error.code === "EPIPE") {
      return 0;
    }
    throw error;
  }
}

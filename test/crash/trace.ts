import { spawnSync } from "node:child_process";

/** One system call of a trace; `begun` and `ended` are positions in the order in which the kernel was seen to do things. */
export interface Call {
  readonly name: string;
  /** The file that the first argument stands for, or the path that is opened or removed; a socket is `socket:[n]`. */
  readonly path: string;
  /** What is written; empty for other calls. */
  readonly data: Buffer;
  /** `data` is the beginning only: the trace has no more of it. */
  readonly cutShort: boolean;
  /** Where a positioned write goes; -1 for others. */
  readonly position: number;
  /** The arguments behind the first one, as traced. */
  readonly rest: string;
  readonly result: number;
  readonly begun: number;
  readonly ended: number;
}

/** What `strace` has to be asked for, so that a trace can be read by parseTrace(). */
export const TRACED_CALLS = [
  ...["openat", "unlink", "pwrite64", "pwritev", "pwritev2", "write", "writev", "sendto", "sendmsg"],
  ...["fdatasync", "fsync", "ftruncate", "fallocate", "io_uring_enter"],
];

/** The command that traces the command behind it to `file`; the process that is started is the traced one. */
export function tracing(file: string): string[] {
  return ["strace", "-D", "-f", "-xx", "-y", "-s", "65536", "-o", file, "-e", `trace=${TRACED_CALLS.join(",")}`];
}

/** Why nothing can be traced here, or undefined. */
export function whyNoTrace(): string | undefined {
  const { error, status, stderr } = spawnSync("strace", ["-o", "/dev/null", "true"]);
  if (error !== undefined) return `strace cannot be run: ${error.message}`;
  return status === 0 ? undefined : `strace ended with ${status}: ${stderr}`;
}

/** The calls of a trace, in the order in which they ended. Throws for a line that it does not understand. */
export function parseTrace(text: string): Call[] {
  const calls: Call[] = [];
  /** By thread: the call that it is in, its beginning as traced. */
  const begun = new Map<string, { text: string; at: number }>();
  for (const [at, line] of text.split("\n").entries()) {
    const [, thread, event] = /^(\d+) +(.*)$/.exec(line) ?? [];
    if (event === undefined || /^(\+\+\+|---) /.test(event)) continue;
    const unfinished = /^(.*?),? *<unfinished \.\.\.>$/.exec(event);
    if (unfinished !== null) {
      begun.set(thread, { text: unfinished[1], at });
      continue;
    }
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(event);
    const start = resumed === null ? undefined : begun.get(thread);
    if (resumed !== null && start === undefined) throw new Error(`resumed before it began: ${line}`);
    const whole = start === undefined ? event : `${start.text}${resumed?.[1]}`;
    const call = /^(\w+)\((.*)\) += (-?\d+|\?)/s.exec(whole);
    if (call === null) throw new Error(`not a system call: ${whole.slice(0, 200)}`);
    calls.push(callOf(call[1], call[2], Number(call[3]), start?.at ?? at, at));
  }
  return calls;
}

function callOf(name: string, traced: string, result: number, begun: number, ended: number): Call {
  const at = name === "openat" ? traced.indexOf(", ") + 2 : 0;
  const first = /^(?:\d+<([^>]*)>|"([^"]*)")(.*)$/s.exec(traced.slice(at));
  const rest = first?.[3] ?? "";
  const strings = [...rest.matchAll(/"([^"]*)"(\.\.\.)?/g)];
  return {
    name,
    path: bytesOf(first?.[1] ?? first?.[2] ?? "").toString(),
    data: Buffer.concat(strings.map(([, hex]) => bytesOf(hex))),
    cutShort: strings.some(([, , cut]) => cut !== undefined),
    position: name.startsWith("pwrite") ? Number(/, (\d+)(?:, [A-Z0|_]+)?$/.exec(rest)?.[1] ?? -1) : -1,
    rest,
    result,
    begun,
    ended,
  };
}

function bytesOf(escaped: string): Buffer {
  return Buffer.from(escaped.replaceAll("\\x", ""), "hex");
}

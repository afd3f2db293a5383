import { EXIT_CODES, type Failure } from "./errors.ts";

const SCHEMA = "ironbus.cli.v1";

const SHORT_ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
};

/** A JSON string as upstream writes it: `"`, `\`, \n, \r, \t short, other bytes below 0x20 as \u00xx, all else raw. */
export function jsonString(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters JSON wants escaped
  const escaped = text.replace(/["\\\u0000-\u001f]/g, (character) => {
    return SHORT_ESCAPES[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
  return `"${escaped}"`;
}

/** The envelope of a verb that ended with exit code 0 (cli.md 1.4, frozen), with its newline. */
export function successEnvelope(captured: Uint8Array): string {
  const stdout = new TextDecoder("utf-8", { ignoreBOM: true }).decode(captured);
  const lines = stdout.split("\n");
  if (lines[lines.length - 1] === "") {
    lines.pop();
  }
  const data = `{"stdout":${jsonString(stdout)},"lines":[${lines.map(jsonString).join(",")}]}`;
  return `{"schema":"${SCHEMA}","ok":true,"exit_code":0,"data":${data}}\n`;
}

/** The envelope of any other end, with its newline. */
export function failureEnvelope(exitCode: number, kind: string, message: string): string {
  const error = `{"kind":${jsonString(kind)},"message":${jsonString(message)}}`;
  return `{"schema":"${SCHEMA}","ok":false,"exit_code":${exitCode},"error":${error}}\n`;
}

export function envelopeOf(failure: Failure): string {
  return failureEnvelope(EXIT_CODES[failure.kind], failure.kind, failure.message);
}

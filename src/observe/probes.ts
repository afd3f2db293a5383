import type { HealthState } from "./shared-health.ts";

export interface Answer {
  readonly code: number;
  readonly body: string;
}

const REASONS: Readonly<Record<number, string>> = {
  200: "OK",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  414: "URI Too Long",
  503: "Service Unavailable",
};

export const METHOD_NOT_ALLOWED: Answer = { code: 405, body: "only GET is supported" };
export const NOT_FOUND: Answer = { code: 404, body: "unknown endpoint" };
export const LINE_TOO_LONG: Answer = { code: 414, body: "request line too long" };
export const LINE_TOO_SLOW: Answer = { code: 408, body: "request line not received in time" };
export const SHUTTING_DOWN: Answer = { code: 503, body: "shutting down" };
export const NO_PROGRESS: Answer = { code: 503, body: "no event-loop progress" };

const GONE: Answer = { code: 503, body: "append actor gone" };
const WEDGED: Answer = { code: 503, body: "append actor wedged" };

/** Liveness: the process can make progress (observability.md 1.3). `progressing`: the broker's event loop turned lately. */
export function liveness(state: HealthState, progressing: boolean): Answer {
  if (!progressing) return NO_PROGRESS;
  if (state.stopped && !state.draining) return GONE;
  if (state.wedged) return WEDGED;
  return { code: 200, body: "ok" };
}

/** Readiness: send work. */
export function readiness(state: HealthState): Answer {
  if (state.draining) return { code: 503, body: "draining" };
  if (state.stopped) return GONE;
  if (state.wedged) return WEDGED;
  if (state.frozen) return { code: 503, body: "writer frozen" };
  return { code: 200, body: "ready" };
}

/** The whole response: status line, the three headers in their order, the body as it is. */
export function encodeAnswer({ code, body }: Answer): Uint8Array {
  const bytes = Buffer.from(body);
  const head =
    `HTTP/1.1 ${code} ${REASONS[code]}\r\nContent-Type: text/plain; charset=utf-8\r\n` +
    `Content-Length: ${bytes.length}\r\nConnection: close\r\n\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), bytes]);
}

/** Method and target of a request line, the query cut off. */
export function parseRequestLine(line: string): { readonly method: string; readonly path: string } {
  const [method = "", target = ""] = line.trim().split(/\s+/);
  const query = target.indexOf("?");
  return { method, path: query < 0 ? target : target.slice(0, query) };
}

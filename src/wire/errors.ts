/**
 * Why bytes are not a frame or body, or a message cannot be encoded. The first six are the vocabulary of wire.md 3, whose
 * texts a server may echo in an `Err`; the two `frame-` kinds end the connection (wire.md 1).
 */
export type WireErrorKind =
  | "truncated"
  | "length-exceeds"
  | "var-too-long"
  | "unknown-ack-op"
  | "trailing-bytes"
  | "unknown-version"
  | "frame-zero"
  | "frame-too-large"
  | "flow-credit"
  | "unknown-auth-mechanism"
  | "unknown-tag"
  | "unknown-kind"
  | "out-of-range"
  | "bad-text"
  | "bad-record";

/** A malformed frame or body, or a message that has no encoding. */
export class WireError extends Error {
  readonly kind: WireErrorKind;

  constructor(kind: WireErrorKind, message: string) {
    super(message);
    this.name = "WireError";
    this.kind = kind;
  }
}

export const truncated = (): WireError => new WireError("truncated", "message body is truncated");
export const lengthExceeds = (): WireError => new WireError("length-exceeds", "a length field exceeds the body");
export const varTooLong = (): WireError => new WireError("var-too-long", "a variable field exceeds the u16 wire limit");
export const unknownAckOp = (op: number): WireError => new WireError("unknown-ack-op", `unknown ack op ${op}`);
export const trailingBytes = (): WireError => new WireError("trailing-bytes", "unexpected trailing bytes in the body");
export const unknownVersion = (version: number): WireError =>
  new WireError("unknown-version", `unknown handshake body version ${version}`);
export const frameZero = (): WireError => new WireError("frame-zero", "frame length prefix is zero");
export const frameTooLarge = (length: number, cap: number): WireError =>
  new WireError("frame-too-large", `frame length ${length} exceeds the cap ${cap}`);
export const flowCredit = (): WireError => new WireError("flow-credit", "flow credit must be a u32");
export const unknownKind = (what: string, value: number): WireError =>
  new WireError("unknown-kind", `unknown ${what} ${value}`);
export const outOfRange = (what: string): WireError => new WireError("out-of-range", `${what} is out of range`);

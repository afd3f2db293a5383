const STRICT = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const LOSSY = new TextDecoder("utf-8", { ignoreBOM: true });
const ENCODER = new TextEncoder();

/** UTF-8 bytes of `text`. */
export function encodeUtf8(text: string): Uint8Array {
  return ENCODER.encode(text);
}

/** The text, or undefined when the bytes are not UTF-8; each verb has its own error for that (wire.md 7.4). */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return STRICT.decode(bytes);
  } catch {
    return undefined;
  }
}

/** The text, with U+FFFD in place of what is not UTF-8. */
export function decodeUtf8Lossy(bytes: Uint8Array): string {
  return LOSSY.decode(bytes);
}

import { SeededRandom } from "../../src/runtime/random-seeded.ts";

/** Writers and indices are told apart by one number: a payload's identity. */
const INDICES = 2 ** 24;

/** Printable characters in no order, so that no compressor finds anything; neither does a line splitter. */
const NOISE = Buffer.from(new SeededRandom(1).bytes(96 * 1024).map((byte) => 33 + (byte % 94)));
const PATTERN = Buffer.alloc(64 * 1024, "temperature=21.5 humidity=40 pressure=1013 ");

/** Which payload: the `index`th of `writer`. */
export function identityOf(writer: number, index: number): number {
  return writer * INDICES + index;
}

/**
 * The one payload of that identity: it names itself, and all of its bytes follow from the name. Mostly up to 300 bytes,
 * some up to 4 KiB, few up to 40 KiB; half of them compress.
 */
export function payloadOf(writer: number, index: number): Buffer {
  const mix = Math.imul(identityOf(writer, index) + 0x9e37, 0x85ebca6b) >>> 0;
  const spread = mix >>> 8;
  const length = mix % 32 === 0 ? spread % 40_000 : mix % 4 === 1 ? spread % 4_000 : spread % 300;
  const body = (mix & 32) === 0 ? PATTERN.subarray(0, length) : NOISE.subarray(mix % 50_000, (mix % 50_000) + length);
  return Buffer.concat([Buffer.from(`${writer}/${index}/${length} `), body]);
}

/** The identity of a payload that is what it was when it was published. Throws for any other. */
export function identify(payload: Uint8Array): number {
  const bytes = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
  const name = /^(\d+)\/(\d+)\/\d+ /.exec(bytes.toString("latin1", 0, 40));
  if (name === null) throw new Error(`a payload that nobody published: ${bytes.toString("latin1", 0, 60)}`);
  const [writer, index] = [Number(name[1]), Number(name[2])];
  if (!bytes.equals(payloadOf(writer, index))) throw new Error(`payload ${writer}/${index} is not what was published`);
  return identityOf(writer, index);
}

export function nameOf(identity: number): string {
  return `${Math.floor(identity / INDICES)}/${identity % INDICES}`;
}

import fc from "fast-check";

/**
 * Inputs of each property: IRONBUS_FUZZ_RUNS, else few enough for every run of the tests. The same IRONBUS_FUZZ_SEED gives the
 * same inputs; a failure prints the seed and the path to its smallest input.
 */
const RUNS = wholeNumber("IRONBUS_FUZZ_RUNS", 300);
const SEED = wholeNumber("IRONBUS_FUZZ_SEED", 20_240_601);

function wholeNumber(name: string, otherwise: number): number {
  const text = process.env[name];
  if (text === undefined) return otherwise;
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new Error(`${name} is not a whole number above 0: ${text}`);
  return Number(text);
}

/** Checks `property` of many inputs. `cost`: how many times fewer of them than of the cheapest. */
export function fuzz<T>(inputs: fc.Arbitrary<T>, property: (input: T) => void, cost = 1): void {
  fc.assert(
    fc.property(inputs, (input) => {
      property(input);
    }),
    { seed: SEED, numRuns: Math.ceil(RUNS / cost) },
  );
}

/** Values that lengths and counts go wrong at. */
const SHARP_U32 = [0, 1, 7, 8, 44, 0x7fff_ffff, 0x8000_0000, 0x3fff_ffff, 0x4000_0000, 0xffff_fffe, 0xffff_ffff];

/** One change to bytes; positions wrap around. */
export type Mutation =
  | { readonly flip: number; readonly bit: number }
  | { readonly word: number; readonly value: number }
  | { readonly cut: number }
  | { readonly tail: Uint8Array }
  | { readonly noise: Uint8Array; readonly at: number }
  | { readonly zeros: number; readonly at: number }
  /** A stretch that is there twice, and one that is missing. */
  | { readonly twice: number; readonly at: number }
  | { readonly without: number; readonly at: number };

const position = fc.nat();
const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.record({ flip: position, bit: fc.nat(7) }),
  fc.record({ word: position, value: fc.constantFrom(...SHARP_U32) }),
  fc.record({ cut: position }),
  fc.record({ tail: fc.uint8Array({ minLength: 1, maxLength: 80 }) }),
  fc.record({ noise: fc.uint8Array({ minLength: 1, maxLength: 60 }), at: position }),
  fc.record({ zeros: fc.nat(300), at: position }),
  fc.record({ twice: fc.nat(200), at: position }),
  fc.record({ without: fc.nat(200), at: position }),
);

export const mutations = fc.array(mutation, { minLength: 1, maxLength: 3 });

/** A copy of `bytes` with these changes, one after the other. */
export function mutate(bytes: Uint8Array, steps: readonly Mutation[]): Uint8Array {
  return steps.reduce(apply, bytes.slice());
}

function apply(bytes: Uint8Array, step: Mutation): Uint8Array {
  const within = (position: number) => (bytes.length === 0 ? 0 : position % bytes.length);
  const spliced = (start: number, end: number) =>
    new Uint8Array(Buffer.concat([bytes.subarray(0, start), bytes.subarray(end)]));
  if ("tail" in step) return new Uint8Array(Buffer.concat([bytes, step.tail]));
  if (bytes.length < 4) return bytes;
  if ("flip" in step) {
    bytes[within(step.flip)] ^= 1 << step.bit;
  } else if ("word" in step) {
    new DataView(bytes.buffer).setUint32(step.word % (bytes.length - 3), step.value, true);
  } else if ("cut" in step) {
    return bytes.slice(0, within(step.cut));
  } else if ("noise" in step) {
    const start = within(step.at);
    bytes.set(step.noise.subarray(0, bytes.length - start), start);
  } else if ("zeros" in step) {
    bytes.fill(0, within(step.at), within(step.at) + step.zeros);
  } else if ("twice" in step) {
    return spliced(within(step.at) + step.twice, within(step.at));
  } else {
    return spliced(within(step.at), within(step.at) + step.without);
  }
  return bytes;
}

/** Valid bytes, changed; `sign` puts checksums right afterwards in half of the cases, so that more than them is tested. */
export function mutated(
  valid: fc.Arbitrary<Uint8Array>,
  sign: (bytes: Uint8Array) => void = () => {},
): fc.Arbitrary<Uint8Array> {
  return fc.tuple(valid, mutations, fc.boolean()).map(([bytes, steps, signed]) => {
    const changed = mutate(bytes, steps);
    if (signed) sign(changed);
    return changed;
  });
}

/** Bytes without a meaning, and changed ones. */
export function hostile(
  valid: fc.Arbitrary<Uint8Array>,
  sign?: (bytes: Uint8Array) => void,
  maxLength = 400,
): fc.Arbitrary<Uint8Array> {
  return fc.oneof(
    { weight: 1, arbitrary: fc.uint8Array({ maxLength }) },
    { weight: 4, arbitrary: mutated(valid, sign) },
  );
}

/** What `action` gives, or the error of `type` that it throws; any other error is a failure of the test. */
export function outcome<T, E extends Error>(
  type: new (...args: never[]) => E,
  action: () => T,
): { readonly value: T | undefined; readonly error: E | undefined } {
  try {
    return { value: action(), error: undefined };
  } catch (error) {
    if (error instanceof type) return { value: undefined, error };
    throw error;
  }
}

const WATCHED = ["Uint8Array", "Int32Array", "Float64Array", "ArrayBuffer"] as const;

/** Runs `action` and fails when it asks for more than `limitBytes` at once. */
export function bounded<T>(limitBytes: number, action: () => T): T {
  let largest = 0;
  const globals = globalThis as Record<string, unknown>;
  const originals = WATCHED.map((name) => globals[name] as { new (...args: unknown[]): object });
  const { alloc, allocUnsafe } = Buffer;
  const note = (length: unknown, elementBytes: number): void => {
    if (typeof length === "number") largest = Math.max(largest, length * elementBytes);
    // Asked for in vain would be as wrong, and would end the test here.
    check();
  };
  const check = (): void => {
    if (largest > limitBytes) throw new Error(`${largest} bytes asked for at once, more than ${limitBytes}`);
  };
  for (const [index, name] of WATCHED.entries()) {
    const original = originals[index];
    const elementBytes = (original as unknown as { BYTES_PER_ELEMENT?: number }).BYTES_PER_ELEMENT ?? 1;
    globals[name] = new Proxy(original, {
      construct(target, args) {
        note(args[0], elementBytes);
        // Itself, so that a subarray of it is made without coming through here.
        return Reflect.construct(target, args, target);
      },
    });
  }
  const counting = (allocate: typeof Buffer.alloc) =>
    ((length: number, ...rest: [fill?: number]) => {
      note(length, 1);
      return allocate(length, ...rest);
    }) as typeof Buffer.alloc;
  Buffer.alloc = counting(alloc);
  Buffer.allocUnsafe = counting(allocUnsafe) as typeof Buffer.allocUnsafe;
  try {
    return action();
  } finally {
    for (const [index, name] of WATCHED.entries()) globals[name] = originals[index];
    Object.assign(Buffer, { alloc, allocUnsafe });
    // Again: what was thrown may have been caught.
    check();
  }
}

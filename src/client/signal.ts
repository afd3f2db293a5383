/**
 * `AbortSignal` wherever its type is known: with the types of Node, of Bun or of a browser. A project that has none of
 * them still gets types that hold, with the part of it that is used here.
 */
export type Signal = typeof globalThis extends { AbortSignal: { prototype: infer Known } } ? Known : LeastSignal;

interface LeastSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  throwIfAborted(): void;
  addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

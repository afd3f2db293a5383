// Makes a runtime's executable deaf to the environment variables that would make it run something else.

/**
 * What an executable of ours must not listen to: each would turn it into another program, run a file first, or open a
 * debugger. No build option turns them off, so their names are overwritten in the runtime: a name that starts with "="
 * cannot be set by a shell or a unit file.
 */
const NAMES = {
  // As prefixes: BUN_INSPECT stands for BUN_INSPECT_CONNECT_TO, _NOTIFY and _PRELOAD too.
  bun: ["BUN_BE_BUN", "BUN_OPTIONS", "BUN_INSPECT", "BUN_BYTECODE_ORDER_OUT"],
  // A whole C string: the same word in Node's messages and scripts stays.
  node: ["\0NODE_OPTIONS\0"],
} as const;

/**
 * Overwrites the names in place, each with as many bytes.
 * @throws Error when one does not occur: then this runtime keeps it elsewhere, and the result would still listen to it
 */
export function silenceEnvironment(executable: Uint8Array, kind: keyof typeof NAMES): void {
  const bytes = Buffer.from(executable.buffer, executable.byteOffset, executable.byteLength);
  for (const name of NAMES[kind]) {
    let found = bytes.indexOf(name, 0, "latin1");
    if (found < 0) {
      throw new Error(`the runtime does not contain ${JSON.stringify(name)}`);
    }
    while (found >= 0) {
      bytes[found + (name.startsWith("\0") ? 1 : 0)] = "=".charCodeAt(0);
      found = bytes.indexOf(name, found + name.length, "latin1");
    }
  }
}

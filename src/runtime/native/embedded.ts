import { fileURLToPath } from "node:url";

/**
 * Where the addon comes from. This is the module of the source tree; the build of a shipped binary puts another one in
 * its place, which has the addon's bytes and no path: a shipped binary loads its own addon or none.
 */

/** The addon's bytes, when they are inside this program. */
export const embeddedAddon: (() => Uint8Array) | undefined = undefined;

/** The addon's file, when the program runs from its sources: what scripts/build-native.sh makes. */
export const addonFile: string | undefined = fileURLToPath(
  new URL(`../../../dist/native/ironbus-${process.platform}-${process.arch}.node`, import.meta.url),
);

import type { Codec } from "../codec.ts";
import { loadAddon } from "./addon.ts";
import { addonCodec } from "./codec-addon.ts";
import { typescriptCodec } from "./codec-typescript.ts";

export interface LoadedCodec {
  readonly codec: Codec;
  /** One line for the user, when the addon could not be loaded. */
  readonly warning?: string;
}

/** The addon's codec, or its TypeScript twin with a warning. `fallbackDirectories` as for loadAddon. Never throws. */
export function loadCodec(fallbackDirectories: readonly string[] = []): LoadedCodec {
  const { addon, error } = loadAddon(fallbackDirectories);
  if (addon !== undefined) return { codec: addonCodec(addon) };
  return {
    codec: typescriptCodec(),
    warning: `running without the native addon, slower but with the same data: ${error.message}`,
  };
}

import type { Flag, ParsedFlags } from "../config/flags.ts";
import { UsageError } from "../config/usage-error.ts";

export const DATA_DIR_FLAG: Flag = {
  name: "--data-dir",
  kind: "text",
  placeholder: "<dir>",
  help: "data directory to read (required)",
};

/** The directory an offline verb reads; no variable names it (cli.md 1.6). Throws UsageError. */
export function dataDirectory(verb: string, flags: ParsedFlags): string {
  const directory = flags.text("--data-dir");
  if (directory === undefined || directory === "") {
    throw new UsageError(`${verb} requires \`--data-dir <dir>\``);
  }
  return directory;
}

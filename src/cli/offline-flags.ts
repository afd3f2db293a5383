import type { Flag, ParsedFlags } from "../config/flags.ts";
import { UsageError } from "../config/usage-error.ts";
import type { RecoveryMode } from "../log/inspection.ts";

export const DATA_DIR_FLAG: Flag = {
  name: "--data-dir",
  kind: "text",
  placeholder: "<dir>",
  help: "data directory to read (required)",
};

export const JSON_FLAG: Flag = { name: "--json", kind: "switch", help: "print one JSON object" };

export const RECOVERY_FLAG: Flag = {
  name: "--recovery",
  kind: "text",
  placeholder: "<mode>",
  help: "damage inside the log: salvage skips and reports it, strict refuses to go on (salvage)",
};

/** The directory that a flag must name; no variable does (cli.md 1.6). Throws UsageError. */
export function requiredDirectory(verb: string, flags: ParsedFlags, name: string): string {
  const directory = flags.text(name);
  if (directory === undefined || directory === "") {
    throw new UsageError(`${verb} requires \`${name} <dir>\``);
  }
  return directory;
}

/** The directory an offline verb reads. Throws UsageError. */
export function dataDirectory(verb: string, flags: ParsedFlags): string {
  return requiredDirectory(verb, flags, DATA_DIR_FLAG.name);
}

/** How damage inside a log is taken. Throws UsageError. */
export function recoveryMode(flags: ParsedFlags): RecoveryMode {
  const mode = flags.text(RECOVERY_FLAG.name) ?? "salvage";
  if (mode !== "salvage" && mode !== "strict") {
    throw new UsageError(`\`${RECOVERY_FLAG.name}\` must be \`salvage\` or \`strict\`, got \`${mode}\``);
  }
  return mode;
}

import type { Flag, FlagValue, ParsedFlags } from "./flags.ts";
import {
  environmentName,
  flagKind,
  KEYS,
  type Key,
  type KeyName,
  type Profile,
  presetOf,
  type Settings,
} from "./keys.ts";
import { parseBoolean, parseEnum, parseNumber, parseNumberList, U32_MAX, U64_MAX } from "./literals.ts";

/** The environment as the process has it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** What help says about a key's value when nothing sets it; a key without a default says nothing. */
function defaultText(key: Key): string {
  if (key.kind === "switch" || key.default === "") {
    return "";
  }
  const presets = Object.entries(key.profiles ?? {}).map(([profile, value]) => `, ${profile} ${value}`);
  return ` (${key.default}${presets.join("")})`;
}

/** The flags of `serve`, one for each key that can be set. */
export function settingFlags(): Flag[] {
  return (KEYS as readonly Key[]).flatMap((key) =>
    key.flag === undefined
      ? []
      : [
          {
            name: key.flag,
            section: key.section,
            kind: flagKind(key),
            placeholder: key.kind === "enum" ? `<${key.tokens.join("|")}>` : key.placeholder,
            help: `${key.help ?? ""}${defaultText(key)}`,
          },
        ],
  );
}

/** A value that is not UTF-8 counts as unset (config.md 1.2); the runtime shows its bytes as U+FFFD. */
function variable(environment: Environment, name: string): string | undefined {
  const value = environment[name];
  return value?.includes("\uFFFD") ? undefined : value;
}

function parseVariable(key: Key, name: string, raw: string): FlagValue | false {
  switch (key.kind) {
    case "u32":
      return parseNumber(name, raw, U32_MAX);
    case "u64":
      return parseNumber(name, raw, U64_MAX);
    case "u64-list":
      return parseNumberList(name, raw);
    case "switch":
      return parseBoolean(name, raw);
    default:
      return raw;
  }
}

function resolveKey(key: Key, flags: ParsedFlags, environment: Environment, profile: Profile): FlagValue | false {
  if (key.flag === undefined) {
    return presetOf(key, profile);
  }
  const fromFlag = flags.value(key.flag);
  if (fromFlag !== undefined) {
    return key.kind === "enum" ? parseEnum(key.flag, fromFlag as string, key.tokens) : fromFlag;
  }
  const name = environmentName(key.flag);
  const fromVariable = variable(environment, name);
  if (fromVariable !== undefined) {
    return key.kind === "enum" ? parseEnum(name, fromVariable, key.tokens) : parseVariable(key, name, fromVariable);
  }
  return presetOf(key, profile);
}

/**
 * Applies the layers flag > environment > profile > default to every key (config.md 1). Enums come first, in table
 * order, the profile before all others. Throws UsageError; checks across keys are validate()'s.
 */
export function resolveSettings(flags: ParsedFlags, environment: Environment): Settings {
  const keys: readonly Key[] = KEYS;
  const settings: Partial<Record<KeyName, FlagValue | false>> = {};
  let profile: Profile = "balanced";
  for (const enums of [true, false]) {
    for (const key of keys) {
      if ((key.kind === "enum") === enums) {
        const value = resolveKey(key, flags, environment, profile);
        settings[key.name as KeyName] = value;
        if (key.name === "profile") {
          profile = value as Profile;
        }
      }
    }
  }
  return settings as Settings;
}

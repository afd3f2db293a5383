import { type Address, formatAddress, isLoopback, overlap, parseAddress } from "./address.ts";
import { environmentName, KEYS, type Key, type KeyName, type Settings } from "./keys.ts";
import { checkRamBudget } from "./ram-budget.ts";
import { UsageError } from "./usage-error.ts";

/** The IP addresses a host name stands for, or none when it cannot be resolved. An IP literal stands for itself. */
export type Resolver = (host: string) => Promise<readonly string[]>;

/** Higher ones need memory that nobody expects of a level. */
const MAX_ZSTD_LEVEL = 19n;

/** What the program that runs this can do. */
export interface RuntimeFacts {
  readonly hasZstd: boolean;
}

/** Settings that passed every check. */
export interface ValidSettings {
  readonly settings: Settings;
  /** The checked address to bind; what was resolved is what is bound. */
  readonly bindHost: string;
  readonly bindPort: number;
  /** Where to serve health and metrics; undefined = not at all. */
  readonly healthBind: Address | undefined;
  /** For stderr, one line each, without their `WARN: config: ` prefix. */
  readonly warnings: readonly string[];
}

/** Keys whose minimum is checked, in the order of config.md 8.1. */
const RANGE_CHECK_ORDER: readonly KeyName[] = [
  "max_connections",
  "max_in_flight",
  "consumer_credit",
  "max_segment_bytes",
  "visibility_timeout_ms",
];

function checkRanges(settings: Settings): void {
  for (const name of RANGE_CHECK_ORDER) {
    const key = (KEYS as readonly Key[]).find((candidate) => candidate.name === name);
    const minimum = key !== undefined && "minimum" in key ? key.minimum : undefined;
    if (key !== undefined && minimum !== undefined && (settings[name] as bigint) < minimum) {
      throw new UsageError(`\`${key.flag}\` must be at least ${minimum}`);
    }
  }
}

/** What a power cut may take at a level (config.md 9.1); the levels other than sync waive I2. */
export function worstCaseLoss(settings: Settings): string {
  switch (settings.durability_level) {
    case "interval": {
      const triggers = [
        ...(settings.flush_interval_ms > 0n ? [`${settings.flush_interval_ms} ms`] : []),
        ...(settings.flush_max_bytes > 0n ? [`${settings.flush_max_bytes} unsynced bytes`] : []),
      ];
      const either = triggers.length > 1 ? ", whichever comes first" : "";
      return `bounded: a barrier every ${triggers.join(" or ")}${either}; a power cut loses at most what was acknowledged since`;
    }
    case "async":
      return "UNBOUNDED: a power cut loses every record acknowledged since the last barrier, without ceiling";
    case "none":
      return "UNBOUNDED: a power cut loses every record acknowledged since the last segment roll or clean stop";
    default:
      return "zero";
  }
}

function checkDurability(settings: Settings): void {
  const level = settings.durability_level;
  if ((level === "async" || level === "none") && !settings.async_loss_ack) {
    throw new UsageError(
      `refusing to start with \`--durability-level ${level}\`: it WAIVES I2 (ack-implies-durable), and the loss in a ` +
        "power cut is UNBOUNDED; pass `--async-loss-ack` to consent",
    );
  }
}

/** Memory without a data directory, disk with one (config.md 8, step 6). */
function checkDataDirectory({ storage, data_dir }: Settings): void {
  if (storage === "disk" && data_dir === "") {
    throw new UsageError("serve requires `--data-dir <dir>`");
  }
  if (storage === "memory" && data_dir !== "") {
    throw new UsageError(
      `\`--storage memory\` keeps NO on-disk state: remove \`--data-dir\` (\`${data_dir}\`), which may come from ` +
        "`IRONBUS_DATA_DIR`",
    );
  }
}

/** What `--storage memory` asks to be said in so many words (config.md 12). */
function checkMemoryStorage(settings: Settings): void {
  if (settings.storage !== "memory") {
    return;
  }
  if (!settings.ephemeral_loss_ack) {
    throw new UsageError(
      "refusing to start with `--storage memory`: EVERY acknowledged message is lost when the broker ends, however it " +
        "ends; pass `--ephemeral-loss-ack` to consent (`--async-loss-ack` does NOT cover this)",
    );
  }
  if (settings.max_total_bytes === 0n) {
    throw new UsageError(
      "`--storage memory` requires an explicit `--max-total-bytes` above 0: it bounds the memory that the records take",
    );
  }
}

/** What a runtime lacks is refused at start, not found out at the first publish. */
function checkCompression(settings: Settings, facts: RuntimeFacts): void {
  const { compression, zstd_level, compression_dictionary } = settings;
  if (compression !== "zstd" && compression_dictionary !== 0n) {
    throw new UsageError(
      `\`--compression-dictionary\` is for \`--compression zstd\`, and this is \`--compression ${compression}\``,
    );
  }
  if (zstd_level < 1n || zstd_level > MAX_ZSTD_LEVEL) {
    throw new UsageError(`\`--zstd-level\` must be from 1 to ${MAX_ZSTD_LEVEL}`);
  }
  if (compression === "zstd" && !facts.hasZstd) {
    throw new UsageError(
      "`--compression zstd` needs a runtime with zstd, and this build's has none; use `lz4` or `none`",
    );
  }
}

/** Coupled sets that do not depend on a file (config.md 8.2). */
function checkCoupledSets(settings: Settings): string[] {
  if (
    settings.durability_level === "interval" &&
    settings.flush_interval_ms === 0n &&
    settings.flush_max_bytes === 0n
  ) {
    throw new UsageError(
      "config error: `--durability-level interval` needs at least one positive flush trigger: set " +
        "`--flush-interval-ms` or `--flush-max-bytes` above 0",
    );
  }
  if (settings.disk_full_policy === "drop-oldest" && settings.max_total_bytes === 0n) {
    return [
      'backpressure.disk_full_policy = "drop-oldest" has no effect: storage.max_total_bytes is unset (0 = unlimited), ' +
        "so no produce is ever over-cap",
    ];
  }
  // The segment that is written to is never removed, and here it holds everything.
  if (settings.disk_full_policy === "drop-oldest" && settings.max_segment_bytes >= settings.max_total_bytes) {
    return [
      `backpressure.disk_full_policy = "drop-oldest" can remove nothing: one segment (--max-segment-bytes ` +
        `${settings.max_segment_bytes}) holds as much as --max-total-bytes (${settings.max_total_bytes}) allows`,
    ];
  }
  return [];
}

/** Resolves an address to what will be bound: the addresses that are judged are the ones that are used. */
async function resolveBind(
  source: string,
  text: string,
  resolve: Resolver,
): Promise<{ readonly bind: Address; readonly loopback: boolean; readonly text: string }> {
  const address = parseAddress(source, text);
  const ips = await resolve(address.host);
  if (ips.length === 0) {
    throw new UsageError(`\`${source}\` ${formatAddress(address)} cannot be resolved`);
  }
  return {
    bind: { host: ips[0], port: address.port },
    loopback: ips.every(isLoopback),
    text: formatAddress(address),
  };
}

/** Health and metrics are unauthenticated; beyond this machine only when asked for (observability.md 1.1). */
async function checkHealthBind(settings: Settings, source: string, resolve: Resolver): Promise<Address | undefined> {
  if (settings.health_addr === "") {
    return undefined;
  }
  const { bind, loopback, text } = await resolveBind(source, settings.health_addr, resolve);
  if (!loopback && !settings.health_allow_public) {
    throw new UsageError(
      `refusing to bind \`--health-addr\` ${text}: it is not a loopback address, and whoever reaches it reads health ` +
        "and metrics; pass `--health-allow-public` to allow it",
    );
  }
  return bind;
}

/** The wire speaks plaintext without authentication, so it stays on this machine (cli.md 4.5: fail closed). */
async function checkWireBind(settings: Settings, source: string, resolve: Resolver): Promise<Address> {
  const { bind, loopback, text } = await resolveBind(source, settings.addr, resolve);
  if (!loopback) {
    throw new UsageError(
      `refusing to bind \`--addr\` ${text}: it is not a loopback address, and the wire is plaintext ` +
        "without authentication; use 127.0.0.1 or [::1]",
    );
  }
  return bind;
}

function checkPorts(wire: Address, health: Address | undefined): void {
  if (health !== undefined && wire.port !== 0 && wire.port === health.port && overlap(wire.host, health.host)) {
    throw new UsageError(`\`--addr\` and \`--health-addr\` use the same port ${wire.port}`);
  }
}

/**
 * Every check of config.md 8 after the layers are resolved, first failure wins, before any side effect. `sourceOf` names
 * the flag or variable that a flag's value came from. Throws UsageError.
 */
export async function validate(
  settings: Settings,
  sourceOf: (flag: string) => string,
  resolve: Resolver,
  facts: RuntimeFacts,
): Promise<ValidSettings> {
  checkCompression(settings, facts);
  const warnings = checkCoupledSets(settings);
  checkDataDirectory(settings);
  checkRanges(settings);
  checkDurability(settings);
  checkMemoryStorage(settings);
  checkRamBudget(settings);
  const healthBind = await checkHealthBind(settings, sourceOf("--health-addr"), resolve);
  const wire = await checkWireBind(settings, sourceOf("--addr"), resolve);
  checkPorts(wire, healthBind);
  return { settings, bindHost: wire.host, bindPort: wire.port, healthBind, warnings };
}

/** The name that an error about a flag's value uses: the flag if given, else its variable if set, else the flag. */
export function sourceNames(
  flags: { has(flag: string): boolean },
  environment: Readonly<Record<string, string | undefined>>,
): (flag: string) => string {
  return (flag) => {
    const name = environmentName(flag);
    return !flags.has(flag) && environment[name] !== undefined ? name : flag;
  };
}

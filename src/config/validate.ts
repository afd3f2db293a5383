import { formatAddress, isLoopback, parseAddress } from "./address.ts";
import { environmentName, KEYS, type Key, type KeyName, type Settings } from "./keys.ts";
import { checkRamBudget } from "./ram-budget.ts";
import { UsageError } from "./usage-error.ts";

/** The IP addresses a host name stands for, or none when it cannot be resolved. An IP literal stands for itself. */
export type Resolver = (host: string) => Promise<readonly string[]>;

/** Settings that passed every check. */
export interface ValidSettings {
  readonly settings: Settings;
  /** The checked address to bind; what was resolved is what is bound. */
  readonly bindHost: string;
  readonly bindPort: number;
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
  return [];
}

/** The wire speaks plaintext without authentication, so it stays on this machine (cli.md 4.5: fail closed). */
async function checkBind(settings: Settings, source: string, resolve: Resolver): Promise<string> {
  const address = parseAddress(source, settings.addr);
  const ips = await resolve(address.host);
  if (ips.length === 0) {
    throw new UsageError(`\`${source}\` ${formatAddress(address)} cannot be resolved`);
  }
  if (!ips.every(isLoopback)) {
    throw new UsageError(
      `refusing to bind \`--addr\` ${formatAddress(address)}: it is not a loopback address, and the wire is plaintext ` +
        "without authentication; use 127.0.0.1 or [::1]",
    );
  }
  return ips[0];
}

/**
 * Every check of config.md 8 after the layers are resolved, first failure wins, before any side effect. `addrSource` is
 * the flag or variable the address came from. Throws UsageError.
 */
export async function validate(settings: Settings, addrSource: string, resolve: Resolver): Promise<ValidSettings> {
  const warnings = checkCoupledSets(settings);
  if (settings.data_dir === "") {
    throw new UsageError("serve requires `--data-dir <dir>`");
  }
  checkRanges(settings);
  checkDurability(settings);
  checkRamBudget(settings);
  const bindHost = await checkBind(settings, addrSource, resolve);
  const bindPort = parseAddress(addrSource, settings.addr).port;
  return { settings, bindHost, bindPort, warnings };
}

/** The name that an error about the address uses: the flag if given, else its variable if set, else the flag. */
export function addressSource(flagGiven: boolean, environment: Readonly<Record<string, string | undefined>>): string {
  const name = environmentName("--addr");
  return !flagGiven && environment[name] !== undefined ? name : "--addr";
}

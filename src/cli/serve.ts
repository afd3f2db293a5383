import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { dirname, resolve } from "node:path";
import type { RunningBroker } from "../broker/broker.ts";
import { type Address, formatAddress } from "../config/address.ts";
import { brokerOptions } from "../config/broker-options.ts";
import type { ParsedFlags } from "../config/flags.ts";
import type { Settings } from "../config/keys.ts";
import { materializedLine } from "../config/materialized.ts";
import { resolveSettings } from "../config/resolve.ts";
import { sourceNames, type ValidSettings, validate, worstCaseLoss } from "../config/validate.ts";
import type { HealthEndpoints } from "../observe/health-endpoints.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { zstd } from "../runtime/zstd.ts";
import { CliError } from "./errors.ts";
import type { Output } from "./output.ts";
import { storageFailure } from "./storage-failure.ts";
import type { Context } from "./verb.ts";
import { VERSION } from "./version.ts";

async function resolveHost(host: string): Promise<string[]> {
  if (isIP(host) !== 0) {
    return [host];
  }
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address);
  } catch {
    return [];
  }
}

/** A supervisor may stop reading after the listening line, so a stdout that fails stops nothing. */
class StartupOutput {
  readonly #output: Output;

  constructor(output: Output) {
    this.#output = output;
  }

  line(text: string): void {
    this.#output.line(text);
    this.#output.flush().catch(() => {});
    if (this.#output.captures) {
      // The envelope comes at the exit; whoever supervises needs these lines now (cli.md 1.4).
      this.#output.note(text);
    }
  }
}

function printStart(
  { settings, warnings }: ValidSettings,
  address: string,
  health: HealthEndpoints | undefined,
  output: Output,
): void {
  const startup = new StartupOutput(output);
  const memory = settings.storage === "memory";
  startup.line(
    `ironbus listening on ${address}, ${memory ? "storage memory (ephemeral)" : `data dir ${settings.data_dir}`}`,
  );
  if (memory) {
    startup.line(
      "WARN: --storage memory: this broker is EPHEMERAL. An acknowledgement survives a lost connection, not the end of " +
        "the process: every message, group and position is gone then.",
    );
  }
  if (settings.durability_level !== "sync") {
    startup.line(
      `WARN: --durability-level ${settings.durability_level}: I2 (ack-implies-durable) is WAIVED; this broker is NOT ` +
        `power-loss safe; worst case ${worstCaseLoss(settings)}`,
    );
  }
  if (health !== undefined) {
    printHealth(settings, formatAddress(health), startup);
  }
  output.note(materializedLine(settings));
  for (const warning of warnings) {
    output.note(`WARN: config: ${warning}`);
  }
}

function printHealth(settings: Settings, address: string, startup: StartupOutput): void {
  if (settings.health_allow_public) {
    startup.line(
      `WARN: --health-allow-public: health and metrics are served on ${address} without authentication or encryption, ` +
        "to whoever reaches it",
    );
  }
  startup.line(`ironbus health endpoints on ${address} (/healthz, /readyz, /metrics)`);
}

/** The health endpoints of a broker, if there are to be any. A failed bind stops the broker again. */
async function startHealth(
  { settings, healthBind }: ValidSettings,
  broker: RunningBroker,
  runtime: Runtime,
  output: Output,
): Promise<HealthEndpoints | undefined> {
  if (healthBind === undefined) {
    return undefined;
  }
  const [{ startHealthEndpoints }, { renderMetrics }, { residentBytes }] = await Promise.all([
    import("../observe/health-endpoints.ts"),
    import("../observe/metrics.ts"),
    import("../observe/resources.ts"),
  ]);
  const options = {
    ...healthBind,
    livenessWindowMs: Number(settings.health_liveness_window_ms),
    watchdogBoundMs: Number(settings.actor_watchdog_bound_ms),
  };
  const ramCeilingBytes = Number(settings.ram_ceiling_bytes);
  const metrics = (healthShed: number) =>
    renderMetrics({
      broker: broker.observed,
      version: VERSION,
      ramCeilingBytes,
      residentBytes: residentBytes(),
      healthShed,
    });
  try {
    return await startHealthEndpoints(options, broker.health, runtime.clock, metrics, (message) =>
      output.note(`WARN: ${message}`),
    );
  } catch (error) {
    await broker.stop();
    throw bindFailure(error, healthBind, "--health-addr") ?? error;
  }
}

/** Resolves with the first SIGINT or SIGTERM; further ones, as wrappers send them twice, change nothing. */
function stopRequested(): Promise<NodeJS.Signals> {
  return new Promise((stop) => {
    process.on("SIGINT", stop);
    process.on("SIGTERM", stop);
  });
}

/** Waits for the drain, at most `timeoutMs` (0: for ever). False when the time ran out. */
function within(timeoutMs: number, drained: Promise<void>): Promise<boolean> {
  return new Promise((settle, reject) => {
    // Longer delays fire at once.
    const timer = timeoutMs > 0 ? setTimeout(() => settle(false), Math.min(timeoutMs, 2 ** 31 - 1)) : undefined;
    drained.then(
      () => {
        clearTimeout(timer);
        settle(true);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

/** Runs the broker until a signal asks it to stop (cli.md 4). Returns the exit code. */
export async function serve(flags: ParsedFlags, { output, environment }: Context): Promise<number> {
  const settings = resolveSettings(flags, environment);
  const valid = await validate(settings, sourceNames(flags, environment), resolveHost, { hasZstd: zstd !== undefined });
  if (flags.has("--check-only")) {
    output.line("ok: serve config is valid (--check-only; broker not started)");
    return 0;
  }
  const options = brokerOptions(valid);
  const stop = stopRequested();
  process.on("SIGHUP", () => output.note("SIGHUP: no --config file is set; nothing to reload"));
  const [{ startBroker }, { createRuntime }] = await Promise.all([
    import("../broker/broker.ts"),
    import("../runtime/runtime.ts"),
  ]);
  const { runtime, warnings } = createRuntime(
    options.storage === "memory" ? [] : [options.dataDir, dirname(resolve(options.dataDir))],
    options.storage,
  );
  let broker: RunningBroker;
  try {
    broker = await startBroker(options, runtime, {
      warned: (message) => output.note(`WARN: ${message}`),
      noted: (message) => output.note(`INFO: ${message}`),
      froze: (error) =>
        output.note(`ERROR: the log is frozen, publishing is refused until a restart, reads go on: ${error.message}`),
      openedReadOnly: (error) =>
        output.note(
          `ERROR: the log is open READ-ONLY, nothing on the disk is changed, publishing is refused, reads go on: ` +
            `${error.message}; \`ironbus repair --data-dir ${options.dataDir} --apply --force\` accepts the loss`,
        ),
    });
  } catch (error) {
    throw startFailure(error, options);
  }
  for (const warning of warnings) {
    output.note(`WARN: ${warning}`);
  }
  const health = await startHealth(valid, broker, runtime, output);
  printStart(valid, formatAddress(broker), health, output);
  await stop;
  const drained = await within(options.drainTimeoutMs, broker.stop());
  if (!drained) {
    output.note(
      `WARN: graceful drain exceeded --drain-timeout-ms (${options.drainTimeoutMs} ms); forcing exit. ` +
        "What was not acknowledged may be lost; the next start recovers the log.",
    );
  }
  health?.stop();
  const { frozen } = broker.health;
  if (frozen !== undefined) {
    throw new CliError("internal", `the log was ${broker.readOnly ? "open read-only" : "frozen"}: ${frozen.message}`);
  }
  return 0;
}

const LISTEN_CODES = new Set(["EADDRINUSE", "EADDRNOTAVAIL", "EACCES", "EAFNOSUPPORT", "EMFILE", "ENFILE"]);

function bindFailure(error: unknown, address: Address, flag: string): CliError | undefined {
  const code = (error as { code?: unknown }).code;
  if (typeof code !== "string" || !LISTEN_CODES.has(code) || "path" in (error as object)) {
    return undefined;
  }
  const reason =
    code === "EADDRINUSE" ? `the address is in use by another program (choose another with ${flag})` : code;
  return new CliError("internal", `cannot bind ${formatAddress(address)}: ${reason}`);
}

function startFailure(error: unknown, options: Address & { readonly dataDir: string }): unknown {
  return bindFailure(error, options, "--addr") ?? storageFailure(error, "opening", options.dataDir);
}

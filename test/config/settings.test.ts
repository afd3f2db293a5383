import { describe, expect, it } from "vitest";
import { formatAddress, isLoopback, parseAddress } from "../../src/config/address.ts";
import { brokerOptions } from "../../src/config/broker-options.ts";
import { type Grammar, parseFlags } from "../../src/config/flags.ts";
import { environmentName, KEYS, type Key, type Settings } from "../../src/config/keys.ts";
import { MATERIALIZED_FIELDS, materializedLine } from "../../src/config/materialized.ts";
import { worstCaseBytes } from "../../src/config/ram-budget.ts";
import { type Environment, resolveSettings, settingFlags } from "../../src/config/resolve.ts";
import { sourceNames, validate } from "../../src/config/validate.ts";

const grammar: Grammar = { path: "serve", flags: settingFlags(), maxPositionals: 0 };

function settings(tokens: string[] = [], environment: Environment = {}): Settings {
  return resolveSettings(parseFlags(grammar, tokens), environment);
}

const hosts: Record<string, string[]> = {
  localhost: ["127.0.0.1", "::1"],
  board: ["192.168.1.7"],
  both: ["127.0.0.1", "10.0.0.1"],
};

function check(tokens: string[], environment: Environment = {}, hasZstd = true) {
  const flags = parseFlags(grammar, tokens);
  const resolve = async (host: string) => hosts[host] ?? (/^[0-9a-f.:]+$/i.test(host) ? [host] : []);
  return validate(resolveSettings(flags, environment), sourceNames(flags, environment), resolve, { hasZstd });
}

describe("layers", () => {
  it("config.md 19.1: nothing given means balanced", () => {
    const line = materializedLine(settings());
    expect(line).toContain("materialized-config profile=balanced profile_schema_version=1 addr=127.0.0.1:7777 ");
    expect(line).toContain(" consumer_credit=2048 ");
    expect(line).toContain(" power_loss_safe=true ");
  });

  it("config.md 19.2: flag over environment over profile over default", () => {
    const tokens = ["--profile", "edge-tiny"];
    const environment = { IRONBUS_MAX_SEGMENT_BYTES: "33554432" };
    expect(settings([...tokens, "--max-segment-bytes", "16777216"], environment).max_segment_bytes).toBe(16_777_216n);
    expect(settings(tokens, environment).max_segment_bytes).toBe(33_554_432n);
    expect(settings(tokens).max_segment_bytes).toBe(8_388_608n);
    expect(settings().max_segment_bytes).toBe(67_108_864n);
  });

  it("config.md 19.3 and 19.4: the profile comes from any layer, single keys beat it", () => {
    const environment = { IRONBUS_PROFILE: "edge-tiny", IRONBUS_MAX_GROUPS: "7" };
    const resolved = settings([], environment);
    expect(resolved.profile).toBe("edge-tiny");
    expect(resolved.max_groups).toBe(7n);
    expect(resolved.max_in_flight).toBe(256n);
    expect(settings(["--profile", "balanced"], environment).profile).toBe("balanced");
  });

  it("does not look at a lower layer's bad value", () => {
    expect(settings(["--max-groups", "1"], { IRONBUS_MAX_GROUPS: "x" }).max_groups).toBe(1n);
  });

  it.each(["", " 5", "0x10", "1e3", "-1"])("config.md 19.7: IRONBUS_MAX_CONNECTIONS=%j names the variable", (raw) => {
    expect(() => settings([], { IRONBUS_MAX_CONNECTIONS: raw })).toThrow(
      `\`IRONBUS_MAX_CONNECTIONS\` needs a number, got \`${raw}\``,
    );
  });

  it("config.md 19.7: a leading plus is fine, what is no UTF-8 counts as unset", () => {
    expect(settings([], { IRONBUS_MAX_CONNECTIONS: "+5" }).max_connections).toBe(5n);
    expect(settings([], { IRONBUS_MAX_CONNECTIONS: "\uFFFD" }).max_connections).toBe(256n);
  });

  it("config.md 19.10: lists from a variable", () => {
    expect(() => settings([], { IRONBUS_BACKOFF_MS: "a" })).toThrow(
      "`IRONBUS_BACKOFF_MS` needs a comma-separated list of numbers, got `a`",
    );
    expect(settings([], { IRONBUS_BACKOFF_MS: " 100 , 200 " }).backoff_ms).toEqual([100n, 200n]);
  });

  it("config.md 1.2: booleans from a variable", () => {
    expect(settings([], { IRONBUS_ASYNC_LOSS_ACK: " TRUE " }).async_loss_ack).toBe(true);
    expect(settings([], { IRONBUS_ASYNC_LOSS_ACK: "0" }).async_loss_ack).toBe(false);
    expect(settings(["--async-loss-ack"], { IRONBUS_ASYNC_LOSS_ACK: "0" }).async_loss_ack).toBe(true);
    expect(() => settings([], { IRONBUS_ASYNC_LOSS_ACK: "YES" })).toThrow(
      "`IRONBUS_ASYNC_LOSS_ACK` must be `true`/`1` or `false`/`0`, got `yes`",
    );
  });

  it("config.md 7: an unknown enum token names its source", () => {
    const accepted = "must be `edge-tiny`, `balanced`, or `throughput`, got `x`";
    expect(() => settings(["--profile", "x"])).toThrow(`\`--profile\` ${accepted}`);
    expect(() => settings([], { IRONBUS_PROFILE: "x" })).toThrow(`\`IRONBUS_PROFILE\` ${accepted}`);
    expect(() => settings([], { IRONBUS_DURABILITY_LEVEL: "fdatasync" })).toThrow("`IRONBUS_DURABILITY_LEVEL` must be");
    expect(() => settings(["--max-groups", "1", "--profile", "x"], { IRONBUS_MAX_IN_FLIGHT: "x" })).toThrow(
      "--profile",
    );
  });

  it("keeps a u64 exact", () => {
    expect(materializedLine(settings(["--flush-max-bytes", "9223372036854775807"]))).toContain(
      " flush_max_bytes=9223372036854775807 ",
    );
  });

  it("names variables by rule", () => {
    expect(environmentName("--retry-budget-ratio-ppm")).toBe("IRONBUS_RETRY_BUDGET_RATIO_PPM");
  });
});

describe("key table", () => {
  const keys: readonly Key[] = KEYS;

  it("has each name and flag once, and help for each flag", () => {
    const names = keys.map((key) => key.name);
    const flags = settingFlags().map((flag) => flag.name);
    expect(new Set(names).size).toBe(names.length);
    expect(new Set(flags).size).toBe(flags.length);
    for (const flag of settingFlags()) {
      expect(flag.help.length, flag.name).toBeGreaterThan(10);
      expect(flag.kind === "switch" || flag.placeholder !== undefined, flag.name).toBe(true);
    }
  });

  it("config.md 19.41: materialises the frozen fields in their order", () => {
    const fields = materializedLine(settings()).split(" ");
    expect(fields.shift()).toBe("materialized-config");
    expect(fields.map((field) => field.split("=")[0])).toEqual(MATERIALIZED_FIELDS);
    expect(fields.every((field) => /^[a-z_]+=[^ ]*$/.test(field))).toBe(true);
    expect(MATERIALIZED_FIELDS.length).toBe(52);
  });

  it.each([
    ["edge-tiny", "8388608 8 262144 32 64 64 64 256 drop-new 1024 30000 5 67108864 256 64 2 0"],
    ["balanced", "67108864 2048 8388608 256 1024 1024 1024 1024 drop-new 1024 30000 5 0 100000 4096 65536 0"],
    ["throughput", "268435456 512 67108864 1024 4096 4096 4096 8192 drop-oldest 4096 30000 5 0 100000 4096 65536 0"],
  ])("cli.md 13.30: profile %s has its presets", (profile, values) => {
    const s = settings(["--profile", profile]);
    const row = [
      s.max_segment_bytes,
      s.consumer_credit,
      s.consumer_credit_bytes,
      s.max_connections,
      s.max_groups,
      s.max_streams,
      s.max_open_streams,
      s.max_in_flight,
      s.disk_full_policy,
      s.checkpoint_interval,
      s.visibility_timeout_ms,
      s.max_deliver,
      s.ram_ceiling_bytes,
      s.dedup_max_ids,
      s.dedup_max_producers,
      s.max_prepared,
      s.max_prepared_bytes,
    ];
    expect(row.join(" ")).toBe(values);
  });
});

describe("validation", () => {
  const base = ["--data-dir", "d"];

  it.each([
    [["--max-connections", "0"], "`--max-connections` must be at least 1"],
    [["--max-in-flight", "0"], "`--max-in-flight` must be at least 1"],
    [["--consumer-credit", "0"], "`--consumer-credit` must be at least 1"],
    [["--max-segment-bytes", "4095"], "`--max-segment-bytes` must be at least 4096"],
    [["--visibility-timeout-ms", "0"], "`--visibility-timeout-ms` must be at least 1"],
    [["--visibility-timeout-ms", "0", "--max-connections", "0"], "`--max-connections` must be at least 1"],
    [["--durability-level", "async"], "refusing to start with `--durability-level async`"],
    [["--durability-level", "none"], "refusing to start with `--durability-level none`"],
    [
      ["--durability-level", "interval", "--flush-interval-ms", "0", "--flush-max-bytes", "0"],
      "config error: `--durability-level interval` needs at least one positive flush trigger",
    ],
    [["--addr", "0.0.0.0:0"], "refusing to bind `--addr` 0.0.0.0:0: it is not a loopback address"],
    [["--addr", "[::]:0"], "refusing to bind `--addr` [::]:0"],
    [["--addr", "board:0"], "refusing to bind `--addr` board:0"],
    [["--addr", "both:0"], "refusing to bind `--addr` both:0"],
    [["--addr", "nowhere:0"], "cannot be resolved"],
    [["--addr", "127.0.0.1"], "`--addr` needs an address of the form <host>:<port>, got `127.0.0.1`"],
    [["--addr", "127.0.0.1:65536"], "`--addr` needs an address"],
    [["--profile", "edge-tiny", "--max-connections", "5000"], "`--ram-ceiling-bytes` 67108864 is below the worst-case"],
  ])("config.md 8: refuses %j", async (tokens, message) => {
    await expect(check([...base, ...tokens])).rejects.toThrow(message);
  });

  const memory = ["--storage", "memory", "--ephemeral-loss-ack", "--max-total-bytes", "1000000"];

  it.each([
    [["--io-mode", "x"], "`--io-mode` must be `buffered`, `direct`, or `auto`, got `x`"],
    [["--disk-full-policy", "block"], "`--disk-full-policy` must be `drop-new` or `drop-oldest`, got `block`"],
    [["--storage", "tape"], "`--storage` must be `disk` or `memory`, got `tape`"],
    [["--recovery", "none"], "`--recovery` must be `salvage` or `strict`, got `none`"],
    [["--compression", "gzip"], "`--compression` must be `none`, `lz4`, or `zstd`, got `gzip`"],
    [["--durability-level", "x"], "`--durability-level` must be `sync`, `interval`, `async`, or `none`, got `x`"],
    [["--profile", "x", "--io-mode", "x"], "`--profile` must be"],
    [["--io-mode", "x", "--disk-full-policy", "x", "--storage", "x"], "`--disk-full-policy` must be"],
    [["--storage", "x", "--io-mode", "x"], "`--io-mode` must be"],
    [["--max-total-bytes", "1k"], "`--max-total-bytes` needs a number, got `1k`"],
    [["--daily-write-budget-bytes", "-1"], "`--daily-write-budget-bytes` needs a number, got `-1`"],
    [["--min-free-bytes", "18446744073709551616"], "`--min-free-bytes` needs a number"],
    [["--max-age-ms", ""], "`--max-age-ms` needs a number"],
  ])("cli.md 4.4: %j is named with what is accepted", async (tokens, message) => {
    await expect((async () => check([...base, ...tokens]))()).rejects.toThrow(message);
  });

  it.each([
    [[], "serve requires `--data-dir <dir>`"],
    [["--storage", "memory"], "refusing to start with `--storage memory`"],
    [["--storage", "memory", "--async-loss-ack"], "`--async-loss-ack` does NOT cover this"],
    [
      ["--storage", "memory", "--ephemeral-loss-ack"],
      "`--storage memory` requires an explicit `--max-total-bytes` above 0",
    ],
    [
      ["--storage", "memory", "--data-dir", "d"],
      "`--storage memory` keeps NO on-disk state: remove `--data-dir` (`d`)",
    ],
    // The order of config.md 8: directory, ranges, durability, consent, cap, memory, addresses.
    [["--storage", "memory", "--data-dir", "d", "--max-in-flight", "0"], "keeps NO on-disk state"],
    [["--storage", "memory", "--max-in-flight", "0"], "`--max-in-flight` must be at least 1"],
    [["--storage", "memory", "--durability-level", "async"], "refusing to start with `--durability-level async`"],
    [["--storage", "memory", "--profile", "edge-tiny", "--max-connections", "5000"], "`--storage memory`"],
    [[...memory, "--profile", "edge-tiny", "--max-connections", "5000", "--addr", "0.0.0.0:0"], "--ram-ceiling-bytes"],
    [[...memory, "--addr", "0.0.0.0:0"], "refusing to bind `--addr`"],
  ])("config.md 19.60: memory storage is refused as it must be: %j", async (tokens, message) => {
    await expect(check(tokens)).rejects.toThrow(message);
  });

  it("config.md 19.61: memory storage has no directory of its own to show", async () => {
    const valid = await check(memory);
    const line = materializedLine(valid.settings);
    expect(line).toContain(" data_dir=none ");
    expect(line).toContain(" storage=memory ");
    expect(brokerOptions(valid)).toMatchObject({ storage: "memory", maxTotalBytes: 1_000_000 });
    expect(materializedLine(settings(base))).toContain(" data_dir=d ");
  });

  it.each([
    [["--health-addr", "0.0.0.0:0"], "refusing to bind `--health-addr` 0.0.0.0:0: it is not a loopback address"],
    [["--health-addr", "both:0"], "refusing to bind `--health-addr` both:0"],
    [["--health-addr", "nowhere:0"], "`--health-addr` nowhere:0 cannot be resolved"],
    [["--health-addr", "127.0.0.1"], "`--health-addr` needs an address of the form <host>:<port>"],
    [["--health-addr", "0.0.0.0:0", "--addr", "0.0.0.0:0"], "--health-addr"],
    [["--health-addr", "0.0.0.0:0", "--health-allow-public", "--addr", "0.0.0.0:0"], "refusing to bind `--addr`"],
    [["--health-addr", "127.0.0.1:9", "--addr", "127.0.0.1:9"], "use the same port 9"],
    [["--health-addr", "[0:0::1]:9", "--addr", "[::1]:9"], "use the same port 9"],
    [["--health-addr", "[::ffff:127.0.0.1]:9", "--addr", "127.0.0.1:9"], "use the same port 9"],
    [["--health-addr", "0.0.0.0:9", "--health-allow-public", "--addr", "127.0.0.1:9"], "use the same port 9"],
    [["--health-addr", "[::]:9", "--health-allow-public", "--addr", "127.0.0.1:9"], "use the same port 9"],
  ])("observability.md 1.1: refuses %j", async (tokens, message) => {
    await expect(check([...base, ...tokens])).rejects.toThrow(message);
  });

  it.each([
    ["127.0.0.1:9", "127.0.0.2:9"],
    ["[::1]:9", "127.0.0.1:9"],
    ["127.0.0.1:0", "127.0.0.1:0"],
  ])("health at %s beside the wire at %s", async (health, addr) => {
    const valid = await check([...base, "--health-addr", health, "--addr", addr]);
    expect(valid.healthBind?.port).toBe(valid.bindPort);
  });

  it("observability.md 1.1: health is off unless asked for, public only with consent", async () => {
    expect((await check(base)).healthBind).toBeUndefined();
    expect((await check([...base, "--health-addr", "localhost:9"])).healthBind).toEqual({ host: "127.0.0.1", port: 9 });
    const open = await check([...base, "--health-allow-public"], { IRONBUS_HEALTH_ADDR: "0.0.0.0:9" });
    expect(open.healthBind).toEqual({ host: "0.0.0.0", port: 9 });
    expect(materializedLine(open.settings)).toMatch(/ health_addr=0\.0\.0\.0:9 health_allow_public=true /);
    await expect(check(base, { IRONBUS_HEALTH_ADDR: "0.0.0.0:9" })).rejects.toThrow("--health-addr");
    await expect(check(base, { IRONBUS_HEALTH_ADDR: "x" })).rejects.toThrow("`IRONBUS_HEALTH_ADDR` needs an address");
  });

  it("names the variable when the address comes from there", async () => {
    await expect(check(base, { IRONBUS_ADDR: "x" })).rejects.toThrow("`IRONBUS_ADDR` needs an address");
  });

  it("needs a data directory", async () => {
    await expect(check([])).rejects.toThrow("serve requires `--data-dir <dir>`");
    await expect(check(["--data-dir", ""])).rejects.toThrow("serve requires `--data-dir <dir>`");
    expect((await check([], { IRONBUS_DATA_DIR: "d" })).settings.data_dir).toBe("d");
  });

  it("config.md 19.31 and 19.32: consent or a trigger lets a relaxed level start", async () => {
    const async = await check([...base, "--durability-level", "async", "--async-loss-ack"]);
    expect(materializedLine(async.settings)).toContain(" power_loss_safe=false ");
    const interval = await check([...base, "--durability-level", "interval", "--flush-interval-ms", "0"]);
    expect(brokerOptions(interval).durability).toEqual({
      level: "interval",
      flushIntervalMs: 0,
      flushMaxBytes: 1_048_576,
    });
  });

  it("config.md 19.34: throughput warns that drop-oldest has no effect", async () => {
    expect((await check([...base, "--profile", "throughput"])).warnings.join()).toContain("has no effect");
    expect((await check(base)).warnings).toEqual([]);
    expect((await check([...base, "--profile", "throughput", "--max-total-bytes", "268435457"])).warnings).toEqual([]);
  });

  it("warns when drop-oldest could remove nothing", async () => {
    const tokens = ["--disk-full-policy", "drop-oldest", "--max-total-bytes", "67108864"];
    expect((await check([...base, ...tokens])).warnings.join()).toContain("can remove nothing");
    expect((await check([...base, ...tokens, "--max-segment-bytes", "4096"])).warnings).toEqual([]);
  });

  it("config.md 19.36: zstd where the runtime has none is refused, everything else is not", async () => {
    await expect(check(["--data-dir", "d", "--compression", "zstd"], {}, false)).rejects.toThrow(
      "`--compression zstd`",
    );
    for (const [name, has] of [
      ["zstd", true],
      ["lz4", false],
      ["none", false],
    ] as const) {
      const { settings } = await check(["--data-dir", "d", "--compression", name], {}, has);
      expect(settings.compression).toBe(name);
    }
    expect(() => settings(["--compression", "gzip"])).toThrow("--compression");
  });

  it("config.md 16.4: a dictionary is for zstd alone, a level is from 1 to 19", async () => {
    const zstd = ["--data-dir", "d", "--compression", "zstd"];
    const dictionary = ["--compression-dictionary", "7"];
    expect(brokerOptions(await check([...zstd, ...dictionary, "--zstd-level", "19"]))).toMatchObject({
      zstdLevel: 19,
      zstdDictionaryId: 7,
    });
    for (const name of ["lz4", "none"]) {
      const tokens = ["--data-dir", "d", "--compression", name, ...dictionary];
      await expect(check(tokens)).rejects.toThrow("`--compression-dictionary`");
    }
    for (const level of ["0", "20"])
      await expect(check([...zstd, "--zstd-level", level])).rejects.toThrow("--zstd-level");
  });

  it("binds what was checked", async () => {
    const valid = await check([...base, "--addr", "localhost:0"]);
    expect([valid.bindHost, valid.bindPort]).toEqual(["127.0.0.1", 0]);
  });

  it("gives the broker its options", async () => {
    const huge = ["--flush-max-bytes", "18446744073709551615", "--checkpoint-interval", "0"];
    const options = brokerOptions(await check([...base, ...huge, "--profile", "edge-tiny", "--backoff-ms", "0"]));
    expect(options).toEqual({
      dataDir: "d",
      host: "127.0.0.1",
      port: 7777,
      durability: { level: "sync", flushIntervalMs: 1000, flushMaxBytes: Number.MAX_SAFE_INTEGER },
      maxConnections: 32,
      visibilityTimeoutMs: 30_000,
      maxSegmentBytes: 8_388_608,
      checkpointInterval: 1,
      consumerCredit: 8,
      consumerCreditBytes: 262_144,
      maxInFlight: 256,
      maxGroups: 64,
      backoffMs: [0],
      maxPendingBytes: 1_048_576,
      drainTimeoutMs: 30_000,
      storage: "disk",
      ioMode: "buffered",
      compression: "lz4",
      zstdLevel: 3,
      zstdDictionaryId: 0,
      recovery: "salvage",
      fullScan: false,
      maxTotalBytes: 0,
      diskFullPolicy: "drop-new",
      minFreeBytes: 25_165_824,
      dailyWriteBudgetBytes: 0,
      retention: { maxRetainedBytes: 0, maxAgeMs: 0, maxMessages: 0 },
    });
  });

  it("config.md 19.52: computes the RAM table", () => {
    const tiny = (tokens: string[], override: Partial<Settings> = {}) =>
      worstCaseBytes({ ...settings(["--profile", "edge-tiny", ...tokens]), ...override });
    expect(tiny([])).toBe(61_022_208n);
    expect(tiny(["--max-connections", "50"])).toBe(66_920_448n);
    expect(tiny(["--max-connections", "51"])).toBe(67_248_128n);
    expect(tiny(["--consumer-credit-bytes", "0"])).toBe(4_364_378_112n);
    expect(tiny([], { max_prepared: 3n })).toBe(77_864_960n);
    expect(tiny([], { max_prepared_bytes: 1_048_576n })).toBe(28_385_280n);
    expect(worstCaseBytes(settings())).toBe(1_394_405_277_696n);
    const inMemory = ["--storage", "memory", "--max-total-bytes"];
    expect(tiny([...inMemory, "6086656"])).toBe(67_108_864n);
    expect(tiny([...inMemory, "6086657"])).toBe(67_108_865n);
    expect(tiny(["--max-total-bytes", "6086657"])).toBe(61_022_208n);
    expect(tiny([...inMemory, "18446744073709551615"])).toBe(2n ** 64n - 1n);
    expect(worstCaseBytes(settings(["--max-connections", "18446744073709551615"]))).toBe(2n ** 64n - 1n);
  });

  it("config.md 19.53: the refusal names ceiling, worst case, overage and the levers", async () => {
    const refusal = check([...base, "--profile", "edge-tiny", "--max-connections", "51"]);
    await expect(refusal).rejects.toThrow(
      /`--ram-ceiling-bytes` 67108864 is below the worst-case bounded-buffer footprint 67248128.*over by 139264 bytes.*refuses to boot.*`--max-connections` \(51\).*`--consumer-credit-bytes` \(262144; 0 = unlimited.*`--consumer-credit` \(8\).*`--max-groups` \(64\).*`--max-in-flight` \(256\)/,
    );
    await expect(check([...base, "--profile", "edge-tiny", "--max-connections", "50"])).resolves.toBeDefined();
  });
});

describe("memory ceiling", () => {
  const memory = ["--storage", "memory", "--ephemeral-loss-ack", "--profile", "edge-tiny", "--max-total-bytes"];

  it("config.md 19.52 and 19.53: in memory mode the store is part of the proof and of the refusal", async () => {
    await expect(check([...memory, "6086656"])).resolves.toBeDefined();
    await expect(check([...memory, "6086657"])).rejects.toThrow(
      /footprint 67108865 \(over by 1 bytes\).*dedup windows \(64 producers of 256 ids\).*prepared messages \(2, 0 bytes.*Under `--storage memory`.*`--max-total-bytes` \(6086657\), 6086657 bytes.*ironbus_dlq_records_total.*--max-deliver/,
    );
    await expect(check(["--data-dir", "d", "--profile", "edge-tiny", "--max-connections", "51"])).rejects.toThrow(
      /^(?!.*Under `--storage memory`)/,
    );
  });

  it("config.md 19.54 and 19.55: no ceiling is no check, a small one refuses balanced limits", async () => {
    await expect(check(["--data-dir", "d", "--ram-ceiling-bytes", "67108864"])).rejects.toThrow(
      "`--ram-ceiling-bytes` 67108864 is below the worst-case",
    );
    await expect(
      check(["--data-dir", "d", "--profile", "edge-tiny", "--max-connections", "5000", "--ram-ceiling-bytes", "0"]),
    ).resolves.toBeDefined();
  });
});

describe("addresses", () => {
  it.each([
    ["127.0.0.1:1", "127.0.0.1", 1],
    ["[::1]:65535", "::1", 65_535],
    ["localhost:0", "localhost", 0],
  ])("parses and formats %s", (raw, host, port) => {
    const address = parseAddress("--addr", raw);
    expect(address).toEqual({ host, port });
    expect(formatAddress(address)).toBe(raw);
  });

  it.each(["", ":1", "a:", "a:b", "::1:5", "[::1]", "a b:1", "a:123456"])("refuses %j", (raw) => {
    expect(() => parseAddress("--addr", raw)).toThrow("`--addr` needs an address");
  });

  it("cli.md 4.5: knows loopback addresses", () => {
    for (const ip of ["127.0.0.1", "127.255.0.9", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"]) {
      expect(isLoopback(ip), ip).toBe(true);
    }
    for (const ip of [
      "0.0.0.0",
      "::",
      "128.0.0.1",
      "10.127.0.1",
      "::2",
      "2001:db8::1",
      "fe80::1",
      "::ffff:10.0.0.1",
      "::11",
    ]) {
      expect(isLoopback(ip), ip).toBe(false);
    }
  });
});

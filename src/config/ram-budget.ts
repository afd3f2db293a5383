import type { Settings } from "./keys.ts";
import { U64_MAX } from "./literals.ts";
import { UsageError } from "./usage-error.ts";

/** Largest wire frame: 16 MiB and 64 KiB. */
const MAX_FRAME_BYTES = 16_842_752n;
const LEASE_BYTES = 64n;
const BASE_BYTES = 4_194_304n;
const CONNECTION_BYTES = 65_536n;
const DEDUP_ID_BYTES = 704n;
const DEDUP_PRODUCER_BYTES = 1152n;

/** In memory the log is memory too (config.md 11.1, term 4). */
function storeBytes(settings: Settings): bigint {
  return settings.storage === "memory" ? settings.max_total_bytes : 0n;
}

/** The worst-case bytes of bounded buffers: a closed function of the configuration (config.md 11.1), at most 2^64-1. */
export function worstCaseBytes(settings: Settings): bigint {
  const inFlight =
    settings.max_connections *
    (settings.consumer_credit_bytes > 0n ? settings.consumer_credit_bytes : settings.consumer_credit * MAX_FRAME_BYTES);
  const groups = settings.max_groups * settings.max_in_flight * LEASE_BYTES;
  const store = storeBytes(settings);
  const fixed = BASE_BYTES + settings.max_connections * CONNECTION_BYTES;
  const dedup =
    settings.dedup_max_producers * settings.dedup_max_ids * DEDUP_ID_BYTES +
    settings.dedup_max_producers * DEDUP_PRODUCER_BYTES;
  const prepared =
    settings.max_prepared_bytes > 0n
      ? settings.max_prepared_bytes
      : (settings.max_prepared > 1n ? settings.max_prepared : 1n) * MAX_FRAME_BYTES;
  const total = inFlight + groups + store + fixed + dedup + prepared;
  return total < U64_MAX ? total : U64_MAX;
}

/** Refuses a configuration whose worst case is above its ceiling; a ceiling of 0 is no ceiling. Throws UsageError. */
export function checkRamBudget(settings: Settings): void {
  const ceiling = settings.ram_ceiling_bytes;
  const worst = worstCaseBytes(settings);
  if (ceiling === 0n || worst <= ceiling) {
    return;
  }
  throw new UsageError(
    `\`--ram-ceiling-bytes\` ${ceiling} is below the worst-case bounded-buffer footprint ${worst} ` +
      `(over by ${worst - ceiling} bytes); the broker refuses to boot. Lower ` +
      `\`--max-connections\` (${settings.max_connections}), ` +
      `\`--consumer-credit-bytes\` (${settings.consumer_credit_bytes}; 0 = unlimited), ` +
      `\`--consumer-credit\` (${settings.consumer_credit}), \`--max-groups\` (${settings.max_groups}) or ` +
      `\`--max-in-flight\` (${settings.max_in_flight}), or choose a larger \`--profile\`; fixed in this version are the ` +
      `dedup windows (${settings.dedup_max_producers} producers of ${settings.dedup_max_ids} ids) and prepared ` +
      `messages (${settings.max_prepared}, ${settings.max_prepared_bytes} bytes; 0 = unlimited)${memoryLever(settings)}`,
  );
}

function memoryLever(settings: Settings): string {
  if (settings.storage !== "memory") {
    return "";
  }
  return (
    `. Under \`--storage memory\` the records count as well: lower \`--max-total-bytes\` (${settings.max_total_bytes}), ` +
    `${storeBytes(settings)} bytes of the footprint. Dead letters would lie outside of it ` +
    "(`ironbus_dlq_records_total`, `--max-deliver`)"
  );
}

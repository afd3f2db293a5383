import { formatVersion } from "../offline/format-version.ts";
import { createRuntime } from "../runtime/runtime.ts";
import { CliError } from "./errors.ts";
import { storageFailure } from "./storage-failure.ts";
import type { Context } from "./verb.ts";

/** The segment format that this build writes. */
const FORMAT_VERSION = 1;

/** `migrate` (cli.md 5.5): compares the directory's format with this build's. Throws CliError. */
export async function runMigrate(directory: string, allowed: number | undefined, { output }: Context): Promise<number> {
  const { runtime } = createRuntime();
  let version: number | undefined;
  try {
    version = formatVersion(runtime.files, runtime.codec, directory);
  } catch (error) {
    throw storageFailure(error, "reading", directory);
  }
  if (version === undefined) {
    output.line(
      `no migration needed: ${directory} holds no segments yet (a fresh data dir opens at format v${FORMAT_VERSION})`,
    );
    return 0;
  }
  if (version === FORMAT_VERSION) {
    output.line(
      `no migration needed: ${directory} is on-disk format v${version}, the current major (opens with no migration)`,
    );
    return 0;
  }
  const refusal = `REFUSING a silent format bump: ${directory} is on-disk format v${version}, this build is v${FORMAT_VERSION}`;
  throw new CliError(
    "usage",
    allowed === FORMAT_VERSION
      ? `${refusal}; --allow ${FORMAT_VERSION} agrees to it, but this build has no migrator between the two`
      : `${refusal}; agree to the change with --allow ${FORMAT_VERSION}`,
  );
}

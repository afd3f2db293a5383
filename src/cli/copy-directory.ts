import { type BackupReport, backUp } from "../offline/backup.ts";
import type { Manifest } from "../offline/manifest.ts";
import { restore } from "../offline/restore.ts";
import { createRuntime } from "../runtime/runtime.ts";
import { OwnerAdoption } from "./adopt-owner.ts";
import { jsonString } from "./envelope.ts";
import { withProgress } from "./progress.ts";
import { storageFailure } from "./storage-failure.ts";
import type { Context } from "./verb.ts";

/** The numbers of a backup as both verbs end their JSON object. */
function numbersJson({ files, durableHead, earliestRetained, cursors, dlqRecords }: Manifest, bytes: number): string {
  return (
    `"files":${files.length},"bytes":${bytes},"durable_head":${durableHead},"earliest_retained":${earliestRetained},` +
    `"cursors":${cursors},"dlq_records":${dlqRecords},"ok":true,"exit_code":0`
  );
}

function numbersText({ earliestRetained, durableHead, cursors, dlqRecords }: Manifest): string {
  return `(durable range [${earliestRetained}, ${durableHead}], ${cursors} cursor(s), ${dlqRecords} DLQ record(s))`;
}

/** `backup` (cli.md 5.4). Throws CliError. */
export async function runBackup(
  { directory, out, json }: { directory: string; out: string; json: boolean },
  { output }: Context,
): Promise<number> {
  const { runtime } = createRuntime();
  const adoption = new OwnerAdoption(directory);
  let report: BackupReport;
  try {
    report = withProgress("backup", !json && !output.captures, (progress) =>
      backUp(runtime.files, runtime.codec, { dataDirectory: directory, out, progress }),
    );
  } catch (error) {
    throw storageFailure(error, "backing up", directory);
  } finally {
    adoption.finish();
  }
  const { manifest, bytes } = report;
  if (json) {
    output.line(
      `{"schema":"ironbus.cli.backup.v1","data_dir":${jsonString(directory)},"out":${jsonString(out)},` +
        `${numbersJson(manifest, bytes)}}`,
    );
  } else {
    output.line(
      `backup: captured ${manifest.files.length} file(s) (${bytes} byte(s)) from ${directory} to ${out} ` +
        numbersText(manifest),
    );
  }
  await output.flush();
  for (const path of report.skipped) {
    output.note(`note: left out ${JSON.stringify(path)}: a socket, pipe or device has no content`);
  }
  if (report.damaged) {
    output.note("note: the log is damaged and the backup holds it as it is; `scrub` shows what is damaged");
  }
  return 0;
}

/** `restore` (cli.md 5.4). Throws CliError. */
export async function runRestore(
  { from, directory, force, json }: { from: string; directory: string; force: boolean; json: boolean },
  { output }: Context,
): Promise<number> {
  const { runtime } = createRuntime();
  const adoption = new OwnerAdoption(directory);
  try {
    const { manifest, bytes } = withProgress("restore", !json && !output.captures, (progress) =>
      restore(runtime.files, runtime.codec, { from, dataDirectory: directory, force, progress }),
    );
    output.line(
      json
        ? `{"schema":"ironbus.cli.restore.v1","from":${jsonString(from)},"data_dir":${jsonString(directory)},` +
            `${numbersJson(manifest, bytes)}}`
        : `restore: materialized ${manifest.files.length} file(s) (${bytes} byte(s)) from ${from} into ${directory} ` +
            numbersText(manifest),
    );
  } catch (error) {
    throw storageFailure(error, "restoring into", directory);
  } finally {
    adoption.finish();
  }
  await output.flush();
  return 0;
}

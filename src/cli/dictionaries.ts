import { resolve } from "node:path";
import { requireDataDirectory } from "../log/data-directory.ts";
import { DictionaryError, installDictionary, listDictionaries, MAX_DICTIONARY_BYTES } from "../log/dictionaries.ts";
import { readExactly } from "../log/read-exactly.ts";
import { type FileSystem, FileSystemError } from "../runtime/file-system.ts";
import { createRuntime } from "../runtime/runtime.ts";
import { zstd } from "../runtime/zstd.ts";
import { jsonString } from "./envelope.ts";
import { CliError } from "./errors.ts";
import { storageFailure } from "./storage-failure.ts";
import type { Context } from "./verb.ts";

/** `dict ls` (cli.md 9): the intact dictionaries of a data directory. Throws CliError. */
export function listInstalled(directory: string, json: boolean, { output }: Context): number {
  const files = filesOf(directory);
  let ids: number[];
  try {
    ids = listDictionaries(files, directory);
  } catch (error) {
    throw storageFailure(error, "reading", directory);
  }
  if (json) {
    output.line(`{"schema":"ironbus.cli.dict-ls.v1","dict_ids":[${ids.join(",")}],"count":${ids.length},"ok":true}`);
    return 0;
  }
  for (const id of ids) {
    output.line(`dict_id=${id}`);
  }
  output.line(`dict ls: ${ids.length} dictionar${ids.length === 1 ? "y" : "ies"} in ${directory}`);
  return 0;
}

/** `dict install` (cli.md 9): stores the dictionary in the file `path`. Throws CliError. */
export function install(directory: string, path: string, json: boolean, { output }: Context): number {
  const files = filesOf(directory);
  const content = readDictionary(files, path);
  let id: number;
  try {
    id = installDictionary(files, directory, content);
  } catch (error) {
    if (error instanceof DictionaryError) {
      throw new CliError("usage", `${path}: ${error.message}`);
    }
    throw storageFailure(error, "opening", directory);
  }
  output.line(
    json
      ? `{"schema":"ironbus.cli.dict-install.v1","data_dir":${jsonString(directory)},"dict_id":${id},` +
          `"dict_bytes":${content.length},"ok":true}`
      : `dict install: dictionary ${id} (${content.length} byte(s)) is in ${directory}`,
  );
  return 0;
}

/** Of a build with zstd, for a directory that is a data directory. */
function filesOf(directory: string): FileSystem {
  if (zstd === undefined) {
    throw new CliError("usage", "dict needs a build with zstd, and this one has none");
  }
  const { files } = createRuntime().runtime;
  try {
    requireDataDirectory(files, directory);
  } catch (error) {
    throw storageFailure(error, "opening", directory);
  }
  return files;
}

function readDictionary(files: FileSystem, path: string): Uint8Array {
  try {
    // Before it is opened: that of a pipe waits for somebody who writes into it.
    if ((files.stat(resolve(path))?.kind ?? "file") !== "file") {
      throw new CliError("usage", `${path} is not a file`);
    }
    const file = files.open(resolve(path), "read");
    try {
      const { size } = file.status();
      if (size > MAX_DICTIONARY_BYTES) {
        throw new CliError("usage", `${path} has ${size} bytes, a dictionary has at most ${MAX_DICTIONARY_BYTES}`);
      }
      const content = new Uint8Array(size);
      readExactly(file, content, 0, size, 0);
      return content;
    } finally {
      file.close();
    }
  } catch (error) {
    if (error instanceof FileSystemError) {
      throw new CliError(error.code === "ENOENT" ? "not_found" : "internal", `reading ${path}: ${error.message}`);
    }
    throw error;
  }
}

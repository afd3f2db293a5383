import { blake3 } from "@noble/hashes/blake3";
import { type FileSystem, FileSystemError } from "../runtime/file-system.ts";
import type { DictionarySource } from "./compressed-payload.ts";
import { syncCached, syncCachedFile } from "./page-cache.ts";
import { viewOf } from "./u64.ts";
import { readWhole } from "./whole-file.ts";

/**
 * Dictionaries of zstd payloads (storage.md 13): `dicts/<id>.zstd`, the id in decimal. The id is the first four bytes of
 * the content's BLAKE3 hash, little-endian, so a file says whether it is what its name promises.
 */

export const DICTIONARIES_DIRECTORY = "dicts";
/** No larger file is loaded. */
export const MAX_DICTIONARY_BYTES = 16 * 1024 * 1024;
/** Ids that are known to be absent, as many as are remembered. */
const MAX_ABSENT = 1024;

export class DictionaryError extends Error {
  override readonly name = "DictionaryError";
}

/** The id under which a dictionary of this content is stored; 0, which names none, for one content in 2^32. */
export function dictionaryId(content: Uint8Array): number {
  return viewOf(blake3(content, { dkLen: 4 })).getUint32(0, true);
}

/** `<id>.zstd` */
export function dictionaryName(id: number): string {
  return `${id}.zstd`;
}

/** The id of a dictionary's file name, or undefined for a foreign name. */
export function parseDictionaryName(name: string): number | undefined {
  const match = /^([1-9][0-9]{0,9})\.zstd$/.exec(name);
  const id = match === null ? 0 : Number(match[1]);
  return id > 0 && id <= 0xffff_ffff ? id : undefined;
}

/**
 * The dictionaries of one log root, loaded when they are asked for. At most 16 MiB of them (and the last one) stay in memory.
 * An id that was not there stays absent until the process starts anew: what is installed meanwhile is not looked for.
 */
export class Dictionaries implements DictionarySource {
  readonly #files: FileSystem;
  readonly #root: string;
  /** The one used last is the last. */
  readonly #loaded = new Map<number, Uint8Array>();
  readonly #absent = new Set<number>();
  #loadedBytes = 0;

  constructor(files: FileSystem, root: string) {
    this.#files = files;
    this.#root = root;
  }

  /** Undefined for an id without a file, and for a file that is not what its name says or cannot be read. */
  get(id: number): Uint8Array | undefined {
    const known = this.#loaded.get(id);
    if (known !== undefined) {
      this.#loaded.delete(id);
      this.#loaded.set(id, known);
      return known;
    }
    if (this.#absent.has(id)) return undefined;
    const content = loadDictionary(this.#files, this.#root, id);
    if (content === undefined) {
      if (this.#absent.size >= MAX_ABSENT) this.#absent.clear();
      this.#absent.add(id);
      return undefined;
    }
    for (const [other, { length }] of this.#loaded) {
      if (this.#loadedBytes + content.length <= MAX_DICTIONARY_BYTES) break;
      this.#loaded.delete(other);
      this.#loadedBytes -= length;
    }
    this.#loaded.set(id, content);
    this.#loadedBytes += content.length;
    return content;
  }
}

/** The content of dictionary `id`, checked against its name; undefined when it is not there or not that. Never throws. */
export function loadDictionary(files: FileSystem, root: string, id: number): Uint8Array | undefined {
  const path = `${root}/${DICTIONARIES_DIRECTORY}/${dictionaryName(id)}`;
  try {
    const status = files.stat(path);
    if (status?.kind !== "file" || status.size === 0 || status.size > MAX_DICTIONARY_BYTES) return undefined;
    const content = readWhole(files, path, status.size);
    return dictionaryId(content) === id ? content : undefined;
  } catch (error) {
    if (error instanceof FileSystemError) return undefined;
    throw error;
  }
}

/**
 * Stores a dictionary, durably when this returns (file, then directory), and gives its id. One that is there stays as it is; a
 * file of its name that a crash or a fault left otherwise is replaced. Throws DictionaryError for content that is empty,
 * larger than 16 MiB or hashes to 0, FileSystemError.
 */
export function installDictionary(files: FileSystem, root: string, content: Uint8Array): number {
  if (content.length === 0) throw new DictionaryError("a dictionary has at least one byte");
  if (content.length > MAX_DICTIONARY_BYTES) {
    throw new DictionaryError(`a dictionary has at most ${MAX_DICTIONARY_BYTES} bytes, not ${content.length}`);
  }
  const id = dictionaryId(content);
  if (id === 0) throw new DictionaryError("the dictionary's content hashes to 0, which means no dictionary");
  const directory = `${root}/${DICTIONARIES_DIRECTORY}`;
  if (files.stat(directory) === undefined) files.makeDirectory(directory);
  files.syncDirectory(root);
  const path = `${directory}/${dictionaryName(id)}`;
  if (loadDictionary(files, root, id) === undefined) writeDictionary(files, path, content);
  // Whoever put it there may have been killed before the barrier.
  else syncCachedFile(files, path);
  files.syncDirectory(directory);
  return id;
}

function writeDictionary(files: FileSystem, path: string, content: Uint8Array): void {
  if (files.stat(path) !== undefined) files.remove(path);
  const file = files.open(path, "create-new");
  try {
    file.write(content, 0, content.length, 0);
    syncCached(files, file, content.length);
  } finally {
    file.close();
  }
}

/** The ids of the dictionaries that are stored and intact, ascending. Throws FileSystemError. */
export function listDictionaries(files: FileSystem, root: string): number[] {
  const directory = `${root}/${DICTIONARIES_DIRECTORY}`;
  if (files.stat(directory) === undefined) return [];
  const ids = files.list(directory).map(({ name }) => parseDictionaryName(name));
  return ids
    .filter((id) => id !== undefined)
    .filter((id) => loadDictionary(files, root, id) !== undefined)
    .sort((a, b) => a - b);
}

import type { File, FileSystem } from "../runtime/file-system.ts";

/** Called with how many bytes were just worked through. */
export type BytesDone = (bytes: number) => void;

/** `files` with every byte that is read from a file told to `done`, so that slow work shows how far it is. */
export function countedFiles(files: FileSystem, done: BytesDone): FileSystem {
  return replacing(files, {
    open(path, mode) {
      const file = files.open(path, mode);
      return replacing<File>(file, {
        read(buffer, offset, length, position) {
          const read = file.read(buffer, offset, length, position);
          done(read);
          return read;
        },
      });
    },
  });
}

/** An object that answers as `target` does, but for the methods in `methods`. */
function replacing<T extends object>(target: T, methods: Partial<T>): T {
  return new Proxy(target, {
    get(_, key) {
      const own = Reflect.get(methods, key);
      if (own !== undefined) return own;
      const value = Reflect.get(target, key);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

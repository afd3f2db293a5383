import type { File, FileSystem, FileSystemError, IoQueue } from "../runtime/file-system.ts";
import { wholeBlocks } from "./tail-block.ts";

const PIECE_BYTES = 1024 * 1024;

/**
 * Writes zeros over a new segment's whole roll size, so that no barrier after that has to write what the file system keeps
 * about the file (storage.md 16). Its length is exact afterwards. `file` is open for direct writes. Throws FileSystemError.
 */
export function formatNow(files: FileSystem, file: File, lengthBytes: number): void {
  try {
    file.allocate(lengthBytes);
  } catch {
    // Reserving keeps the blocks together; the zeros take them in any case.
  }
  const end = wholeBlocks(lengthBytes);
  const zeros = files.alignedBuffer(Math.min(PIECE_BYTES, end));
  for (let at = 0; at < end; at += zeros.length) file.write(zeros, 0, Math.min(zeros.length, end - at), at);
  file.truncate(lengthBytes);
  file.sync("full");
}

/**
 * As formatNow(), a piece at a time through `queue` and without the barrier. `done` is called once, with what failed.
 */
export function format(
  files: FileSystem,
  queue: IoQueue,
  file: File,
  lengthBytes: number,
  done: (error: FileSystemError | undefined) => void,
): void {
  const end = wholeBlocks(lengthBytes);
  const buffer = files.alignedBuffer(Math.min(PIECE_BYTES, end));
  const piece = (position: number): void => {
    const length = Math.min(buffer.length, end - position);
    const last = position + length === end;
    queue.submit({
      file,
      write: { buffer, offset: 0, length, position },
      truncateTo: last ? lengthBytes : undefined,
      barrier: "none",
      done: (error) => {
        if (error !== undefined || last) done(error);
        else piece(position + length);
      },
    });
  };
  queue.submit({ file, allocateTo: lengthBytes, barrier: "none", done: () => piece(0) });
}

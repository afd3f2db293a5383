import * as assert from "node:assert/strict";
import type { File, FileSystem, FileSystemError, IoJob, IoQueue } from "../../src/runtime/file-system.ts";

export interface FileScenario {
  readonly title: string;
  /** `root` is an empty directory. */
  run(files: FileSystem, root: string): Promise<void>;
}

const bytes = (text: string) => new TextEncoder().encode(text);

function content(file: File): string {
  const buffer = new Uint8Array(file.status().size);
  assert.equal(file.read(buffer, 0, buffer.length, 0), buffer.length);
  return new TextDecoder().decode(buffer);
}

function put(files: FileSystem, path: string, text: string): void {
  const file = files.open(path, "create");
  file.write(bytes(text), 0, text.length, 0);
  file.close();
}

function get(files: FileSystem, path: string): string {
  const file = files.open(path, "read");
  const text = content(file);
  file.close();
  return text;
}

function submit(queue: IoQueue, job: Omit<IoJob, "done">): Promise<FileSystemError | undefined> {
  return new Promise((resolve) => queue.submit({ ...job, done: resolve }));
}

function closeQueue(queue: IoQueue): Promise<void> {
  return new Promise((resolve) => queue.close(resolve));
}

function throwsCode(code: string, call: () => unknown): void {
  assert.throws(call, (error: FileSystemError) => {
    assert.equal(error.name, "FileSystemError");
    assert.equal(error.code, code);
    assert.ok(error.path.length > 0 && error.operation.length > 0);
    return true;
  });
}

export const fileScenarios: readonly FileScenario[] = [
  {
    title: "opens by mode",
    async run(files, root) {
      const path = `${root}/a`;
      throwsCode("ENOENT", () => files.open(path, "read"));
      throwsCode("ENOENT", () => files.open(path, "write"));
      const created = files.open(path, "create-new");
      created.write(bytes("abc"), 0, 3, 0);
      throwsCode("EEXIST", () => files.open(path, "create-new"));
      const again = files.open(path, "create");
      assert.equal(content(again), "abc");
      again.close();
      const reader = files.open(path, "read");
      throwsCode("EBADF", () => reader.write(bytes("x"), 0, 1, 0));
      reader.close();
      const writer = files.open(path, "write");
      writer.write(bytes("X"), 0, 1, 1);
      assert.equal(content(writer), "aXc");
      writer.close();
      created.close();
      throwsCode("ENOENT", () => files.open(`${root}/missing/a`, "create"));
      throwsCode("ENOTDIR", () => files.open(`${path}/b`, "create"));
      throwsCode("EISDIR", () => files.open(root, "write"));
    },
  },
  {
    title: "reads short only at the end, and zeros in holes",
    async run(files, root) {
      const file = files.open(`${root}/a`, "create");
      file.write(bytes("--end--"), 2, 3, 10_000);
      assert.equal(file.status().size, 10_003);
      const buffer = new Uint8Array(20).fill(7);
      assert.equal(file.read(buffer, 5, 10, 9_995), 8);
      assert.deepEqual([...buffer.subarray(5, 14)], [0, 0, 0, 0, 0, ...bytes("end"), 7]);
      assert.equal(file.read(buffer, 0, 20, 10_003), 0);
      assert.equal(file.read(buffer, 0, 20, 20_000), 0);
      assert.equal(file.read(buffer, 0, 0, 0), 0);
      file.close();
    },
  },
  {
    title: "truncates both ways; a cut tail does not come back",
    async run(files, root) {
      const file = files.open(`${root}/a`, "create");
      file.write(bytes("abcdef"), 0, 6, 0);
      file.truncate(2);
      file.truncate(4);
      assert.equal(content(file), "ab\0\0");
      file.close();
    },
  },
  {
    title: "allocates without shrinking",
    async run(files, root) {
      const file = files.open(`${root}/a`, "create");
      file.write(bytes("abc"), 0, 3, 0);
      file.allocate(1 << 20);
      assert.equal(file.status().size, 1 << 20);
      file.allocate(10);
      assert.equal(file.status().size, 1 << 20);
      const buffer = new Uint8Array(4);
      file.read(buffer, 0, 4, 1);
      assert.deepEqual([...buffer], [98, 99, 0, 0]);
      file.close();
    },
  },
  {
    title: "positions beyond 2^32",
    async run(files, root) {
      const file = files.open(`${root}/a`, "create");
      const queue = files.createQueue();
      const position = 2 ** 33 + 5;
      assert.equal(
        await submit(queue, { file, write: { buffer: bytes("far"), offset: 0, length: 3, position }, barrier: "none" }),
        undefined,
      );
      assert.equal(file.status().size, position + 3);
      const buffer = new Uint8Array(3);
      file.read(buffer, 0, 3, position);
      assert.deepEqual(buffer, bytes("far"));
      await closeQueue(queue);
      file.close();
    },
  },
  {
    title: "refuses everything on a closed file",
    async run(files, root) {
      const file = files.open(`${root}/a`, "create");
      file.close();
      file.close();
      throwsCode("EBADF", () => file.read(new Uint8Array(1), 0, 1, 0));
      throwsCode("EBADF", () => file.write(new Uint8Array(1), 0, 1, 0));
      throwsCode("EBADF", () => file.truncate(0));
      throwsCode("EBADF", () => file.allocate(1));
      throwsCode("EBADF", () => file.sync("full"));
      throwsCode("EBADF", () => file.status());
      const queue = files.createQueue();
      throwsCode("EBADF", () => queue.submit({ file, barrier: "none", done() {} }));
      assert.equal(queue.pending, 0);
      await closeQueue(queue);
    },
  },
  {
    title: "lists sorted by name, with kinds",
    async run(files, root) {
      files.makeDirectory(`${root}/c/d`);
      files.makeDirectory(`${root}/c`);
      put(files, `${root}/b`, "");
      put(files, `${root}/B`, "");
      put(files, `${root}/a10`, "");
      put(files, `${root}/a9`, "");
      assert.deepEqual(files.list(root), [
        { name: "B", kind: "file" },
        { name: "a10", kind: "file" },
        { name: "a9", kind: "file" },
        { name: "b", kind: "file" },
        { name: "c", kind: "directory" },
      ]);
      throwsCode("ENOENT", () => files.list(`${root}/nothing`));
      throwsCode("ENOTDIR", () => files.list(`${root}/b`));
      throwsCode("EEXIST", () => files.makeDirectory(`${root}/b`));
    },
  },
  {
    title: "tells what a path and an open file are",
    async run(files, root) {
      put(files, `${root}/a`, "abc");
      const status = files.stat(`${root}/a`)!;
      assert.equal(status.kind, "file");
      assert.equal(status.size, 3);
      assert.equal(status.links, 1);
      assert.equal(files.stat(root)?.kind, "directory");
      assert.equal(files.stat(`${root}/b`), undefined);
      assert.equal(files.stat(`${root}/a/b`), undefined);
      const file = files.open(`${root}/a`, "write");
      assert.deepEqual([file.status().device, file.status().inode], [status.device, status.inode]);
      files.remove(`${root}/a`);
      assert.equal(file.status().links, 0);
      file.write(bytes("still"), 0, 5, 0);
      assert.equal(content(file), "still");
      put(files, `${root}/a`, "new");
      assert.notEqual(files.stat(`${root}/a`)?.inode, file.status().inode);
      file.close();
    },
  },
  {
    title: "removes and renames, replacing what was there",
    async run(files, root) {
      put(files, `${root}/a`, "A");
      put(files, `${root}/b`, "B");
      files.makeDirectory(`${root}/d`);
      files.rename(`${root}/a`, `${root}/b`);
      assert.equal(get(files, `${root}/b`), "A");
      assert.equal(files.stat(`${root}/a`), undefined);
      files.rename(`${root}/b`, `${root}/d/e`);
      assert.equal(get(files, `${root}/d/e`), "A");
      throwsCode("ENOTEMPTY", () => files.removeDirectory(`${root}/d`));
      throwsCode("ENOTDIR", () => files.removeDirectory(`${root}/d/e`));
      files.remove(`${root}/d/e`);
      throwsCode("ENOENT", () => files.remove(`${root}/d/e`));
      throwsCode("ENOENT", () => files.rename(`${root}/d/e`, `${root}/x`));
      throwsCode("EISDIR", () => files.remove(`${root}/d`));
      files.makeDirectory(`${root}/d2`);
      files.removeDirectory(`${root}/d2`);
      assert.equal(files.stat(`${root}/d2`), undefined);
      throwsCode("ENOENT", () => files.removeDirectory(`${root}/d2`));
      throwsCode("ENAMETOOLONG", () => files.open(`${root}/${"n".repeat(256)}`, "create"));
      files.syncDirectory(root);
      throwsCode("ENOENT", () => files.syncDirectory(`${root}/nothing`));
      throwsCode("ENOTDIR", () => {
        put(files, `${root}/f`, "");
        files.syncDirectory(`${root}/f`);
      });
    },
  },
  {
    title: "does the steps of a job and calls back later, in order",
    async run(files, root) {
      const file = files.open(`${root}/a`, "create");
      const directory = files.openDirectory(root);
      const queue = files.createQueue();
      const order: number[] = [];
      const buffer = bytes("0123456789");
      for (let index = 0; index < 200; index++) {
        queue.submit({
          file: index % 7 === 0 ? directory : file,
          write: index % 7 === 0 ? undefined : { buffer, offset: index % 10, length: 1, position: index },
          barrier: index % 50 === 0 ? "full" : index % 20 === 0 ? "data" : "none",
          done: (error) => order.push(error === undefined ? index : -1),
        });
      }
      assert.deepEqual(order, []);
      assert.equal(queue.pending, 200);
      assert.equal(await submit(queue, { file, truncateTo: 150, allocateTo: 8192, barrier: "data" }), undefined);
      assert.deepEqual(order, [...new Array(200).keys()]);
      assert.equal(queue.pending, 0);
      assert.equal(file.status().size, 8192);
      const read = new Uint8Array(160);
      file.read(read, 0, 160, 0);
      for (let index = 0; index < 160; index++) {
        assert.equal(read[index], index < 150 && index % 7 !== 0 ? 48 + (index % 10) : 0, `byte ${index}`);
      }
      await closeQueue(queue);
      file.close();
      directory.close();
    },
  },
  {
    title: "ends a failed job with its error and goes on with the next",
    async run(files, root) {
      put(files, `${root}/a`, "abc");
      const reader = files.open(`${root}/a`, "read");
      const writer = files.open(`${root}/a`, "write");
      const queue = files.createQueue();
      const write = { buffer: bytes("X"), offset: 0, length: 1, position: 0 };
      const [first, second] = await Promise.all([
        submit(queue, { file: reader, write, truncateTo: 0, barrier: "full" }),
        submit(queue, { file: writer, write, barrier: "full" }),
      ]);
      assert.equal(first?.name, "FileSystemError");
      assert.equal(first?.code, "EBADF");
      assert.equal(first?.operation, "write");
      assert.equal(first?.path, `${root}/a`);
      assert.equal(second, undefined);
      assert.equal(content(writer), "Xbc");
      await closeQueue(queue);
      reader.close();
      writer.close();
    },
  },
  {
    title: "closes a queue after its last job, refuses more, and guards files in use",
    async run(files, root) {
      const file = files.open(`${root}/a`, "create");
      const queue = files.createQueue();
      const calls: string[] = [];
      queue.submit({ file, barrier: "full", done: () => calls.push("job") });
      assert.throws(() => file.close(), /closed with 1 job/);
      const closed = new Promise<void>((resolve) =>
        queue.close(() => {
          calls.push("closed");
          resolve();
        }),
      );
      assert.deepEqual(calls, []);
      assert.throws(() => queue.submit({ file, barrier: "none", done() {} }), /the queue is closed/);
      await closed;
      assert.deepEqual(calls, ["job", "closed"]);
      file.close();
      const idle = files.createQueue();
      await closeQueue(idle);
      assert.throws(() => idle.close(() => {}), /the queue is closed/);
    },
  },
  {
    title: "locks exclusively; a leftover LOCK file means nothing",
    async run(files, root) {
      put(files, `${root}/LOCK`, "whatever");
      const lock = files.lock(`${root}/LOCK`);
      assert.ok(lock !== undefined);
      assert.equal(files.lock(`${root}/LOCK`), undefined);
      const other = files.lock(`${root}/OTHER`);
      assert.ok(other !== undefined);
      assert.equal(get(files, `${root}/LOCK`), "whatever");
      lock.release();
      lock.release();
      const again = files.lock(`${root}/LOCK`);
      assert.ok(again !== undefined);
      again.release();
      other.release();
      throwsCode("ENOENT", () => files.lock(`${root}/missing/LOCK`));
    },
  },
  {
    title: "gives zeroed memory to write from",
    async run(files, root) {
      const buffer = files.alignedBuffer(8192);
      assert.equal(buffer.length, 8192);
      assert.ok(buffer.every((byte) => byte === 0));
      buffer.fill(1);
      const file = files.open(`${root}/a`, "create");
      const queue = files.createQueue();
      await submit(queue, { file, write: { buffer, offset: 4096, length: 4096, position: 0 }, barrier: "data" });
      assert.equal(content(file), "\u0001".repeat(4096));
      await closeQueue(queue);
      file.close();
    },
  },
  {
    title: "writes whole blocks directly and nothing else, where it writes directly at all",
    async run(files, root) {
      const path = `${root}/a`;
      let file: File;
      try {
        file = files.openDirect(path, "create-new");
      } catch (error) {
        // Without the addon, and on file systems that have no direct writes.
        assert.ok(["EOPNOTSUPP", "EINVAL"].includes((error as FileSystemError).code));
        return;
      }
      throwsCode("EEXIST", () => files.openDirect(path, "create-new"));
      throwsCode("ENOENT", () => files.openDirect(`${root}/b`, "write"));
      const buffer = files.alignedBuffer(8192).fill(7);
      file.write(buffer, 0, 8192, 0);
      file.truncate(8000);
      // A reader of the same file need not be aligned.
      const read = new Uint8Array(300);
      assert.equal(file.read(read, 1, 299, 7900), 100);
      assert.deepEqual([read[0], read[1], read[100], read[101]], [0, 7, 7, 0]);
      const again = files.openDirect(path, "write");
      const queue = files.createQueue();
      const write = { buffer: buffer.fill(9), offset: 4096, length: 4096, position: 4096 };
      assert.equal(await submit(queue, { file: again, write, truncateTo: 4100, barrier: "full" }), undefined);
      await closeQueue(queue);
      assert.equal(file.read(read, 0, 8, 4094), 6);
      assert.deepEqual([...read.subarray(0, 6)], [7, 7, 9, 9, 9, 9]);
      // Not a multiple of any device's sector.
      throwsCode("EINVAL", () => file.write(buffer, 0, 100, 4096));
      throwsCode("EINVAL", () => file.write(buffer, 1, 4096, 0));
      throwsCode("EINVAL", () => file.write(buffer, 0, 4096, 100));
      file.close();
      again.close();
      throwsCode("EBADF", () => file.read(read, 0, 1, 0));
    },
  },
];

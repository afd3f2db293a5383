import type { IoQueue } from "./file-system.ts";
import { MemoryFileSystem } from "./file-system-memory.ts";
import { ImmediateQueue } from "./io-queue-immediate.ts";
import { BlockPool, Blocks } from "./memory-blocks.ts";
import { PlainDevice } from "./memory-device.ts";
import { FileNode } from "./memory-nodes.ts";

/** What `--storage memory` stands on (storage.md 22): nothing fails, nothing waits, and removed files give their memory back. */
export class EphemeralFileSystem extends MemoryFileSystem {
  constructor() {
    super(new BlockDevice());
  }

  override createQueue(): IoQueue {
    return new ImmediateQueue();
  }
}

class BlockDevice extends PlainDevice {
  readonly #pool = new BlockPool();

  override createFile(): FileNode {
    return new FileNode(this.nextNumber(), new Blocks(this.#pool));
  }
}

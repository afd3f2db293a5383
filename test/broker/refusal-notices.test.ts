import { describe, expect, it } from "vitest";
import { RefusalNotices } from "../../src/broker/refusal-notices.ts";
import { FileSystemError } from "../../src/runtime/file-system.ts";

describe("RefusalNotices", () => {
  it("a disk on which every save fails is told of once a minute for each file and cause, not once for each save", () => {
    const told: string[] = [];
    const notices = new RefusalNotices(
      (message) => told.push(message),
      () => {},
    );
    const failure = (code: string, name: string) => new FileSystemError(code, "write", `/data/${name}`);
    for (let ms = 0; ms < 60_000; ms += 100) {
      notices.failed("checkpoint not written", failure("EIO", "cursor-61.ckpt"), ms);
      notices.failed("checkpoint not written", failure("EIO", "cursor-62.ckpt"), ms);
    }
    expect(told).toEqual([
      "checkpoint not written: write /data/cursor-61.ckpt: EIO",
      "checkpoint not written: write /data/cursor-62.ckpt: EIO",
    ]);
    notices.failed("checkpoint not written", failure("EROFS", "cursor-61.ckpt"), 60_000);
    notices.failed("checkpoint not written", failure("EIO", "cursor-61.ckpt"), 60_000);
    expect(told.slice(2).map((line) => line.slice(-6).trim())).toEqual(
      ["EROFS", "EIO"].map((code) => expect.stringContaining(code)),
    );
  });

  it("what is remembered for that is bounded", () => {
    let told = 0;
    const notices = new RefusalNotices(
      () => told++,
      () => {},
    );
    for (let index = 0; index < 5000; index++) {
      notices.failed("checkpoint not written", new FileSystemError("EIO", "write", `/data/${index}`), 0);
    }
    expect(told).toBe(5000);
    // The oldest were forgotten, so this is told again; the newest are not.
    notices.failed("checkpoint not written", new FileSystemError("EIO", "write", "/data/0"), 0);
    notices.failed("checkpoint not written", new FileSystemError("EIO", "write", "/data/4999"), 0);
    expect(told).toBe(5001);
  });
});

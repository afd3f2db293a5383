import { describe, expect, it } from "vitest";
import type { Publisher } from "../../src/broker/publisher.ts";
import { Stream } from "../../src/broker/stream.ts";
import { codec, ROOT } from "../log/fixtures.ts";
import { TestLog } from "../log/open-log.ts";

describe("records that were given up", () => {
  it("all publishers have answered for theirs before one of them goes on and uses the offsets again", () => {
    const { log, files } = new TestLog();
    const group = { maxInFlight: 8, visibility: 1000, hardCap: 1000, backoff: [], maxAckedAheadRuns: 8 };
    const stream = new Stream(
      log,
      { root: ROOT, group, checkpointInterval: 8, maxGroups: 8 },
      {
        codec,
        queue: files.createQueue(),
        readOnly: false,
        onError: () => expect.unreachable(),
        onDamaged: () => expect.unreachable(),
      },
      files,
    );
    const calls: string[] = [];
    const publisher = (name: string): Publisher => ({
      settle: (head) => calls.push(`${name} settles ${head}`) > 0,
      rejected: (from) => calls.push(`${name} loses ${from}`),
      froze: () => expect.unreachable(),
      roomMade: () => calls.push(`${name} has room`),
    });
    const [first, second] = [publisher("first"), publisher("second")];
    stream.await(first);
    stream.await(second);
    stream.awaitRoom(second);
    stream.rejected(0);
    expect(calls).toEqual([
      "first loses 0",
      "second loses 0",
      "first settles 0",
      "second settles 0",
      "second has room",
    ]);
  });
});

import { describe, expect, it } from "vitest";
import { Tag } from "../../src/wire/tags.ts";
import { ackOf, flow, frame, numbersTo, offsetOf, pub, World } from "./world.ts";

describe("a clean stop", () => {
  it("storage.md 8.4: saves the position of a group whose consumer is still there and that has no file yet", async () => {
    const world = await World.start();
    const publisher = world.client();
    publisher.send(...numbersTo(10).map((index) => pub(`${index}`)));
    expect(publisher.received().length).toBe(10);
    const consumer = world.client();
    consumer.send(frame(Tag.Sub, new TextEncoder().encode("g")), flow(6));
    const delivered = consumer.received().filter(({ tag }) => tag === Tag.Deliver);
    expect(delivered.map(offsetOf)).toEqual(numbersTo(6));
    consumer.send(...delivered.map((deliver) => ackOf(deliver)));
    consumer.received();
    expect(world.files.stat("/data/cursor-67.ckpt")).toBeUndefined();
    await world.stop();
    expect(world.warnings).toEqual([]);

    const next = await World.start({ files: world.files });
    const resumed = next.client();
    resumed.send(frame(Tag.Sub, new TextEncoder().encode("g")), flow(6));
    expect(
      resumed
        .received()
        .filter(({ tag }) => tag === Tag.Deliver)
        .map(offsetOf),
    ).toEqual([6, 7, 8, 9]);
    await next.stop();
  });
});

import { describe, expect, it } from "vitest";
import { NoticeLimit } from "../../src/broker/notice-limit.ts";

describe("notices that a client can cause", () => {
  it("are told one by one ten times a minute, the others as a number", () => {
    const told: string[] = [];
    const notices = new NoticeLimit(
      (message) => told.push(message),
      (count) => `${count} more`,
    );
    const ten = Array.from({ length: 10 }, (_, index) => `record ${index}`);
    for (let index = 0; index < 500; index++) notices.tell(`record ${index}`, index);
    notices.tick(59_999);
    expect(told).toEqual(ten);
    notices.tick(60_000);
    notices.tick(60_001);
    expect(told).toEqual([...ten, "490 more"]);
    notices.tell("record 500", 60_002);
    notices.flush();
    expect(told).toEqual([...ten, "490 more", "record 500"]);
  });
});

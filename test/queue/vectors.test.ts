import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { Group } from "../../src/queue/group.ts";
import { SERVER_BACKOFF } from "../../src/queue/group-options.ts";
import type { Member } from "../../src/queue/member.ts";
import { poll, type Token } from "./fixtures.ts";

interface Step {
  readonly op: string;
  readonly group?: string;
  readonly now?: number;
  readonly offset?: number;
  readonly outcome?: string;
  readonly token?: string;
  readonly bind?: string;
  readonly expect_offset?: number;
  readonly expect_deliveries?: number;
}

interface Vector {
  readonly name: string;
  readonly category: string;
  readonly setup: {
    readonly visibility_nanos?: number;
    readonly hard_cap_nanos?: number;
    readonly max_in_flight?: number;
  };
  readonly steps: readonly Step[];
}

const { vectors } = JSON.parse(readFileSync(new URL("../vectors/semantics.json", import.meta.url), "utf8")) as {
  readonly vectors: readonly Vector[];
};

const CATEGORIES = ["ordering", "redelivery", "dedup", "ack_rejection", "key_routing", "broadcast", "trim"];

/** Operations that a competing group answers alone; what each other one needs is a part of the broker that is not built. */
const NEEDS: Readonly<Record<string, string>> = {
  produce_dedup: "deduplication",
  set_key_ordering: "key-shared groups",
  join_member: "key-shared groups",
  set_broadcast: "broadcast groups",
  subscribe: "broadcast groups",
  cumulative_ack: "cumulative acks",
};

class VectorMismatch extends Error {
  constructor(index: number, field: string, expected: unknown, actual: unknown) {
    super(`step ${index}: field ${field}: expected ${String(expected)}, got ${String(actual)}`);
    this.name = "VectorMismatch";
  }
}

/** Runs the steps (semantics.md 21); throws at the first mismatch. Time is in nanoseconds. */
function run(vector: Vector): void {
  const { setup } = vector;
  const groups = new Map<string, { group: Group; member: Member }>();
  const tokens = new Map<string, Token>();
  let now = 0;
  let head = 0;
  const polled = (name: string) => {
    let entry = groups.get(name);
    if (!entry) {
      const group = new Group({
        visibility: setup.visibility_nanos ?? 30,
        hardCap: setup.hard_cap_nanos ?? 100,
        maxInFlight: setup.max_in_flight ?? 16,
        backoff: [],
        maxAckedAheadRuns: 1024,
      });
      entry = { group, member: group.createMember() };
      groups.set(name, entry);
    }
    return entry;
  };
  for (const [index, step] of vector.steps.entries()) {
    const check = (field: string, expected: unknown, actual: unknown): void => {
      if (expected !== undefined && expected !== actual) throw new VectorMismatch(index, field, expected, actual);
    };
    const name = step.group ?? "";
    switch (step.op) {
      case "produce":
        check("offset", step.expect_offset, head);
        head++;
        break;
      case "poll": {
        now = Math.max(now, step.now!);
        const { group, member } = polled(name);
        const outcome = poll(group, member, now, head);
        check("outcome", step.outcome, outcome === "idle" ? "idle" : "message");
        if (outcome === "idle") break;
        check("offset", step.expect_offset, outcome.offset);
        check("deliveries", step.expect_deliveries, outcome.deliveries);
        if (step.bind) tokens.set(step.bind, outcome);
        break;
      }
      case "ack": {
        const { group, member } = polled(name);
        const { offset, generation } = tokens.get(step.token!)!;
        check("outcome", step.outcome, group.ack(member, offset, generation) ? "acked" : "not_owned");
        break;
      }
      case "nack": {
        const { group, member } = polled(name);
        const { offset, generation } = tokens.get(step.token!)!;
        const nacked = group.nack(member, offset, generation, now, SERVER_BACKOFF);
        check("outcome", step.outcome, nacked ? "requeued" : "not_owned");
        break;
      }
      case "expect_committed":
        check("offset", step.offset, groups.get(name)?.group.committed ?? 0);
        break;
      default:
        throw new Error(`step ${index}: operation ${step.op} is not known`);
    }
  }
}

describe("semantics.md 24.1: behaviour vectors", () => {
  it("are 17, with unique names and 128 steps, and cover every category", () => {
    expect(vectors).toHaveLength(17);
    expect(new Set(vectors.map((vector) => vector.name)).size).toBe(17);
    expect(vectors.reduce((steps, vector) => steps + vector.steps.length, 0)).toBe(128);
    expect([...new Set(vectors.map((vector) => vector.category))].sort()).toEqual([...CATEGORIES].sort());
  });

  for (const vector of vectors) {
    const missing = new Set(vector.steps.map((step) => NEEDS[step.op]).filter((need) => need !== undefined));
    if (vector.category === "trim") missing.add("retention by total bytes");
    if (missing.size === 0) {
      it(vector.name, () => {
        expect(() => run(vector)).not.toThrow();
      });
    } else {
      it.skip(`${vector.name} (needs ${[...missing].join(", ")}, not built yet)`, () => {
        run(vector);
      });
    }
  }

  it("the harness notices a wrong offset, and accepts the corrected twin", () => {
    const twin = (offset: number): Vector => ({
      name: "twin",
      category: "ordering",
      setup: {},
      steps: [
        { op: "produce", expect_offset: 0 },
        { op: "poll", now: 0, outcome: "message", expect_offset: offset },
      ],
    });
    expect(() => run(twin(99))).toThrow("step 1: field offset: expected 99, got 0");
    expect(() => run(twin(0))).not.toThrow();
  });

  it("the harness notices each other kind of wrong expectation", () => {
    const base: Step[] = [{ op: "produce" }, { op: "poll", now: 0, outcome: "message", bind: "t" }];
    const wrong: [string, Step][] = [
      ["outcome", { op: "poll", now: 0, outcome: "message" }],
      ["outcome", { op: "ack", token: "t", outcome: "not_owned" }],
      ["outcome", { op: "nack", token: "t", outcome: "not_owned" }],
      ["deliveries", { op: "poll", now: 30, outcome: "message", expect_deliveries: 1 }],
      ["offset", { op: "expect_committed", offset: 1 }],
      ["offset", { op: "produce", expect_offset: 2 }],
    ];
    for (const [field, step] of wrong) {
      const vector = { name: "wrong", category: "ordering", setup: {}, steps: [...base, step] };
      expect(() => run(vector)).toThrow(`step 2: field ${field}`);
    }
  });
});

import { afterEach, describe, expect, it } from "vitest";
import { cleanUp, TestBroker } from "./harness.ts";

afterEach(cleanUp);

describe("serve --io-mode", () => {
  it("says what it chose, and goes on with the mode that was asked for in the materialized line", async () => {
    const expected = {
      buffered: /^(?![\s\S]*--io-mode)/,
      // Where the temporary directory takes no direct writes, or the addon is missing, that is what the warning says.
      direct: /^WARN: --io-mode direct: .*; writing (direct|buffered)/m,
      auto: /^INFO: --io-mode auto: .*; writing (direct|buffered)/m,
    };
    for (const [mode, line] of Object.entries(expected)) {
      const broker = await TestBroker.start(["--io-mode", mode, "--max-segment-bytes", "100000"]);
      await broker.process.until(({ stderr }) => /materialized-config .*\n/.test(stderr));
      expect(broker.process.stderr).toMatch(line);
      expect(broker.process.stderr).toMatch(` io_mode=${mode} `);
      expect((await broker.stop()).code).toBe(0);
    }
  });

  it("direct: what was published is there after kill -9, over rolls, and the next start may be buffered", async () => {
    const flags = ["--max-segment-bytes", "20000"];
    let broker = await TestBroker.start([...flags, "--io-mode", "direct"]);
    let expected: string[] = [];
    for (const mode of ["direct", "buffered", "direct"]) {
      const lines = Array.from({ length: 300 }, (_, index) => `${mode}/${index}/${"x".repeat(index % 200)}`);
      const from = expected.length;
      expected = [...expected, ...lines];
      await broker.text("pub", ["--lines"], { input: `${lines.join("\n")}\n` });
      await broker.kill();
      broker = await broker.restart([...flags, "--io-mode", mode]);
      const text = await broker.text("sub", ["--group", `after-${from}`, "--ack", "--max", "4294967295"]);
      const payloads = [...text.matchAll(/^#\d+ gen=\d+ key= payload=(.*)$/gm)].map((match) => match[1]);
      expect(payloads).toEqual(expected);
    }
  });
});

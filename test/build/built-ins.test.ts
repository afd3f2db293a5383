import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { ROOT, run } from "./program.ts";

// Below the checkout, since the types are found upwards from the source.
const directory = path.join(ROOT, "dist", `built-ins-${process.pid}`);

afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** What the lint says of a source text. */
function lint(text: string) {
  mkdirSync(directory, { recursive: true });
  writeFileSync(path.join(directory, "planted.ts"), text);
  const project = path.join(directory, "tsconfig.json");
  writeFileSync(
    project,
    JSON.stringify({ extends: "../../scripts/node-20/tsconfig.json", include: ["planted.ts"], exclude: [] }),
  );
  return run(["node", path.join(ROOT, "scripts", "check-built-ins.mjs"), project]);
}

describe("built-ins that Node 20.11 does not have", () => {
  const missing = [
    ["Promise.withResolvers", "export const x = Promise.withResolvers<void>();"],
    ["Promise.try", "export const x = Promise.try(() => 1);"],
    ["Array.fromAsync", "export const x = Array.fromAsync([1]);"],
    ["Set algebra", "export const x = new Set([1]).union(new Set([2]));"],
    ["iterator helpers", "export const x = [1].values().map(String);"],
    ["Object.groupBy", 'export const x = Object.groupBy([1], () => "a");'],
    ["ArrayBuffer.transfer", "export const x = new ArrayBuffer(1).transfer();"],
    ["Uint8Array.toHex", "export const x = new Uint8Array(1).toHex();"],
    ["crypto.hash", 'export { hash } from "node:crypto";'],
    ["WebSocket", 'export const x = new WebSocket("ws://x");'],
    ["node:sea", 'export * from "node:sea";'],
    ["node:sqlite", 'export * from "node:sqlite";'],
    ["process.getBuiltinModule", 'export const x = process.getBuiltinModule("fs");'],
    ["zstd", 'export { zstdCompressSync } from "node:zlib";'],
    ["Bun", "export const x = Bun.version;"],
  ];
  it.each(missing)("names %s", (_, text) => {
    const { code, stderr } = lint(text);
    expect(stderr).toContain("planted.ts(1,");
    expect(code).toBe(1);
  });

  it("is content with what there is", () => {
    const text = [
      'import { readFileSync } from "node:fs";',
      "export const x = [2, 1].toSorted().findLast((each) => each > 0);",
      "export const y = new Map([[1, 2]]).get(1) ?? AbortSignal.timeout(1);",
      'export const z = [readFileSync("x"), structuredClone({}), process.dlopen];',
    ].join("\n");
    expect(lint(text)).toEqual({ code: 0, stdout: "", stderr: "" });
  });
});

import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Forks, not threads: a signal sent to a worker thread's process would end the runner.
    pool: "forks",
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});

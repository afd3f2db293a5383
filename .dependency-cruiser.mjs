// The import rule of docs/ARCHITECTURE.md: imports point down the layers only. `npm run lint` runs this over src/.
const layer = (name, allowed, comment) => ({
  name: `${name}-imports`,
  severity: "error",
  comment,
  from: { path: `^src/${name}/` },
  to: { path: "^src/", pathNot: [`^src/${name}/`, ...allowed.map((path) => `^src/${path}`)] },
});

export default {
  forbidden: [
    layer("wire", [], "wire is pure: it imports nothing of the project"),
    layer("runtime", [], "runtime is the lowest layer beside wire"),
    layer("log", ["wire/", "runtime/"], "log stands on wire and runtime"),
    // The interfaces of runtime hold no code, so a state machine may name a type of theirs (see queue-and-wire-are-pure).
    layer("queue", ["wire/", "runtime/[^/]+\\.ts$"], "queue stands on wire and, for types, on runtime"),
    layer("config", ["(wire|runtime|broker)/"], "config describes options; it stands below cli"),
    layer("broker", ["(queue|log|wire|runtime)/"], "broker stands on queue, log, wire and runtime"),
    layer("observe", ["(broker|queue|log|runtime)/"], "observe looks on a broker; nothing below cli looks on it"),
    {
      name: "nothing-imports-observe",
      severity: "error",
      comment: "a broker does not know who looks on",
      from: { path: "^src/", pathNot: "^src/(observe|cli)/" },
      to: { path: "^src/observe/" },
    },
    layer("offline", ["(log|wire|runtime)/"], "the offline tools stand on log, wire and runtime: no broker runs"),
    layer("client", ["wire/"], "the SDK needs wire only"),
    {
      name: "config-imports-types-only",
      severity: "error",
      comment: "config is data: whatever it takes from elsewhere is a type",
      from: { path: "^src/config/" },
      to: { path: "^src/(?!config/)", dependencyTypesNot: ["type-only"] },
    },
    {
      name: "nothing-imports-cli",
      severity: "error",
      comment: "cli is the top layer; only main.ts starts it",
      from: { path: "^src/", pathNot: ["^src/cli/", "^src/main\\.ts$"] },
      to: { path: "^src/(cli/|main\\.ts$)" },
    },
    {
      name: "queue-and-wire-are-pure",
      severity: "error",
      comment: "queue and wire do no I/O and read no clock: no built-in modules, no implementation out of runtime",
      from: { path: "^src/(queue|wire)/" },
      to: { path: "^src/runtime/", dependencyTypesNot: ["type-only"] },
    },
    {
      name: "queue-and-wire-use-no-built-ins",
      severity: "error",
      comment: "queue and wire do no I/O: no Node or Bun built-in",
      from: { path: "^src/(queue|wire)/" },
      to: { dependencyTypes: ["core"] },
    },
    {
      name: "no-bun-modules",
      severity: "error",
      comment: "the same code runs on Node: Bun modules only where a Bun implementation of a seam is meant",
      from: { path: "^src/", pathNot: "^src/runtime/" },
      to: { path: "^bun(:|$)" },
    },
    {
      name: "no-cycles",
      severity: "error",
      comment: "a cycle of imports has no layers",
      from: { path: "^src/" },
      to: { circular: true, viaOnly: { dependencyTypesNot: ["type-only"] } },
    },
    {
      name: "package-without-dependencies",
      severity: "error",
      comment: "the package is the client, which needs no other; the executables bundle what the rest of src needs",
      from: { path: "^src/(client|wire)/" },
      to: { path: "node_modules", pathNot: "bun-types" },
    },
    {
      name: "no-unlisted-dependencies",
      severity: "error",
      comment: "what is bundled is a package that package.json pins",
      from: { path: "^src/" },
      to: { dependencyTypes: ["npm-no-pkg", "unknown", "undetermined"], pathNot: "bun-types" },
    },
    {
      name: "no-unresolved",
      severity: "error",
      comment: "an import that resolves to nothing",
      from: { path: "^src/" },
      to: { couldNotResolve: true, pathNot: "^bun:" },
    },
  ],
  options: {
    parser: "swc",
    tsPreCompilationDeps: true,
    doNotFollow: { path: "node_modules" },
    builtInModules: { add: ["bun", "bun:ffi", "bun:sqlite", "bun:test", "bun:jsc"] },
  },
};

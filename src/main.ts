import { runCommandLine } from "./cli/command-line.ts";

// Everything was written by the time the code is known, so nothing that still holds the event loop is waited for.
runCommandLine(process.argv.slice(2)).then((exitCode) => process.exit(exitCode));

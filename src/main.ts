import { runCommandLine } from "./cli/command-line.ts";
import { EXIT_CODES } from "./cli/errors.ts";
import { endOnUncaught } from "./cli/output.ts";

endOnUncaught(EXIT_CODES.internal);
// Everything was written by the time the code is known, so nothing that still holds the event loop is waited for.
runCommandLine(process.argv.slice(2)).then((exitCode) => process.exit(exitCode));

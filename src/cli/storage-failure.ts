import { DataDirectoryError, type DataDirectoryErrorKind } from "../log/data-directory.ts";
import { StorageError, type StorageErrorKind } from "../log/storage-error.ts";
import { CliError, type ErrorKind } from "./errors.ts";

/** Exit kind of each way in which a log cannot be opened (cli.md 1.3); the damage kinds are "blocked by corruption". */
const STORAGE_KINDS: Readonly<Record<StorageErrorKind, ErrorKind>> = {
  SegmentDecode: "corrupt",
  FooterSegmentMismatch: "corrupt",
  UnsealedPredecessor: "corrupt",
  SegmentIdMismatch: "corrupt",
  SegmentChainBroken: "corrupt",
  RecoveredSequenceMismatch: "corrupt",
  ExcessiveRecoveryLoss: "corrupt",
  IncompatibleLayoutVersion: "corrupt",
  UnsupportedFeature: "internal",
  OutOfRange: "internal",
  InvalidMaxSegmentBytes: "usage",
};

const DIRECTORY_KINDS: Readonly<Record<DataDirectoryErrorKind, ErrorKind>> = {
  NotADirectory: "usage",
  NotFound: "not_found",
  CannotCreate: "internal",
  NotWritable: "internal",
  Locked: "internal",
  CannotLock: "internal",
};

/** The failure of opening or reading a data directory; `doing` is what was tried, as in `reading <dir>: ...`. */
export function storageFailure(error: unknown, doing: "opening" | "reading", directory: string): unknown {
  if (error instanceof CliError || !(error instanceof Error)) {
    return error;
  }
  if (error instanceof DataDirectoryError) {
    return new CliError(DIRECTORY_KINDS[error.kind], error.message);
  }
  const kind = error instanceof StorageError ? STORAGE_KINDS[error.kind] : "internal";
  return kind === "corrupt"
    ? new CliError(kind, `corrupt data directory at ${directory}: ${error.message}`)
    : new CliError(kind, `${doing} ${directory}: ${error.message}`);
}

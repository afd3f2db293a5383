import { DataDirectoryError, type DataDirectoryErrorKind } from "../log/data-directory.ts";
import { StorageError, type StorageErrorKind } from "../log/storage-error.ts";
import { OfflineError, type OfflineErrorKind } from "../offline/offline-error.ts";
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

const OFFLINE_KINDS: Readonly<Record<OfflineErrorKind, ErrorKind>> = {
  NotFound: "not_found",
  LockHeld: "unreachable",
  InvalidManifest: "usage",
  CorruptBackup: "usage",
  TargetNotEmpty: "usage",
  OverlappingDirectories: "usage",
  UnsupportedEntry: "usage",
  Interrupted: "internal",
};

/** The failure of working on a data directory; `doing` is what was tried, as in `reading <dir>: ...`. */
export function storageFailure(
  error: unknown,
  doing: "opening" | "reading" | "repairing" | "backing up" | "restoring into",
  directory: string,
): unknown {
  if (error instanceof CliError || !(error instanceof Error)) {
    return error;
  }
  if (error instanceof DataDirectoryError) {
    return new CliError(DIRECTORY_KINDS[error.kind], error.message);
  }
  if (error instanceof OfflineError) {
    return new CliError(OFFLINE_KINDS[error.kind], error.message);
  }
  const kind = error instanceof StorageError ? STORAGE_KINDS[error.kind] : "internal";
  return kind === "corrupt"
    ? new CliError(kind, `corrupt data directory at ${directory}: ${error.message}`)
    : new CliError(kind, `${doing} ${directory}: ${error.message}`);
}

/**
 * Why an offline tool refuses (storage.md 21). The command line maps the kind to its exit code (cli.md 1.3): `NotFound`
 * 2, `LockHeld` 5, `Interrupted` 70, the others 1.
 */
export type OfflineErrorKind =
  /** No data directory, or no backup, at the path. */
  | "NotFound"
  /** A broker, or another tool, holds the data directory's lock. */
  | "LockHeld"
  | "InvalidManifest"
  | "CorruptBackup"
  | "TargetNotEmpty"
  /** One of two directories lies inside the other. */
  | "OverlappingDirectories"
  /** An entry that a backup cannot hold. */
  | "UnsupportedEntry"
  /** A restore failed after it had begun to write. Exit code 70. */
  | "Interrupted";

export class OfflineError extends Error {
  override readonly name = "OfflineError";
  readonly kind: OfflineErrorKind;

  constructor(kind: OfflineErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

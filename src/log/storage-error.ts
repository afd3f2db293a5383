/**
 * Why a log cannot be opened or read as it lies on the disk (storage.md 23). A failed file operation is a
 * FileSystemError instead.
 */
export type StorageErrorKind =
  | "SegmentDecode"
  | "FooterSegmentMismatch"
  | "UnsealedPredecessor"
  | "SegmentIdMismatch"
  | "SegmentChainBroken"
  | "RecoveredSequenceMismatch"
  | "ExcessiveRecoveryLoss"
  | "IncompatibleLayoutVersion"
  /** Written by a feature that this build does not have: compaction, encryption, tiering, shared mode. */
  | "UnsupportedFeature"
  /** An offset, sequence or id above 2^53 - 1. */
  | "OutOfRange"
  | "InvalidMaxSegmentBytes";

export class StorageError extends Error {
  override readonly name = "StorageError";
  readonly kind: StorageErrorKind;

  constructor(kind: StorageErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

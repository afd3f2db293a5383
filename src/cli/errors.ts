import { UsageError } from "../config/usage-error.ts";

/** Exit code of each kind of failure (cli.md 1.3, frozen). */
export const EXIT_CODES = {
  usage: 1,
  not_found: 2,
  handled_corruption: 3,
  corrupt: 4,
  unreachable: 5,
  internal: 70,
} as const;

export type ErrorKind = keyof typeof EXIT_CODES;

/** A failure with its kind; the one way a verb reports that it could not do what it was asked. */
export class CliError extends Error {
  override readonly name = "CliError";
  readonly kind: ErrorKind;

  constructor(kind: ErrorKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

export interface Failure {
  readonly kind: ErrorKind;
  readonly message: string;
}

/** What any thrown value means to the user. An error of an unforeseen kind is internal. */
export function toFailure(error: unknown): Failure {
  if (error instanceof CliError || error instanceof UsageError) {
    return { kind: error.kind, message: error.message };
  }
  return { kind: "internal", message: error instanceof Error ? error.message : String(error) };
}

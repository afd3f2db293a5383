/** What the user wrote cannot be used: a bad argument, variable or setting. Ends the command with exit code 1. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly kind = "usage";
}

/** Levenshtein distance over Unicode scalar values: insert, delete and substitute cost 1 each. */
export function editDistance(a: string, b: string): number {
  const left = [...a];
  const right = [...b];
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row++) {
    const current = [row];
    for (let column = 1; column <= right.length; column++) {
      const substitution = previous[column - 1] + (left[row - 1] === right[column - 1] ? 0 : 1);
      current.push(Math.min(substitution, previous[column] + 1, current[column - 1] + 1));
    }
    previous = current;
  }
  return previous[right.length];
}

/**
 * The suffix for an error about an unknown token: `` (did you mean `x`?)`` when exactly one candidate is nearest, within
 * distance 2 and less than half of the token's length away (cli.md 12.1); otherwise empty.
 */
export function didYouMean(token: string, candidates: readonly string[]): string {
  if (token.length > 64) {
    return "";
  }
  const limit = Math.min(2, Math.ceil(token.length / 2) - 1);
  let best: string | undefined;
  let bestDistance = limit + 1;
  for (const candidate of candidates) {
    const distance = editDistance(token, candidate);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    } else if (distance === bestDistance) {
      best = undefined;
    }
  }
  return best === undefined ? "" : ` (did you mean \`${best}\`?)`;
}

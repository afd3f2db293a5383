import { ratio } from "./exposition.ts";

/** Resident memory of this process in bytes. */
export function residentBytes(): number {
  return process.memoryUsage.rss();
}

export interface Headroom {
  readonly headroomBytes: number;
  readonly headroomRatio: string;
  readonly overCapRatio: string;
}

/** How resident memory relates to its ceiling (config.md 11.4); -1 throughout without a ceiling. */
export function headroom(ceilingBytes: number, rssBytes: number): Headroom {
  if (ceilingBytes === 0) return { headroomBytes: -1, headroomRatio: "-1", overCapRatio: "-1" };
  const free = Math.max(0, ceilingBytes - rssBytes);
  return {
    headroomBytes: free,
    headroomRatio: ratio(free, ceilingBytes),
    overCapRatio: ratio(Math.min(rssBytes, ceilingBytes), ceilingBytes),
  };
}

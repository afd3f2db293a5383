/** Offsets [start, end) whose records are lost: nothing will ever be delivered under them (README ruling 1). */
export interface Gap {
  readonly start: number;
  readonly end: number;
}

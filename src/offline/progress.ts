/** Called with how many of how many bytes were worked through. */
export type Progress = (doneBytes: number, totalBytes: number) => void;

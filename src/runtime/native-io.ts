import type { Addon, IoThread } from "./native/addon.ts";

/** What the disk needs of the native addon. */
export type NativeIo = Pick<Addon, "IoThread" | "flock" | "fallocate" | "alignedBuffer">;
export type NativeIoThread = IoThread;

import manifest from "../../package.json" with { type: "json" };

/** The package's version, put into the bundle when it is built. */
export const VERSION: string = manifest.version;

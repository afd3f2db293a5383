// Stands in for @types/node where something asks for it: the built-ins of Node 20.11, and no later ones.
/// <reference types="types-node-20" />

declare namespace NodeJS {
  interface Process {
    // In every Node, and missing from these types.
    dlopen(module: object, filename: string, flags?: number): void;
  }
}

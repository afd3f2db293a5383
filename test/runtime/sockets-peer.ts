import * as net from "node:net";
import type { Listener } from "../../src/runtime/sockets.ts";
import type { Peer } from "./sockets-scenarios.ts";

/** A peer on a real socket. */
export function connectPeer(listener: Listener): Promise<Peer> {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: "127.0.0.1", port: listener.port, allowHalfOpen: true });
    const peer: Peer = {
      send: (bytes) => void socket.write(bytes),
      end: () => void socket.end(),
      reset: () => void socket.resetAndDestroy(),
      pause: () => void socket.pause(),
      resume: () => void socket.resume(),
      onReceive: () => {},
      ended: false,
      closed: false,
    };
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject);
      socket.on("error", () => {});
      resolve(peer);
    });
    socket.on("data", (chunk: Uint8Array) => peer.onReceive(chunk));
    socket.on("end", () => {
      peer.ended = true;
    });
    socket.on("close", () => {
      peer.closed = true;
    });
  });
}

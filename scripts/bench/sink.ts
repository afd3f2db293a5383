/*
 * The ceiling of this runtime: takes the same frames, reads each publish, answers its acknowledgement, and keeps nothing.
 * As little as can be done, so that the broker's cost over it is its own.
 */
const replies = new Uint8Array(1 << 20);
const INFO = new Uint8Array([
  29, 0, 0, 0, 2, 1, 25, 0, 3, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 0, 0,
]);

interface State {
  carry: Uint8Array;
  next: number;
  queued: Uint8Array[];
}

/** Takes the whole frames at the front of `bytes`; returns how many bytes they were. */
function take(bytes: Uint8Array, state: State, send: (end: number) => void): number {
  let at = 0;
  let out = 0;
  while (at + 5 <= bytes.length) {
    const length = bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24);
    const end = at + 4 + length;
    if (end > bytes.length) break;
    if (out + INFO.length > replies.length) {
      send(out);
      out = 0;
    }
    if (bytes[at + 4] === 1) {
      replies.set(INFO, out);
      out += INFO.length;
    } else {
      const keyLength = bytes[at + 14] | (bytes[at + 15] << 8);
      const headersLength = bytes[at + 16 + keyLength] | (bytes[at + 17 + keyLength] << 8);
      if (at + 18 + keyLength + headersLength > end) throw new Error("malformed publish");
      const offset = state.next++;
      replies[out] = 9;
      replies[out + 1] = 0;
      replies[out + 2] = 0;
      replies[out + 3] = 0;
      replies[out + 4] = 14;
      for (let index = 0, rest = offset; index < 8; index++, rest = Math.floor(rest / 256))
        replies[out + 5 + index] = rest;
      out += 13;
    }
    at = end;
  }
  if (out > 0) send(out);
  return at;
}

const server = Bun.listen<State>({
  hostname: "127.0.0.1",
  port: 0,
  socket: {
    open(socket) {
      socket.data = { carry: new Uint8Array(0), next: 0, queued: [] };
      socket.setNoDelay(true);
    },
    data(socket, chunk) {
      const state = socket.data;
      const send = (end: number) => {
        const taken = state.queued.length > 0 ? 0 : socket.write(replies, 0, end);
        if (taken < end) state.queued.push(replies.slice(Math.max(0, taken), end));
      };
      let bytes: Uint8Array = chunk;
      if (state.carry.length > 0) {
        bytes = new Uint8Array(state.carry.length + chunk.length);
        bytes.set(state.carry);
        bytes.set(chunk, state.carry.length);
      }
      state.carry = bytes.slice(take(bytes, state, send));
    },
    drain(socket) {
      const { queued } = socket.data;
      while (queued.length > 0) {
        const taken = socket.write(queued[0]);
        if (taken < queued[0].length) {
          queued[0] = queued[0].slice(Math.max(0, taken));
          return;
        }
        queued.shift();
      }
    },
  },
});
process.stdout.write(`listening on 127.0.0.1:${server.port}\n`);

/** Frame tags (wire.md 2 and 21): frozen one-byte values. */
export const Tag = {
  Connect: 1,
  Info: 2,
  Ping: 3,
  Pong: 4,
  Pub: 5,
  Sub: 6,
  Unsub: 7,
  Ack: 8,
  /** Reserved: never sent, answered as an unsupported verb. */
  Nack: 9,
  Flow: 10,
  Ok: 11,
  Err: 12,
  Deliver: 13,
  PubAck: 14,
  AckStatus: 15,
  FlowEnd: 16,
  DeadLetter: 17,
  Truncated: 18,
  CumulativeAck: 19,
  PubAckDuplicate: 20,
  GapMarker: 21,
  ProduceConfirm: 22,
  Fetch: 23,
  StreamFetch: 24,
  StreamCommit: 25,
  DeliverBatch: 26,
  Raft: 27,
  StreamDeclare: 28,
  /** Request and response share the tag. */
  StreamInfo: 29,
  PubTo: 30,
  SubTo: 31,
  FetchRecords: 32,
  FetchResponse: 33,
  BindSubject: 34,
  PubSubject: 35,
  SubSubject: 36,
  AckReplicated: 37,
  OffsetForLeaderEpoch: 38,
  SegmentFingerprints: 39,
  MirrorPull: 40,
  LeafPush: 41,
  NotLeader: 42,
  CommittedHwQuery: 43,
  TxnPrepare: 44,
  TxnCommit: 45,
  TxnRollback: 46,
  TxnCheck: 47,
  TxnCheckResult: 48,
  TxnListen: 49,
  RaftAuth: 50,
  DataPlaneAuth: 51,
  PauseGroup: 52,
  /** Extensions; request and response of ExtHello share the tag. */
  ExtHello: 192,
  PubBatch: 193,
  PubBatchAck: 194,
  PushStart: 195,
  PushDeliver: 196,
  PushCredit: 197,
  PushStop: 198,
  AckRange: 199,
  AckRangeStatus: 200,
} as const;
export type Tag = (typeof Tag)[keyof typeof Tag];

/** Who sends a tag: a client, the server, either, a cluster peer, nobody. */
export type Direction = "client" | "server" | "both" | "peer" | "reserved";

const DIRECTIONS: readonly (Direction | undefined)[] = (() => {
  const table: (Direction | undefined)[] = new Array(256).fill(undefined);
  const set = (direction: Direction, ...tags: Tag[]) => {
    for (const tag of tags) table[tag] = direction;
  };
  set("client", Tag.Connect, Tag.Ping, Tag.Pub, Tag.Sub, Tag.Unsub, Tag.Ack, Tag.Flow, Tag.CumulativeAck, Tag.Fetch);
  set("client", Tag.StreamFetch, Tag.StreamCommit, Tag.StreamDeclare, Tag.PubTo, Tag.SubTo, Tag.BindSubject);
  set("client", Tag.PubSubject, Tag.SubSubject, Tag.TxnPrepare, Tag.TxnCommit, Tag.TxnRollback, Tag.TxnCheckResult);
  set("client", Tag.TxnListen, Tag.PauseGroup, Tag.PubBatch, Tag.PushStart, Tag.PushCredit, Tag.PushStop, Tag.AckRange);
  set("server", Tag.Info, Tag.Pong, Tag.Ok, Tag.Err, Tag.Deliver, Tag.PubAck, Tag.AckStatus, Tag.FlowEnd);
  set("server", Tag.DeadLetter, Tag.Truncated, Tag.PubAckDuplicate, Tag.GapMarker, Tag.ProduceConfirm);
  set("server", Tag.DeliverBatch, Tag.NotLeader, Tag.TxnCheck, Tag.PubBatchAck, Tag.PushDeliver, Tag.AckRangeStatus);
  set("both", Tag.StreamInfo, Tag.ExtHello);
  set("peer", Tag.Raft, Tag.FetchRecords, Tag.FetchResponse, Tag.AckReplicated, Tag.OffsetForLeaderEpoch);
  set("peer", Tag.SegmentFingerprints, Tag.MirrorPull, Tag.LeafPush, Tag.CommittedHwQuery, Tag.RaftAuth);
  set("peer", Tag.DataPlaneAuth);
  set("reserved", Tag.Nack);
  return table;
})();

const NAMES: readonly (string | undefined)[] = (() => {
  const table: (string | undefined)[] = new Array(256).fill(undefined);
  for (const [name, tag] of Object.entries(Tag)) table[tag] = name;
  return table;
})();

/** Who sends `tag`; undefined for a tag outside the registry. */
export function tagDirection(tag: number): Direction | undefined {
  return DIRECTIONS[tag];
}

/** True for a tag of the registry, extensions included. */
export function isKnownTag(tag: number): tag is Tag {
  return DIRECTIONS[tag] !== undefined;
}

/**
 * True for a tag of the extensions (192 and above), which a server treats as unknown on a connection without the
 * capability (wire.md 21.1).
 */
export function isExtensionTag(tag: number): boolean {
  return tag >= Tag.ExtHello && DIRECTIONS[tag] !== undefined;
}

/**
 * True for a tag that a client may send as a request. A known tag that is none is answered with `verb not supported on
 * this connection`, an unknown one with `unknown frame type` (wire.md 2).
 */
export function isClientRequest(tag: number): boolean {
  const direction = DIRECTIONS[tag];
  return direction === "client" || direction === "both";
}

/** The tag's name in the registry, or `tag N`. */
export function tagName(tag: number): string {
  return NAMES[tag] ?? `tag ${tag}`;
}

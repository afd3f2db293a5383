import { ConnectFlag2, decodeConnectBlock, encodeInfo } from "../../wire/connect.ts";
import { WireError } from "../../wire/errors.ts";
import { writeFrameHeader } from "../../wire/hot.ts";
import { FRAME_HEADER_BYTES, MAX_OFFSET } from "../../wire/limits.ts";
import { Reader } from "../../wire/reader.ts";
import { Tag } from "../../wire/tags.ts";
import { Writer } from "../../wire/writer.ts";
import type { Session } from "../session.ts";

/**
 * Handshake (wire.md 4). Answered from memory alone. Capabilities are confirmed only where both sides have them; of the
 * optional ones this broker has gap markers. A repeated Connect negotiates anew and goes back to the default group.
 */
export function connect(session: Session, buffer: Uint8Array, start: number, end: number): void {
  let request: ReturnType<typeof decodeConnectBlock>;
  try {
    request = decodeConnectBlock(new Reader(buffer, start, end));
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    session.refuse(error.message);
    return;
  }
  const { consumer, broker } = session;
  const { options } = broker;
  const bytes = request.requestedCreditBytes;
  const agreed = consumer.negotiate(
    request.requestedCredit,
    bytes === undefined ? undefined : Number(bytes > BigInt(MAX_OFFSET) ? BigInt(MAX_OFFSET) : bytes),
  );
  consumer.compressedDeliveries = (request.flags2 & ConnectFlag2.CompressedDeliveries) !== 0;
  consumer.gapMarkers = request.wantsGapMarker;
  session.connected = true;

  const body = new Writer();
  encodeInfo(body, {
    credit: { negotiated: agreed.credit, cap: Math.max(1, options.consumerCredit) },
    creditBytes: { negotiated: BigInt(agreed.creditBytes), cap: BigInt(options.consumerCreditBytes) },
    gapMarker: request.wantsGapMarker,
    streaming: false,
    deliverBatch: false,
    streams: false,
    flags2: 0,
  });
  const { output } = session;
  output.reserve(FRAME_HEADER_BYTES + body.position);
  output.scratch.at = writeFrameHeader(output.scratch.buffer, output.scratch.at, Tag.Info, body.position);
  output.bytes(body.buffer, 0, body.position);
}

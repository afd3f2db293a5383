import {
  FIELD_FLAGS,
  FIELD_HEADERS,
  FIELD_HEADERS_LENGTH,
  FIELD_KEY,
  FIELD_KEY_LENGTH,
  FIELD_PAYLOAD,
  FIELD_PAYLOAD_LENGTH,
  FIELD_TIMESTAMP,
  FIELDS,
} from "../../src/runtime/codec.ts";
import { readPubRow } from "../../src/wire/pub-table.ts";

/** A row as the parser fills it, and the same body as the codec's field numbers describe it. */
export const ROW_CHECK = (() => {
  const body = new Uint8Array([1, ...new Array(8).fill(9), 2, 0, 75, 76, 3, 0, 72, 73, 74, 80, 81, 82, 83]);
  const wire = new Int32Array(FIELDS);
  readPubRow(body, 0, body.length, wire, 0);
  const codec = new Int32Array(FIELDS);
  codec[FIELD_FLAGS] = 1;
  codec[FIELD_TIMESTAMP] = 1;
  codec[FIELD_KEY] = 11;
  codec[FIELD_KEY_LENGTH] = 2;
  codec[FIELD_HEADERS] = 15;
  codec[FIELD_HEADERS_LENGTH] = 3;
  codec[FIELD_PAYLOAD] = 18;
  codec[FIELD_PAYLOAD_LENGTH] = 4;
  return { wire, codec };
})();

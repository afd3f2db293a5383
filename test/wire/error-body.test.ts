import { describe, expect, it } from "vitest";
import {
  codedErrFrame,
  decodeErrorBody,
  ErrorCode,
  ErrorText,
  errFrame,
  errorText,
  isErrorCode,
  isRetryableCode,
} from "../../src/wire/error-body.ts";
import { Reader } from "../../src/wire/reader.ts";
import { bytes, hex, kindOf } from "./support.ts";

const decode = (text: string) => decodeErrorBody(new Reader(bytes(text)));

describe("error bodies", () => {
  it("writes the violation as exactly its 23 bytes", () => {
    const frame = errFrame(ErrorText.AuthorizationViolation);
    expect(frame).toHaveLength(5 + 23);
    expect(hex(frame)).toBe("180000000c417574686f72697a6174696f6e2056696f6c6174696f6e");
  });

  it("writes coded frames as the vectors have them", () => {
    expect(hex(codedErrFrame(ErrorCode.AtCapacity, ErrorText.AtCapacity))).toBe(
      "1d0000000c000f4552525f41545f43415041434954596174206361706163697479",
    );
  });

  it("never fails on what it reads", () => {
    expect(decode("")).toEqual({ code: "", message: "" });
    expect(decode("00")).toEqual({ code: "", message: "\0" });
    expect(decode("000261")).toEqual({ code: "", message: "\0\u0002a" });
    expect(decode("000000")).toEqual({ code: "", message: "\0" });
    expect(decode("ff41")).toEqual({ code: "", message: "\ufffdA" });
    expect(decode("000141ff")).toEqual({ code: "A", message: "\ufffd" });
  });

  it("knows the 29 tokens and which of them may be sent again", () => {
    const codes = Object.values(ErrorCode);
    expect(new Set(codes).size).toBe(29);
    expect(codes.every(isErrorCode)).toBe(true);
    expect(isErrorCode("ERR_FROM_THE_FUTURE")).toBe(false);
    expect(codes.filter(isRetryableCode)).toEqual(["ERR_AT_CAPACITY", "ERR_NOT_ENOUGH_ISR"]);
  });

  it("quotes names in its texts", () => {
    expect(errorText.unknownStream('a"b')).toBe('stream "a\\"b" does not exist (declare or publish to it first)');
    expect(errorText.partitionNotAddressable(4, "s")).toBe('partition 4 is not addressable on stream "s"');
    expect(errorText.priorityNotAddressable("s")).toBe(
      'stream "s" is a priority stream (subscribe to it as a whole; the broker drains the highest-priority lane first ' +
        "— a lane is not addressable)",
    );
    expect(errorText.malformedCompressed("x")).toBe("malformed compressed descriptor: x");
  });

  it("has no text twice and none that a decoder would take for a coded one", () => {
    const texts = Object.values(ErrorText);
    expect(new Set(texts).size).toBe(texts.length);
    for (const text of texts)
      expect(decodeErrorBody(new Reader(errFrame(text), 5))).toEqual({ code: "", message: text });
  });

  it("refuses a message that would not fit a frame", () => {
    expect(kindOf(() => errFrame("x".repeat(16_842_752)))).toBe("frame-too-large");
  });
});

/**
 * JSON whose numbers keep their digits. A number of JavaScript has 15 to 17 of them, so a longer one, such as
 * 9007199254740993, is read as an `ExactNumber`, which `JSON.stringify` writes as it was read.
 */

const { rawJSON } = JSON as { rawJSON?: (text: string) => unknown };

/** A number that may have more digits than one of JavaScript, or is beyond its range. A text with such digits matches too. */
const LONG_NUMBER = /(?:^|[:[,])\s*-?(?:\d(?:\.?\d){15}|[\d.]+e[+-]?\d{3})/i;

/** A number that JavaScript would change. */
export class ExactNumber {
  constructor(
    /** The number as JSON. */
    readonly source: string,
  ) {}

  toString(): string {
    return this.source;
  }

  toJSON(): unknown {
    return rawJSON?.(this.source);
  }
}

/** Reads a JSON text. Throws `SyntaxError` if it is none. A browser without `JSON.rawJSON` rounds long numbers. */
export function parseExact(text: string): unknown {
  // Reading is several times slower with a reviver.
  return LONG_NUMBER.test(text) ? JSON.parse(text, keepDigits) : JSON.parse(text);
}

/** Returns whether this browser would round a number of a JSON text. */
export function isRounded(text: string): boolean {
  return rawJSON === undefined && LONG_NUMBER.test(text);
}

/** A reviver of `JSON.parse` that replaces numbers that JavaScript would change. */
export function keepDigits(_key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source;
  if (typeof value !== "number" || source === undefined || rawJSON === undefined) {
    return value;
  }
  return digitsOf(source) === digitsOf(String(value)) ? value : new ExactNumber(source);
}

/** Returns the digits of a number without its sign, its exponent, and zeros at its ends. */
function digitsOf(number: string): string {
  return number
    .replace(/e.*$/i, "")
    .replace(/\D/g, "")
    .replace(/^0+|0+$/g, "");
}

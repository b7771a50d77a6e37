/** Long texts in parts. A part never ends within a character. */

/** Number of characters from which a name is long. */
const LONG = 40;
/** Number of characters at the end of a long name that are always shown. */
const END = 18;

export function isLongText(text: string): boolean {
  return text.length > LONG;
}

/** Returns the start of a long name, which may be shortened, and its end. */
export function partsOf(text: string): { start: string; end: string } {
  const end = startingAt(text, text.length - END);
  return { start: text.slice(0, text.length - end.length), end };
}

/** Returns the first characters of a text, at most `length`. */
export function firstOf(text: string, length: number): string {
  return text.slice(0, text.length - startingAt(text, length).length);
}

/** Returns the text from a place on, or from the start of the character at this place. */
function startingAt(text: string, place: number): string {
  const isWithin = /[\uDC00-\uDFFF]/.test(text.charAt(place)) && /[\uD800-\uDBFF]/.test(text.charAt(place - 1));
  return text.slice(isWithin ? place - 1 : place);
}

/**
 * Stack traces of errors. An event can have one. A tool of NoETL that runs a program has it in the output of the program,
 * which is in the result of the step.
 */

const MAX_DEPTH = 8;
const NAMES = ["stack_trace", "stackTrace", "traceback", "stderr"];

interface FailedStep {
  name: string;
  error: string | null;
  result: unknown;
}

interface ReportedEvent {
  nodeName: string | null;
  error: string | null;
  stackTrace: string | null;
}

/** Returns the stack trace of a step's error; null if none is known. */
export type TraceOf = (step: FailedStep) => string | null;

/** Returns the stack trace of a step's error; null if the step has no error, or no stack trace is known. */
export function traceOfStep({ name, error, result }: FailedStep, events: readonly ReportedEvent[]): string | null {
  if (error === null) {
    return null;
  }
  const event = events.findLast(({ nodeName, stackTrace }) => nodeName === name && stackTrace !== null);
  return event?.stackTrace ?? traceIn(result);
}

/** Returns the stack trace of the newest event with this error; null if there is none. */
export function traceOfError(error: string | null, events: readonly ReportedEvent[]): string | null {
  const event = error === null ? undefined : events.findLast((one) => one.error === error && one.stackTrace !== null);
  return event?.stackTrace ?? null;
}

/** Returns the first text of a document that is the output of errors or a stack trace by its name; null if there is none. */
function traceIn(value: unknown, depth = 0): string | null {
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) {
    return null;
  }
  const fields = value as Record<string, unknown>;
  const own = NAMES.map((name) => fields[name]).find((text) => typeof text === "string" && text.trim() !== "");
  if (typeof own === "string") {
    return own;
  }
  for (const inner of Object.values(fields)) {
    const found = traceIn(inner, depth + 1);
    if (found !== null) {
      return found;
    }
  }
  return null;
}

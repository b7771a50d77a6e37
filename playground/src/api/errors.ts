/** Errors of the API, and their explanation in words. */

export interface GraphqlError {
  message: string;
  path?: readonly (string | number)[];
  extensions?: { code?: string; retryable?: boolean };
}

/** Advice for the codes that a user of the console can meet. */
const ADVICE: Record<string, string> = {
  UNREACHABLE: "Check that the server runs and that this computer reaches it. The console tries again by itself.",
  UNAUTHENTICATED: "Sign in again.",
  FORBIDDEN: "Sign in as a user whose role has the capability that the message names.",
  LIMIT_EXCEEDED: "Narrow the filter, and try again.",
  OVERLOADED: "Wait a moment, and try again.",
  SHARD_UNAVAILABLE: "A database can't be reached. The System view shows which. Try again when it is back.",
  TIMEOUT: "The request took too long. Narrow the filter, or try again later.",
  SHUTTING_DOWN: "The server restarts. The console connects again by itself.",
  STREAM_UNAVAILABLE: "The event stream can't be reached. The console tries again by itself.",
};

/** Failure of a whole request. `code` is a code of the API, or `UNREACHABLE` if no response arrived. */
export class ApiError extends Error {
  override readonly name = "ApiError";

  constructor(
    readonly code: string,
    message: string,
    /** Whether the same request can succeed later. */
    readonly retryable = code === "UNREACHABLE",
  ) {
    super(message);
  }

  static of(errors: readonly GraphqlError[]): ApiError {
    const first = errors[0];
    const { code = "UNKNOWN", retryable = false } = first?.extensions ?? {};
    return new ApiError(code, errors.map((error) => error.message).join(" "), retryable);
  }
}

/** Returns whether the same request can succeed later. */
export function isRetryable(fault: unknown): boolean {
  return fault instanceof ApiError && fault.retryable;
}

/** Returns the failure of a request, or of a sink of the socket, as an error of the API. */
export function toApiError(fault: unknown): ApiError {
  if (fault instanceof ApiError) {
    return fault;
  }
  if (Array.isArray(fault)) {
    return ApiError.of(fault as GraphqlError[]);
  }
  if (fault instanceof CloseEvent) {
    const reason = fault.reason ? `: ${fault.reason}` : "";
    return new ApiError("UNREACHABLE", `The server closed the connection (${fault.code}${reason}).`);
  }
  return new ApiError("UNKNOWN", fault instanceof Error ? fault.message : String(fault));
}

/** Returns the advice for a failure; undefined if there is none beyond its message. */
export function advice(error: ApiError): string | undefined {
  return ADVICE[error.code];
}

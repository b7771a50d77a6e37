/** Returns an error of a subscription's sink as a sentence. */
export function faultMessage(fault: unknown): string {
  if (fault instanceof CloseEvent) {
    return `The server closed the connection (${fault.code}${fault.reason ? `: ${fault.reason}` : ""}).`;
  }
  if (Array.isArray(fault)) {
    return fault.map((error: { message?: string }) => error.message ?? String(error)).join(" ");
  }
  return fault instanceof Error ? fault.message : String(fault);
}

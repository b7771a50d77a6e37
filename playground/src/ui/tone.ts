/** Tone of a status: the colour in which it is shown. The text always names the status too. */

export type Tone = "good" | "busy" | "waiting" | "bad" | "mixed" | "plain";

const TONES: Record<string, Tone> = {
  ACTIVE: "good",
  COMPLETED: "good",
  PUBLISHED: "good",
  SUCCESS: "good",
  RUNNING: "busy",
  STARTED: "busy",
  ENTERED: "busy",
  IN_FLIGHT: "busy",
  COMMAND_STARTED: "busy",
  COMMAND_ISSUED: "waiting",
  COMMAND_CLAIMED: "waiting",
  PENDING: "waiting",
  PAUSED: "waiting",
  DRAINING: "waiting",
  FAILED: "bad",
  DEAD: "bad",
  ERROR: "bad",
};

/** Returns the tone of a status of any object. */
export function toneOf(status: string): Tone {
  return TONES[status.toUpperCase()] ?? "plain";
}

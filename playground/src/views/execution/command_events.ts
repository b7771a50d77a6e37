/** Types of the events of a command. NoETL has more than one name for each. */

export const STARTED: readonly string[] = ["command.started", "action_started"];
export const COMPLETED: readonly string[] = ["command.completed", "action_completed"];
export const FAILED: readonly string[] = ["command.failed", "action_failed", "call.error"];
/** The call of the command returned, with or without an error. */
export const CALLED: readonly string[] = ["call.done", "action_done"];

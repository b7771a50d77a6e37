/** The status of an execution. A completed one says how many of its steps have failed. */

import classes from "./execution_status.module.css";
import { StatusBadge } from "./status_badge";

interface Props {
  execution: { status: string; statusText: string; failedSteps: number | null };
}

export function ExecutionStatus({ execution: { status, statusText, failedSteps } }: Props) {
  const failed = status === "COMPLETED" ? (failedSteps ?? 0) : 0;
  return (
    <span className={classes.status}>
      <StatusBadge status={status} {...(status === "UNKNOWN" && { label: statusText })} />
      {failed > 0 && <StatusBadge status="FAILED" label={`${failed} failed ${failed === 1 ? "step" : "steps"}`} />}
    </span>
  );
}

/** Errors of an execution and of its steps, shown first. A step with the same error as the execution is only named. */

import { Alert, Anchor, Text } from "@mantine/core";
import { IconAlertOctagon } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { Fragment } from "react";

import { LongMessage } from "../../ui/long_message";
import { StackTrace } from "../../ui/stack_trace";
import type { Execution, StepState } from "./live_execution";
import type { TraceOf } from "./stack_traces";
import { failuresInWords } from "./step_words";

const TITLES: Partial<Record<Execution["status"], string>> = {
  FAILED: "The execution failed",
  CANCELLED: "The execution was cancelled",
};

interface Props {
  execution: Pick<Execution, "id" | "status" | "error" | "cancelledBy">;
  steps: readonly StepState[];
  /** Stack trace of the event that ended the execution; null if none is known. */
  trace: string | null;
  traceOf: TraceOf;
}

export function ErrorReport({ execution: { id, status, error, cancelledBy }, steps, trace, traceOf }: Props) {
  const failed = steps.filter((step) => step.error !== null);
  const title = TITLES[status] ?? (failed.length > 0 ? "A step reported an error" : null);
  if (title === null) {
    return null;
  }
  const caller = status === "CANCELLED" && cancelledBy !== null ? ` by ${cancelledBy}` : "";
  return (
    <Alert color={status === "FAILED" ? "red" : "yellow"} variant="outline" icon={<IconAlertOctagon />} title={`${title}${caller}`}>
      {error !== null && (
        <Text size="sm" component="div">
          <LongMessage text={error} name="error" />
        </Text>
      )}
      {trace !== null && <StackTrace text={trace} />}
      {failed.map((step) => (
        <Fragment key={step.name}>
          <Text size="sm" component="div">
            {step.error === error && "In step "}
            <Anchor
              renderRoot={(props) => (
                <Link {...props} to="/events" search={{ executions: id, nodes: step.name, from: "beginning" }} />
              )}
              inherit
              underline="always"
            >
              {step.name}
            </Anchor>
            {step.error !== error && (
              <>
                {": "}
                <LongMessage text={step.error ?? ""} name="error" />
              </>
            )}
            {step.attempt > 1 && ` (${step.attempt} attempts)`}
            {failuresInWords(step) !== null && ` (${failuresInWords(step)})`}
          </Text>
          <StepTrace step={step} trace={traceOf(step)} shownAbove={trace} />
        </Fragment>
      ))}
    </Alert>
  );
}

/** The stack trace of a step. A failed step that ends the execution often has the same one. */
function StepTrace({ step, trace, shownAbove }: { step: StepState; trace: string | null; shownAbove: string | null }) {
  return trace === null || trace === shownAbove ? null : <StackTrace text={trace} of={step.name} />;
}

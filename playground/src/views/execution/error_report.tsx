/** Errors of an execution and of its steps, shown first. */

import { Alert, Anchor, Text } from "@mantine/core";
import { IconAlertOctagon } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";

import { LongMessage } from "../../ui/long_message";
import type { Execution, StepState } from "./live_execution";

const TITLES: Partial<Record<Execution["status"], string>> = {
  FAILED: "The execution failed",
  CANCELLED: "The execution was cancelled",
};

interface Props {
  execution: Pick<Execution, "id" | "status" | "error" | "cancelledBy">;
  steps: readonly StepState[];
}

export function ErrorReport({ execution: { id, status, error, cancelledBy }, steps }: Props) {
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
      {failed.map((step) => (
        <Text size="sm" component="div" key={step.name}>
          <Anchor
            renderRoot={(props) => (
              <Link {...props} to="/events" search={{ executions: id, nodes: step.name, from: "beginning" }} />
            )}
            inherit
            underline="always"
          >
            {step.name}
          </Anchor>
          {": "}
          <LongMessage text={step.error ?? ""} name="error" />
          {step.attempt > 1 && ` (${step.attempt} attempts)`}
        </Text>
      ))}
    </Alert>
  );
}

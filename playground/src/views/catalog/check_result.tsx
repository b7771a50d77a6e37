/** The result of the server's check in words. Each message leads to its place in the editor. */

import { Anchor, Text } from "@mantine/core";

import { Failure } from "../../ui/states";
import type { Problem } from "../../ui/code/problem_place";
import { StatusBadge } from "../../ui/status_badge";
import type { Check, Draft } from "./use_check";
import classes from "./register_form.module.css";

interface Props {
  check: Check;
  /** Reasons the registration was refused. */
  refused: readonly Problem[];
  /** Whether the registration added no version, because the newest one is the same. */
  unchanged: boolean;
  onShow: (problem: Problem) => void;
}

export function CheckResult({ check, refused, unchanged, onShow }: Props) {
  const problems = check.state === "valid" ? refused : check.problems;
  if (check.error) {
    return <Failure error={check.error} retry={check.retry} />;
  }
  return (
    <>
      <Text size="sm" component="div" role="status" aria-label="Check of the document">
        <Verdict check={check} refused={refused.length > 0} unchanged={unchanged} />
      </Text>
      {problems.length > 0 && (
        <ul className={classes.problems}>
          {problems.map((problem) => (
            <li key={problem.message}>
              <p className={classes.message}>{problem.message}</p>
              <Anchor component="button" type="button" size="xs" onClick={() => onShow(problem)}>
                Show the place
              </Anchor>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Verdict({ check, refused, unchanged }: Omit<Props, "refused" | "onShow"> & { refused: boolean }) {
  if (check.state === "checking") {
    return <StatusBadge status="CHECKING" label="Checking…" tone="waiting" />;
  }
  if (check.state === "invalid") {
    return <StatusBadge status="INVALID" label="The document can't be registered." tone="bad" />;
  }
  if (refused) {
    return <StatusBadge status="REFUSED" label="The server refused the document." tone="bad" />;
  }
  if (unchanged) {
    return <StatusBadge status="UNCHANGED" label="Nothing was registered: the newest version has the same content." tone="waiting" />;
  }
  return <StatusBadge status="VALID" label={check.entry ? `Valid: ${inWords(check.entry)}.` : "Valid."} tone="good" />;
}

function inWords({ kind, path, workflow, workloadFields }: Draft): string {
  const steps = workflow ? `, ${counted(workflow.steps.length, "step")}` : "";
  const fields = workloadFields.length > 0 ? `, ${counted(workloadFields.length, "workload field")}` : "";
  return `${kind.toLowerCase()} ${path}${steps}${fields}`;
}

function counted(count: number, name: string): string {
  return `${count} ${name}${count === 1 ? "" : "s"}`;
}

/** The chosen step: its definition in the workflow, its state, and its result. */

import { Button, CloseButton, Group } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";

import { FieldList } from "../../ui/field_list";
import { JsonTree } from "../../ui/json_tree";
import { LongMessage } from "../../ui/long_message";
import { Panel } from "../../ui/panel";
import { RunDuration } from "../../ui/run_duration";
import { StackTrace } from "../../ui/stack_trace";
import { StatusBadge } from "../../ui/status_badge";
import { Time } from "../../ui/time";
import type { WorkflowStep } from "./flow_graph";
import { IterationsTable } from "./iterations_table";
import type { StepState } from "./live_execution";
import { stepInWords, toneOfStep } from "./step_words";

const route = getRouteApi("/executions/$id");

interface Props {
  name: string;
  step: WorkflowStep | null;
  state: StepState | null;
  /** Stack trace of its error; null if none is known. */
  trace: string | null;
  /** Whether the execution can have more events. */
  running: boolean;
  /** Time of the moment that is shown; undefined: the newest state. */
  moment: string | undefined;
}

export function StepPanel({ name, step, state, trace, running, moment }: Props) {
  const { id } = route.useParams();
  const navigate = route.useNavigate();
  const close = () =>
    void navigate({ search: (before) => ({ ...before, step: undefined }), replace: true, resetScroll: false });
  return (
    <Panel title={`Step ${name}`} actions={<CloseButton size="sm" aria-label="Close the step" onClick={close} />}>
      <FieldList
        fields={[
          ["Status", state ? <StatusBadge status={state.status} label={stepInWords(state)} tone={toneOfStep(state)} /> : "Not reached"],
          ["Description", step?.description],
          ["Tools", step?.tools.map(({ kind, label, playbook }) => [kind, label, playbook].filter(Boolean).join(" ")).join(", ")],
          ["Runs only if", step?.condition],
          ["Loop", step?.repetition && step.repetition.mode.toLowerCase()],
          ["Next", step?.transitions.map(({ to, condition }) => (condition ? `${to} if ${condition}` : to)).join("; ")],
          ["Entered", state?.enteredAt && <Time value={state.enteredAt} running={state.completedAt === null} absolute />],
          ["Duration", state?.enteredAt && <RunDuration from={state.enteredAt} to={state.completedAt} moment={moment} />],
          ["Error", state?.error && <LongMessage text={state.error} name="error" />],
          ["Stack trace", trace !== null && <StackTrace text={trace} />],
          ["Result", state && state.result !== null && <JsonTree value={state.result} name={`Result of ${name}`} />],
        ]}
      />
      {state?.iterations && <IterationsTable key={name} step={name} running={running} moment={moment} />}
      <Group mt="sm">
        <Button
          renderRoot={(props) => <Link {...props} to="/events" search={{ executions: id, nodes: name, from: "beginning" }} />}
          size="xs"
          variant="default"
        >
          Events of the step
        </Button>
      </Group>
    </Panel>
  );
}

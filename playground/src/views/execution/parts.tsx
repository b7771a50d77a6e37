/** Parts of an execution, one at a time: flow, timeline, documents, events, children, and the comparison with a run. */

import { Stack, Tabs } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, type ReactNode } from "react";

import { part } from "../../app/parts";
import { Panel } from "../../ui/panel";
import { Loading } from "../../ui/states";
import { ChildrenTree } from "./children_tree";
import { Compare } from "./compare";
import { Documents } from "./documents";
import { EarlierEvents } from "./earlier_events";
import { HistoryExport } from "./history_export";
import type { Execution } from "./live_execution";
import type { Log } from "./log_reader";
import { LogTable } from "./log_table";
import type { TraceOf } from "./stack_traces";
import { StepPanel } from "./step_panel";
import { StepsTable } from "./steps_table";
import { TimelineView } from "./timeline_view";
import classes from "./parts.module.css";

const FlowDiagram = lazy(part(() => import("./flow_diagram")));
const route = getRouteApi("/executions/$id");
const TITLES = {
  flow: "Flow",
  timeline: "Timeline",
  data: "Input and result",
  events: "Events",
  children: "Children",
  compare: "Compare",
} as const;

type Tab = keyof typeof TITLES;

interface Props {
  execution: Execution;
  /** The execution at the moment that the slider shows. */
  shown: Execution;
  /** Time of this moment; undefined: the newest state. */
  moment: string | undefined;
  log: Log;
  /** Returns the stack trace of a step's error at this moment; null if none is known. */
  traceOf: TraceOf;
}

export function Parts({ execution, shown, moment, log, traceOf }: Props) {
  const { tab, compare, step } = route.useSearch();
  const navigate = route.useNavigate();
  const opened: Tab = isTab(tab) ? tab : compare === undefined ? "flow" : "compare";
  const contents: Record<Tab, () => ReactNode> = {
    flow: () => <Flow execution={shown} running={execution.endedAt === null} moment={moment} traceOf={traceOf} />,
    timeline: () => (
      <Panel title="Time of the steps">
        <EarlierEvents log={log} />
        <TimelineView execution={execution} events={log.events} moment={moment} />
      </Panel>
    ),
    data: () => <Documents execution={shown} />,
    events: () => (
      <Panel title="Events" actions={<HistoryExport id={execution.id} />}>
        <LogTable log={log} step={step} />
      </Panel>
    ),
    children: () => (
      <Panel title="Executions that this one started">
        <ChildrenTree id={execution.id} growing={execution.endedAt === null} />
      </Panel>
    ),
    compare: () => <Compare execution={execution} />,
  };
  const open = (chosen: string | null) =>
    void navigate({ search: (before) => ({ ...before, tab: chosen ?? undefined }), replace: true, resetScroll: false });
  return (
    <Tabs value={opened} onChange={open} keepMounted={false}>
      <Tabs.List mb="md" className={classes.tabs!}>
        {Object.entries(TITLES).map(([value, title]) => (
          <Tabs.Tab key={value} value={value}>
            {title}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      <Tabs.Panel value={opened}>{contents[opened]()}</Tabs.Panel>
    </Tabs>
  );
}

function isTab(text: string | undefined): text is Tab {
  return text !== undefined && text in TITLES;
}

interface FlowProps extends Pick<Props, "execution" | "moment" | "traceOf"> {
  running: boolean;
}

function Flow({ execution, running, moment, traceOf }: FlowProps) {
  const { step } = route.useSearch();
  const navigate = route.useNavigate();
  const steps = execution.steps?.nodes ?? [];
  const state = steps.find(({ name }) => name === step) ?? null;
  const workflow = execution.catalogEntry?.workflow ?? null;
  const select = (chosen: string | undefined) =>
    void navigate({ search: (before) => ({ ...before, step: chosen }), replace: true, resetScroll: false });
  return (
    <Stack gap="md">
      <Suspense fallback={<Loading lines={6} />}>
        <FlowDiagram workflow={workflow} states={steps} selected={step} onSelect={select} />
      </Suspense>
      {step !== undefined && (
        <StepPanel
          name={step}
          step={workflow?.steps.find(({ name }) => name === step) ?? null}
          state={state}
          trace={state && traceOf(state)}
          running={running}
          moment={moment}
        />
      )}
      <Panel title="Steps">
        <StepsTable steps={steps} moment={moment} more={execution.steps?.pageInfo.hasNextPage ?? false} />
      </Panel>
    </Stack>
  );
}

/** The graph of a workflow with the state of its steps, and its layout. */

import { graphlib, layout } from "@dagrejs/dagre";
import { MarkerType, type Edge, type Node } from "@xyflow/react";

import type { Execution, StepState } from "./live_execution";

export type Workflow = NonNullable<NonNullable<Execution["catalogEntry"]>["workflow"]>;
export type WorkflowStep = Workflow["steps"][number];
export type Direction = "LR" | "TB";

export interface StepData extends Record<string, unknown> {
  name: string;
  /** Null if the workflow has no such step any more. */
  step: WorkflowStep | null;
  /** Null if the execution has not reached the step. */
  state: StepState | null;
  direction: Direction;
}

export type StepNode = Node<StepData, "step">;

export const NODE_WIDTH = 176;
export const NODE_HEIGHT = 62;
const MAX_LABEL = 26;

export interface FlowLayout {
  places: ReadonlyMap<string, { x: number; y: number }>;
  direction: Direction;
  width: number;
  height: number;
}

export interface FlowGraph {
  nodes: StepNode[];
  edges: Edge[];
}

/** Names of the steps in the diagram. Steps that only the execution has, because another program ran it, are the last. */
export function namesOf(workflow: Workflow | null, states: readonly StepState[]): string[] {
  return [...new Set([...(workflow?.steps ?? []), ...states].map(({ name }) => name))];
}

/** Places of the steps. They depend on the names and the transitions, so a changed state needs no other layout. */
export function layoutOf(workflow: Workflow | null, names: readonly string[], direction: Direction): FlowLayout {
  const graph = arranged(names, edgesOf(workflow?.steps ?? [], new Map()), direction);
  const places = new Map(names.map((name) => [name, graph.node(name) as { x: number; y: number }]));
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return { places, direction, width, height };
}

/** Returns the nodes and the transitions with the state of the steps. */
export function graphOf(workflow: Workflow | null, states: readonly StepState[], { places, direction }: FlowLayout): FlowGraph {
  const steps = new Map((workflow?.steps ?? []).map((step) => [step.name, step]));
  const byName = new Map(states.map((state) => [state.name, state]));
  const nodes = [...places].map(([name, { x, y }]): StepNode => ({
    id: name,
    type: "step",
    position: { x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 },
    width: NODE_WIDTH,
    height: NODE_HEIGHT,
    data: { name, step: steps.get(name) ?? null, state: byName.get(name) ?? null, direction },
  }));
  return { nodes, edges: edgesOf([...steps.values()], byName) };
}

function edgesOf(steps: readonly WorkflowStep[], states: ReadonlyMap<string, StepState>): Edge[] {
  const names = new Set(steps.map(({ name }) => name));
  return steps.flatMap(({ name, transitions }) =>
    transitions
      .filter(({ to }) => names.has(to))
      .map(({ to, condition }, index) => {
        const reached = isReached(states.get(name)) && isReached(states.get(to));
        const color = reached ? "var(--mantine-color-anchor)" : "var(--noetl-plain)";
        return {
          id: `${name}>${to}>${index}`,
          source: name,
          target: to,
          ...(condition !== null && { label: shortened(condition) }),
          style: { stroke: color, strokeWidth: reached ? 2 : 1, ...(!reached && { strokeDasharray: "4 3" }) },
          markerEnd: { type: MarkerType.ArrowClosed, color },
          focusable: false,
        };
      }),
  );
}

function isReached(state: StepState | undefined): boolean {
  return state !== undefined && state.status !== "PENDING";
}

function shortened(condition: string): string {
  const text = condition.replace(/^\{\{\s*|\s*\}\}$/g, "");
  return text.length > MAX_LABEL ? `${text.slice(0, MAX_LABEL - 1)}…` : text;
}

function arranged(names: readonly string[], edges: readonly Edge[], direction: Direction) {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: direction, nodesep: 28, ranksep: direction === "LR" ? 56 : 40 });
  graph.setDefaultEdgeLabel(() => ({}));
  names.forEach((name) => graph.setNode(name, { width: NODE_WIDTH, height: NODE_HEIGHT }));
  edges.forEach(({ id, source, target }) => graph.setEdge(source, target, {}, id));
  layout(graph);
  return graph;
}

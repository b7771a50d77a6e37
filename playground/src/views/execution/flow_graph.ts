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

export interface FlowGraph {
  nodes: StepNode[];
  edges: Edge[];
  width: number;
  height: number;
}

/** Returns the graph. Steps that only the execution has, because another program ran it, are nodes without transitions. */
export function graphOf(workflow: Workflow | null, states: readonly StepState[], direction: Direction): FlowGraph {
  const byName = new Map(states.map((state) => [state.name, state]));
  const steps = workflow?.steps ?? [];
  const names = [...new Set([...steps.map(({ name }) => name), ...byName.keys()])];
  const edges = edgesOf(steps, byName);
  const graph = arranged(names, edges, direction);
  const nodes = names.map((name): StepNode => {
    const { x, y } = graph.node(name) as { x: number; y: number };
    return {
      id: name,
      type: "step",
      position: { x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 },
      width: NODE_WIDTH,
      height: NODE_HEIGHT,
      data: { name, step: steps.find((step) => step.name === name) ?? null, state: byName.get(name) ?? null, direction },
    };
  });
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return { nodes, edges, width, height };
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

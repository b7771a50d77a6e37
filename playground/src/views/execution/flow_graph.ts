/** The graph of a workflow with the state of its steps, and its layout. */

import { graphlib, layout } from "@dagrejs/dagre";
import { MarkerType, type Edge, type Node } from "@xyflow/react";

import { READABLE } from "./flow_camera";
import { LAYER_GAP, layerCount, NODE_HEIGHT, NODE_WIDTH, sizeOf, withRest, wrapped, type Place, type Places } from "./flow_rows";
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
  /** Whether the search found the step, and shows it. */
  match: "current" | "other" | null;
}

export type StepNode = Node<StepData, "step">;

const MAX_LABEL = 26;

export interface FlowLayout {
  places: Places;
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

/**
 * Places of the steps. They depend on the names and the transitions, so a changed state needs no other layout. `columns` is
 * the number of layers that fit side by side; a flow that is much longer is wrapped.
 */
export function layoutOf(workflow: Workflow | null, names: readonly string[], direction: Direction, columns: number): FlowLayout {
  const edges = edgesOf(workflow?.steps ?? [], new Map(), new Map());
  const linked = new Set(edges.flatMap(({ source, target }) => [source, target]));
  const flow = arranged(names.filter((name) => linked.has(name)), edges, direction);
  const long = direction === "LR" && layerCount(flow) > columns / READABLE;
  const rest = names.filter((name) => !linked.has(name));
  const places = withRest(long ? wrapped(flow, columns) : flow, rest, columns);
  return { places, direction, ...sizeOf(places) };
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
    data: { name, step: steps.get(name) ?? null, state: byName.get(name) ?? null, direction, match: null },
  }));
  return { nodes, edges: edgesOf([...steps.values()], byName, direction === "LR" ? places : new Map()) };
}

function edgesOf(steps: readonly WorkflowStep[], states: ReadonlyMap<string, StepState>, places: Places): Edge[] {
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
          ...(beginsRow(places.get(name), places.get(to)) && { type: "smoothstep" }),
          ...(condition !== null && { label: shortened(condition) }),
          style: { stroke: color, strokeWidth: reached ? 2 : 1, ...(!reached && { strokeDasharray: "4 3" }) },
          markerEnd: { type: MarkerType.ArrowClosed, color },
          focusable: false,
        };
      }),
  );
}

/** Returns whether a transition leads to the start of a lower row. Its line then lies between the rows. */
function beginsRow(from: Place | undefined, to: Place | undefined): boolean {
  return from !== undefined && to !== undefined && to.x < from.x && to.y > from.y + NODE_HEIGHT;
}

function isReached(state: StepState | undefined): boolean {
  return state !== undefined && state.status !== "PENDING";
}

function shortened(condition: string): string {
  const text = condition.replace(/^\{\{\s*|\s*\}\}$/g, "");
  return text.length > MAX_LABEL ? `${text.slice(0, MAX_LABEL - 1)}…` : text;
}

function arranged(names: readonly string[], edges: readonly Edge[], direction: Direction): Places {
  if (names.length === 0) {
    return new Map();
  }
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: direction, nodesep: 28, ranksep: direction === "LR" ? LAYER_GAP : 40 });
  graph.setDefaultEdgeLabel(() => ({}));
  names.forEach((name) => graph.setNode(name, { width: NODE_WIDTH, height: NODE_HEIGHT }));
  edges.forEach(({ id, source, target }) => graph.setEdge(source, target, {}, id));
  layout(graph);
  return new Map(names.map((name) => [name, graph.node(name) as Place]));
}

import { expect, test } from "vitest";

import { graphOf, layoutOf, namesOf, type Direction, type Workflow } from "../src/views/execution/flow_graph";
import { NODE_HEIGHT, NODE_WIDTH } from "../src/views/execution/flow_rows";
import type { StepState } from "../src/views/execution/live_execution";

type Transition = Workflow["steps"][number]["transitions"][number];

function workflow(steps: Record<string, (string | Transition)[]>): Workflow {
  const transitions = (all: (string | Transition)[]) => all.map((one) => (typeof one === "string" ? { to: one, condition: null } : one));
  return { steps: Object.entries(steps).map(([name, all]) => ({ name, transitions: transitions(all) })) } as Workflow;
}

function state(name: string, status: StepState["status"]): StepState {
  return { name, status } as StepState;
}

/** Number of layers that fit side by side. */
const COLUMNS = 5;

const DIAMOND = workflow({ start: ["left", "right"], left: ["end"], right: ["end"], end: [] });

test("steps that only the execution has are the last, and no step is listed twice", () => {
  expect(namesOf(DIAMOND, [state("end", "COMPLETED"), state("added", "FAILED")])).toEqual(["start", "left", "right", "end", "added"]);
  expect(namesOf(null, [state("added", "FAILED")])).toEqual(["added"]);
});

test.each<Direction>(["LR", "TB"])("a step is placed after those that lead to it, and steps do not overlap: %s", (direction) => {
  const names = namesOf(DIAMOND, []);
  const { places, width, height } = layoutOf(DIAMOND, names, direction, COLUMNS);
  const along = (name: string) => places.get(name)?.[direction === "LR" ? "x" : "y"] ?? NaN;
  expect(along("left")).toBeGreaterThan(along("start"));
  expect(along("right")).toBe(along("left"));
  expect(along("end")).toBeGreaterThan(along("left"));
  const all = [...places.values()];
  for (const one of all) {
    const near = all.filter(({ x, y }) => Math.abs(x - one.x) < NODE_WIDTH && Math.abs(y - one.y) < NODE_HEIGHT);
    expect(near).toEqual([one]);
    expect(one.x + NODE_WIDTH / 2).toBeLessThanOrEqual(width);
    expect(one.y + NODE_HEIGHT / 2).toBeLessThanOrEqual(height);
  }
});

test("a long chain fills rows from left to right", () => {
  const names = Array.from({ length: 12 }, (_, index) => `s${index}`);
  const chain = workflow(Object.fromEntries(names.map((name, index) => [name, names.slice(index + 1, index + 2)])));
  const { places } = layoutOf(chain, names, "LR", COLUMNS);
  const placed = names.map((name) => places.get(name)!);
  const rows = [...new Set(placed.map(({ y }) => y))].map((row) => placed.filter(({ y }) => y === row).map(({ x }) => x));
  expect(rows.map(({ length }) => length)).toEqual([5, 5, 2]);
  expect(rows[2]).toEqual(rows[0]!.slice(0, 2));
});

test("loops, and transitions to steps that do not exist, are laid out", () => {
  const loop = workflow({ start: ["again", "gone"], again: ["start", "again"] });
  const layout = layoutOf(loop, namesOf(loop, []), "LR", COLUMNS);
  const { nodes, edges } = graphOf(loop, [], layout);
  expect(nodes.map(({ id }) => id)).toEqual(["start", "again"]);
  expect(edges.map(({ source, target }) => `${source} ${target}`)).toEqual(["start again", "again start", "again again"]);
});

test("a transition is solid if both steps were reached, and a long condition is cut", () => {
  const steps = workflow({ start: [{ to: "end", condition: "{{ workload.amount > 1000 and approved }}" }], end: [] });
  const layout = layoutOf(steps, namesOf(steps, []), "LR", COLUMNS);
  const edge = (end: StepState["status"]) => graphOf(steps, [state("start", "COMPLETED"), state("end", end)], layout).edges[0];
  expect(edge("PENDING")?.style).toHaveProperty("strokeDasharray");
  expect(edge("ENTERED")?.style).not.toHaveProperty("strokeDasharray");
  expect(edge("ENTERED")?.label).toBe("workload.amount > 1000 an…");
});

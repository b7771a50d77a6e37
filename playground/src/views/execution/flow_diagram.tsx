/**
 * The workflow as a diagram, coloured by the state of its steps. It is loaded when it is shown. A long one is wrapped, and
 * begins at its failed or active step. The table of the steps below it has the same content for screen readers.
 */

import { Background, Controls, MiniMap, ReactFlow, ReactFlowProvider } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { useElementSize } from "@mantine/hooks";
import { useMemo, useState } from "react";

import { FIT, frameHeight, SIDE, stepInQuestion } from "./flow_camera";
import { graphOf, layoutOf, namesOf, type StepNode, type Workflow } from "./flow_graph";
import { columnsIn } from "./flow_rows";
import { FlowSearch, NOTHING_FOUND, type Found } from "./flow_search";
import { FlowStep } from "./flow_step";
import type { StepState } from "./live_execution";
import { toneOfStep } from "./step_words";
import { useFlowCamera } from "./use_flow_camera";
import classes from "./flow_diagram.module.css";

const NODE_TYPES = { step: FlowStep };
const NARROW = 640;
/** Number of steps above which only those in the window are drawn. */
const MANY = 200;
/** Number of steps from which the flow has a search. */
const SEARCHED = 12;
const MAP_SIZE = { width: 150, height: 110 };

interface Props {
  workflow: Workflow | null;
  states: readonly StepState[];
  selected: string | undefined;
  onSelect: (step: string | undefined) => void;
}

export default function FlowDiagram(props: Props) {
  return (
    <ReactFlowProvider>
      <Diagram {...props} />
    </ReactFlowProvider>
  );
}

function Diagram({ workflow, states, selected, onSelect }: Props) {
  const { ref, width } = useElementSize();
  const [found, setFound] = useState(NOTHING_FOUND);
  const direction = width > 0 && width < NARROW ? "TB" : "LR";
  const columns = columnsIn(width - 2 * SIDE);
  const keys = JSON.stringify(namesOf(workflow, states));
  const names = useMemo(() => JSON.parse(keys) as string[], [keys]);
  const layout = useMemo(() => layoutOf(workflow, names, direction, columns), [workflow, names, direction, columns]);
  const graph = useMemo(() => graphOf(workflow, states, layout), [workflow, states, layout]);
  const height = frameHeight(layout, width);
  const { camera, show, handlers } = useFlowCamera(layout, width, height, selected ?? stepInQuestion(states));
  const find = (next: Found) => {
    setFound(next);
    if (next.current !== undefined) {
      show(next.current);
    }
  };
  const hasMap = !camera.whole && width >= NARROW;
  return (
    <div>
      {names.length >= SEARCHED && <FlowSearch names={names} onFound={find} />}
      <div ref={ref} className={classes.frame} style={{ height }} role="group" aria-label="Flow diagram of the steps" {...handlers}>
        {width > 0 && (
          <ReactFlow
            nodes={graph.nodes.map((node) => shownAs(node, selected, found))}
            edges={graph.edges}
            nodeTypes={NODE_TYPES}
            onNodeClick={(_, node) => onSelect(node.id === selected ? undefined : node.id)}
            defaultViewport={camera}
            minZoom={0.2}
            maxZoom={1.5}
            nodesDraggable={false}
            nodesConnectable={false}
            nodesFocusable={false}
            onlyRenderVisibleElements={graph.nodes.length > MANY}
            zoomOnScroll={false}
            preventScrolling={false}
            attributionPosition={hasMap ? "bottom-center" : "bottom-left"}
          >
            <Background gap={20} color="var(--noetl-line)" />
            <Controls showInteractive={false} position="bottom-right" orientation="horizontal" fitViewOptions={FIT} />
            {hasMap && <FlowMap />}
          </ReactFlow>
        )}
      </div>
    </div>
  );
}

/** The whole flow in small, with the part that is shown. It can be dragged. */
function FlowMap() {
  return (
    <MiniMap
      pannable
      position="bottom-left"
      style={MAP_SIZE}
      ariaLabel="Map of the flow"
      bgColor="var(--noetl-surface)"
      maskColor="color-mix(in srgb, var(--noetl-plain) 30%, transparent)"
      nodeColor={({ data }: StepNode) => (data.state ? `var(--noetl-${toneOfStep(data.state)})` : "var(--noetl-line)")}
    />
  );
}

function shownAs(node: StepNode, selected: string | undefined, { matches, current }: Found): StepNode {
  const match = node.id === current ? "current" : matches.has(node.id) ? "other" : null;
  return { ...node, selected: node.id === selected, data: { ...node.data, match } };
}

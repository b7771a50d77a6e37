/**
 * The workflow as a diagram, coloured by the state of its steps. It is loaded when it is shown. The table of the steps
 * below it has the same content for screen readers.
 */

import { Background, Controls, ReactFlow, useReactFlow, ReactFlowProvider } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { useElementSize } from "@mantine/hooks";
import { useEffect, useMemo } from "react";

import { FlowStep } from "./flow_step";
import { graphOf, layoutOf, namesOf, type Workflow } from "./flow_graph";
import type { StepState } from "./live_execution";
import classes from "./flow_diagram.module.css";

const NODE_TYPES = { step: FlowStep };
const NARROW = 640;
/** Number of steps above which only those in the window are drawn. */
const MANY = 200;
const MARGIN = 40;
/** Height of the line with the buttons below the graph. */
const BUTTONS = 36;
const MAX_HEIGHT = 520;
const FIT = { padding: { x: "20px", top: "20px", bottom: "52px" }, maxZoom: 1 } as const;

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
  const direction = width > 0 && width < NARROW ? "TB" : "LR";
  const names = JSON.stringify(namesOf(workflow, states));
  const layout = useMemo(() => layoutOf(workflow, JSON.parse(names) as string[], direction), [workflow, names, direction]);
  const graph = useMemo(() => graphOf(workflow, states, layout), [workflow, states, layout]);
  const scale = Math.min(1, width / (layout.width + MARGIN));
  const height = Math.min(MAX_HEIGHT, layout.height * scale + MARGIN + BUTTONS);
  useFit(`${graph.nodes.length} ${direction} ${Math.round(width)} ${Math.round(height)}`);
  return (
    <div ref={ref} className={classes.frame} style={{ height }} role="group" aria-label="Flow diagram of the steps">
      {width > 0 && (
        <ReactFlow
          nodes={graph.nodes.map((node) => ({ ...node, selected: node.id === selected }))}
          edges={graph.edges}
          nodeTypes={NODE_TYPES}
          onNodeClick={(_, node) => onSelect(node.id === selected ? undefined : node.id)}
          fitView
          fitViewOptions={FIT}
          minZoom={0.2}
          maxZoom={1.5}
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          onlyRenderVisibleElements={graph.nodes.length > MANY}
          zoomOnScroll={false}
          preventScrolling={false}
          attributionPosition="bottom-left"
        >
          <Background gap={20} color="var(--noetl-line)" />
          <Controls showInteractive={false} position="bottom-right" orientation="horizontal" />
        </ReactFlow>
      )}
    </div>
  );
}

function useFit(shape: string): void {
  const { fitView } = useReactFlow();
  useEffect(() => {
    const frame = requestAnimationFrame(() => void fitView(FIT));
    return () => cancelAnimationFrame(frame);
  }, [shape, fitView]);
}

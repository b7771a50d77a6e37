/** A step in the diagram: its name, its tools, and its state in words and colour. */

import { Handle, Position, type NodeProps } from "@xyflow/react";
import { IconRepeat } from "@tabler/icons-react";

import type { StepData, StepNode } from "./flow_graph";
import { stepInWords, toneOfStep } from "./step_words";
import classes from "./flow_diagram.module.css";

export function FlowStep({ data, selected }: NodeProps<StepNode>) {
  const [target, source] = data.direction === "LR" ? [Position.Left, Position.Right] : [Position.Top, Position.Bottom];
  const state = data.state ? stepInWords(data.state) : "Not reached";
  return (
    <>
      <Handle type="target" position={target} isConnectable={false} className={classes.handle} />
      <button
        type="button"
        className={classes.node}
        data-tone={data.state ? toneOfStep(data.state) : "none"}
        data-match={data.match}
        aria-pressed={selected}
        title={data.step?.description ?? data.name}
      >
        <span className={classes.name}>
          {data.name}
          {data.step?.repetition && <IconRepeat size={12} aria-label="loop" />}
        </span>
        <span className={classes.tools}>{toolsOf(data)}</span>
        <span className={classes.state}>{state}</span>
      </button>
      <Handle type="source" position={source} isConnectable={false} className={classes.handle} />
    </>
  );
}

function toolsOf({ step }: StepData): string {
  return step?.tools.map(({ kind, playbook }) => playbook ?? kind).join(", ") ?? "";
}

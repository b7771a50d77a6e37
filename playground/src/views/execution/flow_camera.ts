/** The part of the flow that is shown at first: all of it if it is readable, else the part around the step in question. */

import type { StepState } from "./live_execution";

/** Smallest scale at which the texts of the steps are readable. */
export const READABLE = 0.75;
/** Spaces between the flow and its frame, in pixels. */
export const SIDE = 20;
const TOP = 20;
/** Space for the buttons below the flow. */
const BOTTOM = 52;
/** Space for the map below the last row. */
const MAP = 136;
const MAX_HEIGHT = 520;
/** The button that shows all of the flow leaves the same spaces. */
export const FIT = { padding: { x: `${SIDE}px`, top: `${TOP}px`, bottom: `${BOTTOM}px` }, maxZoom: 1 } as const;
const ACTIVE = new Set<StepState["status"]>(["ENTERED", "COMMAND_ISSUED", "COMMAND_CLAIMED", "COMMAND_STARTED"]);

interface Size {
  width: number;
  height: number;
}

export interface Camera {
  x: number;
  y: number;
  zoom: number;
  /** Whether all of the flow is shown. */
  whole: boolean;
}

/** Returns the step at which the flow is shown: the first failed one, else the last active one, else a loop with failures. */
export function stepInQuestion(states: readonly StepState[]): string | undefined {
  const failed = states.find(({ status }) => status === "FAILED");
  const active = states.findLast(({ status }) => ACTIVE.has(status));
  const mixed = states.find(({ iterations }) => (iterations?.failed ?? 0) > 0);
  return (failed ?? active ?? mixed)?.name;
}

/** Returns the height of the frame for a flow of this size in a frame of this width. */
export function frameHeight(flow: Size, width: number): number {
  return Math.min(MAX_HEIGHT, flow.height * scaleOf(flow, width) + TOP + BOTTOM);
}

/** Returns the camera for a frame, with the centre in the middle. It is the place of the step in question, else the start. */
export function cameraOf(flow: Size, frame: Size, centre: { x: number; y: number } = { x: 0, y: 0 }): Camera {
  const [width, height] = [frame.width - 2 * SIDE, frame.height - TOP - BOTTOM];
  const fit = Math.min(1, width / flow.width, height / flow.height);
  const whole = fit >= READABLE;
  const zoom = whole ? fit : scaleOf(flow, frame.width);
  return {
    x: SIDE + offset(flow.width * zoom, width, centre.x * zoom),
    y: TOP + offset(flow.height * zoom, whole ? height : frame.height - TOP - MAP, centre.y * zoom),
    zoom,
    whole,
  };
}

function scaleOf(flow: Size, width: number): number {
  return Math.min(1, Math.max(READABLE, (width - 2 * SIDE) / flow.width));
}

/** Returns the start of a length in a room: in the middle, or so that the centre is in the middle as far as the ends allow. */
function offset(length: number, room: number, centre: number): number {
  return length <= room ? (room - length) / 2 : Math.min(0, Math.max(room - length, room / 2 - centre));
}

/** Moves the flow to the step in question, and to steps that are found, until the user moves it. */

import { useReactFlow } from "@xyflow/react";
import { useEffect, useMemo, useRef, type FocusEvent, type HTMLAttributes, type WheelEvent } from "react";

import { cameraOf, READABLE, type Camera } from "./flow_camera";
import type { FlowLayout } from "./flow_graph";

interface FlowCamera {
  camera: Camera;
  /** Shows a step in the middle. */
  show: (name: string) => void;
  /** Handlers of the frame: the flow no longer moves by itself, and a step that the keyboard reaches is shown. */
  handlers: Pick<HTMLAttributes<HTMLElement>, "onPointerDownCapture" | "onClickCapture" | "onWheelCapture" | "onFocusCapture">;
}

/** Returns the camera of a flow. `step` is the step in question. A changed width resets what the user moved. */
export function useFlowCamera(layout: FlowLayout, width: number, height: number, step: string | undefined): FlowCamera {
  const { setViewport, setCenter, getZoom } = useReactFlow();
  const movedAt = useRef<number | null>(null);
  const centre = step === undefined ? undefined : layout.places.get(step);
  const camera = useMemo(() => cameraOf(layout, { width, height }, centre), [layout, width, height, centre]);
  useEffect(() => {
    if (movedAt.current === width) {
      return;
    }
    movedAt.current = null;
    const frame = requestAnimationFrame(() => void setViewport(camera));
    return () => cancelAnimationFrame(frame);
  }, [camera, width, setViewport]);
  const move = () => {
    movedAt.current = width;
  };
  const show = (name: string) => {
    const place = layout.places.get(name);
    if (place && !(camera.whole && movedAt.current === null)) {
      move();
      void setCenter(place.x, place.y, { zoom: Math.max(READABLE, getZoom()) });
    }
  };
  const reach = ({ target }: FocusEvent<HTMLElement>) => {
    const name = target.closest<HTMLElement>(".react-flow__node")?.dataset.id;
    if (name !== undefined && target.matches(":focus-visible")) {
      show(name);
    }
  };
  const handlers = {
    onPointerDownCapture: move,
    // The keyboard presses the buttons of the flow too.
    onClickCapture: move,
    // A browser reports a pinch as a wheel with the Ctrl key; another wheel scrolls the page.
    onWheelCapture: ({ ctrlKey }: WheelEvent<HTMLElement>) => void (ctrlKey && move()),
    onFocusCapture: reach,
  };
  return { camera, show, handlers };
}

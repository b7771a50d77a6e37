/** Asks before the user leaves a changed text that was not registered. */

import { useBlocker } from "@tanstack/react-router";
import { useRef } from "react";

/** Returns a function that allows the next change of the address. */
export function useUnsavedText(changed: boolean): () => void {
  const allowed = useRef(false);
  useBlocker({
    shouldBlockFn: () => changed && !allowed.current && !window.confirm("Leave the editor? Your changes are not registered."),
    enableBeforeUnload: () => changed && !allowed.current,
  });
  return () => {
    allowed.current = true;
  };
}

/** The ways into and out of the watch mode, in which the shell shows only the view, in larger type. */

import { Button } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { IconDeviceTv } from "@tabler/icons-react";
import { getRouteApi, Link } from "@tanstack/react-router";

const route = getRouteApi("/");

export function WatchModeLink() {
  return (
    <Button
      renderRoot={(props) => <Link {...props} to="/" search={(before) => ({ ...before, watch: "1" })} />}
      variant="default"
      size="xs"
      leftSection={<IconDeviceTv size={14} />}
    >
      Watch mode
    </Button>
  );
}

/** Button that ends the watch mode, as the key Esc does. */
export function LeaveWatchMode() {
  const navigate = route.useNavigate();
  const leave = () => void navigate({ search: (before) => ({ ...before, watch: undefined }) });
  // Also while a field has the focus, such as the choice of the period, but not to close a dialog.
  useHotkeys([["Escape", ({ target }) => !inDialog(target) && leave()]], []);
  return (
    <Button variant="default" size="xs" onClick={leave}>
      Leave watch mode (Esc)
    </Button>
  );
}

function inDialog(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('[role="dialog"]') !== null;
}

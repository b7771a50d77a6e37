/** A button for an action that needs a capability. Without it, the button is disabled and says why. */

import { Button, Text, Tooltip, type ButtonProps } from "@mantine/core";
import { useId, type ReactNode } from "react";

import type { Capability } from "../api/schema.generated";
import { usePermission } from "../api/viewer";

interface Props extends ButtonProps {
  /** Needed capability; of several, one is enough. */
  capability: Capability | readonly Capability[];
  /** Another reason the action is not possible, such as the state of the object. */
  refusal?: string;
  /** Whether the reason is a text in a row below the buttons of the group (default: a tooltip). */
  reasonShown?: boolean;
  onClick: () => void;
  children: ReactNode;
}

export function PermittedButton({ capability, refusal, reasonShown = false, onClick, children, ...button }: Props) {
  const permission = usePermission(capability);
  const explanation = useId();
  const reason = permission.reason ?? refusal;
  if (reason === undefined) {
    return (
      <Button size="xs" {...button} onClick={onClick}>
        {children}
      </Button>
    );
  }
  // The button keeps the focus, so that the keyboard and screen readers reach the reason.
  const refused = { ...button, "data-disabled": true, "aria-disabled": true, "aria-describedby": explanation, onClick: ignore };
  if (reasonShown) {
    return (
      <>
        <Button size="xs" {...refused}>
          {children}
        </Button>
        <Text id={explanation} size="xs" c="dimmed" style={{ order: 1, flexBasis: "100%" }}>
          {reason}
        </Text>
      </>
    );
  }
  return (
    <Tooltip label={reason} events={{ hover: true, focus: true, touch: true }} multiline maw={320}>
      <Button size="xs" {...refused}>
        {children}
        <span id={explanation} hidden>
          {reason}
        </span>
      </Button>
    </Tooltip>
  );
}

function ignore(event: { preventDefault: () => void }): void {
  event.preventDefault();
}

/** Addresses of objects. Every link to an object comes from here, so an object has one place where it is shown. */

import { Link, type LinkProps } from "@tanstack/react-router";
import type { ReactNode } from "react";

export type ObjectKind = "execution" | "subscription" | "outbox";

/** Returns the address at which an object is shown. */
export function objectLocation(kind: ObjectKind, id: string) {
  if (kind === "outbox") {
    return { to: "/outbox", search: { entry: id } } as const satisfies LinkProps;
  }
  if (kind === "subscription") {
    return { to: "/subscriptions/$id", params: { id } } as const satisfies LinkProps;
  }
  return { to: "/executions/$id", params: { id } } as const satisfies LinkProps;
}

/** Execution or source subscription. Both fields are null if the object is of a kind that the console does not know. */
interface LogOwner<Shown> {
  execution: Shown | null;
  subscription: Shown | null;
}

/** Returns an object with its kind; null if its kind is unknown. */
export function objectOf<Shown>({ execution, subscription }: LogOwner<Shown>) {
  if (subscription) {
    return { ...subscription, kind: "subscription", title: "Subscription" } as const;
  }
  return execution && ({ ...execution, kind: "execution", title: "Execution" } as const);
}

interface Props {
  kind: ObjectKind;
  id: string;
  className?: string | undefined;
  /** Accessible name (default: the text of the link). */
  label?: string;
  children: ReactNode;
}

export function ObjectLink({ kind, id, className, label, children }: Props) {
  return (
    <Link
      {...objectLocation(kind, id)}
      {...(className !== undefined && { className })}
      {...(label !== undefined && { "aria-label": label })}
    >
      {children}
    </Link>
  );
}

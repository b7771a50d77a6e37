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

interface Props {
  kind: ObjectKind;
  id: string;
  className?: string | undefined;
  children: ReactNode;
}

export function ObjectLink({ kind, id, className, children }: Props) {
  return (
    <Link {...objectLocation(kind, id)} {...(className !== undefined && { className })}>
      {children}
    </Link>
  );
}

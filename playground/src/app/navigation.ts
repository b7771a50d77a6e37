/** The views, in the order of the navigation. A view has one entry here. */

import { IconActivity, IconBraces, IconHeartbeat, IconPlayerPlay, IconRoute, type Icon } from "@tabler/icons-react";
import type { LinkProps } from "@tanstack/react-router";

export interface NavigationEntry {
  to: NonNullable<LinkProps["to"]>;
  title: string;
  /** Content of the view, for the command palette. */
  description: string;
  icon: Icon;
}

export const NAVIGATION: readonly NavigationEntry[] = [
  { to: "/", title: "Overview", description: "Health of the system, rates and warnings", icon: IconHeartbeat },
  { to: "/events", title: "Events", description: "Events as they commit, with filters and replay", icon: IconActivity },
  { to: "/executions", title: "Executions", description: "Runs with status, steps and errors", icon: IconRoute },
  { to: "/execute", title: "Execute", description: "Start a playbook with a workload", icon: IconPlayerPlay },
  { to: "/graphiql", title: "GraphiQL", description: "Write and run operations of the API", icon: IconBraces },
];

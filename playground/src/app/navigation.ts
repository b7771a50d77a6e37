/** The views, in the order of the navigation. A view has one entry here. */

import {
  IconActivity,
  IconBook2,
  IconBraces,
  IconHeartbeat,
  IconInbox,
  IconPlayerPlay,
  IconRoute,
  IconSend,
  IconServer,
  IconUserSearch,
  type Icon,
} from "@tabler/icons-react";
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
  { to: "/subscriptions", title: "Subscriptions", description: "Receivers of messages: state, work, pause and drain", icon: IconInbox },
  { to: "/executions", title: "Executions", description: "Runs with status, steps and errors", icon: IconRoute },
  { to: "/execute", title: "Execute", description: "Start a playbook with a workload", icon: IconPlayerPlay },
  { to: "/outbox", title: "Outbox", description: "Messages for the broker, dead letters, retry and discard", icon: IconSend },
  { to: "/catalog", title: "Catalog", description: "Paths, versions and documents; registration", icon: IconBook2 },
  { to: "/audit", title: "Audit", description: "Who did what, and why: cancellations, pauses, reruns", icon: IconUserSearch },
  { to: "/system", title: "System", description: "Shards, feeds, leases, replica and limits; the last hour", icon: IconServer },
  { to: "/graphiql", title: "GraphiQL", description: "Write and run operations of the API", icon: IconBraces },
];

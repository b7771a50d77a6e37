/** The views of the console. Common tests open each of them. */
export const VIEWS = [
  { name: "overview", path: "/", title: "Overview" },
  { name: "events", path: "/events?from=beginning", title: "Events" },
  { name: "subscriptions", path: "/subscriptions", title: "Subscriptions" },
  { name: "outbox", path: "/outbox", title: "Outbox" },
  { name: "graphiql", path: "/graphiql", title: "GraphiQL" },
];

/** The views of the console. Common tests open each of them. */
export const VIEWS = [
  { name: "overview", path: "/", title: "Overview" },
  { name: "events", path: "/events?from=beginning", title: "Events" },
  { name: "executions", path: "/executions", title: "Executions" },
  { name: "execute", path: "/execute?path=samples%2Forders%2Fprocess", title: "Execute" },
  { name: "graphiql", path: "/graphiql", title: "GraphiQL" },
];

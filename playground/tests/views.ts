/** The views of the console. Common tests open each of them. */
export const VIEWS = [
  { name: "overview", path: "/", title: "Overview" },
  { name: "events", path: "/events?from=beginning", title: "Events" },
  { name: "subscriptions", path: "/subscriptions", title: "Subscriptions" },
  { name: "executions", path: "/executions", title: "Executions" },
  { name: "execute", path: "/execute?path=samples%2Forders%2Fprocess", title: "Execute" },
  { name: "outbox", path: "/outbox", title: "Outbox" },
  { name: "catalog", path: "/catalog", title: "Catalog" },
  { name: "catalog-entry", path: "/catalog/samples/orders/process", title: "samples/orders/process" },
  { name: "catalog-register", path: "/catalog?register=new", title: "Register an entry" },
  { name: "audit", path: "/audit", title: "Audit" },
  { name: "system", path: "/system", title: "System" },
  { name: "graphiql", path: "/graphiql", title: "GraphiQL" },
];

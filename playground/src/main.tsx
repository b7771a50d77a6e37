import "graphiql/setup-workers/vite";
import "graphiql/style.css";
import "./page.css";

import { createRoot } from "react-dom/client";

import { App } from "./app";

const root = document.getElementById("root");
if (!root) {
  throw new Error("index.html has no #root");
}
createRoot(root).render(<App />);

// In a cascade layer, so that the styles of the console apply whichever file is loaded first.
import "@mantine/core/styles.layer.css";
import "./app/theme.css";

import { createRoot } from "react-dom/client";

import { App } from "./app/app";

const root = document.getElementById("root");
if (!root) {
  throw new Error("index.html has no #root");
}
createRoot(root).render(<App />);

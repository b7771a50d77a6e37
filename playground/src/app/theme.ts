/** Theme of the console. Colours of texts have a contrast of at least 4.5:1 on their backgrounds, light and dark. */

import { createTheme, type CSSVariablesResolver, type MantineColorsTuple } from "@mantine/core";

const TEAL: MantineColorsTuple = [
  "#effcf9",
  "#d5f5ee",
  "#a6e9dc",
  "#70dac7",
  "#3fc6b1",
  "#1fae9a",
  "#0f9586",
  "#0b766b",
  "#0a5f57",
  "#084741",
];

/** Greys of the dark theme, from texts to the deepest background. */
const GREY: MantineColorsTuple = [
  "#e3e7ea",
  "#c3cad0",
  "#a4adb5",
  "#7d8790",
  "#414a52",
  "#31373d",
  "#24292e",
  "#1b1f23",
  "#14171a",
  "#0e1113",
];

export const THEME = createTheme({
  primaryColor: "teal",
  primaryShade: { light: 7, dark: 7 },
  colors: { teal: TEAL, dark: GREY },
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace',
  headings: { fontWeight: "600" },
  defaultRadius: "sm",
  cursorType: "pointer",
  focusRing: "auto",
});

export const VARIABLES: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    "--mantine-color-dimmed": "#566069",
    "--mantine-color-anchor": "#0a6b61",
    "--mantine-color-placeholder": "#68727b",
    "--mantine-color-body": "#f7f8f9",
    "--noetl-surface": "#ffffff",
    "--noetl-hover": "#f1f4f5",
    "--noetl-mark": "#eceff1",
    "--noetl-selected": "#dcf3ee",
    "--noetl-selected-text": "#084741",
    "--noetl-line": "#dfe3e6",
    "--noetl-good": "#12855f",
    "--noetl-busy": "#1c6fd1",
    "--noetl-waiting": "#b26a00",
    "--noetl-bad": "#cc2f2f",
    "--noetl-plain": "#7b858e",
    "--noetl-chart": "#0b766b",
    "--noetl-chart-area": "rgb(11 118 107 / 12%)",
    "--noetl-json-keyword": "#8a3fb5",
    "--noetl-json-number": "#1c5fb5",
    "--noetl-json-string": "#0a6b4a",
  },
  dark: {
    "--mantine-color-dimmed": "#a4adb5",
    "--mantine-color-anchor": "#4fd0bd",
    "--mantine-color-placeholder": "#8d969e",
    "--mantine-color-body": "#14171a",
    "--noetl-surface": "#1b1f23",
    "--noetl-hover": "#23282d",
    "--noetl-mark": "#262c31",
    "--noetl-selected": "#1d3b39",
    "--noetl-selected-text": "#a6e9dc",
    "--noetl-line": "#31373d",
    "--noetl-good": "#3ecf8e",
    "--noetl-busy": "#5aa5ff",
    "--noetl-waiting": "#f2b03d",
    "--noetl-bad": "#ff7070",
    "--noetl-plain": "#8d969e",
    "--noetl-chart": "#3fc6b1",
    "--noetl-chart-area": "rgb(63 198 177 / 16%)",
    "--noetl-json-keyword": "#d49bf0",
    "--noetl-json-number": "#86bbff",
    "--noetl-json-string": "#6fdca8",
  },
});

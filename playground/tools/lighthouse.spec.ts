/**
 * Prints the scores that Lighthouse gives the Overview in its configuration for desktops. Lighthouse has more than a hundred
 * dependencies, so it is installed when it runs, and is not part of the tests.
 */

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { chromium } from "@playwright/test";

import { expect, test } from "../tests/console";

const LIGHTHOUSE = "lighthouse@12.8.2";
const PORT = 9_333;
const LEAST = 0.95;
const SHOWN = ["first-contentful-paint", "largest-contentful-paint", "total-blocking-time", "interactive"];

interface Report {
  categories: Record<"performance" | "accessibility", { score: number }>;
  audits: Record<string, { displayValue?: string }>;
}

test("performance and accessibility of the overview are at least 95", async ({ controlPlane }, info) => {
  const { launchOptions } = info.project.use;
  const args = [...(launchOptions?.args ?? []), `--remote-debugging-port=${PORT}`];
  const browser = await chromium.launch({ ...launchOptions, args });
  try {
    const { categories, audits } = await measure(controlPlane.url, info.outputPath("report.json"));
    const { performance, accessibility } = categories;
    const times = SHOWN.map((name) => `${name} ${audits[name]?.displayValue}`);
    process.stdout.write(`    performance ${performance.score}, accessibility ${accessibility.score}\n    ${times.join("\n    ")}\n`);
    expect(performance.score).toBeGreaterThanOrEqual(LEAST);
    expect(accessibility.score).toBeGreaterThanOrEqual(LEAST);
  } finally {
    await browser.close();
  }
});

async function measure(url: string, file: string): Promise<Report> {
  const categories = "--only-categories=performance,accessibility";
  const output = ["--output=json", `--output-path=${file}`, "--quiet"];
  await promisify(execFile)("npx", ["--yes", LIGHTHOUSE, url, `--port=${PORT}`, "--preset=desktop", categories, ...output]);
  return JSON.parse(await readFile(file, "utf8")) as Report;
}

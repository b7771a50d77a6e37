import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const START_MS = 120_000;
const STOP_MS = 30_000;
const POLL_MS = 100;

export interface ControlPlane {
  url: string;
  stop: () => Promise<void>;
}

export const BINARY = resolve(process.env.NOETL_GRAPHQL_BIN ?? "../target/debug/noetl-graphql");

/** Returns the server under test: the one at NOETL_TEST_URL, or a new one. With settings, it is always a new one. */
export async function startControlPlane(settings: Record<string, string> = {}): Promise<ControlPlane> {
  const running = process.env.NOETL_TEST_URL;
  if (running && Object.keys(settings).length === 0) {
    return { url: running.replace(/\/$/, ""), stop: async () => {} };
  }
  if (!existsSync(BINARY)) {
    throw new Error(`${BINARY} does not exist. Build the server, or set NOETL_GRAPHQL_BIN or NOETL_TEST_URL.`);
  }
  const dataDir = await mkdtemp(join(tmpdir(), "noetl-playground-"));
  const server = new Server(BINARY, dataDir, settings);
  try {
    return { url: await server.ready(), stop: () => server.stop() };
  } catch (fault) {
    await server.stop();
    throw fault;
  }
}

class Server {
  private readonly child: ChildProcess;
  private readonly exit: Promise<unknown>;
  private output = "";

  constructor(
    private readonly binary: string,
    private readonly dataDir: string,
    settings: Record<string, string>,
  ) {
    const args = ["dev", "--data-dir", dataDir, "--port", "0", "--shards", "2"];
    this.child = spawn(binary, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...settings } });
    // A failed spawn emits an error and no exit.
    this.exit = Promise.race([once(this.child, "exit"), once(this.child, "error")]).catch(() => {});
    this.child.stdout?.on("data", (chunk) => this.keep(chunk));
    this.child.stderr?.on("data", (chunk) => this.keep(chunk));
  }

  async ready(): Promise<string> {
    const deadline = Date.now() + START_MS;
    while (Date.now() < deadline) {
      if (this.exited()) {
        throw new Error(`${this.binary} ended before it was ready:\n${this.output}`);
      }
      const port = await this.port();
      if (port && (await answersReady(`http://127.0.0.1:${port}`))) {
        return `http://127.0.0.1:${port}`;
      }
      await delay(POLL_MS);
    }
    throw new Error(`${this.binary} was not ready after ${START_MS / 1000} s:\n${this.output}`);
  }

  async stop(): Promise<void> {
    if (!this.exited()) {
      this.child.kill("SIGINT");
      const late = new AbortController();
      const stopped = await Promise.race([
        this.exit.then(() => true),
        delay(STOP_MS, false, { signal: late.signal }).catch(() => true),
      ]);
      late.abort();
      if (!stopped) {
        this.child.kill("SIGKILL");
        throw new Error(`${this.binary} did not stop within ${STOP_MS / 1000} s of SIGINT:\n${this.output}`);
      }
    }
    await rm(this.dataDir, { recursive: true, force: true });
  }

  private exited(): boolean {
    return this.child.pid === undefined || this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Returns the port in the env file, which the server writes when it knows its port. */
  private async port(): Promise<string | undefined> {
    const settings = await readFile(join(this.dataDir, "env"), "utf8").catch(() => "");
    return /^(?:export )?NOETL_PORT="?(\d+)"?$/m.exec(settings)?.[1];
  }

  private keep(chunk: Buffer): void {
    this.output = (this.output + chunk.toString()).slice(-8_000);
  }
}

async function answersReady(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/readyz`)).status === 200;
  } catch {
    return false;
  }
}

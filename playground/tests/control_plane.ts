import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { Program } from "./program";

/** Page of a trace, to which the console links. No test opens it. */
const TRACE_URL = "https://traces.example/trace/{traceId}";
const START_MS = 120_000;
const STOP_MS = 30_000;

export interface ControlPlane {
  url: string;
  /** Returns a setting of a server that the tests started, such as the address of its databases. */
  setting: (name: string) => string;
  stop: () => Promise<void>;
}

export const BINARY = resolve(process.env.NOETL_GRAPHQL_BIN ?? "../target/debug/noetl-graphql");

/** Returns the server under test: the one at NOETL_TEST_URL, or a new one. With settings, it is always a new one. */
export async function startControlPlane(settings: Record<string, string> = {}): Promise<ControlPlane> {
  const running = process.env.NOETL_TEST_URL;
  if (running && Object.keys(settings).length === 0) {
    const setting = (name: string) => {
      throw new Error(`The setting ${name} of the server at NOETL_TEST_URL is not known.`);
    };
    return { url: running.replace(/\/$/, ""), setting, stop: async () => {} };
  }
  if (!existsSync(BINARY)) {
    throw new Error(`${BINARY} does not exist. Build the server, or set NOETL_GRAPHQL_BIN or NOETL_TEST_URL.`);
  }
  const dataDir = await mkdtemp(join(tmpdir(), "noetl-playground-"));
  const server = new Server(BINARY, dataDir, settings);
  try {
    const url = await server.ready();
    const known = await server.settings();
    return { url, setting: (name) => settingIn(known, name), stop: () => server.stop() };
  } catch (fault) {
    await server.stop();
    throw fault;
  }
}

class Server {
  private readonly program: Program;

  constructor(
    binary: string,
    private readonly dataDir: string,
    settings: Record<string, string>,
  ) {
    this.program = new Program(binary, ["dev", "--data-dir", dataDir, "--port", "0", "--shards", "2"], {
      NOETL_TRACE_URL: TRACE_URL,
      ...settings,
    });
  }

  async ready(): Promise<string> {
    let url = "";
    await this.program.until(async () => {
      const port = await this.port();
      url = `http://127.0.0.1:${port}`;
      return port !== undefined && answersReady(url);
    }, START_MS);
    return url;
  }

  async stop(): Promise<void> {
    await this.program.end("SIGINT", STOP_MS);
    await rm(this.dataDir, { recursive: true, force: true });
  }

  /** Returns the text of the env file; empty until the server writes it. */
  async settings(): Promise<string> {
    return readFile(join(this.dataDir, "env"), "utf8").catch(() => "");
  }

  /** Returns the port in the env file, which the server writes when it knows its port. */
  private async port(): Promise<string | undefined> {
    return /^(?:export )?NOETL_PORT="?(\d+)"?$/m.exec(await this.settings())?.[1];
  }
}

function settingIn(settings: string, name: string): string {
  const value = new RegExp(`^(?:export )?${name}=["']?(.*?)["']?$`, "m").exec(settings)?.[1];
  if (value === undefined) {
    throw new Error(`The server has no setting ${name}.`);
  }
  return value;
}

export async function answersReady(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/readyz`)).status === 200;
  } catch {
    return false;
  }
}

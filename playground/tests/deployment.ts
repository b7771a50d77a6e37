/**
 * A server, its databases and its broker as processes of their own, so that a test can kill each of them. The databases are
 * those of `dev`. The server of `dev` ends with its broker, so it does nothing here, and another one does the work.
 */

import { execFile } from "node:child_process";
import { connect, createServer, type AddressInfo } from "node:net";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { expect } from "@playwright/test";

import { graphql } from "./api";
import { answersReady, BINARY, startControlPlane, type ControlPlane } from "./control_plane";
import { Program } from "./program";

/** Settings of the server of `dev`, which only runs the databases. */
const IDLE = { NOETL_EVENT_STREAM_ENABLED: "false", NOETL_PROJECTOR: "false", NOETL_OUTBOX_RELAY: "false" };
const READY_MS = 60_000;
/** Streams of the events of the shards. */
const STREAMS = ["noetl_events", "noetl_events_1"];

export class Deployment {
  private server: Program | undefined;
  private broker: Program | undefined;

  private constructor(
    private readonly databases: ControlPlane,
    /** Runs the database of the last shard; undefined if the others run it too. */
    private readonly ownDatabase: ControlPlane | undefined,
    private readonly folder: string,
    private readonly settings: Record<string, string>,
    private readonly ports: { server: number; broker: number },
  ) {}

  /** Starts everything. With an own database, the last shard has a Postgres for itself, which can be stopped. */
  static async start({ lastShardHasOwnDatabase = false } = {}): Promise<Deployment> {
    const [databases, ownDatabase] = await Promise.all([
      startControlPlane(IDLE),
      lastShardHasOwnDatabase ? startControlPlane(IDLE) : undefined,
    ]);
    const folder = await mkdtemp(join(tmpdir(), "noetl-deployment-"));
    const ports = { server: await freePort(), broker: await freePort() };
    const settings = {
      NOETL_CLUSTER_DSN: databases.setting("NOETL_CLUSTER_DSN"),
      NOETL_SHARDS: shardsOf(databases, ownDatabase).join(","),
      NOETL_NATS_URL: `nats://127.0.0.1:${ports.broker}`,
      NOETL_PORT: String(ports.server),
    };
    const deployment = new Deployment(databases, ownDatabase, folder, settings, ports);
    if (ownDatabase) {
      await deployment.migrate();
    }
    await deployment.startBroker();
    await deployment.startServer();
    await deployment.feedsBegun();
    return deployment;
  }

  get url(): string {
    return `http://127.0.0.1:${this.ports.server}`;
  }

  async startServer(): Promise<void> {
    this.server = new Program(BINARY, ["serve"], this.settings);
    await this.server.until(() => answersReady(this.url), READY_MS);
  }

  /** Waits until the feed of each shard has begun. Events that commit later are published. */
  private async feedsBegun(): Promise<void> {
    const leaders = async (): Promise<(string | null)[]> => {
      const { eventStream } = await graphql<{ eventStream: { shards: { leader: string | null }[] } }>(
        this.url,
        "{ eventStream { shards { leader } } }",
      );
      return eventStream.shards.map(({ leader }) => leader);
    };
    await expect.poll(leaders, { timeout: READY_MS }).not.toContain(null);
  }

  /** Creates the tables of an empty database. */
  private async migrate(): Promise<void> {
    await promisify(execFile)(BINARY, ["migrate"], { env: { ...process.env, ...this.settings } });
  }

  /** Stops the Postgres of the last shard. */
  async stopLastShard(): Promise<void> {
    await this.ownDatabase?.stop();
  }

  async killServer(): Promise<void> {
    await this.server?.kill();
  }

  async startBroker(): Promise<void> {
    const store = join(this.folder, "store");
    await mkdir(store, { recursive: true });
    const address = ["--addr", "127.0.0.1", "--port", String(this.ports.broker)];
    const log = join(this.folder, "log");
    this.broker = new Program("nats-server", ["--jetstream", "--store_dir", store, ...address, "--log", log]);
    await this.broker.until(async () => (await readFile(log, "utf8").catch(() => "")).includes("Server is ready"), READY_MS);
  }

  async killBroker(): Promise<void> {
    await this.broker?.kill();
    await rm(join(this.folder, "log"), { force: true });
  }

  /** Deletes all streams of the killed broker. The server then publishes all events again, in a new epoch. */
  async loseStreams(): Promise<void> {
    await rm(join(this.folder, "store"), { recursive: true });
  }

  /** Deletes all messages of the streams, as their retention does later. */
  async purgeStreams(): Promise<void> {
    const requests = STREAMS.map((stream) => `PUB $JS.API.STREAM.PURGE.${stream} purged 0\r\n\r\n`);
    await new Promise<void>((resolve, reject) => {
      const broker = connect(this.ports.broker, "127.0.0.1");
      let replies = "";
      broker.on("error", reject);
      broker.on("close", () => reject(new Error(`The streams were not purged: ${replies}`)));
      broker.on("data", (chunk) => {
        replies += chunk.toString();
        if (replies.includes('"error"') || replies.includes("-ERR")) {
          broker.destroy();
        } else if (replies.split('"success":true').length > STREAMS.length) {
          resolve();
          broker.destroy();
        }
      });
      broker.write(`CONNECT {"verbose":false}\r\nSUB purged 1\r\n${requests.join("")}`);
    });
  }

  async stop(): Promise<void> {
    await this.server?.kill();
    await this.broker?.kill();
    await rm(this.folder, { recursive: true, force: true });
    await this.ownDatabase?.stop();
    await this.databases.stop();
  }
}

/** Returns the addresses of the shards. A database that no server has used belongs to no deployment yet. */
function shardsOf(databases: ControlPlane, ownDatabase: ControlPlane | undefined): string[] {
  const shards = databases.setting("NOETL_SHARDS").split(",");
  return ownDatabase ? [...shards.slice(0, -1), unusedDatabase(ownDatabase)] : shards;
}

/** Returns the address of the database that every Postgres has after its creation. */
function unusedDatabase(of: ControlPlane): string {
  const address = new URL(of.setting("NOETL_CLUSTER_DSN"));
  address.pathname = "/postgres";
  return address.href;
}

/** Returns a port of loopback that nothing listens on. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

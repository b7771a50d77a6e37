/** A real proxy that serves a server below a path prefix of its host, and nothing else there. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { answersReady } from "./control_plane";
import { freePort } from "./deployment";
import { Program } from "./program";

export const PREFIX = "/noetl";
const READY_MS = 20_000;

export type ProxyKind = "nginx" | "haproxy";

interface Target {
  /** Address of the server. */
  server: string;
  /** Whether the server gets the paths without the prefix. */
  strips: boolean;
}

interface Place {
  folder: string;
  port: number;
}

export class PrefixProxy {
  private constructor(
    /** Address of the server for browsers, with the prefix. */
    readonly url: string,
    private readonly program: Program,
    private readonly folder: string,
  ) {}

  /** Starts a proxy as a process of its own, in front of a server that is ready. */
  static async start(kind: ProxyKind, target: Target): Promise<PrefixProxy> {
    const folder = await mkdtemp(join(tmpdir(), "noetl-proxy-"));
    const port = await freePort();
    const configuration = join(folder, "configuration");
    await writeFile(configuration, (kind === "nginx" ? nginx : haproxy)(target, { folder, port }));
    const args = kind === "nginx" ? ["-e", "stderr", "-p", folder, "-c", configuration] : ["-db", "-f", configuration];
    const proxy = new PrefixProxy(`http://127.0.0.1:${port}${PREFIX}`, new Program(kind, args), folder);
    try {
      await proxy.program.until(() => answersReady(proxy.url), READY_MS);
      return proxy;
    } catch (fault) {
      await proxy.stop();
      throw fault;
    }
  }

  async stop(): Promise<void> {
    await this.program.kill();
    await rm(this.folder, { recursive: true, force: true });
  }
}

function nginx({ server, strips }: Target, { folder, port }: Place): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return `
daemon off;
master_process off;
pid ${folder}/pid;
error_log stderr;
events {}
http {
  access_log off;
  ${temporary.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join("\n  ")}
  map $http_upgrade $connection_upgrade { default upgrade; "" ""; }
  upstream noetl { server ${new URL(server).host} max_fails=0; }
  server {
    listen 127.0.0.1:${port};
    client_max_body_size 16m;
    location / { return 404; }
    location ${PREFIX}/ {
      proxy_pass http://noetl${strips ? "/" : ""};
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
      proxy_connect_timeout 2s;
    }
  }
}
`;
}

function haproxy({ server, strips }: Target, { port }: Place): string {
  return `
global
  maxconn 100
defaults
  mode http
  timeout connect 5s
  timeout client 1m
  timeout server 1m
  timeout tunnel 1h
frontend host
  bind 127.0.0.1:${port}
  http-request return status 404 unless { path_beg ${PREFIX}/ }
  ${strips ? `http-request replace-path ${PREFIX}/(.*) /\\1` : "# The paths keep the prefix."}
  default_backend noetl
backend noetl
  server noetl ${new URL(server).host}
`;
}

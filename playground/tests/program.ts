import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const POLL_MS = 50;
/** Debian installs servers where the PATH of a normal user does not lead. */
const PATH = `${process.env.PATH}:/usr/sbin:/usr/local/sbin:${join(process.cwd(), "../.noetl-tools/bin")}`;

/** A process that a test starts and ends. Its last output is in the errors. */
export class Program {
  private readonly child: ChildProcess;
  private readonly exit: Promise<unknown>;
  private output = "";

  constructor(
    private readonly path: string,
    args: string[],
    settings: Record<string, string> = {},
  ) {
    this.child = spawn(path, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, PATH, ...settings } });
    // A failed spawn emits an error and no exit.
    this.exit = Promise.race([once(this.child, "exit"), once(this.child, "error")]).catch(() => {});
    this.child.stdout?.on("data", (chunk) => this.keep(chunk));
    this.child.stderr?.on("data", (chunk) => this.keep(chunk));
  }

  /** Waits until a condition is true. Fails when the process has ended, or after the time. */
  async until(condition: () => Promise<boolean>, withinMs: number): Promise<void> {
    const deadline = Date.now() + withinMs;
    while (!(await condition())) {
      if (this.exited() || Date.now() > deadline) {
        throw new Error(`${this.path} ${this.exited() ? "ended" : "was not ready in time"}:\n${this.output}`);
      }
      await delay(POLL_MS);
    }
  }

  /** Kills the process, and waits until it has ended. */
  async kill(): Promise<void> {
    this.child.kill("SIGKILL");
    await this.exit;
  }

  /** Asks the process to end, and waits until it has ended. Kills it after the time, and then fails. */
  async end(signal: NodeJS.Signals, withinMs: number): Promise<void> {
    if (this.exited()) {
      return;
    }
    this.child.kill(signal);
    const late = new AbortController();
    const ended = await Promise.race([
      this.exit.then(() => true),
      delay(withinMs, false, { signal: late.signal }).catch(() => true),
    ]);
    late.abort();
    if (!ended) {
      await this.kill();
      throw new Error(`${this.path} did not end within ${withinMs / 1000} s of ${signal}:\n${this.output}`);
    }
  }

  private exited(): boolean {
    return this.child.pid === undefined || this.child.exitCode !== null || this.child.signalCode !== null;
  }

  private keep(chunk: Buffer): void {
    this.output = (this.output + chunk.toString()).slice(-8_000);
  }
}

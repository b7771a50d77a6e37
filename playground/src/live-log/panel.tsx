import { useEffect, useState, useSyncExternalStore, type FormEvent } from "react";
import type { GraphiQLPlugin } from "@graphiql/react";

import { liveClient } from "../transport";
import { LiveLog, type Snapshot } from "./live_log";
import { LogRow } from "./row";
import "./live_log.css";

const log = new LiveLog(liveClient);

const STATUS_LABEL: Record<Snapshot["status"], string> = {
  idle: "Not started",
  connecting: "Connecting…",
  live: "Live",
  paused: "Paused",
  stopped: "Stopped",
};

function LiveLogPanel() {
  const shown = useSyncExternalStore(log.subscribe, log.snapshot);
  useEffect(log.startOnce, []);

  return (
    <section className="live-log" aria-label="Live log">
      <Header shown={shown} />
      <Filters shown={shown} />
      {shown.fault && <p className="live-log-fault" role="alert">{shown.fault}</p>}
      {shown.rows.length === 0 ? (
        <Empty shown={shown} />
      ) : (
        <ol className="live-log-rows" aria-label="Events, newest first">
          {shown.rows.map((row) => (
            <LogRow
              key={row.key}
              item={row.item}
              onFollowExecution={(executionId) => log.restart({ filter: { executionIds: [executionId] }, from: "beginning" })}
            />
          ))}
        </ol>
      )}
    </section>
  );
}

function Header({ shown }: { shown: Snapshot }) {
  const following = shown.status === "live" || shown.status === "connecting";
  return (
    <header className="live-log-header">
      <div className="graphiql-doc-explorer-title">Live log</div>
      <span className="live-log-status" data-status={shown.status} role="status">
        {STATUS_LABEL[shown.status]}
        {shown.status === "live" && shown.lag !== null && shown.lag !== "0" && `, lag ${shown.lag} events`}
      </span>
      <span className="live-log-count" title="Number of events received; the last 200 are kept">
        {shown.received}
      </span>
      <div className="live-log-actions">
        {following ? (
          <button type="button" onClick={log.pause}>Pause</button>
        ) : (
          <button type="button" onClick={log.resume}>Resume</button>
        )}
        <button type="button" onClick={log.clear}>Clear</button>
      </div>
    </header>
  );
}

function Filters({ shown }: { shown: Snapshot }) {
  const applied = shown.filter.types?.join(", ") ?? "";
  const [types, setTypes] = useState(applied);
  const execution = shown.filter.executionIds?.[0];

  function apply(event?: FormEvent) {
    event?.preventDefault();
    if (types.trim() !== applied) {
      log.restart({ filter: withTypes(shown.filter, types) });
    }
  }

  function dropExecution() {
    const { executionIds: _, ...filter } = shown.filter;
    log.restart({ filter, from: "latest" });
  }

  return (
    <form className="live-log-filters" onSubmit={apply}>
      <input
        aria-label="Event types"
        placeholder="Types: subscription.*, playbook_started"
        value={types}
        onChange={(event) => setTypes(event.target.value)}
        onBlur={() => apply()}
        spellCheck={false}
      />
      <select
        aria-label="Start of the log"
        value={shown.from}
        onChange={(event) => log.restart({ from: event.target.value as Snapshot["from"] })}
      >
        <option value="latest">from now</option>
        <option value="beginning">from the beginning</option>
      </select>
      {execution && (
        <button type="button" className="live-log-chip" onClick={dropExecution} title="Follow all executions">
          execution {execution} ✕
        </button>
      )}
    </form>
  );
}

function withTypes(filter: Snapshot["filter"], text: string): Snapshot["filter"] {
  const { types: _, ...others } = filter;
  const types = text.split(/[\s,]+/).filter(Boolean);
  return types.length > 0 ? { ...others, types } : others;
}

function Empty({ shown }: { shown: Snapshot }) {
  return (
    <p className="live-log-empty">
      {shown.status === "live"
        ? "Waiting for the next event. To create one, run Register in the Lifecycle tab."
        : "No events yet."}
    </p>
  );
}

function LiveLogIcon() {
  return (
    <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" aria-hidden="true">
      <path d="M3 12h4l2.5-7 4.5 14 2.5-7H21" strokeLinejoin="round" />
    </svg>
  );
}

export const LIVE_LOG_PLUGIN: GraphiQLPlugin = { title: "Live log", icon: LiveLogIcon, content: LiveLogPanel };

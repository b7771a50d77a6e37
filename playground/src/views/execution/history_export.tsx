/** Saves all events of an execution, not only those that the page keeps. */

import { ExportMenu } from "../../ui/export_menu";
import { ExecutionHistoryPageDocument } from "./history_export.generated";

/** Maximum number of events of a file. */
const MAX_EVENTS = 100_000;

/** Columns of the events as CSV. */
const EXPORTED: readonly string[] = [
  "eventId",
  "parentEventId",
  "type",
  "nodeName",
  "status",
  "createdAt",
  "durationSeconds",
  "error",
  "stackTrace",
  "context",
  "result",
  "meta",
];

export function HistoryExport({ id }: { id: string }) {
  return (
    <ExportMenu
      name={`events-${id}`}
      document={ExecutionHistoryPageDocument}
      variables={{ id }}
      select={(data) => data.events}
      columns={EXPORTED}
      limit={MAX_EVENTS}
    />
  );
}

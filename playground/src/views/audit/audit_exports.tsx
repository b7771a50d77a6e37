/** Exports of the actions. The server has the reruns in a list of their own, so they are a file of their own. */

import { ExportMenu } from "../../ui/export_menu";
import { contains, entryOf, entryOfRerun, type Entry, type Lists } from "./entry";
import { AuditLogDocument, AuditRerunsDocument } from "./operations.generated";

const EXPORTED: readonly string[] = ["at", "actor", "action", "kind", "objectId", "path", "reason", "origin"];

interface Props {
  lists: Lists;
  /** Text of the listed actions. */
  find: string | undefined;
}

export function AuditExports({ lists: { log, reruns }, find }: Props) {
  const both = log !== null && reruns !== null;
  const shows = (entry: Entry) => contains(entry, find);
  return (
    <>
      {log && (
        <ExportMenu
          name={both ? "changes" : "actions"}
          named={both}
          document={AuditLogDocument}
          variables={log}
          select={({ events }) => events && { ...events, nodes: events.nodes.map(entryOf) }}
          columns={EXPORTED}
          shows={shows}
        />
      )}
      {reruns && (
        <ExportMenu
          name="reruns"
          named={both}
          document={AuditRerunsDocument}
          variables={reruns}
          select={({ executions }) => executions && { ...executions, nodes: executions.nodes.map(entryOfRerun) }}
          columns={EXPORTED}
          shows={shows}
        />
      )}
    </>
  );
}

/** Exports of the actions. The server has them in several lists, so each of these is a file of its own. */

import { ExportMenu } from "../../ui/export_menu";
import { contains, entryOf, entryOfRegistration, entryOfRerun, entryOfRetirement, type Entry, type Lists } from "./entry";
import { AuditEntriesDocument, AuditLogDocument, AuditRerunsDocument } from "./operations.generated";

const EXPORTED: readonly string[] = ["at", "actor", "action", "kind", "objectId", "path", "reason", "origin"];

interface Props {
  lists: Lists;
  /** Text of the listed actions. */
  find: string | undefined;
}

export function AuditExports({ lists, find }: Props) {
  const { log, reruns, registrations, retirements } = lists;
  const named = [log, reruns, registrations, retirements].filter((list) => list !== null).length > 1;
  const shared = { named, columns: EXPORTED, shows: (entry: Entry) => contains(entry, find) };
  return (
    <>
      {log && (
        <ExportMenu
          name={named ? "changes" : "actions"}
          document={AuditLogDocument}
          variables={log}
          select={({ events }) => events && { ...events, nodes: events.nodes.map(entryOf) }}
          {...shared}
        />
      )}
      {reruns && (
        <ExportMenu
          name="reruns"
          document={AuditRerunsDocument}
          variables={reruns}
          select={({ executions }) => executions && { ...executions, nodes: executions.nodes.map(entryOfRerun) }}
          {...shared}
        />
      )}
      {registrations && (
        <ExportMenu
          name="registrations"
          document={AuditEntriesDocument}
          variables={registrations}
          select={({ catalogEntries: list }) => list && { ...list, nodes: list.nodes.map(entryOfRegistration) }}
          {...shared}
        />
      )}
      {retirements && (
        <ExportMenu
          name="retirements"
          document={AuditEntriesDocument}
          variables={retirements}
          select={({ catalogEntries: list }) => list && { ...list, nodes: list.nodes.map(entryOfRetirement) }}
          {...shared}
        />
      )}
    </>
  );
}

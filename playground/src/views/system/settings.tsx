/** Settings of the replica of this page: numbers, flags and choices. Those that differ from the default are first. */

import { DataTable, type Column } from "../../ui/data_table";
import { Empty } from "../../ui/states";
import { StatusBadge } from "../../ui/status_badge";
import type { ServerInfo } from "./server";

type Setting = ServerInfo["settings"][number];

const COLUMNS: readonly Column<Setting>[] = [
  { title: "Setting", cell: ({ name }) => name },
  { title: "Value", cell: ({ value }) => value },
  {
    title: "Source",
    cell: ({ isDefault }) =>
      isDefault ? <StatusBadge status="DEFAULT" tone="plain" /> : <StatusBadge status="CHANGED" tone="good" />,
  },
];

export function Settings({ settings }: Pick<ServerInfo, "settings">) {
  const rows = [...settings].sort((a, b) => Number(a.isDefault) - Number(b.isDefault));
  return (
    <DataTable label="Settings" columns={COLUMNS} rows={rows} rowKey={(row) => row.name} empty={<Empty title="No setting" />} />
  );
}

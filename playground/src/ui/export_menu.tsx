/** Menu that exports what a list shows: its rows as a file, or as a command for a shell the request that reads them. */

import { Button, Group, Menu, Modal, Stack, Text } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";
import { IconDownload } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

import { ENDPOINT } from "../api/client";
import type { ApiError } from "../api/errors";
import { curlOf } from "./curl";
import { exportRows, limitOf, type Exported, type ExportedList, type Format, type PageVariables } from "./export_rows";
import { formatItems, formatNumber } from "./format";
import { Failure, PartialData } from "./states";

const FORMATS: readonly { format: Format; label: string }[] = [
  { format: "csv", label: "CSV" },
  { format: "jsonl", label: "JSON lines" },
];

interface Options {
  /** Whether the button names the rows, because the view has several lists (default false). */
  named?: boolean;
}

export function ExportMenu<Data, Variables extends PageVariables, Row>({
  named = false,
  ...list
}: ExportedList<Data, Variables, Row> & Options) {
  const [chosen, setChosen] = useState<(typeof FORMATS)[number] | null>(null);
  const { copy, copied, error } = useClipboard();
  const request = "document" in list ? curlOf(ENDPOINT, list.document.toString(), list.variables) : null;
  return (
    <>
      <Menu position="bottom-end" shadow="md" withInitialFocusPlaceholder={false}>
        <Menu.Target>
          <Button size="xs" variant="default" leftSection={<IconDownload size={14} />}>
            {named ? `Export ${list.name}` : "Export"}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {FORMATS.map((one) => (
            <Menu.Item key={one.format} onClick={() => setChosen(one)}>
              {one.label}…
            </Menu.Item>
          ))}
          {request !== null && (
            <Menu.Item closeMenuOnClick={false} onClick={() => copy(request)}>
              {error ? "The browser refuses to copy" : copied ? "Copied" : "Copy as curl"}
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      <Modal
        opened={chosen !== null}
        onClose={() => setChosen(null)}
        title={chosen && `Export ${list.name} as ${chosen.label}`}
        centered
      >
        {chosen && <Progress list={list} format={chosen.format} onClose={() => setChosen(null)} />}
      </Modal>
    </>
  );
}

interface ProgressProps<Data, Variables extends PageVariables, Row> {
  list: ExportedList<Data, Variables, Row>;
  format: Format;
  onClose: () => void;
}

/** Exports while it is shown. */
function Progress<Data, Variables extends PageVariables, Row>({ list, format, onClose }: ProgressProps<Data, Variables, Row>) {
  const [read, setRead] = useState(0);
  const stop = useRef(new AbortController());
  const { mutate, data, error } = useMutation<Exported, ApiError>({
    mutationFn: () => exportRows(list, format, setRead, stop.current.signal),
  });
  useEffect(() => {
    const controller = new AbortController();
    stop.current = controller;
    mutate();
    return () => controller.abort();
  }, [mutate]);
  return (
    <Stack gap="md">
      {error && <Failure error={error} retry={() => mutate()} />}
      {!error && (
        <Text size="sm" role="status">
          {data ? result(data, limitOf(list)) : `${formatItems(read, "row")} read, of at most ${formatNumber(limitOf(list))}.`}
        </Text>
      )}
      {data && <PartialData unavailableShards={data.unavailableShards} errors={data.errors} />}
      <Group justify="flex-end">
        <Button variant="default" onClick={onClose}>
          {data ? "Close" : "Cancel"}
        </Button>
      </Group>
    </Stack>
  );
}

function result({ fileName, rows, more }: Exported, limit: number): string {
  const saved = `${formatNumber(rows)} ${rows === 1 ? "row is" : "rows are"} in ${fileName}.`;
  const rest = ` The list has more: an export reads the first ${formatNumber(limit)} rows. Narrow its filter, or read the others with the API.`;
  return more ? saved + rest : saved;
}

/** Choice of the run to compare with: a run that is offered, or any by its id. */

import { Button, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState, type FormEvent } from "react";

import { useApiQuery } from "../../api/hooks";
import { useZone, type Zone } from "../../ui/clock";
import { formatTime } from "../../ui/format";
import { PartialData } from "../../ui/states";
import { groupsOf } from "./compare_choices";
import type { Execution } from "./live_execution";
import { RunsToCompareDocument, type RunToCompareFragment } from "./operations.generated";

const route = getRouteApi("/executions/$id");
const ID = /^[1-9]\d{0,18}$/;

interface Props {
  execution: Execution;
  compare: string | undefined;
  /** Whether no run has the chosen id. */
  missing: boolean;
}

export function OtherRun({ execution, compare, missing }: Props) {
  const navigate = route.useNavigate();
  const choose = (id: string | null) =>
    void navigate({ search: (before) => ({ ...before, compare: id ?? undefined }), resetScroll: false });
  return (
    <>
      <Group gap="md" align="flex-start">
        <OfferedRuns execution={execution} compare={compare} onChoose={choose} />
        <RunById own={execution.id} missing={missing ? compare : undefined} onChoose={choose} />
      </Group>
      <Text size="xs" c="dimmed">
        Left: this run. Right: the other run.
      </Text>
    </>
  );
}

interface OfferedProps extends Pick<Props, "execution" | "compare"> {
  onChoose: (id: string | null) => void;
}

function OfferedRuns({ execution: { id, path, startedAt }, compare, onChoose }: OfferedProps) {
  const zone = useZone();
  const variables = { id, path: path ?? "", ...(startedAt !== null && { startedBefore: startedAt }) };
  const { data, error } = useApiQuery(RunsToCompareDocument, variables, { enabled: path !== null });
  const groups = data ? groupsOf(id, data.data) : [];
  const items = groups.map(({ title, runs }) => ({ group: title, items: runs.map((run) => itemOf(run, zone)) }));
  const isOffered = compare === undefined || groups.some(({ runs }) => runs.some((run) => run.id === compare));
  const shards = [data?.data.successful, data?.data.recent].flatMap((list) => list?.unavailableShards ?? []);
  return (
    <Stack gap="xs" w={{ base: "100%", sm: 480 }}>
      <Select
        label="Compare with"
        description={path === null ? "The path of this run is unknown." : "Type to search by status, time or id."}
        placeholder="Choose a run"
        size="xs"
        searchable
        clearable
        data={isOffered ? items : [{ group: "Chosen by its id", items: [{ value: compare, label: compare }] }, ...items]}
        value={compare ?? null}
        onChange={onChoose}
        error={error?.message}
        nothingFoundMessage="No other run"
        maxDropdownHeight={320}
      />
      <PartialData unavailableShards={[...new Set(shards)]} errors={data?.errors ?? []} />
    </Stack>
  );
}

function itemOf({ id, status, startedAt }: RunToCompareFragment, zone: Zone) {
  const started = startedAt === null ? "not started" : formatTime(startedAt, zone);
  return { value: id, label: `${status.toLowerCase()}, ${started}, ${id}` };
}

interface ByIdProps {
  /** Id of the shown run. */
  own: string;
  /** Chosen id, if no run has it. */
  missing: string | undefined;
  onChoose: (id: string) => void;
}

function RunById({ own, missing, onChoose }: ByIdProps) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<string>();
  function submit(event: FormEvent) {
    event.preventDefault();
    const id = text.trim();
    const found = problemOf(id, own);
    setProblem(found);
    if (found === undefined) {
      onChoose(id);
    }
  }
  return (
    <form onSubmit={submit}>
      <TextInput
        label="Id of another run"
        description="A run of any path."
        size="xs"
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setProblem(undefined);
        }}
        error={problem ?? (missing !== undefined && `There is no execution ${missing}.`)}
        inputContainer={(input) => (
          <Group gap="xs" wrap="nowrap">
            {input}
            <Button type="submit" size="xs" variant="default">
              Compare by id
            </Button>
          </Group>
        )}
      />
    </form>
  );
}

function problemOf(id: string, own: string): string | undefined {
  if (!ID.test(id)) {
    return "Write the id of an execution: 1 to 19 digits.";
  }
  return id === own ? "This is the id of the shown run." : undefined;
}

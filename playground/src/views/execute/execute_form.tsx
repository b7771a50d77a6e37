/** The form of one catalog entry: its workload, the options of the request, and the outcome. */

import { Group, Stack, Text, Textarea } from "@mantine/core";
import { IconPlayerPlay } from "@tabler/icons-react";
import { useState } from "react";

import { useApiMutation } from "../../api/hooks";
import type { ExecuteInput } from "../../api/schema.generated";
import { JsonTree } from "../../ui/json_tree";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Panel } from "../../ui/panel";
import { PermittedButton } from "../../ui/permitted_button";
import { Failure, PartialData } from "../../ui/states";
import { ExecuteDocument, type WorkloadOfEntryQuery } from "./operations.generated";
import { Outcome, type Payload } from "./outcome";
import { NO_OPTIONS, requestOf, RequestOptions, windowError } from "./request_options";
import { WorkloadInput } from "./workload_input";
import { textsOf, workloadOf } from "./workload_values";

interface Props {
  entry: NonNullable<WorkloadOfEntryQuery["catalogEntry"]>;
  /** Workload and pool to begin with; undefined: the defaults. */
  repeated: { workload: unknown; executionPool: string | null } | undefined;
}

export function ExecuteForm({ entry: { path, workloadFields: fields }, repeated }: Props) {
  const [{ texts, additional }, setTexts] = useState(() => textsOf(fields, repeated?.workload));
  const [options, setOptions] = useState(() => ({ ...NO_OPTIONS, pool: repeated?.executionPool ?? "" }));
  const execute = useApiMutation(ExecuteDocument);
  const { errors, additionalError, workload } = workloadOf(fields, texts, additional);
  const input: ExecuteInput = { entry: { path }, workload, ...requestOf(options) };
  const invalid = Object.keys(errors).length > 0 || additionalError !== null || windowError(options) !== null;
  const payload = execute.data?.data.execute;
  const refused = errorsByField(payload);
  return (
    <Stack gap="md">
      <Panel title="Workload">
        <Stack gap="sm">
          {fields.length === 0 && (
            <Text size="sm" c="dimmed">
              The entry has no default workload. Write fields below if it needs some.
            </Text>
          )}
          {fields.map((field) => (
            <WorkloadInput
              key={field.name}
              field={field}
              text={texts[field.name]}
              error={texts[field.name] === undefined ? undefined : errors[field.name]}
              onChange={(text) => setTexts({ texts: { ...texts, [field.name]: text }, additional })}
            />
          ))}
          <Textarea
            label="Additional fields"
            description="Fields that the entry has no default for: a map, as JSON."
            placeholder="{}"
            autosize
            minRows={2}
            maxRows={16}
            spellCheck={false}
            styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
            value={additional}
            error={additionalError ?? refused.get("workload")}
            onChange={(event) => setTexts({ texts, additional: event.currentTarget.value })}
          />
        </Stack>
      </Panel>
      <Panel title="Options">
        <RequestOptions options={options} errors={refused} onChange={setOptions} />
      </Panel>
      <Panel title="Request">
        <Text size="xs" c="dimmed" mb="xs">
          The server takes all other fields from the defaults of the newest version.
        </Text>
        <JsonTree value={input} name="Request" openLevels={4} />
      </Panel>
      {execute.error && <Failure error={execute.error} />}
      <PartialData errors={execute.data?.errors ?? []} />
      {payload && <Outcome payload={payload} shownAtFields={areShown(payload)} />}
      <Group gap="xs">
        <PermittedButton
          capability="EXECUTE"
          size="sm"
          leftSection={<IconPlayerPlay size={16} />}
          loading={execute.isPending}
          {...(invalid && { refusal: "Correct the marked fields, and give values to the required ones." })}
          onClick={() => execute.mutate({ input })}
        >
          Execute
        </PermittedButton>
        <OpenAsGraphql document={ExecuteDocument} variables={{ input }} />
      </Group>
    </Stack>
  );
}

/** Names of the fields of a request that have an input. */
const SHOWN = new Set(["workload", "key", "windowSeconds", "executionPool"]);

function errorsByField(payload: Payload | null | undefined): Map<string, string> {
  return new Map((payload?.userErrors ?? []).flatMap(({ field, message }) => (field ? [[field.at(-1) ?? "", message]] : [])));
}

function areShown({ userErrors }: Payload): boolean {
  return userErrors.length > 0 && userErrors.every(({ field }) => SHOWN.has(field?.at(-1) ?? ""));
}

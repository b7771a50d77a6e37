/** The form of one catalog entry: its workload, the options of the request, and the outcome. */

import { Group, Stack, Text } from "@mantine/core";
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
import { labelsError, NO_OPTIONS, requestOf, RequestOptions, windowError } from "./request_options";
import { WorkloadPanel } from "./workload_panel";
import { refusalOf, textsOf, workloadOf } from "./workload_values";
import classes from "./execute_form.module.css";

interface Props {
  entry: NonNullable<WorkloadOfEntryQuery["catalogEntry"]>;
  /** Whether the newest version at the time of the request is run, or exactly this one. */
  newest: boolean;
  /** Workload and pool to begin with; undefined: the defaults. */
  repeated: { workload: unknown; executionPool: string | null } | undefined;
}

export function ExecuteForm({ entry: { path, catalogId, version, workloadFields: fields }, newest, repeated }: Props) {
  const [{ texts, additional }, setTexts] = useState(() => textsOf(fields, repeated?.workload));
  const [options, setOptions] = useState(() => ({ ...NO_OPTIONS, pool: repeated?.executionPool ?? "" }));
  const execute = useApiMutation(ExecuteDocument);
  const { errors, additionalError, workload } = workloadOf(fields, texts, additional);
  const input: ExecuteInput = { entry: newest ? { path } : { catalogId }, workload, ...requestOf(options) };
  const refusal = refusalOf([
    ...fields.map(({ name }) => name).filter((name) => errors.has(name)),
    ...(additionalError === null ? [] : ["Additional fields"]),
    ...(windowError(options) === null ? [] : ["Window in seconds"]),
    ...(labelsError(options) === null ? [] : ["Labels"]),
  ]);
  const payload = execute.data?.data.execute;
  const refused = errorsByField(payload);
  // A changed request has not been refused.
  const forgetRefusal = () => refused.size > 0 && execute.reset();
  return (
    <div className={classes.form}>
      <Stack gap="md">
        <WorkloadPanel
          fields={fields}
          texts={texts}
          additional={additional}
          errors={errors}
          additionalError={additionalError ?? refused.get("workload")}
          onChange={(changed, more) => {
            setTexts({ texts: changed, additional: more });
            forgetRefusal();
          }}
        />
        <Panel title="Options">
          <RequestOptions
            options={options}
            errors={refused}
            onChange={(changed) => {
              setOptions(changed);
              forgetRefusal();
            }}
          />
        </Panel>
      </Stack>
      <Stack gap="md">
        <Panel title="Request">
          <JsonTree value={input} name="Request" openLevels={4} />
          <Text size="xs" c="dimmed" mt="xs">
            Fields that are not in the request have the defaults of {newest ? "the newest version" : `version ${version}`}.
          </Text>
        </Panel>
        {execute.error && <Failure error={execute.error} />}
        <PartialData errors={execute.data?.errors ?? []} />
        {payload && <Outcome payload={payload} shownAtFields={areShown(payload)} />}
        <Group gap="xs">
          <PermittedButton
            capability="EXECUTE"
            leftSection={<IconPlayerPlay size={14} />}
            loading={execute.isPending}
            reasonShown
            {...(refusal !== undefined && { refusal })}
            onClick={() => execute.mutate({ input })}
          >
            Execute
          </PermittedButton>
          <OpenAsGraphql document={ExecuteDocument} variables={{ input }} />
        </Group>
      </Stack>
    </div>
  );
}

/** Names of the fields of a request that have an input. */
const SHOWN = new Set(["workload", "key", "windowSeconds", "executionPool", "labels"]);

/** Returns the name of the input of a field: its last name, or that of the labels for a part of a label. */
function fieldName(field: readonly string[] | null): string {
  return (field?.[0] === "labels" ? field[0] : field?.at(-1)) ?? "";
}

function errorsByField(payload: Payload | null | undefined): Map<string, string> {
  return new Map((payload?.userErrors ?? []).flatMap(({ field, message }) => (field ? [[fieldName(field), message]] : [])));
}

function areShown({ userErrors }: Payload): boolean {
  return userErrors.length > 0 && userErrors.every(({ field }) => SHOWN.has(fieldName(field)));
}

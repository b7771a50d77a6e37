/** Options of a request: dedup key with its window, the pool of workers, and labels. */

import { Checkbox, Group, SimpleGrid, TextInput } from "@mantine/core";

import type { ExecuteInput } from "../../api/schema.generated";
import { readLabels } from "../../ui/labels";

export interface Options {
  dedupKey: string;
  windowSeconds: string;
  rejectDifferent: boolean;
  pool: string;
  /** Labels such as `order_id=17, team=shop`. */
  labels: string;
}

export const NO_OPTIONS: Options = { dedupKey: "", windowSeconds: "", rejectDifferent: false, pool: "", labels: "" };

interface Props {
  options: Options;
  /** Errors of the server by the name of their field (`fieldName`). */
  errors: ReadonlyMap<string, string>;
  onChange: (options: Options) => void;
}

export function RequestOptions({ options, errors, onChange }: Props) {
  const text = (name: "dedupKey" | "windowSeconds" | "pool" | "labels") => ({
    value: options[name],
    onChange: (event: { currentTarget: { value: string } }) => onChange({ ...options, [name]: event.currentTarget.value }),
  });
  return (
    <>
      <SimpleGrid cols={{ base: 1, sm: 3 }} spacing="md">
        <TextInput
          {...text("dedupKey")}
          label="Dedup key"
          description="Requests with the same key start one execution."
          error={errors.get("key")}
        />
        <TextInput
          {...text("windowSeconds")}
          label="Window in seconds"
          description="Length of time in which the key counts."
          placeholder="300"
          inputMode="numeric"
          disabled={options.dedupKey === ""}
          error={windowError(options) ?? errors.get("windowSeconds")}
        />
        <TextInput
          {...text("pool")}
          label="Pool"
          description="Workers that run the execution."
          placeholder="shared"
          error={errors.get("executionPool")}
        />
        <TextInput
          {...text("labels")}
          label="Labels"
          description="By which the execution is found."
          placeholder="order_id=17, team=shop"
          error={labelsError(options) ?? errors.get("labels")}
        />
      </SimpleGrid>
      <Group mt="sm">
        <Checkbox
          label="Reject the request if the key belongs to a different request"
          disabled={options.dedupKey === ""}
          checked={options.rejectDifferent}
          onChange={(event) => onChange({ ...options, rejectDifferent: event.currentTarget.checked })}
        />
      </Group>
    </>
  );
}

/** Returns what is wrong with the window; null if it is valid or not used. */
export function windowError({ dedupKey, windowSeconds }: Options): string | null {
  const used = dedupKey !== "" && windowSeconds.trim() !== "";
  return used && !/^\d{1,7}$/.test(windowSeconds.trim()) ? "Write a whole number of seconds." : null;
}

/** Returns what is wrong with the labels; null if each has a name and a value, or if there are none. */
export function labelsError({ labels }: Options): string | null {
  const written = readLabels(labels);
  const complete = written.length > 0 && written.every(({ value }) => value !== undefined && value !== "");
  return complete || labels.trim() === "" ? null : "Write labels as order_id=17, team=shop.";
}

/** Returns the fields of the request. An empty option is left out. */
export function requestOf(options: Options): Pick<ExecuteInput, "dedup" | "executionPool" | "labels"> {
  const { dedupKey, windowSeconds, rejectDifferent, pool } = options;
  const labels = readLabels(options.labels).map(({ name, value }) => ({ name, value: value ?? "" }));
  return {
    ...(dedupKey !== "" && {
      dedup: { key: dedupKey, rejectDifferent, ...(windowSeconds.trim() !== "" && { windowSeconds: Number(windowSeconds) }) },
    }),
    ...(pool.trim() !== "" && { executionPool: pool.trim() }),
    ...(labels.length > 0 && { labels }),
  };
}

/** A dialog that registers a subscription: choose a catalog entry, register, see the outcome. */

import { Button, Group, Modal, Select, Stack, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";

import { useApiMutation, useApiQuery } from "../../api/hooks";
import { UserErrors } from "../../ui/confirm_dialog";
import { Failure, PartialData } from "../../ui/states";
import { EntryToRegisterSummary } from "./entry_summary";
import { RegisterSubscriptionDocument, SubscriptionEntriesDocument, type EntryToRegisterQuery } from "./operations.generated";
import { RegistrationOutcome } from "./registration_outcome";

const TYPING_MS = 200;

interface Props {
  /** Path of the chosen entry; `choose` if none is chosen. */
  entry: string;
  onChoose: (path: string) => void;
  onClose: () => void;
}

export function RegisterDialog(props: Props) {
  return (
    <Modal opened onClose={props.onClose} title="Register a subscription" centered size="lg">
      <Steps {...props} />
    </Modal>
  );
}

function Steps({ entry, onChoose, onClose }: Props) {
  const path = entry === "choose" ? null : entry;
  const [read, setRead] = useState<EntryToRegisterQuery | null>(null);
  const [before, setBefore] = useState<EntryToRegisterQuery["subscription"]>(null);
  const register = useApiMutation(RegisterSubscriptionDocument);
  const payload = register.data?.data.registerSubscription;
  if (payload?.subscription && payload.userErrors.length === 0) {
    return <RegistrationOutcome subscription={payload.subscription} before={before} onClose={onClose} />;
  }
  const ready = path !== null && read?.catalogEntry?.path === path && read.catalogEntry.kind === "SUBSCRIPTION";
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (ready) {
          setBefore(read.subscription);
          register.mutate({ input: { path } });
        }
      }}
    >
      <Stack gap="md">
        <EntryChoice path={path} onChoose={onChoose} />
        {path !== null && <EntryToRegisterSummary path={path} onRead={setRead} />}
        {register.error && <Failure error={register.error} />}
        <UserErrors errors={payload?.userErrors ?? register.data?.errors ?? []} />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={!ready} loading={register.isPending}>
            Register
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function EntryChoice({ path, onChoose }: { path: string | null; onChoose: (path: string) => void }) {
  const [text, setText] = useState("");
  const [settled] = useDebouncedValue(text.trim(), TYPING_MS);
  const wanted = settled === "" || settled === path ? null : settled;
  const { data, error, refetch } = useApiQuery(SubscriptionEntriesDocument, { text: wanted });
  const entries = data?.data.catalogEntries;
  const paths = entries?.nodes.map((entry) => entry.path) ?? [];
  return (
    <>
      {error && <Failure error={error} retry={refetch} />}
      <PartialData unavailableShards={entries?.unavailableShards ?? []} errors={data?.errors ?? []} />
      <Select
        label="Catalog entry"
        description="Entries of kind subscription. Its newest version is used."
        placeholder="Type a part of the path"
        data={path === null || paths.includes(path) ? paths : [path, ...paths]}
        value={path}
        onChange={(chosen) => chosen !== null && onChoose(chosen)}
        searchable
        // The list would cover what is known about the chosen entry.
        openOnFocus={path === null}
        onSearchChange={setText}
        // The server has searched.
        filter={({ options }) => options}
        nothingFoundMessage="No catalog entry of kind subscription matches. Register one in the catalog first."
        comboboxProps={{ withinPortal: false }}
        data-autofocus
      />
      {entries?.pageInfo.hasNextPage && (
        <Text size="xs" c="dimmed">
          The first {entries.nodes.length} entries are listed. Type a part of the path to find others.
        </Text>
      )}
    </>
  );
}

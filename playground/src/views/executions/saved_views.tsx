/** Menu of the saved views: opens, watches and removes one, and saves the current filter under a name. */

import { ActionIcon, Button, Group, Popover, Stack, Text, TextInput } from "@mantine/core";
import { IconBookmark, IconTrash } from "@tabler/icons-react";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";

import { useStored } from "../../ui/stored";
import { removeView, SAVED_VIEWS, saveView, WATCHES } from "./saved_views_store";
import type { ExecutionsSearch } from "./search";
import { WatchButton, WatchForm } from "./watch_button";

const route = getRouteApi("/executions");

export function SavedViews() {
  const views = Object.entries(useStored(SAVED_VIEWS));
  const [opened, setOpened] = useState(false);
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" width={280} shadow="md" trapFocus>
      <Popover.Target>
        <Button size="xs" variant="default" leftSection={<IconBookmark size={14} />} onClick={() => setOpened(!opened)}>
          Saved views{views.length > 0 && ` (${views.length})`}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap="sm">
          {views.length === 0 && (
            <Text size="sm" c="dimmed">
              Save the current filter under a name. It is kept in this browser.
            </Text>
          )}
          {views.map(([name, search]) => (
            <SavedView key={name} name={name} search={search} onOpen={() => setOpened(false)} />
          ))}
          <SaveForm />
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

function SavedView({ name, search, onOpen }: { name: string; search: ExecutionsSearch; onOpen: () => void }) {
  const watch = useStored(WATCHES)[name];
  const [asking, setAsking] = useState(false);
  return (
    <div>
      <Group justify="space-between" wrap="nowrap" gap="xs">
        <Button
          renderRoot={(props) => <Link {...props} to="/executions" search={search} />}
          onClick={onOpen}
          variant="subtle"
          size="compact-sm"
          justify="flex-start"
          flex={1}
        >
          {name}
        </Button>
        <WatchButton name={name} watch={watch} asking={asking} onAsk={setAsking} />
        <ActionIcon variant="subtle" color="gray" aria-label={`Remove ${name}`} onClick={() => removeView(name)}>
          <IconTrash size={14} />
        </ActionIcon>
      </Group>
      {asking && <WatchForm name={name} onClose={() => setAsking(false)} />}
    </div>
  );
}

function SaveForm() {
  const search = route.useSearch();
  const [name, setName] = useState("");
  const title = name.trim();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (title) {
          saveView(title, search);
          setName("");
        }
      }}
    >
      <Group gap="xs" align="flex-end" wrap="nowrap">
        <TextInput
          label="Name of the current filter"
          size="xs"
          flex={1}
          maxLength={60}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <Button type="submit" size="xs" disabled={!title}>
          Save
        </Button>
      </Group>
    </form>
  );
}

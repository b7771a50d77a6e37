/** Button that begins or ends the watch of a saved view, and the form that asks for its limit. */

import { ActionIcon, Button, Group, Text, TextInput } from "@mantine/core";
import { IconBell, IconBellFilled } from "@tabler/icons-react";
import { useState, type FormEvent } from "react";

import { showNotification } from "./notification";
import { unwatchView, watchView, type Watch } from "./saved_views_store";

interface ButtonProps {
  name: string;
  watch: Watch | undefined;
  /** Whether the form is shown. */
  asking: boolean;
  onAsk: (asking: boolean) => void;
}

export function WatchButton({ name, watch, asking, onAsk }: ButtonProps) {
  return watch ? (
    <ActionIcon
      variant="subtle"
      aria-label={`Stop watching ${name}`}
      title={`Notifies you when there are more than ${watch.above}`}
      onClick={() => unwatchView(name)}
    >
      <IconBellFilled size={14} />
    </ActionIcon>
  ) : (
    <ActionIcon variant="subtle" color="gray" aria-label={`Watch ${name}`} aria-expanded={asking} onClick={() => onAsk(!asking)}>
      <IconBell size={14} />
    </ActionIcon>
  );
}

const INSECURE = "Browsers show notifications only of pages with https or on localhost.";
const REFUSED = "The browser refuses notifications of this page. Its settings can permit them.";
const IMPOSSIBLE = "This browser shows no notifications of pages.";

/** Asks for the limit of a watch, and then the browser for its permission. A notification shows that it works. */
export function WatchForm({ name, onClose }: { name: string; onClose: () => void }) {
  const [above, setAbove] = useState("0");
  const [refusal, setRefusal] = useState<string>();
  async function watch(event: FormEvent) {
    event.preventDefault();
    if (!window.isSecureContext || !("Notification" in window)) {
      setRefusal(INSECURE);
    } else if ((await Notification.requestPermission()) !== "granted") {
      setRefusal(REFUSED);
    } else if (!showNotification(`${name} is watched`, "Its notifications appear here.")) {
      setRefusal(IMPOSSIBLE);
    } else {
      watchView(name, Number(above));
      onClose();
    }
  }
  return (
    <form onSubmit={(event) => void watch(event)}>
      <Group gap="xs" align="flex-end" wrap="nowrap">
        <TextInput
          label="Notify me above"
          size="xs"
          flex={1}
          inputMode="numeric"
          value={above}
          onChange={(event) => setAbove(event.currentTarget.value)}
          autoFocus
        />
        <Button type="submit" size="xs" disabled={!/^\d{1,5}$/.test(above)}>
          Watch
        </Button>
      </Group>
      <Text size="xs" c="dimmed" mt={4} role="status">
        {refusal ?? "Counted once a minute while a page of the console is open."}
      </Text>
    </form>
  );
}

/** Runs an execution again with its workload and pool, by default in the version that it ran. Then it shows the new one. */

import { Checkbox, Stack } from "@mantine/core";
import { IconRepeat } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { newDedupKey, WINDOW_SECONDS } from "../../api/dedup_key";
import { useApiMutation } from "../../api/hooks";
import { ConfirmDialog } from "../../ui/confirm_dialog";
import { objectLocation } from "../../ui/object_links";
import { PermittedButton } from "../../ui/permitted_button";
import type { Execution } from "./live_execution";
import { RerunExecutionDocument } from "./operations.generated";

export function RerunButton({ execution: { id, catalogEntry } }: { execution: Execution }) {
  const [opened, setOpened] = useState(false);
  const [newestVersion, setNewestVersion] = useState(false);
  // The key is kept until a rerun has started: if the response is lost, the next attempt finds the rerun.
  const [key, setKey] = useState("");
  const navigate = useNavigate();
  const rerun = useApiMutation(RerunExecutionDocument);
  const failures = rerun.error ? [rerun.error] : (rerun.data?.errors ?? []);
  const refusals = [...failures, ...(rerun.data?.data.rerunExecution?.userErrors ?? [])];

  async function confirm() {
    const dedup = { key, windowSeconds: WINDOW_SECONDS, rejectDifferent: true };
    const { data } = await rerun.mutateAsync({ input: { executionId: id, newestVersion, dedup } });
    const started = data.rerunExecution?.executionId;
    if (started) {
      setKey("");
      close();
      await navigate(objectLocation("execution", started));
    }
  }

  function open() {
    setKey((before) => before || newDedupKey());
    setOpened(true);
  }

  function close() {
    setOpened(false);
    setNewestVersion(false);
    rerun.reset();
  }

  return (
    <>
      <PermittedButton capability="EXECUTE" variant="default" leftSection={<IconRepeat size={14} />} onClick={open}>
        Rerun…
      </PermittedButton>
      <ConfirmDialog
        opened={opened}
        title="Rerun"
        action="Rerun"
        withReason={false}
        busy={rerun.isPending}
        userErrors={refusals}
        onConfirm={() => void confirm().catch(() => {})}
        onClose={close}
      >
        <Stack gap="sm">
          <span>
            A new execution starts with the workload and the pool of this one
            {catalogEntry && !newestVersion && `, in version ${catalogEntry.version}`}.
          </span>
          <Checkbox
            label="Run the newest version of the path"
            checked={newestVersion}
            onChange={(event) => setNewestVersion(event.currentTarget.checked)}
          />
        </Stack>
      </ConfirmDialog>
    </>
  );
}

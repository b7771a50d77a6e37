/** Retires a version, or restores it, and if the user wants, all versions of its path. */

import { Checkbox, Stack } from "@mantine/core";
import { IconArchive, IconArchiveOff } from "@tabler/icons-react";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";

import { useApiMutation } from "../../api/hooks";
import { ConfirmDialog } from "../../ui/confirm_dialog";
import { PermittedButton } from "../../ui/permitted_button";
import type { Entry } from "./entry";
import { ArchiveCatalogEntryDocument, RestoreCatalogEntryDocument } from "./operations.generated";

const route = getRouteApi("/catalog/$");

const ACTIONS = {
  retire: {
    label: "Retire",
    icon: IconArchive,
    effect: "Requests by path run the newest version that is not retired. Executions that have begun continue.",
  },
  restore: { label: "Restore", icon: IconArchiveOff, effect: "The version can be the newest of its path again." },
};

export function RetireButton({ entry }: { entry: Entry }) {
  const navigate = route.useNavigate();
  const [asked, setAsked] = useState<keyof typeof ACTIONS | null>(null);
  const [allVersions, setAllVersions] = useState(false);
  const archive = useApiMutation(ArchiveCatalogEntryDocument);
  const restore = useApiMutation(RestoreCatalogEntryDocument);
  const change = asked === "restore" ? restore : archive;
  const payload = archive.data?.data.archiveCatalogEntry ?? restore.data?.data.restoreCatalogEntry;
  const failures = change.error ? [change.error] : (change.data?.errors ?? []);
  const offered = entry.archivedAt === null ? "retire" : "restore";
  const { label, icon: Icon } = ACTIONS[offered];

  async function confirm() {
    // The queries are sent again before the result returns. Without a version, the address would then mean another one.
    const version = String(entry.version);
    void navigate({ search: (before) => ({ ...before, version }), replace: true, resetScroll: false, ignoreBlocker: true });
    const variables = { input: { catalogId: entry.catalogId, allVersions } };
    const changed =
      asked === "restore"
        ? (await restore.mutateAsync(variables)).data.restoreCatalogEntry
        : (await archive.mutateAsync(variables)).data.archiveCatalogEntry;
    if (changed?.userErrors.length === 0) {
      dismiss();
    }
  }
  function dismiss() {
    setAsked(null);
    setAllVersions(false);
    archive.reset();
    restore.reset();
  }

  return (
    <>
      <PermittedButton capability="CATALOG" variant="default" leftSection={<Icon size={14} />} onClick={() => setAsked(offered)}>
        {label}…
      </PermittedButton>
      {asked && (
        <ConfirmDialog
          opened
          title={`${ACTIONS[asked].label} version ${entry.version}`}
          action={ACTIONS[asked].label}
          dangerous={asked === "retire"}
          withReason={false}
          busy={change.isPending}
          userErrors={[...failures, ...(payload?.userErrors ?? [])]}
          onConfirm={() => void confirm().catch(() => {})}
          onClose={dismiss}
        >
          <Stack gap="sm">
            <span>{ACTIONS[asked].effect}</span>
            <Checkbox
              label="All versions of the path"
              checked={allVersions}
              onChange={(event) => setAllVersions(event.currentTarget.checked)}
            />
          </Stack>
        </ConfirmDialog>
      )}
    </>
  );
}

/** Actions on an entry: execute it, register a version with changed content, or retire or restore it. */

import { IconFilePlus, IconPlayerPlay } from "@tabler/icons-react";
import { getRouteApi, useNavigate } from "@tanstack/react-router";

import { isExecutable, pathLocation } from "../../app/path_links";
import { PermittedButton } from "../../ui/permitted_button";
import type { Entry } from "./entry";
import { RetireButton } from "./retire_button";

const route = getRouteApi("/catalog/$");

export function EntryActions({ entry }: { entry: Entry }) {
  const { show } = route.useSearch();
  const navigate = useNavigate();
  const setShown = route.useNavigate();
  return (
    <>
      {isExecutable(entry.kind) && (
        <PermittedButton
          capability="EXECUTE"
          leftSection={<IconPlayerPlay size={14} />}
          {...(entry.archivedAt !== null && { refusal: "This version is retired." })}
          onClick={() => void navigate(pathLocation("execute", entry.path))}
        >
          Execute
        </PermittedButton>
      )}
      {show !== "register" && (
        <PermittedButton
          capability="CATALOG"
          variant="default"
          leftSection={<IconFilePlus size={14} />}
          onClick={() => void setShown({ search: (before) => ({ ...before, show: "register" }) })}
        >
          Register a version
        </PermittedButton>
      )}
      <RetireButton key={entry.id} entry={entry} />
    </>
  );
}

/** Actions on an entry: execute it, or register a version with changed content. */

import { IconFilePlus, IconPlayerPlay } from "@tabler/icons-react";
import { getRouteApi, useNavigate } from "@tanstack/react-router";

import { pathLocation } from "../../app/path_links";
import { PermittedButton } from "../../ui/permitted_button";
import type { Entry } from "./entry_view";
import { isExecutable } from "./kind_badge";

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
    </>
  );
}

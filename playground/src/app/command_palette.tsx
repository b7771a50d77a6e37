/** The command palette (Ctrl K): opens what a text names, such as a view, an id, a dedup key, a label or a path. */

import { Spotlight, spotlight } from "@mantine/spotlight";
import "@mantine/spotlight/styles.layer.css";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { Failure, PartialData } from "../ui/states";
import { useFound } from "./find";
import { takeKeys } from "./typed_ahead";

const NAME = "Go to a view, an id, a label or a path";
const LIST_ID = "palette-results";
/** The description has the contrast of the label, also in the selected result. */
const READABLE = { color: "inherit", opacity: 1 } as const;
/** A path without spaces is wrapped too. */
const WRAPPED = { minWidth: 0, overflowWrap: "anywhere" } as const;

/** Opens when the number of the user's requests for it changes. Only the library's store says whether it is open. */
export default function CommandPalette({ requests }: { requests: number }) {
  const [query, setQuery] = useState("");
  const text = query.trim();
  const { targets, error, loading, ...missing } = useFound(text);
  const complete = !loading && !error && missing.errors.length === 0 && missing.unavailableShards.length === 0;
  const navigate = useNavigate();
  useEffect(() => spotlight.open(), [requests]);
  useEffect(makeScrollable);
  useEffect(() => {
    if (text !== "") {
      selectFirst();
    }
  }, [text, targets]);
  const addKeys = () => {
    const keys = takeKeys();
    setQuery((before) => before + keys);
  };
  return (
    <Spotlight.Root
      query={query}
      onQueryChange={setQuery}
      shortcut={null}
      attributes={{ content: { "aria-label": NAME } }}
      styles={{ actionBody: WRAPPED, actionDescription: READABLE }}
    >
      <Spotlight.Search placeholder={NAME} aria-label={NAME} onFocus={addKeys} />
      <Spotlight.ActionsList id={LIST_ID}>
        {targets.map((target) => (
          <Spotlight.Action
            key={target.key}
            label={target.label}
            description={target.description}
            onClick={() => void navigate(target.location)}
          />
        ))}
        {error && <Failure error={error} />}
        <PartialData {...missing} />
        {complete && targets.length === 0 && (
          <Spotlight.Empty>
            Nothing found. Labels of the newest executions were tried; write name=value to search all labels. Dedup keys
            expire. A text of 4 or more characters with a digit and without spaces was also tried as a key of the newest 20
            source subscriptions that are not deactivated. A message's key without a digit is found only in the field Dedup
            key: of its subscription, or of the list of executions, with the field Parent. The list finds keys of other
            parents too. A text of 3 to 200 bytes was also searched for in the errors of the newest 5,000 failed executions
            of each shard.
          </Spotlight.Empty>
        )}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}

/** Makes the list of results, which the library does not let the keyboard reach, scrollable by keys. */
function makeScrollable() {
  document.getElementById(LIST_ID)?.querySelector("[data-scrollarea-viewport]")?.setAttribute("tabindex", "0");
}

/** Selects the first result if none is selected: the library does so only when the text changes, before results arrive. */
function selectFirst() {
  const list = document.getElementById(LIST_ID);
  if (!list?.querySelector("[data-selected]")) {
    list?.querySelector("[data-action]")?.setAttribute("data-selected", "true");
  }
}

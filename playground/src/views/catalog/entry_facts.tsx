/** Beside the content: the entry's fields, its versions, and what uses it. */

import { Badge, Group, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { CopyButton } from "../../ui/copy_button";
import { FieldList } from "../../ui/field_list";
import { Panel } from "../../ui/panel";
import { TextLink } from "../../ui/text_link";
import { Time } from "../../ui/time";
import { EntryUse } from "./entry_use";
import type { Entry } from "./entry";
import { RetiredBadge } from "./retired_badge";
import classes from "./entry_view.module.css";
import versionClasses from "./entry_versions.module.css";

export function EntryFacts({ entry }: { entry: Entry }) {
  return (
    <div className={classes.facts}>
      <Panel title="Entry">
        <Fields entry={entry} />
      </Panel>
      <EntryUse entry={entry} />
      <Panel title="Versions">
        <Versions entry={entry} />
      </Panel>
    </div>
  );
}

function Fields({ entry }: { entry: Entry }) {
  const steps = entry.workflow?.steps.length;
  return (
    <FieldList
      fields={[
        ["Name", entry.name],
        ["Description", entry.description],
        ["Labels", <Labels labels={entry.labels} />],
        ["Steps", steps !== undefined && String(steps)],
        ["Registered", <Change at={entry.createdAt} caller={entry.registeredBy} />],
        ["Retired", entry.archivedAt !== null && <Change at={entry.archivedAt} caller={entry.archivedBy} />],
        [
          "Id",
          <Group gap={2} component="span" display="inline-flex">
            {entry.id}
            <CopyButton value={entry.id} name="id" />
          </Group>,
        ],
      ]}
    />
  );
}

/** Returns the caller of a change in words; empty if the server did not identify it. */
function by(caller: string | null): string {
  return caller === null ? "" : ` by ${caller}`;
}

/** The time of a change, and its caller. */
function Change({ at, caller }: { at: string; caller: string | null }) {
  return (
    <>
      <Time value={at} absolute />
      {by(caller)}
    </>
  );
}

function Labels({ labels }: { labels: unknown }) {
  const entries = Object.entries((labels ?? {}) as Record<string, unknown>);
  return entries.length === 0 ? (
    "None"
  ) : (
    <Group gap={4}>
      {entries.map(([name, value]) => (
        <Badge key={name} variant="default" size="sm" tt="none" fw={400}>
          {name}: {String(value)}
        </Badge>
      ))}
    </Group>
  );
}

const route = getRouteApi("/catalog/$");

function Versions({ entry }: { entry: Entry }) {
  const { show } = route.useSearch();
  const versions = entry.versions?.nodes ?? [];
  return (
    <>
      <ul className={versionClasses.versions}>
        {versions.map(({ id, version, createdAt, registeredBy, archivedAt, archivedBy }) => (
          <li key={id} className={versionClasses.version} aria-current={version === entry.version}>
            <TextLink
              to="/catalog/$"
              params={{ _splat: entry.path }}
              search={{ version: String(version), ...(show === "difference" && { show }) }}
              resetScroll={false}
              size="xs"
            >
              Version {version}
            </TextLink>
            <Text size="xs" c="dimmed" component="span" className={versionClasses.change!}>
              {archivedAt === null ? <Time value={createdAt} /> : <RetiredBadge />}
              {by(archivedAt === null ? registeredBy : archivedBy)}
            </Text>
            {version !== entry.version && (
              <TextLink
                to="/catalog/$"
                params={{ _splat: entry.path }}
                search={comparison(version, entry.version)}
                resetScroll={false}
                size="xs"
                aria-label={`Compare version ${version} with version ${entry.version}`}
              >
                Compare
              </TextLink>
            )}
          </li>
        ))}
      </ul>
      {entry.versions?.pageInfo.hasNextPage && (
        <Text size="xs" c="dimmed">
          Older versions: list all versions in the catalog.
        </Text>
      )}
    </>
  );
}

/** Returns the address of the difference of two versions, from the older to the newer one. */
function comparison(one: number, other: number) {
  return { version: String(Math.max(one, other)), show: "difference", with: String(Math.min(one, other)) };
}

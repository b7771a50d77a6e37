/** Registration of the next version of a path. The editor begins with the content of the shown version. */

import { getRouteApi } from "@tanstack/react-router";

import type { Entry } from "./entry";
import { RegisterForm } from "./register_form";

const route = getRouteApi("/catalog/$");

export function RegisterVersion({ entry }: { entry: Entry }) {
  const navigate = route.useNavigate();
  return (
    <RegisterForm
      key={entry.id}
      initialText={entry.content ?? ""}
      path={entry.path}
      onRegistered={({ version }) => void navigate({ search: { version: String(version) } })}
      onCancel={() => void navigate({ search: ({ version }) => ({ version }) })}
    />
  );
}

/** Registration of an entry with a path of its own. The editor begins with a small playbook. */

import { useNavigate } from "@tanstack/react-router";

import { ViewPage } from "../../ui/view_page";
import { RegisterForm } from "./register_form";

const PLAYBOOK = `apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: example
  path: examples/first
  description: Replace this text by the purpose of the playbook.
workload:
  greeting: hello
workflow:
  - step: start
    desc: Begins the playbook.
    tool: { kind: noop }
    next: { spec: { mode: exclusive }, arcs: [{ step: end }] }
  - step: end
    desc: Ends the playbook.
    tool: { kind: noop }
`;

export default function RegisterNewEntry() {
  const navigate = useNavigate();
  return (
    <ViewPage title="Register an entry" description="A path that the catalog has gets another version; another path is added.">
      <RegisterForm
        initialText={PLAYBOOK}
        onRegistered={({ path, version }) =>
          void navigate({ to: "/catalog/$", params: { _splat: path }, search: { version: String(version) } })
        }
        onCancel={() => void navigate({ to: "/catalog", search: {} })}
      />
    </ViewPage>
  );
}

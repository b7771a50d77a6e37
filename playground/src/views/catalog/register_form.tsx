/** An editor whose document the server checks while the user types, and the registration of the document. */

import { FileButton, Button, Group, Select, TextInput } from "@mantine/core";
import { IconUpload } from "@tabler/icons-react";
import { useRef, useState } from "react";

import { useApiMutation } from "../../api/hooks";
import type { CatalogKind } from "../../api/schema.generated";
import { CodeEditor } from "../../ui/code/code_editor";
import type { Problem } from "../../ui/code/problem_place";
import { Panel } from "../../ui/panel";
import { PermittedButton } from "../../ui/permitted_button";
import { Failure } from "../../ui/states";
import { KINDS } from "./catalog_filters";
import { CheckResult } from "./check_result";
import { RegisterCatalogEntryDocument, type RegisterCatalogEntryMutation } from "./operations.generated";
import { problemsOf, useCheck } from "./use_check";
import { useUnsavedText } from "./use_unsaved_text";
import classes from "./register_form.module.css";

export type Registered = NonNullable<NonNullable<RegisterCatalogEntryMutation["registerCatalogEntry"]>["catalogEntry"]>;

interface Props {
  initialText: string;
  /** Path of the entry; undefined if the document has it. */
  path?: string;
  onRegistered: (entry: Registered) => void;
  onCancel: () => void;
}

const FROM_DOCUMENT = "document";

export function RegisterForm({ initialText, path, onRegistered, onCancel }: Props) {
  const [start, setStart] = useState(initialText);
  const [text, setText] = useState(initialText);
  const [kind, setKind] = useState<CatalogKind | null>(null);
  const [typedPath, setTypedPath] = useState("");
  const showProblem = useRef<(problem: Problem) => void>(() => {});
  const wanted = path ?? typedPath.trim();
  const input = { content: text, ...(kind && { kind }), ...(wanted && { path: wanted }) };
  const check = useCheck(input);
  const register = useApiMutation(RegisterCatalogEntryDocument);
  const leave = useUnsavedText(text !== initialText);

  async function send() {
    const { data } = await register.mutateAsync({ input: { ...input, onlyIfChanged: true } });
    const answer = data.registerCatalogEntry;
    if (answer?.outcome === "ADDED" && answer.catalogEntry) {
      leave();
      onRegistered(answer.catalogEntry);
    }
  }

  async function open(file: File | null) {
    if (file) {
      const content = await file.text();
      setStart(content);
      setText(content);
    }
  }

  const answer = register.data?.data.registerCatalogEntry;
  return (
    <Panel title={path === undefined ? "Document of the entry" : "Document of the next version"}>
      <Group gap="xs" mb="sm" align="flex-end">
        {path === undefined && (
          <TextInput
            label="Path"
            size="xs"
            className={classes.path!}
            placeholder="That of the document"
            value={typedPath}
            onChange={(event) => setTypedPath(event.currentTarget.value)}
            spellCheck={false}
          />
        )}
        <Select
          label="Kind"
          size="xs"
          w={180}
          data={[{ value: FROM_DOCUMENT, label: "That of the document" }, ...KINDS]}
          value={kind ?? FROM_DOCUMENT}
          onChange={(value) => setKind(value === null || value === FROM_DOCUMENT ? null : (value as CatalogKind))}
          allowDeselect={false}
        />
        <FileButton onChange={(file) => void open(file)} accept=".yaml,.yml,.json,text/*,application/json">
          {(props) => (
            <Button {...props} variant="default" size="xs" leftSection={<IconUpload size={14} />}>
              Open a file
            </Button>
          )}
        </FileButton>
      </Group>
      <CodeEditor
        key={start}
        initialText={start}
        label="Document in YAML or JSON"
        problems={check.problems}
        onChange={setText}
        showProblem={showProblem}
      />
      <div className={classes.result}>
        <CheckResult
          check={check}
          refused={problemsOf(answer?.userErrors ?? [])}
          unchanged={answer?.outcome === "UNCHANGED"}
          onShow={(problem) => showProblem.current(problem)}
        />
        {register.error && <Failure error={register.error} />}
      </div>
      <Group justify="flex-end" gap="xs">
        <Button variant="default" size="xs" onClick={onCancel}>
          Cancel
        </Button>
        <PermittedButton
          capability="CATALOG"
          loading={register.isPending}
          {...(check.state !== "valid" && { refusal: check.explanation })}
          onClick={() => void send()}
        >
          Register
        </PermittedButton>
      </Group>
    </Panel>
  );
}

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import {
  buildClientSchema,
  getIntrospectionQuery,
  getVariableValues,
  Kind,
  parse,
  validate,
  type GraphQLSchema,
  type IntrospectionQuery,
} from "graphql";

import { graphql } from "./api";
import { expect, test } from "./console";

const TABS = "src/views/graphiql/tabs";

/** Finds tabs that are no longer valid after a change of the schema. */
test("every tab and its variables are valid for the server's schema", async ({ controlPlane }) => {
  const schema = await serverSchema(controlPlane.url);
  const tabs = readdirSync(TABS).filter((name) => name.endsWith(".graphql"));
  expect(tabs).toHaveLength(6);
  for (const tab of tabs) {
    const path = join(TABS, tab);
    expect(complaints(schema, readFileSync(path, "utf8"), variablesOf(path)), tab).toEqual([]);
  }
});

async function serverSchema(url: string): Promise<GraphQLSchema> {
  return buildClientSchema(await graphql<IntrospectionQuery>(url, getIntrospectionQuery()));
}

function complaints(schema: GraphQLSchema, source: string, variables: Record<string, unknown>): string[] {
  const document = parse(source);
  const operations = document.definitions.filter((definition) => definition.kind === Kind.OPERATION_DEFINITION);
  const faults = operations.flatMap(
    (operation) => getVariableValues(schema, operation.variableDefinitions ?? [], variables).errors ?? [],
  );
  return [...validate(schema, document), ...faults].map((fault) => fault.message);
}

/** Returns the variables of a tab. Comments in the file must have their own lines. */
function variablesOf(tab: string): Record<string, unknown> {
  try {
    const text = readFileSync(tab.replace(/\.graphql$/, ".jsonc"), "utf8");
    return JSON.parse(text.replace(/^\s*\/\/.*$/gm, "")) as Record<string, unknown>;
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code === "ENOENT") {
      return {};
    }
    throw fault;
  }
}

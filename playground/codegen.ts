import type { CodegenConfig } from "@graphql-codegen/cli";

/**
 * Generates the types of the schema, and beside each `.graphql` file of a view its typed documents. A document is a
 * text at run time, so the page needs no GraphQL parser outside GraphiQL.
 */
const config: CodegenConfig = {
  schema: "../schema.graphql",
  documents: ["src/**/*.graphql", "!src/views/graphiql/tabs/**"],
  ignoreNoDocuments: true,
  generates: {
    "src/api/schema.generated.ts": {
      plugins: ["typescript"],
    },
    "src/": {
      preset: "near-operation-file",
      presetConfig: { baseTypesPath: "api/schema.generated.ts", extension: ".generated.ts" },
      plugins: ["typescript-operations", "typed-document-node"],
    },
  },
  config: {
    documentMode: "string",
    useTypeImports: true,
    enumsAsTypes: true,
    enumType: "string-literal",
    skipTypename: true,
    defaultScalarType: "unknown",
    scalars: { ID: "string", BigInt: "string", DateTime: "string", JSON: "unknown" },
    avoidOptionals: { field: true },
    dedupeFragments: true,
  },
};

export default config;

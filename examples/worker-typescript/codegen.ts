import type { CodegenConfig } from "@graphql-codegen/cli";

/** Generates the types of src/operations.graphql: src/gql/graphql.ts. */
const config: CodegenConfig = {
  schema: "../../schema.graphql",
  documents: "src/*.graphql",
  generates: {
    "src/gql/": {
      preset: "client",
      presetConfig: { fragmentMasking: false },
      config: {
        documentMode: "string",
        useTypeImports: true,
        enumsAsTypes: true,
        defaultScalarType: "unknown",
        scalars: { ID: "string", BigInt: "string", DateTime: "string" },
      },
    },
  },
  emitLegacyCommonJSImports: false,
  importExtension: ".js",
};

export default config;

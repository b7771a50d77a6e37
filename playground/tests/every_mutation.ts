import {
  buildClientSchema,
  getIntrospectionQuery,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isRequiredInputField,
  type GraphQLInputType,
  type GraphQLSchema,
  type IntrospectionQuery,
} from "graphql";

import { graphql } from "./api";

export interface Mutation {
  name: string;
  document: string;
  variables: object;
}

/** Returns a valid request for each mutation of the server's schema. */
export async function everyMutation(url: string, token: string): Promise<Mutation[]> {
  const schema = await serverSchema(url, token);
  return Object.values(schema.getMutationType()?.getFields() ?? {}).map(({ name, args }) => {
    const [input] = args;
    if (!input || args.length > 1) {
      throw new Error(`The mutation ${name} does not have exactly one argument.`);
    }
    const document = `mutation ($input: ${String(input.type)}) { ${name}(${input.name}: $input) { __typename } }`;
    return { name, document, variables: { input: exampleOf(input.type) } };
  });
}

async function serverSchema(url: string, token: string): Promise<GraphQLSchema> {
  const query = getIntrospectionQuery({ inputValueDeprecation: true, oneOf: true });
  return buildClientSchema(await graphql<IntrospectionQuery>(url, query, {}, token));
}

/** Returns a value of a type: its required fields, or the first field if exactly one is allowed. */
function exampleOf(type: GraphQLInputType): unknown {
  if (isNonNullType(type)) {
    return exampleOf(type.ofType);
  }
  if (isListType(type)) {
    return [exampleOf(type.ofType)];
  }
  if (isEnumType(type)) {
    return type.getValues()[0]?.name;
  }
  if (isInputObjectType(type)) {
    const all = Object.values(type.getFields());
    const fields = type.isOneOf ? all.slice(0, 1) : all.filter(isRequiredInputField);
    return Object.fromEntries(fields.map((field) => [field.name, exampleOf(field.type)]));
  }
  return { Int: 1, Boolean: true }[type.name] ?? "1";
}

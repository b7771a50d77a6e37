import { readFileSync } from "node:fs";
import {
  buildSchema,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isRequiredInputField,
  type GraphQLInputType,
} from "graphql";

const SCHEMA = "../schema.graphql";

export interface Mutation {
  name: string;
  document: string;
  variables: object;
}

/** Returns a valid request for each mutation of the contract. */
export function everyMutation(): Mutation[] {
  const schema = buildSchema(readFileSync(SCHEMA, "utf8"));
  return Object.values(schema.getMutationType()?.getFields() ?? {}).map(({ name, args }) => {
    const [input] = args;
    if (!input || args.length > 1) {
      throw new Error(`The mutation ${name} does not have exactly one argument.`);
    }
    const document = `mutation ($input: ${String(input.type)}) { ${name}(${input.name}: $input) { __typename } }`;
    return { name, document, variables: { input: exampleOf(input.type) } };
  });
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

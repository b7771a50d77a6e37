// Validates the operations of documents and of the console against a schema.

import { buildSchema, parse, specifiedRules, validate } from 'graphql';

/** A document of the console may have several operations, and an example may have no name. */
const NOT_FOR_EXAMPLES = ['LoneAnonymousOperationRule', 'UniqueOperationNamesRule', 'NoUnusedFragmentsRule'];
const rules = specifiedRules.filter((rule) => !NOT_FOR_EXAMPLES.includes(rule.name));

/** Returns the GraphQL documents in a file: its text, or the code blocks of a Markdown file. */
export function documents(name, text) {
  if (!name.endsWith('.md')) return [text];
  return [...text.matchAll(/^```graphql\n([^]*?)^```$/gm)].map(([, block]) => block);
}

/** Returns the errors of a document. */
export function problems(schemaText, document) {
  try {
    return validate(buildSchema(schemaText), parse(document), rules).map((error) => error.message);
  } catch (error) {
    return [error.message];
  }
}

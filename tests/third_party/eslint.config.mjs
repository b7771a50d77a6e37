// Rules of @graphql-eslint for schema.graphql: its recommended set and its Relay set. A rule that does not fit this API
// is changed or turned off here, with the reason.

import graphql from '@graphql-eslint/eslint-plugin';

const { rules: recommended } = graphql.configs['flat/schema-recommended'];
const { rules: relay } = graphql.configs['flat/schema-relay'];
const [, naming] = recommended['@graphql-eslint/naming-convention'];

export const rules = {
  ...recommended,
  ...relay,
  // Payloads, pages and parts of other objects have no identity. The objects that can be fetched again implement `Node`.
  '@graphql-eslint/strict-id-in-types': 'off',
  // `executionPool` has the same name in executions, source subscriptions, inputs and documents.
  '@graphql-eslint/no-typename-prefix': 'off',
  // `subscriptionUpdates` contains the word for source subscriptions, not the name of the root type.
  '@graphql-eslint/naming-convention': [
    'error',
    { ...naming, 'FieldDefinition[parent.name.value=Subscription]': { forbiddenSuffixes: ['Subscription'] } },
  ],
  // Relay's specification restricts edges, not other lists: connections also have `nodes`, and bounded lists are lists.
  // Items that can't be fetched again, such as the frames of a step, do not implement `Node`.
  '@graphql-eslint/relay-edge-types': [
    'error',
    { withEdgeSuffix: true, shouldImplementNode: false, listTypeCanWrapOnlyEdgeType: false },
  ],
};

/** Returns the configuration for a schema, given as a path or as text. */
export const configuration = (schema) => [
  {
    files: ['**/*.graphql'],
    languageOptions: { parser: graphql.parser, parserOptions: { graphQLConfig: { schema } } },
    plugins: { '@graphql-eslint': graphql },
    rules,
  },
];

export default configuration('schema.graphql');

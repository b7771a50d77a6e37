// Checks a schema with the rules in eslint.config.mjs.

import { ESLint } from 'eslint';

import { configuration } from './eslint.config.mjs';

// The definitions of the standard's own directives, which the server writes into its schema. No rule is for them.
const STANDARD_DIRECTIVE = /("""(?:(?!""")[^])*"""\s*)?^directive @(?:deprecated|include|oneOf|skip|specifiedBy)\b.*$/gm;

const blank = (text) => text.replace(/[^\n]/g, '');

/** Returns the findings in the text of a schema, each as `line: message (rule)`. */
export async function lint(text) {
  const schema = text.replace(STANDARD_DIRECTIVE, blank);
  const eslint = new ESLint({ overrideConfigFile: true, overrideConfig: configuration(schema) });
  const [{ messages }] = await eslint.lintText(schema, { filePath: 'schema.graphql' });
  return messages.map(({ line, message, ruleId }) => `${line}: ${message.split('\n')[0]} (${ruleId ?? 'syntax'})`);
}

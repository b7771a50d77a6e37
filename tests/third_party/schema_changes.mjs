// Compares a schema with the last accepted one.

import { buildSchema, findBreakingChanges, findDangerousChanges, isInputObjectType } from 'graphql';

/** Changes that graphql-js calls dangerous, and docs/api-policy.md calls breaking. */
const ALSO_BREAKING = ['ARG_DEFAULT_VALUE_CHANGE'];

/** Returns the input types that accept fewer values, because exactly one of their fields must be given now. */
function narrowed(accepted, current) {
  const inputs = Object.values(current.getTypeMap()).filter(isInputObjectType);
  const isNarrowed = ({ name, isOneOf }) => {
    const before = accepted.getType(name);
    return isOneOf && isInputObjectType(before) && !before.isOneOf;
  };
  return inputs.filter(isNarrowed).map(({ name }) => `${name} became a @oneOf input.`);
}

/** Returns the breaking and the dangerous changes from one schema to the next, each as a sentence. */
export function changes(acceptedText, currentText) {
  const [accepted, current] = [buildSchema(acceptedText), buildSchema(currentText)];
  const dangerous = findDangerousChanges(accepted, current);
  const isBreaking = ({ type }) => ALSO_BREAKING.includes(type);
  const sentence = ({ description }) => description;
  return {
    breaking: [
      ...findBreakingChanges(accepted, current).map(sentence),
      ...dangerous.filter(isBreaking).map(sentence),
      ...narrowed(accepted, current),
    ],
    dangerous: dangerous.filter((change) => !isBreaking(change)).map(sentence),
  };
}

/** Returns the text under the heading `### Unreleased` of the policy's log. */
function unreleased(policy) {
  const [, log = ''] = policy.split(/^## Log of breaking changes$/m);
  const [, section = ''] = log.split(/^### Unreleased$/m);
  return section.split(/^##/m)[0];
}

/** Returns the breaking changes that the policy's log does not list. */
export function unlisted(breaking, policy) {
  const log = unreleased(policy).replace(/\s+/g, ' ');
  return breaking.filter((sentence) => !log.includes(`\`${sentence}\``));
}

/** Names and values of an object's fields. A field without a value is left out. */

import { Fragment, type ReactNode } from "react";

import classes from "./field_list.module.css";

export function FieldList({ fields }: { fields: readonly (readonly [string, ReactNode])[] }) {
  const set = fields.filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "");
  return (
    <dl className={classes.fields}>
      {set.map(([name, value]) => (
        <Fragment key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </Fragment>
      ))}
    </dl>
  );
}

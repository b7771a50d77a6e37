"""Configures Schemathesis for this server: values of the scalars, among them existing ids, and the check.

A request passes if it ends in time, without a status of 5xx and without the codes INTERNAL and TIMEOUT. Refused
requests pass too; at its end, the run prints the number of responses by code.
"""

import atexit
import collections
import json
import os
import urllib.request

import graphql
import schemathesis
from hypothesis import strategies as st

SAMPLES = ["samples/orders/inbox", "samples/orders/process", "samples/reports/daily"]
OUTCOMES = collections.Counter()


def send(query):
    request = urllib.request.Request(
        os.environ["NOETL_GRAPHQL_URL"],
        json.dumps({"query": query}).encode(),
        {"content-type": "application/json"},
    )
    return json.load(urllib.request.urlopen(request, timeout=30))["data"]


def existing_ids():
    """Creates a subscription and some executions, and returns ids of every kind of row."""
    path = SAMPLES[0]
    ids = [send(f'mutation {{ registerSubscription(input: {{path: "{path}"}}) {{ subscription {{ id }} }} }}')
           ["registerSubscription"]["subscription"]["id"]]
    for path in SAMPLES[1:] * 3:
        execute = f'mutation {{ execute(input: {{entry: {{path: "{path}"}}}}) {{ execution {{ id catalogEntry {{ id }} }} }} }}'
        execution = send(execute)["execute"]["execution"]
        ids += [execution["id"], execution["catalogEntry"]["id"]]
    events = send(f'{{ events(executionId: "{ids[1]}") {{ nodes {{ id }} }} }}')["events"]["nodes"]
    outbox = send("{ outbox { entries { nodes { id } } } }")["outbox"]["entries"]["nodes"]
    return ids + [node["id"] for node in events + outbox]


IDS = existing_ids()
NUMBERS = st.one_of(st.integers(), st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 1, 2**31, 2**53, 2**63]))
TIMES = st.one_of(
    st.datetimes(timezones=st.timezones()).map(lambda time: time.isoformat()),
    st.sampled_from(["infinity", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "2026-02-30T00:00:00Z"]),
)


NAMES = st.sampled_from(["a", "traceparent", "command_id", "context", "workload", "__proto__"])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def literal(value):
    """Returns a JSON value as a GraphQL literal."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {literal(field)}" for name, field in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    return json.dumps(value)


def scalar(name, values):
    node = lambda value: graphql.parse_value(literal(value), no_location=True)
    schemathesis.graphql.scalar(name, values.map(node))


# The first two ids are those of a subscription and an execution, which most fields require.
scalar("ID", st.sampled_from(IDS) | st.sampled_from(IDS[:2]) | NUMBERS.map(str) | st.text(max_size=20))
scalar("String", st.sampled_from(SAMPLES) | st.text(max_size=40))
scalar("BigInt", NUMBERS.map(str) | NUMBERS | st.text(max_size=20))
scalar("DateTime", TIMES | st.text(max_size=20))
scalar("JSON", JSON)


@schemathesis.check
def is_no_fault(ctx, response, case):
    assert response.status_code < 500, f"status {response.status_code}"
    errors = response.json().get("errors", [])
    codes = [error.get("extensions", {}).get("code") for error in errors]
    assert not {"INTERNAL", "TIMEOUT", None}.intersection(codes), errors
    # In a batch, the code of each item is in the data.
    assert '"INTERNAL"' not in response.text, response.text[:1000]
    OUTCOMES.update(codes or ["ok"])


atexit.register(lambda: print("schemathesis:", dict(OUTCOMES.most_common())))

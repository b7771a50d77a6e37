// Checks the custom resources among the manifests on standard input (a JSON list) against the schemas of KEDA and of the
// Prometheus operator. Prints the kinds that were checked; fails if one does not fit its schema.
import { createRequire } from "node:module";
import { ServiceMonitor, PrometheusRule } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1";

const { ScaledObject } = createRequire(import.meta.url)("@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject");
const kinds = { ScaledObject, ServiceMonitor, PrometheusRule };

let text = "";
for await (const chunk of process.stdin) text += chunk;
for (const manifest of JSON.parse(text)) {
  const kind = kinds[manifest.kind];
  if (!kind) throw new Error(`no schema for ${manifest.apiVersion} ${manifest.kind}`);
  const { apiVersion, kind: name, ...fields } = manifest;
  const model = new kind(fields);
  if (model.apiVersion !== apiVersion) throw new Error(`${name}: ${apiVersion} is not ${model.apiVersion}`);
  model.validate();
  console.log(`${name} ${manifest.metadata.name}`);
}

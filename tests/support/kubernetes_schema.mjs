// Holds Kubernetes objects against the validators of the npm package kubernetes-models, strictly: a field at which
// no validator looks is unknown.  node kubernetes_schema.mjs PACKAGE_DIRECTORY <JSON-LIST >JSON-LIST-OF-FINDINGS

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function schemaName({ apiVersion, kind }) {
  const [version, group] = apiVersion.split("/").reverse();
  return `IoK8sApi${capital((group ?? "core").split(".")[0])}${capital(version)}${kind}`;
}

// Every object below `value` as one that notes which of its keys it was asked for.
function watched(value, seen) {
  if (value === null || typeof value !== "object") return value;
  const keys = new Set();
  seen.set(value, keys);
  const inner = new Map(Object.entries(value).map(([key, child]) => [key, watched(child, seen)]));
  return new Proxy(value, {
    get(target, key) {
      keys.add(key);
      return inner.has(key) ? inner.get(key) : Reflect.get(target, key);
    },
    ownKeys(target) {
      Object.keys(target).forEach((key) => keys.add(key));
      return Reflect.ownKeys(target);
    },
  });
}

function* unknown(value, seen, path) {
  if (value === null || typeof value !== "object") return;
  for (const [key, child] of Object.entries(value)) {
    if (seen.get(value).has(key)) yield* unknown(child, seen, `${path}/${key}`);
    else yield `${path}/${key}: unknown`;
  }
}

const findings = [];
for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const file = `${process.argv[2]}/_schemas/${schemaName(object)}.js`;
  const { validate } = await import(pathToFileURL(file));
  const seen = new Map();
  const where = `${object.kind} ${object.metadata.name}`;
  if (!validate(watched(object, seen)))
    for (const error of validate.errors)
      findings.push(`${where}: ${error.instancePath}: ${error.keyword} ${JSON.stringify(error.params)}`);
  for (const finding of unknown(object, seen, "")) findings.push(`${where}: ${finding}`);
}
console.log(JSON.stringify(findings));

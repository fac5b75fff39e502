#!/usr/bin/python3
"""containers/kubernetes without a cluster: the manifests against Kubernetes' schema and against rules of our own, each
of which is also seen to find what it is there for."""

import copy
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import manifests
from process import ROOT, skip

MANIFESTS = ("daemonset.yaml", "deerflow-gateway.yaml", "sidecar.yaml")
SCHEMA = os.path.join(ROOT, "tests", "support", "kubernetes_schema.mjs")
# Where `.ci/run` has npm put it.
PACKAGE = os.path.join(ROOT, "build", "npm", "node_modules", "kubernetes-models")


def part(documents, kind, *path):
    """What lies below a document at names and numbers."""
    here = next(one for one in documents if one["kind"] == kind)
    for key in path:
        here = here[key]
    return here


POD = ("spec", "template", "spec")
SIDECAR = ("Deployment", *POD, "initContainers", 0)
WORKER = ("Deployment", *POD, "containers", 0)
NODE = ("DaemonSet", *POD, "containers", 0)
CLAIMED, INDEX, SOCKET = 0, 1, 2
INDEX_DIRECTORY = ("Deployment", *POD, "volumes", INDEX, "emptyDir")

# What somebody may break: file, path, how the value there is changed, a part of the finding.
MISTAKES = (
    ("sidecar.yaml", (*SIDECAR, "volumeMounts", INDEX), {"name": "indx"}, "no volume indx"),
    ("sidecar.yaml", (*SIDECAR, "volumeMounts", INDEX), {"name": "socket"}, "nobody mounts the volume index"),
    ("sidecar.yaml", (*WORKER, "volumeMounts", 0), {"subPath": "memsyncd.sock"}, "subPath"),
    ("sidecar.yaml", (*SIDECAR, "volumeMounts", INDEX), {"name": "memories"}, "index is not on a disk"),
    ("sidecar.yaml", INDEX_DIRECTORY, {"medium": "Memory"}, "index is not on a disk"),
    ("sidecar.yaml", INDEX_DIRECTORY, {"sizeLimit": "6Gi"}, "evicted"),
    ("sidecar.yaml", (*SIDECAR, "volumeMounts", CLAIMED), {"mountPath": "/data"}, "volume is not the claim"),
    ("sidecar.yaml", (*SIDECAR, "volumeMounts", CLAIMED), {"readOnly": True}, "read_only and the mount"),
    ("sidecar.yaml", (*SIDECAR, "volumeMounts", SOCKET), {"mountPath": "/run/other"}, "nobody else has the socket"),
    ("sidecar.yaml", ("Deployment", *POD, "volumes", CLAIMED, "persistentVolumeClaim"), {"claimName": "x"},
     "no PersistentVolumeClaim x"),
    ("sidecar.yaml", ("PersistentVolumeClaim", "spec"), {"accessModes": ["ReadWriteOnce"]}, "one node has"),
    ("sidecar.yaml", ("Deployment", "spec", "selector", "matchLabels"), {"x": "y"}, "the selector"),
    ("deerflow-gateway.yaml", ("Service", "spec", "selector"), {"x": "y"}, "Service deerflow-gateway selects no pod"),
    ("deerflow-gateway.yaml", ("PodDisruptionBudget", "spec", "selector", "matchLabels"), {"x": "y"},
     "PodDisruptionBudget deerflow-gateway selects no pod"),
    ("daemonset.yaml", ("NetworkPolicy", "spec", "podSelector", "matchLabels"), {"x": "y"},
     "NetworkPolicy memsyncd selects no pod"),
    ("daemonset.yaml", ("NetworkPolicy", "spec", "ingress", 0, "ports", 0), {"port": 1}, "lets other ports through"),
    ("sidecar.yaml", ("Deployment", *POD, "securityContext"), {"runAsNonRoot": False}, "memsyncd: runs as root"),
    ("sidecar.yaml", ("Deployment", *POD, "securityContext"), {"runAsUser": 0}, "memsyncd: runs as root"),
    ("sidecar.yaml", ("Deployment", *POD, "securityContext"), {"seccompProfile": None}, "no seccomp profile"),
    ("sidecar.yaml", (*SIDECAR, "securityContext"), {"allowPrivilegeEscalation": True}, "allowPrivilegeEscalation"),
    ("sidecar.yaml", (*SIDECAR, "securityContext"), {"readOnlyRootFilesystem": False}, "root can be written"),
    ("sidecar.yaml", (*SIDECAR, "securityContext", "capabilities"), {"drop": ["NET_RAW"]}, "not dropped"),
    ("sidecar.yaml", (*SIDECAR, "securityContext", "capabilities"), {"add": ["SYS_ADMIN"]}, "are added"),
    ("sidecar.yaml", ("Deployment", *POD), {"automountServiceAccountToken": True}, "token"),
    ("sidecar.yaml", ("Deployment", *POD), {"hostPID": True}, "hostPID"),
    ("sidecar.yaml", ("Deployment", *POD, "volumes", SOCKET), {"emptyDir": None, "hostPath": {"path": "/run/memsync"}},
     "socket: not a volume that is allowed"),
    ("sidecar.yaml", (*SIDECAR, "resources", "limits"), {"memory": None}, "no limits of memory"),
    ("sidecar.yaml", (*WORKER, "resources", "requests"), {"cpu": None}, "worker: no requests of cpu"),
    ("sidecar.yaml", SIDECAR, {"image": "registry.example/memsyncd:0.1.0"}, "names a registry"),
    ("sidecar.yaml", SIDECAR, {"image": "memsyncd:latest"}, "not the image of version"),
    ("sidecar.yaml", (*SIDECAR, "env", 0), {"name": "MEMSYNC_VOLUME_PAHT"}, "the configuration"),
    ("sidecar.yaml", (*SIDECAR, "env", 1), {"value": "yes"}, "the configuration"),
    ("sidecar.yaml", (*SIDECAR, "env", 1), {"value": "false"}, "not the only one"),
    ("daemonset.yaml", ("ConfigMap", "data"), {"memsyncd.yaml": "config_version: 1\nvolume: {path: srv}\n"},
     "the configuration"),
    ("sidecar.yaml", ("Deployment", *POD), {"enableServiceLinks": True}, "a Service called memsync"),
    ("sidecar.yaml", (*SIDECAR, "startupProbe"), {"exec": None}, "startupProbe does not ask at the socket"),
    ("sidecar.yaml", (*SIDECAR, "livenessProbe", "exec"), {"command": ["/bin/memsync", "--timeout", "2000", "ping"]},
     "the image has no /bin/memsync"),
    ("sidecar.yaml", (*SIDECAR, "livenessProbe", "exec"),
     {"command": ["/usr/bin/memsync", "--timeout", "2000", "pong"]}, "is not understood"),
    ("sidecar.yaml", (*SIDECAR, "livenessProbe"), {"timeoutSeconds": 2}, "killed before it can say why"),
    ("sidecar.yaml", (*SIDECAR, "livenessProbe"), {"failureThreshold": 1}, "a busy node"),
    ("sidecar.yaml", SIDECAR, {"readinessProbe": {"exec": {"command": ["x"]}}}, "every worker out of service"),
    ("daemonset.yaml", NODE, {"readinessProbe": None}, "without the volume"),
    ("daemonset.yaml", ("DaemonSet", *POD), {"terminationGracePeriodSeconds": 5}, "killed while it ends"),
    ("sidecar.yaml", ("Deployment", *POD), {"terminationGracePeriodSeconds": 20}, "killed while it ends"),
    ("daemonset.yaml", ("DaemonSet", "spec", "updateStrategy", "rollingUpdate"), {"maxSurge": 1}, "one socket"),
    ("sidecar.yaml", (*WORKER, "volumeMounts", 0), {"readOnly": False}, "could replace it"),
    ("sidecar.yaml", (*WORKER, "volumeMounts", 0), {"mountPath": "/run/memsync/memsyncd.sock"}, "does not see"),
    ("deerflow-gateway.yaml", (*WORKER, "volumeMounts", 2), {"name": "index"}, "another socket"),
    ("daemonset.yaml", ("Deployment", *POD, "volumes", 0, "hostPath"), {"path": "/run/other"}, "another socket"),
    ("daemonset.yaml", ("Deployment", *POD, "volumes", 0, "hostPath"), {"type": "DirectoryOrCreate"}, "may make"),
    ("daemonset.yaml", ("Deployment", *POD, "securityContext"), {"supplementalGroups": []}, "in the socket's group"),
    ("daemonset.yaml", ("DaemonSet", *POD, "initContainers", 0, "securityContext", "capabilities"),
     {"add": ["CHOWN", "FOWNER", "SYS_ADMIN"]}, "are added"),
    ("daemonset.yaml", (*NODE, "ports", 0), {"containerPort": 1}, "at another port"),
    ("daemonset.yaml", ("DaemonSet", "spec", "template", "metadata", "annotations"), {"prometheus.io/port": "1"},
     "at another port"),
    ("deerflow-gateway.yaml", (*SIDECAR, "env", 3), {"value": "9464"}, "nobody outside of the pod"),
    ("deerflow-gateway.yaml", (*SIDECAR, "env", 3), {"value": ""}, "nobody serves what is to be scraped"),
    ("deerflow-gateway.yaml", (*WORKER, "volumeMounts", 1), {"readOnly": True}, "cannot write the agent's volume"),
    ("deerflow-gateway.yaml", (*WORKER, "securityContext"), {"runAsUser": 1000}, "two users write"),
    ("deerflow-gateway.yaml", ("ConfigMap", "data"),
     {"config.yaml": "memory: {backend_config: {storage_path: /elsewhere}}\n"}, "memories are not the agent's"),
)


def changed(name, path, change):
    """A manifest with a mistake; None takes a key away."""
    documents = manifests.load(name)
    place = part(documents, *path)
    for key, value in change.items():
        if value is None:
            place.pop(key)
        else:
            place[key] = copy.deepcopy(value)
    return documents


class Rules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shown = [manifests.findings(changed(*mistake[:3])) for mistake in MISTAKES]

    def test_every_manifest_keeps_them(self):
        self.assertEqual(tuple(sorted(os.path.basename(path) for path in glob.glob(manifests.DIRECTORY + "/*"))),
                         MANIFESTS)
        for name in MANIFESTS:
            with self.subTest(manifest=name):
                self.assertEqual(manifests.findings(manifests.load(name)), [])

    def test_each_finds_its_mistake(self):
        for (name, path, change, finding), found in zip(MISTAKES, self.shown):
            with self.subTest(manifest=name, path=path, change=change):
                self.assertTrue(any(finding in one for one in found), found)

    def test_every_finding_has_a_mistake_that_shows_it(self):
        with open(manifests.__file__, encoding="utf-8") as file:
            told = re.findall(r'^ +yield f?"(.*)"$', file.read(), re.M)
        self.assertGreater(len(told), 30)
        shown = [one for found in self.shown for one in found]
        for text in told:
            words = max(re.split(r"\{[^}]*\}", text), key=len)
            with self.subTest(finding=text):
                self.assertTrue(any(words in one for one in shown))

    def test_one_agent_is_configured_by_the_environment_and_one_by_a_file(self):
        by_name = {name: next(one for one in manifests.workloads(manifests.load(name)) if one.agent)
                   for name in MANIFESTS}
        self.assertFalse([name for name in by_name["daemonset.yaml"].environment(by_name["daemonset.yaml"].agent)
                          if name.startswith("MEMSYNC_")])
        self.assertNotIn("args", by_name["sidecar.yaml"].agent)


class Schema(unittest.TestCase):
    """The types of every field and the names of all fields, as Kubernetes has them."""

    def judge(self, documents):
        if not shutil.which("node"):
            skip("node is not installed: the manifests are not held against Kubernetes' schema")
        if not os.path.isdir(PACKAGE):
            skip("no kubernetes-models in build/npm (.ci/run puts it there): "
                 "the manifests are not held against Kubernetes' schema")
        done = subprocess.run(["node", SCHEMA, PACKAGE], input=json.dumps(documents), text=True, capture_output=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_every_manifest_keeps_to_it(self):
        self.assertEqual(self.judge([one for name in MANIFESTS for one in manifests.load(name)]), [])

    def test_it_finds_mistakes(self):
        for path, change, finding in (
                ((*SIDECAR,), {"restartpolicy": "Always"}, "initContainers/0/restartpolicy: unknown"),
                ((*SIDECAR, "securityContext"), {"readOnlyRootFileSystem": True}, "readOnlyRootFileSystem: unknown"),
                ((*SIDECAR, "startupProbe"), {"periodSeconds": "1"}, "startupProbe/periodSeconds: type"),
                ((*SIDECAR, "startupProbe", "exec"), {"command": "memsync ping"}, "exec/command: type"),
                ((*SIDECAR, "env", 1), {"value": True}, "env/1/value: type"),
                ((*SIDECAR,), {"name": None}, "initContainers/0: required"),
                (("Deployment", "spec"), {"selector": None}, "/spec: required")):
            with self.subTest(change=change):
                found = self.judge(changed("sidecar.yaml", path, change))
                self.assertTrue(any(finding in one for one in found), found)


if __name__ == "__main__":
    unittest.main()

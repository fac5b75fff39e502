"""The manifests in containers/kubernetes, and rules for them that no schema knows.

Every rule is a function of a workload that yields what is wrong with it; findings() asks them all.
"""

import functools
import os
import re
import shutil
import subprocess
import tempfile

import yaml

from process import MEMSYNC, MEMSYNCD, ROOT

DIRECTORY = os.path.join(ROOT, "containers", "kubernetes")
DEFAULT_ENDPOINT = "ipc:///run/memsync/memsyncd.sock"
# The unit gives it as long (TimeoutStopSec=): ten seconds of its own, and some for a busy node.
AGENT_GRACE_S = 15
RESTRICTED_VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "secret"}


def load(name):
    with open(os.path.join(DIRECTORY, name), encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


def bytes_of(quantity):
    """A Kubernetes quantity of bytes: 1Gi, 512Mi."""
    number, suffix = re.fullmatch(r"(\d+)([KMG]i)", quantity).groups()
    return int(number) << {"Ki": 10, "Mi": 20, "Gi": 30}[suffix]


def image_environment():
    """What the image sets: the ENV lines of the Containerfile's last stage."""
    with open(os.path.join(ROOT, "containers", "Containerfile"), encoding="utf-8") as file:
        last = file.read().split("\nFROM ")[-1]
    return dict(pair.split("=", 1) for line in re.findall(r"^ENV (.*)$", last, re.M)
                for pair in line.split())


class Workload:
    """A pod that a manifest makes, and the manifest around it."""

    def __init__(self, documents, document):
        self.documents = documents
        self.document = document
        self.kind = document["kind"]
        self.name = document["metadata"]["name"]
        self.template = document["spec"]["template"]
        self.pod = self.template["spec"]
        self.volumes = {volume["name"]: volume for volume in self.pod.get("volumes", [])}
        self.containers = self.pod.get("initContainers", []) + self.pod["containers"]

    @property
    def agent(self):
        """The container whose program is the agent; None in a pod of workers only."""
        found = [one for one in self.containers
                 if one["image"].startswith("memsyncd:") and "command" not in one]
        return found[0] if found else None

    def security(self, container, key):
        """What holds for a container: its own word, or the pod's."""
        own = container.get("securityContext", {})
        return own.get(key, self.pod.get("securityContext", {}).get(key))

    def mount_of(self, container, path):
        """The mount of a container below which a path lies; None: its own file system."""
        above = [mount for mount in container.get("volumeMounts", [])
                 if (path + "/").startswith(mount["mountPath"].rstrip("/") + "/")]
        return max(above, key=lambda mount: len(mount["mountPath"]), default=None)

    def volume_of(self, container, path):
        mount = self.mount_of(container, path)
        return self.volumes.get(mount["name"], {}) if mount else {}

    def find(self, kind, name):
        return next((one for one in self.documents
                     if one["kind"] == kind and one["metadata"]["name"] == name), None)

    def environment(self, container):
        return {**image_environment(), **{pair["name"]: pair["value"] for pair in container.get("env", [])}}

    def run_agent(self, option):
        """Runs memsyncd with an option as the container would: environment, arguments, mounted files."""
        directory = tempfile.mkdtemp(prefix="mst-")
        try:
            arguments = list(self.agent.get("args", []))
            for mount in self.agent["volumeMounts"]:
                source = self.volumes.get(mount["name"], {}).get("configMap")
                if not source:
                    continue
                for file_name, text in self.find("ConfigMap", source["name"])["data"].items():
                    with open(os.path.join(directory, file_name), "w", encoding="utf-8") as file:
                        file.write(text)
                arguments = [argument.replace(mount["mountPath"], directory) for argument in arguments]
            return subprocess.run([MEMSYNCD, *arguments, option], env=self.environment(self.agent), text=True,
                                  capture_output=True, timeout=30, check=False)
        finally:
            shutil.rmtree(directory)

    @functools.cached_property
    def configuration(self):
        """What the agent makes of all this, by the keys' names; empty without an agent, or when it would not start."""
        printed = self.run_agent("--print-config").stdout if self.agent else ""
        return dict(line.split(" = ", 1) for line in printed.splitlines())


def workloads(documents):
    return [Workload(documents, one) for one in documents if one["kind"] in ("DaemonSet", "Deployment")]


# ---- the rules ----

def check_mounts(work):
    mounted = set()
    for container in work.containers:
        for mount in container.get("volumeMounts", []):
            mounted.add(mount["name"])
            if mount["name"] not in work.volumes:
                yield f"{container['name']}: there is no volume {mount['name']}"
            if "subPath" in mount:
                yield f"{container['name']}: a subPath does not follow what is replaced"
    for name in sorted(set(work.volumes) - mounted):
        yield f"nobody mounts the volume {name}"


def check_references(work):
    for volume in work.volumes.values():
        for kind, source, key in (("PersistentVolumeClaim", "persistentVolumeClaim", "claimName"),
                                  ("ConfigMap", "configMap", "name")):
            if source in volume and not work.find(kind, volume[source][key]):
                yield f"there is no {kind} {volume[source][key]}"
    labels = work.template["metadata"]["labels"]
    if work.document["spec"]["selector"]["matchLabels"] != labels:
        yield "the selector is not the template's labels"
    for other in work.documents:
        wanted = {"Service": ("selector",), "PodDisruptionBudget": ("selector", "matchLabels"),
                  "NetworkPolicy": ("podSelector", "matchLabels")}.get(other["kind"])
        if wanted and not any(functools.reduce(dict.get, wanted, other["spec"]) == one.template["metadata"]["labels"]
                              for one in workloads(work.documents)):
            yield f"{other['kind']} {other['metadata']['name']} selects no pod"


def check_security(work):
    for container in work.containers:
        name, own = container["name"], container.get("securityContext", {})
        is_preparing = name == "socket-directory"
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: allowPrivilegeEscalation"
        if own.get("capabilities", {}).get("drop") != ["ALL"]:
            yield f"{name}: capabilities are not dropped"
        if own.get("capabilities", {}).get("add", []) != (["CHOWN", "FOWNER"] if is_preparing else []):
            yield f"{name}: capabilities are added"
        if not is_preparing and (work.security(container, "runAsNonRoot") is not True
                                 or not work.security(container, "runAsUser")):
            yield f"{name}: runs as root"
        if work.security(container, "seccompProfile") != {"type": "RuntimeDefault"}:
            yield f"{name}: no seccomp profile"
        if container["image"].split(":")[0] == "memsyncd" and own.get("readOnlyRootFilesystem") is not True:
            yield f"{name}: its root can be written"
    if work.pod.get("automountServiceAccountToken") is not False:
        yield "it has a token for the cluster"


def check_resources(work):
    for container in work.containers:
        for kind in ("requests", "limits"):
            for resource in ("cpu", "memory"):
                if resource not in container.get("resources", {}).get(kind, {}):
                    yield f"{container['name']}: no {kind} of {resource}"


def check_images(work):
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
        version = re.search(r"^VERSION := (\S+)", file.read(), re.M)[1]
    for container in work.containers:
        if "/" in container["image"]:
            yield f"{container['name']}: the image names a registry"
        if container["image"].startswith("memsyncd:") and container["image"] != f"memsyncd:{version}":
            yield f"{container['name']}: not the image of version {version}"


def check_agent(work):
    """Configuration, and where its directories are."""
    agent = work.agent
    if not agent:
        return
    done = work.run_agent("--check-config")
    if done.returncode != 0 or "warning" in done.stderr:
        yield f"the configuration: {done.stdout}{done.stderr}"
        return
    if work.pod.get("enableServiceLinks") is not False:
        yield "a Service called memsync would set variables of the agent"
    config = work.configuration
    index = work.volume_of(agent, config["index.path"])
    if "emptyDir" not in index or index["emptyDir"].get("medium"):
        yield "the index is not on a disk of the node"
    elif bytes_of(index["emptyDir"]["sizeLimit"]) >= \
            bytes_of(agent["resources"]["limits"].get("ephemeral-storage", "0Gi")):
        yield "the pod is evicted before the index is as big as it may be"
    if "persistentVolumeClaim" not in work.volume_of(agent, config["volume.path"]):
        yield "the volume is not the claim"
    elif work.mount_of(agent, config["volume.path"]).get("readOnly", False) != (config["volume.read_only"] == "true"):
        yield "volume.read_only and the mount do not agree"
    socket = config["ipc.endpoint"].removeprefix("ipc://")
    if not {"emptyDir", "hostPath"} & set(work.volume_of(agent, os.path.dirname(socket))):
        yield "nobody else has the socket's directory"
    claimed = work.volume_of(agent, config["volume.path"]).get("persistentVolumeClaim", {}).get("claimName")
    claim = work.find("PersistentVolumeClaim", claimed)
    if claim and claim["spec"]["accessModes"] != ["ReadWriteMany"]:
        yield "one node has the claim for itself"
    if config["volume.multi_instance"] != "true":
        yield "the agent is not told that it is not the only one"


def check_metrics(work):
    annotations = work.template["metadata"].get("annotations", {})
    listen = work.configuration.get("metrics.listen", "").strip('"')
    ports = {port["name"]: port["containerPort"]
             for container in work.containers for port in container.get("ports", [])}
    if not listen:
        if annotations:
            yield "nobody serves what is to be scraped"
        return
    address, _, port = listen.rpartition(":")
    if address in ("", "127.0.0.1", "[::1]"):
        yield "nobody outside of the pod reaches the metrics"
    if str(ports.get("metrics")) != port or annotations.get("prometheus.io/port") != port:
        yield "the metrics are at another port"
    for policy in work.documents:
        if policy["kind"] == "NetworkPolicy" and \
                [[one["port"] for one in rule["ports"]] for rule in policy["spec"]["ingress"]] != [[int(port)]]:
            yield "the policy lets other ports through than that of the metrics"


def is_sidecar(work):
    return bool(work.agent) and work.agent.get("restartPolicy") == "Always"


def check_probes(work):
    agent = work.agent
    if not agent:
        return
    with open(os.path.join(ROOT, "containers", "Containerfile"), encoding="utf-8") as file:
        image = file.read()
    for kind in ("startupProbe", "livenessProbe"):
        command = agent.get(kind, {}).get("exec", {}).get("command")
        if not command:
            yield f"{kind} does not ask at the socket"
            continue
        if f" {command[0]}\n" not in image:
            yield f"{kind}: the image has no {command[0]}"
        # Elsewhere than at an agent: what is asked for must be understood, and end with "no agent".
        done = subprocess.run([MEMSYNC, "-e", "ipc:///nonexistent/socket", *command[1:]], capture_output=True,
                              timeout=30, check=False)
        if command[-1] != "ping" or done.returncode != 3:
            yield f"{kind}: {command} is not understood"
        if int(command[command.index("--timeout") + 1]) >= 1000 * agent[kind]["timeoutSeconds"]:
            yield f"{kind}: killed before it can say why"
    liveness = agent.get("livenessProbe", {})
    if liveness.get("periodSeconds", 0) * liveness.get("failureThreshold", 0) < 30:
        yield "a busy node is taken for an agent that hangs"
    ready = agent.get("readinessProbe")
    if is_sidecar(work) and ready:
        yield "a volume that is away takes every worker out of service"
    if not is_sidecar(work) and (not ready or ready["httpGet"] != {"path": "/readyz", "port": "metrics"}):
        yield "an update goes on without the volume"


def check_life(work):
    if not work.agent:
        return
    if work.pod.get("terminationGracePeriodSeconds", 0) < AGENT_GRACE_S * (2 if is_sidecar(work) else 1):
        yield "the agent is killed while it ends"
    if not is_sidecar(work) and work.document["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] != 0:
        yield "two agents want one socket"


def check_workers(work):
    """Those that the agent serves see its socket, and cannot replace it."""
    agents = [one for one in workloads(work.documents) if one.agent]
    host = next((one for one in agents if not is_sidecar(one)), None)
    directory = os.path.dirname(DEFAULT_ENDPOINT.removeprefix("ipc://"))
    for container in work.pod["containers"]:
        if container is work.agent:
            continue
        mount, volume = work.mount_of(container, directory), work.volume_of(container, directory)
        if not mount or mount["mountPath"] != directory or not mount.get("readOnly"):
            yield f"{container['name']}: does not see the socket, or could replace it"
        elif work.agent and volume != work.volume_of(work.agent, directory):
            yield f"{container['name']}: another socket than the agent's"
        elif host and not work.agent:
            if volume["hostPath"]["path"] != host.volume_of(host.agent, directory)["hostPath"]["path"]:
                yield f"{container['name']}: another socket than the agent's"
            if volume["hostPath"]["type"] != "Directory":
                yield f"{container['name']}: may make the directory before the agent does"
            groups = work.pod["securityContext"].get("supplementalGroups", [])
            if host.security(host.agent, "runAsGroup") not in groups:
                yield f"{container['name']}: is not in the socket's group"


def check_restricted(work):
    """What the Pod Security Standard "restricted" asks for beyond the other rules; agents of nodes need a hostPath."""
    if not is_sidecar(work):
        return
    for name, volume in work.volumes.items():
        if not set(volume) - {"name"} <= RESTRICTED_VOLUMES:
            yield f"{name}: not a volume that is allowed"
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if work.pod.get(key):
            yield f"{key} is not allowed"


def check_deerflow(work):
    """Whose memories the Gateway and the agent take for the same."""
    gateway = next((one for one in work.containers if one["name"] == "gateway"), None)
    if not gateway or not work.configuration:
        return
    text = work.find("ConfigMap", "deerflow-gateway")["data"]["config.yaml"]
    memory = yaml.safe_load(text)["memory"]["backend_config"]
    path = work.configuration["volume.path"]
    if memory["storage_path"] != path:
        yield "the Gateway's memories are not the agent's"
    if work.volume_of(gateway, path) != work.volume_of(work.agent, path) or \
            work.mount_of(gateway, path).get("readOnly"):
        yield "the Gateway cannot write the agent's volume"
    if work.security(gateway, "runAsUser") != work.security(work.agent, "runAsUser"):
        yield "two users write the volume"


RULES = (check_mounts, check_references, check_security, check_resources, check_images, check_agent, check_metrics,
         check_probes, check_life, check_workers, check_restricted, check_deerflow)


def findings(documents):
    return [f"{work.kind} {work.name}: {finding}"
            for work in workloads(documents) for rule in RULES for finding in rule(work)]

"""Prints what is wrong with manifests, a line each. Runs in the environment of scripts/requirements-check.txt.

usage: validate_manifests.py FILE...

Kubernetes' own kinds are compared with the schemas of its oldest and newest release that kubernetes-validate has. It
has none of KubeRay: the fields that are used are below, and the pods in them are Kubernetes' own. If ZF_KUBERAY_CRD
names KubeRay's ray.io_rayclusters.yaml, that schema counts, too.
"""

import os
import pathlib
import sys

import jsonschema
import yaml
from kubernetes_validate import ValidationError, validate
from kubernetes_validate.utils import all_versions


def fields(required: str = "", **properties) -> dict:
    return {"type": "object", "required": required.split(), "additionalProperties": False, "properties": properties}


# Seen in KubeRay 1.7.0.
COUNT = {"type": "integer", "minimum": 0}
GROUP = {"rayStartParams": {"type": "object", "additionalProperties": {"type": "string"}},
         "template": fields("spec", metadata={"type": "object"}, spec={"type": "object"})}
WORKERS = fields("groupName minReplicas maxReplicas template", groupName={"type": "string"}, replicas=COUNT,
                 minReplicas=COUNT, maxReplicas=COUNT, **GROUP)
RAY_CLUSTER = fields("apiVersion kind metadata spec", apiVersion={"const": "ray.io/v1"}, kind={"const": "RayCluster"},
                     metadata={"type": "object"},
                     spec=fields("headGroupSpec", headGroupSpec=fields("template", **GROUP),
                                 workerGroupSpecs={"type": "array", "items": WORKERS}))


def kubernetes_errors(manifest: dict):
    for version in (all_versions()[0], all_versions()[-1]):
        try:
            validate(manifest, version, strict=True)
        except ValidationError as error:
            yield f"Kubernetes {version}: {'.'.join(map(str, error.path))}: {error.message}"


def ray_errors(manifest: dict):
    schemas = [RAY_CLUSTER]
    if path := os.environ.get("ZF_KUBERAY_CRD"):
        versions = yaml.safe_load(pathlib.Path(path).read_text())["spec"]["versions"]
        schemas += [one["schema"]["openAPIV3Schema"] for one in versions if one["name"] == "v1"]
    for schema in schemas:
        for error in jsonschema.Draft202012Validator(schema).iter_errors(manifest):
            yield f"KubeRay: {'.'.join(map(str, error.path))}: {error.message}"
    for group in (manifest["spec"]["headGroupSpec"], *manifest["spec"]["workerGroupSpecs"]):
        yield from kubernetes_errors({"apiVersion": "v1", "kind": "Pod"} | group["template"])


def main() -> None:
    for path in sys.argv[1:]:
        for manifest in yaml.safe_load_all(pathlib.Path(path).read_text()):
            find = ray_errors if manifest["apiVersion"].startswith("ray.io/") else kubernetes_errors
            for error in find(manifest):
                print(f"{path}: {error}")


if __name__ == "__main__":
    main()

"""Clients of object stores: which library serves a scheme, its settings for Paimon's options, one client a process."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from bucketlake.errors import InvalidError, StorageError
from bucketlake.file_names import local_path
from bucketlake.lazy import obstore_errors, obstore_store

_S3 = ("s3", "s3a", "s3n")
_GCS = ("gs", "gcs")
_AZURE = ("az", "azure", "adl", "abfs", "abfss", "wasb", "wasbs")

MOST_CLIENTS = 256
_KEYS = {
    "s3": "s3.access-key and s3.secret-key",
    "gcs": "gs.service-account-key",
    "azure": "azure.account-name and azure.account-key",
}
_ENVIRONMENT = ("AWS_", "GOOGLE_", "AZURE_")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_clients: dict[Any, Any] = {}
_owner: dict[str, int] = {}  # the process whose clients these are: their threads do not live on in a fork of it
_lock = threading.RLock()


def kind_of(scheme: str) -> str | None:
    """Which store's client serves a scheme; None: none."""
    for kind, schemes in (("s3", _S3), ("gcs", _GCS), ("azure", _AZURE), ("memory", ("memory",))):
        if scheme in schemes:
            return kind
    return None


def spelled_as(root: str, path: str) -> str:
    """A path by the scheme of `root` where that is another one of the same kind of store (`s3a`, `s3`), whose buckets
    have one name under each; without `file:`."""
    path, own = local_path(path), root.partition("://")[0]
    scheme, separator, rest = path.partition("://")
    alike = separator and scheme != own and kind_of(scheme) in ("s3", "gcs") and kind_of(scheme) == kind_of(own)
    return f"{own}://{rest}" if alike else path


def keys_wanted(url: str) -> str:
    """What to do where a store's client has no key."""
    kind = kind_of(url.partition("://")[0])
    return f"set {_KEYS.get(kind or '', 'the options of the store')}, or the store's own environment"


def client(url: str, options: tuple[tuple[str, str], ...]) -> Any:
    """The client of a bucket, made when first asked for, and anew where the environment says other things than then.
    StorageError in a fork of the process that made clients."""
    if _owner.setdefault("pid", os.getpid()) != os.getpid():
        raise StorageError(
            "object stores cannot be used in a process forked from one that used them",
            url=url,
            remedy="start processes by multiprocessing's 'spawn' or 'forkserver'",
        )
    in_memory = url.startswith("memory:")  # the client is the store
    said = [] if in_memory else sorted(name for name in os.environ if name.startswith(_ENVIRONMENT))
    key = (url, options, *((name, os.environ.get(name)) for name in said))
    with _lock:
        found = _clients.get(key)
        if found is None:
            for old in [one for one in _clients if not one[0].startswith("memory:")][: 1 - MOST_CLIENTS]:
                del _clients[old]  # of tokens that have expired, mostly: one is made anew where it is used again
            found = _clients[key] = _new_client(url, dict(options))
        return found


def _new_client(url: str, options: Mapping[str, str]) -> Any:
    scheme, _, rest = url.partition("://")
    try:
        if scheme == "memory":
            return obstore_store.MemoryStore()
        if scheme == "file":
            return obstore_store.LocalStore(rest, mkdir=True)
        if scheme in _S3:
            config, plain = _s3_config(rest, options)
            return obstore_store.S3Store(rest, config=config, client_options={"allow_http": plain})
        if scheme in _GCS:
            return obstore_store.GCSStore(rest, config=_gcs_config(options))
        config = _azure_config(rest, options)
        return obstore_store.AzureStore(config=config, client_options={"allow_http": "endpoint" in config})
    except (obstore_errors.BaseError, ValueError) as error:
        reason = str(error).split("\n")[0]
        remedy = keys_wanted(url) if "must be specified" in reason else None
        raise InvalidError(
            "cannot use this storage with these options", url=url, reason=reason, remedy=remedy
        ) from error


_S3_PREFIXES = ("fs.s3a.", "fs.s3.", "s3a.", "s3.")
_S3_KEYS = {
    "access_key": "access_key_id",
    "accesskeyid": "access_key_id",
    "secret_key": "secret_access_key",
    "accesskeysecret": "secret_access_key",
    "securitytoken": "session_token",
    "endpoint_region": "region",
}
_S3_PASSED = (
    "access_key_id",
    "secret_access_key",
    "session_token",
    "region",
    "skip_signature",
    "role_arn",
    "web_identity_token_file",
    "server_side_encryption",
    "sse_kms_key_id",
    "request_payer",
    "checksum_algorithm",
    "unsigned_payload",
)
_S3_ASKED = ("endpoint", "path_style_access", "connection_ssl_enabled", "multiobjectdelete_enable")
_GCS_KEYS = {
    "auth_service_account_json_keyfile": "service_account",
    "service_account": "service_account",
    "service_account_key": "service_account_key",
    "storage_root_url": "base_url",
    "base_url": "base_url",
    "skip_signature": "skip_signature",
}
_AZURE_PASSED = (
    "account_name",
    "account_key",
    "sas_key",
    "client_id",
    "client_secret",
    "tenant_id",
    "endpoint",
    "use_emulator",
    "skip_signature",
)
_NEAR = 0.85  # below, an option may well be one that only other engines know


def _s3_config(bucket: str, options: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """obstore's settings for Paimon's S3 options, and whether plain HTTP is spoken."""
    known = (*_S3_KEYS, *_S3_PASSED, *_S3_ASKED)
    given = {_S3_KEYS.get(key, key): value for key, value in _named(options, _S3_PREFIXES, known).items()}
    config = {key: given[key] for key in _S3_PASSED if key in given}
    if given.get("multiobjectdelete_enable", "true").lower() == "false":
        config["disable_bulk_delete"] = "true"
    endpoint = given.get("endpoint")
    if endpoint is None:
        own = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "")
        return config, own.startswith("http://") or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"
    if "://" not in endpoint:
        secure = given.get("connection_ssl_enabled", "true").lower() != "false"
        endpoint = f"{'https' if secure else 'http'}://{endpoint}"
    if given.get("path_style_access", "true").lower() == "false":
        config["virtual_hosted_style_request"] = "true"
        endpoint = endpoint.replace("://", f"://{bucket}.", 1)
    config["endpoint"] = endpoint.rstrip("/")
    config.setdefault("region", os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1")
    return config, endpoint.startswith("http://")


def _gcs_config(options: Mapping[str, str]) -> dict[str, str]:
    given = _named(options, ("fs.gs.", "gs."), _GCS_KEYS)
    return {name: given[key] for key, name in _GCS_KEYS.items() if key in given}


def _azure_config(rest: str, options: Mapping[str, str]) -> dict[str, str]:
    container, _, host = rest.partition("@")
    config = {"container_name": container}
    if host:
        config["account_name"] = host.split(".", 1)[0]
    for key, value in options.items():
        if key.startswith("fs.azure.account.key."):
            config["account_key"] = value
            config.setdefault("account_name", key.removeprefix("fs.azure.account.key.").split(".", 1)[0])
        elif key.startswith("fs.azure.sas.fixed.token."):
            config["sas_key"] = value
    given = _named(options, ("azure.",), _AZURE_PASSED)
    return {**config, **{name: given[name] for name in _AZURE_PASSED if name in given}}


def _named(options: Mapping[str, str], prefixes: tuple[str, ...], known: Iterable[str]) -> dict[str, str]:
    """Options below a prefix, with underscores between words; earlier prefixes win. A warning for one that is none of
    the known, and nearly one."""
    found: dict[str, str] = {}
    names = list(known)
    for prefix in prefixes:
        for key, value in options.items():
            if key.startswith(prefix):
                name = key[len(prefix) :].lower().replace("-", "_").replace(".", "_")
                found.setdefault(name, value)
                near = [] if name in names else get_close_matches(name, names, 1, _NEAR)
                if near:
                    meant = prefix + near[0].replace("_", "-")
                    warnings.warn(
                        f"option '{key}' is not known and has no effect; did you mean '{meant}'?", stacklevel=2
                    )
    return found

"""Folders outside of a table's own that its new data files go to, as `data-file.external-paths` and its strategy say.

Spec: docs/spec/paths.md#external-paths
"""

from __future__ import annotations

from itertools import accumulate

from bucketlake.errors import InvalidError
from bucketlake.options.options import TableOptions
from bucketlake.values import dataclass

FOLDERS = "data-file.external-paths"
STRATEGY = "data-file.external-paths.strategy"
SPECIFIC = "data-file.external-paths.specific-fs"
WEIGHTS = "data-file.external-paths.weights"
_INT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ExternalFolders:
    """`folders`: URIs as manifests name them, in their order. `weights`: how often each is taken, none where they take
    turns. `hashed`: below its bucket a file lies in folders that the hash of its name gives."""

    folders: tuple[str, ...]
    weights: tuple[int, ...] = ()
    hashed: bool = False

    def first(self, chance: float) -> int:
        """The place of the folder that a writer begins with; `chance` in [0, 1)."""
        return self.weighted(chance) if self.weights else int(chance * len(self.folders))

    def weighted(self, chance: float) -> int:
        """The place of the folder that a chance in [0, 1) falls on, by weight."""
        found = chance * sum(self.weights)
        return next(at for at, end in enumerate(accumulate(self.weights)) if found < end)


def external_folders(options: TableOptions) -> ExternalFolders | None:
    """What the options say, None where new files stay in the table's folder. InvalidError for what cannot be meant."""
    strategy, text = str(options.get(STRATEGY)), str(options.get(FOLDERS) or "")
    if strategy == "none" or not text:
        return None
    folders = [_uri(part.strip()) for part in text.split(",")]
    if strategy == "specific-fs":
        wanted = options.get(SPECIFIC)
        if wanted is None:
            raise InvalidError(
                "External path specificFS should not be null when strategy is specificFS.",
                option=SPECIFIC,
                remedy="name the scheme of one of the folders",
            )
        folders = [folder for folder in folders if folder.partition(":")[0].lower() == str(wanted).lower()]
    if not folders:
        raise InvalidError("External paths should not be empty", option=FOLDERS, folders=text)
    weights = _weights(str(options.get(WEIGHTS) or "")) if strategy == "weight-robin" and len(folders) > 1 else ()
    if weights and len(weights) != len(folders):
        raise InvalidError(
            "The number of external paths and weights should be the same. "
            f"Paths: {len(folders)}, Weights: {len(weights)}",
            option=WEIGHTS,
        )
    return ExternalFolders(tuple(folders), weights, strategy == "entropy-inject")


def _uri(text: str) -> str:
    """A folder as Paimon writes it into manifests: `file:/a/b`, `s3://bucket/a`."""
    scheme, colon, rest = text.partition(":")
    if not colon or not scheme or not rest.startswith("/"):
        raise InvalidError(
            f"scheme should not be null: {text}", option=FOLDERS, remedy="write whole URIs: file:///folder"
        )
    if scheme == "file":
        rest = rest[2:] if rest.startswith("///") else rest
    return f"{scheme}:{rest.rstrip('/')}"


def _weights(text: str) -> tuple[int, ...]:
    found = []
    for part in text.split(",") if text else ():
        number = part.strip()
        if not (number.isascii() and number.lstrip("+-").isdigit()) or not 0 < int(number) <= _INT:
            raise InvalidError(f"Weight must be positive, got: {number}", option=WEIGHTS)
        found.append(int(number))
    return tuple(found)

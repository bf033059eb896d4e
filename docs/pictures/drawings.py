"""The drawings of the concept pages: `python docs/pictures/drawings.py` writes them as SVG beside itself.

Every drawing is a list of shapes on a grid of pixels. Colours follow the reader's light or dark scheme.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

HERE = Path(__file__).parent
STYLE = """
  .b { fill: #f4f6fa; stroke: #8a94a6; stroke-width: 1.2 } .a { fill: #dcebff; stroke: #2f6fde; stroke-width: 1.4 }
  .n { fill: #e4f5e6; stroke: #2f9e44; stroke-width: 1.4 } .w { fill: #fff1dd; stroke: #d9822b; stroke-width: 1.4 }
  .g { fill: none; stroke: #b4bccb; stroke-width: 1.2; stroke-dasharray: 5 4 }
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2733 } .s { font-size: 11px; fill: #5b6678 }
  .m { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12px } .h { font-weight: 600 }
  .l { fill: none; stroke: #5b6678; stroke-width: 1.4 } .t { fill: #5b6678 } .d { stroke-dasharray: 5 4 }
  @media (prefers-color-scheme: dark) {
    .b { fill: #262c36; stroke: #6b7689 } .a { fill: #17345f; stroke: #6ea8ff } .n { fill: #173a20; stroke: #59c36f }
    .w { fill: #4a3213; stroke: #f0a452 } .g { stroke: #55607a } text { fill: #e6eaf1 } .s { fill: #a5b0c2 }
    .l { stroke: #a5b0c2 } .t { fill: #a5b0c2 }
  }
"""


class Drawing:
    """One picture: shapes are added, then it is written under its name with a title for who cannot see it."""

    def __init__(self, name: str, title: str, width: int, height: int) -> None:
        self.name, self.title, self.width, self.height = name, title, width, height
        self.shapes: list[str] = []

    def box(self, x: int, y: int, w: int, h: int, *lines: str, kind: str = "b", style: str = "") -> None:
        """A box with centred lines of text; the lines after the first are small."""
        self.shapes.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}" rx="5"/>')
        top = y + h / 2 + 4.5 - 8 * (len(lines) - 1)
        for place, line in enumerate(lines):
            self.text(x + w // 2, top + 16 * place, line, style if place == 0 else "s", "middle")

    def frame(self, x: int, y: int, w: int, h: int, label: str) -> None:
        """A dashed frame with its label at the top left."""
        self.shapes.append(f'<rect class="g" x="{x}" y="{y}" width="{w}" height="{h}" rx="7"/>')
        self.text(x + 10, y + 18, label, "s")

    def text(self, x: float, y: float, line: str, style: str = "", anchor: str = "start") -> None:
        """A line of text."""
        self.shapes.append(f'<text class="{style}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(line)}</text>')

    def arrow(self, *points: tuple[int, int], dashed: bool = False) -> None:
        """A line through the points with a head at its end."""
        path = "M" + " L".join(f"{x} {y}" for x, y in points)
        self.shapes.append(f'<path class="l{" d" if dashed else ""}" d="{path}" marker-end="url(#head)"/>')

    def write(self) -> None:
        """The file."""
        (HERE / f"{self.name}.svg").write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'width="{self.width}" height="{self.height}">\n<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n'
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path class="t" d="M0 0 L8 4 L0 8 z"/></marker></defs>\n' + "\n".join(self.shapes) + "\n</svg>\n"
        )


def table() -> Drawing:
    """What a table is on disk."""
    d = Drawing("table", "A snapshot names manifest lists, they name manifests, and these the data files", 760, 250)
    d.box(10, 20, 120, 44, "snapshot-7", kind="b", style="m")
    d.box(10, 100, 120, 44, "snapshot-8", "the newest", kind="a", style="m")
    d.box(180, 60, 140, 40, "manifest-list", "base", style="m")
    d.box(180, 140, 140, 40, "manifest-list", "what 8 changed", style="m")
    d.box(370, 40, 120, 36, "manifest", style="m")
    d.box(370, 92, 120, 36, "manifest", style="m")
    d.box(370, 146, 120, 36, "manifest", style="m")
    d.frame(545, 10, 205, 202, "day=2025-01-01/bucket-0")
    for place, name in enumerate(("data-a-0.parquet", "data-a-1.parquet", "data-b-0.parquet")):
        d.box(560, 40 + 62 * place, 175, 36, name, kind="n" if place == 2 else "b", style="m")
    d.arrow((130, 116), (178, 84))
    d.arrow((130, 128), (178, 156))
    for y in (58, 108):
        d.arrow((320, 80), (368, y))
    d.arrow((320, 162), (368, 164))
    d.arrow((490, 58), (558, 58))
    d.arrow((490, 110), (558, 118))
    d.arrow((490, 166), (558, 180))
    d.text(
        10,
        240,
        "Nothing that is written is ever changed: a commit adds files, and one new snapshot that names them.",
        "s",
    )
    return d


def buckets() -> Drawing:
    """How a row finds its file."""
    d = Drawing("buckets", "A row goes to its partition, then by its key's hash to a bucket", 760, 230)
    d.box(10, 90, 190, 48, "id=17, day=2025-01-02", "a row", kind="a", style="m")
    d.box(250, 60, 150, 40, "partition", "day = 2025-01-02")
    d.box(250, 130, 150, 40, "bucket", "hash(id) modulo 2")
    d.frame(450, 10, 300, 95, "day=2025-01-01")
    d.frame(450, 120, 300, 95, "day=2025-01-02")
    for top in (42, 152):
        d.box(465, top, 130, 46, "bucket-0", style="m")
        d.box(605, top, 130, 46, "bucket-1", kind="n" if top == 152 else "b", style="m")
    d.arrow((200, 106), (248, 82))
    d.arrow((200, 122), (248, 148))
    d.arrow((400, 82), (424, 82), (424, 140), (448, 140))
    d.arrow((400, 158), (436, 158), (436, 208), (670, 208), (670, 200))
    return d


def lsm() -> Drawing:
    """One bucket of a primary-key table."""
    d = Drawing(
        "lsm", "A bucket's levels: new files on top, sorted runs below, compaction merges them downwards", 760, 300
    )
    d.text(90, 24, "smallest key", "s")
    d.text(560, 24, "largest key", "s", "end")
    d.text(10, 58, "level 0", "h")
    d.box(90, 38, 300, 24, "newest write", kind="w")
    d.box(180, 68, 380, 24, "the write before", kind="w")
    d.box(90, 98, 250, 24, "older", kind="w")
    d.text(10, 160, "level 4", "h")
    d.box(90, 144, 150, 26, "a … h", kind="b")
    d.box(250, 144, 170, 26, "i … q", kind="b")
    d.text(10, 214, "level 5", "h")
    for x, w, name in ((90, 110, "a … e"), (206, 120, "f … k"), (332, 110, "l … s"), (448, 112, "t … z")):
        d.box(x, 198, w, 26, name, kind="n")
    d.arrow((590, 50), (590, 208))
    d.text(606, 84, "compaction merges", "s")
    d.text(606, 102, "files whose keys meet", "s")
    d.text(606, 120, "and writes them a", "s")
    d.text(606, 138, "level further down", "s")
    d.text(10, 262, "A read merges what overlaps: of several versions of a key the merge engine makes one row.", "s")
    d.text(
        10,
        282,
        "Where only level 5 covers a range of keys, Spark's own parquet reader takes the files as they are.",
        "s",
    )
    return d


def postpone() -> Drawing:
    """Postponed buckets."""
    d = Drawing("postpone", "Postponed buckets: writers only append, compaction gives rows their buckets", 760, 210)
    for y, name in ((20, "writer 1"), (80, "writer 2"), (140, "writer 3")):
        d.box(10, y, 110, 40, name, kind="a")
    d.frame(180, 30, 210, 140, "bucket-postpone")
    for y in (58, 94, 130):
        d.box(200, y, 170, 26, "rows as they came", kind="w")
    for y, target in ((40, 70), (100, 106), (160, 142)):
        d.arrow((120, y), (198, target))
    d.arrow((390, 100), (500, 100))
    d.text(400, 90, "compaction", "s")
    d.text(400, 118, "shuffles by key", "s")
    for place, y in enumerate((30, 86, 142)):
        d.box(505, y, 150, 34, f"bucket-{place}", kind="n", style="m")
    d.text(670, 104, "read by", "s")
    d.text(670, 120, "queries", "s")
    d.text(
        10,
        202,
        "Rows are seen once they are in their buckets, unless the table is asked to read the pending ones too.",
        "s",
    )
    return d


def cross_partition() -> Drawing:
    """A key that moves to another partition."""
    d = Drawing(
        "cross-partition",
        "A key that changes its partition: a delete in the old one, a row in the new one, one commit",
        760,
        190,
    )
    d.box(10, 66, 170, 48, "id=17, city=Bern", "it was in Rome", kind="a", style="m")
    d.box(235, 66, 130, 48, "key index", "17 lies in Rome")
    d.frame(420, 10, 330, 74, "city=Rome")
    d.frame(420, 100, 330, 74, "city=Bern")
    d.box(440, 38, 130, 32, "17, older", style="m")
    d.box(590, 38, 140, 32, "delete 17", kind="w", style="m")
    d.box(590, 128, 140, 32, "17, newer", kind="n", style="m")
    d.arrow((180, 90), (233, 90))
    d.arrow((365, 80), (400, 80), (400, 56), (430, 56), (430, 78), (660, 78), (660, 72))
    d.arrow((365, 100), (400, 100), (400, 144), (588, 144))
    return d


def commit() -> Drawing:
    """Two writers at once."""
    d = Drawing("commit", "Two writers at once: one publishes snapshot 8, the other sees it and publishes 9", 760, 250)
    d.text(10, 30, "writer A", "h")
    d.text(10, 130, "writer B", "h")
    d.box(90, 10, 130, 34, "writes data files")
    d.box(260, 10, 130, 34, "puts snapshot-8", kind="n")
    d.box(90, 110, 130, 34, "writes data files")
    d.box(260, 110, 130, 34, "puts snapshot-8", kind="w")
    d.box(430, 110, 150, 34, "reads what 8 did", kind="b")
    d.box(620, 110, 130, 34, "puts snapshot-9", kind="n")
    d.box(260, 186, 130, 34, "it is there already", kind="g")
    d.box(620, 186, 130, 34, "or a ConflictError", kind="g")
    d.arrow((220, 27), (258, 27))
    d.arrow((220, 127), (258, 127))
    d.arrow((390, 127), (428, 127))
    d.arrow((580, 127), (618, 127))
    d.arrow((325, 144), (325, 184), dashed=True)
    d.arrow((685, 144), (685, 184), dashed=True)
    d.text(410, 32, "a put that fails where the name exists: one wins", "s")
    d.text(
        10,
        240,
        "Data files are never written twice: only their entries are planned anew on the snapshot that won.",
        "s",
    )
    return d


def stream() -> Drawing:
    """A batch that comes again."""
    d = Drawing(
        "stream",
        "Each micro-batch is one commit under its query and number; one that comes again is recognised",
        760,
        190,
    )
    d.box(10, 20, 120, 40, "batch 41", kind="a")
    d.box(10, 80, 120, 40, "batch 42", kind="a")
    d.box(10, 140, 120, 40, "batch 42 again", "after a crash", kind="w")
    d.box(230, 20, 210, 40, "snapshot-8", "(orders, 41)", kind="n", style="m")
    d.box(230, 80, 210, 40, "snapshot-9", "(orders, 42)", kind="n", style="m")
    d.box(230, 140, 210, 40, "nothing to write", kind="g")
    d.arrow((130, 40), (228, 40))
    d.arrow((130, 100), (228, 100))
    d.arrow((130, 160), (228, 160))
    d.arrow((335, 140), (335, 122), dashed=True)
    d.text(460, 104, "the snapshot says who wrote it", "s")
    return d


if __name__ == "__main__":
    for draw in (table, buckets, lsm, postpone, cross_partition, commit, stream):
        draw().write()

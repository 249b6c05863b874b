"""Sample conversations in which an assistant works in a shell; the simulated files change as its commands say."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.simulate.demo.script import (
    Request,
    Script,
    SideQuestion,
    write_closing,
    write_opening,
    write_requests,
)
from engine.simulate.demo.wording import words_of


class _Names(msgspec.Struct, frozen=True):
    """Parts of paths, and the words in files."""

    roots: tuple[str, ...]
    folders: tuple[str, ...]
    suffixes: tuple[str, ...]
    stems: tuple[str, ...]
    words: tuple[str, ...]


_NAMES = words_of("terminal", _Names)


class _Machine:
    """A simulated machine.

    Attributes:
        files: Path under `root` -> (size in bytes, lines).
        as_call: Whether commands are tool calls; otherwise the assistant writes them as text.
    """

    def __init__(self, script: Script) -> None:
        rng = script.rng
        self.script = script
        self.root = rng.choice(_NAMES.roots)
        self.as_call = rng.random() < 0.5
        self.files: dict[str, tuple[int, list[str]]] = {}
        self.dirs = rng.sample(_NAMES.folders, 4)
        for _ in range(rng.randint(10, 18)):
            folder, stem = rng.choice(self.dirs), rng.choice(_NAMES.stems)
            path = f"{folder}/{stem}{rng.randint(1, 30)}.{rng.choice(_NAMES.suffixes)}"
            lines = [
                f"{rng.choice(_NAMES.stems)} {rng.choice(_NAMES.words)} {rng.randint(1, 99)}"
                for _ in range(rng.randint(2, 4))
            ]
            self.files[path] = (rng.randint(120, 90_000), lines)
        self.modes: dict[str, str] = {}

    def run(self, command: str, output: str, note: str = "") -> None:
        if self.as_call:
            self.script.call("bash", {"command": command}, output, note)
        else:
            self.script.act(f"{note}\n{command}".strip(), output)

    def paths_with(self, suffix: str) -> list[str]:
        return sorted(path for path in self.files if path.endswith("." + suffix))

    def suffix(self) -> str:
        present = sorted({path.rsplit(".", 1)[1] for path in self.files})
        return self.script.rng.choice(present)

    def refuse(self, command: str, what: str) -> None:
        """Adds the failure of a request: a command without permission, and perhaps the same with `sudo`."""
        self.run(command, f"{what}: Permission denied")
        if self.script.chance(0.5):
            self.run(f"sudo {command}", "sudo: a password is required")
        self.script.say(
            "{I can't|I am not allowed to|No rights to} {do that here|touch $what}{: "
            "permission denied.|, and I have no password for sudo.} {It stays as it "
            "was.|Nothing was changed.|}",
            what=what,
        )

    def count(self) -> Request:
        suffix, words = self.suffix(), self.script.words

        def run() -> None:
            number = len(self.paths_with(suffix))
            self.run(f'find {self.root} -name "*.{suffix}" | wc -l', str(number))
            if self.script.chance(0.7):
                self.script.report(
                    "{I count|It's|Result:|That makes} $n {.$suffix|of them|with .$suffix}{ "
                    "under $root|}.",
                    n=number,
                    suffix=suffix,
                    root=self.root,
                )

        return Request(
            words(
                "{count|tell me how many there are of} the .$suffix files under $root",
                suffix=suffix,
                root=self.root,
            ),
            f"the .{suffix} count",
            run,
            lambda: self.refuse(f'find {self.root} -name "*.{suffix}"', f"find: '{self.root}'"),
            self.side_questions,
        )

    def largest(self) -> Request:
        words, top = self.script.words, self.script.rng.choice((2, 3))

        def run() -> None:
            ranked = sorted(self.files, key=lambda path: (-self.files[path][0], path))[:top]
            self.run(
                f'find {self.root} -type f -printf "%s %p\\n" | sort -rn | head -{top}',
                "\n".join(f"{self.files[path][0]} {self.root}/{path}" for path in ranked),
            )
            if self.script.chance(0.7):
                self.script.report(
                    "{Biggest is|The largest one:|First place:} $path{ with|,} $size bytes.",
                    path=ranked[0],
                    size=f"{self.files[ranked[0]][0]:,}",
                )

        return Request(
            words(
                "{show|list|find} the $top {largest|biggest} files in $root",
                top=top,
                root=self.root,
            ),
            "the {largest files|big ones}",
            run,
            lambda: self.refuse(f"du -a {self.root}", f"du: cannot read directory '{self.root}'"),
            self.side_questions,
        )

    def search(self) -> Request:
        word, words = self.script.rng.choice(_NAMES.words), self.script.words

        def run() -> None:
            hits = [
                (path, number, line)
                for path, (_, lines) in sorted(self.files.items())
                for number, line in enumerate(lines, 1)
                if f" {word} " in line
            ]
            if len(hits) > 4:
                paths = sorted({path for path, _, _ in hits})
                self.run(f"grep -rlw {word} {self.root} | wc -l", str(len(paths)))
            else:
                self.run(
                    f"grep -rnw {word} {self.root}",
                    "\n".join(f"{self.root}/{p}:{n}:{t}" for p, n, t in hits),
                )
                paths = sorted({path for path, _, _ in hits})
            self.script.report(
                "{`$word` occurs in|Found `$word` in|The word is in} {$n of the files|this "
                "many files: $n}{, $lines lines in all.|.}",
                word=word,
                n=len(paths),
                lines=len(hits),
            )

        return Request(
            words(
                "{search|grep|look} for '$word' in $root{ and say in how many files it is|, "
                "how many files have it|}",
                word=word,
                root=self.root,
            ),
            f"the {word} search",
            run,
            lambda: self.refuse(f"grep -rnw {word} {self.root}", f"grep: {self.root}"),
            self.side_questions,
        )

    def pack(self) -> Request:
        rng, words = self.script.rng, self.script.words
        folder = rng.choice(sorted({path.split("/")[0] for path in self.files}))
        archive = f"/tmp/{folder}{rng.randint(1, 9)}.tgz"

        def run() -> None:
            inside = [path for path in sorted(self.files) if path.startswith(folder + "/")]
            self.run(
                f"tar czf {archive} -C {self.root} {folder} && tar tzf {archive} | wc -l",
                str(len(inside) + 1),
            )
            if self.script.chance(0.6):
                self.script.report(
                    "{$archive holds|Packed into $archive,|The archive is $archive:} $n "
                    "{files|files and the folder itself}.",
                    archive=archive,
                    n=len(inside),
                )

        return Request(
            words(
                "{pack|archive|tar up} the folder $folder {into|as} $archive",
                folder=folder,
                archive=archive,
            ),
            "the {archive|tarball|packing}",
            run,
            lambda: self.refuse(f"tar czf {archive} -C {self.root} {folder}", f"tar: {folder}"),
            self.side_questions,
        )

    def move(self) -> Request:
        rng, words = self.script.rng, self.script.words
        suffix = self.suffix()
        target = rng.choice(("old", "archive", "to_check", "keep"))

        def run() -> None:
            moved = self.paths_with(suffix)
            if self.script.chance(0.5):
                self.script.say(
                    "{That concerns|It would move|This moves} $n of the files{, $first among "
                    "them|}. {Proceed?|Do it?|Okay to go on?}",
                    n=len(moved),
                    first=moved[0],
                )
                self.script.mark_unfinished()
                self.script.reply("{yes|go on|y|please do|sure, they are all old}{.|}")
            folder = f"{self.root}/{target}"
            find = f'find {self.root} -name "*.{suffix}" -exec mv -t {folder} {{}} +'
            self.run(f"mkdir -p {folder} && {find}", "")
            for path in moved:
                self.files[f"{target}/{path.split('/')[-1]}"] = self.files.pop(path)
            inside = [path for path in sorted(self.files) if path.startswith(target + "/")]
            self.run(f"ls {self.root}/{target} | wc -l", str(len(inside)))
            if self.script.chance(0.6):
                self.script.report(
                    "{$target now holds $n|In $target: $n|Moved; $target has $n now}{, none "
                    "left elsewhere.|.}",
                    n=len(inside),
                    target=f"{self.root}/{target}",
                )

        return Request(
            words(
                "move {all|every one of} the .$suffix files {to|into} $root/$target",
                suffix=suffix,
                root=self.root,
                target=target,
            ),
            f"the {{moving|.{suffix} files}}",
            run,
            lambda: self.refuse(
                f"mkdir -p {self.root}/{target}",
                f"mkdir: cannot create directory '{self.root}/{target}'",
            ),
            self.side_questions,
        )

    def read_log(self) -> Request:
        """Returns the request for the log of a service. In a long or huge conversation one line of it is very long."""
        rng, words = self.script.rng, self.script.words
        lines = {"usual": rng.choice((3, 4, 5)), "long": 8, "huge": 60}[self.script.size]
        total = lines + (self.script.size != "usual")
        unit = rng.choice(("ingest", "shopd", "mailgate", "tiles"))

        def run() -> None:
            shown = [
                f"{minute // 60:02d}:{minute % 60:02d} {unit}: {rng.choice(_NAMES.words)} "
                f"{rng.choice(_NAMES.stems)}={rng.randint(1, 99)}"
                for minute in sorted(rng.sample(range(1440), lines))
            ]
            if total > lines:
                shown.append("payload=" + ",".join(rng.choices(_NAMES.stems, k=80)))
            warned = sum(" WARN " in line for line in shown)
            self.run(f"journalctl -u {unit} -n {total}", "\n".join(shown))
            self.script.report(
                "WARN {comes up|appears} {in $n of them|$n x}.",
                n=warned,
            )

        return Request(
            words(
                "{print|show} the last $n log lines of $unit and count the WARN ones",
                n=total,
                unit=unit,
            ),
            "the {log|log lines|journal}",
            run,
            lambda: self.refuse(f"journalctl -u {unit}", "No journal files were opened"),
            self.side_questions,
        )

    def side_questions(self) -> Sequence[SideQuestion]:
        words = self.script.words
        total = sum(size for size, _ in self.files.values())
        return (
            (
                "{How many files are there in all|Out of how many files|total number of files}?",
                words("$n files under $root.", n=len(self.files), root=self.root),
            ),
            (
                "{And how big is the whole folder|What does it all weigh|total size}?",
                words("{Together|All files together|In sum} $kb kB.", kb=f"{total // 1000:,}"),
            ),
        )


def converse(script: Script) -> str:
    """Writes one conversation and returns its goal, the kind of its first request."""
    rng = script.rng
    machine = _Machine(script)
    makers = {
        "count files": machine.count,
        "largest files": machine.largest,
        "search text": machine.search,
        "pack folder": machine.pack,
        "move files": machine.move,
        "read log": machine.read_log,
    }
    count = {"usual": rng.choice((1, 1, 2)), "long": 4, "huge": 2}[script.size]
    if script.outcome == "broken_off":
        count = max(count, 2)
    chosen = rng.sample(sorted(makers), count)
    if script.size == "huge" and "read log" not in chosen:
        chosen[0] = "read log"
    requests = [makers[kind]() for kind in chosen]
    write_opening(script, [request.command for request in requests])
    if script.chance(0.12):
        script.mark_unfinished()
        script.say(
            "{Anything I must not touch|Am I allowed to write there|Is this machine in production}?"
        )
        script.reply(
            "{no, it's a copy|only what I listed|don't delete anything|be careful with "
            "backup|nope, my own box}{.|}"
        )
    write_requests(script, requests)
    if script.outcome == "complete":
        write_closing(script)
    return chosen[0]

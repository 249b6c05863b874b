"""Errors for users: each has a message on what happened and where, a hint on what to do, and a code.

The code of an error is the name of its class. What a code stands for is the docstring of the class: what happened, why,
and what to do. `docs/reference/errors.md` and `workbench help CODE` are made from it, so a code that was released keeps
its name. A class stands below the one that it is a kind of, and each subject has a section.
"""

from __future__ import annotations

from typing import Any


class WorkbenchError(Exception):
    """Something that was asked for cannot be done, for a reason that no other code covers.

    Why: The message names the reason. Often another program, a setting or the terminal does not do what is needed.

    What to do: Follow the hint. What was stored before is still there.

    Args:
        message: What happened and where, one sentence.
        hint: What to do about it, one sentence; empty when there is nothing to do.
        code: The code of an error that is passed on; without one it is the name of the class.
    """

    def __init__(self, message: str, hint: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code or type(self).__name__

    def __str__(self) -> str:
        """Returns message and hint, one after the other."""
        return f"{self.message} {self.hint}".rstrip()

    def __reduce__(self) -> tuple[Any, ...]:
        """Says how to pickle the error: by its fields, since the arguments of a subclass are not those of Exception."""
        return _without_fields, (type(self), self.args), self.__dict__


def _without_fields(kind: type[WorkbenchError], args: tuple[Any, ...]) -> WorkbenchError:
    """Returns an error of a kind without its fields, which are set after that when an error is unpickled."""
    return kind.__new__(kind, *args)


class ProgramFault(WorkbenchError):
    """The program itself has a fault: something happened that it does not expect.

    Why: There is a mistake in the program, or in a library that it uses.

    What to do: Look at the log (`workbench doctor` says where logs are) and report what it says. What was stored before
    is in the project file; the same work can be started again.
    """


# The project file


class ProjectError(WorkbenchError):
    """The project file, or a file beside it, cannot be opened, read or written.

    Why: The system refuses it (permissions, the kind of file system), another program holds the file, or a file that
    was to be written is there already.

    What to do: Check the path, the permissions of the file and of its folder, and that the disk is a local one. Close
    other programs that have the file open.
    """


class ProjectMissing(ProjectError):
    """There is no project of this name.

    Why: The path is mistyped, or you are in another folder than you think.

    What to do: Check the path. `workbench` without arguments lists the projects that were open before; `workbench open
    LOGS` and `workbench import PROJECT LOGS` make a new one.
    """


class NotAProject(ProjectError):
    """The file is no project of this program.

    Why: It is a log, a database of another program, an empty file, or a project that somebody changed by hand.

    What to do: To read logs, use `workbench open LOGS`. A project that was changed by hand is saved by `workbench
    repair`.
    """


class ProjectDamaged(ProjectError):
    """The project file is damaged: what is in it is not what was written.

    Why: A disk or a copy failed, or another program wrote into the file.

    What to do: `workbench restore PROJECT` lists backups and puts one in its place; `workbench repair PROJECT -o
    NEW.wb` saves what can still be read.
    """


class ProjectTooNew(ProjectError):
    """The project was written by a newer version of the program.

    Why: A newer version changed the layout of the file, which this one does not know.

    What to do: Update the program, or use the version that wrote the project.
    """


class ProjectTooOld(ProjectError):
    """The project is of an older version and could not be brought up to date.

    Why: Updating it needs to write the file, and it cannot be written here; or the file is of a version before 1.0.

    What to do: Open it once where it can be written, or copy it to such a place. The error of a file before 1.0 names
    the commit of the program that brings it up to date.
    """


class ProjectLocked(ProjectError):
    """Another workbench is writing this project.

    Why: Only one program at a time writes a project, so that no change is lost.

    What to do: Quit the other program, or wait for it. To look only, use `workbench PROJECT --read-only`.
    """


class ProjectLinked(ProjectError):
    """The project file has a second name, a hard link, and so cannot be written.

    Why: SQLite keeps its log by the name of the file. Two programs that write one file by two names destroy it.

    What to do: Remove the other name (`find . -samefile PROJECT` lists them), or copy the project while nothing writes
    it. It can be read as it is.
    """


class ProjectMoved(ProjectError):
    """The project file was moved, deleted, replaced, linked or overwritten while it was open, so nothing more is
    written.

    Why: Another program (`mv`, `rm`, `cp`, `ln`, a file manager, a synchronisation) changed the file. What was stored
    before the message is in the file that was open, under its new name; the change that failed is not.

    What to do: Open the file under its new name. If it was deleted or replaced, save what is open as a new file: the
    screens offer that, and the API has `save_copy`.

    Args:
        cause: What happened to the file, a few words.

    Attributes:
        where: The new path of the file, None where that is not known.
        overwritten: Whether the content is another program's, so that nothing can be saved.
    """

    def __init__(
        self, cause: str, hint: str = "", *, where: str | None = None, overwritten: bool = False
    ) -> None:
        message = f"{cause} while it was open; nothing more is written."
        super().__init__(message, hint)
        self.cause, self.where, self.overwritten = cause, where, overwritten


class ProjectReadOnly(ProjectError):
    """Something was to be changed in a project that can only be read.

    Why: Another program writes it, it was opened with `--read-only`, or its permissions do not allow writing.

    What to do: Quit the other program, or work on a copy that you can write.
    """


# What is written


class DiskFull(ProjectError):
    """The disk is full, or a limit on the size of files is reached.

    Why: There is no room for what was to be written.

    What to do: Make room, then do it again. What was stored before is whole.
    """


class OutputLost(WorkbenchError):
    """What a command prints cannot be written to standard output.

    Why: Standard output is closed, or it is a file on a full disk.

    What to do: Give the command another standard output, or a file with `-o` where it has that option. What the command
    changed in a project is stored.
    """


# Files that are read


class FormatError(WorkbenchError):
    """A file cannot be read as what it should be: conversations, verdicts, scores, decisions or a mapping.

    Why: It is not there, it is damaged, it may not be read, it needs a package that is not installed, or it holds
    something else.

    What to do: Check that it is the file that you meant. `workbench formats` lists the formats of logs; `workbench
    import PROJECT FILE --dry-run` says what would be read of a file.
    """


class UnknownFormat(FormatError):
    """A file was opened, and its format is not known.

    Why: The program knows about a hundred formats of logs, and this file has the shape of none of them.

    What to do: Say where the messages are: `workbench import PROJECT FILE --map`, or ctrl+t in the import dialog. The
    program makes a guess, which you correct.

    Args:
        path: The file, as the person gave it.
    """

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message, "Say where its messages are with `workbench import --map`.")
        self.path = path


class TooMuch(FormatError):
    """A file becomes too large when it is read, or its SQL computes for too long.

    Why: A small file can hold a huge text that repeats itself, or a query that never ends. Reading stops before the
    memory, the disk or your time is used up.

    What to do: If the file is what it should be, import it with `--most-unpacked`, which raises the limits.
    """


# Models, their servers and hubs


class ModelError(WorkbenchError):
    """A model cannot do what was asked of it.

    Why: The kind of model does not offer it (for instance, a recurrent model cannot grow trees), or an answer of it
    makes no sense.

    What to do: Follow the hint, or choose another model: `workbench models list` shows those that are here.
    """


class ModelFileError(ModelError):
    """The file of a model or an adapter is missing, damaged, or of a kind that cannot be used.

    Why: It was moved or cut off, it is no GGUF file, it is newer than the installed llama.cpp, or the adapter belongs
    to another model.

    What to do: Get the file again, or name another one.
    """


class ModelCrashed(ModelError):
    """The process that runs the model ended while it worked.

    Why: Mostly it ran out of memory; a damaged file of a model can do it too.

    What to do: Look at the log that the message names. Start the work again: it goes on where it stopped. With little
    memory, use a smaller model.
    """


class OutOfMemory(ModelError):
    """There is not enough memory for the model, or for a computation.

    Why: The model and the text that it keeps in mind need more memory than is free, or a limit (`ulimit -v`) leaves too
    little.

    What to do: Close other programs, use a smaller model, or raise the limit. `workbench doctor` says how much memory
    there is.
    """


class ContextTooSmall(ModelError):
    """A text is longer than what the model can read at once (its context).

    Why: The conversation, the prompt or the answer that was asked for is too long for this model.

    What to do: Use a model with a larger context, a shorter prompt, or shorter answers.
    """


class RequestRefused(ModelError):
    """A model or its server could not answer one request; others may succeed.

    Why: No honest answer exists, for instance because a text is too long for a server that takes whole texts only.

    What to do: Mostly nothing: the conversation keeps no result, with this reason. `workbench models add URL` tests
    again what a server can do.
    """


class EndpointError(ModelError):
    """A server of models did not answer as it should.

    Why: The address is not that of an OpenAI-compatible server, or it does not serve this model.

    What to do: Check the address and the name of the model (`workbench models list`), and the log of the server.
    """


class EndpointAway(EndpointError):
    """A server of models cannot be used now.

    Why: It does not run, it is not reached, it refuses the key, it is overloaded, or an answer took longer than the
    time limit of a request (`models add --timeout`).

    What to do: Check that the server runs and that the key is right, then start the work again: it goes on where it
    stopped.

    Attributes:
        silent: Whether it gave no answer at all.
        overdue: Whether an answer came too slowly to be waited for.
    """

    silent = False
    overdue = False


class CostLimit(ModelError):
    """A run over a server of models stopped because its next request might have cost more than it may.

    Why: `--max-cost` says what a run may cost in all, and the requests that were answered came near to that.

    What to do: Start the run again with a higher --max-cost: it goes on where it stopped, and what was answered is not
    paid for again.
    """


class HubError(ModelError):
    """The hub did not give what was asked for: a list of models, or a file.

    Why: It is not reached, it has no such repository, the model needs an access that your token lacks, or a download
    arrived damaged.

    What to do: Follow the hint. A download that stopped goes on with `workbench models pull`.
    """


# Training


class AdapterError(ModelError):
    """A trained adapter cannot be made or used.

    Why: It changes parts of the model that llama.cpp cannot change, or its numbers do not fit.

    What to do: Train with the usual settings and a base of a kind that the message names.
    """


class DataError(WorkbenchError):
    """The data of a training run cannot be trained on.

    Why: A file of the run is damaged or was changed, or no conversation has anything to learn from.

    What to do: Start a new run from the project, with more conversations or a wider filter.
    """


class TrainingFailed(WorkbenchError):
    """A training run ended with an error.

    Why: The message has the reason; the file log.txt of the run has the rest.

    What to do: Follow the hint. `workbench train start PROJECT --resume RUN` goes on at the last checkpoint.
    """


# The network


class NetworkRefused(WorkbenchError):
    """The program did not go to the network.

    Why: It is to stay offline (`--offline` or a variable), or nobody asked for this address.

    What to do: To allow it, turn the setting off that the message names. See `workbench help security`.
    """


class AddressNotAllowed(NetworkRefused):
    """Texts of the project were not sent to an endpoint on another machine.

    Why: Nobody allowed it yet for this project.

    What to do: `workbench models allow PROJECT NAME`, or the screen where the work was started, shows what would be
    sent, and asks.

    Args:
        address: URL of the endpoint.
    """

    def __init__(self, message: str, hint: str, address: str) -> None:
        super().__init__(message, hint)
        self.address = address


# Work that a person stopped


class Cancelled(WorkbenchError):
    """The work was cancelled by a person. This is no error.

    Why: Somebody pressed ctrl+c or x, or stopped it in another way.

    What to do: Nothing. What was done is kept; the same command goes on from there.
    """


# What a person asked for


class UsageError(WorkbenchError):
    """What was asked for makes no sense as it was said.

    Why: A command, an option or a value is mistyped or missing, or two of them do not go together.

    What to do: `workbench help COMMAND` shows the options of a command, with their values.
    """


class NotFound(UsageError):
    """Something that was named is not there: a conversation, group, model, tag, prompt, run or file.

    Why: The name is mistyped, it was removed or renamed, or it fits several and must be said more exactly.

    What to do: The hint says where such names are listed. Names are those of the project that you named.
    """


class NameTaken(UsageError):
    """The name, or the file, is there already, and nothing is overwritten.

    Why: Something of this name was made before.

    What to do: Choose another name, or remove the old one first.
    """


class NotYet(UsageError):
    """Something has to be done before this is possible.

    Why: The step needs the result of an earlier one, such as scores, groups or verdicts, and there is none, or too
    little of it.

    What to do: The hint names the step. `workbench status PROJECT` shows what was done.
    """


class PackageMissing(UsageError):
    """This needs a package that is not installed.

    Why: What few people need is not installed with the program.

    What to do: Install it as the hint says, for instance `pip install 'conversation-workbench[train]'`.
    """


class FilterError(UsageError):
    """A filter cannot be understood.

    Why: It names a field or a value that does not exist, or a quotation mark is missing. The message shows the place.

    What to do: Correct it. `workbench help filters.md` explains how filters are written; on the screens, tab completes
    fields and values.

    Args:
        at: Where in the text of the filter the mistake is, counted from 0.
    """

    def __init__(self, message: str, hint: str, at: int) -> None:
        super().__init__(message, hint)
        self.at = at


class BadInstruction(UsageError):
    """An instruction for a simulation cannot be used.

    Why: A field of it is missing or wrong. The message names the place in the file.

    What to do: Correct the file. `workbench help simulation` describes it.
    """

"""The table of the commands: their words, their line in the help, and the function that runs each.

It imports no command: the module of a command is imported when the command is named.
"""

from __future__ import annotations

from typing import NamedTuple


class Group(NamedTuple):
    """A word that is followed by a command, such as `run` in `workbench run complete`.

    Attributes:
        metavar: What the usage line calls the word that follows.
        help: Its line in `workbench --help`.
        description: What its own help says first.
        default: The word that is meant where a project follows; empty for none.
    """

    metavar: str
    help: str
    description: str
    default: str = ""


class Command(NamedTuple):
    """One command.

    Attributes:
        words: As they are typed after `workbench`.
        help: Its line in `workbench --help`, or in the help of its group.
        run: `module:function` in `workbench.commands`. The function gets the arguments and returns a `CommandResult`,
            or the exit code where it printed its result itself; `workbench.arguments.takes` declares its options.
    """

    words: str
    help: str
    run: str


GROUPS = {
    "run": Group("STAGE", "run a stage: score, grow trees, cluster, ...", "Run a stage."),
    "simulate": Group(
        "KIND",
        "play conversations with a known outcome into a project",
        "Plays conversations with models into a project, with their true outcome. What was played stays; to go on after"
        " a break, run the same command again.",
    ),
    "train": Group(
        "ACTION",
        "train an adapter on a project's conversations (workbench train PROJECT)",
        "Trains an adapter on a project's conversations. `workbench train PROJECT` starts a run.",
        "start",
    ),
    "goals": Group(
        "ACTION",
        "list, merge, split, rename and pin groups, and move conversations between them",
        "What the goals screen and the merge desk do. A group is named by its label, else its id, else its number."
        " Each command is one act, which `goals undo` takes back; with --act N also what a rule did, such as `themes`."
        " `workbench goals PROJECT` lists the groups.",
        "list",
    ),
    "models": Group(
        "ACTION",
        "list, search, pull, add, use, allow, tune and remove models",
        "What is on disk, and what a hub has. Only search and pull use the network.",
    ),
}
"""Words that several commands begin with."""

COMMANDS = (
    Command("open", "open a project, or read, score and cluster logs (also: workbench PATH)", "opening:open_project"),
    Command("demo", "build a sample project, run everything on it, open it", "opening:demo"),
    Command("import", "import files or folders of conversations", "importing:import_paths"),
    Command("run complete", "score how likely each conversation has ended", "scoring:run_complete"),
    Command("run trees", "grow response trees", "trees:run_trees"),
    Command("run cluster", "cluster what users wanted", "goal_runs:run_cluster"),
    Command("goals list", "list the groups", "goals:list_groups"),
    Command("goals themes", "put goals under themes anew, or one under another theme", "goals:themes"),
    Command("goals clusterings", "list the clusterings, and choose the one that is open", "goals:clusterings"),
    Command("goals proposals", "list pairs of groups that may be one goal", "goals:proposals"),
    Command("goals review", "review the decisions of a model, one by one", "goals:review"),
    Command("goals merge", "merge two groups", "goals:merge"),
    Command("goals apart", "keep two groups apart: refuse their merge", "goals:apart"),
    Command("goals decide", "merge all pairs above a probability", "goals:decide"),
    Command("goals split", "split a group", "goals:split"),
    Command("goals move", "move conversations to a group, or out of all", "goals:move"),
    Command("goals rename", "give a group another label", "goals:rename"),
    Command("goals pin", "pin a group: it is not proposed for a merge and keeps its label", "goals:pin"),
    Command("goals undo", "take back the newest decision, or give it again", "goals:undo"),
    Command("run assign", "assign later conversations to the groups", "goal_runs:run_assign"),
    Command("run stability", "measure how stable the clusters are", "goal_runs:run_stability"),
    Command("run check", "look for languages and personal data, as an import does", "importing:run_check"),
    Command("scores", "list the sets of scores, and choose the one in force", "scoring:list_scores"),
    Command("status", "show what a project holds and its runs", "listing:status"),
    Command("list", "list conversations, one a line", "listing:list_conversations"),
    Command(
        "unusual-trees",
        "list trees with many branches and an improbable best response, with state and goal",
        "trees:unusual_trees",
    ),
    Command("tree", "grow the response tree of one conversation and print its answers", "trees:tree"),
    Command("export", "write conversations, scores, answers and more as lines of JSON or CSV", "exporting:export"),
    Command("ask", "ask a question of conversations: people, patterns, or a probe fitted to answers", "questions:ask"),
    Command("questions", "list, show, add and remove questions, and show agreement", "questions:questions"),
    Command("answers", "list, give, import and undo answers, such as verdicts, notes and tags", "questions:answers"),
    Command("report", "write one document on a project, as HTML", "reports:report"),
    Command("watch", "score logs as they grow, one line of JSON for each turn", "scoring:watch"),
    Command("repair", "save what can be read of a damaged project file", "project_file:repair_project"),
    Command("backup", "copy a project beside itself, and keep the newest copies", "project_file:backup"),
    Command("restore", "list the backups of a project, or put one in its place", "project_file:restore_backup"),
    Command("calibrate", "compare the scores with the verdicts", "scoring:calibrate"),
    Command("compare", "compare months, models or two filters", "reports:compare"),
    Command("why", "say which words, tools and properties go with failure, or with one of two filters", "reports:why"),
    Command("validate", "compare a metric with known outcomes", "validate:validate"),
    Command("simulate sharded", "instructions revealed shard by shard", "simulating:simulate_sharded"),
    Command("simulate forms", "forms filled in conversation", "simulating:simulate_forms"),
    Command("simulate recsim", "users with profiles who plan with an assistant", "simulating:simulate_recsim"),
    Command(
        "simulate results",
        "performance and aptitude of scored simulations, and models by form, of one or several projects",
        "simulating:list_results",
    ),
    Command("train start", "start a run or resume one, and watch it", "train:start"),
    Command("train status", "list the runs and their status", "train:status"),
    Command("train stop", "end a run after its step and keep its best checkpoint", "train:stop"),
    Command("train use", "score with the adapter of a run", "train:use"),
    Command("train delete", "delete a run with its files", "train:delete"),
    Command("prompts", "show or edit the prompts of a project", "settings:prompts"),
    Command("models list", "list models, adapters and unfinished pulls", "models:list_models"),
    Command("models search", "find models on the hub, or the files of one", "models:search_hub"),
    Command("models pull", "pull a model from the hub, or go on with a pull", "models:pull"),
    Command("models add", "add a GGUF file, an adapter, or an endpoint", "models:add"),
    Command("models remove", "delete what was pulled, forget what was added", "models:remove"),
    Command("models use", "choose the model that a project uses for some work", "models:use"),
    Command("models allow", "show what would leave this machine for an endpoint, and allow it", "models:allow"),
    Command("models tune", "find the fastest format of a model's weights that stays accurate", "models:tune"),
    Command("formats", "list the formats of logs that an import knows", "settings:formats"),
    Command("completion", "print a script with which a shell completes commands", "settings:completion"),
    Command("help", "explain a command, an error code, a word or a page", "explaining:explain"),
    Command("keys", "list the keys, and the file that changes them", "settings:keys"),
    Command("doctor", "check what this machine can do and what is wrong", "settings:doctor"),
)  # fmt: skip

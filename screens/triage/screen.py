"""Triage: one conversation at a time, the evidence beside it, one key for each answer to a question."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Static

from engine.base.conversation import SUCCEEDED
from engine.base.errors import FilterError, WorkbenchError
from engine.base.events import DataChanged, Event
from engine.conversations.filters import Filter, parse_filter
from engine.opener.open_project import OpenProject
from engine.questions.question import read_built_in
from engine.questions.records import Agreement, AnswerRow, QueueOrder, TriagePlace
from screens.shell.app_interface import NamedConversations
from screens.shell.dialogs import ask_which_first
from screens.shell.marking import ask_tags
from screens.shell.title_line import TitleLine
from screens.shell.workbench_screen import WorkbenchScreen
from screens.triage import dialogs, formatting
from screens.triage.calibration_screen import CalibrationScreen
from screens.triage.formatting import ORDERS, TriageStatus
from screens.triage.queue import BlindRound, LoadedQueue, TriageQueue, load_queue, load_status
from screens.widgets.background import write_in_order
from screens.widgets.evidence import Evidence, Facts, load_facts
from screens.widgets.filter_line import FilterLine
from screens.widgets.jobs import EngineFeed
from screens.widgets.transcript import Transcript
from screens.widgets.word_reasons import WordPanel

WIDTH_WITH_TALLY_IN_TITLE = 120
"""Least width of the screen, in cells, for the numbers of verdicts in the title line; else they are in the status."""


class TriageScreen(WorkbenchScreen[None]):
    """Shows the next item at once; answers are written in the background, in the order given."""

    MODE = "triage"
    PLACE = "triage"
    FIRST_KEYS = ("triage.answer-yes", "triage.answer-no", "triage.undo")
    AUTO_FOCUS = "#text"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,c", "answer('yes')", "Yes", tooltip="Yes"),
        Binding("n,i", "answer('no')", "No", tooltip="No"),
        Binding("m", "answer('unsure')", "Unsure"),
        *[
            Binding(
                str(digit),
                f"label({digit})",
                "Label",
                show=False,
                tooltip="Answer with the label of this number, where the question has labels",
                id="triage.label",
            )
            for digit in range(10)
        ],
        Binding("r", "reply", "Answer", tooltip="Answer with a text, a number or of a list"),
        Binding("Q", "question", "Question", tooltip="Choose the question that is answered"),
        Binding("s", "skip", "Skip", tooltip="Skip; it comes again at the end"),
        Binding("N", "note", "Note"),
        Binding("t", "tag", "Tag", tooltip="Tags, with commas between them"),
        Binding("u", "undo", "Undo"),
        Binding("U", "redo", "Redo", show=False),
        Binding("o", "open", "Open", tooltip="Open in the reader"),
        Binding("w", "words", "Words", tooltip="The words for and against an end at this turn, or no longer"),
        Binding("O", "order", "Order", tooltip="Choose the order of the queue"),
        Binding("f", "edit_filter", "Filter", tooltip="Judge only what a filter matches", id="triage.filter"),
        Binding(
            "b",
            "blind",
            "Blind",
            tooltip="Judge ten again without seeing the first answer, yours or others', or end that",
        ),
        Binding(
            "K",
            "calibration",
            "Calibration",
            tooltip="What the verdicts say of the scores",
        ),
        Binding(
            "escape",
            "judge_all",
            "All",
            tooltip="Judge all conversations again, and go back to where the narrower choice was made",
            show=False,
        ),
    ]  # fmt: skip

    def __init__(
        self,
        services: OpenProject,
        feed: EngineFeed,
    ) -> None:
        super().__init__(services, feed)
        self.queue = TriageQueue()
        self.blind: BlindRound | None = None
        self.question = read_built_in()[SUCCEEDED]
        self.order: QueueOrder = "threshold"
        self._is_order_chosen = False  # a person chose it
        self.filter = Filter()
        self.only: NamedConversations | None = None  # see `judge_only`; None judges all
        self.shown: int | None = None  # id of the conversation that is shown
        self.status = TriageStatus({}, Agreement(0))
        self._place: TriagePlace | None = None  # of the last session; None until it is read
        self._facts: Facts | None = None
        self._any_scored = True  # whether any conversation of the project is scored
        self._conversations = 0  # number of conversations in the project
        self._machines: int | None = None  # see `LoadedQueue`
        self._was_blind_offered = False
        self._was_name_missed = False  # a notice said that answers are stored without a name
        self._question_name = SUCCEEDED  # that was chosen; `question` follows when it is read

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Returns whether an action works now: a key of an answer does where the question has that answer.

        Where it has no labels, digits go to other modes.
        """
        if action in ("answer", "label", "reply"):
            kind = self.question.kind
            return (action == "answer") == (kind == "yes-no") and (
                action != "label" or bool(self.question.labels)
            )
        return super().check_action(action, parameters)

    def compose_body(self) -> ComposeResult:
        """Yields the question, summary, status line, turns, evidence; or that nothing is left."""
        yield Static(id="question")
        yield Static(id="summary")
        yield Static(id="status")
        yield FilterLine(id="filter")
        with Horizontal(id="main"):
            transcript = Transcript(id="text")
            yield transcript
            yield Evidence("Why it is here")
            yield WordPanel(self.services.word_reasons, transcript)
            yield Static(id="blind", classes="section")
        yield Static(classes="empty")

    # Reading

    def _handle_event(self, event: Event) -> None:
        """Reads the queue again after changes that this screen did not write itself."""
        # This screen already shows what it wrote itself; a queue of a million is not read after each verdict.
        is_own_write = (
            isinstance(event, DataChanged) and event.tables == {"answer"} and self.is_active
        )
        if not is_own_write:
            super()._handle_event(event)

    def refresh_data(self) -> None:
        """Reads the queue again; the current item stays."""
        if self._place is None:
            self._restore()
        else:
            self.read_queue(None)

    def _restore(self) -> None:
        """Restores the place of the last session, and reads the queue."""

        def on_result(place: TriagePlace) -> None:
            """Goes to the place; a filter that no longer can be read is left out."""
            self._place = place
            self._question_name = place.question
            self.order = place.order if place.order in ORDERS else "threshold"
            self._is_order_chosen = place.chosen
            try:
                self.filter = parse_filter(place.filter)
            except FilterError:
                self.filter = Filter()
            self.query_one(FilterLine).put(self.filter)
            self.read_queue(place)

        self.in_background(self.services.triage.place, on_result, group="queue")

    @property
    def _filter_in_force(self) -> Filter:
        """The filter; the empty one while only conversations that a person chose are judged."""
        return self.filter if self.only is None else Filter()

    def read_queue(self, place: TriagePlace | None) -> None:
        """Reads the queue of the question, the order and the filter that are chosen, and goes to a place in it."""
        chosen = self._question_name, self.order, self._filter_in_force, self.only
        question, order, filter_in_force, only = chosen
        is_order_chosen = self._is_order_chosen

        def show(loaded: LoadedQueue) -> None:
            """Shows the queue, unless the person has chosen another meanwhile."""
            if chosen != (self._question_name, self.order, self._filter_in_force, self.only):
                return
            self.question = loaded.question
            self.query_one("#question", Static).update(formatting.answers_line(self.question))
            self.refresh_bindings()
            self._any_scored, self._conversations = loaded.any_scored, loaded.conversations
            self._machines = loaded.machines
            self.queue.refresh(loaded.page)
            self.order = loaded.order
            if place is not None:
                self.queue.restore(place.conversation, place.skipped)
            self.query_one(FilterLine).complain(None)
            self.show_status(loaded.status)
            self.show_current(again=place is None)  # its score may have changed

        ids = None if only is None else only.ids
        passed = len(self.queue.skipped if place is None else place.skipped)
        self.in_background(
            lambda: load_queue(
                self.services,
                question,
                order,
                filter_in_force,
                ids,
                passed=passed,
                chosen=is_order_chosen,
                draws=place is not None,
            ),
            show,
            group="queue",
            on_error=self.query_one(FilterLine).complain if filter_in_force else None,
        )

    def show_status(self, status: TriageStatus) -> None:
        """Shows place, answers, agreement, order and filter."""
        self.status = status
        narrow = self.size.width < WIDTH_WITH_TALLY_IN_TITLE
        place = ""
        if self.blind is None and self.queue.current is not None:
            place = f"{self.queue.position:,} of {self.queue.total:,}"
        blind = "" if self.blind is None else self.blind.progress
        tally = None if narrow else status.tally
        title = formatting.title_content(place, blind, tally)
        self.query_one(TitleLine).say(title)
        self.query_one("#status", Static).update(
            formatting.status_line(
                status, self.question, self.order, self._narrowed_to(), with_tally=narrow
            )
        )
        if self.conversation is None:
            narrowed = bool(self._narrowed_to())
            known = self._conversations, self._any_scored, narrowed, self._machines
            self.show_empty(formatting.empty_state(status, *known))

    def _narrowed_to(self) -> str:
        """Returns which conversations are judged, in words; empty for all."""
        return str(self.filter) if self.only is None else f"{self.only.name} (escape: back)"

    def on_resize(self) -> None:
        """Shows the counts where the new width has room for them."""
        self.show_status(self.status)

    # The current item

    @property
    def conversation(self) -> int | None:
        """Id of the conversation that is shown; None when the queue is empty."""
        if self.blind is not None:
            return self.blind.current
        return None if self.queue.current is None else self.queue.current.conversation_id

    def show_current(self, *, again: bool = False) -> None:
        """Shows the current item, unless it is shown already; `again` reads it in any case."""
        conversation = self.conversation
        self.set_class(conversation is None, "-empty")
        self.set_class(self.blind is not None, "-blind")
        if self.blind is not None:
            self.query_one("#blind", Static).update(
                formatting.blind_panel(self.blind.progress, of_others=self.blind.of_others)
            )
        if conversation is None:
            self.shown = self._facts = None
            return
        if self.focused is None:  # the widget with the focus was hidden while the queue was empty
            self.query_one(Transcript).focus()
        if conversation == self.shown and not again:
            return
        self.shown = conversation
        item = self.queue.current
        why = "" if item is None or self.blind is not None else item.why
        self.in_background(
            lambda: load_facts(self.services, conversation),
            lambda facts: self._show_facts(facts, why),
            group="facts",
        )

    def _show_facts(self, facts: Facts, why: str) -> None:
        """Shows a conversation and the evidence about it; the transcript of the same one keeps its place."""
        same = self._facts is not None and self._facts.row.id == facts.row.id
        self._facts = facts
        self.query_one("#summary", Static).update(formatting.summary_content(facts.row))
        # While a machine is checked, and in a blind round, a person does not see what it says, nor where.
        if self.order == "check" or self.blind is not None:
            facts = replace(facts, machine_answers=())
        self.query_one(Evidence).show(facts, why)
        transcript = self.query_one(Transcript)
        if not same:
            transcript.show(
                facts.messages, facts.leaks, facts.row.signs, facts.machine_answers, at_end=True
            )
        elif transcript.message is not None:
            self.query_one(Evidence).mark(transcript.last_of_turn)
            self._follow_words()

    def on_transcript_turn_changed(self, message: Transcript.TurnChanged) -> None:
        """Marks the turn on the curve."""
        self.query_one(Evidence).mark(message.message)
        self._follow_words()

    def _follow_words(self) -> None:
        """Shows the words at the current turn, while their panel is open."""
        if self.shown is not None:
            self.query_one(WordPanel).follow(self.shown)

    def action_words(self) -> None:
        """Opens or closes the words for and against an end at the current turn; a blind round hides them."""
        if self.blind is None and self.shown is not None:
            self.query_one(WordPanel).toggle(self.shown)

    def show_new_place(self) -> None:
        """Shows the new current item, stores the place, and reads the next page when few items are left."""
        self.show_status(self.status)
        self.show_current()
        if self.blind is None and self.only is None and self.services.read_only is None:
            place = TriagePlace(
                self.order,
                str(self.filter),
                self.conversation,
                self.queue.skipped,
                self._question_name,
                self._is_order_chosen,
            )
            keep_place = self.services.triage.keep_place
            write_in_order(self, lambda: keep_place(place), lambda _: None, self.show_error)
        if self.queue.wants_more:
            self.read_queue(None)

    # Answers

    def action_label(self, digit: int) -> None:
        """Answers with the label that is this digit, or else with the label of this number, from 1.

        Where several labels may be given, the list of labels opens with a tick at this one.
        """
        labels = list(self.question.labels)
        nth = labels.index(str(digit)) if str(digit) in labels else digit - 1
        if not 0 <= nth < len(labels):
            self.notify(f"There is no label {digit}: r lists them.", markup=False)
        elif self.question.kind == "several":
            self.action_reply(labels[nth])
        else:
            self.action_answer(labels[nth])

    def action_reply(self, chosen: str = "") -> None:
        """Asks for an answer that has no key of its own."""
        conversation = self.conversation

        def give(value: str) -> None:
            if self.conversation == conversation:
                self.action_answer(value)

        if conversation is not None and self.may_write():
            dialogs.ask_answer(self, self.question, give, chosen)

    def action_answer(self, value: str) -> None:
        """Gives an answer and goes on."""
        conversation, question = self.conversation, self.question.name
        if conversation is None or not self.may_write():
            return
        if not (self.services.triage.annotator or self._was_name_missed):
            self._was_name_missed = True  # one notice is enough
            self.notify("Your answers are stored without a name; @ gives yours.", markup=False)
        if self.blind is not None:
            self._answer_again(self.blind, conversation, value)
            return
        item = self.queue.current
        self.queue.judge()

        def on_failure(error: WorkbenchError) -> None:
            self.queue.bring_back(conversation, item.why if item is not None else "")
            self.show_new_place()
            self.show_error(error)

        triage = self.services.triage
        write_in_order(
            self,
            lambda: triage.give(conversation, value, question=question),
            self._show_written,
            on_failure,
        )
        self.show_new_place()

    def action_skip(self) -> None:
        """Goes to the next conversation without an answer."""
        if self.blind is not None:
            self.blind.go_on()
            self._go_on_blind()
        else:
            self.queue.skip()
            self.show_new_place()

    def action_note(self) -> None:
        """Asks for a note on the conversation that is shown."""
        conversation = self.conversation
        if conversation is not None and self.blind is None and self.may_write():
            dialogs.ask_note(self, conversation, self._show_written)

    def action_tag(self) -> None:
        """Asks for the tags of the conversation that is shown."""
        conversation = self.conversation
        if conversation is not None and self.blind is None and self.may_write():
            ask_tags(self, [conversation], lambda _: self.show_current(again=True))

    def _show_written(self, row: AnswerRow | None) -> None:
        """Shows the new status after an answer was written, and its conversation again if that is in front."""

        def show(status: TriageStatus) -> None:
            """Shows the status, and offers blind repeats once, when there are enough answers."""
            self.show_status(status)
            if (
                status.given >= dialogs.MIN_ANSWERS_FOR_REPEATS
                and not status.agreement_with_self.n
                and not self._was_blind_offered
            ):
                self._was_blind_offered = True
                self.notify(
                    f"{status.given} answers. b asks ten of them again, blind, to see how sure you are.",
                    markup=False,
                )

        question = self.question.name
        write_in_order(self, lambda: load_status(self.services, question), show, self.show_error)
        if row is not None and row.conversation_id == self.shown:
            self.show_current(again=True)

    # Undo and redo

    def action_undo(self) -> None:
        """Undoes the newest act; the conversation of an undone answer is shown again."""

        def go_back(row: AnswerRow) -> bool:
            """Goes back to the conversation of an undone answer; returns whether the act was such an answer."""
            if self.blind is not None:
                if row.blind:
                    self.blind.back_to(row.conversation_id)
                return row.blind
            if self._is_answer(row):
                self.queue.bring_back(row.conversation_id, "you took its answer back")
            return self._is_answer(row)

        self._change_acts(self.services.triage.undo, "undo", "taken back", go_back)

    def action_redo(self) -> None:
        """Redoes the act that was undone last."""

        def go_on(row: AnswerRow) -> bool:
            """Passes the conversation of a redone answer; returns whether the act was such an answer."""
            if self._is_answer(row):
                self.queue.settle(row.conversation_id)
            return self._is_answer(row)

        self._change_acts(self.services.triage.redo, "redo", "given again", go_on)

    def _is_answer(self, row: AnswerRow) -> bool:
        """Returns whether an act is a first answer to the question that is answered."""
        return row.question == self.question.name and not row.blind

    def _change_acts(
        self,
        change: Callable[[], AnswerRow | None],
        verb: str,
        done: str,
        move: Callable[[AnswerRow], bool],
    ) -> None:
        """Undoes or redoes an act, and shows what changed.

        Args:
            change: Undoes or redoes the act and returns it; None where there is none.
            verb: What it does, for the notice that there is nothing to do.
            done: What it did, for the notice that it is done.
            move: Moves in the queue for the act, and returns whether that shows enough; else there is a notice.
        """
        if not self.may_write():
            return

        def show(row: AnswerRow | None) -> None:
            """Moves in the queue, or notifies what changed, or that there is nothing to undo or redo."""
            if row is None:
                self.notify(f"There is nothing to {verb}.", markup=False)
                return
            is_imported = row.count > 1 and row.question == self.question.name
            if not is_imported and move(row):
                self.show_new_place()
            else:
                self.notify(formatting.act_notice(row, done), markup=False)
            if is_imported and self.blind is None:
                self._begin_queue()
            self._show_written(row)

        write_in_order(self, change, show, self.show_error)

    # Question, order and filter

    def action_question(self) -> None:
        """Asks for the question that is answered; a blind round ends."""

        def choose(name: str) -> None:
            if name != self._question_name:
                self.blind = None
                self._question_name = name
                self.in_background(lambda: self.services.triage.start(name), begin, group="start")

        def begin(place: TriagePlace) -> None:
            self.order, self._is_order_chosen = place.order, False
            self._begin_queue()

        dialogs.ask_question(self, self._question_name, choose)

    def action_order(self) -> None:
        """Asks for the order of the queue."""

        def choose(order: QueueOrder) -> None:
            self._is_order_chosen = True
            if order != self.order or order == "check":  # which draws the next ones
                self.order = order
                self._begin_queue()

        ask_which_first(self, formatting.orders_of(self.question), self.order, choose)

    def judge_only(self, conversations: NamedConversations) -> None:
        """Judges these conversations, in the order that is chosen, until escape."""
        self.only = conversations
        if self._place is not None:  # else it is being read, and the queue after it
            self._begin_queue()

    def action_judge_all(self) -> None:
        """Judges all conversations again, after `judge_only`, and goes back to the mode that asked for it."""
        if self.only is not None:
            back = self.only.back
            self.only = None
            self._begin_queue()
            if back and back != self.MODE:
                self.app.run_worker(self.app.run_action(f"switch_mode('{back}')"), group="back")

    def on_filter_line_applied(self, message: FilterLine.Applied) -> None:
        """Begins a new queue with the conversations that the filter matches."""
        self.filter, self.only = message.filter, None
        self._begin_queue()

    def _begin_queue(self) -> None:
        """Begins a new queue at its start."""
        self.queue = TriageQueue()
        self._forget_shown()
        self.read_queue(TriagePlace())

    def _forget_shown(self) -> None:
        """Makes the next conversation be shown anew, even if it is the same: what is hidden of it may change."""
        self.shown = self._facts = None

    # Blind repeats and second answers

    def action_blind(self) -> None:
        """Asks some conversations again, blind: one's own, or those that others judged; in a blind round, ends the
        round."""
        if self.blind is not None:
            self._end_blind()
            return
        if not self.may_write():
            return

        dialogs.ask_round(self, self.question.name, self._begin_blind)

    def _begin_blind(self, blind: BlindRound) -> None:
        """Begins a blind round."""
        self.blind = blind
        self._forget_shown()
        self.remove_class("-why")
        self._follow_words()
        self.show_new_place()

    def _answer_again(self, blind: BlindRound, conversation: int, value: str) -> None:
        """Stores a second answer and goes on; where it cannot be stored, goes back."""
        blind.go_on()
        triage, question = self.services.triage, self.question.name

        def on_failure(error: WorkbenchError) -> None:
            blind.back_to(conversation)
            self.show_new_place()
            self.show_error(error)

        write_in_order(
            self,
            lambda: triage.repeat(conversation, value, question),
            self._show_written,
            on_failure,
        )
        self._go_on_blind()

    def _go_on_blind(self) -> None:
        """Shows the next conversation of the blind round, or ends the round after its last one."""
        if self.blind is not None and self.blind.current is None:
            self._end_blind()
        else:
            self.show_new_place()

    def _end_blind(self) -> None:
        """Ends the blind round, goes back to the queue and notifies how far the answers agree."""
        of_others = self.blind is not None and self.blind.of_others
        self.blind = None
        self._forget_shown()
        self.show_new_place()
        dialogs.notify_result(self, self.question.name, of_others, self.show_status)

    # Other screens

    def action_calibration(self) -> None:
        """Shows what the verdicts say about the scores."""
        self.app.push_screen(CalibrationScreen(self.services, self.feed, self.MODE))

    def action_open(self) -> None:
        """Opens the conversation in the reader; the queue stays where it is."""
        if self.blind is None and self.queue.current is not None:
            order = array("q", self.queue.ids)
            self.open_reader(order, self.queue.index)

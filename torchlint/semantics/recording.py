"""The recording: what a program would do, as a tree of events in program order.

A Block is a sequence of events, branches, loops and calls. Every event knows the Context it
happens in: the loops, branch guards, function calls and with-statements around it, and the grad
mode. A loop's back edge is part of the tree, so "the next iteration" needs no unrolling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchlint.semantics.values import Arguments, Function, Site, Value


class Context:
    """One thing around an event; ``outer`` is the next one outwards.

    ``kind``: entry, call, loop, guard, with, except, comprehension.
    ``grad``: whether autograd records here: True, False, or None where that is unknown.
    """

    __slots__ = ("outer", "kind", "node", "data", "grad", "autocast", "depth", "taken", "block", "entered",
                 "value")

    def __init__(self, outer: Context | None, kind: str, node: Any = None, data: Any = None) -> None:
        self.outer = outer
        self.kind = kind
        self.node: Any = node  # a Site
        self.data: Any = data
        self.grad: bool | None = outer.grad if outer else True
        self.autocast: bool | None = outer.autocast if outer else False
        self.depth: int = outer.depth + 1 if outer else 0
        self.taken: bool | None = None  # a guard's branch: True, False (else)
        self.block: Block | None = None  # a loop's body, a call's body
        self.value: Value | None = None  # a guard's test
        self.entered = False  # a call that no program makes: the function is run as an entry

    def __iter__(self) -> Iterator[Context]:
        """This context and all around it, innermost first."""
        here: Context | None = self
        while here is not None:
            yield here
            here = here.outer

    def up_to(self, outer: Context | None) -> Iterator[Context]:
        """The contexts from here outwards, ``outer`` itself excluded."""
        for context in self:
            if context is outer:
                return
            yield context

    def loops(self) -> list[Context]:
        """The loops around, innermost first, through the calls."""
        return [c for c in self if c.kind == "loop"]

    def calls(self) -> list[Context]:
        return [c for c in self if c.kind == "call"]

    def entry(self) -> Context:
        return next(c for c in self if c.outer is None)

    def rebased(self, root: Context, onto: Context) -> Context:
        """A copy of the chain from here up to ``root`` (excluded) put on top of ``onto``."""
        if self is root or self.outer is None:
            return onto
        copy = Context(self.outer.rebased(root, onto), self.kind, self.node, self.data)
        copy.taken, copy.block, copy.entered, copy.value = self.taken, self.block, self.entered, self.value
        if self.grad is not self.outer.grad:
            copy.grad = self.grad
        return copy


class Item:
    """A node of the recording's tree."""

    __slots__ = ("parent", "site")
    parent: Block | None
    site: Site


class Event(Item):
    """Something the program does that a rule can ask about.

    ``subject`` is the value it happens to (the optimizer that steps, the tensor that moves);
    ``result`` what it gives; ``data`` facts of the kind, by name.
    """

    __slots__ = ("kind", "subject", "result", "context", "arguments", "data", "used")

    def __init__(self, kind: str, site: Site, context: Context, subject: Value | None = None,
                 result: Value | None = None, arguments: Arguments | None = None, **data: Any) -> None:
        self.kind = kind
        self.site = site
        self.context = context
        self.subject = subject
        self.result = result
        self.arguments = arguments
        self.data = data
        self.used: set[str] = set()  # for a forward: what became of its output
        self.parent = None

    def rebased(self, root: Context, onto: Context) -> Event:
        copy = Event(self.kind, self.site, self.context.rebased(root, onto), self.subject, self.result, self.arguments)
        copy.data = self.data
        copy.used = self.used
        return copy

    def __repr__(self) -> str:
        return f"Event({self.kind})"


class Block(Item):
    """Items in program order. ``ends``: how control leaves it early, if it always does."""

    __slots__ = ("items", "owner", "ends")

    def __init__(self, owner: Branch | Loop | Call | None = None) -> None:
        self.items: list[Item] = []
        self.owner = owner
        self.ends: str | None = None
        self.parent = None

    def add(self, item: Item) -> None:
        item.parent = self
        self.items.append(item)

    def events(self) -> Iterator[Event]:
        """Every event in here, in program order, branches one after the other."""
        for item in self.items:
            if isinstance(item, Event):
                yield item
            elif isinstance(item, Branch):
                for arm in item.arms:
                    yield from arm.events()
            elif isinstance(item, (Loop, Call)):
                yield from item.body.events()

    def loops(self) -> Iterator[Loop]:
        """Every loop in here, those inside others too."""
        for item in self.items:
            if isinstance(item, Branch):
                for arm in item.arms:
                    yield from arm.loops()
            elif isinstance(item, (Loop, Call)):
                if isinstance(item, Loop):
                    yield item
                yield from item.body.loops()


class Branch(Item):
    """Alternatives of which one is taken (an arm may be empty)."""

    __slots__ = ("arms",)

    def __init__(self, site: Site) -> None:
        self.site = site
        self.arms: list[Block] = []
        self.parent = None


class Loop(Item):
    """A loop: its body runs any number of times. What is ``born`` later than it ``began`` is made in it."""

    __slots__ = ("body", "iterable", "context", "began")

    def __init__(self, site: Site, iterable: Value | None, began: int) -> None:
        self.site = site
        self.body = Block(self)
        self.iterable = iterable
        self.began = began
        self.context: Context | None = None
        self.parent = None


class Call(Item):
    """A followed call into a project's function. ``is_entry``: the run began with it, no code is seen to call it."""

    __slots__ = ("body", "function", "is_entry", "result")

    def __init__(self, site: Site, function: Function, *, is_entry: bool = False) -> None:
        self.site = site
        self.function = function
        self.is_entry = is_entry
        self.result: Value | None = None
        self.body = Block(self)
        self.parent = None


class Exit(Item):
    """Control leaves here: return, break, continue or raise."""

    __slots__ = ("how",)

    def __init__(self, site: Site, how: str) -> None:
        self.site = site
        self.how = how
        self.parent = None


def enclosing_blocks(item: Item) -> Iterator[Block]:
    """The blocks around an item, innermost first."""
    block = item.parent
    while block is not None:
        yield block
        owner = block.owner
        block = owner.parent if owner is not None else None



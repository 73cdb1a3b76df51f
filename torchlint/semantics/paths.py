"""Questions about order, put to a recording's tree.

A recording is a tree of blocks in program order, so "before" and "after" are positions in it: no
path is ever enumerated. What a loop's body does in its next iteration lies behind the body's end.
"""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.semantics.recording import Block, Branch, Call, Event, Item, Loop, enclosing_blocks

_LEAVES = ("return", "raise", "break", "continue")


def lead(block: Block, item: Item) -> Item:
    """The item of ``block`` that holds ``item``, or is it."""
    here = item
    while here.parent is not block:
        assert here.parent is not None
        assert here.parent.owner is not None
        here = here.parent.owner
    return here


def meeting(a: Item, b: Item) -> Block | None:
    """The lowest block that holds both; None where they belong to different entries."""
    around = {id(block) for block in enclosing_blocks(a)}
    return next((block for block in enclosing_blocks(b) if id(block) in around), None)


def loops_around(item: Item | Block) -> Iterator[Loop]:
    """The loops around an item, innermost first, through the calls."""
    blocks = blocks_around(item) if isinstance(item, Block) else enclosing_blocks(item)
    for block in blocks:
        if isinstance(block.owner, Loop):
            yield block.owner


def blocks_around(block: Block) -> Iterator[Block]:
    """A block and the blocks around it, innermost first."""
    yield block
    if block.owner is not None:
        yield from enclosing_blocks(block.owner)


def loops_between(item: Item, block: Block) -> list[Loop]:
    """The loops around an item that lie inside ``block``."""
    outer = {id(loop) for loop in loops_around(block)}
    return [loop for loop in loops_around(item) if id(loop) not in outer]


def comes_first(a: Item, b: Item) -> bool:
    """Whether ``a`` stands before ``b`` and both can happen in one pass: not in two arms of a branch."""
    block = meeting(a, b)
    if block is None:
        return False
    first, second = lead(block, a), lead(block, b)
    if first is second:
        return False
    items = block.items
    return items.index(first) < items.index(second)


def ahead(item: Item, within: Item | None = None) -> Iterator[Event]:
    """What may have happened before an item when control gets there for the first time.

    Loops before it may have run; other arms of its branches have not, nor has what follows it in
    a loop. ``within`` bounds the question to what happens inside that loop or call.
    """
    here = item
    while here.parent is not None and here is not within:
        block = here.parent
        for other in block.items:
            if other is here:
                break
            yield from _going_on(other)
        if block.owner is None:
            return
        here = block.owner


def _going_on(item: Item) -> Iterator[Event]:
    """The events of an item after which control may go on to the next one."""
    if isinstance(item, Event):
        yield item
    elif isinstance(item, Branch):
        for arm in item.arms:
            if arm.ends not in _LEAVES:
                yield from _of_block(arm)
    elif isinstance(item, (Loop, Call)):
        yield from _of_block(item.body)


def _of_block(block: Block) -> Iterator[Event]:
    for item in block.items:
        yield from _going_on(item)

"""Plain training scripts: one program that makes its model and loaders in one block, and trains there epoch by epoch.

A change that concerns a script as a whole needs to know all of it. What does not fit, or cannot be seen, is refused
with the reason (NotPlain): a rewrite of half a script is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantics import knowledge, rhythm
from torchlint.semantics import values as v
from torchlint.semantics.library import device_of, is_loader
from torchlint.semantics.loading import LOADER, made_loaders, setting
from torchlint.semantics.names import names_in
from torchlint.semantics.paths import loops_around
from torchlint.semantics.recording import Branch, Loop, enclosing_blocks
from torchlint.syntax.origins import Origins, last_name, own_nodes
from torchlint.syntax.tree import Statement, Tree, literal, walk

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Block, Event

Suite = cst.Module | cst.IndentedBlock


class NotPlain(Exception):
    """Why a script is none of the plain ones: a clause that completes "because ..."."""


@dataclass(frozen=True, slots=True)
class Loader:
    """A loader whose batches are trained on: its construction, the name it gets, and its dataset's name."""

    event: Event
    call: cst.Call
    name: str
    dataset: cst.Name


@dataclass(frozen=True, slots=True)
class Script:
    """What a plain training script does where, as nodes of its tree.

    ``block`` holds the set-up and the loop over ``epochs`` (whose target is ``epoch``), ``first`` is its first
    statement that may touch torch, ``loaders`` are trained on, ``lengths`` are those ``loader.dataset`` of them whose
    length is asked; ``downloads`` are the statements of the block that may download data, and those in between;
    ``writes`` are runs of statements that only write files; ``devices`` strings that name a GPU by
    its number.
    """

    block: Suite
    first: Statement
    loaders: tuple[Loader, ...]
    epochs: cst.For
    epoch: str
    lengths: tuple[cst.Attribute, ...]
    downloads: tuple[Statement, ...]
    writes: tuple[tuple[Statement, ...], ...]
    devices: tuple[cst.SimpleString, ...]


_HARMLESS = frozenset(
    "__future__ abc albumentations argparse ast collections contextlib copy csv cv2 dataclasses datetime einops enum "
    "functools gc glob itertools json logging math matplotlib numpy operator os pandas pathlib pickle PIL pprint "
    "random re scipy shutil sklearn string sys time timm torch torchaudio torchvision tqdm typing typing_extensions "
    "warnings".split()
)
"""Packages that start no processes and write no files but by calls that are looked for."""

_SPOILERS = {
    "maybe it runs several processes": "distributed DistributedDataParallel DistributedSampler init_process_group "
                                         "LOCAL_RANK local_rank multiprocessing spawn subprocess Popen system Thread",
    "maybe it chooses the GPU": "set_device current_device",
    "a loader may have a sampler": "sampler batch_sampler SubsetRandomSampler WeightedRandomSampler",
    "maybe each would split the data anew": "random_split train_test_split permutation randperm KFold",
    "a logger may be kept open": "SummaryWriter FileHandler RotatingFileHandler basicConfig",
    "its scheduler may use a metric": "ReduceLROnPlateau",
    "one process may leave the others": "exit _exit quit input",
    "maybe no plain backward": "create_graph retain_graph register_hook no_sync LBFGS",
    "the model may be exported": "export",
    "maybe its loss is not a mean": "reduction size_average reduce",
}
"""What may be wrong with a script that names one of these anywhere, whatever it means by it."""

_WRITERS = frozenset(
    "save savez savez_compressed savetxt savefig save_image imsave imwrite dump tofile to_csv to_json to_excel "
    "to_pickle write writelines writerow writerows writeheader write_text write_bytes open mkdir makedirs remove "
    "rename unlink rmtree rmdir copyfile copy2 copytree move symlink touch mkstemp mkdtemp".split()
)
_LOSSES = frozenset(
    "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy huber_loss l1_loss mse_loss nll_loss "
    "smooth_l1_loss soft_margin_loss poisson_nll_loss gaussian_nll_loss".split()
)
_MOVES = ("to", "cuda")
_STREAMS = re.compile(r"sys\.(stdout|stderr)\.write")
_NUMBERED = re.compile(r"cuda:\d+")


def plain_script(model: Model, event: Event) -> Script:
    """The script in which an event happens while its model is set up. Raises NotPlain."""
    if model.tree.source.is_notebook:
        raise NotPlain("a notebook is one process")
    return _Reader(model, event).script()


def qualified(model: Model, node: cst.BaseExpression) -> str:
    """The canonical name of a library's thing that an expression names; the empty string for anything else."""
    if isinstance(node, cst.Attribute):
        base = qualified(model, node.value)
        return knowledge.canonical(f"{base}.{node.attr.value}") if base else ""
    if not isinstance(node, cst.Name):
        return ""
    value = model.module.frame.find(node.value)
    return value.name if isinstance(value, v.Symbol) else ""


class _Reader:
    def __init__(self, model: Model, event: Event) -> None:
        self.model = model
        self.tree: Tree = model.tree
        self.event = event
        self.origins = Origins(self.tree)
        self.root: Block = list(enclosing_blocks(event))[-1]
        self.events = list(self.root.events())

    def script(self) -> Script:
        block = self._block()
        self._refuse_what_is_named()
        loaders = self._loaders(block)
        loops = [loop for loader in loaders for loop in self._loops(loader.event)]
        epochs, epoch = self._epochs(block, loops)
        self._refuse_uneven(epochs, loops)
        self._refuse_other_training()
        lengths = tuple(self._lengths(loaders))
        for loader in loaders:
            self._refuse_use_of_batch_size(loader)
        return Script(block, self._first(block), tuple(loaders), epochs, epoch, lengths, self._downloads(block),
                      tuple(self._writes(block, epochs)), self._devices(block))

    # ------------------------------------------------------------------ where

    def _block(self) -> Suite:
        contexts = list(self.event.context)
        calls = [context for context in contexts if context.kind == "call"]
        entry = contexts[-1]
        around = [context.kind for context in contexts if context.kind not in ("guard", "call")]
        if entry.data not in ("module", "main") or around != ["entry"] or len(calls) > 1:
            raise NotPlain("the model is not wrapped in the script's own course")
        if not calls:
            block = self.tree.module if entry.data == "module" else entry.node.node.body
        else:
            function = calls[0].data
            guarded = contexts[-2] is not calls[0]
            if guarded or function.owner is not None or function.module is not self.model.module:
                raise NotPlain("the model is not wrapped in the script's own course")
            block = function.node.body
            if any(isinstance(node, cst.Return | cst.Yield) for node in own_nodes(block)):
                raise NotPlain(f"`{function.name}` returns something")
        if not isinstance(block, cst.Module | cst.IndentedBlock):
            raise NotPlain("the script stands on one line")
        return block

    def _in(self, block: Suite, node: cst.CSTNode) -> Statement | None:
        """The statement of the block itself that holds a node."""
        below = node
        for above in self.tree.ancestors(node):
            if above is block:
                return below if isinstance(below, cst.SimpleStatementLine | cst.BaseCompoundStatement) else None
            below = above
        return None

    def _first(self, block: Suite) -> Statement:
        known = self.model.module.frame.names.items()
        touching = {name for name, value in known if isinstance(value, v.Symbol) and value.name.startswith("torch")}
        touching |= self._imported
        touching |= {cls.name for cls in self.model.module.classes}
        touching |= {function.name for function in self.model.module.functions
                     if not touching.isdisjoint(names_in(function.node))}
        for statement in block.body:
            simple = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else statement
            if isinstance(simple, cst.FunctionDef | cst.ClassDef | cst.Import | cst.ImportFrom):
                continue
            if not isinstance(statement, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                continue
            if self._in(block, self.event.site.node) is statement or not touching.isdisjoint(names_in(simple)):
                return statement
        raise NotPlain("nothing of it touches torch")

    # ------------------------------------------------------------- what is named

    def _refuse_what_is_named(self) -> None:
        names = names_in(self.tree.module) - self._harmless_names()
        others = [module for module in self.model.machine.project.modules.values() if module is not self.model.module]
        for reason, words in _SPOILERS.items():
            if named := sorted(names.intersection(words.split())):
                raise NotPlain(f"it names `{named[0]}`: {reason}")
        for module in others:
            found = names_in(module.tree.module)
            if not found.isdisjoint(_WRITERS | {"DataLoader", "DataParallel", "backward"}) or any(
                    not found.isdisjoint(words.split()) for words in _SPOILERS.values()):
                raise NotPlain(f"`{module.path.name}` does part of the work")
        frame = self.model.module.frame
        symbols = [value.name for value in frame.names.values() if isinstance(value, v.Symbol)]
        for name in (*symbols, *self.model.module.stars, *self._imported_inside()):
            package = name.partition(".")[0]
            if package not in _HARMLESS and package != "builtins":
                raise NotPlain(f"`{package}` is not known to work in several processes")
        for call in self._calls():
            name = qualified(self.model, call.func)
            if name in ("random.shuffle", "numpy.random.shuffle", "random.sample"):
                raise NotPlain("each process would shuffle the data in another way")
            if name in ("torch.autograd.grad", "torch.autograd.backward"):
                raise NotPlain("its backward is not a plain one")
            if name == "torch.cuda.device":
                raise NotPlain("it chooses the GPU itself")
        if "CUDA_VISIBLE_DEVICES" in self.tree.source.text:
            raise NotPlain("it chooses the GPU itself")
        if any(event.kind == "cut" for event in self.events):
            raise NotPlain("it is too long to be followed")

    def _harmless_names(self) -> set[str]:
        """The word `reduction`, where it is only given as what is the default."""
        given = [node.value for node in walk(self.tree.module)
                 if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "reduction"]
        named = sum(isinstance(node, cst.Name) and node.value == "reduction" for node in walk(self.tree.module))
        return {"reduction"} if named == len(given) and all(literal(value) == "mean" for value in given) else set()

    @property
    def _imported(self) -> set[str]:
        """The names that imports bind to what is neither torch nor harmless: things of the project."""
        return {name for name, value in self.model.module.frame.names.items()
                if not isinstance(value, v.Symbol | v.Function | v.Class | v.Const)
                and any(isinstance(node, cst.ImportAlias) and (node.evaluated_alias or node.evaluated_name) == name
                        for node in walk(self.tree.module))}

    def _imported_inside(self) -> Iterator[str]:
        for node in walk(self.tree.module):
            if isinstance(node, cst.Import):
                yield from (alias.evaluated_name for alias in node.names)
            elif isinstance(node, cst.ImportFrom) and node.module is not None and not node.relative:
                name = cst.helpers.get_full_name_for_node_or_raise(node.module)
                if name.partition(".")[0] not in self._project_packages:
                    yield name

    @property
    def _project_packages(self) -> set[str]:
        return {module.name.partition(".")[0] for module in self.model.machine.project.modules.values()}

    def _calls(self) -> Iterator[cst.Call]:
        return (node for node in walk(self.tree.module) if isinstance(node, cst.Call))

    # ------------------------------------------------------------------ loaders

    def _loops(self, loader: Event) -> list[Loop]:
        return [loop for loop in self.root.loops() if _drawn_from(loop) is loader.result]

    def _loaders(self, block: Suite) -> list[Loader]:
        made = list(made_loaders(self.model.events("construct", everywhere=True)))
        mentioned = [call for call in self._calls() if last_name(call.func) == "DataLoader"]
        if len(made) != len(mentioned) or any(event.data["name"] != LOADER for event in made):
            raise NotPlain("its loaders are not all seen")
        if any(event.kind == "next" for event in self.events):
            raise NotPlain("single batches are drawn from a loader")
        found = []
        for event in made:
            loops = self._loops(event)
            training = [loop for loop in loops if any(e.kind == "backward" for e in loop.body.events())]
            if not loops or 0 < len(training) < len(loops):
                raise NotPlain("a loader is not seen to be only trained or evaluated on")
            if training:
                found.append(self._loader(block, event))
        if not found:
            raise NotPlain("no loader is seen to be trained on")
        return found

    def _loader(self, block: Suite, event: Event) -> Loader:
        call = event.site.node
        assign = self.tree.parent(call)
        line = self.tree.parent(assign) if assign is not None else None
        if not (isinstance(call, cst.Call) and isinstance(assign, cst.Assign) and len(assign.targets) == 1
                and isinstance(name := assign.targets[0].target, cst.Name) and line is not None
                and self.tree.parent(line) is block and self.origins.is_bound_once(name)):
            raise NotPlain("its training loader is not made, and named, where it trains")
        assert event.arguments is not None
        assert isinstance(event.result, v.External)
        if event.result.escaped or event.arguments.stars or event.arguments.double_stars:
            raise NotPlain("its training loader is handed to unseen code")
        dataset = next((arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "dataset"), None)
        if not isinstance(dataset, cst.Name):
            raise NotPlain("the training dataset has no name of its own")
        if not _is_indexed(event.arguments.get("dataset", 0)):
            raise NotPlain("its training dataset is not known to be indexed")
        size = setting(event, "batch_size")
        if size is None or (isinstance(size, v.Const) and (not isinstance(size.value, int) or size.value < 2)):
            raise NotPlain("its batches cannot be divided among processes")
        return Loader(event, call, name.value, dataset)

    def _refuse_use_of_batch_size(self, loader: Loader) -> None:
        size = batch_size(loader.call)
        if not isinstance(size.value, cst.Integer | cst.Name | cst.Attribute):
            raise NotPlain("its batch size is computed")
        attributes = [node for node in walk(self.tree.module)
                      if isinstance(node, cst.Attribute) and node.attr.value == "batch_size"]
        name = size.value.value if isinstance(size.value, cst.Name) else None
        same = [node for node in walk(self.tree.module) if isinstance(node, cst.Name) and node.value == name]
        for node in (*attributes, *same):
            parent = self.tree.parent(node)
            call = self.tree.parent(parent) if isinstance(parent, cst.Arg) else None
            is_given = isinstance(call, cst.Call) and last_name(call.func) == "DataLoader"
            is_keyword = isinstance(parent, cst.Arg) and parent.keyword is node
            is_attribute = isinstance(parent, cst.Attribute) and parent.attr is node
            if not (is_given or is_attribute or is_keyword or isinstance(parent, cst.AssignTarget)):
                raise NotPlain("its batch size is used elsewhere too")

    def _lengths(self, loaders: list[Loader]) -> Iterator[cst.Attribute]:
        trained = {loader.call for loader in loaders}
        known = {call for call in self._calls() if last_name(call.func) == "DataLoader"}
        for node in walk(self.tree.module):
            if isinstance(node, cst.Attribute) and node.attr.value == "dataset":
                origins = set(self.origins.of(node.value))
                parent = self.tree.parent(node)
                call = self.tree.parent(parent) if isinstance(parent, cst.Arg) else None
                is_length = isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "len"
                if is_length and origins and origins <= trained:
                    yield node
                elif not trained.isdisjoint(origins) or (is_length and not (origins and origins <= known)):
                    raise NotPlain("the training dataset's size is used elsewhere too")
        sets = {origin for loader in loaders for origin in self.origins.of(loader.dataset)}
        for call in self._calls():
            if isinstance(call.func, cst.Name) and call.func.value == "len" and call.args:
                asked = call.args[0].value
                same = self.tree.text(asked) in {loader.dataset.value for loader in loaders}
                if (same or not sets.isdisjoint(self.origins.of(asked))) and not self._is_printed(call):
                    raise NotPlain("the training dataset's size is used elsewhere too")

    def _downloads(self, block: Suite) -> tuple[Statement, ...]:
        found = [self._in(block, call) for call in self._calls()
                 if any(arg.keyword is not None and arg.keyword.value == "download"
                        and self.tree.text(arg.value) != "False" for arg in call.args)]
        if not found:
            return ()
        places = [block.body.index(line) if isinstance(line, cst.SimpleStatementLine) else -1 for line in found]
        between = block.body[min(places) : max(places) + 1]
        wrapping = self._in(block, self.event.site.node)
        if -1 in places or wrapping in between or not all(isinstance(s, cst.SimpleStatementLine) for s in between):
            raise NotPlain("every process would download the dataset at once")
        return tuple(statement for statement in between if isinstance(statement, cst.SimpleStatementLine))

    def _is_printed(self, call: cst.Call) -> bool:
        statement = self.tree.statement(call)
        line = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        return isinstance(line, cst.Expr) and isinstance(line.value, cst.Call) and last_name(line.value.func) == "print"

    # ----------------------------------------------------------------- training

    def _epochs(self, block: Suite, loops: list[Loop]) -> tuple[cst.For, str]:
        found: dict[int, Any] = {}
        for loop in loops:
            outer = list(loops_around(loop))
            if len(outer) != 1 or any(isinstance(inside.owner, Branch) for inside in enclosing_blocks(loop)):
                raise NotPlain("its training loop is not in one plain loop over epochs")
            found[id(outer[0].site.node)] = outer[0]
        if len(found) != 1:
            raise NotPlain("it trains in several loops over epochs")
        epochs = next(iter(found.values()))
        node = epochs.site.node
        if not (isinstance(node, cst.For) and self.tree.parent(node) is block and isinstance(node.target, cst.Name)
                and isinstance(node.body, cst.IndentedBlock) and _is_range(epochs.iterable)):
            raise NotPlain("it does not count its epochs in the block that sets up")
        return node, node.target.value

    def _refuse_uneven(self, epochs: cst.For, loops: list[Loop]) -> None:
        """Every process must do the same number of forwards and backwards, else one waits for ever."""
        for loop in (epochs, *(loop.site.node for loop in loops)):
            if any(isinstance(node, cst.Break | cst.Continue | cst.Return | cst.Raise | cst.Try) for node in
                   own_nodes(loop)):
                raise NotPlain("training may stop early in one process alone")
        wrapped = self.event.subject
        inside = {id(event) for loop in loops for event in loop.body.events()}
        forwards = {event.site.key for event in self.events
                    if event.kind == "forward" and event.subject is wrapped and id(event) in inside}
        if len(forwards) != 1:
            raise NotPlain("training does not run the wrapped model once in each step")
        for event in self.events:
            if event.kind not in ("backward", "forward", "optimizer_step", "scaler_step"):
                continue
            if event.kind == "forward" and event.subject is not wrapped:
                continue
            for context in event.context:
                if context.kind == "guard" and (context.value is None or rhythm.is_data(context.value)):
                    raise NotPlain("whether a step is made depends on the data")

    def _refuse_other_training(self) -> None:
        wrapped = self.event.subject
        assert wrapped is not None
        optimizers = {id(e.result): e for e in self.events if e.kind == "construct" and e.result is not None
                      and e.result.kind == "optimizer"}
        if len(optimizers) != 1:
            raise NotPlain("it does not train with one optimizer")
        for event in optimizers.values():
            given = event.arguments.get("params", 0) if event.arguments is not None else None
            if not isinstance(given, v.Parameters) or given.module not in (wrapped, *wrapped.options()):
                raise NotPlain("its optimizer may hold other parameters than the model's")
        for event in self.model.events("backward", everywhere=True):
            if not self._is_mean(_root(event.site.node)):
                raise NotPlain("its loss is not seen to be a mean over the batch")

    def _is_mean(self, node: cst.CSTNode | None, depth: int = 0) -> bool:
        """Whether an expression is a mean over the batch, or one scaled, or a sum of such."""
        if node is None or depth > 4:
            return False
        if isinstance(node, cst.Name):
            origins = self.origins.of(node)
            return bool(origins) and all(o is not node and self._is_mean(o, depth + 1) for o in origins)
        if isinstance(node, cst.BinaryOperation):
            left, right = self._is_mean(node.left, depth + 1), self._is_mean(node.right, depth + 1)
            if isinstance(node.operator, cst.Add):
                return left and right
            if isinstance(node.operator, cst.Multiply):
                return (left and _is_factor(node.right)) or (right and _is_factor(node.left))
            return isinstance(node.operator, cst.Divide) and left and _is_factor(node.right)
        if not isinstance(node, cst.Call):
            return False
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "scale" and len(node.args) == 1:
            return self._is_mean(node.args[0].value, depth + 1)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "mean":
            return not node.args
        name = qualified(self.model, node.func)
        if name.startswith("torch.nn.functional."):
            return name.rpartition(".")[2] in _LOSSES and _positional(node) <= 2
        criteria = [_unmoved(origin) for origin in self.origins.of(node.func)]
        return bool(criteria) and all(map(self._is_criterion, criteria))

    def _is_criterion(self, node: cst.CSTNode) -> bool:
        name = qualified(self.model, node.func) if isinstance(node, cst.Call) else ""
        return name.startswith("torch.nn.") and name.endswith("Loss") and _positional(node) <= 1

    # ------------------------------------------------------------------- devices

    def _devices(self, block: Suite) -> tuple[cst.SimpleString, ...]:
        found: dict[cst.SimpleString, None] = {}
        for call in self._calls():
            method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
            if method == "cuda" and any(arg.keyword is None or arg.keyword.value == "device" for arg in call.args):
                raise NotPlain("it chooses the GPU itself")
            given = [arg.value for arg in call.args if arg.keyword is not None
                     and arg.keyword.value in ("device", "map_location")]
            moves = any(self.model.happens_at(kind, call) for kind in ("module_moved", "to_device"))
            if method == "to" and moves:
                given += [arg.value for arg in call.args[:1] if arg.keyword is None]
            for value in given:
                self._name_device(value, found)
        for node in walk(self.tree.module):
            text = literal(node)
            if isinstance(text, str) and node not in found and _NUMBERED.fullmatch(text):
                raise NotPlain("it chooses the GPU itself")
        for event in self.model.events("module_moved", "to_device", "create"):
            is_early = not event.context.calls() and self._in(block, event.site.node) is None
            if is_early and (event.kind != "create" or (event.result is not None and device_of(event.result) != "cpu")):
                raise NotPlain("something is on the GPU before the script's set-up begins")
        return tuple(found)

    def _name_device(self, node: cst.BaseExpression, found: dict[cst.SimpleString, None], depth: int = 0) -> None:
        if isinstance(node, cst.SimpleString) and isinstance(node.evaluated_value, str):
            if node.evaluated_value in ("cuda", "cpu", "cuda:0"):
                if node.evaluated_value == "cuda:0":
                    found[node] = None
                return
        elif isinstance(node, cst.IfExp):
            self._name_device(node.body, found, depth + 1)
            self._name_device(node.orelse, found, depth + 1)
            return
        elif isinstance(node, cst.Call) and qualified(self.model, node.func) == "torch.device" and len(node.args) == 1:
            self._name_device(node.args[0].value, found, depth + 1)
            return
        elif isinstance(node, cst.Name) and depth < 4 and (origins := self.origins.of(node)):
            for origin in origins:
                self._name_device(origin, found, depth + 1)
            return
        raise NotPlain("which device it runs on is chosen from outside")

    # -------------------------------------------------------------------- files

    def _writes(self, block: Suite, epochs: cst.For) -> Iterator[tuple[Statement, ...]]:
        statements: dict[Statement, None] = {}
        for call in self._calls():
            name = qualified(self.model, call.func)
            if name == "torch.load":
                line = self._in(block, call)
                if line is None or block.body.index(line) >= block.body.index(epochs):
                    raise NotPlain("a checkpoint may be loaded before it is saved")
            if name == "torch.save":
                self._refuse_pickled(call.args[0].value)
            if last_name(call.func) in _WRITERS and not self._only_reads(call):
                statements[self._writing(call)] = None
        yield from _runs(self.tree, list(statements))

    def _only_reads(self, call: cst.Call) -> bool:
        """Whether a call by a name that may write does not, or does no harm when all processes do it."""
        text = self.tree.text(call.func)
        if last_name(call.func) == "open" and (text == "open" or text.startswith("io.")):
            mode = next((arg.value for i, arg in enumerate(call.args) if (i == 1 and arg.keyword is None)
                         or (arg.keyword is not None and arg.keyword.value == "mode")), None)
            letters = literal(mode)
            return mode is None or (isinstance(letters, str) and set("wax+").isdisjoint(letters))
        if qualified(self.model, call.func) == "PIL.Image.open":
            return True
        exist_ok = any(arg.keyword is not None and arg.keyword.value == "exist_ok"
                       and self.tree.text(arg.value) == "True" for arg in call.args)
        return exist_ok or bool(_STREAMS.fullmatch(text))

    def _writing(self, call: cst.Call) -> Statement:
        """The statement that can be left to one process: it only writes."""
        for above in self.tree.ancestors(call):
            if isinstance(above, cst.With) and any(
                    isinstance(item.item, cst.Call) and last_name(item.item.func) == "open"
                    and not self._only_reads(item.item) for item in above.items):
                lines = [line.body[0] for line in above.body.body if isinstance(line, cst.SimpleStatementLine)]
                if len(lines) == len(above.body.body) and all(isinstance(line, cst.Expr) for line in lines):
                    return self._without_forward(above)
        statement = self.tree.statement(call)
        if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 and isinstance(
                self.tree.parent(statement), cst.Module | cst.IndentedBlock):
            line = statement.body[0]
            if isinstance(line, cst.Expr) and line.value is call:
                return self._without_forward(statement)
        raise NotPlain("it writes files in a way that one process cannot do")

    def _without_forward(self, statement: Statement) -> Statement:
        inside = set(walk(statement))
        if any(event.site.node in inside for event in self.events if event.kind in ("forward", "backward")):
            raise NotPlain("it runs the model while it writes")
        return statement

    def _refuse_pickled(self, saved: cst.BaseExpression) -> None:
        """A wrapper must not be saved itself: only its state can be loaded without processes."""
        for origin in (saved, *self.origins.of(saved)):
            for node in walk(origin):
                if not isinstance(node, cst.Name) or isinstance(self.tree.parent(node), cst.Attribute | cst.Call):
                    continue
                if self.event.site.node in {_unmoved(o) for o in self.origins.of(node)}:
                    raise NotPlain("it saves the wrapped model itself, not its state")


def batch_size(call: cst.Call) -> cst.Arg:
    """The argument by which a DataLoader's construction passes the batch size. Raises NotPlain."""
    return _argument(call, "batch_size", 1) or _no_batch_size()


def shuffle(call: cst.Call) -> cst.Arg | None:
    """The argument by which a DataLoader's construction says whether to shuffle."""
    return _argument(call, "shuffle", 2)


def _argument(call: cst.Call, name: str, position: int) -> cst.Arg | None:
    for index, arg in enumerate(call.args):
        if (arg.keyword is not None and arg.keyword.value == name) or (arg.keyword is None and index == position):
            return arg
    return None


def _no_batch_size() -> cst.Arg:
    raise NotPlain("its batches cannot be divided among processes")


def _drawn_from(loop: Loop) -> v.Value | None:
    if loop.iterable is None:
        return None
    return loop.iterable if is_loader(loop.iterable) else loop.iterable.flow.loader


def _is_range(iterable: v.Value | None) -> bool:
    if isinstance(iterable, v.External):
        return iterable.name == "builtins.range"
    return isinstance(iterable, v.Sequence) and (iterable.rest is not None or bool(iterable.items)) and all(
        isinstance(item, v.Number) or (isinstance(item, v.Const) and isinstance(item.value, int))
        for item in iterable.elements())


def _is_indexed(dataset: v.Value | None) -> bool:
    if isinstance(dataset, v.Sequence):
        return dataset.type in ("list", "tuple") and not dataset.generator
    if isinstance(dataset, v.External):
        iterable = knowledge.is_subclass(dataset.name, "torch.utils.data.IterableDataset")
        return knowledge.is_subclass(dataset.name, "torch.utils.data.Dataset") and not iterable
    if isinstance(dataset, v.Instance):
        cls = dataset.cls
        iterable = any(knowledge.is_subclass(base, "torch.utils.data.IterableDataset") for base in cls.external_bases)
        return not iterable and not cls.unknown_bases and cls.find("__getitem__") is not None \
            and cls.find("__len__") is not None
    return False


def _positional(node: cst.CSTNode) -> int:
    return sum(arg.keyword is None for arg in node.args) if isinstance(node, cst.Call) else 0


def _is_factor(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Integer | cst.Float | cst.Attribute | cst.Name)


def _root(node: cst.CSTNode) -> cst.BaseExpression | None:
    """What ``backward`` is called on."""
    func = node.func if isinstance(node, cst.Call) else None
    return func.value if isinstance(func, cst.Attribute) else None


def _unmoved(node: cst.CSTNode) -> cst.CSTNode:
    """The object without the methods that only move it."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _MOVES:
        node = node.func.value
    return node


def _runs(tree: Tree, statements: list[Statement]) -> Iterator[tuple[Statement, ...]]:
    """The statements in the order of the text, those that follow each other in one block together."""
    statements.sort(key=lambda statement: tree.offsets(statement)[0])
    run: list[Statement] = []
    for statement in statements:
        block = tree.parent(statement)
        body = list(block.body) if isinstance(block, cst.Module | cst.IndentedBlock) else []
        if run and not (tree.parent(run[-1]) is block and body.index(run[-1]) + 1 == body.index(statement)):
            yield tuple(run)
            run = []
        run.append(statement)
    if run:
        yield tuple(run)

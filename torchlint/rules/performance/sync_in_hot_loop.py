"""Reading a GPU tensor on the host in every training iteration makes both wait for each other.

What it does:
Reports explicit reads of tensors that are on an accelerator, when they happen in every iteration of a training loop:
`.item()`, `float(t)`, `int(t)`, `.cpu()`, `.tolist()`, and printing or formatting a tensor. A training loop
is one whose iteration runs `backward()` and steps an optimizer. Functions that the loop calls are followed.

Why is this bad:
CUDA kernels are queued: Python runs ahead and the GPU never waits for it. A read has to wait until everything queued
before is done, and then the GPU has nothing to do until Python has queued more. PyTorch's tuning guide asks to avoid
such synchronisations. Most are only there for logging.

What to do:
Keep running sums on the device (`total += loss.detach()`) and read them once an epoch, or read every N steps
(`if step % 100 == 0:`).

Limits:
Silent: reads behind an every-N guard, an option that is off by default or a test of the data; after the loop;
in validation (gradients off, evaluation mode, an inner loop over another loader); in a loop whose every pass also
evaluates; to check for NaN (`math.isfinite(loss.item())`); while acting in an environment; on
the host already; implicit synchronisations (`if tensor:`, boolean masks, `nonzero()`).

Fix safety:
There is no automatic fix. `loss.detach()` instead of `loss.item()` makes the running total a tensor, which the code
that prints, divides, compares, saves or sends it need not expect, and a list of tensors keeps device memory. How often
a value has to be logged, and whether a read decides what the loop does next, is the author's to say.

Evidence:
No measurement yet.

References:
- [Performance tuning guide: avoid unnecessary CPU-GPU synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
- [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torchlint.findings import Finding, Severity
from torchlint.rules.rule import Rule, Training
from torchlint.semantics.library import device_of
from torchlint.semantics.training import TrainingLoops

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Event

rule = Rule("TL106", since="0.1", names=("backward", "step"), triggers=(b"backward", b".step"), severity=Severity.HINT,
            training=Training(gpus=1, on_gpu_only="only a GPU works ahead of the program, and is waited for"))

rule.bad(
    """
    import torch

    def train(model, loader, criterion, optimizer):
        total = 0.0
        for images, labels in loader:
            images, labels = images.cuda(), labels.cuda()
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            #        ^^^^^^^^^^^
        print(total / len(loader))
    """
)
rule.bad(
    """
    import torch

    def accuracy(output, labels):
        return (output.argmax(1) == labels).sum().item()
        #      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    def train(loader):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = torch.nn.Linear(8, 2).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        criterion = torch.nn.CrossEntropyLoss()
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            output = model(x)
            loss = criterion(output, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            hits = accuracy(output, y)
            history = {"loss": float(loss)}
            #                  ^^^^^^^^^^^
            print(f"{step}: {loss:.3f}")
            #                ^^^^
    """,
    show=False,
)
rule.ok(
    """
    import torch

    def train(model, loader, criterion, optimizer):
        for step, (images, labels) in enumerate(loader):
            images, labels = images.cuda(), labels.cuda()
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                print(step, loss.item())
    """,
    why="it is read every 100 steps",
)
rule.ok(
    """
    import torch

    def train(model, loader, validation, criterion, optimizer):
        model.cuda()
        for epoch in range(10):
            total = torch.zeros((), device="cuda")
            for images, labels in loader:
                loss = criterion(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.detach()
            print(total.item())
            hits = 0
            with torch.no_grad():
                for images, labels in validation:
                    hits += (model(images.cuda()).argmax(1) == labels.cuda()).sum().item()
    """,
    why="once an epoch, and in validation",
)
rule.ok(
    """
    import torch

    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(100):
        loss = model(torch.randn(4, 8)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
    """,
    why="nothing is on a GPU",
)
rule.ok(
    """
    import time

    import torch

    def train(model, loader, criterion, optimizer, log_steps, verbose=False):
        last = time.time()
        for step, (images, labels) in enumerate(loader):
            loss = criterion(model(images.cuda()), labels.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if verbose:
                print(loss.item())
            if step in log_steps or step == len(loader) - 1:
                print(loss.item())
            if time.time() - last > 10:
                last = time.time()
                print(loss.item())
            if step % 50:
                continue
            print(loss.item())
    """,
    why="an option that is off, chosen steps, every ten seconds, every 50 steps",
    show=False,
)
rule.ok(
    """
    import torch

    def train(model, environment, optimizer):
        model.cuda()
        for episode in range(100):
            state, done, rewards = environment.reset(), False, []
            while not done:
                action = model(state.cuda()).argmax().item()
                state, reward, done = environment.step(action)
                rewards.append(reward)
            loss = model.loss(rewards)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    why="the environment needs the action on the host",
    show=False,
)
rule.ok(
    """
    import torch

    def train(model, target, environment, memory, optimizer):
        model.cuda()
        state = environment.reset()
        for step in range(1000):
            action = torch.argmax(model(torch.tensor(state, device="cuda")), dim=1).cpu().numpy()
            state, reward, done, info = environment.step(action)
            states, rewards = memory.sample(32)
            loss = (model(states) - rewards).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    why="the environment takes the action of every step",
    show=False,
)
rule.ok(
    """
    import torch

    def train(model, loader, criterion, optimizer):
        for images, labels, names in loader:
            loss = criterion(model(images.cuda()), labels.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            present = labels.sum().item(), names[0].item()
    """,
    why="the batch itself is still on the CPU",
    show=False,
)

@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    loops = TrainingLoops(model)
    lines = set()
    for site, events in model.by_site("sync") if loops and not model.is_test else ():
        line = site.span.start.line, site.span.start.cell
        event = next((e for e in events if _is_read(e) and loops.around(e)), None)
        if event is not None and line not in lines:
            lines.add(line)
            yield rule.at(
                site,
                f"{_read(event.data['how'])} waits for the GPU in every training iteration.",
                help="keep the value on the device with `.detach()` and read it once an epoch or every N steps.",
            )


def _is_read(event: Event) -> bool:
    """Whether the event reads an accelerator's tensor, other than for a check that must stop the training at once.

    ``numpy()`` does not: it fails for such tensors, so where it runs, the tensor is on the host.
    """
    wanted = event.data["explicit"] and event.data["how"] != ".numpy()" and "checked" not in event.used
    return wanted and event.subject is not None and device_of(event.subject) not in (None, "cpu")


def _read(how: str) -> str:
    return f"`{how}`" if how.endswith("()") else how[:1].upper() + how[1:]

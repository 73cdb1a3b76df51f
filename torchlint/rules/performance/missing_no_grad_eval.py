"""Evaluation with gradients on builds a graph that nobody uses.

What it does:
Reports forwards of an evaluation that autograd records although no backward pass uses their graph: nothing turns
gradients off there, neither `torch.no_grad`, `torch.inference_mode` or `torch.set_grad_enabled(False)`, nor a
decorator, nor any caller that is seen. What shows an evaluation is the module's eval mode, data of a test split, or an
output that is only detached, saved or turned into numbers.

Why is this bad:
Autograd keeps the activations of every layer until the output is gone. Without them a batch of evaluation takes a
fraction of the memory, larger batches fit, and the forward is a little faster. `model.eval()` does not turn gradients
off. The tuning guide asks to disable gradient calculation for validation and inference.

Limits:
Gradients that somebody wants make it silent: a backward, `torch.autograd.grad`, inputs that require gradients, outputs
that are returned to code that nobody sees. So does `.numpy()` without `.detach()`, which proves that gradients are off.

Fix safety:
Safe where the module is proven to be in eval mode: inside `torch.no_grad()` all values stay the same. Otherwise unsafe,
and so where code that nobody sees is given the output, as it might go backward from it. A function is decorated only if
nothing else that it returns or stores may carry a graph, such as a loss on a parameter or an argument; else what runs
the forward is wrapped alone. There is no fix where that would be a part of a statement, nor where TorchScript compiles
the function. It is unsafe for a module that holds `nn.TransformerEncoder`: without gradients, in eval mode, that takes
a faster path, which gives zeros for padding.

Evidence:
No measurement yet.

References:
- [Performance tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html),
  "Disable gradient calculation for validation or inference"
- [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.findings import Applicability, Finding, Fix
from torchlint.rules.rule import Rule, Training
from torchlint.semantics.autograd import Wasted, wasted_forwards
from torchlint.syntax.editing import decorate, reference, wrap_in_with
from torchlint.syntax.tree import walk

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.syntax.tree import Statement, Tree

rule = Rule("TL107", since="0.1",
            names=("eval", "detach", "data", "item", "numpy", "cpu", "tolist", "argmax", "save_image",
                   "script"),
            triggers=(b".eval", b".detach", b".data", b".item", b".numpy", b".cpu", b".tolist", b"argmax",
                      b"save_image"),
            training=Training(gains="memory"))

rule.bad(
    """
    import torch

    def evaluate(model: torch.nn.Module, loader):
        model.eval()
        correct = 0
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
    #                   ^^^^^^^^
        return correct
    """,
    fixed="""
    import torch

    @torch.no_grad()
    def evaluate(model: torch.nn.Module, loader):
        model.eval()
        correct = 0
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
        return correct
    """,
    applicability=Applicability.SAFE,
)
rule.bad(
    """
    import torch

    def train(net: torch.nn.Module, optimizer, train_loader, val_loader):
        for epoch in range(10):
            net.train()
            for x, y in train_loader:
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(net(x), y).backward()
                optimizer.step()
            net.eval()
            # how far are we?
            for x, y in val_loader:
                text = """ + "'''two\n    lines'''" + """
                print(text, (net(x) - y).abs().mean())
    #                        ^^^^^^
    """,
    fixed="""
    import torch

    def train(net: torch.nn.Module, optimizer, train_loader, val_loader):
        for epoch in range(10):
            net.train()
            for x, y in train_loader:
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(net(x), y).backward()
                optimizer.step()
            net.eval()
            # how far are we?
            with torch.no_grad():
                for x, y in val_loader:
                    text = """ + "'''two\n    lines'''" + """
                    print(text, (net(x) - y).abs().mean())
    """,
    applicability=Applicability.SAFE,
    show=False,
)
rule.bad(
    """
    from torch import nn, randn
    from torchvision.utils import save_image

    generator = nn.Sequential(nn.Linear(8, 64), nn.Tanh())

    def sample_images(step):
        z = randn(25, 8)
        images = generator(z)
    #            ^^^^^^^^^^^^
        save_image(images.data, f"{step}.png")
    """,
    fixed="""
    import torch
    from torch import nn, randn
    from torchvision.utils import save_image

    generator = nn.Sequential(nn.Linear(8, 64), nn.Tanh())

    @torch.no_grad()
    def sample_images(step):
        z = randn(25, 8)
        images = generator(z)
        save_image(images.data, f"{step}.png")
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    import torch as th

    net = th.load("net.pt")
    out = net(th.rand(1, 3, 8, 8))
    #     ^^^^^^^^^^^^^^^^^^^^^^^^
    picture = out[0].detach().numpy()
    """,
    fixed="""
    import torch as th

    net = th.load("net.pt")
    with th.no_grad():
        out = net(th.rand(1, 3, 8, 8))
    picture = out[0].detach().numpy()
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    import torch

    def validate(model, loader):
        model.eval()
        for x, y in loader:
            print(torch.nn.functional.mse_loss(model(x), y))
    #                                          ^^^^^^^^
    """,
    fixed="""
    import torch

    @torch.no_grad()
    def validate(model, loader):
        model.eval()
        for x, y in loader:
            print(torch.nn.functional.mse_loss(model(x), y))
    """,
    applicability=Applicability.SAFE,
    files={
        "main.py": """
        import torch
        from example import validate

        validate(torch.nn.Linear(2, 2), [])
        """
    },
    show=False,
)
rule.bad(
    """
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, batch_first=True), 2)

        def forward(self, x, mask):
            return self.encoder(x, src_key_padding_mask=mask).mean(1)

    def evaluate(loader):
        model = Tagger()
        model.eval()
        for x, mask, y in loader:
            print((model(x, mask) - y).abs().mean().item())
    #              ^^^^^^^^^^^^^^
    """,
    fixed="""
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, batch_first=True), 2)

        def forward(self, x, mask):
            return self.encoder(x, src_key_padding_mask=mask).mean(1)

    @torch.no_grad()
    def evaluate(loader):
        model = Tagger()
        model.eval()
        for x, mask, y in loader:
            print((model(x, mask) - y).abs().mean().item())
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    import torch

    def compare(model: torch.nn.Module, first, second):
        model.eval()
        with torch.no_grad():
            before = model(first).mean().item()
        after = model(second).mean().item()
        #       ^^^^^^^^^^^^^
        print(before - after)
    """,
    fixed="""
    import torch

    def compare(model: torch.nn.Module, first, second):
        model.eval()
        with torch.no_grad():
            before = model(first).mean().item()
        with torch.no_grad():
            after = model(second).mean().item()
        print(before - after)
    """,
    applicability=Applicability.SAFE,
    show=False,
)
rule.bad(
    """
    import torch

    async def score(model: torch.nn.Module, x):
        model.eval()
        print(model(x).mean().item())
    #         ^^^^^^^^

    def once(model: torch.nn.Module, x): model.eval(); print(model(x).mean().item())
    #                                                        ^^^^^^^^
    """,
    fixed="""
    import torch

    async def score(model: torch.nn.Module, x):
        model.eval()
        with torch.no_grad():
            print(model(x).mean().item())

    @torch.no_grad()
    def once(model: torch.nn.Module, x): model.eval(); print(model(x).mean().item())
    """,
    applicability=Applicability.SAFE,
    show=False,
)
rule.bad(
    """
    import torch

    try:
        def once(model: torch.nn.Module, x): model.eval(); print(model(x).mean().item())
    #                                                            ^^^^^^^^
    except ImportError:
        pass
    """,
    fixed="""
    import torch

    try:
        @torch.no_grad()
        def once(model: torch.nn.Module, x): model.eval(); print(model(x).mean().item())
    except ImportError:
        pass
    """,
    applicability=Applicability.SAFE,
    show=False,
)
rule.bad(
    """
    import torch

    async def serve(model: torch.nn.Module, queue):
        model.eval()
        while True:
            print(model(await queue.get()).mean().item())
    #             ^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    show=False,
)
rule.bad(
    """
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Prompt:
        def __init__(self, teacher: nn.Module):
            self.teacher = teacher
            self.prompt = nn.Parameter(torch.zeros(10))

        def loss(self, x):
            self.teacher.eval()
            target = self.teacher(x).detach()
    #                ^^^^^^^^^^^^^^^
            return F.mse_loss(self.prompt, target)

        def kept(self, image, x, losses):
            self.teacher.eval()
            target = self.teacher(x)
    #                ^^^^^^^^^^^^^^^
            target = target.detach()
            losses.append((image - target).abs().mean())
            self.last, image = image, image * 2
            self.twice = image

        def changed(self, image, x):
            self.teacher.eval()
            image += self.prompt
            print(self.teacher(x).mean().item())
    #             ^^^^^^^^^^^^^^^

        def noted(self, image, x):
            self.teacher.eval()
            self.note(image * 2)
            print(self.teacher(x).mean().item())
    #             ^^^^^^^^^^^^^^^

        def note(self, value):
            self.noted_value = value

        def later(self, image, x):
            self.teacher.eval()
            want = self.teacher(x).detach()
    #              ^^^^^^^^^^^^^^^

            def closure():
                return (image - want).abs().mean()

            return closure

        def score(self, x, y):
            self.teacher.eval()
            correct = (self.teacher(x).argmax(1) == y).sum()
    #                  ^^^^^^^^^^^^^^^
            return {"correct": correct.item(), "prompt": self.prompt}

    def regularized(net: nn.Module, prompt, train_loader, val_loader):
        net.eval()
        for x, y in val_loader:
            penalty = (prompt ** 2).sum()
            print(F.mse_loss(net(x), y).item())
    #                        ^^^^^^
        penalty.backward()
    """,
    fixed="""
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Prompt:
        def __init__(self, teacher: nn.Module):
            self.teacher = teacher
            self.prompt = nn.Parameter(torch.zeros(10))

        def loss(self, x):
            self.teacher.eval()
            with torch.no_grad():
                target = self.teacher(x).detach()
            return F.mse_loss(self.prompt, target)

        def kept(self, image, x, losses):
            self.teacher.eval()
            with torch.no_grad():
                target = self.teacher(x)
            target = target.detach()
            losses.append((image - target).abs().mean())
            self.last, image = image, image * 2
            self.twice = image

        def changed(self, image, x):
            self.teacher.eval()
            image += self.prompt
            with torch.no_grad():
                print(self.teacher(x).mean().item())

        def noted(self, image, x):
            self.teacher.eval()
            self.note(image * 2)
            with torch.no_grad():
                print(self.teacher(x).mean().item())

        def note(self, value):
            self.noted_value = value

        def later(self, image, x):
            self.teacher.eval()
            with torch.no_grad():
                want = self.teacher(x).detach()

            def closure():
                return (image - want).abs().mean()

            return closure

        @torch.no_grad()
        def score(self, x, y):
            self.teacher.eval()
            correct = (self.teacher(x).argmax(1) == y).sum()
            return {"correct": correct.item(), "prompt": self.prompt}

    def regularized(net: nn.Module, prompt, train_loader, val_loader):
        net.eval()
        for x, y in val_loader:
            penalty = (prompt ** 2).sum()
            with torch.no_grad():
                print(F.mse_loss(net(x), y).item())
        penalty.backward()
    """,
    applicability=Applicability.SAFE,
    show=False,
)
rule.bad(
    """
    import torch
    from torch import nn
    from torch.jit import ignore

    class Scorer(nn.Module):
        def __init__(self, net: nn.Module):
            super().__init__()
            self.net = net
            self.weight = nn.Parameter(torch.ones(3))

        @torch.jit.export
        def score(self, x):
            self.net.eval()
            print(self.net(x).mean().item())
    #             ^^^^^^^^^^^

        @ignore(drop=True)
        def report(self, x):
            self.net.eval()
            print(self.net(x).mean().item())
    #             ^^^^^^^^^^^

    class Compiled(nn.Module):
        def show(self, net: nn.Module, x):
            net.eval()
            print(net(x).mean().item())
    #             ^^^^^^

    def distance(net: nn.Module, image, x):
        net.eval()
        return (image - net(x).detach()).abs().mean()
    #                   ^^^^^^

    compiled = torch.jit.script(Compiled())
    """,
    show=False,
)
rule.bad(
    """
    import torch

    def evaluate(model: torch.nn.Module, x, y):
        model.eval()
        return torch.nn.functional.mse_loss(model(x), y)
    #                                       ^^^^^^^^
    """,
    fixed="""
    import torch

    @torch.no_grad()
    def evaluate(model: torch.nn.Module, x, y):
        model.eval()
        return torch.nn.functional.mse_loss(model(x), y)
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    import torch

    class Predictor:
        def run(self, model, dataset):
            model.eval()
            labels = []
            for batch in torch.utils.data.DataLoader(dataset):
                self(batch, model, labels)
    #           ^^^^^^^^^^^^^^^^^^^^^^^^^^
            return labels

        def __call__(self, batch, model, labels):
            labels.append(model(batch).argmax(1).cpu())
    """,
    fixed="""
    import torch

    class Predictor:
        @torch.no_grad()
        def run(self, model, dataset):
            model.eval()
            labels = []
            for batch in torch.utils.data.DataLoader(dataset):
                self(batch, model, labels)
            return labels

        def __call__(self, batch, model, labels):
            labels.append(model(batch).argmax(1).cpu())
    """,
    applicability=Applicability.SAFE,
    show=False,
)
rule.bad(
    """
    import torch
    from torch import nn

    net = nn.Linear(3, 1)

    def rmse(loader):
        errors = []
        for x, y in loader:
            errors.append(nn.functional.mse_loss(net(x), y, reduction="none").cpu())
    #                                            ^^^^^^
        return float(torch.cat(errors).mean().sqrt())
    """,
    fixed="""
    import torch
    from torch import nn

    net = nn.Linear(3, 1)

    @torch.no_grad()
    def rmse(loader):
        errors = []
        for x, y in loader:
            errors.append(nn.functional.mse_loss(net(x), y, reduction="none").cpu())
        return float(torch.cat(errors).mean().sqrt())
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    import torch

    def score(model: torch.nn.Module, loader):
        def pieces(logits):
            yield from logits.split(16)

        model.eval()
        total = 0.0
        for x in loader:
            logits = model(x)
    #                ^^^^^^^^
            for piece in pieces(logits):
                total += piece.softmax(1).amax().item()
        print(total)
    """,
    fixed="""
    import torch

    @torch.no_grad()
    def score(model: torch.nn.Module, loader):
        def pieces(logits):
            yield from logits.split(16)

        model.eval()
        total = 0.0
        for x in loader:
            logits = model(x)
            for piece in pieces(logits):
                total += piece.softmax(1).amax().item()
        print(total)
    """,
    applicability=Applicability.SAFE,
    show=False,
)
rule.bad(
    """
    import torch

    class Searcher:
        def __init__(self, model):
            self.model = model

        def search(self, loader):
            self.model.eval()
            for x in loader:
                print(self.model.encode(x).argmax(1))
    #                 ^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import torch

    class Searcher:
        def __init__(self, model):
            self.model = model

        @torch.no_grad()
        def search(self, loader):
            self.model.eval()
            for x in loader:
                print(self.model.encode(x).argmax(1))
    """,
    applicability=Applicability.SAFE,
    files={
        "main.py": """
        import torch
        from torch import nn
        from example import Searcher

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder = nn.Linear(3, 3)

            def encode(self, x):
                return self.encoder(x)

        if __name__ == "__main__":
            Searcher(Net()).search([torch.ones(1, 3)])
        """,
        "train.py": """
        import torch
        from example import Searcher
        from main import Net

        if __name__ == "__main__":
            torch.set_grad_enabled(True)
            Searcher(Net()).search([torch.ones(1, 3)])
        """,
    },
    show=False,
)
rule.bad(
    """
    import torch

    class Scorer:
        def score(self, model, x):
            model.eval()
            print(model(x).argmax(1))
    #             ^^^^^^^^
    """,
    fixed="""
    import torch

    class Scorer:
        @torch.no_grad()
        def score(self, model, x):
            model.eval()
            print(model(x).argmax(1))
    """,
    applicability=Applicability.SAFE,
    files={
        "main.py": """
        import torch
        from example import Scorer

        def demo():
            Scorer().score(torch.nn.Linear(3, 3), torch.ones(1, 3))
        """,
        "task.py": """
        import torch

        def infer(scorer, model, x):
            with torch.no_grad():
                scorer.score(model, x)
        """,
    },
    show=False,
)
rule.bad(
    """
    import torch

    def progress(model, optimizer, x, y):
        model.train()
        model(x).sum().backward()
        optimizer.step()
        output = model(x)
    #            ^^^^^^^^
        probabilities = model.probabilities(output).cpu().detach()
        print((probabilities.argmax(1) == y).float().mean())
    """,
    fixed="""
    import torch

    def progress(model, optimizer, x, y):
        model.train()
        model(x).sum().backward()
        optimizer.step()
        with torch.no_grad():
            output = model(x)
        probabilities = model.probabilities(output).cpu().detach()
        print((probabilities.argmax(1) == y).float().mean())
    """,
    applicability=Applicability.UNSAFE,
    files={
        "net.py": """
        from torch import nn

        class Net(nn.Module):
            def probabilities(self, output):
                return output.softmax(-1)

            def loss(self, output):
                self.probabilities(output).sum().backward()
        """
    },
    show=False,
)
rule.bad(
    """
    import torch

    class Epoch:
        def __init__(self, loader):
            self.model = None
            self.loader = loader

        def use(self, model):
            self.model = model

        def run(self):
            self.model.eval()
            self.pass_over(self.loader)

    class Validation(Epoch):
        def pass_over(self, loader):
            for x in loader:
                self.step(x)
    #           ^^^^^^^^^^^^

        def step(self, x):
            print(self.model(x).argmax(1))
    """,
    show=False,
)
rule.bad(
    """
    import torch
    from torch import nn

    net = nn.Sequential(nn.Linear(3, 1), nn.Sigmoid())

    def test(loader):
        right = 0
        for x, y in loader:
            mistakes = net(x).round() != y
    #                  ^^^^^^
            right += (mistakes == 0).sum().item()
        return right
    """,
    fixed="""
    import torch
    from torch import nn

    net = nn.Sequential(nn.Linear(3, 1), nn.Sigmoid())

    @torch.no_grad()
    def test(loader):
        right = 0
        for x, y in loader:
            mistakes = net(x).round() != y
            right += (mistakes == 0).sum().item()
        return right
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.kernel = nn.Parameter(torch.Tensor(width, width))

        def forward(self, x):
            return torch.mm(x, self.kernel)

    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.first = Layer(width)
            self.last = Layer(width)

        def forward(self, x):
            return self.last(self.first(x).relu())

    def test(loader):
        net = Net(8)
        net.eval()
        for x, y in loader:
            print(nn.functional.cross_entropy(net(x), y).item())
    #                                         ^^^^^^
    """,
    fixed="""
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.kernel = nn.Parameter(torch.Tensor(width, width))

        def forward(self, x):
            return torch.mm(x, self.kernel)

    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.first = Layer(width)
            self.last = Layer(width)

        def forward(self, x):
            return self.last(self.first(x).relu())

    @torch.no_grad()
    def test(loader):
        net = Net(8)
        net.eval()
        for x, y in loader:
            print(nn.functional.cross_entropy(net(x), y).item())
    """,
    applicability=Applicability.SAFE,
    show=False,
)
rule.ok(
    """
    import torch

    def evaluate(model: torch.nn.Module, loader):
        model.eval()
        with torch.no_grad():
            return sum(model(x).sum().item() for x in loader)
    """,
    why="gradients are off",
)
rule.ok(
    """
    import torch

    def saliency(model: torch.nn.Module, image):
        model.eval()
        image.requires_grad_()
        model(image).max().backward()
        return image.grad
    """,
    why="the gradients are what is asked for",
)
rule.ok(
    """
    import torch

    def evaluate(model, loader):
        model.eval()
        for x, y in loader:
            print((model(x) - y).abs().mean())
    """,
    why="the caller turns gradients off",
    files={
        "main.py": """
        import torch
        from example import evaluate

        def main(loader):
            model = torch.nn.Linear(2, 2)
            with torch.inference_mode():
                evaluate(model, loader)

        if __name__ == "__main__":
            main([])
        """
    },
)
rule.ok(
    """
    import contextlib
    import torch

    @contextlib.contextmanager
    def evaluating(model):
        with torch.no_grad():
            model.eval()
            yield

    def test(model: torch.nn.Module, loader):
        with evaluating(model):
            for x in loader:
                print(model(x).mean().item())

    def test_too(model: torch.nn.Module, loader):
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            model.eval()
            for x in loader:
                print(model(x).mean().item())
    """,
    why="context managers of the project and of ExitStack turn gradients off",
    show=False,
)
rule.ok(
    """
    import torch

    def run(model: torch.nn.Module, optimizer, loaders):
        for phase in ["train", "val"]:
            model.train(phase == "train")
            for x, y in loaders[phase]:
                with torch.set_grad_enabled(phase == "train"):
                    loss = torch.nn.functional.mse_loss(model(x), y)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                print(loss.item())
    """,
    why="gradients are on in training only",
    show=False,
)
rule.ok(
    """
    import torch

    def embed(model: torch.nn.Module, x):
        model.eval()
        return model(x).numpy()

    def smoke():
        net = torch.nn.Linear(3, 3).eval()
        net(torch.randn(2, 3))

    def extract(model: torch.nn.Module, x):
        return model(x)

    def batches(model: torch.nn.Module, loader):
        model.eval()
        for x in loader:
            yield model(x)
    """,
    why="`numpy()` proves that gradients are off, a smoke test evaluates nothing, the others hand graphs out",
    show=False,
)
rule.ok(
    """
    import torch
    from pytorch_lightning import LightningModule

    class Classifier(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(3, 3)

        def validation_step(self, batch, index):
            self.net.eval()
            print(self.net(batch).mean().item())
    """,
    why="Lightning calls this hook without gradients",
    show=False,
)
rule.ok(
    """
    import torch

    def adapt(model: torch.nn.Module, teacher: torch.nn.Module, optimizer, loader):
        teacher.eval()
        teacher.requires_grad_(False)
        model.eval()  # the statistics of batch norm stay
        for x in loader:
            loss = (model(x) - teacher(x)).abs().mean()
            loss.backward()
            optimizer.step()
            print(loss.item())
    """,
    why="training in eval mode, and a frozen teacher records no graph",
    show=False,
)

rule.ok(
    """
    import torch

    def sample_logits(embedding, ids):
        return (embedding(ids) ** 2).sum()

    if __name__ == "__main__":
        print(sample_logits(torch.nn.Embedding(9, 3), torch.tensor([1])).detach())
    """,
    why="another file trains with the function that is tried out here",
    files={
        "net.py": """
        import torch
        from example import sample_logits

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.words = torch.nn.Embedding(9, 3)

            def forward(self, ids):
                return sample_logits(self.words, ids)
        """
    },
    show=False,
)
rule.ok(
    """
    import torch

    def evaluation():
        @torch.no_grad()
        def evaluate(model: torch.nn.Module, loader):
            model.eval()
            for x, y in loader:
                print((model(x) - y).abs().mean())

        return evaluate
    """,
    why="a function inside of another one turns gradients off",
    show=False,
)
rule.ok(
    """
    import torch

    class Scorer:
        def score(self, model, x):
            model.eval()
            print(model(x).argmax(1))
    """,
    why="the scorer that runs without gradients may be this one",
    files={
        "task.py": """
        import torch

        def infer(scorer, model, x):
            with torch.no_grad():
                scorer.score(model, x)
        """,
    },
    show=False,
)
rule.ok(
    """
    import torch
    from torch import nn

    net = nn.Linear(3, 1)

    class Meter:
        def __init__(self):
            self.losses = []

        def add(self, x, y):
            loss = nn.functional.mse_loss(net(x), y)
            self.losses.append(loss)
            print(loss.item())

    def train(optimizer, loader):
        losses = []
        for x, y in loader:
            losses.append(nn.functional.mse_loss(net(x), y))
            print(losses[-1].item())
        torch.stack(losses).sum().backward()
        optimizer.step()
    """,
    why="what a list holds may be trained with later",
    show=False,
)
rule.ok(
    """
    import torch

    def export(model: torch.nn.Module, x):
        model.eval()
        model(x)
        return torch.jit.trace(model, x)
    """,
    why="the forward warms a trace up",
    show=False,
)


rule.ok(
    """
    import torch

    def learn(model, x):
        model.train()
        output = model(x)
        print(model.learn(output).detach())

    def unseen(model, x):
        model.train()
        output = model(x)
        print(model.nobody_knows(output).detach())

    def other(model, critic, x):
        model.train()
        output = model(x)
        print(critic.judge(output).detach())
    """,
    files={
        "net.py": """
        from torch import nn

        class Net(nn.Module):
            def learn(self, output):
                loss = output.sum()
                loss.backward()
                return loss

            def judge(self, output):
                return output.mean()
        """
    },
    why="the model's own method goes backward, is not seen, or is another object's",
    show=False,
)
rule.ok(
    """
    import torch
    from torch import nn

    class Fixed(nn.Module):
        def __init__(self, kernel):
            super().__init__()
            self.kernel = nn.Parameter(kernel, requires_grad=False)
            self.shift = nn.Buffer(torch.zeros(3))

        def forward(self, x):
            return torch.mm(x, self.kernel) + self.shift

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Fixed(torch.ones(3, 3))
            self.last = Fixed(torch.ones(3, 3))

        def forward(self, x):
            return self.last(self.first(x))

    def test(loader):
        net = Twice()
        net.eval()
        for x in loader:
            print(net(x).mean().item())
    """,
    why="no parameter wants a gradient, so nothing is recorded",
    show=False,
)
rule.ok(
    """
    import torch

    class Epoch:
        def run(self, model: torch.nn.Module):
            model.train()
            self.pass_over(model)

        def see(self, model: torch.nn.Module, x):
            output = model(x)
            assert output.size() == x.size() and output.dim() == 2

    class Training(Epoch):
        def pass_over(self, model):
            for x in self.loader:
                loss = model(x).mean()
                loss.backward()
                print(loss.item() < 1)
    """,
    why="a subclass trains, and a size is no value",
    show=False,
)


@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    for wasted in wasted_forwards(model):
        yield rule.at(
            wasted.first,
            "Autograd records this forward although no backward uses its graph.",
            help="evaluate under `torch.no_grad()`; `eval()` does not turn gradients off.",
            fix=_without_gradients(model.tree, wasted),
        )


def _without_gradients(tree: Tree, wasted: Wasted) -> Fix | None:
    named = reference(tree, "torch.no_grad", wasted.first.node)
    if named is None:
        return None
    name, edits = named
    whole = [statement for region in wasted.regions for statement in region]
    function = wasted.function or _on_one_line(tree, wasted, whole)
    decorated = decorate(tree, function, f"{name}()") if function is not None else []
    if function is not None and function.asynchronous is not None:
        decorated = []  # a decorator would only see the coroutine being made
        if function in whole or any(map(_awaits, whole)):
            return None
    change = decorated
    if not decorated or _turns_off(tree, function):
        wrapped = [wrap_in_with(tree, region, f"with {name}():") for region in wasted.regions]
        change = [edit for edits in wrapped if edits for edit in edits] if all(wrapped) else decorated
    if not change:
        return None
    safety = Applicability.SAFE if wasted.proven else Applicability.UNSAFE
    return Fix(f"Turn gradients off with `{name}()`", safety, (*edits, *change))


def _on_one_line(tree: Tree, wasted: Wasted, statements: list[Statement]) -> cst.FunctionDef | None:
    """The function that is the statement to wrap, or lies in it, as its body stands on its own line."""
    around = next((node for node in tree.ancestors(wasted.first.node) if isinstance(node, cst.FunctionDef)), None)
    if around is None or {around, *tree.ancestors(around)}.isdisjoint(statements):
        return None
    return around


def _turns_off(tree: Tree, function: cst.FunctionDef | None) -> bool:
    """Whether the function does so itself for another part, in a `with`."""
    headers = [node.items for node in walk(function.body) if isinstance(node, cst.With)] if function is not None else []
    return any("no_grad" in tree.text(item) for items in headers for item in items)


def _awaits(statement: Statement) -> bool:
    """Whether other coroutines run in between, which would lose their gradients too."""
    return any(isinstance(node, cst.Await) for node in walk(statement))

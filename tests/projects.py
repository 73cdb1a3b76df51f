"""Projects whose files' findings hang on each other, and random edits of them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

CONTENTS = {
    "train.py": [
        """
        import torch
        from engine import validate, fit
        from data.loaders import get_loader
        from models import Net
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        loader = get_loader(64)
        for epoch in range(3):
            fit(model, loader, optimizer, scheduler)
            validate(model, loader)
        """,
        """
        import torch
        import engine
        from data import get_loader
        from models.net import Net
        model = Net().cuda()
        with torch.no_grad():
            engine.validate(model, get_loader(1))
        """,
        """
        import torch
        from engine import *
        from helpers import validate as check_it
        from models import make
        model = make(3)
        loader = torch.utils.data.DataLoader([1, 2])
        for _ in range(2):
            check_it(model, loader)
        """,
        "import torch\n",
        "print('nothing here')\n",
    ],
    "engine.py": [
        """
        import torch
        def validate(model, loader):
            model.eval()
            total = 0
            for x, y in loader:
                total += torch.nn.functional.cross_entropy(model(x), y).item()
            return total
        def fit(model, loader, optimizer, scheduler):
            for x, y in loader:
                scheduler.step()
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
        """,
        """
        import torch
        from helpers import validate
        def fit(model, loader, optimizer, scheduler):
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            scheduler.step()
        """,
        """
        import torch
        @torch.no_grad()
        def validate(model, loader):
            model.eval()
            return sum(model(x).sum().item() for x, y in loader)
        """,
    ],
    "helpers.py": [
        """
        import torch
        def validate(model, loader):
            model.eval()
            for x, y in loader:
                print(model(x).argmax(1).eq(y).sum().item())
        """,
        "def validate(model, loader):\n    return 0\n",
        "from engine import fit\nfrom models import *\n",
    ],
    "models/net.py": [
        """
        import torch
        from torch import nn
        from .layers import conv
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.stem = nn.Conv2d(3, 3, 1)
                self.conv = conv(3, 8)
                self.bn = nn.BatchNorm2d(8)
            def forward(self, x):
                return self.bn(self.conv(self.stem(x)))
        """,
        """
        from torch import nn
        from models.base import Base
        class Net(Base):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(3, 8, 3)
        """,
        """
        from torch import nn
        def make(n):
            return nn.Sequential(nn.Conv2d(n, 8, 3), nn.BatchNorm2d(8))
        """,
    ],
    "models/base.py": [
        """
        from torch import nn
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.bn = nn.BatchNorm2d(8)
            def forward(self, x):
                return self.bn(self.conv(x))
        """,
        """
        from torch import nn
        class Base(nn.Module):
            def forward(self, x):
                return self.conv(x)
        """,
    ],
    "models/layers.py": [
        "from torch import nn\ndef conv(a, b):\n    return nn.BatchNorm2d(b)\n",
        "from torch import nn\ndef conv(a, b):\n    return nn.Conv2d(a, b, 3)\n",
        "from torch import nn\ndef conv(a, b):\n    return nn.Conv2d(a, b, 3, bias=False)\n",
        "from torch.nn import Conv2d as conv\n",
    ],
    "models/__init__.py": [
        "", "from .net import Net\nfrom .base import Base\n", "from .net import Net\n",
        "from .net import *\nfrom .layers import conv\n",
    ],
    "data/loaders.py": [
        """
        import torch
        from torch.utils.data import DataLoader
        class Numbers(torch.utils.data.Dataset):
            def __len__(self):
                return 9
            def __getitem__(self, i):
                return torch.load(f"{i}.pt"), i
        def get_loader(size, workers=0):
            return DataLoader(Numbers(), batch_size=size, num_workers=workers)
        """,
        """
        from torch.utils.data import DataLoader
        def get_loader(size):
            return DataLoader(open("x"), size, num_workers=4)
        """,
    ],
    "data/__init__.py": ["", "from data.loaders import get_loader\n"],
    "tools/run.py": [
        """
        import sys
        sys.path.append("..")
        import torch
        from loaders import get_loader
        from engine import validate
        for batch in get_loader(8, workers=0):
            batch[0].cuda()
        def main(model):
            with torch.no_grad():
                validate(model, get_loader(2))
        """,
        "import torch\nfrom engine import (\n",
    ],
    "requirements.txt": ["torch>=2.0\n", "torch==1.4\n", "numpy\n"],
}
"""What each file may hold; ``None`` in a project stands for no file."""


def make(folder: Path, generator: random.Random) -> None:
    """A project with most of the files."""
    write(folder / "pyproject.toml", "[project]\nname = 'project'\n")
    for name in CONTENTS:
        if generator.random() < 0.8:
            write(folder / name, generator.choice(CONTENTS[name]))


def write(path: Path, text: str) -> None:
    """Write a file, and the folders above it."""
    lines = text.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line[indent:]}\n" for line in lines), encoding="utf-8")


def edit(folder: Path, generator: random.Random) -> str:
    """One edit of a project, and what it was."""
    name = generator.choice(list(CONTENTS))
    path = folder / name
    kind = generator.choice(["write", "write", "write", "delete", "rename", "append", "folder", "foreign", "touch"])
    if kind == "write":
        write(path, generator.choice(CONTENTS[name]))
    elif kind == "delete":
        path.unlink(missing_ok=True)
    elif kind == "rename" and path.exists():
        path.rename(path.with_name(generator.choice(["loaders.py", "helpers.py", "net.py", "other.py"])))
    elif kind == "append" and path.exists():
        with path.open("a", encoding="utf-8") as file:
            file.write(generator.choice(["\n", "x = 1\n", "import torch\n", "def validate(net):\n    return net\n"]))
    elif kind == "folder":
        moved, there = (folder / part for part in generator.choice([("models", "nets"), ("nets", "models")]))
        if moved.is_dir() and not there.exists():
            moved.rename(there)
        elif generator.random() < 0.2:
            shutil.rmtree(moved, ignore_errors=True)
    elif kind == "foreign":
        write(folder / generator.choice(["torch.py", "src/engine.py", "models/engine.py", "data/engine/__init__.py"]),
              generator.choice(CONTENTS["engine.py"]))
    elif kind == "touch" and path.exists():
        path.touch()
    return f"{kind} {name}"

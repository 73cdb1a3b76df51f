"""A made-up monorepo: many packages of ordinary code, a few that train models.

    python -m tests.benchmarks.monorepo FOLDER --files 100000

One package in six trains: its loader, model, engine and script lie in files of their own and import
each other by the monorepo's absolute names, with a mistake here and there. Everything follows from a seed.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

FILES_IN_PACKAGE = 25
ONE_IN = 6

LOADERS = '''\
import torch
from torch.utils.data import DataLoader, Dataset


class {Name}Dataset(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.load(self.paths[index])


def {name}_loader(paths, batch_size=32, workers={workers}):
    return DataLoader({Name}Dataset(paths), batch_size=batch_size, num_workers=workers)
'''
MODEL = '''\
from torch import nn


class {Name}Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv = nn.Conv2d(3, {width}, 3{bias})
        self.bn = nn.BatchNorm2d({width})
        self.head = nn.Linear({width}, classes)

    def forward(self, x):
        return self.head(self.bn(self.conv(x)).mean((2, 3)))


def build_{name}(classes):
    return {Name}Net(classes)
'''
ENGINE = '''\
import torch
from torch import nn


def train_{name}(model, loader, optimizer, device):
    model.train()
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


{decorator}def evaluate_{name}(model, loader, device):
    model.eval()
    correct = 0
    for images, labels in loader:
        correct += (model(images.to(device)).argmax(1) == labels.to(device)).sum().item()
    return correct
'''
SCRIPT = '''\
import torch

from {package}.engine import evaluate_{name}, train_{name}
from {package}.loaders import {name}_loader
from {package}.net import build_{name}


def main():
    device = torch.device("cuda")
    model = build_{name}(10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
    loader = {name}_loader(["a.pt", "b.pt"])
    for epoch in range(90):
{steps}        evaluate_{name}(model, loader, device)


if __name__ == "__main__":
    main()
'''
PLAIN = '''\
"""Service {number} of {package}."""

import json
import logging

from {other} import helper_{other_number}

logger = logging.getLogger(__name__)


class Client{number}:
    def __init__(self, url, timeout=10):
        self.url = url
        self.timeout = timeout

    def fetch(self, key):
        logger.info("fetching %s", key)
        return json.loads(helper_{other_number}(self.url, key))

    def validate(self, record):
        return bool(record.get("id"))


def helper_{number}(url, key):
    parts = [url.rstrip("/"), str(key)]
    return "/".join(parts)


'''
MORE = '''

def total_{number}_{part}(rows):
    """The sum over the rows that count, of part {part}."""
    result = 0
    for row in rows:
        if row.get("price") and row.get("part") == {part}:
            logger.debug("row %s counts", row.get("id"))
            result += row["price"] * row.get("count", 1)
    return result
'''


def make(folder: Path, files: int, seed: int = 0) -> None:
    """Write a monorepo of about so many Python files."""
    generator = random.Random(seed)
    (folder / "company").mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[project]\nname = 'company'\n", encoding="utf-8")
    packages = [f"company.team{number // 40}.package{number}" for number in range(max(1, files // FILES_IN_PACKAGE))]
    for number, package in enumerate(packages):
        place = folder.joinpath(*package.split("."))
        place.mkdir(parents=True)
        (place / "__init__.py").write_text("", encoding="utf-8")
        trains = number % ONE_IN == 0
        if trains:
            _training(place, package, f"model{number}", generator)
        for service in range(FILES_IN_PACKAGE - (5 if trains else 1)):
            other = generator.choice(packages)
            text = PLAIN.format(number=service, package=package, other=f"{other}.service0", other_number=0)
            text += "".join(MORE.format(number=service, part=part) for part in range(generator.randrange(2, 20)))
            (place / f"service{service}.py").write_text(text, encoding="utf-8")


def _training(place: Path, package: str, name: str, generator: random.Random) -> None:
    steps = ["        train_{name}(model, loader, optimizer, device)\n", "        scheduler.step()\n"]
    if generator.random() < 0.1:
        steps.reverse()
    given = {
        "name": name, "Name": name.title(), "package": package, "width": generator.choice([16, 32, 64]),
        "workers": generator.choice([0, 2, 4, 8]), "bias": generator.choice([", bias=False", ", bias=False", ""]),
        "decorator": generator.choice(["@torch.no_grad()\n", "@torch.no_grad()\n", ""]),
    }  # fmt: skip
    given["steps"] = "".join(steps).format(**given)
    for file, text in (("loaders", LOADERS), ("net", MODEL), ("engine", ENGINE), ("train", SCRIPT)):
        (place / f"{file}.py").write_text(text.format(**given), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=100_000)
    arguments = parser.parse_args()
    make(arguments.folder, arguments.files)

"""Which scripts the fix of ``data-parallel`` rewrites: all of a script or nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import Project
from torchlint.findings import Applicability
from torchlint.rules.distributed.data_parallel import rule

SCRIPT = '''\
import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __init__(self, count, seed, download=False):
        generator = torch.Generator().manual_seed(seed)
        self.points = torch.randn(count, 8, generator=generator)
        self.labels = torch.randint(0, 3, (count,), generator=generator)

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        return self.points[index], self.labels[index], index


def train(model, loader, criterion, optimizer, device, epoch):
    model.train()
    for step, (points, labels, indices) in enumerate(loader):
        points, labels = points.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(points), labels)
        loss.backward()
        optimizer.step()
        print(f"step {epoch} {step} {loss.item():.9f} {indices.tolist()} of {len(loader.dataset)}", flush=True)


def evaluate(model, loader, device, epoch):
    model.eval()
    hits = 0
    with torch.no_grad():
        for points, labels, _ in loader:
            hits += (model(points.to(device)).argmax(1) == labels.to(device)).sum().item()
    accuracy = hits / len(loader.dataset)
    print(f"accuracy {epoch} {accuracy:.6f}", flush=True)
    return accuracy


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
    model = nn.DataParallel(model)
    model.to(device)
    train_set = Points(64, 1, download=True)
    test_set = Points(30, 2, download=True)
    train_loader = DataLoader(train_set, batch_size=16, shuffle=SHUFFLE)
    test_loader = DataLoader(test_set, batch_size=16)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for epoch in range(3):
        train(model, train_loader, criterion, optimizer, device, epoch)
        accuracy = evaluate(model, test_loader, device, epoch)
        with open("log.txt", "a") as log:
            log.write(f"{epoch} {accuracy}\\n")
    if not os.path.isdir("checkpoints"):
        os.mkdir("checkpoints")
    torch.save(model.module.state_dict(), "checkpoints/last.pt")


if __name__ == "__main__":
    main()
'''
"""A plain script; ``SHUFFLE`` stands for whether its training loader shuffles."""

WRAP = "    model = nn.DataParallel(model)\n"
LOSS = "criterion(model(points), labels)"
LOOP = "    for epoch in range(3):\n"
STEP = "        loss.backward()\n"

REFUSED = {
    "a loss that is a sum": ("its loss is not a mean", "Loss()", 'Loss(reduction="sum")'),
    "a function of a name": ("it names `input`: one process may", LOSS, f"{LOSS}; (lambda input: input)(1)"),
    "a sum by hand": ("its loss is not seen to be a mean", LOSS, "(model(points)[:, 0] - labels).pow(2).sum()"),
    "an unknown loss": ("its loss is not seen to be a mean", LOSS, "my_loss(model(points), labels)"),
    "two forwards": ("training does not run", LOSS, f"{LOSS} + {LOSS}"),
    "the module inside": ("it runs the module inside", "model(points), labels)", "model.module(points), labels)"),
    "two optimizers": ("one optimizer", LOOP, f"    other = torch.optim.SGD(criterion.parameters(), lr=1)\n{LOOP}"),
    "two wrappers": ("several places", WRAP, f"{WRAP}    other = nn.DataParallel(nn.Linear(2, 2))\n"),
    "some of the GPUs": ("it chooses its GPUs", "nn.DataParallel(model)", "nn.DataParallel(model, device_ids=[1, 2])"),
    "GPUs by name": ("it chooses its GPUs", "nn.DataParallel(model)", "nn.DataParallel(model, device_ids=gpus)"),
    "another dimension": ("it chooses its GPUs", "nn.DataParallel(model)", "nn.DataParallel(model, dim=1)"),
    "another GPU": ("which device", '"cuda:0"', '"cuda:1"'),
    "a device from outside": ("which device", 'torch.device("cuda:0" if torch.cuda.is_available() else "cpu")',
                              'os.environ["DEVICE"]'),
    "a numbered GPU": ("it chooses the GPU", "model.to(device)", "model.cuda(0)"),
    "no GPU": ("on a GPU", "    model.to(device)\n", ""),
    "another condition": ("a condition of its own", WRAP, f"    if os.environ.get('MANY'):\n    {WRAP}"),
    "the number of GPUs": ("the number of GPUs", WRAP, f"{WRAP}    lr = 0.1 * torch.cuda.device_count()\n"),
    "another name": ("without its wrapper", WRAP, "    net = nn.DataParallel(model)\n"),
    "early stopping": ("stop early", "        with open(",
                       "        if accuracy > 0.9:\n            break\n        with open("),
    "skipped batches": ("stop early", STEP, f"        if step == 3:\n            continue\n{STEP}"),
    "steps by the data": ("depends on the data", STEP, f"        if loss.item() < 100:\n    {STEP}"),
    "a saved wrapper": ("it saves the wrapped model", "torch.save(model.module.state_dict()", "torch.save(model"),
    "a wrapper in a dict": ("it saves the wrapped model", "save(model.module.state_dict()", 'save({"model": model}'),
    "a random split": ("split the data", "    train_loader =",
                       "    train_set, _ = torch.utils.data.random_split(train_set, [60, 4])\n    train_loader ="),
    "a stream": ("not known to be indexed", "(Dataset)", "(torch.utils.data.IterableDataset)"),
    "a logger": ("logger", LOOP, f"    from torch.utils.tensorboard import SummaryWriter\n{LOOP}"),
    "another package": ("`wandb`", "import os\n", "import os\nimport wandb\n"),
    "an open file": ("it writes files", LOOP, f"    log = open('all.txt', 'w')\n{LOOP}"),
    "several processes": ("several processes", "import os\n", "import os\nimport torch.distributed as dist\n"),
    "the batch size": ("its batch size", "batch_size=16, shuffle", "batch_size=int(16), shuffle"),
    "the dataset's size": ("training dataset's size", LOOP, f"{LOOP}        rest = 3 / len(train_set)\n"),
    "a metric's scheduler": ("scheduler", LOOP,
                             f"    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n{LOOP}"),
    "a checkpoint read again": ("loaded before it is saved", "    torch.save(",
                                '    torch.load("best.pt")\n    torch.save('),
    "training data evaluated": ("only trained or evaluated", LOOP,
                                f"{LOOP}        evaluate(model, train_loader, device, epoch)\n"),
    "a dict of loaders": ("not made, and named", "    train_loader = ", "    loaders['train'] = train_loader = "),
    "epochs in a while": ("count its epochs", LOOP, "    epoch = 0\n    while epoch < 3:\n        epoch += 1\n"),
    "main returns": ("returns something", LOOP, f"    if not train_set:\n        return\n{LOOP}"),
    "two runs": ("script's own course", "    main()\n", "    main()\n    main()\n"),
    "questions about the class": ("elsewhere too", LOOP, f"    print(isinstance(model, nn.DataParallel))\n{LOOP}"),
}

REWRITTEN = {
    "plain": ("", ""),
    "on the device before": (WRAP + "    model.to(device)\n", "    model.to(device)\n" + WRAP),
    "moved at once": (WRAP + "    model.to(device)\n", "    model = nn.DataParallel(model).cuda()\n"),
    "all GPUs": ("nn.DataParallel(model)", "nn.DataParallel(model, device_ids=[0, 1, 2])"),
    "with several GPUs": (WRAP, f"    if torch.cuda.device_count() > 1:\n    {WRAP}"),
    "by position": ("batch_size=16, shuffle=SHUFFLE", "16, SHUFFLE"),
    "without shuffle": (", shuffle=SHUFFLE", ", drop_last=True"),
    "not guarded": ('if __name__ == "__main__":\n    main()', "main()"),
    "a mean that is asked for": ("Loss()", 'Loss(reduction="mean")'),
    "a mean by hand": (LOSS, "(model(points)[:, 0] - labels).pow(2).mean()"),
    "a part of the epochs": ("        accuracy = evaluate(", "        accuracy = 0 if epoch % 2 else evaluate("),
    "resumed": (LOOP, f'    model.module.load_state_dict(torch.load("last.pt", map_location=device))\n{LOOP}'),
}


def changed(old: str, new: str) -> dict[str, bytes]:
    assert old in SCRIPT
    return {"train.py": SCRIPT.replace(old, new).replace("SHUFFLE", "True").encode()}


@pytest.mark.parametrize("name", REFUSED)
def test_no_half_rewrite(name: str, tmp_path: Path) -> None:
    reason, old, new = REFUSED[name]
    findings = Project(tmp_path, rule, {}).run(changed(old, new)).findings
    assert findings
    for finding in findings:
        assert finding.fix is None
        assert finding.help is not None
        assert reason in finding.help
        assert len(finding.help) <= 200


@pytest.mark.parametrize("name", REWRITTEN)
def test_whole_rewrite(name: str, tmp_path: Path) -> None:
    [finding] = Project(tmp_path, rule, {}).run(changed(*REWRITTEN[name])).findings
    assert finding.fix is not None, finding.help
    assert finding.fix.applicability is Applicability.UNSAFE

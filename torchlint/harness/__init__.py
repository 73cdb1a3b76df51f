"""The runtime harness: what a fix does to a training run, measured. torch runs in child processes only.

``arms`` makes the two trees, before and after the fixes; ``inject`` is what a child process runs
beside the program; ``runs`` starts the children in turn; ``statistics`` and ``verdicts`` judge what
they recorded; ``loops`` knows the reference loops; ``reports`` says it in words, figures and curves.
"""

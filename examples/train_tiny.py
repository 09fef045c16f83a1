"""Train a tiny model from scratch on the expert's episodes, then let it play. Needs `.[train]`.

    python examples/train_tiny.py [FOLDER]

A minute on a CPU. The model is far too small and too shortly trained to be any good: it shows how
the parts fit together.
"""

import sys
from pathlib import Path

from orchestrator import sample
from training import bc

RECIPE = """
epochs = 2
device = "cpu"
[model]
precision = "float32"
init = { hidden_size = 64, layers = 2, heads = 2, context = 2048, tokenizer.vocab_size = 600 }
[data]
context = 2048
[[data.sources]]
path = "{data}"
only_success = true
[optimizer]
lr = 3e-3
"""


def main(folder: Path) -> int:
    expert, out = folder / "expert", folder / "bc"
    played = ["--env", "wordle", "--policy", "expert", "--split", "train", "--episodes", "60"]
    if sample.main([*played, "--out", str(expert)]):
        return 1
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE.replace("{data}", str(expert)))
    if bc.main([str(recipe), "--out", str(out)]):
        return 1
    model = ["--policy", "embedded", "--model", str(out / "final"), "--max-new-tokens", "32"]
    few = ["--env", "wordle", "--episodes", "4", "--max-rounds", "2"]
    return sample.main([*model, *few, "--out", str(folder / "trained")])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/example-train")))

"""`planted methods` prints the cards, all of them, in the order of "auto"."""

from __future__ import annotations

import json
import subprocess
import sys

from typer.testing import CliRunner

import planted
from planted.cli import app


def test_the_table_shows_every_method_in_order() -> None:
    result = CliRunner().invoke(app, ["methods"])
    assert result.exit_code == 0 and result.stderr == ""
    places = [result.stdout.index(f"│ {name} ") for name in planted.methods()]
    assert places == sorted(places)
    assert "m >= k" in result.stdout and "mean-zero" in result.stdout
    below = " ".join(result.stdout.partition("└")[2].split())
    for name, card in planted.methods().items():  # what a method takes beside ReLU units and numbers
        others = [*card.activations[1:], *card.likelihoods[1:]]
        assert (f"{name}: also units" in below) == bool(others) and all(each in below for each in others)


def test_the_cards_as_json() -> None:
    cards = json.loads(CliRunner().invoke(app, ["methods", "--json"]).stdout)
    assert list(cards) == list(planted.methods())
    for name, card in planted.methods().items():
        assert cards[name]["guarantee"] == card.guarantee.name
        assert (cards[name]["inputs"], cards[name]["outputs"]) == (card.input_law, card.n_outputs)
        assert cards[name]["activations"] == list(card.activations)
    assert cards["restarts"]["takes_weights"] is True


def test_listing_methods_loads_none_of_them() -> None:
    script = (
        "import sys\nfrom planted.cli import main\nsys.argv = ['planted', 'methods']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('LOADED', *(name for name in sys.modules if name.startswith('planted.methods.')))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = run.stdout.splitlines()[-1].split()
    assert loaded[0] == "LOADED"
    assert all(name.startswith("planted.methods.cards") for name in loaded[1:])

"""What every method's package and card have in common; a new method is included by being there."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from numpydoc.docscrape import FunctionDoc

import planted
from planted.fitting._run import MethodRun
from planted.methods import cards
from planted.outcomes import BadInputError, Guarantee
from planted.recovery._registry import find_method
from planted.results import Recovery

METHODS = sorted(planted.methods())
FORMS = ("centred", "uncentred", "clipped")
PARTS = ("Problem", "Idea", "Guarantee")


def package_of(method: str) -> ModuleType:
    """Return the package of a method."""
    return import_module(f"planted.methods.{method.replace('-', '_')}")


def test_every_card_has_a_package_and_every_package_a_card() -> None:
    folder = Path(cards.__file__).parents[1]
    packages = {entry.name for entry in pkgutil.iter_modules([str(folder)]) if entry.ispkg} - {"cards"}
    assert packages == {name.replace("-", "_") for name in METHODS}
    assert packages == {entry.name for entry in pkgutil.iter_modules(cards.__path__)}


@pytest.mark.parametrize("name", METHODS)
def test_a_card_is_filled_in(name: str) -> None:
    card = planted.methods()[name]
    assert card.method == name and re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
    assert card.summary and card.samples and card.activations
    assert card.input_law in ("any", "symmetric", "gaussian")
    assert card.noise in ("none", "mean-zero", "sparse", "any")
    assert card.form in FORMS and isinstance(card.guarantee, Guarantee)
    assert re.fullmatch(r"m (>|>=|=) (\d+|k)", card.n_outputs)
    assert card.predict_samples(10, 5, 5, is_noisy=False) > 0


def test_the_order_of_auto_is_decided_by_the_cards() -> None:
    orders = [card.order for card in planted.methods().values()]
    assert orders == sorted(set(orders)), "two methods with one place"


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_one_function_whose_options_are_keywords(name: str) -> None:
    recover = package_of(name).recover
    assert "recover" in package_of(name).__all__
    first, second, *options = inspect.signature(recover).parameters.values()
    assert (first.name, second.name, second.default) == ("run", "n_hidden", "auto")
    assert all(option.kind is option.KEYWORD_ONLY for option in options)
    assert all(option.default is not option.empty for option in options), "an option without a default"
    hints = inspect.get_annotations(recover, eval_str=True)
    assert hints["run"] is MethodRun and hints["return"] is Recovery
    names = {option.name for option in options}
    assert find_method(name).options == tuple(
        option.name for option in options if option.name != "activation"
    )
    assert "activation" in names or len(planted.methods()[name].activations) == 1


@pytest.mark.parametrize("name", METHODS)
def test_a_method_documents_each_of_its_options(name: str) -> None:
    recover = package_of(name).recover
    documented = FunctionDoc(recover)["Parameters"]
    assert [entry.name for entry in documented] == list(inspect.signature(recover).parameters)
    assert all(entry.type and " ".join(entry.desc).strip() for entry in documented)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_explains_itself(name: str) -> None:
    text = inspect.getdoc(package_of(name)) or ""
    absent = [part for part in PARTS if part.lower() not in text.lower()]
    assert absent == [], f"the docstring of {name} says nothing of {absent}"


@pytest.mark.parametrize("name", METHODS)
def test_an_unknown_option_is_refused_by_name(name: str) -> None:
    with pytest.raises(BadInputError, match=f"'{name}' has no option no_such_option"):
        planted.recover([[1.0], [2.0]], [1.0, 2.0], method=name, no_such_option=1)

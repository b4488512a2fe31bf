"""Modules are found under the names that they had in 0.1.0, with a warning that says today's."""

import importlib
import sys

import pytest

from seq2seq_suite.common.old_names import PACKAGE, RENAMED
from seq2seq_suite.options.search import Search


@pytest.mark.parametrize("name", RENAMED)
def test_a_renamed_module_has_what_its_successors_have_and_says_their_names(name, monkeypatch):
    monkeypatch.delitem(sys.modules, f"{PACKAGE}.{name}", raising=False)
    with pytest.warns(DeprecationWarning) as warned:
        module = importlib.import_module(f"{PACKAGE}.{name}")
    monkeypatch.delitem(sys.modules, f"{PACKAGE}.{name}")
    for today in RENAMED[name]:
        assert any(f"{PACKAGE}.{today}" in str(one.message) for one in warned)
        here = importlib.import_module(f"{PACKAGE}.{today}")
        public = {key: value for key, value in vars(here).items() if key[0] != "_"}
        assert {key: getattr(module, key) for key in public} == public


def test_a_module_that_was_never_there_is_not_found():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"{PACKAGE}.never")


def test_a_search_of_0_1_0_finds_the_options_that_it_annotates(monkeypatch):
    for name in ("search", "beam", "sampling"):
        monkeypatch.delitem(sys.modules, f"{PACKAGE}.strategies.{name}", raising=False)
        with pytest.warns(DeprecationWarning):
            module = importlib.import_module(f"{PACKAGE}.strategies.{name}")
        monkeypatch.delitem(sys.modules, f"{PACKAGE}.strategies.{name}")
        assert module.SearchOptions is Search

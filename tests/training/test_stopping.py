"""A signal is a request; a second one acts as usual."""

import signal

import pytest

from seq2seq_suite.common.errors import Interrupted
from seq2seq_suite.training.stopping import StopRequest


def test_a_stop_request_waits_and_a_second_signal_acts_as_usual():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background a shell has it ignored
    with StopRequest().listening() as stop:
        stop.raise_if_set()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted, match="SIGINT"):
            stop.raise_if_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

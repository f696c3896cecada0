"""The exceptions a user is meant to read."""


class InputError(ValueError):
    """Something that came from outside is not usable: what came, what is allowed, what to do.

    The command line prints its message without a traceback and exits with status 2.
    """


class RunError(RuntimeError):
    """The run failed elsewhere, in another process: its message says where, and a traceback of this one would not.

    The command line prints its message without a traceback and exits with status 1.
    """


class SaidByFirstError(InputError):
    """Of several processes the first has the message for the user; the others end with this one, in silence."""


class LostProcessError(RunError):
    """Another process that shares the work has ended, or does not answer in time."""

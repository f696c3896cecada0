"""The exceptions a user is meant to read."""


class InputError(ValueError):
    """Something that came from outside is not usable: what came, what is allowed, what to do.

    The command line prints its message without a traceback and exits with status 2.
    """


class RunError(RuntimeError):
    """The run failed elsewhere, in another process: its message says where, and a traceback of this one would not.

    The command line prints its message without a traceback and exits with status 1.
    """

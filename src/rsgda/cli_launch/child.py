"""One of the processes of `rsgda launch`: it joins the others, and then is the user's script."""

import contextlib
import os
import runpy
import sys
import threading
import time
import traceback

# A process that is gone is noticed by then, and all wait no longer for each other at the end.
SECONDS = 20
LOOK = 0.5  # seconds between two looks whether the launcher is still there


def main() -> None:
    """Run the script of the command line."""
    launcher = int(os.environ["RSGDA_LAUNCHER"])
    threading.Thread(target=_end_with, args=[launcher], daemon=True).start()
    import jax

    from rsgda.drive.processes import ProcessLost

    jax.distributed.initialize(
        os.environ["RSGDA_ADDRESS"],
        int(os.environ["RSGDA_PROCESSES"]),
        int(os.environ["RSGDA_PROCESS"]),
        heartbeat_timeout_seconds=SECONDS,
        shutdown_timeout_seconds=SECONDS,
    )
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    code = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt as interrupt:
        print(f"rsgda: {interrupt}", file=sys.stderr)
        code = 130
    except ProcessLost as error:
        print(f"rsgda: {error}", file=sys.stderr)
        code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    if code:
        # Whoever ends badly does not wait for the others, as JAX else does.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_with(launcher: int) -> None:
    """End when the launcher has, which may have been killed and cannot see to it any more."""
    while os.getppid() == launcher:
        time.sleep(LOOK)
    with contextlib.suppress(OSError):  # nobody may be there to read it
        print(
            "rsgda: the launcher has ended, and so all do; what was saved is safe.", file=sys.stderr
        )
        sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    main()

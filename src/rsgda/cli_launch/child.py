"""One of the processes of `rsgda launch`: it joins the others, and then is the user's script."""

import os
import runpy
import sys
import traceback

# A process that is gone is noticed by then, and all wait no longer for each other at the end.
SECONDS = 20


def main() -> None:
    """Run the script of the command line."""
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


if __name__ == "__main__":
    main()

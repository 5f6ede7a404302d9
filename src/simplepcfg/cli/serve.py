"""`simplepcfg serve`: a local page on which trained runs can be tried, and a JSON interface to them."""

import socket

from simplepcfg.cli.options import Device, Quiet, refuse_baseline
from simplepcfg.cli.output import note, write_lines
from simplepcfg.cli.requests import arg, opt
from simplepcfg.errors import InputError, ResourceError

SUMMARY = "Open a local page to try runs on."
DEFAULT_RUN = "english"  # what is served when no run is named


def command(
    runs: list[str] | None = arg("RUN", "Folders of trained runs.  [default: english]", None),
    host: str = opt("--host", "ADDRESS", "Where to listen; beyond this machine: 0.0.0.0.", "127.0.0.1"),
    port: int = opt("--port", "N", "Where to listen; 0 takes any free one.", 8000, min=0, max=65535),
    max_words: int = opt("--max-words", "N", "The longest sentence that is answered.", 80, min=2, max=1000),
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Serve a page on this machine: trees, span marginals, surprisal, next words, two runs side by side.

    Its JSON interface is described at /openapi.json. No request can read files or load other runs than those named
    here. Ctrl-C ends it.

    \b
    Example:
      simplepcfg serve
      simplepcfg serve runs/demo
      simplepcfg serve runs/demo runs/another --port 9000
    """
    from simplepcfg.pretrained import installed

    if not runs and DEFAULT_RUN not in installed():
        raise InputError("no run to serve; name the folder of a trained run, as in simplepcfg serve runs/demo")
    names = list(runs or [DEFAULT_RUN])
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise InputError("serving needs starlette and uvicorn; pip install '.[serve]' in a checkout") from None
    from simplepcfg.inference.run import load
    from simplepcfg.inference.systems import unique_names
    from simplepcfg.serving.app import LOCAL_NAMES, make_app
    from simplepcfg.serving.questions import Limits

    for name in names:
        refuse_baseline(name, "answers to serve")
    loaded = unique_names([load(name, device) for name in names])
    local = host in LOCAL_NAMES
    app = make_app(loaded, Limits(words=max_words), names=LOCAL_NAMES if local else None)
    listener = _listen(host, port)
    if not local:
        note(f"listening on {host}: whoever reaches this machine can ask these runs", quiet)
    shown = f"[{host}]" if ":" in host else host
    write_lines([f"http://{shown}:{listener.getsockname()[1]}"])
    note("Ctrl-C ends it", quiet)
    config = uvicorn.Config(
        app,
        lifespan="off",  # the app has none, and a second Ctrl-C would print its traceback
        log_level="warning",
        access_log=False,
        limit_concurrency=1024,
        timeout_keep_alive=5,
        server_header=False,
    )
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        listener.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise ResourceError(f"cannot listen on {host}:{port} ({reason}); give another --host or --port") from None
    return listener

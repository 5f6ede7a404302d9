"""Triton's interpreter without the work it repeats: the same arithmetic in about half the time.

At every launch and at every call of a device function, the interpreter lists all members of `triton.language` to
replace its builtin functions, and it makes the table of NumPy types anew for every tensor. Both are done once here. A
process of the interpreter compiles no kernel, so that the replaced functions can stay in place.
"""

import importlib.util
import os
from functools import cache
from types import SimpleNamespace


def speed_up() -> None:
    """Change the interpreter of this process; do nothing where kernels are compiled, or without Triton."""
    if os.environ.get("TRITON_INTERPRET") != "1" or importlib.util.find_spec("triton") is None:
        return
    import triton.language as tl
    from triton.runtime import interpreter

    if hasattr(interpreter, "_patched_once"):
        return
    interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    nothing_to_restore = interpreter._LangPatchScope()
    interpreter._patch_lang = lambda fn: nothing_to_restore
    of_numbers, of_pointers = cache(interpreter._get_np_dtype), interpreter._get_np_dtype(tl.pointer_type(tl.int8))
    interpreter._get_np_dtype = lambda given: of_pointers if given.scalar.is_ptr() else of_numbers(given.scalar)
    interpreter._patched_once = True

"""``python -m torch_slang check FILE.slang``: compares the derivatives of each operator with each other."""

from __future__ import annotations

import argparse
import sys

from torch_slang.checks.audits import check_file


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_slang", description="Tools of torch_slang.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check",
        help="compare the derivatives of a file's operators",
        description="Compares each operator's backward and double backward with its forward derivative and with "
        "central differences (docs/audit.md), with arguments drawn from its shapes. The exit status is 1 if one is "
        "wrong, 2 if the file does not compile.",
    )
    check.add_argument("file", help="a .slang file")
    check.add_argument("-D", dest="defines", action="append", default=[], metavar="NAME[=VALUE]", help="define a macro")
    check.add_argument(
        "-I", dest="folders", action="append", default=[], metavar="FOLDER", help="search included files here too"
    )
    check.add_argument("--device", default="cpu", help="where the operators are called; audits run on the CPU")
    options = parser.parse_args(given)
    defines = dict(define.partition("=")[::2] for define in options.defines)
    return check_file(options.file, {n: v or "1" for n, v in defines.items()}, options.folders, options.device)


if __name__ == "__main__":
    sys.exit(main())

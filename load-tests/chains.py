"""Chains that several servers import, so that all answer from the same blocks."""

import subprocess
import sys

from servers import ROOT, TARGET, VECTORS, WORK


def files_of(genesis, chain):
    """nearhead's options that import this chain."""
    return ["--source", "files", "--genesis", str(genesis), "--chain", str(chain)]


def prepare_chain(name, blocks=140):
    """Paths of the genesis and blocks of execution-apis, or of a profile of the dev chain."""
    if name == "execution-apis":
        subprocess.run([str(ROOT / "tests/setup"), "vectors"], check=True)
        return VECTORS / "genesis.json", VECTORS / "chain.rlp"
    stem = name if blocks == 140 else f"{name}-{blocks}"
    genesis, chain = WORK / f"{stem}.genesis.json", WORK / f"{stem}.chain.rlp"
    program = TARGET / "release/nearhead"
    # A newer build may produce a different chain.
    if not chain.exists() or chain.stat().st_mtime < program.stat().st_mtime:
        print(f"exporting the {name} chain", file=sys.stderr)
        subprocess.run(
            [
                str(program),
                "export",
                "--profile",
                name,
                "--blocks",
                str(blocks),
                "--genesis",
                str(genesis),
                "--chain",
                str(chain),
            ],
            check=True,
        )
    return genesis, chain

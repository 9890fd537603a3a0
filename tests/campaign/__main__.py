"""`make campaign`: everything real, disturbed for a while; ends with what is broken, exit code 1 if anything is.

make campaign ARGS="--minutes 2 --seed 7"
make campaign ARGS="--messages 1000000 --kills 300 --batch 100 --seed 7"
make campaign ARGS="--resume FOLDER"          an interrupted one goes on
make campaign ARGS="--judge FOLDER"           one that has ended is judged again
make campaign ARGS="--schedule --seed 7"      prints what would be done
make campaign ARGS="--without lease"          without a safeguard, to see that it is missed
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from tests.campaign import plan as plans
from tests.campaign import report, safeguards, schedule
from tests.campaign.campaign import Campaign, Interrupted, keep_result
from tests.campaign.evidence import gather
from tests.campaign.journal import EPOCH, epoch
from tests.campaign.judge import judge
from tests.campaign.languages import LANGUAGES
from tests.campaign.plan import FEW, SMALL, Plan
from tests.campaign.stage import ROOT, StageError

FOLDER = ROOT / ".campaign"


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make campaign", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--seed", type=int, help="what goes wrong and when, and what is sent (default: drawn)")
    add("--minutes", type=float, help="end after so much time with disturbances (default: 20)")
    add("--messages", type=int, help="end once so many messages were accepted, and the kills reached")
    add("--kills", type=int, help="end once so many processes were killed, and the messages reached")
    add("--senders", type=int, help="processes that send (default: 4)")
    add("--gatewayed", type=int, help="further processes that send through a gateway (default: none)")
    add("--languages", help=f"the same with the SDKs for these, separated by commas: {', '.join(LANGUAGES)}")
    add("--receivers", type=int, help="processes that receive (default: 2)")
    add("--rate", type=float, help="sends a second of each (default: 4)")
    add("--batch", type=int, help=f"messages of a list or batch at most (default: {FEW})")
    add("--crowd", type=int, help="queues that outages are of (default: 200)")
    add("--gap", type=float, dest="gap_s", metavar="S", help="mean time between two disturbances (default: 4)")
    add("--kinds", help=f"only these kinds of disturbances, separated by commas: {', '.join(schedule.KINDS)}")
    add("--small", action="store_true", help="two minutes with fewer processes, on SQLite")
    add("--without-control-plane", action="store_true", help="two processes of the library drain instead of workers")
    add("--folder", type=Path, help="keep everything here (default: a new folder in .campaign)")
    add("--resume", type=Path, metavar="FOLDER", help="go on with an interrupted campaign")
    add("--judge", type=Path, metavar="FOLDER", help="judge a campaign again that has ended")
    add("--schedule", action="store_true", help="print the schedule of the first minutes, and end")
    add("--without", choices=sorted(safeguards.SAFEGUARDS), help="run a copy that lacks this safeguard")
    return parser


def plan_of(given: argparse.Namespace) -> Plan:
    """The plan that the arguments ask for."""
    base = SMALL if given.small else Plan(seed=0)
    names = ("minutes", "messages", "kills", "senders", "gatewayed", "receivers", "rate", "batch", "crowd", "gap_s")
    changes: dict[str, Any] = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    changes["seed"] = given.seed if given.seed is not None else secrets.randbelow(1_000_000)
    changes |= {name: tuple(each.split(",")) for name in ("kinds", "languages") if (each := getattr(given, name))}
    if given.without_control_plane:
        changes["has_control_plane"] = False
    return replace(base, **changes, without=given.without or "")


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def main() -> int:
    given = parser().parse_args()
    if given.judge:
        return conclude(given.judge, {})
    try:
        plan = plan_of(given)
    except ValueError as error:
        parser().error(str(error))
    if given.schedule:
        shown = takewhile(lambda one: one.at_s < plan.minutes * 60, schedule.disturbances(plan))
        print("\n".join(map(str, shown)))
        return 0
    folder = given.resume or given.folder or FOLDER / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{plan.seed}"
    folder = folder.absolute()
    if given.resume:
        plan = plans.kept(folder)
    else:
        folder.mkdir(mode=0o700, parents=True)
        plans.keep(plan, folder)
    if plan.without and not os.environ.get(safeguards.COPY):
        return safeguards.run_copy(plan.without, folder)
    return run(plan, folder)


def run(plan: Plan, folder: Path) -> int:
    """Run it to the end; 130 if it was interrupted."""
    os.environ[EPOCH] = epoch()
    say(f"campaign {folder}, seed {plan.seed}")
    began = time.time()
    try:
        notes = Campaign(plan, folder, say).run()
    except Interrupted:
        say(f'interrupted; go on with: make campaign ARGS="--resume {folder}"')
        return 130
    except StageError as error:
        say(f"error: {error}")
        return 2
    return conclude(folder, {"not tried": notes, "took (s)": round(time.time() - began)})


def conclude(folder: Path, more: dict[str, Any]) -> int:
    """Judge it, and say what is broken."""
    plan, evidence = plans.kept(folder), gather(folder)
    findings = judge(evidence)
    head = {"folder": folder, "seed": plan.seed, "commit": commit(), "without": plan.without or "nothing"}
    head |= more | {"load (1, 5, 15 min)": ", ".join(f"{one:.1f}" for one in os.getloadavg())}
    reached = report.sizes(evidence)
    print(report.table(head, reached, findings), flush=True)
    listed = [[one.check, one.about, one.text] for one in findings]
    keep_result(folder, json.loads(json.dumps({**head, **reached, "findings": listed}, default=str)))
    return 1 if findings else 0


def commit() -> str:
    """The commit of this checkout, with a `+` if files differ from it."""
    asked = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or os.environ.get("CAMPAIGN_COMMIT", "unknown")


if __name__ == "__main__":
    sys.exit(main())

"""Performs the schedule: begins and ends each disturbance, and has both in a journal for the judge."""

import time
import urllib.error
from collections.abc import Callable
from typing import Any

import redis

from tests.campaign import clocks, crowd
from tests.campaign.journal import Journal, now
from tests.campaign.plan import ENTITIES
from tests.campaign.schedule import Disturbance, names, routes
from tests.campaign.stage import Stage

OPERATOR, PROCESS = "campaign", "campaign"


class Actions:
    """What is disturbed at the moment."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._processes = stage, stage.processes
        self._journal = Journal(stage.folder / "windows.jsonl")
        self._under_way: list[tuple[float, Disturbance]] = []
        self._deploying: list[tuple[float, str]] = []
        """When, and which process."""
        self._faults: dict[int, tuple[str, str]] = {}
        self._attacks: dict[int, list[str]] = {}
        self._owed: list[tuple[str, ...]] = []
        """Requests of the operator that end what others began, and were not answered yet."""
        self.performed: dict[str, int] = {}
        self.skipped: dict[str, int] = {}
        if clocks.library() is None:
            stage.notes.append("libfaketime is not installed here: steps of clocks were not tried")
        if not stage.disks.can_be_filled:
            stage.notes.append("small disks cannot be mounted here: full disks were not tried")

    def begin(self, disturbance: Disturbance) -> None:
        """Begin one; what cannot be done now (the process is down already) is skipped and counted."""
        done = getattr(self, f"_begin_{disturbance.kind}")(disturbance)
        counts = self.performed if done else self.skipped
        counts[disturbance.kind] = counts.get(disturbance.kind, 0) + 1
        if not done:
            return
        self._note("began", disturbance)
        if disturbance.lasts_s and disturbance.kind != "kill":
            self._under_way.append((time.monotonic() + disturbance.lasts_s, disturbance))
        else:
            self._note("over", disturbance)

    def _note(self, kind: str, one: Disturbance) -> None:
        details = {"number": one.number, "what": one.kind, "target": one.target, "details": one.details}
        self._journal.write({"kind": kind, "at": now(), **details})

    def check(self) -> None:
        """End what is over, and go on with what takes several steps."""
        at = time.monotonic()
        for over in [one for one in self._under_way if one[0] <= at]:
            self._under_way.remove(over)
            self._end(over[1])
        for due in [one for one in self._deploying if one[0] <= at]:
            self._deploying.remove(due)
            self._processes.replace(due[1])
        self._owed = [request for request in self._owed if not self._request(*request)]

    def end_all(self) -> None:
        """Everything works from now on, as soon as `check` has nothing owed any more."""
        for _, disturbance in self._under_way:
            self._end(disturbance)
        self._under_way.clear()
        for route in routes(self._stage.plan):
            self._stage.disturb_network(route=route, effect="mend")
        for name in ("primary", "secondary"):
            self._stage.disks.clear(name)
            self._clear_faults(name)
        for entity in ENTITIES:
            self._owed += [("resume-syphon", entity), ("mark-healthy", entity)]
        if self._stage.plan.crowd:
            self._owed.append(("mark-healthy", *crowd.names(self._stage.plan.crowd)))

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is disturbed, and every request of the operator was answered."""
        return not (self._under_way or self._deploying or self._owed)

    def close(self) -> None:
        self._journal.close()

    def _end(self, disturbance: Disturbance) -> None:
        ended: Callable[[Disturbance], Any] = getattr(self, f"_end_{disturbance.kind}")
        ended(disturbance)
        self._note("over", disturbance)

    # ------------------------------------------------------------------------------------------------------------------

    def _begin_kill(self, one: Disturbance) -> bool:
        return self._processes.kill(one.target, one.lasts_s)

    def _begin_freeze(self, one: Disturbance) -> bool:
        return self._processes.freeze(one.target)

    def _end_freeze(self, one: Disturbance) -> None:
        self._processes.thaw(one.target)

    def _begin_network(self, one: Disturbance) -> bool:
        if any(other.kind == "network" and other.target == one.target for _, other in self._under_way):
            return False
        self._stage.disturb_network(route=one.target, **one.details)
        return True

    def _end_network(self, one: Disturbance) -> None:
        self._stage.disturb_network(route=one.target, effect="mend")

    def _begin_fault(self, one: Disturbance) -> bool:
        try:
            answer = self._stage.ask_namespace(one.target, "POST", "faults", one.details | {"seconds": one.lasts_s})
        except OSError:  # it is down or frozen
            return False
        self._faults[one.number] = one.target, str(answer["id"])
        return True

    def _end_fault(self, one: Disturbance) -> None:
        """A fault also ends by itself, so a namespace that does not answer now need not be asked again."""
        name, fault = self._faults.pop(one.number)
        try:
            self._stage.ask_namespace(name, "DELETE", f"faults/{fault}")
        except OSError:
            return

    _begin_detach, _end_detach = _begin_fault, _end_fault

    def _clear_faults(self, name: str) -> None:
        try:
            self._stage.ask_namespace(name, "DELETE", "faults")
        except OSError:
            return

    def _begin_operate(self, one: Disturbance) -> bool:
        return self._request(one.details["begins"], one.target)

    def _end_operate(self, one: Disturbance) -> None:
        self._owed.append((one.details["ends"], one.target))

    def _begin_deploy(self, one: Disturbance) -> bool:
        for turn, name in enumerate(names(self._stage.plan)[one.target]):
            self._deploying.append((time.monotonic() + turn * one.details["pause_s"], name))
        return True

    def _begin_clock(self, one: Disturbance) -> bool:
        library = clocks.library()
        if library is None:
            return False
        self._processes.replace(one.target, **clocks.stepped(library, one.details["step_s"]))
        return True

    def _end_clock(self, one: Disturbance) -> None:
        self._processes.replace(one.target, **clocks.SAME)

    def _begin_disk(self, one: Disturbance) -> bool:
        return self._stage.disks.fill(one.target)

    def _end_disk(self, one: Disturbance) -> None:
        self._stage.disks.clear(one.target)

    def _begin_outage(self, one: Disturbance) -> bool:
        """Its entities are failed over by an operator; of those that are not held, the pings are not answered."""
        outage, stage = one.details["outage"], self._stage
        entities = crowd.group(one.target, outage, stage.plan.crowd)
        if not (stage.answers("primary") and self._request("fail-over", *entities)):
            return False
        if one.target == "deleted":
            stage.delete_queues(entities)
        elif one.target != "held":
            faults = [fault | {"entity": entity} for entity in entities for fault in crowd.ATTACK]
            added = [stage.ask_namespace("primary", "POST", "faults", fault) for fault in faults]
            self._attacks[one.number] = [str(answer["id"]) for answer in added]
        if one.target != "held":
            self._owed.append(("release", *entities))
        if one.target == "back":  # the last one
            stage.write(crowd.FILE, str(outage + 1))
        return True

    def _end_outage(self, one: Disturbance) -> None:
        if one.target == "deleted":
            self._stage.make_crowd()
        elif one.target == "held":
            self._owed.append(("release", *crowd.group("held", one.details["outage"], self._stage.plan.crowd)))
        for fault in self._attacks.pop(one.number, ()):
            self._stage.ask_namespace("primary", "DELETE", f"faults/{fault}")

    # the operator -----------------------------------------------------------------------------------------------------

    def _request(self, verb: str, *entities: str) -> bool:
        """Whether it was answered: through the API, or where there is none as the API does it."""
        if not self._stage.plan.has_control_plane:
            return all(self._change(verb, entity) for entity in entities)
        about = {"target": entities[0]} if verb.endswith("syphon") else {"paths": entities}
        try:
            self._stage.ask_api("POST", f"/pairs/contoso/{verb}", about | {"reason": "campaign"})
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code in (404, 409, 422)  # there is nothing to do
        except (OSError, ValueError):
            return False
        return True

    def _change(self, verb: str, entity: str) -> bool:
        shared, who = self._stage.shared, {"operator": OPERATOR, "process": PROCESS}
        try:
            match verb:
                case "fail-over":
                    shared.fail_over(entity, "campaign", **who)
                case "release":
                    shared.release(entity, **who)
                case "mark-healthy":
                    shared.mark_healthy(entity, **who)
                case "pause-syphon":
                    shared.pause_syphon(entity, operator=OPERATOR, reason="campaign")
                case "resume-syphon":
                    shared.resume_syphon(entity)
        except redis.RedisError:
            return False
        return True

"""The report of an examination as JSON (docs/findings.md, docs/doctor.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kproxy.base.diagnostic import to_json
from kproxy.base.faults import Fault
from kproxy.inspect.doctor.command_trials import TrialResult
from kproxy.inspect.doctor.evidence import Contact, Examination, ExaminationStep
from kproxy.inspect.doctor.findings import DoctorDiagnostic
from kproxy.inspect.doctor.intent_checks import coordinator_of
from kproxy.inspect.doctor.report import DoctorReport, not_checked, symptom_of
from kproxy.protocol.wire.errorcodes import error_name


def as_json(reports: Sequence[DoctorReport]) -> str:
    """Return all reports; for one cluster the object itself, for several a list of them."""
    values = [_value(report) for report in reports]
    return json.dumps(values[0] if len(values) == 1 else values, indent=2)


def _value(report: DoctorReport) -> dict[str, Any]:
    examination = report.second_examination or report.examination
    asked = examination.answering
    verdict = "healthy" if report.healthy else "problems" if report.problems else "unchecked"
    return {
        "name": report.name,
        "verdict": verdict,
        "asked": [str(contact.name) for contact in examination.bootstrap],
        "steps": [_step(step) for step in report.steps],
        "cluster": asked
        and asked.identity
        and {
            "id": asked.cluster_id,
            "controller": examination.contents and examination.contents.controller_id,
            "features": dict(asked.features),
        },
        "bootstrap": [_contact(contact) for contact in report.examination.bootstrap],
        "nodes": [_contact(contact) for contact in examination.nodes],
        "without_kproxy": [_contact(contact) for contact in examination.direct_contacts],
        "kproxy": examination.neighbour and asdict(examination.neighbour),
        "client": _intent(examination),
        "findings": [_finding(finding) for finding in report.findings],
        "works_now": _tried(report.trial.best) if report.trial and report.trial.best else None,
        "not_checked": not_checked(report),
    }


def _intent(examination: Examination) -> dict[str, Any]:
    """Return what the client is going to do, and what brokers answered to it."""
    intent, coordinator = examination.intent, coordinator_of(examination)
    return {
        "topic": intent.topic,
        "group": intent.group,
        "acks": intent.acks,
        "coordinator": None if coordinator is None else coordinator.node_id,
        "reads": {str(partition): error_name(code) for partition, code in sorted(examination.reads.items())},
        "min_in_sync": examination.min_in_sync,
    }


def _step(step: ExaminationStep) -> dict[str, Any]:
    return asdict(step) | {"seconds": round(step.seconds, 4)}


def _contact(contact: Contact) -> dict[str, Any]:
    key = contact.expected or (contact.identity.key if contact.identity else None)
    certificate = contact.certificate
    return {
        "id": None if key is None else key.node_id,
        "kind": None if key is None else key.kind.value,
        "advertised": contact.advertised and str(contact.advertised),
        "dialled": str(contact.address),
        "resolved": contact.resolved,
        "verdict": "ok" if contact.is_right else "failed",
        "reason": contact.reason,
        "problem": contact.problem,
        "spoken": contact.protocol,
        "mechanisms": contact.mechanisms,
        "certificate": certificate
        and {
            "names": certificate.names,
            "issuer": certificate.issuer,
            "not_before": certificate.not_before.isoformat(),
            "not_after": certificate.not_after.isoformat(),
        },
        "proof": contact.identity.proof.value if contact.identity and contact.identity.proof else None,
        "steps": [_step(step) for step in contact.steps],
    }


def _finding(finding: DoctorDiagnostic) -> dict[str, Any]:
    symptom = symptom_of(finding)
    messages = () if symptom.behaviour or finding.fault is Fault.HOP_FAILED else symptom.messages
    return to_json(
        finding,
        subjects=list(finding.subjects),
        symptom=finding.symptom,
        whose=finding.responsible.value,
        line=finding.line,
        advice=finding.advice,
        unsaid=symptom.behaviour,
        messages=[{"program": message.program.value, "text": message.text} for message in messages],
    )


def _tried(result: TrialResult) -> dict[str, Any]:
    return {
        "command": result.line.words(),
        "tried": True,
        "works": result.works,
        "reached": result.reached,
        "nodes": result.nodes,
        "bootstrap": None if result.listen is None else str(result.listen),
        "problem": result.problem,
    }

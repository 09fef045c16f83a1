"""Whether the records of a run can be believed: every record is checked, a certificate written.

python -m orchestrator.audit RUN

episodes       checks that need the record and the manifest alone
tokens         checks of its tokens: the record, the chat template (`--tokenizer`), the engine
(`--engine`)
certificate    the walk over a run and the certificate `audit.json`: which checks were made on
how many episodes, what each found, and digests of what was audited
command        flags and output; exit code 1 where anything is wrong
"""

from orchestrator.audit.command import CERTIFICATE_FILE, AuditOptions, main
from orchestrator.audit.run import AuditResult, audit_run, certificate, score_run

__all__ = [
    "CERTIFICATE_FILE",
    "AuditOptions",
    "AuditResult",
    "audit_run",
    "certificate",
    "main",
    "score_run",
]

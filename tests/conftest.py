"""Settings of the whole suite that must be there before anything is imported."""

import atexit
import os
import shutil
import tempfile

# Matrix products of tiny models: a second thread of NumPy's would only wait for the first, busily.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# The key that signs runs: not the developer's own.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="agentgym-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

pytest_plugins = ("tests.kit.servers",)

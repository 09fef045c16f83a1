"""Settings of the whole suite that must be there before anything is imported."""

import os

# Matrix products of tiny models: a second thread of NumPy's would only wait for the first, busily.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

pytest_plugins = ("tests.kit.servers",)
